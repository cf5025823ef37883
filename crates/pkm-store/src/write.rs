//! Every change to a note: one transaction each.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, named_params, params};

use crate::chunk;
use crate::error::Fault;
use crate::key::{clean_folder, clean_tags, from_micros, micros, text_key, to_json};
use crate::watch::{self, Listing};
use crate::{
    Chunking, Edit, Error, NewNote, NoteId, NoteState, Result, Revision, Source, Store, Written,
};

impl Store {
    /// Adds a note with its chunks and postings.
    ///
    /// # Errors
    ///
    /// [`Error::SourceTaken`], [`Error::InvalidChunk`], or when the file cannot be written.
    pub fn add_note(
        &self,
        note: &NewNote,
        chunking: Chunking<'_>,
        now: Timestamp,
    ) -> Result<Written> {
        self.write("adding a note", |tx| insert(tx, note, chunking, now))
    }

    /// Adds notes, all or none: many at once wait for the disk only once.
    ///
    /// # Errors
    ///
    /// As [`add_note`](Self::add_note).
    pub fn add_notes(
        &self,
        notes: &[(NewNote, Chunking<'_>)],
        now: Timestamp,
    ) -> Result<Vec<Written>> {
        self.write("adding notes", |tx| {
            notes
                .iter()
                .map(|(note, chunking)| insert(tx, note, *chunking, now))
                .collect()
        })
    }

    /// Gives a note a new state; the former one goes to its history. A state equal to the
    /// present one keeps the revision and the chunks.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when the note is not at the expected revision,
    /// [`Error::NotFound`], [`Error::Trashed`], and those of [`add_note`](Self::add_note).
    pub fn update_note(&self, id: NoteId, edit: Edit<'_>, now: Timestamp) -> Result<Written> {
        let state = NoteState {
            tags: clean_tags(&edit.state.tags),
            folder: clean_folder(&edit.state.folder),
            ..edit.state.clone()
        };
        self.write("changing a note", |tx| {
            let present = Present::live(tx, id)?;
            present.expect(edit.expected)?;
            if present.state.source != state.source {
                refuse_taken(tx, Some(id), state.source.as_ref())?;
                put_source(tx, id, state.source.as_ref())?;
            }
            if present.is_like(&state) {
                return Ok(present.written(false));
            }
            present.move_on(tx, &state, edit.chunking, now)
        })
    }

    /// Gives a note other chunks of the same state. False, and nothing done, when the note is
    /// no longer at `revision` or in the trash.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidChunk`], or when the file cannot be written.
    pub fn rechunk_note(
        &self,
        id: NoteId,
        revision: Revision,
        chunking: Chunking<'_>,
    ) -> Result<bool> {
        self.write("cutting a note into chunks", |tx| {
            let Some(present) = Present::find(tx, id)? else {
                return Ok(false);
            };
            if present.deleted_at.is_some() || present.revision != revision {
                return Ok(false);
            }
            chunk::remove(tx, id)?;
            chunk::insert(tx, id, &present.state, chunking)?;
            tx.prepare_cached("UPDATE note SET chunked_by = ?2 WHERE id = ?1")?
                .execute(params![id.0, chunking.by])?;
            Ok(true)
        })
    }
}

fn insert(
    tx: &Transaction<'_>,
    note: &NewNote,
    chunking: Chunking<'_>,
    now: Timestamp,
) -> Result<Written, Fault> {
    let state = NoteState {
        title: note.title.clone(),
        content: note.content.clone(),
        tags: clean_tags(&note.tags),
        folder: clean_folder(&note.folder),
        source: note.source.clone(),
    };
    let updated_at = micros(note.updated_at.unwrap_or(now));
    let created_at = micros(note.created_at.unwrap_or(now)).min(updated_at);
    refuse_taken(tx, None, state.source.as_ref())?;
    tx.prepare_cached(
        "INSERT INTO note (title, title_key, folder, folder_key, revision, created_at,
                           updated_at, chunked_by, source_root, source_path, source_hash,
                           size_bytes, content)
         VALUES (:title, :title_key, :folder, :folder_key, 1, :created_at, :updated_at,
                 :chunked_by, :root, :path, :hash, :size_bytes, :content)",
    )?
    .execute(named_params! {
        ":title": state.title,
        ":title_key": text_key(&state.title),
        ":folder": state.folder,
        ":folder_key": text_key(&state.folder),
        ":created_at": created_at,
        ":updated_at": updated_at,
        ":chunked_by": chunking.by,
        ":root": state.source.as_ref().map(|source| &source.root),
        ":path": state.source.as_ref().map(|source| &source.path),
        ":hash": state.source.as_ref().map(|source| source.hash),
        ":size_bytes": state.content.len() as i64,
        ":content": state.content,
    })?;
    let id = NoteId(tx.last_insert_rowid());
    put_tags(tx, id, &state.tags)?;
    chunk::insert(tx, id, &state, chunking)?;
    watch::log(tx, id, Listing::Changed)?;
    Ok(Written {
        id,
        revision: 1,
        updated_at: from_micros(updated_at),
        changed: true,
    })
}

/// A note as a write finds it.
pub(crate) struct Present {
    pub(crate) id: NoteId,
    pub(crate) state: NoteState,
    pub(crate) revision: Revision,
    pub(crate) updated_at: i64,
    pub(crate) deleted_at: Option<i64>,
}

impl Present {
    pub(crate) fn find(tx: &Transaction<'_>, id: NoteId) -> Result<Option<Self>, Fault> {
        let found = tx
            .prepare_cached(
                "SELECT title, content, folder, source_root, source_path, source_hash, revision,
                        updated_at, deleted_at
                 FROM note WHERE id = ?1",
            )?
            .query_row([id.0], |row| {
                Ok(Self {
                    id,
                    state: NoteState {
                        title: row.get(0)?,
                        content: row.get(1)?,
                        tags: Vec::new(),
                        folder: row.get(2)?,
                        source: crate::read::source(row, 3)?,
                    },
                    revision: row.get(6)?,
                    updated_at: row.get(7)?,
                    deleted_at: row.get(8)?,
                })
            })
            .optional()?;
        let Some(mut found) = found else {
            return Ok(None);
        };
        found.state.tags = crate::read::tags_of(tx, id)?;
        Ok(Some(found))
    }

