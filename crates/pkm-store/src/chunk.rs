//! Chunks and their postings, which come and go together; and passages for hits.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::analyze;
use crate::error::Fault;
use crate::filter::Condition;
use crate::key::{from_json, from_micros, to_json};
use crate::{
    Chunk, ChunkId, Chunking, Error, Filter, NewChunk, NoteId, NoteState, Passage, PassageHash,
    Result, Store,
};

impl Store {
    /// The chunks of a live note, in order; empty for any other.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn chunks_of(&self, id: NoteId) -> Result<Vec<Chunk>> {
        self.read("reading chunks", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT id, note_id, ordinal, heading_path, start_byte, end_byte, first_line,
                        passage_hash, n_tokens
                 FROM chunk WHERE note_id = ?1 AND passage_hash IS NOT NULL ORDER BY ordinal",
            )?;
            let chunks = query.query_map([id.0], |row| {
                Ok(Chunk {
                    id: ChunkId(row.get(0)?),
                    note_id: NoteId(row.get(1)?),
                    ordinal: size(row, 2)?,
                    heading_path: from_json(&row.get::<_, String>(3)?),
                    range: size(row, 4)?..size(row, 5)?,
                    first_line: size(row, 6)?,
                    passage_hash: PassageHash(row.get(7)?),
                    n_tokens: size(row, 8)?,
                })
            })?;
            Ok(chunks.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// These chunks with what a hit shows, in the order asked; ids that are gone drop out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn passages(&self, ids: &[ChunkId]) -> Result<Vec<Passage>> {
        self.read("reading passages", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT c.id, c.note_id, n.title, n.folder, n.updated_at, n.revision,
                        c.heading_path, c.first_line, c.start_byte, c.end_byte, n.content
                 FROM chunk c JOIN note n ON n.id = c.note_id
                 WHERE c.id = ?1 AND n.deleted_at IS NULL",
            )?;
            let mut passages = Vec::with_capacity(ids.len());
            for id in ids {
                let found = query.query_row([id.0], passage).optional()?;
                if let Some(mut passage) = found {
                    passage.tags = crate::read::tags_of(tx, passage.note_id)?;
                    passages.push(passage);
                }
            }
            Ok(passages)
        })
    }

    /// The notes that chunks belong to; chunks that are gone are left out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn notes_of(&self, ids: &[ChunkId]) -> Result<HashMap<ChunkId, NoteId>> {
        self.read("looking chunks up", |tx| {
            let mut query = tx.prepare_cached("SELECT note_id FROM chunk WHERE id = ?1")?;
            let mut notes = HashMap::with_capacity(ids.len());
            for id in ids {
                let note: Option<i64> = query.query_row([id.0], |row| row.get(0)).optional()?;
                notes.extend(note.map(|note| (*id, NoteId(note))));
            }
            Ok(notes)
        })
    }

    /// The chunks of the notes under `filter`, ascending; `None` when the filter lets all
    /// through.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn allowed_chunks(&self, filter: &Filter) -> Result<Option<Vec<ChunkId>>> {
        let Some(condition) = Condition::of(filter) else {
            return Ok(None);
        };
        self.read("filtering notes", |tx| allowed(tx, &condition).map(Some))
    }
}

