use super::*;
use pkm_engine::{ContentEdit, Error, Indexed, ListRequest, NoteEdit, Sort};

fn edit(content: ContentEdit) -> NoteEdit {
    NoteEdit {
        content: Some(content),
        ..NoteEdit::default()
    }
}

#[test]
fn a_note_comes_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let content = "\u{feff}---\r\ntags: [a]\r\n---\r\n# 제목\r\n\r\n본문 e\u{301} \t\r\n";
    let id = engine
        .add_note(NoteDraft {
            tags: vec!["#일기".into(), "일기".into(), "work".into()],
            folder: "/work//meetings/".into(),
            ..draft("  제목  ", content)
        })
        .unwrap()
        .id;
    let note = engine.get_note(id).unwrap();
    assert_eq!(note.content, content);
    assert_eq!(
        (note.title.as_str(), note.folder.as_str()),
        ("제목", "work/meetings")
    );
    assert_eq!(note.tags, ["일기", "work"]);
    assert_eq!(note.revision, 1);
}

#[test]
fn a_short_note_is_found_by_meaning_when_the_call_returns() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    assert_eq!(
        engine.add_note(draft("t", "short")).unwrap().indexed,
        Indexed::Now
    );
    let long = "word ".repeat(5_000);
    assert_eq!(
        engine.add_note(draft("t", &long)).unwrap().indexed,
        Indexed::Pending
    );
}

#[test]
fn an_argument_that_breaks_a_rule_is_refused_with_field_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let check = |draft: NoteDraft, wanted: &str| match engine.add_note(draft) {
        Err(Error::Invalid { field, reason }) => {
            assert_eq!(field, wanted);
            assert!(!reason.is_empty());
        }
        other => panic!("{wanted}: {other:?}"),
    };
    check(draft(" \t", "x"), "title");
    check(draft("two\nlines", "x"), "title");
    check(draft(&"긴".repeat(501), "x"), "title");
    check(draft("t", &"x".repeat((16 << 20) + 1)), "content");
    check(
        NoteDraft {
            tags: vec!["a,b".into()],
            ..draft("t", "x")
        },
        "tags",
    );
    check(
        NoteDraft {
            tags: vec!["#".into()],
            ..draft("t", "x")
        },
        "tags",
    );
    check(
        NoteDraft {
            folder: "a/../b".into(),
            ..draft("t", "x")
        },
        "folder",
    );
    check(
        NoteDraft {
            folder: "a\u{0}b".into(),
            ..draft("t", "x")
        },
        "folder",
    );
    assert_eq!(engine.status().unwrap().n_notes, 0);
}

#[test]
fn a_stale_edit_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "plan", "first");
    engine
        .update_note(id, &edit(ContentEdit::Set("second".into())))
        .unwrap();
    let stale = NoteEdit {
        expected_revision: Some(1),
        ..edit(ContentEdit::Set("third".into()))
    };
    match engine.update_note(id, &stale) {
        Err(Error::Conflict {
            expected: 1,
            found: 2,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(engine.get_note(id).unwrap().content, "second");
    assert!(matches!(
        engine.delete_note(id, Some(1)),
        Err(Error::Conflict { .. })
    ));
}

#[test]
fn text_is_replaced_only_where_it_is_unmistakable() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "t", "aaa 회의록 b");
    let replace = |find: &str| {
        engine.update_note(
            id,
            &edit(ContentEdit::Replace {
                find: find.into(),
                with: "Z".into(),
            }),
        )
    };
    for find in ["", "nowhere", "aa", "a"] {
        assert!(
            matches!(
                replace(find),
                Err(Error::Invalid {
                    field: "replace",
                    ..
                })
            ),
            "`{find}` was replaced"
        );
    }
    assert_eq!(engine.get_note(id).unwrap().content, "aaa 회의록 b");
    replace("회의록").unwrap();
    assert_eq!(engine.get_note(id).unwrap().content, "aaa Z b");
}

#[test]
fn appended_text_starts_on_its_own_line() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    for (before, after) in [
        ("", "new"),
        ("old", "old\nnew"),
        ("old\n", "old\nnew"),
        ("a\r\nb", "a\r\nb\r\nnew"),
    ] {
        let id = add(&engine, "t", before);
        engine
            .update_note(id, &edit(ContentEdit::Append("new".into())))
            .unwrap();
        assert_eq!(engine.get_note(id).unwrap().content, after);
    }
}

#[test]
fn an_edit_that_names_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "t", "x");
    assert!(matches!(
        engine.update_note(id, &NoteEdit::default()),
        Err(Error::Invalid { .. })
    ));
}

#[test]
fn a_deleted_note_is_gone_until_it_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "고양이", "고양이는 잠을 잔다");
    let deleted = engine.delete_note(id, Some(1)).unwrap();
    assert!(deleted.restorable_until > pkm_engine::Timestamp::now());
    assert!(matches!(engine.get_note(id), Err(Error::Trashed { .. })));
    for mode in [SearchMode::Keyword, SearchMode::Vector, SearchMode::Hybrid] {
        assert_eq!(ids(&find(&engine, "고양이", mode).hits), []);
    }
    assert_eq!(engine.trash(10).unwrap()[0].id, id);
    let restored = engine.restore_note(id, None).unwrap();
    assert_eq!(restored.indexed, Indexed::Now);
    for mode in [SearchMode::Keyword, SearchMode::Vector, SearchMode::Hybrid] {
        assert_eq!(ids(&find(&engine, "고양이", mode).hits), [id]);
    }
}

#[test]
fn every_former_state_can_be_restored() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "t", "one");
    for text in ["two", "three"] {
        engine
            .update_note(id, &edit(ContentEdit::Set(text.into())))
            .unwrap();
    }
    let revisions: Vec<i64> = engine
        .history(id)
        .unwrap()
        .iter()
        .map(|state| state.revision)
        .collect();
    assert_eq!(revisions, [3, 2, 1]);
    assert_eq!(engine.restore_note(id, Some(1)).unwrap().revision, 4);
    assert_eq!(engine.get_note(id).unwrap().content, "one");
    assert!(matches!(
        engine.restore_note(id, Some(9)),
        Err(Error::NoRevision { .. })
    ));
    assert!(matches!(
        engine.restore_note(id, None),
        Err(Error::Invalid {
            field: "revision",
            ..
        })
    ));
    assert!(matches!(
        engine.restore_note(NoteId(99), None),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn a_list_pages_through_every_note_once_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(dir.path(), Worker::Off, no_model());
    let all: Vec<NoteId> = (0..25)
        .map(|i| add(&engine, &format!("n{i}"), "x"))
        .collect();
    let mut request = ListRequest {
        filter: Filter::default(),
        sort: Sort::Updated,
        limit: 10,
        cursor: None,
    };
    let mut seen = Vec::new();
    loop {
        let page = engine.list_notes(&request).unwrap();
        seen.extend(page.notes.iter().map(|note| note.id));
        add(&engine, "meanwhile", "x");
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    let newest_first: Vec<NoteId> = all.into_iter().rev().collect();
    assert_eq!(seen, newest_first);
    request.sort = Sort::Title;
    assert!(matches!(
        engine.list_notes(&request),
        Err(Error::Invalid {
            field: "cursor",
            ..
        })
    ));
}
