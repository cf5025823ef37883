//! A store in a folder of its own, and short ways to fill it.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod fixture;

use std::ops::Range;

use jiff::Timestamp;
use pkm_store::{
    Chunking, Edit, NewChunk, NewNote, NoteId, NoteState, PassageHash, Result, Revision, Store,
    Written,
};
use tempfile::TempDir;

/// The name of [`chunks`].
pub(crate) const CHUNKER: &str = "test";

pub(crate) struct Scene {
    pub(crate) store: Store,
    pub(crate) dir: TempDir,
}

/// A point in time, `seconds` after the first.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// One chunk for each range, and one for all when there is none.
pub(crate) fn chunks(content: &str, ranges: &[Range<usize>]) -> Vec<NewChunk> {
    let whole = 0..content.len();
    let ranges = if ranges.is_empty() {
        std::slice::from_ref(&whole)
    } else {
        ranges
    };
    let text = |range: &Range<usize>| content.get(range.clone()).unwrap_or("").as_bytes();
    ranges
        .iter()
        .map(|range| NewChunk {
            heading_path: Vec::new(),
            range: range.clone(),
            first_line: 1,
            passage_hash: PassageHash::of(text(range)),
            n_tokens: range.len(),
        })
        .collect()
}

pub(crate) fn chunking(chunks: &[NewChunk]) -> Chunking<'_> {
    Chunking {
        by: CHUNKER,
        chunks,
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            store: Store::open(dir.path()).unwrap(),
            dir,
        }
    }

    pub(crate) fn try_add(&self, note: &NewNote) -> Result<Written> {
        let chunks = chunks(&note.content, &[]);
        self.store.add_note(note, chunking(&chunks), at(0))
    }

    pub(crate) fn add_full(&self, note: &NewNote) -> Written {
        self.try_add(note).unwrap()
    }

    pub(crate) fn add(&self, title: &str, content: &str) -> NoteId {
        self.add_chunked(title, content, &[]).unwrap().id
    }

    pub(crate) fn add_with_ranges(
        &self,
        content: &str,
        ranges: &[Range<usize>],
    ) -> Result<Written> {
        self.add_chunked("t", content, ranges)
    }

    pub(crate) fn add_chunked(
        &self,
        title: &str,
        content: &str,
        ranges: &[Range<usize>],
    ) -> Result<Written> {
        let note = NewNote {
            title: title.to_owned(),
            content: content.to_owned(),
            ..NewNote::default()
        };
        let chunks = chunks(content, ranges);
        self.store.add_note(&note, chunking(&chunks), at(0))
    }

    pub(crate) fn edit(
        &self,
        id: NoteId,
        expected: Option<Revision>,
        title: &str,
        content: &str,
    ) -> Result<Written> {
        let state = NoteState {
            title: title.to_owned(),
            content: content.to_owned(),
            ..NoteState::default()
        };
        self.edit_state(id, expected, &state)
    }

    pub(crate) fn edit_state(
        &self,
        id: NoteId,
        expected: Option<Revision>,
        state: &NoteState,
    ) -> Result<Written> {
        let chunks = chunks(&state.content, &[]);
        let edit = Edit {
            expected,
            state,
            chunking: chunking(&chunks),
        };
        self.store.update_note(id, edit, at(1))
    }

    pub(crate) fn restore(&self, id: NoteId, revision: Revision) -> Result<Written> {
        let content = self
            .store
            .get_revision(id, revision)
            .map(|state| state.content)
            .unwrap_or_default();
        let chunks = chunks(&content, &[]);
        self.store
            .restore_note(id, revision, chunking(&chunks), at(2))
    }

    pub(crate) fn rechunk(&self, id: NoteId, revision: Revision, by: &str) -> Result<bool> {
        let content = self.store.get_note(id).unwrap().content;
        let chunks = chunks(&content, &[]);
        self.store.rechunk_note(
            id,
            revision,
            Chunking {
                by,
                chunks: &chunks,
            },
        )
    }

    /// The notes that a keyword search finds, best first.
    pub(crate) fn find(&self, query: &str) -> Vec<NoteId> {
        let answer = self
            .store
            .keyword_search(query, &pkm_store::Filter::default(), 50)
            .unwrap();
        answer.hits.iter().map(|hit| hit.note_id).collect()
    }
}
