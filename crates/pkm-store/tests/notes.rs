//! Notes as a caller sees them: added, edited, deleted, restored, listed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Scene, at};
use pkm_store::{Error, Filter, NewNote, NoteState, Sort, Source};

#[test]
fn a_note_comes_back_as_it_was_given() {
    let scene = Scene::new();
    let content = "\u{feff}# 제목\r\n본문 👨‍👩‍👧 \0 end\n";
    let written = scene.add_full(&NewNote {
        title: "회의".to_owned(),
        content: content.to_owned(),
        tags: vec![" Work ".to_owned(), "work".to_owned(), "한글".to_owned()],
        folder: "/a/b/".to_owned(),
        created_at: Some(at(1)),
        updated_at: Some(at(2)),
        source: Some(Source {
            root: "r".to_owned(),
            path: "p".to_owned(),
            hash: [7; 32],
        }),
    });
    let note = scene.store.get_note(written.id).unwrap();
    assert_eq!(note.title, "회의");
    assert_eq!(note.content, content);
    assert_eq!(note.tags, ["Work", "한글"]);
    assert_eq!(note.folder, "a/b");
    assert_eq!((note.created_at, note.updated_at), (at(1), at(2)));
    assert_eq!(note.revision, 1);
    assert_eq!(note.source.unwrap().hash, [7; 32]);
    assert_eq!(note.chunked_by, common::CHUNKER);
}

#[test]
fn an_edit_keeps_the_former_state_and_gives_new_chunk_ids() {
    let scene = Scene::new();
    let id = scene.add("one", "first text");
    let before = scene.store.chunks_of(id).unwrap();
    let written = scene.edit(id, Some(1), "one", "second text").unwrap();
    assert_eq!((written.revision, written.changed), (2, true));
    let after = scene.store.chunks_of(id).unwrap();
    assert!(after[0].id > before[0].id);
    assert_eq!(
        scene.store.get_revision(id, 1).unwrap().content,
        "first text"
    );
    assert_eq!(
        scene.store.get_revision(id, 2).unwrap().content,
        "second text"
    );
    let history: Vec<i64> = scene
        .store
        .history(id)
        .unwrap()
        .iter()
        .map(|state| state.revision)
        .collect();
    assert_eq!(history, [2, 1]);
    assert!(matches!(
        scene.store.get_revision(id, 3),
        Err(Error::NoSuchRevision { revision: 3, .. })
    ));
}

#[test]
fn an_edit_that_changes_nothing_keeps_revision_and_chunks() {
    let scene = Scene::new();
    let id = scene.add("one", "text");
    let before = scene.store.chunks_of(id).unwrap();
    let written = scene.edit(id, Some(1), "one", "text").unwrap();
    assert_eq!((written.revision, written.changed), (1, false));
    assert_eq!(scene.store.chunks_of(id).unwrap(), before);
}

#[test]
fn an_edit_made_for_an_older_revision_is_refused_and_changes_nothing() {
    let scene = Scene::new();
    let id = scene.add("one", "a");
    scene.edit(id, Some(1), "one", "b").unwrap();
    let refused = scene.edit(id, Some(1), "one", "c");
    assert!(matches!(
        refused,
        Err(Error::Conflict {
            expected: 1,
            found: 2,
            ..
        })
    ));
    let refused = scene.store.delete_note(id, Some(1), at(9));
    assert!(matches!(
        refused,
        Err(Error::Conflict {
            expected: 1,
            found: 2,
            ..
        })
    ));
    assert_eq!(scene.store.get_note(id).unwrap().content, "b");
}

#[test]
fn a_chunk_that_is_no_slice_of_the_content_refuses_the_whole_write() {
    let scene = Scene::new();
    let refused = scene.add_with_ranges("한", &[0..3, 0..2]);
    assert!(matches!(
        refused,
        Err(Error::InvalidChunk {
            ordinal: 1,
            start: 0,
            end: 2
        })
    ));
    assert_eq!(scene.store.counts("f").unwrap().n_notes, 0);
    assert!(scene.store.check().unwrap().is_empty());
}

