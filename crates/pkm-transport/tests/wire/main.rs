//! Bytes in, bytes out: what each transport answers to each kind of input, per revision.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its tests do")]

mod batches;
mod front;
mod life;
mod property;
mod support;
mod table;
mod tap;
