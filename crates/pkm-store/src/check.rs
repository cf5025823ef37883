//! Looking for damage, and mending what can be mended without loss.

use std::fmt;

use crate::{ChunkId, NoteId, PassageHash, Result, Store};

/// Something that should not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// SQLite found the file damaged.
    File {
        /// What it said.
        detail: String,
    },
    /// A row refers to one that is not there.
    ForeignKey {
        /// The table.
        table: String,
        /// The table it refers to.
        parent: String,
        /// How many rows.
        n_rows: usize,
    },
    /// The full-text index is damaged.
    Postings {
        /// What SQLite said.
        detail: String,
    },
    /// A chunk cannot be found by keyword.
    ChunkWithoutPosting {
        /// The chunk.
        chunk_id: ChunkId,
    },
    /// A posting whose chunk is gone.
    PostingWithoutChunk {
        /// The chunk that was.
        chunk_id: ChunkId,
    },
    /// A vector that must not be there.
    BadVector {
        /// The passage.
        hash: PassageHash,
        /// What made it.
        fingerprint: String,
        /// What is wrong.
        why: String,
    },
    /// A chunk that covers what is no slice of its note.
    BadRange {
        /// The note.
        note_id: NoteId,
        /// The chunk.
        chunk_id: ChunkId,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { detail } => write!(f, "the file is damaged: {detail}"),
            Self::ForeignKey {
                table,
                parent,
                n_rows,
            } => {
                write!(
                    f,
                    "{n_rows} rows of `{table}` refer to a missing `{parent}`"
                )
            }
            Self::Postings { detail } => write!(f, "the full-text index is damaged: {detail}"),
            Self::ChunkWithoutPosting { chunk_id } => {
                write!(f, "chunk {chunk_id} cannot be found by keyword")
            }
            Self::PostingWithoutChunk { chunk_id } => {
                write!(
                    f,
                    "the full-text index holds chunk {chunk_id}, which is gone"
                )
            }
            Self::BadVector {
                hash,
                fingerprint,
                why,
            } => {
                write!(f, "the vector of passage {hash} by `{fingerprint}` {why}")
            }
            Self::BadRange { note_id, chunk_id } => {
                write!(f, "chunk {chunk_id} is no slice of note {note_id}")
            }
        }
    }
}

/// What was mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Chunks whose postings were written anew.
    pub n_postings: usize,
    /// Bad vectors dropped; their passages are pending again.
    pub n_vectors: usize,
    /// Notes marked to be chunked anew, because a chunk was no slice of them.
    pub n_notes_to_rechunk: usize,
}

impl Store {
    /// Looks everything over. Empty means sound. Reads the whole file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read at all.
    pub fn check(&self) -> Result<Vec<Problem>> {
        todo!()
    }

    /// Writes the postings anew from the notes, drops bad vectors and marks notes with bad
    /// chunks for the chunker. Notes and revisions are not touched.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn repair(&self) -> Result<Repaired> {
        todo!()
    }
}
