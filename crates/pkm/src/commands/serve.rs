//! `pkm serve`

use anyhow::Result;
use pkm_mcp::ServeOptions;

use crate::config::Config;
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {}

/// Answers on stdin and stdout until the client closes them.
pub(crate) fn run(_: Serve, config: &Config) -> Result<()> {
    let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(pkm_mcp::serve_stdio(
        engine.clone(),
        ServeOptions::default(),
    ));
    // A read of stdin cannot be interrupted: do not wait for its thread.
    runtime.shutdown_background();
    drop(engine);
    served.map_err(|error| Failure::new("the server stopped").source(error).into())
}
