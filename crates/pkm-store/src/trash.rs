//! The trash: into it, out of it, and emptying it. Also the way back to an earlier revision.

use jiff::Timestamp;
use rusqlite::{Transaction, params};

use crate::error::Fault;
use crate::key::{from_micros, micros};
use crate::watch::{self, Listing};
use crate::write::{Present, put_source, taken};
use crate::{
    Chunking, Deleted, Error, NoteId, NoteState, Purged, Result, Revision, Store, TrashContents,
    TrashMark, Written, chunk, history,
};

impl Store {
    /// Moves a note to the trash. It is not found from then on; it keeps its revision, its
    /// history and its vectors.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`], [`Error::NotFound`], [`Error::Trashed`].
    pub fn delete_note(
        &self,
        id: NoteId,
        expected: Option<Revision>,
        now: Timestamp,
    ) -> Result<Deleted> {
        let deleted_at = micros(now);
        self.write("deleting a note", |tx| {
            let present = Present::live(tx, id)?;
            present.expect(expected)?;
            tx.prepare_cached(
                "INSERT OR IGNORE INTO trashed_passage (note_id, passage_hash)
                 SELECT note_id, passage_hash FROM chunk
                 WHERE note_id = ?1 AND passage_hash IS NOT NULL",
            )?
            .execute([id.0])?;
            chunk::remove(tx, id)?;
            tx.prepare_cached("UPDATE note SET deleted_at = ?2 WHERE id = ?1")?
                .execute([id.0, deleted_at])?;
            watch::log(tx, id, Listing::Changed)?;
            Ok(Deleted {
                id,
                revision: present.revision,
                deleted_at: from_micros(deleted_at),
            })
        })
    }

    /// Brings a note to the state of `revision`, out of the trash if it is there. `chunking`
    /// is of that revision's content, which never changes. From the trash at the revision it
    /// rests at, the note keeps its revision and `updated_at`; an earlier revision becomes a
    /// new one with the old content, unless the present state is the same.
    ///
    /// A source that another note has taken meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NoSuchRevision`], [`Error::InvalidChunk`].
    pub fn restore_note(
        &self,
        id: NoteId,
        revision: Revision,
        chunking: Chunking<'_>,
        now: Timestamp,
    ) -> Result<Written> {
        self.write("restoring a note", |tx| {
            let mut present = Present::find(tx, id)?.ok_or(Error::NotFound { id })?;
            let was_trashed = present.deleted_at.is_some();
            let state = if revision == present.revision {
                if !was_trashed {
                    return Ok(present.written(false));
                }
                present.state.clone()
            } else {
                let source = present.state.source.clone();
                let former = crate::history::state(tx, id, revision)?;
                NoteState { source, ..former }
            };
            if was_trashed {
                if taken(tx, Some(id), present.state.source.as_ref())?.is_some() {
                    put_source(tx, id, None)?;
                    present.state.source = None;
                }
                tx.prepare_cached("DELETE FROM trashed_passage WHERE note_id = ?1")?
                    .execute([id.0])?;
                tx.prepare_cached("UPDATE note SET deleted_at = NULL WHERE id = ?1")?
                    .execute([id.0])?;
                watch::log(tx, id, Listing::Changed)?;
            }
            if !present.is_like(&state) {
                return present.move_on(tx, &state, chunking, now);
            }
            if !was_trashed {
                return Ok(present.written(false));
            }
            chunk::insert(tx, id, &state, chunking)?;
            tx.prepare_cached("UPDATE note SET chunked_by = ?2 WHERE id = ?1")?
                .execute(params![id.0, chunking.by])?;
            Ok(present.written(true))
        })
    }

    /// What is in the trash: all of it, or what was deleted before a time.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn trash_contents(&self, deleted_before: Option<Timestamp>) -> Result<TrashContents> {
        self.read("looking into the trash", |tx| {
            let ids = doomed(tx, deleted_before)?;
            let line = |id: Option<&(i64, i64)>| {
                id.map(|(id, _)| history::trash_summary(tx, NoteId(*id)))
                    .transpose()
            };
            Ok(TrashContents {
                n_notes: ids.len(),
                oldest: line(ids.first())?,
                newest: line(ids.last())?,
                mark: mark(&ids),
            })
        })
    }

    /// Removes for good what is in the trash, or what was deleted before a time: the notes with
    /// all revisions, and vectors that nothing needs any more. With a mark, only if the trash
    /// still holds what it held then.
    ///
    /// # Errors
    ///
    /// [`Error::TrashChanged`], or when the file cannot be written.
    pub fn empty_trash(
        &self,
        deleted_before: Option<Timestamp>,
        expected: Option<&TrashMark>,
    ) -> Result<Purged> {
        self.write("emptying the trash", |tx| {
            if let Some(expected) = expected {
                let ids = doomed(tx, deleted_before)?;
                if mark(&ids) != *expected {
                    let n_notes = ids.len();
                    return Err(Error::TrashChanged { n_notes }.into());
                }
            }
            let before = before(deleted_before);
            let n_revisions = tx.query_row(
                "SELECT count(*) FROM note n JOIN revision r ON r.note_id = n.id
                 WHERE n.deleted_at < ?1",
                [before],
                |row| chunk::size(row, 0),
            )?;
            let n_notes = tx.execute("DELETE FROM note WHERE deleted_at < ?1", [before])?;
            let unused = "passage_hash NOT IN
                    (SELECT passage_hash FROM chunk WHERE passage_hash IS NOT NULL)
                AND passage_hash NOT IN (SELECT passage_hash FROM trashed_passage)";
            let n_vectors = tx.execute(&format!("DELETE FROM vector WHERE {unused}"), [])?;
            tx.execute(&format!("DELETE FROM failed_passage WHERE {unused}"), [])?;
            Ok(Purged {
                n_notes,
                n_revisions,
                n_vectors,
            })
        })
    }
}

/// The notes that would go, each with the time of its deletion, the first deleted first.
fn doomed(
    tx: &Transaction<'_>,
    deleted_before: Option<Timestamp>,
) -> Result<Vec<(i64, i64)>, Fault> {
    let mut query = tx.prepare_cached(
        "SELECT id, deleted_at FROM note WHERE deleted_at < ?1 ORDER BY deleted_at, id",
    )?;
    let ids = query.query_map([before(deleted_before)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

fn before(time: Option<Timestamp>) -> i64 {
    time.map_or(i64::MAX, micros)
}

fn mark(ids: &[(i64, i64)]) -> TrashMark {
    let mut hash = blake3::Hasher::new();
    for (id, deleted_at) in ids {
        hash.update(&id.to_le_bytes());
        hash.update(&deleted_at.to_le_bytes());
    }
    TrashMark(hash.finalize().to_hex()[..32].to_owned())
}
