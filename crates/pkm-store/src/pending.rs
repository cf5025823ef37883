//! What is still to be embedded, what was given up, and how much there is.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use crate::chunk::size;
use crate::error::Fault;
use crate::key::from_json;
use crate::vector::{find_fingerprint, intern_fingerprint};
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

/// A passage that was given up, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPassage {
    /// The passage.
    pub hash: PassageHash,
    /// Why.
    pub reason: String,
}

/// Counts by fingerprint, for as long as nobody writes.
#[derive(Debug)]
pub(crate) struct CountsCache {
    /// Never writes, so that its `PRAGMA data_version` tells of every commit there is.
    conn: Connection,
    data_version: i64,
    counts: HashMap<String, Counts>,
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
        self.read("looking for passages to embed", |tx| {
            let fingerprint_id = find_fingerprint(tx, fingerprint)?.map_or(-1, |found| found.id);
            let mut query = tx.prepare_cached(
                "SELECT c.id, c.note_id, n.title, c.heading_path, c.start_byte, c.end_byte,
                        n.content, c.passage_hash, c.n_tokens
                 FROM chunk c JOIN note n ON n.id = c.note_id
                 WHERE c.id > ?2 AND c.passage_hash IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM vector v
                        WHERE v.passage_hash = c.passage_hash AND v.fingerprint_id = ?1)
                   AND NOT EXISTS (SELECT 1 FROM failed_passage f
                        WHERE f.passage_hash = c.passage_hash AND f.fingerprint_id = ?1)
                   AND NOT EXISTS (SELECT 1 FROM chunk first
                        WHERE first.passage_hash = c.passage_hash AND first.id < c.id)
                 ORDER BY c.id LIMIT ?3",
            )?;
            let passages =
                query.query_map(params![fingerprint_id, after.0, limit as i64], |row| {
                    let content: &str = row.get_ref(6)?.as_str()?;
                    Ok(PendingPassage {
                        hash: PassageHash(row.get(7)?),
                        chunk_id: ChunkId(row.get(0)?),
                        note_id: NoteId(row.get(1)?),
                        title: row.get(2)?,
                        heading_path: from_json(&row.get::<_, String>(3)?),
                        text: content
                            .get(size(row, 4)?..size(row, 5)?)
                            .unwrap_or_default()
                            .to_owned(),
                        n_tokens: size(row, 8)?,
                    })
                })?;
            Ok(passages.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Gives a passage up for `fingerprint`, so that it is not pending any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn mark_failed(&self, fingerprint: &str, hash: PassageHash, reason: &str) -> Result<()> {
        self.write("giving a passage up", |tx| {
            let fingerprint_id = intern_fingerprint(tx, fingerprint)?;
            tx.prepare_cached(
                "INSERT INTO failed_passage (fingerprint_id, passage_hash, reason)
                 VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET reason = excluded.reason",
            )?
            .execute(params![fingerprint_id, hash.0, reason])?;
            Ok(())
        })
    }

    /// Makes every passage that was given up pending again. Returns how many there were.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn clear_failed(&self, fingerprint: &str) -> Result<usize> {
        self.write("taking passages up again", |tx| {
            Ok(tx.execute(
                "DELETE FROM failed_passage WHERE fingerprint_id IN
                     (SELECT id FROM fingerprint WHERE name = ?1)",
                [fingerprint],
            )?)
        })
    }

    /// Up to `limit` passages of live chunks that were given up.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn failed_passages(&self, fingerprint: &str, limit: usize) -> Result<Vec<FailedPassage>> {
        self.read("reading what was given up", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT p.passage_hash, p.reason FROM failed_passage p
                 JOIN fingerprint f ON f.id = p.fingerprint_id
                 WHERE f.name = ?1
                   AND EXISTS (SELECT 1 FROM chunk c WHERE c.passage_hash = p.passage_hash)
                 ORDER BY p.passage_hash LIMIT ?2",
            )?;
            let failed = query.query_map(params![fingerprint, limit as i64], |row| {
                Ok(FailedPassage {
                    hash: PassageHash(row.get(0)?),
                    reason: row.get(1)?,
                })
            })?;
            Ok(failed.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// How much there is and how much of it is indexed; remembered until the next write of any
    /// process, so cheap enough for every search.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn counts(&self, fingerprint: &str) -> Result<Counts> {
        let doing = "counting notes";
        let mut cache = self.counts_cache();
        if cache.is_none() {
            let conn = self.new_reader(doing)?;
            *cache = Some(CountsCache {
                conn,
                data_version: -1,
                counts: HashMap::new(),
            });
        }
        let cache = cache.as_mut().expect("it was made above");
        cache
            .get(fingerprint)
            .map_err(|fault| fault.while_doing(doing, self.path()))
    }
}

impl CountsCache {
    fn get(&mut self, fingerprint: &str) -> Result<Counts, Fault> {
        let data_version = self
            .conn
            .query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))?;
        if self.data_version != data_version {
            self.counts.clear();
            self.data_version = data_version;
        }
        if let Some(counts) = self.counts.get(fingerprint) {
            return Ok(*counts);
        }
        let counts = count(&self.conn, fingerprint)?;
        self.counts.insert(fingerprint.to_owned(), counts);
        Ok(counts)
    }
}

/// One statement, so one state of the store.
fn count(conn: &Connection, fingerprint: &str) -> Result<Counts, Fault> {
    let counts = conn
        .prepare_cached(
            "WITH f AS (SELECT id FROM fingerprint WHERE name = ?1)
             SELECT (SELECT count(*) FROM note WHERE deleted_at IS NULL),
                    (SELECT count(*) FROM chunk WHERE passage_hash IS NOT NULL),
                    (SELECT count(*) FROM f JOIN chunk c JOIN vector v
                        ON v.passage_hash = c.passage_hash AND v.fingerprint_id = f.id),
                    (SELECT count(*) FROM f JOIN failed_passage p ON p.fingerprint_id = f.id
                        JOIN chunk c ON c.passage_hash = p.passage_hash
                        WHERE NOT EXISTS (SELECT 1 FROM vector v
                            WHERE v.passage_hash = c.passage_hash AND v.fingerprint_id = f.id)),
                    (SELECT count(*) FROM note WHERE deleted_at IS NOT NULL)",
        )?
        .query_row([fingerprint], |row| {
            let (n_chunks, n_indexed, n_failed) = (size(row, 1)?, size(row, 2)?, size(row, 3)?);
            Ok(Counts {
                n_notes: size(row, 0)?,
                n_chunks,
                n_indexed,
                n_pending: n_chunks.saturating_sub(n_indexed + n_failed),
                n_failed,
                n_trashed: size(row, 4)?,
            })
        })
        .optional()?;
    Ok(counts.unwrap_or_default())
}