#[test]
fn notes_added_together_are_added_all_or_not_at_all() {
    let scene = Scene::new();
    let note = |path: &str| NewNote {
        content: "text".to_owned(),
        source: Some(Source {
            root: "r".to_owned(),
            path: path.to_owned(),
            hash: [0; 32],
        }),
        ..NewNote::default()
    };
    let chunks = common::chunks("text", &[]);
    let batch = |paths: &[&str]| -> Vec<_> {
        paths
            .iter()
            .map(|path| (note(path), common::chunking(&chunks)))
            .collect()
    };
    let written = scene.store.add_notes(&batch(&["a", "b"]), at(0)).unwrap();
    assert_eq!(scene.find("text"), [written[0].id, written[1].id]);
    let refused = scene.store.add_notes(&batch(&["c", "a"]), at(0));
    assert!(matches!(refused, Err(Error::SourceTaken { .. })));
    assert_eq!(scene.store.sources("r").unwrap().len(), 2);
}

#[test]
fn a_deleted_note_is_in_the_trash_and_comes_back_at_its_revision() {
    let scene = Scene::new();
    let id = scene.add("one", "a");
    scene.edit(id, None, "one", "b").unwrap();
    let deleted = scene.store.delete_note(id, Some(2), at(5)).unwrap();
    assert_eq!((deleted.revision, deleted.deleted_at), (2, at(5)));
    assert!(
        matches!(scene.store.get_note(id), Err(Error::Trashed { deleted_at, .. }) if deleted_at == at(5))
    );
    assert!(matches!(
        scene.edit(id, None, "x", "y"),
        Err(Error::Trashed { .. })
    ));
    assert!(matches!(
        scene.store.delete_note(id, None, at(6)),
        Err(Error::Trashed { .. })
    ));
    assert!(scene.store.chunks_of(id).unwrap().is_empty());
    assert_eq!(scene.store.list_trash(10).unwrap()[0].note.id, id);
    assert_eq!(
        scene.store.trashed_note(id).unwrap().unwrap().note.content,
        "b"
    );

    let restored = scene.restore(id, 2).unwrap();
    assert_eq!((restored.revision, restored.changed), (2, true));
    assert_eq!(scene.store.get_note(id).unwrap().content, "b");
    assert_eq!(scene.store.chunks_of(id).unwrap().len(), 1);
    assert_eq!(scene.store.trashed_note(id).unwrap(), None);
    assert!(scene.store.list_trash(10).unwrap().is_empty());
}

#[test]
fn an_earlier_revision_becomes_a_new_one() {
    let scene = Scene::new();
    let id = scene.add("one", "a");
    scene.edit(id, None, "two", "b").unwrap();
    let restored = scene.restore(id, 1).unwrap();
    assert_eq!(restored.revision, 3);
    let note = scene.store.get_note(id).unwrap();
    assert_eq!((note.title.as_str(), note.content.as_str()), ("one", "a"));

    scene.store.delete_note(id, None, at(7)).unwrap();
    assert_eq!(scene.restore(id, 2).unwrap().revision, 4);
    assert_eq!(scene.store.get_note(id).unwrap().title, "two");
    assert!(matches!(
        scene.restore(id, 9),
        Err(Error::NoSuchRevision { revision: 9, .. })
    ));
}

#[test]
fn a_purge_removes_old_trash_for_good_and_nothing_else() {
    let scene = Scene::new();
    let old = scene.add("old", "a");
    let young = scene.add("young", "b");
    let live = scene.add("live", "c");
    scene.store.delete_note(old, None, at(5)).unwrap();
    scene.store.delete_note(young, None, at(7)).unwrap();
    let purged = scene.store.empty_trash(Some(at(6)), None).unwrap();
    assert_eq!(purged.n_notes, 1);
    assert!(matches!(
        scene.store.get_note(old),
        Err(Error::NotFound { .. })
    ));
    assert!(matches!(
        scene.store.get_note(young),
        Err(Error::Trashed { .. })
    ));
    assert!(scene.store.get_note(live).is_ok());
    let again = scene.add("new", "d");
    assert!(again > live, "ids are never used again");
}

