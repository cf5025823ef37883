use pkm_engine::{Error, ReindexScope};

use super::*;

#[test]
fn what_another_process_does_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let ours = open(dir.path(), Worker::Off);
    let theirs = open(dir.path(), Worker::Off);
    let mut feed = ours.changes().unwrap();
    assert_eq!(feed.look().unwrap(), None);

    let id = add(&theirs, "from elsewhere", "words");
    let changes = feed.look().unwrap().unwrap();
    assert_eq!(
        (changes.notes, changes.relisted, changes.jobs),
        (vec![id], true, vec![])
    );

    let job = theirs.reindex(ReindexScope::All).unwrap();
    let changes = feed.look().unwrap().unwrap();
    assert_eq!((changes.notes, changes.jobs), (vec![], vec![job.id]));
    theirs.cancel_job(job.id).unwrap();
    assert_eq!(feed.look().unwrap().unwrap().jobs, [job.id]);
    assert_eq!(feed.look().unwrap(), None);
}

#[test]
fn a_feed_keeps_no_worker_alive() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Background);
    let mut feed = engine.changes().unwrap();
    drop(engine);
    // The lock of the worker is free, so another engine can take its turn at once.
    let next = open(dir.path(), Worker::Background);
    add(&next, "a", &"words and words ".repeat(400));
    assert_eq!(next.settle(PATIENCE).unwrap(), 0);
    assert!(feed.look().unwrap().is_some());
}

#[test]
fn an_emptied_trash_leaves_a_sound_folder_in_every_process() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Background);
    let other = open(dir.path(), Worker::Off);
    let (gone, kept) = (
        add(&engine, "gone", "apple pie"),
        add(&engine, "kept", "apple tart"),
    );
    engine.settle(PATIENCE).unwrap();
    assert_eq!(find(&other, "apple", SearchMode::Hybrid).hits.len(), 2);
    engine.delete_note(gone, None).unwrap();
    let contents = engine.trash_contents(None).unwrap();
    assert_eq!(contents.oldest.as_ref().unwrap().title, "gone");
    let purged = engine.empty_trash(None, Some(&contents.mark)).unwrap();
    assert_eq!((purged.n_notes, purged.n_vectors), (1, 1));
    assert!(matches!(other.get_note(gone), Err(Error::NotFound { .. })));
    assert_eq!(ids(&find(&other, "apple", SearchMode::Hybrid).hits), [kept]);
    assert!(matches!(
        engine.empty_trash(None, Some(&contents.mark)),
        Err(Error::TrashChanged { n_notes: 0 })
    ));
    for engine in [&engine, &other] {
        assert_eq!(engine.doctor().unwrap(), []);
    }
}
