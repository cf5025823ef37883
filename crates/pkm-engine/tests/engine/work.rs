use super::*;
use std::ops::ControlFlow;

use pkm_embed::{Embedded, Embedder, ModelCard, Role};
use pkm_engine::{Error, Job, JobState, ModelState, ReindexScope};

/// Embeds as the hash embedder does, and stands still while its gate is shut.
struct Gated {
    inner: HashEmbedder,
    gate: std::sync::Mutex<()>,
    n_embedded: std::sync::atomic::AtomicUsize,
}

impl Gated {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: HashEmbedder::new(),
            gate: std::sync::Mutex::new(()),
            n_embedded: std::sync::atomic::AtomicUsize::new(0),
        })
    }
}

impl Embedder for Gated {
    fn card(&self) -> &ModelCard {
        self.inner.card()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.inner.count_tokens(text)
    }

    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, pkm_embed::Error> {
        drop(self.gate.lock().unwrap());
        // Of the backlog: the engine has texts of its own to learn a model's languages from.
        let n = texts
            .iter()
            .filter(|text| text.contains("words and words"))
            .count();
        self.n_embedded
            .fetch_add(n, std::sync::atomic::Ordering::Relaxed);
        self.inner.embed(texts, role)
    }
}

/// Notes that have no vectors yet.
fn backlog(dir: &Path, n: usize) {
    let engine = open_with(dir, Worker::Off, no_model());
    for i in 0..n {
        add(
            &engine,
            &format!("note {i}"),
            &format!("{i} {}", "words and words ".repeat(120)),
        );
    }
}

fn watch(engine: &Engine, job: &Job) -> (Job, Vec<Job>) {
    let mut seen = Vec::new();
    let last = engine
        .wait_job(job.id, PATIENCE, &mut |job| {
            seen.push(job.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    (last, seen)
}

#[test]
fn a_reindex_embeds_what_is_missing_and_counts_up() {
    let dir = tempfile::tempdir().unwrap();
    backlog(dir.path(), 120);
    let engine = open(dir.path(), Worker::Background);
    let job = engine.reindex(ReindexScope::All).unwrap();
    let (last, seen) = watch(&engine, &job);
    assert_eq!(last.state, JobState::Done, "{last:?}");
    assert!(
        seen.windows(2).all(|pair| pair[0].done <= pair[1].done),
        "{seen:?}"
    );
    assert_eq!(last.done, last.total);
    // Every note is cut anew, and that is known from the beginning.
    let begun = seen.iter().filter(|job| job.done > 0);
    assert!(
        begun.clone().count() > 0 && begun.clone().all(|job| job.total >= 120),
        "{seen:?}"
    );
    let status = engine.status().unwrap();
    assert_eq!((status.n_pending, status.n_indexed), (0, status.n_chunks));
    assert_eq!(find(&engine, "words", SearchMode::Vector).index.pending, 0);
}

#[test]
fn a_second_reindex_is_the_same_job_while_the_first_runs() {
    let dir = tempfile::tempdir().unwrap();
    backlog(dir.path(), 10);
    let gated = Gated::new();
    let shut = gated.gate.lock().unwrap();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(gated.clone()),
    );
    let first = engine.reindex(ReindexScope::Pending).unwrap();
    assert_eq!(engine.reindex(ReindexScope::Pending).unwrap().id, first.id);
    drop(shut);
    assert_eq!(watch(&engine, &first).0.state, JobState::Done);
    assert_ne!(engine.reindex(ReindexScope::Pending).unwrap().id, first.id);
}

#[test]
fn a_cancelled_reindex_stops_at_a_batch_and_keeps_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    backlog(dir.path(), 200);
    let gated = Gated::new();
    let shut = gated.gate.lock().unwrap();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(gated.clone()),
    );
    let job = engine.reindex(ReindexScope::All).unwrap();
    engine.cancel_job(job.id).unwrap();
    drop(shut);
    let (last, _) = watch(&engine, &job);
    assert_eq!(last.state, JobState::Cancelled, "{last:?}");
}