    pub(crate) fn live(tx: &Transaction<'_>, id: NoteId) -> Result<Self, Fault> {
        let found = Self::find(tx, id)?.ok_or(Error::NotFound { id })?;
        match found.deleted_at {
            Some(at) => Err(Error::Trashed {
                id,
                deleted_at: from_micros(at),
            }
            .into()),
            None => Ok(found),
        }
    }

    pub(crate) fn expect(&self, expected: Option<Revision>) -> Result<(), Fault> {
        match expected {
            Some(expected) if expected != self.revision => Err(Error::Conflict {
                id: self.id,
                expected,
                found: self.revision,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Whether `state` says the same, the source aside.
    pub(crate) fn is_like(&self, state: &NoteState) -> bool {
        let NoteState {
            title,
            content,
            tags,
            folder,
            source: _,
        } = &self.state;
        (title, content, tags, folder) == (&state.title, &state.content, &state.tags, &state.folder)
    }

    pub(crate) fn written(&self, changed: bool) -> Written {
        Written {
            id: self.id,
            revision: self.revision,
            updated_at: from_micros(self.updated_at),
            changed,
        }
    }

    /// Puts this state into the history and `state` in its place.
    pub(crate) fn move_on(
        &self,
        tx: &Transaction<'_>,
        state: &NoteState,
        chunking: Chunking<'_>,
        now: Timestamp,
    ) -> Result<Written, Fault> {
        let id = self.id;
        tx.prepare_cached(
            "INSERT INTO revision (note_id, revision, title, tags, folder, changed_at, size_bytes,
                                   content)
             SELECT id, revision, title, ?2, folder, updated_at, size_bytes, content
             FROM note WHERE id = ?1",
        )?
        .execute(params![id.0, to_json(&self.state.tags)])?;
        let revision = self.revision + 1;
        let updated_at = micros(now);
        tx.prepare_cached(
            "UPDATE note SET title = :title, title_key = :title_key, folder = :folder,
                             folder_key = :folder_key, revision = :revision,
                             updated_at = :updated_at, chunked_by = :chunked_by,
                             size_bytes = :size_bytes, content = :content
             WHERE id = :id",
        )?
        .execute(named_params! {
            ":id": id.0,
            ":title": state.title,
            ":title_key": text_key(&state.title),
            ":folder": state.folder,
            ":folder_key": text_key(&state.folder),
            ":revision": revision,
            ":updated_at": updated_at,
            ":chunked_by": chunking.by,
            ":size_bytes": state.content.len() as i64,
            ":content": state.content,
        })?;
        tx.prepare_cached("DELETE FROM note_tag WHERE note_id = ?1")?
            .execute([id.0])?;
        put_tags(tx, id, &state.tags)?;
        chunk::remove(tx, id)?;
        chunk::insert(tx, id, state, chunking)?;
        let listing = if self.state.title == state.title {
            Listing::Same
        } else {
            Listing::Changed
        };
        watch::log(tx, id, listing)?;
        Ok(Written {
            id,
            revision,
            updated_at: from_micros(updated_at),
            changed: true,
        })
    }
}

fn put_tags(tx: &Transaction<'_>, id: NoteId, tags: &[String]) -> Result<(), Fault> {
    let mut insert = tx.prepare_cached(
        "INSERT INTO note_tag (note_id, ordinal, tag, tag_key) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (ordinal, tag) in tags.iter().enumerate() {
        insert.execute(params![id.0, ordinal as i64, tag, text_key(tag)])?;
    }
    Ok(())
}

pub(crate) fn put_source(
    tx: &Transaction<'_>,
    id: NoteId,
    source: Option<&Source>,
) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE note SET source_root = ?2, source_path = ?3, source_hash = ?4 WHERE id = ?1",
    )?
    .execute(params![
        id.0,
        source.map(|source| &source.root),
        source.map(|source| &source.path),
        source.map(|source| source.hash),
    ])?;
    Ok(())
}

fn refuse_taken(
    tx: &Transaction<'_>,
    except: Option<NoteId>,
    source: Option<&Source>,
) -> Result<(), Fault> {
    match (taken(tx, except, source)?, source) {
        (Some(id), Some(Source { root, path, .. })) => Err(Error::SourceTaken {
            id,
            root: root.clone(),
            path: path.clone(),
        }
        .into()),
        _ => Ok(()),
    }
}

/// The live note other than `except` that has this source.
pub(crate) fn taken(
    tx: &Transaction<'_>,
    except: Option<NoteId>,
    source: Option<&Source>,
) -> Result<Option<NoteId>, Fault> {
    let Some(Source { root, path, .. }) = source else {
        return Ok(None);
    };
    Ok(tx
        .prepare_cached(
            "SELECT id FROM note
             WHERE source_root = ?1 AND source_path = ?2 AND deleted_at IS NULL AND id IS NOT ?3",
        )?
        .query_row(params![root, path, except.map(|id| id.0)], |row| {
            row.get(0).map(NoteId)
        })
        .optional()?)
}
