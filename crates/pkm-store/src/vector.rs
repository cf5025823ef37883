//! Vectors by passage and fingerprint, and the changes that an index must follow.

use std::ops::Range;

use crate::{ChunkId, NoteId, PassageHash, Result, Store};

/// A passage that has no vector of a fingerprint yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPassage {
    /// What its vector will be kept under.
    pub hash: PassageHash,
    /// The first chunk with this passage; pass the last one on to get the next batch.
    pub chunk_id: ChunkId,
    /// That chunk's note.
    pub note_id: NoteId,
    /// The note's title.
    pub title: String,
    /// Headings above the chunk, outermost first.
    pub heading_path: Vec<String>,
    /// The chunk's text.
    pub text: String,
    /// Tokens of the passage as counted when it was cut.
    pub n_tokens: usize,
}

/// How much there is, and how much of it has a vector of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Live notes.
    pub n_notes: usize,
    /// Their chunks.
    pub n_chunks: usize,
    /// Chunks with a vector.
    pub n_indexed: usize,
    /// Chunks without one that were not given up.
    pub n_pending: usize,
    /// Chunks whose passage was given up.
    pub n_failed: usize,
    /// Notes in the trash.
    pub n_trashed: usize,
}

/// Vectors of one fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FingerprintCount {
    /// What made them.
    pub fingerprint: String,
    /// Their dimensions.
    pub dim: usize,
    /// How many there are, of live chunks or not.
    pub n_vectors: usize,
}

/// A passage that was given up, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPassage {
    /// The passage.
    pub hash: PassageHash,
    /// Why.
    pub reason: String,
}

/// What an index has to do to be up to date.
#[derive(Debug, Clone, PartialEq)]
pub enum Changes {
    /// Nothing.
    UpToDate,
    /// Load everything anew: it is too far behind, or vectors were dropped.
    Reload,
    /// Insert `added` (replacing what has the same key), take `removed` out, and ask from `seq` on.
    Apply {
        /// Chunks with their vectors.
        added: Vec<(ChunkId, Vec<f32>)>,
        /// Chunks that are gone; some may never have been in the index.
        removed: Vec<ChunkId>,
        /// The new position.
        seq: i64,
    },
}

impl Store {
    /// Up to `limit` distinct passages without a vector of `fingerprint`, those given up left
    /// out, in the order of their first chunk, from after chunk `after`
    /// ([`ChunkId::default`] to begin). A worker is finished when a pass from the beginning
    /// gives nothing.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn pending_passages(
        &self,
        fingerprint: &str,
        after: ChunkId,
        limit: usize,
    ) -> Result<Vec<PendingPassage>> {
        let _ = (fingerprint, after, limit);
        todo!()
    }

    /// Stores vectors of `dim` dimensions made by `fingerprint`, all or none. One that is
    /// already there is replaced. Returns the number stored.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidVector`](crate::Error::InvalidVector) for one that is not finite, not of
    /// length 1 or has another number of dimensions;
    /// [`Error::Dimension`](crate::Error::Dimension) when the fingerprint's vectors have
    /// another number.
    pub fn put_vectors(
        &self,
        fingerprint: &str,
        dim: usize,
        vectors: &[(PassageHash, Vec<f32>)],
    ) -> Result<usize> {
        let _ = (fingerprint, dim, vectors);
        todo!()
    }

    /// Gives a passage up for `fingerprint`, so that it is not pending any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn mark_failed(&self, fingerprint: &str, hash: PassageHash, reason: &str) -> Result<()> {
        let _ = (fingerprint, hash, reason);
        todo!()
    }

    /// Makes every passage that was given up pending again. Returns how many there were.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn clear_failed(&self, fingerprint: &str) -> Result<usize> {
        let _ = fingerprint;
        todo!()
    }

    /// Up to `limit` passages of live chunks that were given up.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn failed_passages(&self, fingerprint: &str, limit: usize) -> Result<Vec<FailedPassage>> {
        let _ = (fingerprint, limit);
        todo!()
    }

    /// How much there is and how much of it is indexed; remembered until the next write, so
    /// cheap enough for every search.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn counts(&self, fingerprint: &str) -> Result<Counts> {
        let _ = fingerprint;
        todo!()
    }

    /// Every fingerprint that has vectors, the one with most first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn fingerprints(&self) -> Result<Vec<FingerprintCount>> {
        todo!()
    }

    /// Drops the vectors and the failures of every fingerprint not in `keep`. Returns the
    /// number of vectors dropped. Their indexes are told to reload.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn drop_vectors_except(&self, keep: &[&str]) -> Result<usize> {
        let _ = keep;
        todo!()
    }

    /// The vectors of a note's chunks, in the order of the chunks; chunks without one are
    /// left out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn vectors_of(&self, id: NoteId, fingerprint: &str) -> Result<Vec<(ChunkId, Vec<f32>)>> {
        let _ = (id, fingerprint);
        todo!()
    }

    /// Gives every live chunk's vector of `fingerprint` to `take`, and returns the position
    /// from which [`vector_changes`](Self::vector_changes) goes on. One state of the store,
    /// whole.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn load_vectors(
        &self,
        fingerprint: &str,
        take: &mut dyn FnMut(ChunkId, &[f32]),
    ) -> Result<i64> {
        let _ = (fingerprint, take);
        todo!()
    }

    /// What has changed for an index of `fingerprint` that is at position `since`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn vector_changes(&self, fingerprint: &str, since: i64) -> Result<Changes> {
        let _ = (fingerprint, since);
        todo!()
    }

    /// The position of the last change; cheap enough for every search.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn change_seq(&self) -> Result<i64> {
        todo!()
    }
}

#[expect(dead_code, reason = "placeholder until the bodies land")]
type Unused = Range<usize>;
