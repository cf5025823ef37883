//! `pkm restore`

use anyhow::Result;
use pkm_engine::NoteId;

use crate::cli::Format;
use crate::config::Config;
use crate::json;
use crate::out::Out;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The note
    id: i64,
    /// The revision to go back to; without it, the note comes out of the trash as it was
    #[arg(long)]
    revision: Option<i64>,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Restore, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let written = engine.restore_note(NoteId(args.id), args.revision)?;
    if args.format.json {
        out.json(&json::written(&written))?;
    } else {
        let what = match args.revision {
            Some(revision) => format!("note {} is as it was at revision {revision}", written.id),
            None => format!("note {} is out of the trash", written.id),
        };
        out.line(format!("{what}, now revision {}", written.revision))?;
    }
    Ok(())
}