#[test]
fn a_source_belongs_to_one_live_note() {
    let scene = Scene::new();
    let source = |hash: u8| Source {
        root: "r".to_owned(),
        path: "p".to_owned(),
        hash: [hash; 32],
    };
    let note = NewNote {
        source: Some(source(1)),
        ..NewNote::default()
    };
    let first = scene.add_full(&note).id;
    let taken = scene.try_add(&note);
    assert!(matches!(taken, Err(Error::SourceTaken { id, .. }) if id == first));

    let found = scene.store.find_by_source("r", "p").unwrap().unwrap();
    assert_eq!((found.id, found.hash), (first, [1; 32]));
    let state = NoteState {
        source: Some(source(2)),
        ..NoteState::default()
    };
    assert!(!scene.edit_state(first, None, &state).unwrap().changed);
    assert_eq!(scene.store.sources("r").unwrap()[0].hash, [2; 32]);

    scene.store.delete_note(first, None, at(3)).unwrap();
    assert_eq!(scene.store.find_by_source("r", "p").unwrap(), None);
    let second = scene.add_full(&note).id;
    scene.restore(first, 1).unwrap();
    assert_eq!(scene.store.get_note(first).unwrap().source, None);
    assert_eq!(
        scene.store.find_by_source("r", "p").unwrap().unwrap().id,
        second
    );
}

