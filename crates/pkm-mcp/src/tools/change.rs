//! `add_note`, `update_note`, `delete_note`, `restore_note`.

use pkm_engine::{ContentEdit, Indexed, NoteDraft, NoteEdit, NoteId, Written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::wire::Fault;

/// A note as it was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Saved {
    id: i64,
    revision: i64,
    /// Whether search by meaning has the new text already; search by words always has.
    indexed: IndexedWord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum IndexedWord {
    Now,
    Pending,
}

impl From<Written> for Saved {
    fn from(written: Written) -> Self {
        Self {
            id: written.id.0,
            revision: written.revision,
            indexed: match written.indexed {
                Indexed::Now => IndexedWord::Now,
                Indexed::Pending => IndexedWord::Pending,
            },
        }
    }
}

impl Saved {
    fn text(&self, what: &str) -> String {
        let meaning = match self.indexed {
            IndexedWord::Now => "Found by words and by meaning.",
            IndexedWord::Pending => "Found by words; by meaning as soon as it is embedded.",
        };
        format!(
            "{what} note {} (revision {}). {meaning}",
            self.id, self.revision
        )
    }
}

#[derive(Debug)]
pub(super) struct AddNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AddArguments {
    /// A line that says what the note is about.
    #[schemars(length(min = 1))]
    title: String,
    /// Markdown.
    content: String,
    #[serde(default)]
    tags: Vec<String>,
    /// Where to put it, such as `work/meetings`; the root if left out.
    #[serde(default)]
    folder: String,
}

impl NoteTool for AddNote {
    const NAME: &'static str = "add_note";
    const TITLE: &'static str = "Add a note";
    const DESCRIPTION: &'static str = "Saves a new note and gives its id. The note is safe on disk when this \
        answers, and search_notes finds it at once. Search first: if the subject has a note already, add to that \
        one with update_note.";
    const EFFECT: Effect = Effect::Adds;
    type Arguments = AddArguments;
    type Answer = Saved;

    fn call(turn: &Turn, arguments: AddArguments) -> Result<Saved, Fault> {
        let AddArguments {
            title,
            content,
            tags,
            folder,
        } = arguments;
        let draft = NoteDraft {
            title,
            content,
            tags,
            folder,
            created_at: None,
            updated_at: None,
        };
        Ok(turn.engine.add_note(draft)?.into())
    }

    fn text(answer: &Saved) -> String {
        answer.text("Added")
    }
}

#[derive(Debug)]
pub(super) struct UpdateNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateArguments {
    /// The note's id.
    #[schemars(range(min = 1))]
    id: i64,
    /// The revision that you read; the edit is refused if the note has changed since.
    #[schemars(range(min = 1))]
    expected_revision: Option<i64>,
    /// A new title.
    #[schemars(length(min = 1))]
    title: Option<String>,
    /// A new text in place of the whole old one.
    content: Option<String>,
    /// New tags in place of all old ones.
    tags: Option<Vec<String>>,
    /// Another folder; empty for the root.
    folder: Option<String>,
    /// Text to put at the end.
    #[schemars(length(min = 1))]
    append: Option<String>,
    /// One place of the text to change.
    replace: Option<Replace>,
}

/// A change of one place in a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Replace {
    /// Text that is in the note exactly once.
    #[schemars(length(min = 1))]
    find: String,
    /// What to put in its place; may be empty.
    with: String,
}

impl NoteTool for UpdateNote {
    const NAME: &'static str = "update_note";
    const TITLE: &'static str = "Edit a note";
    const DESCRIPTION: &'static str = "Changes what you name and leaves the rest: title, tags, folder, and the text \
        by one of `content` (all of it anew), `append` (at the end) or `replace` (one place; prefer this for small \
        edits). Read the note first and give its revision as expected_revision: if somebody changed the note \
        meanwhile, nothing is written and you are told. Former revisions are kept; restore_note brings one back.";
    const EFFECT: Effect = Effect::ChangesEachTime;
    type Arguments = UpdateArguments;
    type Answer = Saved;

