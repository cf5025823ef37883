//! `pkm related`

use anyhow::Result;
use pkm_engine::NoteId;

use super::search;
use crate::cli::{FilterArgs, Format};
use crate::config::Config;
use crate::json;
use crate::out::Out;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Related {
    /// The note
    id: i64,
    /// How many
    #[arg(long, default_value_t = 10, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Related, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
    search::settle(&engine)?;
    let answer = engine.related_notes(NoteId(args.id), args.limit, &args.filter.filter())?;
    if args.format.json {
        return Ok(out.json(&json::search_answer(&answer))?);
    }
    search::print(&answer, out)
}
