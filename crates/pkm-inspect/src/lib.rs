//! What is wrong in a log of MCP messages.
//!
//! [`Inspector`] takes messages one by one, as they came over the wire, and says for each what it is
//! and what is wrong with it. [`TraceLog`] writes messages down with their time and direction, and
//! [`Entry`] reads them back; an [`Entry`] also comes from a bare message. [`Splitter`] cuts a stream
//! of bytes into lines.
//!
//! The crate knows the protocol and nothing of a server: no engine, no transport, no clock.

mod calls;
mod finding;
mod inspector;
mod lifecycle;
mod lines;
mod log;
mod message;
mod names;
mod progress;
mod redact;
mod results;
mod schema;
mod text;

#[cfg(test)]
mod tests;

pub use self::finding::{Finding, Severity};
pub use self::inspector::{Inspector, Report};
pub use self::lines::{Line, MAX_LINE_BYTES, Splitter};
pub use self::log::{Body, Entry, TraceLog};
pub use self::names::Direction;
pub use self::redact::Redaction;
pub use self::schema::KnownTools;
pub use self::text::cut;
