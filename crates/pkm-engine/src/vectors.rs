//! The vector index in memory, kept in step with the store.
//!
//! Passages are held in a group for each language and compared after what is common to their
//! language is taken away ([`crate::anchors`]). The store keeps the vectors as the model made them.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pkm_embed::Embedder;
use pkm_index::{Filter, VectorIndex};
use pkm_store::{Changes, ChunkId, Store};

use crate::Error;
use crate::anchors::{Anchors, dot};

/// How many passages the model's general mean of a language counts for beside the user's own: so
/// that a first Korean note is not its own mean, and a thousand of them are.
const PRIOR: f64 = 50.0;

/// What the plain cosine counts for beside the centred one: one language's questions prefer its own
/// notes a little. Chosen on the project's corpus (`pkm eval tests/corpus`).
const PLAIN_WEIGHT: f32 = 0.3;

/// The vectors of one fingerprint. A search sees them whole, before a change or after it.
pub(crate) struct Vectors {
    loaded: RwLock<Option<Loaded>>,
    /// Held while the model's language means are made, so that two callers do not both make them.
    making: Mutex<()>,
}

/// What to search near to.
pub(crate) enum Probe<'a> {
    /// A question, with its vector.
    Query { text: &'a str, vector: &'a [f32] },
    /// A passage's vector.
    Passage { vector: &'a [f32] },
}

/// A chunk near to a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Near {
    pub(crate) chunk: ChunkId,
    /// What ranks: the cosine without what is common to the languages, and a little of the plain one.
    pub(crate) score: f32,
    /// Cosine of the vectors as the model made them.
    pub(crate) similarity: f32,
}

struct Loaded {
    fingerprint: String,
    anchors: Anchors,
    groups: Vec<Group>,
    /// The last change of the store that the groups have seen.
    seq: i64,
}

/// The passages of one language.
struct Group {
    index: VectorIndex,
    /// Sum of the vectors in `index`.
    sum: Vec<f64>,
}

impl Vectors {
    pub(crate) fn new() -> Self {
        Self {
            loaded: RwLock::new(None),
            making: Mutex::new(()),
        }
    }

    /// Takes in what this or another process has changed since the last call.
    pub(crate) fn catch_up(
        &self,
        store: &Store,
        embedder: &Arc<dyn Embedder>,
    ) -> Result<(), Error> {
        let card = embedder.card();
        let newest = store.change_seq()?;
        let has_anchors = {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            let loaded = loaded
                .as_ref()
                .filter(|l| l.fingerprint == card.fingerprint);
            if loaded.is_some_and(|l| l.seq == newest) {
                return Ok(());
            }
            loaded.is_some()
        };
        // The model runs under no lock that a search holds. Who waits here finds the means kept.
        let anchors = if has_anchors {
            None
        } else {
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            Some(Anchors::of(embedder, store.dir())?)
        };
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // A change that fails half-way leaves nothing rather than half an index.
        let current = loaded.take().filter(|l| l.fingerprint == card.fingerprint);
        *loaded = match (current, anchors) {
            (Some(current), _) => Some(current.advance(store)?),
            (None, Some(anchors)) => {
                Some(Loaded::read(store, anchors, &card.fingerprint, card.dim)?)
            }
            // Dropped between the two locks, by a failure: the next call begins anew.
            (None, None) => None,
        };
        Ok(())
    }

    /// The `k` nearest chunks, nearest first, ties by chunk. Empty before the first
    /// [`Vectors::catch_up`].
    pub(crate) fn search(
        &self,
        probe: &Probe<'_>,
        k: usize,
        filter: Filter<'_>,
    ) -> Result<Vec<Near>, Error> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            None => Ok(Vec::new()),
            Some(loaded) => loaded
                .search(probe, k, filter)
                .map_err(|source| Error::Internal {
                    doing: "searching the vectors",
                    source: Box::new(source),
                }),
        }
    }

    /// How many vectors there are, and the memory they take in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let groups = loaded.as_ref().map_or(&[][..], |l| l.groups.as_slice());
        (
            groups.iter().map(|g| g.index.len()).sum(),
            groups.iter().map(|g| g.index.size_bytes()).sum(),
        )
    }
}

impl Loaded {
    fn read(store: &Store, anchors: Anchors, fingerprint: &str, dim: usize) -> Result<Self, Error> {
        let empty = || Group {
            index: VectorIndex::new(dim),
            sum: vec![0.0; dim],
        };
        let groups = anchors.groups().iter().map(|_| empty()).collect();
        let mut loaded = Self {
            fingerprint: fingerprint.to_owned(),
            anchors,
            groups,
            seq: 0,
        };
        let mut refused = 0usize;
        loaded.seq = store.load_vectors(fingerprint, &mut |chunk, vector| {
            refused += usize::from(loaded.insert(chunk, vector).is_err());
        })?;
        if refused > 0 {
            tracing::error!(refused, "damaged vectors were left out; run `pkm doctor`");
        }
        Ok(loaded)
    }

