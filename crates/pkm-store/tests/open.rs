//! Opening: what is there, what is damaged, what is too new.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use common::{Scene, at, fixture};
use pkm_store::{Error, NoteId, Store};

/// A folder whose `notes.db` is a copy of `file`.
fn folder_with(file: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(file, dir.path().join("notes.db")).unwrap();
    dir
}

fn check_past_schema(file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(file);
    let dir = folder_with(&file);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.check().unwrap(), []);
    let id = NoteId(1);
    let note = store.get_note(id).unwrap();
    assert_eq!(note.content, "인증을 미뤘다. PR-1234");
    assert_eq!((note.revision, note.folder.as_str()), (2, "a/b"));
    assert_eq!(note.tags, ["Work", "회의"]);
    assert_eq!((note.created_at, note.updated_at), (at(1), at(2)));
    assert_eq!(note.source.unwrap().path, "p.md");
    assert_eq!(
        store.get_revision(id, 1).unwrap().content,
        "인증을 논의했다. PR-1234"
    );
    assert!(matches!(
        store.get_note(NoteId(2)),
        Err(Error::Trashed { .. })
    ));
    assert_eq!(
        store.vectors_of(id, fixture::FINGERPRINT).unwrap()[0].1,
        [0.6, 0.8]
    );
    assert_eq!(store.fingerprints().unwrap()[0].n_vectors, 2);
    assert_eq!(store.list_jobs(10).unwrap().len(), 1);
    let scene = Scene { store, dir };
    for query in ["인증", "pr-1234", "회의록", "work"] {
        assert_eq!(scene.find(query), [id], "{query}");
    }
    scene.restore(NoteId(2), 1).unwrap();
    assert!(scene.add("new", "text") > NoteId(2));
}

#[test]
fn a_file_of_schema_1_opens_with_everything_in_it() {
    check_past_schema("v1.db");
}

#[test]
fn a_file_of_schema_2_opens_with_everything_in_it() {
    check_past_schema("v2.db");
}

#[test]
fn a_file_newer_than_the_program_is_refused_untouched_with_both_schemas_named() {
    let scene = Scene::new();
    scene.add("a", "b");
    let path = scene.store.path().to_owned();
    drop(scene.store);
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = Store::open(scene.dir.path()).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, .. }));
    let message = error.to_string();
    assert!(message.contains("99") && message.contains(&pkm_store::SCHEMA_VERSION.to_string()));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_store_of_notes_is_refused_in_words_and_left_alone() {
    let scene = Scene::new();
    for n in 0..30 {
        scene.add("a", &format!("text {n}"));
    }
    let path = scene.store.path().to_owned();
    drop(scene.store);
    let whole = fs::read(&path).unwrap();
    let check = |what: &str, bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = Store::open(scene.dir.path()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains("notes.db"), "{what}: {error}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}");
    };
    check("half a file", &whole[..whole.len() / 2]);
    check("a page short", &whole[..whole.len() - 8192]);
    check("a few bytes", &whole[..50]);
    check("text", "# a note\n".repeat(500).as_bytes());
    let mut scribbled = whole.clone();
    scribbled[100..4096].fill(0xff);
    check("a scribbled first page", &scribbled);
    fs::write(&path, &whole).unwrap();
    assert_eq!(
        Store::open(scene.dir.path())
            .unwrap()
            .counts("f")
            .unwrap()
            .n_notes,
        30
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE note (x)")
        .unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        Store::open(dir.path()),
        Err(Error::Corrupt { .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_left_empty_by_a_kill_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.db"), b"").unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.check().unwrap(), []);
}

#[test]
fn a_folder_is_made_if_need_be_and_a_file_in_its_place_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a/b c?#%")).unwrap();
    assert!(store.size_bytes() > 0);
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let error = Store::open(&file).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
}
