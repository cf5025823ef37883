//! `pkm trash`

use anyhow::Result;

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

#[derive(Debug, clap::Args)]
pub(crate) struct Trash {
    /// How many, the last deleted first
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Trash, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let trashed = engine.trash(args.limit)?;
    if args.format.json {
        return Ok(out.json(&json::trash(&trashed))?);
    }
    for note in &trashed {
        out.line(format!(
            "{:>5}  deleted {}, gone after {}  {}",
            note.id.0,
            when::show_day(note.deleted_at),
            when::show_day(note.restorable_until),
            out::plain(&note.title)
        ))?;
    }
    if trashed.is_empty() {
        out::notice("the trash is empty");
    }
    Ok(())
}
