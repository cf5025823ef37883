//! One look-out for all sessions of a process: a thread that asks a few times a second what has
//! happened to the notes, for as long as somebody wants to know.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use pkm_engine::{ChangeFeed, Changes, Engine, Error as EngineError};
use tokio::sync::broadcast;

use crate::wire::Fault;

/// How often the look-out asks.
const LOOK: Duration = Duration::from_millis(250);
/// Changes kept for a listener that is slow; one that is further behind takes everything for
/// changed.
const CAPACITY: usize = 64;
/// Listeners that can be promised at a time and not yet taken up.
const MAX_PROMISED: usize = 64;

pub(crate) type Listener = broadcast::Receiver<Arc<Changes>>;

/// Tells listeners what happens to the notes, by whichever process. Clones share the look-out.
#[derive(Clone)]
pub(crate) struct Feed(Arc<Inner>);

struct Inner {
    engine: Engine,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// To the listeners, while the look-out runs.
    sender: Option<broadcast::Sender<Arc<Changes>>>,
    promised: VecDeque<Listener>,
}

impl Feed {
    pub(crate) fn new(engine: Engine) -> Self {
        Self(Arc::new(Inner {
            engine,
            state: Mutex::default(),
        }))
    }

    /// Hears of everything from now on. Reads two numbers from disk where nobody listens yet.
    pub(crate) fn listen(&self) -> Result<Listener, Fault> {
        self.listen_with(&mut self.0.lock())
    }

    /// Listens from now on for somebody who comes a moment later with [`Feed::take_up`]: whoever
    /// is told that a subscription stands must miss nothing after that.
    pub(crate) fn promise(&self) -> Result<(), Fault> {
        let mut state = self.0.lock();
        let listener = self.listen_with(&mut state)?;
        // Promises that were never taken up, as of clients that went away, give way.
        if state.promised.len() == MAX_PROMISED {
            state.promised.pop_front();
        }
        state.promised.push_back(listener);
        Ok(())
    }

    /// The oldest promised listener: none of those promised later has heard more.
    pub(crate) fn take_up(&self) -> Result<Listener, Fault> {
        let promised = self.0.lock().promised.pop_front();
        promised.map_or_else(|| self.listen(), Ok)
    }

    fn listen_with(&self, state: &mut State) -> Result<Listener, Fault> {
        if let Some(sender) = &state.sender {
            return Ok(sender.subscribe());
        }
        let changes = self.0.engine.changes()?;
        let (sender, listener) = broadcast::channel(CAPACITY);
        // Weak, so that a look-out on its last nap does not keep the engine open.
        let inner = Arc::downgrade(&self.0);
        let look_out = sender.clone();
        thread::Builder::new()
            .name("pkm-changes".into())
            .spawn(move || {
                let mut changes = changes;
                let mut trouble = None;
                loop {
                    thread::sleep(LOOK);
                    let Some(inner) = inner.upgrade() else { return };
                    if inner.is_alone(&look_out) {
                        return;
                    }
                    tell(&mut changes, &look_out, &mut trouble);
                }
            })
            .map_err(|error| Fault::defect("starting to watch the notes", &error))?;
        state.sender = Some(sender);
        Ok(listener)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody listens any more; then the look-out is over, and the next listener begins
    /// another.
    fn is_alone(&self, sender: &broadcast::Sender<Arc<Changes>>) -> bool {
        let mut state = self.lock();
        let is_alone = sender.receiver_count() == 0;
        if is_alone {
            state.sender = None;
        }
        is_alone
    }
}

/// One look. The same trouble is logged once.
fn tell(
    changes: &mut ChangeFeed,
    listeners: &broadcast::Sender<Arc<Changes>>,
    trouble: &mut Option<String>,
) {
    match changes.look() {
        Ok(found) => {
            *trouble = None;
            if let Some(found) = found {
                // An error means that the last listener has just gone.
                let _ = listeners.send(Arc::new(found));
            }
        }
        Err(error) => note_trouble(&error, trouble),
    }
}

fn note_trouble(error: &EngineError, trouble: &mut Option<String>) {
    let words = error.to_string();
    if trouble.as_ref() != Some(&words) {
        tracing::warn!(error = %words, "cannot see what happens to the notes");
        *trouble = Some(words);
    }
}

#[cfg(test)]
mod tests {
    use pkm_engine::{ModelSource, NoteDraft, Settings, Worker};

    use super::*;

    fn feed() -> (tempfile::TempDir, Engine, Feed) {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(Settings {
            data_dir: folder.path().to_owned(),
            model: ModelSource::Absent {
                name: "none".into(),
                reason: "none".into(),
            },
            worker: Worker::Off,
            trash_retention_days: 30,
        })
        .unwrap();
        let feed = Feed::new(engine.clone());
        (folder, engine, feed)
    }

    fn add(engine: &Engine) {
        let draft = NoteDraft {
            title: "t".into(),
            ..NoteDraft::default()
        };
        engine.add_note(draft).unwrap();
    }

    #[test]
    fn a_promised_listener_misses_nothing_that_comes_before_it_is_taken_up() {
        let (_folder, engine, feed) = feed();
        feed.promise().unwrap();
        add(&engine);
        let mut listener = feed.take_up().unwrap();
        let changes = listener.blocking_recv().unwrap();
        assert_eq!((changes.notes.len(), changes.relisted), (1, true));
    }

    #[test]
    fn nobody_looks_where_nobody_listens_and_the_next_listener_begins_anew() {
        let (_folder, engine, feed) = feed();
        let first = feed.listen().unwrap();
        let second = feed.listen().unwrap();
        drop(first);
        assert!(feed.0.lock().sender.is_some());
        drop(second);
        while feed.0.lock().sender.is_some() {
            thread::sleep(Duration::from_millis(20));
        }
        add(&engine);
        let mut listener = feed.listen().unwrap();
        add(&engine);
        let changes = listener.blocking_recv().unwrap();
        assert_eq!(changes.notes.len(), 1, "only what came after");
    }
}
