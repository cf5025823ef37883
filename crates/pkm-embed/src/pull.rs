//! Placeholder.
/// Options.
#[derive(Debug, Clone)]
pub struct PullOptions {}
/// Progress.
#[derive(Debug, Clone)]
pub struct PullProgress {}
