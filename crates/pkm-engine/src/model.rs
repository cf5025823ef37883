//! The model, which loads on its own thread while everything else already works.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pkm_embed::Embedder;

/// Where the embedder comes from.
pub enum ModelSource {
    /// Load it in the background.
    Load {
        /// The model's name, for messages.
        name: String,
        /// Runs once, on a thread of its own.
        load: Box<dyn FnOnce() -> Result<Arc<dyn Embedder>, pkm_embed::Error> + Send>,
    },
    /// It is there already.
    Ready(Arc<dyn Embedder>),
    /// There is none: words only.
    Absent {
        /// The model that was asked for.
        name: String,
        /// Why it is not there and what to do about it, one sentence.
        reason: String,
    },
}

/// Whether notes can be found by meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelState {
    /// It is being loaded.
    Loading,
    /// It is in use.
    Ready,
    /// It is not installed.
    Absent {
        /// Why, and what to do about it.
        reason: String,
    },
    /// It could not be loaded.
    Failed {
        /// Why.
        reason: String,
    },
}

/// The one model of an engine.
pub(crate) struct Model {
    name: String,
    slot: Mutex<Slot>,
    changed: Condvar,
}

enum Slot {
    Loading,
    Ready(Arc<dyn Embedder>),
    Absent(String),
    Failed(String),
}

impl Model {
    /// Starts loading where there is something to load, and calls `when_settled` after that.
    pub(crate) fn start(
        source: ModelSource,
        when_settled: impl FnOnce() + Send + 'static,
    ) -> Arc<Self> {
        let (name, slot, load) = match source {
            ModelSource::Load { name, load } => (name, Slot::Loading, Some(load)),
            ModelSource::Ready(embedder) => {
                (embedder.card().name.clone(), Slot::Ready(embedder), None)
            }
            ModelSource::Absent { name, reason } => (name, Slot::Absent(reason), None),
        };
        let model = Arc::new(Self {
            name,
            slot: Mutex::new(slot),
            changed: Condvar::new(),
        });
        if let Some(load) = load {
            let loading = Arc::clone(&model);
            let run = move || {
                let started = Instant::now();
                // A loader that panics must leave a failed model behind, not one that loads for ever.
                let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load));
                let slot = match loaded {
                    Ok(Ok(embedder)) => {
                        let card = embedder.card();
                        tracing::info!(
                            model = card.name,
                            fingerprint = card.fingerprint,
                            device = card.device,
                            seconds = started.elapsed().as_secs_f32(),
                            "model loaded"
                        );
                        Slot::Ready(embedder)
                    }
                    Ok(Err(error)) => Slot::Failed(crate::error::chain(&error)),
                    Err(_) => Slot::Failed("the loader panicked; see the log".to_owned()),
                };
                if let Slot::Failed(reason) = &slot {
                    tracing::error!(model = loading.name, reason, "model could not be loaded");
                }
                *loading.lock() = slot;
                loading.changed.notify_all();
                when_settled();
            };
            if let Err(error) = std::thread::Builder::new()
                .name("pkm-model".to_owned())
                .spawn(run)
            {
                *model.lock() = Slot::Failed(format!("no thread to load it on: {error}"));
            }
        }
        model
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The embedder, when it is ready now.
    pub(crate) fn get(&self) -> Option<Arc<dyn Embedder>> {
        match &*self.lock() {
            Slot::Ready(embedder) => Some(Arc::clone(embedder)),
            Slot::Loading | Slot::Absent(_) | Slot::Failed(_) => None,
        }
    }

    pub(crate) fn state(&self) -> ModelState {
        match &*self.lock() {
            Slot::Loading => ModelState::Loading,
            Slot::Ready(_) => ModelState::Ready,
            Slot::Absent(reason) => ModelState::Absent {
                reason: reason.clone(),
            },
            Slot::Failed(reason) => ModelState::Failed {
                reason: reason.clone(),
            },
        }
    }

    /// The embedder, waiting at most `timeout` for one that is being loaded; else the reason in words.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<Arc<dyn Embedder>, String> {
        let guard = self.lock();
        let (guard, _) = self
            .changed
            .wait_timeout_while(guard, timeout, |slot| matches!(slot, Slot::Loading))
            .unwrap_or_else(PoisonError::into_inner);
        match &*guard {
            Slot::Ready(embedder) => Ok(Arc::clone(embedder)),
            Slot::Loading => Err(format!(
                "the model `{}` is still loading; ask again in a moment",
                self.name
            )),
            Slot::Absent(reason) => Err(reason.clone()),
            Slot::Failed(reason) => Err(format!(
                "the model `{}` could not be loaded: {reason}",
                self.name
            )),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        // A slot is replaced whole, so a poisoned one is still in order.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
