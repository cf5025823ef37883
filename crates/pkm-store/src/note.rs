//! Notes as callers give and get them.

use std::ops::Range;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ChunkId, NoteId, PassageHash, Revision};

/// A note, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Its number.
    pub id: NoteId,
    /// Its title, as written.
    pub title: String,
    /// Markdown, byte for byte as written.
    pub content: String,
    /// Tags as written, in the order given, each once (case and Unicode form aside).
    pub tags: Vec<String>,
    /// Folder without slashes at the ends; "" is the root.
    pub folder: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its present state was made.
    pub updated_at: Timestamp,
    /// The number of its present state.
    pub revision: Revision,
    /// The file it was imported from.
    pub source: Option<Source>,
    /// Chunker and tokenizer that made its chunks.
    pub chunked_by: String,
}

/// A note without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteSummary {
    /// Its number.
    pub id: NoteId,
    /// Its title.
    pub title: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its folder; "" is the root.
    pub folder: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its present state was made.
    pub updated_at: Timestamp,
    /// The number of its present state.
    pub revision: Revision,
    /// Length of its content.
    pub size_bytes: u64,
}

/// A note to be added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewNote {
    /// Its title.
    pub title: String,
    /// Markdown, kept byte for byte.
    pub content: String,
    /// Tags; blank ones and repetitions are dropped.
    pub tags: Vec<String>,
    /// Folder; "" is the root. Slashes at the ends and empty parts are dropped.
    pub folder: String,
    /// When it was made, if not now.
    pub created_at: Option<Timestamp>,
    /// When it was last changed, if not now.
    pub updated_at: Option<Timestamp>,
    /// The file it comes from.
    pub source: Option<Source>,
}

/// Everything about a note that an edit can change. An edit gives all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NoteState {
    /// Its title.
    pub title: String,
    /// Its Markdown.
    pub content: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its folder.
    pub folder: String,
    /// The file it comes from. A change of this alone makes no new revision.
    pub source: Option<Source>,
}

/// The file that a note was imported from. Among live notes `(root, path)` is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The folder that was imported.
    pub root: String,
    /// The file below it, with `/`.
    pub path: String,
    /// Hash of the file's bytes when it was imported.
    pub hash: [u8; 32],
}

/// A piece of a note, as the chunker cut it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// Headings above it, outermost first.
    pub heading_path: Vec<String>,
    /// Bytes of the note's content; on character boundaries.
    pub range: Range<usize>,
    /// Line of its first byte, from 1.
    pub first_line: usize,
    /// What its vector is kept under.
    pub passage_hash: PassageHash,
    /// Tokens of the passage as the model counts them.
    pub n_tokens: usize,
}

/// The chunks of one state of a note.
#[derive(Debug, Clone, Copy)]
pub struct Chunking<'a> {
    /// Chunker and tokenizer that made them.
    pub by: &'a str,
    /// In order. A note without chunks is still found by its title, headings and tags.
    pub chunks: &'a [NewChunk],
}

/// An edit: the whole new state, and the revision that it was made for.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// The revision that the caller saw; `None` overwrites whatever is there.
    pub expected: Option<Revision>,
    /// The new state.
    pub state: &'a NoteState,
    /// The chunks of the new content.
    pub chunking: Chunking<'a>,
}

/// What a write made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The note.
    pub id: NoteId,
    /// Its revision now.
    pub revision: Revision,
    /// When its present state was made.
    pub updated_at: Timestamp,
    /// False when the note already was as asked, and so kept its revision.
    pub changed: bool,
}

/// What a deletion left in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The note.
    pub id: NoteId,
    /// The revision it rests at; deleting makes no new one.
    pub revision: Revision,
    /// When it was deleted.
    pub deleted_at: Timestamp,
}

/// A former or present state of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRevision {
    /// The note.
    pub id: NoteId,
    /// The state's number.
    pub revision: Revision,
    /// Its title then.
    pub title: String,
    /// Its content then.
    pub content: String,
    /// Its tags then.
    pub tags: Vec<String>,
    /// Its folder then.
    pub folder: String,
    /// When that state was made.
    pub changed_at: Timestamp,
}