/// The chunks of the notes under `condition`, ascending.
pub(crate) fn allowed(tx: &Transaction<'_>, condition: &Condition) -> Result<Vec<ChunkId>, Fault> {
    let mut query = tx.prepare_cached(&format!(
        "SELECT c.id FROM note n JOIN chunk c ON c.note_id = n.id
         WHERE n.deleted_at IS NULL AND {} ORDER BY c.id",
        condition.sql
    ))?;
    let ids = query.query_map(condition.params().as_slice(), |row| row.get(0).map(ChunkId))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Gives a note the chunks of `state`, and the postings.
pub(crate) fn insert(
    tx: &Transaction<'_>,
    id: NoteId,
    state: &NoteState,
    chunking: Chunking<'_>,
) -> Result<(), Fault> {
    let fields = analyze::NoteFields::new(&state.title, &state.tags);
    if chunking.chunks.is_empty() {
        let stand_in = NewChunk {
            heading_path: Vec::new(),
            range: 0..0,
            first_line: 1,
            passage_hash: PassageHash([0; 32]),
            n_tokens: 0,
        };
        let chunk_id = insert_row(tx, id, 0, &stand_in, None)?;
        insert_posting(tx, chunk_id, &fields, &[], "")?;
        return Ok(());
    }
    for (ordinal, chunk) in chunking.chunks.iter().enumerate() {
        let text = state
            .content
            .get(chunk.range.clone())
            .ok_or(Error::InvalidChunk {
                ordinal,
                start: chunk.range.start,
                end: chunk.range.end,
            })?;
        let chunk_id = insert_row(tx, id, ordinal, chunk, Some(chunk.passage_hash))?;
        insert_posting(tx, chunk_id, &fields, &chunk.heading_path, text)?;
    }
    log_change(tx, id)
}

/// Takes a note's chunks and postings away.
pub(crate) fn remove(tx: &Transaction<'_>, id: NoteId) -> Result<(), Fault> {
    log_change(tx, id)?;
    tx.prepare_cached(
        "DELETE FROM posting WHERE rowid IN (SELECT id FROM chunk WHERE note_id = ?1)",
    )?
    .execute([id.0])?;
    tx.prepare_cached("DELETE FROM chunk WHERE note_id = ?1")?
        .execute([id.0])?;
    Ok(())
}

/// Writes one chunk's posting.
pub(crate) fn insert_posting(
    tx: &Transaction<'_>,
    chunk_id: ChunkId,
    fields: &analyze::NoteFields,
    heading_path: &[String],
    text: &str,
) -> Result<(), Fault> {
    tx.prepare_cached(
        "INSERT INTO posting (rowid, title, headings, tags, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        chunk_id.0,
        fields.title,
        analyze::posting(&heading_path.join("\n")),
        fields.tags,
        analyze::posting(text),
    ])?;
    Ok(())
}

fn insert_row(
    tx: &Transaction<'_>,
    id: NoteId,
    ordinal: usize,
    chunk: &NewChunk,
    hash: Option<PassageHash>,
) -> Result<ChunkId, Fault> {
    tx.prepare_cached(
        "INSERT INTO chunk (note_id, ordinal, heading_path, start_byte, end_byte, first_line,
                            n_tokens, passage_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        id.0,
        ordinal as i64,
        to_json(&chunk.heading_path),
        chunk.range.start as i64,
        chunk.range.end as i64,
        chunk.first_line as i64,
        chunk.n_tokens as i64,
        hash.map(|hash| hash.0),
    ])?;
    Ok(ChunkId(tx.last_insert_rowid()))
}

/// Tells the indexes about those of a note's chunks that have a vector of any fingerprint.
fn log_change(tx: &Transaction<'_>, id: NoteId) -> Result<(), Fault> {
    tx.prepare_cached(
        "INSERT INTO vector_change (chunk_id)
         SELECT c.id FROM chunk c WHERE c.note_id = ?1
         AND EXISTS (SELECT 1 FROM vector v WHERE v.passage_hash = c.passage_hash)",
    )?
    .execute([id.0])?;
    crate::change::prune(tx)
}

fn passage(row: &Row<'_>) -> rusqlite::Result<Passage> {
    let range = size(row, 8)?..size(row, 9)?;
    let content: &str = row.get_ref(10)?.as_str()?;
    Ok(Passage {
        chunk_id: ChunkId(row.get(0)?),
        note_id: NoteId(row.get(1)?),
        title: row.get(2)?,
        folder: row.get(3)?,
        tags: Vec::new(),
        updated_at: from_micros(row.get(4)?),
        revision: row.get(5)?,
        heading_path: from_json(&row.get::<_, String>(6)?),
        first_line: size(row, 7)?,
        text: content.get(range.clone()).unwrap_or_default().to_owned(),
        range,
    })
}

/// A column that holds a count or a position.
pub(crate) fn size(row: &Row<'_>, column: usize) -> rusqlite::Result<usize> {
    row.get::<_, i64>(column)
        .map(|n| usize::try_from(n).unwrap_or(0))
}
