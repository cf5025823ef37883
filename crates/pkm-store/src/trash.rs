//! The trash: into it, out of it, and emptying it. Also the way back to an earlier revision.

use jiff::Timestamp;
use rusqlite::params;

use crate::key::{from_micros, micros};
use crate::write::{Present, put_source, taken};
use crate::{
    Chunking, Deleted, Error, NoteId, NoteState, Purged, Result, Revision, Store, Written, chunk,
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

    /// Removes for good what was deleted before `time`, with all revisions, and vectors that
    /// nothing needs any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn purge_deleted_before(&self, time: Timestamp) -> Result<Purged> {
        self.write("emptying the trash", |tx| {
            let n_notes = tx.execute("DELETE FROM note WHERE deleted_at < ?1", [micros(time)])?;
            let unused = "passage_hash NOT IN
                    (SELECT passage_hash FROM chunk WHERE passage_hash IS NOT NULL)
                AND passage_hash NOT IN (SELECT passage_hash FROM trashed_passage)";
            let n_vectors = tx.execute(&format!("DELETE FROM vector WHERE {unused}"), [])?;
            tx.execute(&format!("DELETE FROM failed_passage WHERE {unused}"), [])?;
            Ok(Purged { n_notes, n_vectors })
        })
    }
}
