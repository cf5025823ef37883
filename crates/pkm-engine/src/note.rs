//! Writing and reading notes: checked arguments, guarded edits, a trash with a retention.

use std::collections::HashSet;

use jiff::Timestamp;
use pkm_embed::Role;
use pkm_store::{
    ChunkId, Count, Edit, Filter, NewNote, Note, NoteId, NoteRevision, NoteState, NoteSummary,
    PassageHash, Revision, RevisionSummary, Sort,
};

use unicode_normalization::UnicodeNormalization;

use crate::check::{checked_content, checked_folder, checked_tags, checked_title};
use crate::cursor::ListCursor;
use crate::passages::Chunks;
use crate::{Engine, Error, chunk};

/// The most notes that one page of a list holds.
pub const MAX_LIST_LIMIT: usize = 200;
/// A note of more tokens is embedded in the background, so that its writer need not wait.
const MAX_TOKENS_IN_CALL: usize = 1_000;

/// A note to be.
#[derive(Debug, Clone, Default)]
pub struct NoteDraft {
    /// One line.
    pub title: String,
    /// Markdown, kept byte for byte.
    pub content: String,
    /// Without `#`.
    pub tags: Vec<String>,
    /// Such as `work/meetings`; empty for the root.
    pub folder: String,
    /// When it was first written, if not now.
    pub created_at: Option<Timestamp>,
    /// When it last changed, if not now.
    pub updated_at: Option<Timestamp>,
}

/// What to change of a note; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct NoteEdit {
    /// Refuse the edit unless the note is at this revision.
    pub expected_revision: Option<Revision>,
    /// A new title.
    pub title: Option<String>,
    /// A change of the content.
    pub content: Option<ContentEdit>,
    /// All tags anew.
    pub tags: Option<Vec<String>>,
    /// Another folder.
    pub folder: Option<String>,
}

/// A change of a note's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentEdit {
    /// The whole content anew.
    Set(String),
    /// Text to go after the end, on a line of its own.
    Append(String),
    /// The one place that reads `find` will read `with`.
    Replace {
        /// Must occur exactly once.
        find: String,
        /// What to put there.
        with: String,
    },
}

/// A write that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The note.
    pub id: NoteId,
    /// Its revision now.
    pub revision: Revision,
    /// Whether it can be found by meaning already; by words it can.
    pub indexed: Indexed,
}

/// Whether a note can be found by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexed {
    /// It can.
    Now,
    /// It will, when its passages are embedded.
    Pending,
}

/// A note that went to the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The note.
    pub id: NoteId,
    /// Until then [`Engine::restore_note`] brings it back.
    pub restorable_until: Timestamp,
}

/// Which notes to list.
#[derive(Debug, Clone)]
pub struct ListRequest {
    /// Which notes.
    pub filter: Filter,
    /// In which order.
    pub sort: Sort,
    /// How many, 1..=[`MAX_LIST_LIMIT`].
    pub limit: usize,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct NotePage {
    /// In the order asked for.
    pub notes: Vec<NoteSummary>,
    /// Give this back for the next page.
    pub next_cursor: Option<String>,
    /// How many notes the filter lets through, on all pages.
    pub total: usize,
}

impl Engine {
    /// Adds a note. It can be found by words when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a blank title, a bad tag or folder, or too much content.
    pub fn add_note(&self, draft: NoteDraft) -> Result<Written, Error> {
        let note = NewNote {
            title: checked_title(&draft.title)?,
            content: checked_content("content", draft.content)?,
            tags: checked_tags(&draft.tags)?,
            folder: checked_folder(&draft.folder)?,
            created_at: draft.created_at,
            updated_at: draft.updated_at,
            source: None,
        };
        let chunks = self.chunk(&note.title, &note.content);
        let written = self
            .store()
            .add_note(&note, chunks.chunking(), Timestamp::now())?;
        Ok(self.written(&written))
    }

    /// The note `id`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or [`Error::Trashed`] when it is in the trash.
    pub fn get_note(&self, id: NoteId) -> Result<Note, Error> {
        Ok(self.store().get_note(id)?)
    }

    /// The note `id` as it was at `revision`; also of a note in the trash.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NoRevision`].
    pub fn get_revision(&self, id: NoteId, revision: Revision) -> Result<NoteRevision, Error> {
        Ok(self.store().get_revision(id, revision)?)
    }