#[test]
fn words_find_and_notes_are_written_while_the_model_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    backlog(dir.path(), 3);
    let gated = Gated::new();
    let shut = gated.gate.lock().unwrap();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(gated.clone()),
    );
    engine.reindex(ReindexScope::Pending).unwrap();
    assert_eq!(find(&engine, "words", SearchMode::Keyword).hits.len(), 3);
    drop(shut);
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
}

#[test]
fn words_find_while_the_model_loads_and_meaning_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (load_now, wait) = std::sync::mpsc::channel::<()>();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Load {
            name: "slow".into(),
            load: Box::new(move || {
                wait.recv().expect("the test holds the other end");
                Ok(Arc::new(HashEmbedder::new()))
            }),
        },
    );
    assert_eq!(engine.wait_model(Duration::ZERO), ModelState::Loading);
    let id = add(&engine, "early", "written before the model came");
    assert_eq!(ids(&find(&engine, "model", SearchMode::Keyword).hits), [id]);
    load_now.send(()).unwrap();
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    assert_eq!(ids(&find(&engine, "model", SearchMode::Vector).hits), [id]);
}

#[test]
fn a_model_that_does_not_load_leaves_words_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Load {
            name: "broken".into(),
            load: Box::new(|| panic!("a defect")),
        },
    );
    assert!(matches!(
        engine.wait_model(PATIENCE),
        ModelState::Failed { .. }
    ));
    let id = add(&engine, "kept", "all the same");
    assert_eq!(ids(&find(&engine, "same", SearchMode::Hybrid).hits), [id]);
    assert!(matches!(
        engine.reindex(ReindexScope::All),
        Err(Error::NoModel { .. })
    ));
}

#[test]
fn two_engines_on_one_folder_see_each_others_writes_and_embed_once() {
    let dir = tempfile::tempdir().unwrap();
    backlog(dir.path(), 60);
    let (left, right) = (Gated::new(), Gated::new());
    let a = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(left.clone()),
    );
    let b = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(right.clone()),
    );
    assert_eq!(a.settle(PATIENCE).unwrap(), 0);
    let count = |g: &Gated| g.n_embedded.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(count(&left) + count(&right), a.status().unwrap().n_chunks);

    let id = add(&a, "전달", "한쪽에서 쓴 글");
    for mode in [SearchMode::Keyword, SearchMode::Vector] {
        assert_eq!(find(&b, "한쪽에서 쓴 글", mode).hits[0].id, id);
    }
    b.delete_note(id, None).unwrap();
    for mode in [SearchMode::Keyword, SearchMode::Vector] {
        assert!(!ids(&find(&a, "한쪽에서 쓴 글", mode).hits).contains(&id));
    }
}

#[test]
fn a_move_to_another_model_serves_the_old_one_until_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let old = open(dir.path(), Worker::Off);
    let id = add(&old, "moving", "from one model to another");
    let other = HashEmbedder::with_dim(32);
    let new = open_with(
        dir.path(),
        Worker::Background,
        ModelSource::Ready(Arc::new(other)),
    );
    assert_eq!(new.settle(PATIENCE).unwrap(), 0);
    // The worker has embedded with the new model; the old vectors are still there.
    assert_eq!(ids(&find(&old, "model", SearchMode::Vector).hits), [id]);
    let job = new.reindex(ReindexScope::All).unwrap();
    assert_eq!(watch(&new, &job).0.state, JobState::Done);
    assert_eq!(ids(&find(&new, "model", SearchMode::Vector).hits), [id]);
    assert!(matches!(
        old.search(&request("model", SearchMode::Vector)),
        Err(Error::StaleIndex { .. })
    ));
}

#[test]
fn the_doctor_finds_nothing_wrong_after_a_busy_day() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let first = add(&engine, "a", "one");
    add(&engine, "b", "");
    engine.delete_note(first, None).unwrap();
    engine.restore_note(first, None).unwrap();
    assert_eq!(engine.doctor().unwrap(), []);
    // A repair writes the postings anew whether or not they need it, and must lose none.
    engine.repair().unwrap();
    assert_eq!(engine.doctor().unwrap(), []);
    assert_eq!(
        ids(&find(&engine, "one", SearchMode::Keyword).hits),
        [first]
    );
}
