//! The engine spoken in MCP: tools, resources and prompts.
//!
//! [`Server`] answers requests and knows nothing of the transport; `pkm-transport` serves it.

mod blocking;
mod caller;
mod check;
mod confirm;
mod feed;
mod progress;
mod prompts;
mod resources;
mod schema;
mod server;
mod signature;
mod subscriptions;
mod tasks;
mod text;
mod tools;
mod wire;

pub use self::server::{Server, ServerOptions};