    /// Changes a note; its former state is kept as a revision.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when the note is not at the expected revision; [`Error::Invalid`] when
    /// the edit names nothing to change, or text to replace that does not occur exactly once.
    pub fn update_note(&self, id: NoteId, edit: &NoteEdit) -> Result<Written, Error> {
        let NoteEdit {
            expected_revision,
            title,
            content,
            tags,
            folder,
        } = edit;
        if title.is_none() && content.is_none() && tags.is_none() && folder.is_none() {
            return Err(Error::invalid(
                "content",
                "is missing: name at least one of `title`, `content`, `append`, `replace`, `tags`, `folder`",
            ));
        }
        let title = title.as_deref().map(checked_title).transpose()?;
        let tags = tags.as_deref().map(checked_tags).transpose()?;
        let folder = folder.as_deref().map(checked_folder).transpose()?;
        loop {
            let note = self.store().get_note(id)?;
            if let Some(expected) = *expected_revision
                && expected != note.revision
            {
                return Err(Error::Conflict {
                    id,
                    expected,
                    found: note.revision,
                });
            }
            let read_at = note.revision;
            let state = NoteState {
                title: title.clone().unwrap_or(note.title),
                content: match content {
                    None => note.content,
                    Some(change) => edited(&note.content, change)?,
                },
                tags: tags.clone().unwrap_or(note.tags),
                folder: folder.clone().unwrap_or(note.folder),
                source: note.source,
            };
            let chunks = self.chunk(&state.title, &state.content);
            let edit = Edit {
                expected: Some(read_at),
                state: &state,
                chunking: chunks.chunking(),
            };
            match self.store().update_note(id, edit, Timestamp::now()) {
                // Somebody else wrote between our read and our write, and the caller does not mind.
                Err(pkm_store::Error::Conflict { .. }) if expected_revision.is_none() => {}
                written => return Ok(self.written(&written?)),
            }
        }
    }

    /// Puts a note into the trash.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Trashed`], [`Error::Conflict`].
    pub fn delete_note(&self, id: NoteId, expected: Option<Revision>) -> Result<Deleted, Error> {
        let deleted = self.store().delete_note(id, expected, Timestamp::now())?;
        let restorable_until = self.restorable_until(deleted.deleted_at);
        Ok(Deleted {
            id,
            restorable_until,
        })
    }

    /// Brings a note out of the trash as it was, or back to an earlier `revision`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NoRevision`]; [`Error::Invalid`] when the note is not in the
    /// trash and no revision is named.
    pub fn restore_note(&self, id: NoteId, revision: Option<Revision>) -> Result<Written, Error> {
        let revision = match (revision, self.store().trashed_note(id)?) {
            (Some(revision), _) => revision,
            (None, Some(trashed)) => trashed.note.revision,
            (None, None) => {
                let found = self.store().get_note(id)?.revision;
                return Err(Error::invalid(
                    "revision",
                    format!(
                        "is missing: note {id} is not in the trash but at revision {found}, \
                         so say which earlier revision to go back to"
                    ),
                ));
            }
        };
        let former = self.store().get_revision(id, revision)?;
        let chunks = self.chunk(&former.title, &former.content);
        let written =
            self.store()
                .restore_note(id, revision, chunks.chunking(), Timestamp::now())?;
        Ok(self.written(&written))
    }

    /// Former and present states of a note, the newest first.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`].
    pub fn history(&self, id: NoteId) -> Result<Vec<RevisionSummary>, Error> {
        Ok(self.store().history(id)?)
    }

    /// A page of notes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a limit out of range or a foreign cursor.
    pub fn list_notes(&self, request: &ListRequest) -> Result<NotePage, Error> {
        let ListRequest {
            filter,
            sort,
            limit,
            cursor,
        } = request;
        if !(1..=MAX_LIST_LIMIT).contains(limit) {
            return Err(Error::invalid(
                "limit",
                format!("is {limit}; it must be 1 to {MAX_LIST_LIMIT}"),
            ));
        }
        let named = ListCursor::request_hash(filter, *sort);
        let after = cursor
            .as_deref()
            .map(|c| ListCursor::parse(c, named))
            .transpose()?;
        let page = self
            .store()
            .list_notes(filter, *sort, *limit, after.as_ref())?;
        Ok(NotePage {
            notes: page.notes,
            next_cursor: page.next.map(|next| ListCursor::write(&next, named)),
            total: page.total,
        })
    }

    /// Up to `limit` notes whose id begins with `text` or whose title holds it, newest first.
    /// Looks through the last few thousand notes.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn notes_like(&self, text: &str, limit: usize) -> Result<Vec<NoteSummary>, Error> {
        const LOOK_THROUGH: usize = 5_000;
        let fold = |text: &str| text.nfc().collect::<String>().to_lowercase();
        let wanted = fold(text.trim());
        let page =
            self.store()
                .list_notes(&Filter::default(), Sort::Updated, LOOK_THROUGH, None)?;
        let like = |note: &NoteSummary| {
            note.id.to_string().starts_with(&wanted) || fold(&note.title).contains(&wanted)
        };
        Ok(page.notes.into_iter().filter(like).take(limit).collect())
    }

