//! `list_notes`.

use pkm_engine::{Filter, ListRequest, NotePage, NoteSummary, Sort};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::{
    text::{count, cut, one_line},
    wire::Fault,
};

const TITLE_MAX_BYTES: usize = 180;

#[derive(Debug)]
pub(super) struct ListNotes;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    /// Only notes that have all of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// Only notes in this folder or below, such as `work/meetings`.
    folder: Option<String>,
    /// Newest change first, newest note first, or by title.
    #[serde(default)]
    sort: Order,
    /// How many notes at most.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// `next_cursor` of the answer before.
    cursor: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Updated,
    Created,
    Title,
}

fn twenty() -> usize {
    20
}

/// One page of the notes, without their text.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listing {
    notes: Vec<Entry>,
    /// Give it back as `cursor` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// How many notes there are on all pages.
    total: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    id: i64,
    title: String,
    tags: Vec<String>,
    /// Empty for the root.
    folder: String,
    created_at: String,
    updated_at: String,
    revision: i64,
    size_bytes: u64,
}

impl NoteTool for ListNotes {
    const NAME: &'static str = "list_notes";
    const TITLE: &'static str = "List notes";
    const DESCRIPTION: &'static str = "Lists notes without their text, newest change first, page by page; by tag or \
        folder if you like. Use it to see what is there or what changed lately; to find something, search.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = ListArguments;
    type Answer = Listing;

    fn call(turn: &Turn, arguments: ListArguments) -> Result<Listing, Fault> {
        let NotePage {
            notes,
            next_cursor,
            total,
        } = turn.engine.list_notes(&ListRequest {
            filter: Filter {
                tags: arguments.tags,
                folder: arguments.folder,
                ..Filter::default()
            },
            sort: match arguments.sort {
                Order::Updated => Sort::Updated,
                Order::Created => Sort::Created,
                Order::Title => Sort::Title,
            },
            limit: arguments.limit,
            cursor: arguments.cursor,
        })?;
        Ok(Listing {
            notes: notes.into_iter().map(Entry::from).collect(),
            next_cursor,
            total,
        })
    }

    fn text(answer: &Listing) -> String {
        let mut text = format!("{} of {}", answer.notes.len(), count(answer.total, "note"));
        if answer.next_cursor.is_some() {
            text.push_str("; more with next_cursor");
        }
        for note in &answer.notes {
            let place = if note.folder.is_empty() {
                String::new()
            } else {
                format!(" in {}", note.folder)
            };
            let day = note.updated_at.get(..10).unwrap_or(&note.updated_at);
            text.push_str(&format!(
                "\n[id {}] {}{place}, changed {day}",
                note.id,
                one_line(&note.title)
            ));
        }
        text
    }
}

impl From<NoteSummary> for Entry {
    fn from(note: NoteSummary) -> Self {
        Self {
            id: note.id.0,
            title: cut(&note.title, TITLE_MAX_BYTES).0.into_owned(),
            tags: note.tags,
            folder: note.folder,
            created_at: note.created_at.to_string(),
            updated_at: note.updated_at.to_string(),
            revision: note.revision,
            size_bytes: note.size_bytes,
        }
    }
}
