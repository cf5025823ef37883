//! Former states of notes, and the trash.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::Fault;
use crate::key::{from_json, from_micros};
use crate::read::{N_SUMMARY, SUMMARY, note, summary};
use crate::{
    Error, NoteId, NoteRevision, NoteState, Result, Revision, RevisionSummary, Store, TrashSummary,
    TrashedNote,
};

impl Store {
    /// The states of a note, live or in the trash, newest first, the present one included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`].
    pub fn history(&self, id: NoteId) -> Result<Vec<RevisionSummary>> {
        self.read("reading a note's history", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT revision, title, size_bytes, updated_at FROM note WHERE id = ?1
                 UNION ALL
                 SELECT revision, title, size_bytes, changed_at FROM revision WHERE note_id = ?1
                 ORDER BY revision DESC",
            )?;
            let states = query.query_map([id.0], |row| {
                Ok(RevisionSummary {
                    revision: row.get(0)?,
                    title: row.get(1)?,
                    size_bytes: row.get::<_, i64>(2)?.unsigned_abs(),
                    changed_at: from_micros(row.get(3)?),
                })
            })?;
            let states: Vec<_> = states.collect::<rusqlite::Result<_>>()?;
            if states.is_empty() {
                return Err(Error::NotFound { id }.into());
            }
            Ok(states)
        })
    }

    /// A state of a note, live or in the trash.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NoSuchRevision`].
    pub fn get_revision(&self, id: NoteId, revision: Revision) -> Result<NoteRevision> {
        self.read("reading a note's history", |tx| {
            let (present, _) = note(tx, id)?.ok_or(Error::NotFound { id })?;
            if present.revision == revision {
                return Ok(NoteRevision {
                    id,
                    revision,
                    title: present.title,
                    content: present.content,
                    tags: present.tags,
                    folder: present.folder,
                    changed_at: present.updated_at,
                });
            }
            former(tx, id, revision)
        })
    }

    /// A note in the trash; `None` for a live one.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`].
    pub fn trashed_note(&self, id: NoteId) -> Result<Option<TrashedNote>> {
        self.read("reading a note in the trash", |tx| {
            let (note, deleted_at) = note(tx, id)?.ok_or(Error::NotFound { id })?;
            Ok(deleted_at.map(|at| TrashedNote {
                note,
                deleted_at: from_micros(at),
            }))
        })
    }

    /// Up to `limit` notes in the trash, last deleted first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_trash(&self, limit: usize) -> Result<Vec<TrashSummary>> {
        self.read("listing the trash", |tx| {
            let mut query = tx.prepare_cached(&format!(
                "SELECT {SUMMARY}, n.deleted_at FROM note n WHERE n.deleted_at IS NOT NULL
                 ORDER BY n.deleted_at DESC, n.id DESC LIMIT ?1"
            ))?;
            let mut rows = query.query([limit as i64])?;
            let mut trash = Vec::new();
            while let Some(row) = rows.next()? {
                let deleted_at = from_micros(row.get(N_SUMMARY)?);
                trash.push(TrashSummary {
                    note: summary(tx, row)?,
                    deleted_at,
                });
            }
            Ok(trash)
        })
    }
}

/// A note that is in the trash, as a line.
pub(crate) fn trash_summary(tx: &Transaction<'_>, id: NoteId) -> Result<TrashSummary, Fault> {
    let mut query = tx.prepare_cached(&format!(
        "SELECT {SUMMARY}, n.deleted_at FROM note n WHERE n.id = ?1"
    ))?;
    let mut rows = query.query([id.0])?;
    let row = rows.next()?.ok_or(Error::NotFound { id })?;
    Ok(TrashSummary {
        note: summary(tx, row)?,
        deleted_at: from_micros(row.get(N_SUMMARY)?),
    })
}

/// The state that a note had at a former revision, without its source.
pub(crate) fn state(
    tx: &Transaction<'_>,
    id: NoteId,
    revision: Revision,
) -> Result<NoteState, Fault> {
    let NoteRevision {
        title,
        content,
        tags,
        folder,
        ..
    } = former(tx, id, revision)?;
    Ok(NoteState {
        title,
        content,
        tags,
        folder,
        source: None,
    })
}

fn former(tx: &Transaction<'_>, id: NoteId, revision: Revision) -> Result<NoteRevision, Fault> {
    tx.prepare_cached(
        "SELECT title, content, tags, folder, changed_at FROM revision
         WHERE note_id = ?1 AND revision = ?2",
    )?
    .query_row(params![id.0, revision], |row| {
        Ok(NoteRevision {
            id,
            revision,
            title: row.get(0)?,
            content: row.get(1)?,
            tags: from_json(&row.get::<_, String>(2)?),
            folder: row.get(3)?,
            changed_at: from_micros(row.get(4)?),
        })
    })
    .optional()?
    .ok_or_else(|| Error::NoSuchRevision { id, revision }.into())
}