#[test]
fn pages_of_a_list_neither_repeat_nor_skip_when_keys_are_equal() {
    let scene = Scene::new();
    let mut ids: Vec<_> = (0..7)
        .map(|n| scene.add(&format!("t{}", n % 2), "x"))
        .collect();
    for sort in [Sort::Updated, Sort::Created, Sort::Title] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = scene
                .store
                .list_notes(&Filter::default(), sort, 2, after.as_ref())
                .unwrap();
            assert_eq!(page.total, 7);
            seen.extend(page.notes.iter().map(|note| note.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        seen.sort();
        ids.sort();
        assert_eq!(seen, ids, "{sort:?}");
    }
}

#[test]
fn titles_sort_by_letter_whatever_their_case_or_form() {
    let scene = Scene::new();
    for title in [
        "나무",
        "banana",
        "\u{1100}\u{1161}\u{1107}\u{1161}\u{11bc}",
        "Apple",
        "다리",
    ] {
        scene.add(title, "x");
    }
    let page = scene
        .store
        .list_notes(&Filter::default(), Sort::Title, 10, None)
        .unwrap();
    let titles: Vec<String> = page
        .notes
        .iter()
        .map(|note| unicode_normalization::UnicodeNormalization::nfc(note.title.as_str()).collect())
        .collect();
    assert_eq!(titles, ["Apple", "banana", "가방", "나무", "다리"]);
}

#[test]
fn a_filter_combines_tags_folder_and_time() {
    let scene = Scene::new();
    let add = |folder: &str, tags: &[&str], updated| {
        scene
            .add_full(&NewNote {
                folder: folder.to_owned(),
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
                updated_at: Some(at(updated)),
                created_at: Some(at(0)),
                ..NewNote::default()
            })
            .id
    };
    let a = add("work", &["Rust", "한글"], 1);
    let b = add("work/deep", &["rust"], 2);
    let c = add("workshop", &["rust"], 3);
    let check = |filter: Filter, want: &[pkm_store::NoteId]| {
        let page = scene
            .store
            .list_notes(&filter, Sort::Created, 10, None)
            .unwrap();
        let mut got: Vec<_> = page.notes.iter().map(|note| note.id).collect();
        got.sort();
        assert_eq!(got, want, "{filter:?}");
        assert_eq!(page.total, want.len());
        let chunks = scene.store.allowed_chunks(&filter).unwrap();
        let Some(chunks) = chunks else {
            return assert_eq!(
                want,
                [a, b, c],
                "only a filter that lets all through has no list"
            );
        };
        let passages = scene.store.passages(&chunks).unwrap();
        let mut got: Vec<_> = passages.iter().map(|passage| passage.note_id).collect();
        got.dedup();
        assert_eq!(got, want, "{filter:?}");
    };
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    check(Filter::default(), &[a, b, c]);
    check(
        Filter {
            folder: Some("/Work/".to_owned()),
            ..Filter::default()
        },
        &[a, b],
    );
    check(
        Filter {
            folder: Some(String::new()),
            ..Filter::default()
        },
        &[a, b, c],
    );
    check(
        Filter {
            tags: tags(&["RUST"]),
            ..Filter::default()
        },
        &[a, b, c],
    );
    check(
        Filter {
            tags: tags(&["rust", "\u{1112}\u{1161}\u{11ab}글"]),
            ..Filter::default()
        },
        &[a],
    );
    check(
        Filter {
            updated_after: Some(at(2)),
            ..Filter::default()
        },
        &[b, c],
    );
    check(
        Filter {
            updated_before: Some(at(2)),
            ..Filter::default()
        },
        &[a],
    );
    check(
        Filter {
            folder: Some("work".to_owned()),
            updated_after: Some(at(2)),
            ..Filter::default()
        },
        &[b],
    );
    check(
        Filter {
            folder: Some("wor".to_owned()),
            ..Filter::default()
        },
        &[],
    );
}

#[test]
fn tags_and_folders_are_counted_for_live_notes() {
    let scene = Scene::new();
    let add = |folder: &str, tags: &[&str]| {
        scene
            .add_full(&NewNote {
                folder: folder.to_owned(),
                tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
                ..NewNote::default()
            })
            .id
    };
    add("b", &["Rust"]);
    add("a", &["rust", "go"]);
    let gone = add("c", &["gone"]);
    scene.store.delete_note(gone, None, at(1)).unwrap();
    let names = |counts: Vec<pkm_store::Count>| -> Vec<(String, usize)> {
        counts
            .into_iter()
            .map(|count| (count.name, count.n_notes))
            .collect()
    };
    assert_eq!(
        names(scene.store.tags().unwrap()),
        [("Rust".to_owned(), 2), ("go".to_owned(), 1)]
    );
    assert_eq!(
        names(scene.store.folders().unwrap()),
        [("a".to_owned(), 1), ("b".to_owned(), 1)]
    );
}

#[test]
fn notes_are_chunked_anew_only_at_the_revision_that_was_read() {
    let scene = Scene::new();
    let a = scene.add("a", "x");
    let b = scene.add("b", "y");
    let todo = scene
        .store
        .notes_not_chunked_by("other", pkm_store::NoteId(0), 10)
        .unwrap();
    assert_eq!(todo.iter().map(|note| note.id).collect::<Vec<_>>(), [a, b]);
    assert!(scene.rechunk(a, 1, "other").unwrap());
    scene.edit(b, None, "b", "z").unwrap();
    assert!(!scene.rechunk(b, 1, "other").unwrap());
    let todo = scene
        .store
        .notes_not_chunked_by("other", pkm_store::NoteId(0), 10)
        .unwrap();
    assert_eq!(todo.iter().map(|note| note.id).collect::<Vec<_>>(), [b]);
    assert_eq!(scene.store.get_note(a).unwrap().revision, 1);
}

#[test]
fn passages_come_in_the_order_asked_and_vanished_ones_drop_out() {
    let scene = Scene::new();
    let id = scene
        .add_chunked("t", "첫째 둘째", &[0..6, 7..13])
        .unwrap()
        .id;
    let gone = scene.add("gone", "x");
    let chunks = scene.store.chunks_of(id).unwrap();
    let gone_chunk = scene.store.chunks_of(gone).unwrap()[0].id;
    scene.store.delete_note(gone, None, at(1)).unwrap();
    let passages = scene
        .store
        .passages(&[chunks[1].id, gone_chunk, chunks[0].id])
        .unwrap();
    let texts: Vec<&str> = passages
        .iter()
        .map(|passage| passage.text.as_str())
        .collect();
    assert_eq!(texts, ["둘째", "첫째"]);
    let notes = scene.store.notes_of(&[chunks[1].id, gone_chunk]).unwrap();
    assert_eq!(notes.into_iter().collect::<Vec<_>>(), [(chunks[1].id, id)]);
}
