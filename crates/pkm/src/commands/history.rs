//! `pkm history`

use anyhow::Result;
use pkm_engine::NoteId;

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The note
    id: i64,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &History, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let id = NoteId(args.id);
    let revisions = engine.history(id)?;
    if args.format.json {
        return Ok(out.json(&json::history(id, &revisions))?);
    }
    for revision in &revisions {
        out.line(format!(
            "{:>5}  {}  {:>9}  {}",
            revision.revision,
            when::show(revision.changed_at),
            out::size(revision.size_bytes),
            out::plain(&revision.title)
        ))?;
    }
    Ok(())
}
