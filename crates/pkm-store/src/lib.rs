//! Notes on disk, the one truth: SQLite schema, postings, vectors, jobs.
//!
//! Everything that a note needs changes in one transaction, and a write that was
//! acknowledged survives the death of the process and of the machine.

mod check;
mod error;
mod id;
mod job;
mod keyword;
mod note;
mod read;
mod store;
mod vector;
mod write;

pub mod analyze;

pub use check::{Problem, Repaired};
pub use error::{Error, Result};
pub use id::{ChunkId, NoteId, PassageHash, Revision};
pub use job::{Job, JobId, JobStart, JobState, JobUpdate, NewJob};
pub use keyword::{KeywordAnswer, KeywordHit};
pub use note::{
    Chunk, Chunking, Count, Deleted, Edit, Filter, ListPosition, NewChunk, NewNote, Note, NotePage,
    NoteRevision, NoteState, NoteSummary, Passage, Purged, RevisionSummary, Sort, Source,
    SourceEntry, TrashSummary, TrashedNote, Written,
};
pub use store::{Access, Store};
pub use vector::{Changes, Counts, FailedPassage, FingerprintCount, PendingPassage};
