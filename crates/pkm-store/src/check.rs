//! Looking for damage, and mending what can be mended without loss.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Transaction;

use crate::chunk::size;
use crate::error::Fault;
use crate::key::from_json;
use crate::{Access, ChunkId, Error, NoteId, PassageHash, Result, Store, analyze, chunk, vector};

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
        // `PRAGMA integrity_check` looks at FTS5's segments through what the connection remembers
        // of them, and takes those that another connection has merged since for damage.
        let mut problems = self.read_afresh("checking the notes", |tx| {
            let mut problems = file_problems(tx)?;
            problems.extend(foreign_key_problems(tx)?);
            problems.extend(posting_problems(tx)?);
            problems.extend(vector_problems(tx)?.into_iter().map(|(_, problem)| problem));
            problems.extend(range_problems(tx)?);
            Ok(problems)
        })?;
        // SQLite looks through a full-text index only by what it takes for a write.
        if self.access() == Access::ReadWrite {
            let looked = self.write("checking the full-text index", |tx| {
                tx.execute(
                    "INSERT INTO posting (posting) VALUES ('integrity-check')",
                    [],
                )?;
                Ok(())
            });
            match looked {
                Ok(()) => {}
                Err(Error::Corrupt { detail, .. }) => problems.push(Problem::Postings { detail }),
                Err(error) => return Err(error),
            }
        }
        Ok(problems)
    }

    /// Writes the postings anew from the notes, drops bad vectors and marks notes with bad
    /// chunks for the chunker. Notes and revisions are not touched.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn repair(&self) -> Result<Repaired> {
        self.write("repairing the notes", |tx| {
            let mut repaired = Repaired {
                n_postings: rebuild_postings(tx)?,
                ..Repaired::default()
            };
            for (id, _) in vector_problems(tx)? {
                tx.execute(
                    "INSERT INTO vector_change (chunk_id, fingerprint_id)
                     SELECT c.id, v.fingerprint_id FROM vector v
                     JOIN chunk c ON c.passage_hash = v.passage_hash WHERE v.id = ?1",
                    [id],
                )?;
                repaired.n_vectors += tx.execute("DELETE FROM vector WHERE id = ?1", [id])?;
            }
            let mut notes = BTreeSet::new();
            for problem in range_problems(tx)? {
                if let Problem::BadRange { note_id, .. } = problem {
                    notes.insert(note_id);
                }
            }
            for note_id in &notes {
                tx.execute("UPDATE note SET chunked_by = '' WHERE id = ?1", [note_id.0])?;
            }
            repaired.n_notes_to_rechunk = notes.len();
            Ok(repaired)
        })
    }
}

/// Empties the full-text index and fills it from the chunks. Returns their number.
pub(crate) fn rebuild_postings(tx: &Transaction<'_>) -> Result<usize, Fault> {
    tx.execute("INSERT INTO posting (posting) VALUES ('delete-all')", [])?;
    let mut query = tx.prepare(
        "SELECT n.id, n.title, n.content, c.id, c.heading_path, c.start_byte, c.end_byte
         FROM chunk c JOIN note n ON n.id = c.note_id
         WHERE n.deleted_at IS NULL ORDER BY n.id, c.ordinal",
    )?;
    let mut rows = query.query([])?;
    let mut n_postings = 0;
    while let Some(row) = rows.next()? {
        let tags = crate::read::tags_of(tx, NoteId(row.get(0)?))?;
        let fields = analyze::NoteFields::new(row.get_ref(1)?.as_str()?, &tags);
        let content: &str = row.get_ref(2)?.as_str()?;
        let text = content
            .get(size(row, 5)?..size(row, 6)?)
            .unwrap_or_default();
        let heading_path = from_json(row.get_ref(4)?.as_str()?);
        chunk::insert_posting(tx, ChunkId(row.get(3)?), &fields, &heading_path, text)?;
        n_postings += 1;
    }
    Ok(n_postings)
}

fn file_problems(tx: &Transaction<'_>) -> Result<Vec<Problem>, Fault> {
    let mut query = tx.prepare("PRAGMA integrity_check")?;
    let lines = query.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
    Ok(lines
        .into_iter()
        .filter(|line| line != "ok")
        .map(|detail| Problem::File { detail })
        .collect())
}

fn foreign_key_problems(tx: &Transaction<'_>) -> Result<Vec<Problem>, Fault> {
    let mut query = tx.prepare(
        "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2",
    )?;
    let problems = query.query_map([], |row| {
        Ok(Problem::ForeignKey {
            table: row.get(0)?,
            parent: row.get(1)?,
            n_rows: size(row, 2)?,
        })
    })?;
    Ok(problems.collect::<rusqlite::Result<_>>()?)
}

fn posting_problems(tx: &Transaction<'_>) -> Result<Vec<Problem>, Fault> {
    // `posting_docsize` is the table in which FTS5 keeps a row for each of its own.
    let without = tx
        .prepare("SELECT id FROM chunk EXCEPT SELECT id FROM posting_docsize")?
        .query_map([], |row| row.get(0).map(ChunkId))?
        .map(|id| id.map(|chunk_id| Problem::ChunkWithoutPosting { chunk_id }))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let stray = tx
        .prepare("SELECT id FROM posting_docsize EXCEPT SELECT id FROM chunk")?
        .query_map([], |row| row.get(0).map(ChunkId))?
        .map(|id| id.map(|chunk_id| Problem::PostingWithoutChunk { chunk_id }))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(without.into_iter().chain(stray).collect())
}

/// Bad vectors by row id.
fn vector_problems(tx: &Transaction<'_>) -> Result<Vec<(i64, Problem)>, Fault> {
    let mut query = tx.prepare(
        "SELECT v.id, v.passage_hash, f.name, f.dim, v.vector, length(v.vector)
         FROM vector v JOIN fingerprint f ON f.id = v.fingerprint_id",
    )?;
    let mut rows = query.query([])?;
    let mut problems = Vec::new();
    while let Some(row) = rows.next()? {
        let (dim, n_bytes) = (size(row, 3)?, size(row, 5)?);
        let why = match n_bytes % size_of::<f32>() {
            0 => vector::fault_in(&vector::from_column(row, 4)?, dim),
            _ => Some(format!("has {n_bytes} bytes")),
        };
        if let Some(why) = why {
            let hash = PassageHash(row.get(1)?);
            let problem = Problem::BadVector {
                hash,
                fingerprint: row.get(2)?,
                why,
            };
            problems.push((row.get(0)?, problem));
        }
    }
    Ok(problems)
}

fn range_problems(tx: &Transaction<'_>) -> Result<Vec<Problem>, Fault> {
    let mut query = tx.prepare(
        "SELECT c.note_id, c.id, c.start_byte, c.end_byte, n.content
         FROM chunk c JOIN note n ON n.id = c.note_id ORDER BY c.id",
    )?;
    let mut rows = query.query([])?;
    let mut problems = Vec::new();
    while let Some(row) = rows.next()? {
        let content: &str = row.get_ref(4)?.as_str()?;
        if content.get(size(row, 2)?..size(row, 3)?).is_none() {
            problems.push(Problem::BadRange {
                note_id: NoteId(row.get(0)?),
                chunk_id: ChunkId(row.get(1)?),
            });
        }
    }
    Ok(problems)
}
