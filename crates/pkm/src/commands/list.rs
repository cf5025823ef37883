//! `pkm list`

use anyhow::Result;
use clap::ValueEnum;
use pkm_engine::{Filter, ListRequest, NoteSummary, Sort};

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, when};

/// The most that one question to the engine answers.
const PAGE: usize = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only notes with this tag; give it again for notes that have all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only notes in this folder and below it
    #[arg(long)]
    folder: Option<String>,
    /// In which order
    #[arg(long, value_enum, default_value = "updated")]
    sort: SortArg,
    /// How many
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SortArg {
    /// Last changed first
    Updated,
    /// Newest first
    Created,
    /// By title
    Title,
}

pub(crate) fn run(args: List, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let wanted = if args.all { usize::MAX } else { args.limit };
    let mut request = ListRequest {
        filter: Filter {
            tags: args.tags,
            folder: args.folder,
            updated_after: None,
            updated_before: None,
        },
        sort: match args.sort {
            SortArg::Updated => Sort::Updated,
            SortArg::Created => Sort::Created,
            SortArg::Title => Sort::Title,
        },
        limit: wanted.min(PAGE),
        cursor: None,
    };
    let mut notes = Vec::new();
    let total = loop {
        let page = engine.list_notes(&request)?;
        notes.extend(page.notes);
        request.cursor = page.next_cursor;
        request.limit = (wanted - notes.len()).min(PAGE);
        if request.cursor.is_none() || request.limit == 0 {
            break page.total;
        }
    };
    if args.format.json {
        return Ok(out.json(&json::note_list(&notes, total))?);
    }
    for note in &notes {
        out.line(line(note))?;
    }
    if notes.len() < total {
        out::notice(&format!(
            "{} of {total} notes; `--all` shows the rest",
            notes.len()
        ));
    } else if total == 0 {
        out::notice("no notes");
    }
    Ok(())
}

/// `12  2026-11-30  work/meetings/회의록  [team, plan]`
fn line(note: &NoteSummary) -> String {
    let slash = if note.folder.is_empty() { "" } else { "/" };
    let mut line = format!(
        "{:>5}  {}  {}{slash}{}",
        note.id.0,
        when::show_day(note.updated_at),
        note.folder,
        note.title
    );
    if !note.tags.is_empty() {
        line.push_str(&format!("  [{}]", note.tags.join(", ")));
    }
    out::plain(&line).replace('\n', " ")
}