    fn advance(mut self, store: &Store) -> Result<Self, Error> {
        match store.vector_changes(&self.fingerprint, self.seq)? {
            Changes::UpToDate => Ok(self),
            Changes::Reload => {
                let dim = self.groups[0].index.dim();
                Self::read(store, self.anchors, &self.fingerprint, dim)
            }
            Changes::Apply {
                added,
                removed,
                seq,
            } => {
                for chunk in removed {
                    self.remove(chunk);
                }
                for (chunk, vector) in added {
                    if let Err(error) = self.insert(chunk, &vector) {
                        tracing::error!(%error, chunk = chunk.0, "a damaged vector was left out");
                    }
                }
                self.seq = seq;
                Ok(self)
            }
        }
    }

    fn insert(&mut self, chunk: ChunkId, vector: &[f32]) -> Result<(), pkm_index::Error> {
        self.remove(chunk);
        let group = self.anchors.group_of(vector);
        let group = &mut self.groups[group];
        group.index.insert(key(chunk), vector)?;
        for (total, value) in group.sum.iter_mut().zip(vector) {
            *total += f64::from(*value);
        }
        Ok(())
    }

    fn remove(&mut self, chunk: ChunkId) {
        for group in &mut self.groups {
            let Some(vector) = group.index.get(key(chunk)) else {
                continue;
            };
            for (total, value) in group.sum.iter_mut().zip(vector) {
                *total -= f64::from(*value);
            }
            group.index.remove(key(chunk));
        }
    }

    /// The mean of a group: the model's general one and the user's passages together.
    fn center(&self, group: usize) -> Vec<f32> {
        let general = &self.anchors.groups()[group].passage;
        let Group { index, sum } = &self.groups[group];
        if self.groups.len() == 1 {
            return general.clone();
        }
        let n = index.len() as f64;
        general
            .iter()
            .zip(sum)
            .map(|(general, sum)| ((f64::from(*general) * PRIOR + sum) / (PRIOR + n)) as f32)
            .collect()
    }

    fn search(
        &self,
        probe: &Probe<'_>,
        k: usize,
        filter: Filter<'_>,
    ) -> Result<Vec<Near>, pkm_index::Error> {
        let (vector, common) = match *probe {
            Probe::Query { text, vector } => {
                let group = self.anchors.group_of_query(text);
                (vector, self.anchors.groups()[group].query.clone())
            }
            Probe::Passage { vector } => (vector, self.center(self.anchors.group_of(vector))),
        };
        let direction = without(vector, &common);
        let mut near = Vec::new();
        for (group, Group { index, .. }) in self.groups.iter().enumerate() {
            let center = self.center(group);
            let (along, length) = (dot(&direction, &center), dot(&center, &center));
            // The order by `direction` is nearly the order by score: what follows sorts it out.
            for neighbor in
                index.search(&direction, k.saturating_mul(2).saturating_add(20), filter)?
            {
                let Some(passage) = index.get(neighbor.key) else {
                    continue;
                };
                let distance = (1.0 - 2.0 * dot(passage, &center) + length)
                    .max(1e-6)
                    .sqrt();
                let similarity = dot(vector, passage).clamp(-1.0, 1.0);
                let centred = (neighbor.similarity - along) / distance;
                near.push(Near {
                    chunk: chunk_of(neighbor.key),
                    score: (centred + PLAIN_WEIGHT * similarity) / (1.0 + PLAIN_WEIGHT),
                    similarity,
                });
            }
        }
        near.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.chunk.cmp(&b.chunk)));
        near.truncate(k);
        Ok(near)
    }
}

/// The direction of `vector` from `common`, of length 1; `vector` itself where they are the same.
fn without(vector: &[f32], common: &[f32]) -> Vec<f32> {
    let rest: Vec<f32> = vector
        .iter()
        .zip(common)
        .map(|(value, common)| value - common)
        .collect();
    let length = dot(&rest, &rest).sqrt();
    if length < 1e-3 {
        return vector.to_vec();
    }
    rest.iter().map(|value| value / length).collect()
}

/// The index's key of a chunk: chunk ids are positive and never reused.
pub(crate) fn key(chunk: ChunkId) -> u64 {
    chunk.0.unsigned_abs()
}

fn chunk_of(key: u64) -> ChunkId {
    ChunkId(key.cast_signed())
}
