//! `pkm get`

use std::io::{IsTerminal, Write};

use anyhow::Result;
use pkm_engine::NoteId;

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The note
    id: i64,
    /// As it was at this revision; `pkm history` shows them
    #[arg(long, value_name = "REVISION")]
    revision: Option<i64>,
    #[command(flatten)]
    format: Format,
}

/// Prints the content byte for byte, so that it can go into a file or another program.
pub(crate) fn run(args: &Get, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    if let Some(revision) = args.revision {
        let former = engine.get_revision(NoteId(args.id), revision)?;
        if args.format.json {
            return Ok(out.json(&json::note_revision(&former))?);
        }
        out.write_all(former.content.as_bytes())?;
        return Ok(());
    }
    let note = engine.get_note(NoteId(args.id))?;
    if args.format.json {
        return Ok(out.json(&json::note(&note))?);
    }
    if std::io::stdout().is_terminal() {
        let place = if note.folder.is_empty() {
            "/"
        } else {
            &note.folder
        };
        let mut head = format!("#{}  {}  ({place})", note.id, note.title);
        if !note.tags.is_empty() {
            head.push_str(&format!("  [{}]", note.tags.join(", ")));
        }
        head.push_str(&format!(
            "\nrevision {}, changed {}, made {}\n",
            note.revision,
            when::show(note.updated_at),
            when::show(note.created_at)
        ));
        out::notice(&out::plain(&head));
    }
    out.write_all(note.content.as_bytes())?;
    if !note.content.ends_with('\n') && std::io::stdout().is_terminal() {
        out.line("")?;
    }
    Ok(())
}
