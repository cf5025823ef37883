//! From the command line to an exit code: 0 done, 1 failed, 2 wrong usage, or that of a server which
//! `inspect` ran.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;
use crate::config::{Config, Environment};
use crate::out::Out;
use crate::report::{self, Exit, Failure};
use crate::{commands, out};

pub(crate) fn run() -> ExitCode {
    // Prints help, version and usage errors by itself, with exit codes 0 and 2.
    let cli = Cli::parse();
    let mut out = Out::stdout();
    let result = configure(&cli)
        .and_then(|config| commands::run(cli.command, &config, &mut out))
        .and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as in `pkm list | head -1`.
        Err(_) if out.is_closed() => ExitCode::SUCCESS,
        Err(error) if error.is::<Exit>() => ExitCode::from(report::exit_code(&error)),
        Err(error) => {
            // What was already said goes first, so that the two streams read in order.
            let _ = out.flush();
            out::notice(&report::render(&error));
            ExitCode::from(report::exit_code(&error))
        }
    }
}

fn configure(cli: &Cli) -> anyhow::Result<Config> {
    let config = Config::resolve(&cli.settings, &Environment::read())?;
    start_log(&config.log.value)?;
    Ok(config)
}

/// Logs go to stderr: in stdio mode stdout is the protocol.
fn start_log(directives: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::usage(format!("`{directives}` is not a log filter: {error}"))
            .hint("use a level (`error`, `warn`, `info`, `debug`, `trace`) or a filter such as `pkm_engine=debug`")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
