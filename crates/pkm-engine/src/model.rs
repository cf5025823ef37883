//! The model, which loads on its own thread while everything else already works, and which may be
//! a server that comes and goes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pkm_embed::{Embedded, Embedder, ModelCard, Role};

/// How long a model that is away is let alone before the next try; each further time twice as long,
/// up to [`MAX_REST`].
pub(crate) const FIRST_REST: Duration = Duration::from_secs(1);
pub(crate) const MAX_REST: Duration = Duration::from_secs(15);
/// For how many times the length of a failed try questions go by words alone: who asks a server
/// that hangs spends a sixth of the time waiting at most.
const QUIET: u32 = 5;

/// Where the embedder comes from.
pub enum ModelSource {
    /// Load it in the background.
    Load {
        /// The model's name, for messages.
        name: String,
        /// Runs on a thread of its own, and again from time to time while its error is transient.
        load: Load,
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
    /// It is on a server that cannot be used now; it is tried again by itself.
    Away {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// The one model of an engine.
pub(crate) struct Model {
    name: String,
    slot: Mutex<Slot>,
    changed: Condvar,
    outage: Arc<Mutex<Option<Outage>>>,
    /// Gone with the model, which ends the thread that loads.
    _alive: mpsc::Sender<()>,
}

enum Slot {
    Loading,
    Ready(Arc<dyn Embedder>),
    Absent(String),
    Failed(String),
    Away(String),
}

/// Why a model that was loaded cannot be used now.
struct Outage {
    reason: String,
    quiet_until: Instant,
    retry_after: Option<Duration>,
}

/// An embedder whose outages are noticed, whoever meets them.
struct Watched {
    embedder: Arc<dyn Embedder>,
    outage: Arc<Mutex<Option<Outage>>>,
}

impl Embedder for Watched {
    fn card(&self) -> &ModelCard {
        self.embedder.card()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.embedder.count_tokens(text)
    }

    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, pkm_embed::Error> {
        let started = Instant::now();
        let outcome = self.embedder.embed(texts, role);
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        match &outcome {
            Err(error) if error.is_transient() => {
                let reason = crate::error::reason(error);
                if outage.is_none() {
                    tracing::warn!(reason, "the model is away; it is tried again by itself");
                }
                *outage = Some(Outage {
                    reason,
                    quiet_until: Instant::now() + started.elapsed() * QUIET,
                    retry_after: error.retry_after(),
                });
            }
            // Texts that cannot be embedded say that the model can be reached.
            Ok(_) | Err(_) => {
                if outage.take().is_some() {
                    tracing::warn!("the model is back");
                }
            }
        }
        drop(outage);
        outcome
    }

    fn is_remote(&self) -> bool {
        self.embedder.is_remote()
    }

    fn batch_tokens(&self) -> usize {
        self.embedder.batch_tokens()
    }
}

impl Model {
    /// Starts loading where there is something to load, and calls `when_settled` whenever it is
    /// known what came of it.
    pub(crate) fn start(
        source: ModelSource,
        mut when_settled: impl FnMut() + Send + 'static,
    ) -> Arc<Self> {
        let outage = Arc::new(Mutex::new(None));
        let watched = |embedder| -> Arc<dyn Embedder> {
            let outage = Arc::clone(&outage);
            Arc::new(Watched { embedder, outage })
        };
        let (name, slot, load) = match source {
            ModelSource::Load { name, load } => (name, Slot::Loading, Some(load)),
            ModelSource::Ready(embedder) => (
                embedder.card().name.clone(),
                Slot::Ready(watched(embedder)),
                None,
            ),
            ModelSource::Absent { name, reason } => (name, Slot::Absent(reason), None),
        };
        let (alive, engine_ends) = mpsc::channel();
        let model = Arc::new(Self {
            name,
            slot: Mutex::new(slot),
            changed: Condvar::new(),
            outage: Arc::clone(&outage),
            _alive: alive,
        });
        if let Some(mut load) = load {
            let loading = Arc::downgrade(&model);
            let run = move || {
                let mut rest = FIRST_REST;
                loop {
                    let slot = load_once(&mut load, &outage);
                    let Some(model) = loading.upgrade() else {
                        return;
                    };
                    let is_away = matches!(slot, Slot::Away(_));
                    model.settle(slot);
                    drop(model);
                    when_settled();
                    if !is_away
                        || engine_ends.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected)
                    {
                        return;
                    }
                    rest = (rest * 2).min(MAX_REST);
                }
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

    /// Takes what a try to load came to, and says it once.
    fn settle(&self, found: Slot) {
        let mut slot = self.lock();
        match (&found, &*slot) {
            (Slot::Failed(reason), _) => {
                tracing::error!(model = self.name, reason, "model could not be loaded");
            }
            (Slot::Away(reason), before) if !matches!(before, Slot::Away(_)) => {
                tracing::warn!(
                    model = self.name,
                    reason,
                    "the model is away; it is tried again by itself"
                );
            }
            _ => {}
        }
        *slot = found;
        drop(slot);
        self.changed.notify_all();
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The embedder, when it is ready now.
    pub(crate) fn get(&self) -> Option<Arc<dyn Embedder>> {
        match &*self.lock() {
            Slot::Ready(embedder) => Some(Arc::clone(embedder)),
            Slot::Loading | Slot::Absent(_) | Slot::Failed(_) | Slot::Away(_) => None,
        }
    }

    /// Whether the model was loaded and is away now.
    pub(crate) fn is_away(&self) -> bool {
        self.outage().is_some()
    }

    /// How long the model asks to be let alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.outage().as_ref()?.retry_after
    }

    /// Why questions go by words alone for the moment, if they do.
    pub(crate) fn quiet(&self) -> Option<String> {
        let outage = self.outage();
        let outage = outage.as_ref()?;
        (Instant::now() < outage.quiet_until).then(|| outage.reason.clone())
    }

    pub(crate) fn state(&self) -> ModelState {
        match &*self.lock() {
            Slot::Loading => ModelState::Loading,
            Slot::Ready(_) => match &*self.outage() {
                Some(outage) => ModelState::Away {
                    reason: outage.reason.clone(),
                },
                None => ModelState::Ready,
            },
            Slot::Away(reason) => ModelState::Away {
                reason: reason.clone(),
            },
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
            Slot::Absent(reason) | Slot::Away(reason) => Err(reason.clone()),
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
    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the embedder, or says why not.
type Load = Box<dyn FnMut() -> Result<Arc<dyn Embedder>, pkm_embed::Error> + Send>;

fn load_once(load: &mut Load, outage: &Arc<Mutex<Option<Outage>>>) -> Slot {
    let started = Instant::now();
    // A loader that panics must leave a failed model behind, not one that loads for ever.
    let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load));
    match loaded {
        Ok(Ok(embedder)) => {
            let card = embedder.card();
            tracing::info!(
                model = card.name,
                fingerprint = card.fingerprint,
                device = card.device,
                seconds = started.elapsed().as_secs_f32(),
                "model loaded"
            );
            let outage = Arc::clone(outage);
            Slot::Ready(Arc::new(Watched { embedder, outage }))
        }
        Ok(Err(error)) if error.is_transient() => Slot::Away(crate::error::reason(&error)),
        Ok(Err(error)) => Slot::Failed(crate::error::chain(&error)),
        Err(_) => Slot::Failed("the loader panicked; see the log".to_owned()),
    }
}
