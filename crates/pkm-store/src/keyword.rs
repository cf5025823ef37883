//! Keyword search over the postings.

use crate::{ChunkId, Filter, NoteId, Result, Store};

/// A note found by its words, through its best chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct KeywordHit {
    /// The note.
    pub note_id: NoteId,
    /// Its chunk that fits best.
    pub chunk_id: ChunkId,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
    /// Terms of the query that the note has, in any chunk.
    pub n_terms_matched: usize,
    /// Whether the note has all of them.
    pub all_terms: bool,
}

/// The answer of a keyword search, best first, ties by note id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeywordAnswer {
    /// One a note.
    pub hits: Vec<KeywordHit>,
    /// Terms that the query was understood as; 0 for a blank or punctuation-only one.
    pub n_terms: usize,
}

impl Store {
    /// Finds up to `limit_notes` notes by the words of `query`: words, `"phrases"`,
    /// `-excluded` words; everything else is literal, and no text is an error.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn keyword_search(
        &self,
        query: &str,
        filter: &Filter,
        limit_notes: usize,
    ) -> Result<KeywordAnswer> {
        let _ = (query, filter, limit_notes);
        Ok(KeywordAnswer::default())
    }
}
