//! What is there and how much of it can be found.

use std::path::PathBuf;

use pkm_embed::Precision;

use crate::{Engine, Error, Job, ModelState};

/// How many jobs a status names.
const N_JOBS: usize = 5;

/// What is there.
#[derive(Debug, Clone)]
pub struct Status {
    /// Notes, those in the trash left out.
    pub n_notes: usize,
    /// Notes in the trash.
    pub n_trashed: usize,
    /// Passages of the notes.
    pub n_chunks: usize,
    /// Passages that can be found by meaning with the model in use.
    pub n_indexed: usize,
    /// Passages that wait to be embedded.
    pub n_pending: usize,
    /// Passages that could not be embedded.
    pub n_failed: usize,
    /// The model.
    pub model: ModelStatus,
    /// The vector index of this process.
    pub vectors: VectorStatus,
    /// The data folder.
    pub store: StoreStatus,
    /// The last jobs, newest first.
    pub jobs: Vec<Job>,
}

/// The model in use. What is `None` is not known before it is loaded.
#[derive(Debug, Clone)]
pub struct ModelStatus {
    /// Its name.
    pub name: String,
    /// What names its vectors.
    pub fingerprint: Option<String>,
    /// Dimensions of its vectors.
    pub dim: Option<usize>,
    /// What it runs on.
    pub device: Option<String>,
    /// What it computes in.
    pub precision: Option<Precision>,
    /// Whether it can be used.
    pub state: ModelState,
}

/// The vector index in memory.
#[derive(Debug, Clone)]
pub struct VectorStatus {
    /// How it searches.
    pub kind: &'static str,
    /// Vectors it holds; 0 before the first search by meaning.
    pub n_vectors: usize,
    /// Memory they take.
    pub size_bytes: usize,
}

/// The data folder.
#[derive(Debug, Clone)]
pub struct StoreStatus {
    /// Where it is.
    pub path: PathBuf,
    /// Size of the notes' file.
    pub size_bytes: u64,
    /// Version of its schema.
    pub schema: i64,
    /// Whether it can be written.
    pub writable: bool,
}

impl Engine {
    /// What is there and how much of it can be found.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn status(&self) -> Result<Status, Error> {
        let card = self.model().get().map(|embedder| embedder.card().clone());
        let fingerprint = card.as_ref().map(|card| card.fingerprint.clone());
        let counts = self
            .store()
            .counts(fingerprint.as_deref().unwrap_or_default())?;
        let (n_vectors, size_bytes) = self.vectors().size();
        Ok(Status {
            n_notes: counts.n_notes,
            n_trashed: counts.n_trashed,
            n_chunks: counts.n_chunks,
            n_indexed: counts.n_indexed,
            n_pending: counts.n_pending,
            n_failed: counts.n_failed,
            model: ModelStatus {
                name: card
                    .as_ref()
                    .map_or_else(|| self.model().name().to_owned(), |card| card.name.clone()),
                fingerprint,
                dim: card.as_ref().map(|card| card.dim),
                precision: card.as_ref().and_then(|card| card.precision),
                device: card.map(|card| card.device),
                state: self.model().state(),
            },
            vectors: VectorStatus {
                kind: "exact",
                n_vectors,
                size_bytes,
            },
            store: StoreStatus {
                path: self.store().dir().to_owned(),
                size_bytes: self.store().size_bytes(),
                schema: self.store().schema_version(),
                writable: self.store().access() == pkm_store::Access::ReadWrite,
            },
            jobs: self.jobs(N_JOBS)?,
        })
    }
}
