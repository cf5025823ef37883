//! The `pkm` binary.
fn main() {}
