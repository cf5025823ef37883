//! Notes on disk, the one truth: SQLite schema, postings, vectors, jobs.
//!
//! Everything that a note needs changes in one transaction, and a write that was
//! acknowledged survives the death of the process and of the machine.

mod change;
mod check;
mod chunk;
mod error;
mod filter;
mod history;
mod id;
mod job;
mod key;
mod keyword;
mod note;
mod open;
mod pending;
mod read;
mod schema;
mod store;
mod trash;
mod vector;
mod watch;
mod write;

pub mod analyze;

pub use change::Changes;
pub use check::{Problem, Repaired};
pub use error::{Error, Result};
pub use id::{ChunkId, NoteId, PassageHash, Revision};
pub use job::{Job, JobId, JobStart, JobState, JobUpdate, NewJob};
pub use keyword::{KeywordAnswer, KeywordHit};
pub use note::{
    Chunk, Chunking, Count, Deleted, Edit, Filter, ListPosition, NewChunk, NewNote, Note, NotePage,
    NoteRevision, NoteState, NoteSummary, Passage, Purged, RevisionSummary, Sort, Source,
    SourceEntry, TrashContents, TrashMark, TrashSummary, TrashedNote, Written,
};
pub use pending::{Counts, FailedPassage, PendingPassage};
pub use schema::VERSION as SCHEMA_VERSION;
pub use store::{Access, Store};
pub use vector::FingerprintCount;
pub use watch::{Commits, Watch};
