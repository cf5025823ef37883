//! `pkm reindex`

use anyhow::Result;
use pkm_engine::ReindexScope;

use super::embedding::{self, Outcome};
use crate::cli::Format;
use crate::config::Config;
use crate::interrupt::Interrupt;
use crate::out::Out;
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Reindex {
    /// Embed everything anew, not only what is pending
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Reindex, config: &Config, out: &mut Out) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
    let scope = if args.all {
        ReindexScope::All
    } else {
        ReindexScope::Pending
    };
    let outcome = embedding::run(&engine, scope, &interrupt)?;
    if let Outcome::NoModel { reason } = outcome {
        return Err(Failure::new(format!("nothing can be embedded: {reason}")).into());
    }
    if args.format.json {
        out.json(&outcome.json())?;
    }
    outcome.conclude()
}
