//! Every change to a note: one transaction each.

use jiff::Timestamp;

use crate::{Chunking, Deleted, Edit, NewNote, NoteId, Purged, Result, Revision, Store, Written};

impl Store {
    /// Adds a note with its chunks and postings.
    ///
    /// # Errors
    ///
    /// [`Error::SourceTaken`](crate::Error::SourceTaken),
    /// [`Error::InvalidChunk`](crate::Error::InvalidChunk), or when the file cannot be written.
    pub fn add_note(
        &self,
        note: &NewNote,
        chunking: Chunking<'_>,
        now: Timestamp,
    ) -> Result<Written> {
        let _ = (note, chunking, now);
        todo!()
    }

    /// Gives a note a new state; the former one goes to its history. A state equal to the
    /// present one keeps the revision and the chunks.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict) when the note is not at the expected
    /// revision, [`Error::NotFound`](crate::Error::NotFound),
    /// [`Error::Trashed`](crate::Error::Trashed), and those of [`add_note`](Self::add_note).
    pub fn update_note(&self, id: NoteId, edit: Edit<'_>, now: Timestamp) -> Result<Written> {
        let _ = (id, edit, now);
        todo!()
    }

    /// Gives a note other chunks of the same state. False, and nothing done, when the note is
    /// no longer at `revision` or in the trash.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidChunk`](crate::Error::InvalidChunk), or when the file cannot be written.
    pub fn rechunk_note(
        &self,
        id: NoteId,
        revision: Revision,
        chunking: Chunking<'_>,
    ) -> Result<bool> {
        let _ = (id, revision, chunking);
        todo!()
    }

    /// Moves a note to the trash. It is not found from then on; it keeps its revision, its
    /// history and its vectors.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`](crate::Error::Conflict), [`Error::NotFound`](crate::Error::NotFound),
    /// [`Error::Trashed`](crate::Error::Trashed).
    pub fn delete_note(
        &self,
        id: NoteId,
        expected: Option<Revision>,
        now: Timestamp,
    ) -> Result<Deleted> {
        let _ = (id, expected, now);
        todo!()
    }

    /// Brings a note to the state of `revision`, out of the trash if it is there. `chunking`
    /// is of that revision's content, which never changes. From the trash at the revision it
    /// rests at, the note keeps its revision and `updated_at`; an earlier revision becomes a
    /// new one with the old content.
    ///
    /// A source that another note has taken meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound),
    /// [`Error::NoSuchRevision`](crate::Error::NoSuchRevision),
    /// [`Error::InvalidChunk`](crate::Error::InvalidChunk).
    pub fn restore_note(
        &self,
        id: NoteId,
        revision: Revision,
        chunking: Chunking<'_>,
        now: Timestamp,
    ) -> Result<Written> {
        let _ = (id, revision, chunking, now);
        todo!()
    }

    /// Removes for good what was deleted before `time`, with all revisions, and vectors that
    /// nothing needs any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn purge_deleted_before(&self, time: Timestamp) -> Result<Purged> {
        let _ = time;
        todo!()
    }
}
