//! The vector index in memory, kept in step with the store.

use std::sync::{PoisonError, RwLock};

use pkm_index::{Filter, Neighbor, VectorIndex};
use pkm_store::{Changes, ChunkId, Store};

use crate::Error;

/// The vectors of one fingerprint. A search sees them whole, before a change or after it.
pub(crate) struct Vectors {
    loaded: RwLock<Option<Loaded>>,
}

struct Loaded {
    fingerprint: String,
    index: VectorIndex,
    /// The last change of the store that `index` has seen.
    seq: i64,
}

impl Vectors {
    pub(crate) fn new() -> Self {
        Self {
            loaded: RwLock::new(None),
        }
    }

    /// Takes in what this or another process has changed since the last call.
    pub(crate) fn catch_up(
        &self,
        store: &Store,
        fingerprint: &str,
        dim: usize,
    ) -> Result<(), Error> {
        let newest = store.change_seq()?;
        {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            if loaded
                .as_ref()
                .is_some_and(|l| l.fingerprint == fingerprint && l.seq == newest)
            {
                return Ok(());
            }
        }
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // A change that fails half-way leaves nothing rather than half an index.
        let current = loaded.take().filter(|l| l.fingerprint == fingerprint);
        *loaded = Some(match current {
            Some(current) => current.advance(store, fingerprint)?,
            None => Loaded::read(store, fingerprint, dim)?,
        });
        Ok(())
    }

    /// The `k` nearest chunks, nearest first. Empty before the first [`Vectors::catch_up`].
    pub(crate) fn search(
        &self,
        query: &[f32],
        k: usize,
        filter: Filter<'_>,
    ) -> Result<Vec<Neighbor>, Error> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            None => Ok(Vec::new()),
            Some(loaded) => loaded.index.search(query, k, filter).map_err(internal),
        }
    }

    /// How many vectors there are, and the memory they take in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded
            .as_ref()
            .map_or((0, 0), |l| (l.index.len(), l.index.size_bytes()))
    }
}

impl Loaded {
    fn read(store: &Store, fingerprint: &str, dim: usize) -> Result<Self, Error> {
        let mut index = VectorIndex::new(dim);
        let mut refused = 0usize;
        let seq = store.load_vectors(fingerprint, &mut |chunk, vector| {
            refused += usize::from(index.insert(key(chunk), vector).is_err());
        })?;
        if refused > 0 {
            tracing::error!(refused, "damaged vectors were left out; run `pkm doctor`");
        }
        Ok(Self {
            fingerprint: fingerprint.to_owned(),
            index,
            seq,
        })
    }

    fn advance(mut self, store: &Store, fingerprint: &str) -> Result<Self, Error> {
        match store.vector_changes(fingerprint, self.seq)? {
            Changes::UpToDate => Ok(self),
            Changes::Reload => Self::read(store, fingerprint, self.index.dim()),
            Changes::Apply {
                added,
                removed,
                seq,
            } => {
                for chunk in removed {
                    self.index.remove(key(chunk));
                }
                for (chunk, vector) in added {
                    if let Err(error) = self.index.insert(key(chunk), &vector) {
                        tracing::error!(%error, chunk = chunk.0, "a damaged vector was left out");
                    }
                }
                self.seq = seq;
                Ok(self)
            }
        }
    }
}

/// The index's key of a chunk: chunk ids are positive and never reused.
pub(crate) fn key(chunk: ChunkId) -> u64 {
    chunk.0.unsigned_abs()
}

/// The chunk of an index key.
pub(crate) fn chunk_of(key: u64) -> ChunkId {
    ChunkId(key.cast_signed())
}

fn internal(source: pkm_index::Error) -> Error {
    Error::Internal {
        doing: "searching the vectors",
        source: Box::new(source),
    }
}
