//! The log of changes by which an index of vectors keeps up with every process's writes.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::Fault;
use crate::vector::{Fingerprint, find_fingerprint, from_column};
use crate::{ChunkId, Result, Store};

/// Changes kept at least; an index further behind loads anew, which is then the quicker way.
const MIN_KEPT: i64 = 100_000;

/// Changes beyond [`MIN_KEPT`] at which the log is cut: not at every write.
const SLACK: i64 = 10_000;

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
    /// What has changed for an index of `fingerprint` that is at position `since`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn vector_changes(&self, fingerprint: &str, since: i64) -> Result<Changes> {
        self.read("reading what has changed", |tx| {
            let seq = last(tx)?;
            if seq == since {
                return Ok(Changes::UpToDate);
            }
            let first: Option<i64> = tx
                .prepare_cached("SELECT min(seq) FROM vector_change")?
                .query_row([], |row| row.get(0))?;
            let found = find_fingerprint(tx, fingerprint)?;
            // A position in the future belongs to another file, such as one before a backup
            // was put back.
            let is_lost = since > seq || first.is_none_or(|first| since < first - 1);
            let Some(Fingerprint { id, .. }) =
                found.filter(|found| !is_lost && found.since_seq <= since)
            else {
                return Ok(Changes::Reload);
            };
            let touched: BTreeSet<i64> = tx
                .prepare_cached(
                    "SELECT chunk_id FROM vector_change
                     WHERE seq > ?1 AND (fingerprint_id IS NULL OR fingerprint_id = ?2)",
                )?
                .query_map([since, id], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut vector = tx.prepare_cached(
                "SELECT v.vector FROM chunk c
                 JOIN vector v ON v.passage_hash = c.passage_hash AND v.fingerprint_id = ?2
                 WHERE c.id = ?1",
            )?;
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            for chunk_id in touched {
                match vector
                    .query_row([chunk_id, id], |row| from_column(row, 0))
                    .optional()?
                {
                    Some(vector) => added.push((ChunkId(chunk_id), vector)),
                    None => removed.push(ChunkId(chunk_id)),
                }
            }
            Ok(Changes::Apply {
                added,
                removed,
                seq,
            })
        })
    }

    /// The position of the last change; cheap enough for every search.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn change_seq(&self) -> Result<i64> {
        self.read("asking whether anything has changed", last)
    }
}

/// The position of the last change, 0 before the first.
pub(crate) fn last(tx: &Transaction<'_>) -> Result<i64, Fault> {
    // The newest rows are never cut off, so the greatest number given is always there.
    Ok(tx
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM vector_change")?
        .query_row([], |row| row.get(0))?)
}

/// Tells the indexes to look at a chunk again.
pub(crate) fn log(
    tx: &Transaction<'_>,
    chunk_id: ChunkId,
    fingerprint_id: Option<i64>,
) -> Result<(), Fault> {
    tx.prepare_cached("INSERT INTO vector_change (chunk_id, fingerprint_id) VALUES (?1, ?2)")?
        .execute(params![chunk_id.0, fingerprint_id])?;
    Ok(())
}

/// Cuts the log's old end off when it has grown too long.
pub(crate) fn prune(tx: &Transaction<'_>) -> Result<(), Fault> {
    let (first, last): (i64, i64) = tx
        .prepare_cached(
            "SELECT coalesce((SELECT min(seq) FROM vector_change), 0),
                    coalesce((SELECT max(seq) FROM vector_change), 0)",
        )?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if last - first > MIN_KEPT + SLACK {
        tx.prepare_cached("DELETE FROM vector_change WHERE seq <= ?1")?
            .execute([last - MIN_KEPT])?;
    }
    Ok(())
}
