//! A model on a server that comes and goes.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pkm_embed::{Embedded, Embedder, ModelCard, Role, ServerFault};
use pkm_engine::{Completeness, Error, Indexed, Job, JobState, ModelState, ReindexScope};

/// Embeds as the hash embedder does, on a server that may be away, and never a text that says
/// `poison`.
struct Remote {
    inner: HashEmbedder,
    is_away: AtomicBool,
}

impl Remote {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: HashEmbedder::new(),
            is_away: AtomicBool::new(false),
        })
    }

    fn go(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    fn come_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }
}

fn refused() -> pkm_embed::Error {
    pkm_embed::Error::Server {
        url: "http://farm".into(),
        fault: ServerFault::Unreachable {
            reason: "connection refused".into(),
        },
        hint: "start the server",
    }
}

impl Embedder for Remote {
    fn card(&self) -> &ModelCard {
        self.inner.card()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.inner.count_tokens(text)
    }

    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, pkm_embed::Error> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(refused());
        }
        if texts.iter().any(|text| text.contains("poison")) {
            return Err(pkm_embed::Error::Inference {
                model: "remote".into(),
                n_texts: texts.len(),
                source: "cannot be embedded".into(),
            });
        }
        self.inner.embed(texts, role)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

fn over(engine: &Engine, job: &Job) -> Job {
    engine
        .wait_job(job.id, PATIENCE, &mut |_| {
            std::ops::ControlFlow::Continue(())
        })
        .unwrap()
}

#[test]
fn nobody_who_writes_waits_for_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(dir.path(), Worker::Off, ModelSource::Ready(Remote::new()));
    let written = engine.add_note(draft("short", "a line")).unwrap();
    assert_eq!(written.indexed, Indexed::Pending);
    assert_eq!(engine.status().unwrap().n_pending, 1);
}

#[test]
fn while_the_server_is_away_words_find_and_nothing_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let remote = Remote::new();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(remote.clone()),
    );
    let before = add(&engine, "before", "written while the server was there");
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    remote.go();
    let meanwhile = add(&engine, "meanwhile", "written while the server was away");
    let job = engine.reindex(ReindexScope::Pending).unwrap();
    let job = over(&engine, &job);
    assert_eq!(job.state, JobState::Failed);
    let reason = job.error.unwrap();
    assert!(
        reason.contains("http://farm cannot be reached: connection refused; start the server")
            && reason.contains("is kept"),
        "{reason}"
    );
    let status = engine.status().unwrap();
    assert_eq!((status.n_failed, status.n_pending), (0, 1));
    assert!(matches!(&status.model.state, ModelState::Away { reason } if reason.contains("farm")));

    let answer = find(&engine, "away", SearchMode::Keyword);
    assert_eq!(ids(&answer.hits), [meanwhile]);
    let answer = find(&engine, "server", SearchMode::Hybrid);
    assert_eq!(answer.hits.len(), 2);
    assert_eq!(answer.index.state, Completeness::KeywordOnly);
    let reason = answer.index.reason.unwrap();
    assert!(
        reason.contains("connection refused") && !reason.contains("hint:"),
        "{reason}"
    );
    assert!(matches!(
        engine.search(&request("server", SearchMode::Vector)),
        Err(Error::NoModel { .. })
    ));
    // What is near to a note is known from its vectors.
    assert_eq!(
        engine
            .related_notes(before, 5, &Filter::default())
            .unwrap()
            .hits
            .len(),
        0
    );

    remote.come_back();
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    let answer = find(&engine, "written away", SearchMode::Vector);
    assert_eq!(ids(&answer.hits), [meanwhile, before]);
    assert_eq!(answer.index.state, Completeness::Complete);
    assert_eq!(engine.status().unwrap().model.state, ModelState::Ready);
}

#[test]
fn a_server_that_is_away_at_the_start_is_used_when_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let n_tries = Arc::new(AtomicUsize::new(0));
    let (let_in, door) = std::sync::mpsc::channel::<()>();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Load {
            name: "remote".into(),
            load: Box::new({
                let n_tries = Arc::clone(&n_tries);
                move || {
                    n_tries.fetch_add(1, Ordering::SeqCst);
                    door.try_recv().map_err(|_| refused())?;
                    Ok(Remote::new())
                }
            }),
        },
    );
    let state = engine.wait_model(PATIENCE);
    assert!(matches!(state, ModelState::Away { .. }), "{state:?}");
    let id = add(&engine, "early", "written before the server came");
    let answer = find(&engine, "early", SearchMode::Hybrid);
    assert_eq!(answer.index.state, Completeness::KeywordOnly);
    assert_eq!(ids(&answer.hits), [id]);
    assert!(matches!(
        engine.reindex(ReindexScope::Pending),
        Err(Error::NoModel { .. })
    ));
    let_in.send(()).unwrap();
    let came = engine.clone();
    // The wait is for the change of state, which the engine's own clock brings.
    let deadline = std::time::Instant::now() + PATIENCE;
    while came.wait_model(PATIENCE) != ModelState::Ready {
        assert!(std::time::Instant::now() < deadline, "it came");
        std::thread::yield_now();
    }
    assert!(n_tries.load(Ordering::SeqCst) >= 2);
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    assert_eq!(ids(&find(&engine, "early", SearchMode::Vector).hits), [id]);
}

#[test]
fn a_text_that_cannot_be_embedded_is_the_only_one_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(dir.path(), Worker::Off, no_model());
    for i in 0..30 {
        let content = if i == 17 { "poison" } else { "harmless" };
        add(&engine, &format!("note {i}"), content);
    }
    drop(engine);
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(Remote::new()),
    );
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    let status = engine.status().unwrap();
    assert_eq!((status.n_indexed, status.n_failed), (29, 1));
}
