//! Watching the notes while they change, and emptying the trash under somebody's eyes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Scene, at};
use pkm_store::{Commits, Error, NewJob, NoteId, NoteState, Store};

fn seen(notes: &[NoteId], relisted: bool) -> Option<Commits> {
    Some(Commits {
        notes: notes.to_vec(),
        relisted,
        is_cut: false,
    })
}

#[test]
fn every_kind_of_write_is_seen_once_and_says_whether_the_titles_changed() {
    let scene = Scene::new();
    let id = scene.add("before", "a");
    let mut watch = scene.store.watch().unwrap();
    assert_eq!(watch.look().unwrap(), None, "what was there is no news");

    let new = scene.add("new", "b");
    assert_eq!(watch.look().unwrap(), seen(&[new], true));
    assert_eq!(watch.look().unwrap(), None);

    scene.edit(id, None, "before", "other text").unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[id], false));
    scene.edit(id, None, "after", "other text").unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[id], true));
    scene.edit(id, None, "after", "other text").unwrap();
    assert_eq!(watch.look().unwrap(), None, "nothing was changed");

    scene.store.delete_note(new, None, at(5)).unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[new], true));
    scene.restore(new, 1).unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[new], true));
    let tagged = NoteState {
        title: "after".to_owned(),
        content: "other text".to_owned(),
        tags: vec!["t".to_owned()],
        ..NoteState::default()
    };
    scene.edit_state(id, None, &tagged).unwrap();
    scene.edit(new, None, "new", "c").unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[id, new], false));
}

#[test]
fn what_is_no_note_is_seen_as_a_commit() {
    let scene = Scene::new();
    let mut watch = scene.store.watch().unwrap();
    let job = NewJob {
        kind: "reindex",
        scope: "all",
        fingerprint: "f",
    };
    scene.store.create_job(job, at(1)).unwrap();
    assert_eq!(watch.look().unwrap(), seen(&[], false));
}

#[test]
fn the_writes_of_another_handle_are_seen() {
    let scene = Scene::new();
    let mut watch = scene.store.watch().unwrap();
    let other = Scene {
        store: Store::open(scene.dir.path()).unwrap(),
        dir: tempfile::tempdir().unwrap(),
    };
    let id = other.add("from elsewhere", "a");
    assert_eq!(watch.look().unwrap(), seen(&[id], true));
}

#[test]
fn a_watcher_that_fell_behind_is_told_that_anything_may_have_changed() {
    let scene = Scene::new();
    let mut watch = scene.store.watch().unwrap();
    scene.add("first", "a");
    rusqlite::Connection::open(scene.store.path())
        .unwrap()
        .execute_batch(
            "DELETE FROM note_change;
             INSERT INTO note_change (seq, note_id, relisted) VALUES (50000, 1, 0);",
        )
        .unwrap();
    let commits = watch.look().unwrap().unwrap();
    assert!(commits.is_cut && commits.relisted);
    let id = scene.add("next", "b");
    assert_eq!(watch.look().unwrap(), seen(&[id], true));
}

#[test]
fn the_log_is_cut_and_keeps_its_newest_rows() {
    let scene = Scene::new();
    let id = scene.add("a", "0");
    let raw = rusqlite::Connection::open(scene.store.path()).unwrap();
    raw.execute_batch(
        "INSERT INTO note_change (note_id, relisted)
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11500)
         SELECT 1, 0 FROM n;",
    )
    .unwrap();
    let mut watch = scene.store.watch().unwrap();
    scene.edit(id, None, "a", "1").unwrap();
    let n: i64 = raw
        .query_row("SELECT count(*) FROM note_change", [], |row| row.get(0))
        .unwrap();
    assert_eq!(n, 10_000);
    assert_eq!(watch.look().unwrap(), seen(&[id], false));
}

#[test]
fn the_trash_is_emptied_of_what_was_seen_and_of_nothing_else() {
    let scene = Scene::new();
    let (old, young, live) = (
        scene.add("old", "a"),
        scene.add("young", "b"),
        scene.add("live", "c"),
    );
    scene.edit(old, None, "old", "a2").unwrap();
    scene.store.delete_note(old, None, at(5)).unwrap();
    let before = scene.store.trash_contents(None).unwrap();
    assert_eq!(before.n_notes, 1);
    scene.store.delete_note(young, None, at(7)).unwrap();

    let seen = scene.store.trash_contents(None).unwrap();
    assert_eq!(seen.n_notes, 2);
    assert_eq!(seen.oldest.as_ref().unwrap().note.title, "old");
    assert_eq!(seen.newest.as_ref().unwrap().note.title, "young");
    let changed = scene
        .store
        .empty_trash(None, Some(&before.mark))
        .unwrap_err();
    assert!(
        matches!(changed, Error::TrashChanged { n_notes: 2 }),
        "{changed:?}"
    );
    assert_eq!(
        scene.store.trash_contents(None).unwrap(),
        seen,
        "nothing was removed"
    );

    let part = scene.store.trash_contents(Some(at(6))).unwrap();
    assert_eq!(part.mark, before.mark, "the same notes have the same mark");
    let purged = scene
        .store
        .empty_trash(Some(at(6)), Some(&part.mark))
        .unwrap();
    assert_eq!((purged.n_notes, purged.n_revisions), (1, 1));
    let purged = scene.store.empty_trash(None, None).unwrap();
    assert_eq!((purged.n_notes, purged.n_revisions), (1, 0));
    assert_eq!(scene.store.trash_contents(None).unwrap().n_notes, 0);
    assert!(scene.store.get_note(live).is_ok());
    assert!(matches!(
        scene.store.get_note(old),
        Err(Error::NotFound { .. })
    ));
    assert_eq!(scene.store.check().unwrap(), []);
}

#[test]
fn a_note_deleted_again_is_another_trash() {
    let scene = Scene::new();
    let id = scene.add("a", "b");
    scene.store.delete_note(id, None, at(5)).unwrap();
    let first = scene.store.trash_contents(None).unwrap();
    scene.restore(id, 1).unwrap();
    scene.store.delete_note(id, None, at(6)).unwrap();
    let emptied = scene.store.empty_trash(None, Some(&first.mark));
    assert!(matches!(emptied, Err(Error::TrashChanged { n_notes: 1 })));
}
