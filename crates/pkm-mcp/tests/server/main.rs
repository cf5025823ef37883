//! The server as a client sees it, over a pipe in memory.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its tests do")]

mod connector;
mod errors;
mod finding;
mod jobs;
mod resources;
mod schemas;
mod slow;
mod subscriptions;
mod support;
mod tasks;
mod trash;
mod writing;
