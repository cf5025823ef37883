//! What one can ask of notes, in plain data.
//!
//! [`Engine`] composes the store, the vector index and the embedder. It is synchronous: from async
//! code, call it on a blocking thread. Its types are plain data without a wire format; protocols
//! and command lines convert them.

mod anchors;
mod changes;
mod check;
mod chunk;
mod cursor;
mod decode;
mod doctor;
mod error;
mod folder;
mod fusion;
mod job;
mod markdown;
mod model;
mod note;
mod passages;
mod search;
mod status;
mod transfer;
mod trash;
mod vectors;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use changes::{ChangeFeed, Changes};
pub use check::MAX_CONTENT_BYTES;
pub use doctor::{Finding, Severity};
pub use error::Error;
pub use jiff::Timestamp;
pub use job::{Job, JobState, ReindexScope};
pub use model::{ModelSource, ModelState};
pub use note::{
    ContentEdit, Deleted, Indexed, ListRequest, MAX_LIST_LIMIT, NoteDraft, NoteEdit, NotePage,
    Written,
};
pub use pkm_embed::{Embedder, ModelCard};
pub use pkm_store::{
    Count, Filter, JobId, Note, NoteId, NoteRevision, NoteSummary, Purged, Revision,
    RevisionSummary, Sort, TrashMark,
};
pub use search::{
    Arms, Completeness, Hit, IndexState, MAX_LIMIT, SearchAnswer, SearchMode, SearchRequest,
};
pub use status::{ModelStatus, Status, StoreStatus, VectorStatus};
pub use transfer::{
    DryRun, ExportReport, ExportRequest, ImportReport, ImportRequest, Overwrite, Prune,
    TransferProgress,
};
pub use trash::{TrashContents, TrashedNote};

use crate::model::Model;
use crate::vectors::Vectors;
use crate::worker::WorkerHandle;
use jiff::SignedDuration;
use pkm_store::Store;

/// How an engine is set up.
pub struct Settings {
    /// The folder that holds the notes; it is made when it is not there.
    pub data_dir: PathBuf,
    /// The model for search by meaning.
    pub model: ModelSource,
    /// Whether this process takes part in the background work.
    pub worker: Worker,
    /// How long the trash keeps a note, in days.
    pub trash_retention_days: u32,
}

/// Whether a process embeds in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// It takes its turn: one process of those on the folder works at a time.
    Background,
    /// It does not.
    Off,
}

/// The notes of one data folder. Clones share one engine; the last one dropped ends its worker.
#[derive(Clone)]
pub struct Engine {
    /// Held only to end the worker with the last clone; `None` in the worker's own clone.
    _worker: Option<Arc<WorkerHandle>>,
    core: Arc<Core>,
}

/// What an engine's clones and its worker share.
struct Core {
    store: Store,
    vectors: Vectors,
    model: Arc<Model>,
    wake: Arc<worker::Wake>,
    trash_retention: SignedDuration,
}

impl Engine {
    /// Opens the notes. Returns at once: the model loads on a thread of its own.
    ///
    /// # Errors
    ///
    /// When the data folder cannot be opened: damaged, newer than this program, or not a folder.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let Settings {
            data_dir,
            model,
            worker,
            trash_retention_days,
        } = settings;
        let store = Store::open(&data_dir)?;
        let wake = Arc::new(worker::Wake::default());
        let core = Arc::new(Core {
            store,
            vectors: Vectors::new(),
            model: Model::start(model, {
                let wake = Arc::clone(&wake);
                move || wake.notify()
            }),
            wake,
            trash_retention: SignedDuration::from_hours(i64::from(trash_retention_days) * 24),
        });
        let worker = match worker {
            Worker::Off => None,
            Worker::Background => {
                let of_worker = Self {
                    _worker: None,
                    core: Arc::clone(&core),
                };
                Some(Arc::new(WorkerHandle::start(of_worker)?))
            }
        };
        Ok(Self {
            _worker: worker,
            core,
        })
    }

    /// Waits until the model is there or known not to come, at most `timeout`.
    pub fn wait_model(&self, timeout: Duration) -> ModelState {
        // The state says it all; the reason in words is for callers that need the model.
        drop(self.core.model.wait(timeout));
        self.core.model.state()
    }

    fn store(&self) -> &Store {
        &self.core.store
    }

    fn vectors(&self) -> &Vectors {
        &self.core.vectors
    }

    fn model(&self) -> &Model {
        &self.core.model
    }

    fn trash_retention(&self) -> SignedDuration {
        self.core.trash_retention
    }

    fn wake_worker(&self) {
        self.core.wake.notify();
    }

    /// The model, waiting at most `timeout` while it loads.
    fn embedder(&self, timeout: Duration) -> Result<Arc<dyn Embedder>, Error> {
        self.core
            .model
            .wait(timeout)
            .map_err(|reason| Error::NoModel { reason })
    }

    /// The fingerprint of the model in use, once it is loaded.
    fn fingerprint(&self) -> Option<String> {
        self.core
            .model
            .get()
            .map(|embedder| embedder.card().fingerprint.clone())
    }
}