/// A line of a note's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionSummary {
    /// The state's number.
    pub revision: Revision,
    /// Its title then.
    pub title: String,
    /// Length of its content then.
    pub size_bytes: u64,
    /// When that state was made.
    pub changed_at: Timestamp,
}

/// A note in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashedNote {
    /// The note as it was.
    pub note: Note,
    /// When it was deleted.
    pub deleted_at: Timestamp,
}

/// A line of the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashSummary {
    /// The note as it was.
    pub note: NoteSummary,
    /// When it was deleted.
    pub deleted_at: Timestamp,
}

/// What emptying the trash would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashContents {
    /// How many notes.
    pub n_notes: usize,
    /// The one deleted first.
    pub oldest: Option<TrashSummary>,
    /// The one deleted last.
    pub newest: Option<TrashSummary>,
    /// Another one for any other set of notes.
    pub mark: TrashMark,
}

/// Stands for the notes that are in the trash at one moment, each since its deletion.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrashMark(pub(crate) String);

/// What a purge removed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// Notes with all their revisions.
    pub n_notes: usize,
    /// Former states of those notes.
    pub n_revisions: usize,
    /// Vectors that no live or trashed note needs.
    pub n_vectors: usize,
}

/// Which notes are meant; all conditions must hold, and the default means all notes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Tags that a note must all have; case and Unicode form do not matter.
    pub tags: Vec<String>,
    /// Folder, sub-folders included; case and Unicode form do not matter. "" means all.
    pub folder: Option<String>,
    /// At this time or later.
    pub updated_after: Option<Timestamp>,
    /// Before this time.
    pub updated_before: Option<Timestamp>,
}

/// The order of a list. Ties go by id, so that a page never repeats or skips a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Last changed first.
    #[default]
    Updated,
    /// Newest first.
    Created,
    /// By title from A to Z and 가 to 힣; case and Unicode form do not matter.
    Title,
}

/// Where a page of a list ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPosition {
    /// The order of the list.
    pub sort: Sort,
    /// The last note's sort key.
    pub key: String,
    /// The last note.
    pub id: NoteId,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotePage {
    /// The notes, in order.
    pub notes: Vec<NoteSummary>,
    /// Where to go on; `None` on the last page.
    pub next: Option<ListPosition>,
    /// Notes on all pages together.
    pub total: usize,
}

/// A tag or a folder, and how many live notes have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The tag or folder, as the oldest of its notes writes it.
    pub name: String,
    /// Notes with exactly this tag, or in exactly this folder.
    pub n_notes: usize,
}

/// What the store knows about a file that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// The file below the root.
    pub path: String,
    /// The live note that came from it.
    pub id: NoteId,
    /// Hash of the file when it was imported.
    pub hash: [u8; 32],
}

/// A stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its number.
    pub id: ChunkId,
    /// Its note.
    pub note_id: NoteId,
    /// Its position in the note, from 0.
    pub ordinal: usize,
    /// Headings above it, outermost first.
    pub heading_path: Vec<String>,
    /// Bytes of the note's content.
    pub range: Range<usize>,
    /// Line of its first byte, from 1.
    pub first_line: usize,
    /// What its vector is kept under.
    pub passage_hash: PassageHash,
    /// Tokens of the passage.
    pub n_tokens: usize,
}

/// A chunk with what a hit shows of its note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The chunk.
    pub chunk_id: ChunkId,
    /// Its note.
    pub note_id: NoteId,
    /// The note's title.
    pub title: String,
    /// The note's folder.
    pub folder: String,
    /// The note's tags.
    pub tags: Vec<String>,
    /// When the note's present state was made.
    pub updated_at: Timestamp,
    /// The note's revision.
    pub revision: Revision,
    /// Headings above the chunk, outermost first.
    pub heading_path: Vec<String>,
    /// Line of the chunk's first byte in the note, from 1.
    pub first_line: usize,
    /// The chunk's bytes in the note.
    pub range: Range<usize>,
    /// The chunk's text.
    pub text: String,
}
