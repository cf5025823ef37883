//! The server as a client sees it, over a pipe in memory.

mod errors;
mod finding;
mod jobs;
mod resources;
mod schemas;
mod support;
mod writing;
