//! The notes in the files of `tests/fixtures`, one file for every schema there ever was.

use std::fs;
use std::path::Path;

use pkm_store::{
    Edit, JobState, JobUpdate, NewJob, NewNote, NoteState, PassageHash, Source, Store,
};

use super::{at, chunking, chunks};

pub(crate) const FINGERPRINT: &str = "fixture-model";

/// Writes a file with something in every table.
pub(crate) fn write(file: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let live = NewNote {
        title: "회의록".to_owned(),
        content: "인증을 논의했다. PR-1234".to_owned(),
        tags: vec!["Work".to_owned(), "회의".to_owned()],
        folder: "a/b".to_owned(),
        source: Some(Source {
            root: "r".to_owned(),
            path: "p.md".to_owned(),
            hash: [7; 32],
        }),
        ..NewNote::default()
    };
    let id = store
        .add_note(&live, chunking(&chunks(&live.content, &[])), at(1))
        .unwrap()
        .id;
    let content = "인증을 미뤘다. PR-1234".to_owned();
    let state = NoteState {
        title: live.title,
        content,
        tags: live.tags,
        folder: live.folder,
        source: live.source,
    };
    let cut = chunks(&state.content, &[]);
    let edit = Edit {
        expected: Some(1),
        state: &state,
        chunking: chunking(&cut),
    };
    store.update_note(id, edit, at(2)).unwrap();
    let trashed = NewNote {
        title: "gone".to_owned(),
        content: "bye".to_owned(),
        ..NewNote::default()
    };
    let cut = chunks(&trashed.content, &[]);
    let trashed = store.add_note(&trashed, chunking(&cut), at(3)).unwrap().id;
    let vectors = [
        (PassageHash::of(state.content.as_bytes()), vec![0.6, 0.8]),
        (PassageHash::of(b"bye"), vec![0.8, 0.6]),
    ];
    store.put_vectors(FINGERPRINT, 2, &vectors).unwrap();
    store.delete_note(trashed, None, at(4)).unwrap();
    store
        .mark_failed(FINGERPRINT, PassageHash::of(b"other"), "too strange")
        .unwrap();
    let job = NewJob {
        kind: "reindex",
        scope: "all",
        fingerprint: FINGERPRINT,
    };
    let job = store.create_job(job, at(5)).unwrap().0.id;
    let done = JobUpdate {
        state: JobState::Done,
        done: 1,
        total: 1,
        message: String::new(),
        error: None,
    };
    store.update_job(job, &done, at(6)).unwrap();
    let path = store.path().to_owned();
    drop(store);
    // Small pages: the file is kept in the repository.
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA journal_mode = delete; PRAGMA page_size = 1024; VACUUM;")
        .unwrap();
    drop(conn);
    fs::copy(path, file).unwrap();
}
