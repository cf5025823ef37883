//! Reading notes, their history, the trash, and what the folder holds.

use crate::{
    Chunk, ChunkId, Count, Filter, ListPosition, Note, NoteId, NotePage, NoteRevision, Passage,
    Result, Revision, RevisionSummary, Sort, SourceEntry, Store, TrashSummary, TrashedNote,
};

impl Store {
    /// A live note.
    ///
    /// # Errors
    ///
    /// [`Error::Trashed`](crate::Error::Trashed) for one in the trash,
    /// [`Error::NotFound`](crate::Error::NotFound) for an id that was never given or was purged.
    pub fn get_note(&self, id: NoteId) -> Result<Note> {
        let _ = id;
        todo!()
    }

    /// The live ones of these notes, in the order asked.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn get_notes(&self, ids: &[NoteId]) -> Result<Vec<Note>> {
        let _ = ids;
        todo!()
    }

    /// A page of the live notes under `filter`, at most `limit` after `after`. A position of
    /// another order starts from the beginning.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_notes(
        &self,
        filter: &Filter,
        sort: Sort,
        limit: usize,
        after: Option<&ListPosition>,
    ) -> Result<NotePage> {
        let _ = (filter, sort, limit, after);
        todo!()
    }

    /// Up to `limit` live notes after id `after` whose chunks were made by another chunker.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn notes_not_chunked_by(
        &self,
        chunked_by: &str,
        after: NoteId,
        limit: usize,
    ) -> Result<Vec<Note>> {
        let _ = (chunked_by, after, limit);
        todo!()
    }

    /// The live note imported from `path` below `root`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn find_by_source(&self, root: &str, path: &str) -> Result<Option<SourceEntry>> {
        let _ = (root, path);
        todo!()
    }

    /// Every live note imported from `root`, by path.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sources(&self, root: &str) -> Result<Vec<SourceEntry>> {
        let _ = root;
        todo!()
    }

    /// The tags of live notes, most used first, then by name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tags(&self) -> Result<Vec<Count>> {
        todo!()
    }

    /// The folders of live notes, by name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn folders(&self) -> Result<Vec<Count>> {
        todo!()
    }

    /// The states of a note, live or in the trash, newest first, the present one included.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound).
    pub fn history(&self, id: NoteId) -> Result<Vec<RevisionSummary>> {
        let _ = id;
        todo!()
    }

    /// A state of a note, live or in the trash.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound),
    /// [`Error::NoSuchRevision`](crate::Error::NoSuchRevision).
    pub fn get_revision(&self, id: NoteId, revision: Revision) -> Result<NoteRevision> {
        let _ = (id, revision);
        todo!()
    }

    /// A note in the trash; `None` for a live one.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound).
    pub fn trashed_note(&self, id: NoteId) -> Result<Option<TrashedNote>> {
        let _ = id;
        todo!()
    }

    /// Up to `limit` notes in the trash, last deleted first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_trash(&self, limit: usize) -> Result<Vec<TrashSummary>> {
        let _ = limit;
        todo!()
    }

    /// The chunks of a live note, in order; empty for any other.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn chunks_of(&self, id: NoteId) -> Result<Vec<Chunk>> {
        let _ = id;
        todo!()
    }

    /// These chunks with what a hit shows, in the order asked; ids that are gone drop out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn passages(&self, ids: &[ChunkId]) -> Result<Vec<Passage>> {
        let _ = ids;
        todo!()
    }

    /// The chunks of the notes under `filter`, ascending; `None` when the filter lets all
    /// through.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn allowed_chunks(&self, filter: &Filter) -> Result<Option<Vec<ChunkId>>> {
        let _ = filter;
        todo!()
    }
}
