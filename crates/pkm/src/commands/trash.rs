//! `pkm trash`

use std::io::{self, IsTerminal};

use anyhow::Result;
use pkm_engine::{Purged, TrashContents};
use serde_json::json;

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

#[derive(Debug, clap::Args)]
pub(crate) struct Trash {
    /// How many, the last deleted first
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Delete the notes in the trash for good, with all their revisions; asks first
    #[arg(long, conflicts_with = "limit")]
    empty: bool,
    /// Do not ask
    #[arg(long, requires = "empty")]
    yes: bool,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Trash, config: &Config, out: &mut Out) -> Result<()> {
    if args.empty {
        return empty(args, config, out);
    }
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

fn empty(args: &Trash, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let contents = engine.trash_contents(None)?;
    let purged = if contents.n_notes == 0 {
        Purged::default()
    } else if args.yes || is_agreed(&contents)? {
        engine.empty_trash(None, Some(&contents.mark))?
    } else {
        out::notice("nothing was deleted");
        return Ok(());
    };
    if args.format.json {
        let (deleted, revisions) = (purged.n_notes, purged.n_revisions);
        return Ok(out.json(&json!({ "deleted": deleted, "revisions": revisions }))?);
    }
    if purged.n_notes == 0 {
        out::notice("the trash is empty");
        return Ok(());
    }
    Ok(out.line(format!(
        "deleted {} for good",
        out::count(purged.n_notes, "note")
    ))?)
}

fn is_agreed(contents: &TrashContents) -> Result<bool> {
    let notes = out::count(contents.n_notes, "note");
    if !io::stdin().is_terminal() {
        return Err(Failure::new(format!(
            "{notes} would be gone for good, and there is nobody to ask"
        ))
        .hint("`pkm trash --empty --yes` deletes without asking")
        .into());
    }
    let newest = contents.newest.as_ref();
    let title = newest.map_or_else(String::new, |note| {
        format!(", the last deleted is \"{}\"", out::plain(&note.title))
    });
    Ok(out::ask(&format!(
        "Delete {notes} for good{title}? Nothing brings them back."
    ))?)
}
