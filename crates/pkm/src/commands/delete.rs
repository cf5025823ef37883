//! `pkm delete`

use anyhow::Result;
use pkm_engine::NoteId;

use crate::cli::Format;
use crate::config::Config;
use crate::out::Out;
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The note
    id: i64,
    /// Only if the note is at this revision
    #[arg(long, value_name = "REVISION")]
    expect: Option<i64>,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Delete, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let deleted = engine.delete_note(NoteId(args.id), args.expect)?;
    if args.format.json {
        out.json(&json::deleted(&deleted))?;
    } else {
        out.line(format!(
            "note {} is in the trash; `pkm restore {}` brings it back until {}",
            deleted.id,
            deleted.id,
            when::show_day(deleted.restorable_until)
        ))?;
    }
    Ok(())
}