    /// Every tag and how many notes carry it, the commonest first.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn tags(&self) -> Result<Vec<Count>, Error> {
        Ok(self.store().tags()?)
    }

    /// Every folder that holds notes, and how many.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn folders(&self) -> Result<Vec<Count>, Error> {
        Ok(self.store().folders()?)
    }

    /// Cuts a note with the model's tokenizer, or by estimate while there is none: what was
    /// estimated is cut anew before it is embedded.
    pub(crate) fn chunk(&self, title: &str, content: &str) -> Chunks {
        match self.model().get() {
            Some(embedder) => Chunks::by_model(embedder.as_ref(), title, content),
            None => Chunks::by_estimate(title, content),
        }
    }

    /// Reports a write, and embeds it within the call where that is quick.
    pub(crate) fn written(&self, written: &pkm_store::Written) -> Written {
        let indexed = self.embed_now(written.id).unwrap_or_else(|error| {
            // The note is kept; its passages stay pending for the worker.
            tracing::warn!(
                error = crate::error::chain(&error),
                "embedding is left for later"
            );
            Indexed::Pending
        });
        self.wake_worker();
        Written {
            id: written.id,
            revision: written.revision,
            indexed,
        }
    }

    fn embed_now(&self, id: NoteId) -> Result<Indexed, Error> {
        let embedder = match self.model().get() {
            Some(embedder) if !embedder.is_remote() => embedder,
            // Nobody who writes waits for a server: the worker does.
            Some(_) | None => return Ok(Indexed::Pending),
        };
        let fingerprint = &embedder.card().fingerprint;
        let made: HashSet<ChunkId> = self
            .store()
            .vectors_of(id, fingerprint)?
            .into_iter()
            .map(|(chunk, _)| chunk)
            .collect();
        let mut missing = self.store().chunks_of(id)?;
        missing.retain(|chunk| !made.contains(&chunk.id));
        if missing.is_empty() {
            return Ok(Indexed::Now);
        }
        if missing.iter().map(|chunk| chunk.n_tokens).sum::<usize>() > MAX_TOKENS_IN_CALL {
            return Ok(Indexed::Pending);
        }
        let chunks: Vec<ChunkId> = missing.iter().map(|chunk| chunk.id).collect();
        let passages = self.store().passages(&chunks)?;
        if passages.len() < chunks.len() {
            // Edited or deleted meanwhile: whoever did that sees to the new chunks.
            return Ok(Indexed::Pending);
        }
        let texts: Vec<String> = passages
            .iter()
            .map(|p| chunk::passage_text(&p.title, &p.heading_path, &p.text))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = embedder
            .embed(&texts, Role::Passage)
            .map_err(|source| Error::embedding("embedding a note", source))?;
        let vectors: Vec<(PassageHash, Vec<f32>)> = missing
            .iter()
            .map(|chunk| chunk.passage_hash)
            .zip(embedded.vectors)
            .collect();
        self.store()
            .put_vectors(fingerprint, embedder.card().dim, &vectors)?;
        Ok(Indexed::Now)
    }
}

fn edited(content: &str, change: &ContentEdit) -> Result<String, Error> {
    match change {
        ContentEdit::Set(text) => checked_content("content", text.clone()),
        ContentEdit::Append(text) => {
            if text.is_empty() {
                return Err(Error::invalid(
                    "append",
                    "is empty; there is nothing to append",
                ));
            }
            let newline = if content.contains("\r\n") {
                "\r\n"
            } else {
                "\n"
            };
            let gap = if content.is_empty() || content.ends_with('\n') {
                ""
            } else {
                newline
            };
            checked_content("append", format!("{content}{gap}{text}"))
        }
        ContentEdit::Replace { find, .. } if find.is_empty() => Err(Error::invalid(
            "replace",
            "has an empty `find`; give the text to replace",
        )),
        ContentEdit::Replace { find, with } => match count_occurrences(content, find) {
            1 => checked_content("replace", content.replacen(find, with, 1)),
            0 => Err(Error::invalid(
                "replace",
                "names a `find` that does not occur in the note; read the note and copy the text exactly",
            )),
            n => Err(Error::invalid(
                "replace",
                format!(
                    "names a `find` that occurs {n} times; add words around it until it occurs once"
                ),
            )),
        },
    }
}

/// Overlapping occurrences count too: `aa` is twice in `aaa`, so it does not name one place.
fn count_occurrences(content: &str, find: &str) -> usize {
    let step = find.chars().next().map_or(1, char::len_utf8);
    let (mut n, mut from) = (0, 0);
    while let Some(at) = content[from..].find(find) {
        n += 1;
        from += at + step;
    }
    n
}
