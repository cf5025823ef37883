//! The `pkm` binary: commands, settings, exit codes. What notes can be asked is `pkm-engine`'s.

mod app;
mod cli;
mod commands;
mod config;
mod eval;
mod interrupt;
mod json;
mod models;
mod out;
mod progress;
mod report;
mod when;
mod wiring;

fn main() -> std::process::ExitCode {
    app::run()
}
