//! Vectors by passage and fingerprint: storing, loading, dropping.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::error::Fault;
use crate::{ChunkId, Error, NoteId, PassageHash, Result, Store, change};

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

/// How far a vector's length may be from 1.
const MAX_LENGTH_ERROR: f64 = 1e-3;

impl Store {
    /// Stores vectors of `dim` dimensions made by `fingerprint`, all or none. One that is
    /// already there is replaced; one whose passage no live or trashed note has any more is
    /// left out. Returns the number stored.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidVector`] for one that is not finite, not of length 1, constant, or has
    /// another number of dimensions; [`Error::Dimension`] when the fingerprint's vectors have
    /// another number.
    pub fn put_vectors(
        &self,
        fingerprint: &str,
        dim: usize,
        vectors: &[(PassageHash, Vec<f32>)],
    ) -> Result<usize> {
        for (hash, vector) in vectors {
            if let Some(why) = fault_in(vector, dim) {
                return Err(Error::InvalidVector { hash: *hash, why });
            }
        }
        self.write("storing vectors", |tx| {
            let id = fingerprint_for(tx, fingerprint, dim)?;
            let mut wanted = tx.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM chunk WHERE passage_hash = ?1)
                     OR EXISTS (SELECT 1 FROM trashed_passage WHERE passage_hash = ?1)",
            )?;
            let mut put = tx.prepare_cached(
                "INSERT INTO vector (passage_hash, fingerprint_id, vector) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET vector = excluded.vector",
            )?;
            let mut unfail = tx.prepare_cached(
                "DELETE FROM failed_passage WHERE passage_hash = ?1 AND fingerprint_id = ?2",
            )?;
            let mut log = tx.prepare_cached(
                "INSERT INTO vector_change (chunk_id, fingerprint_id)
                 SELECT id, ?2 FROM chunk WHERE passage_hash = ?1",
            )?;
            let mut n_stored = 0;
            for (hash, vector) in vectors {
                if !wanted.query_row([hash.0], |row| row.get(0))? {
                    continue;
                }
                put.execute(params![hash.0, id, to_blob(vector)])?;
                unfail.execute(params![hash.0, id])?;
                log.execute(params![hash.0, id])?;
                n_stored += 1;
            }
            change::prune(tx)?;
            Ok(n_stored)
        })
    }

    /// Every fingerprint that has vectors, the one with most first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn fingerprints(&self) -> Result<Vec<FingerprintCount>> {
        self.read("counting vectors", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT f.name, f.dim, count(*) FROM vector v
                 JOIN fingerprint f ON f.id = v.fingerprint_id
                 GROUP BY f.id ORDER BY count(*) DESC, f.name",
            )?;
            let counts = query.query_map([], |row| {
                Ok(FingerprintCount {
                    fingerprint: row.get(0)?,
                    dim: crate::chunk::size(row, 1)?,
                    n_vectors: crate::chunk::size(row, 2)?,
                })
            })?;
            Ok(counts.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Drops the vectors and the failures of every fingerprint not in `keep`. Returns the
    /// number of vectors dropped. An index of theirs is told to reload.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn drop_vectors_except(&self, keep: &[&str]) -> Result<usize> {
        self.write("dropping old vectors", |tx| {
            let known: Vec<(i64, String)> = tx
                .prepare_cached("SELECT id, name FROM fingerprint")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut n_dropped = 0;
            for (id, _) in known
                .iter()
                .filter(|(_, name)| !keep.contains(&name.as_str()))
            {
                n_dropped += tx.execute("DELETE FROM vector WHERE fingerprint_id = ?1", [id])?;
                tx.execute("DELETE FROM fingerprint WHERE id = ?1", [id])?;
                // Moves the sequence on, so that an index of this fingerprint asks what happened.
                change::log(tx, ChunkId::default(), Some(*id))?;
            }
            Ok(n_dropped)
        })
    }

    /// The vectors of a note's chunks, in the order of the chunks; chunks without one are
    /// left out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn vectors_of(&self, id: NoteId, fingerprint: &str) -> Result<Vec<(ChunkId, Vec<f32>)>> {
        self.read("reading vectors", |tx| {
            let mut query = tx.prepare_cached(
                "SELECT c.id, v.vector FROM chunk c
                 JOIN vector v ON v.passage_hash = c.passage_hash
                 JOIN fingerprint f ON f.id = v.fingerprint_id
                 WHERE c.note_id = ?1 AND f.name = ?2 ORDER BY c.ordinal",
            )?;
            let vectors = query.query_map(params![id.0, fingerprint], |row| {
                Ok((ChunkId(row.get(0)?), from_column(row, 1)?))
            })?;
            Ok(vectors.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Gives every live chunk's vector of `fingerprint` to `take`, ascending by chunk, and
    /// returns the position from which [`vector_changes`](Self::vector_changes) goes on. One
    /// state of the store, whole.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. `take` may have been given vectors by then; should SQLite
    /// have to begin anew, it is given them again.
    pub fn load_vectors(
        &self,
        fingerprint: &str,
        take: &mut dyn FnMut(ChunkId, &[f32]),
    ) -> Result<i64> {
        self.read("loading vectors", |tx| {
            let seq = change::last(tx)?;
            let Some(Fingerprint { id, .. }) = find_fingerprint(tx, fingerprint)? else {
                return Ok(seq);
            };
            let mut query = tx.prepare_cached(
                "SELECT c.id, v.vector FROM chunk c
                 JOIN vector v ON v.passage_hash = c.passage_hash AND v.fingerprint_id = ?1
                 ORDER BY c.id",
            )?;
            let mut rows = query.query([id])?;
            let mut vector = Vec::new();
            while let Some(row) = rows.next()? {
                vector.clear();
                vector.extend(floats(row.get_ref(1)?.as_blob()?));
                take(ChunkId(row.get(0)?), &vector);
            }
            Ok(seq)
        })
    }
}

/// A row of `fingerprint`.
pub(crate) struct Fingerprint {
    pub(crate) id: i64,
    pub(crate) dim: Option<usize>,
    pub(crate) since_seq: i64,
}

pub(crate) fn find_fingerprint(
    tx: &Transaction<'_>,
    name: &str,
) -> Result<Option<Fingerprint>, Fault> {
    Ok(tx
        .prepare_cached("SELECT id, dim, since_seq FROM fingerprint WHERE name = ?1")?
        .query_row([name], |row| {
            let dim: Option<i64> = row.get(1)?;
            Ok(Fingerprint {
                id: row.get(0)?,
                dim: dim.and_then(|dim| usize::try_from(dim).ok()),
                since_seq: row.get(2)?,
            })
        })
        .optional()?)
}

/// The number of a fingerprint, made if it is new.
pub(crate) fn intern_fingerprint(tx: &Transaction<'_>, name: &str) -> Result<i64, Fault> {
    if let Some(found) = find_fingerprint(tx, name)? {
        return Ok(found.id);
    }
    tx.prepare_cached("INSERT INTO fingerprint (name, since_seq) VALUES (?1, ?2)")?
        .execute(params![name, change::last(tx)?])?;
    Ok(tx.last_insert_rowid())
}

/// The number of a fingerprint whose vectors have `dim` dimensions from now on.
fn fingerprint_for(tx: &Transaction<'_>, name: &str, dim: usize) -> Result<i64, Fault> {
    let known = find_fingerprint(tx, name)?.and_then(|found| found.dim);
    match known {
        Some(expected) if expected != dim => {
            let fingerprint = name.to_owned();
            return Err(Error::Dimension {
                fingerprint,
                expected,
                found: dim,
            }
            .into());
        }
        _ => {}
    }
    let id = intern_fingerprint(tx, name)?;
    if known.is_none() {
        tx.prepare_cached("UPDATE fingerprint SET dim = ?2 WHERE id = ?1")?
            .execute([id, dim as i64])?;
    }
    Ok(id)
}

/// What is wrong with a vector, if anything, as the end of a sentence that begins with "the
/// vector".
pub(crate) fn fault_in(vector: &[f32], dim: usize) -> Option<String> {
    if vector.len() != dim {
        return Some(format!("has {} dimensions, not {dim}", vector.len()));
    }
    if vector.iter().any(|x| !x.is_finite()) {
        return Some("is not finite".to_owned());
    }
    let length = vector
        .iter()
        .map(|x| f64::from(*x).powi(2))
        .sum::<f64>()
        .sqrt();
    if (length - 1.0).abs() > MAX_LENGTH_ERROR {
        return Some(format!("has length {length:.4}, not 1"));
    }
    if dim > 1 && vector.iter().all(|x| *x == vector[0]) {
        return Some("is constant".to_owned());
    }
    None
}

fn to_blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(blob: &[u8]) -> impl Iterator<Item = f32> {
    blob.as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
}

pub(crate) fn from_column(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<f32>> {
    Ok(floats(row.get_ref(column)?.as_blob()?).collect())
}