    fn call(turn: &Turn, arguments: UpdateArguments) -> Result<Saved, Fault> {
        let UpdateArguments {
            id,
            expected_revision,
            title,
            content,
            tags,
            folder,
            append,
            replace,
        } = arguments;
        let content = match (content, append, replace) {
            (None, None, None) => None,
            (Some(text), None, None) => Some(ContentEdit::Set(text)),
            (None, Some(text), None) => Some(ContentEdit::Append(text)),
            (None, None, Some(Replace { find, with })) => Some(ContentEdit::Replace { find, with }),
            (content, ..) => {
                let field = if content.is_some() {
                    "content"
                } else {
                    "append"
                };
                let reason = "excludes the others: give one of `content`, `append` and `replace`";
                return Err(Fault::argument(field, reason));
            }
        };
        let edit = NoteEdit {
            expected_revision,
            title,
            content,
            tags,
            folder,
        };
        Ok(turn.engine.update_note(NoteId(id), &edit)?.into())
    }

    fn text(answer: &Saved) -> String {
        answer.text("Changed")
    }
}

#[derive(Debug)]
pub(super) struct DeleteNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteArguments {
    /// The note's id.
    #[schemars(range(min = 1))]
    id: i64,
    /// The revision that you read; nothing is deleted if the note has changed since.
    #[schemars(range(min = 1))]
    expected_revision: Option<i64>,
}

/// A note in the trash.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Trashed {
    id: i64,
    /// Always true.
    deleted: bool,
    /// Until when `restore_note` brings it back.
    restorable_until: String,
}

impl NoteTool for DeleteNote {
    const NAME: &'static str = "delete_note";
    const TITLE: &'static str = "Delete a note";
    const DESCRIPTION: &'static str = "Puts a note into the trash: no search, list or reading finds it any more. \
        Until `restorable_until`, restore_note brings it back as it was.";
    const EFFECT: Effect = Effect::Changes;
    type Arguments = DeleteArguments;
    type Answer = Trashed;

    fn call(turn: &Turn, arguments: DeleteArguments) -> Result<Trashed, Fault> {
        let deleted = turn
            .engine
            .delete_note(NoteId(arguments.id), arguments.expected_revision)?;
        Ok(Trashed {
            id: deleted.id.0,
            deleted: true,
            restorable_until: deleted.restorable_until.to_string(),
        })
    }

    fn text(answer: &Trashed) -> String {
        format!(
            "Note {} is in the trash; restore_note brings it back until {}.",
            answer.id, answer.restorable_until
        )
    }
}

#[derive(Debug)]
pub(super) struct RestoreNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreArguments {
    /// The note's id.
    #[schemars(range(min = 1))]
    id: i64,
    /// The revision to go back to; without it, a note in the trash comes back as it was.
    #[schemars(range(min = 1))]
    revision: Option<i64>,
}

/// A note that is back.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Restored {
    id: i64,
    revision: i64,
}

impl NoteTool for RestoreNote {
    const NAME: &'static str = "restore_note";
    const TITLE: &'static str = "Restore a note";
    const DESCRIPTION: &'static str = "Brings a note back from the trash, or, with `revision`, brings a note's text, \
        title, tags and folder back to an earlier revision. What it replaces is kept as a revision too, so this can \
        be undone.";
    const EFFECT: Effect = Effect::Changes;
    type Arguments = RestoreArguments;
    type Answer = Restored;

    fn call(turn: &Turn, arguments: RestoreArguments) -> Result<Restored, Fault> {
        let written = turn
            .engine
            .restore_note(NoteId(arguments.id), arguments.revision)?;
        Ok(Restored {
            id: written.id.0,
            revision: written.revision,
        })
    }

    fn text(answer: &Restored) -> String {
        format!(
            "Note {} is back, at revision {}.",
            answer.id, answer.revision
        )
    }
}
