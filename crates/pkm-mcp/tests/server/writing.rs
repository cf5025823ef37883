use serde_json::json;

use crate::support::session;

#[tokio::test]
async fn a_note_is_read_as_it_was_written() {
    let session = session().await;
    let content = "---\r\nkey: value\r\n---\r\n# Title\r\n";
    let note = json!({"title": "한글", "content": content, "tags": ["a", "나"], "folder": "x/y"});
    let added = session.ask("add_note", note).await;
    assert_eq!(
        (&added["revision"], &added["indexed"]),
        (&json!(1), &json!("now"))
    );
    let read = session.ask("get_note", json!({"id": added["id"]})).await;
    assert_eq!(read["content"], content);
    assert_eq!(
        (&read["tags"], &read["folder"]),
        (&json!(["a", "나"]), &json!("x/y"))
    );
    assert_eq!(
        (&read["truncated"], &read["n_lines"]),
        (&json!(false), &json!(4))
    );
    assert!(
        read["created_at"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .is_ok()
    );
}

#[tokio::test]
async fn a_note_is_read_line_by_line() {
    let session = session().await;
    let id = session.add("Lines", "one\ntwo\nthree\n").await;
    let part = session
        .ask(
            "get_note",
            json!({"id": id, "from_line": 2, "max_lines": 1}),
        )
        .await;
    assert_eq!(
        (&part["content"], &part["lines"]),
        (&json!("two\n"), &json!([2, 2]))
    );
    assert_eq!(
        (&part["truncated"], &part["n_lines"]),
        (&json!(true), &json!(3))
    );
    let text = session
        .text("get_note", json!({"id": id, "max_lines": 2}))
        .await;
    assert!(text.contains("ask again with from_line 3"), "{text}");
    let past = session
        .refused("get_note", json!({"id": id, "from_line": 4}))
        .await;
    assert_eq!(past["field"], "from_line");
}

#[tokio::test]
async fn old_words_vanish_and_new_ones_are_found_at_once() {
    let session = session().await;
    let id = session.add("Plan", "tomatoes along the wall").await;
    let replace = json!({"find": "tomatoes", "with": "zucchini"});
    session
        .ask(
            "update_note",
            json!({"id": id, "expected_revision": 1, "replace": replace}),
        )
        .await;
    assert_eq!(
        session
            .found("search_notes", json!({"query": "zucchini"}))
            .await,
        [id]
    );
    assert!(
        session
            .found("search_notes", json!({"query": "tomatoes"}))
            .await
            .is_empty()
    );
    session
        .ask("update_note", json!({"id": id, "append": "basil"}))
        .await;
    assert_eq!(
        session
            .found("search_notes", json!({"query": "basil"}))
            .await,
        [id]
    );
    let read = session.ask("get_note", json!({"id": id})).await;
    assert_eq!(read["content"], "zucchini along the wall\nbasil");
}

#[tokio::test]
async fn a_stale_edit_is_refused_and_changes_nothing() {
    let session = session().await;
    let id = session.add("Plan", "first").await;
    session
        .ask("update_note", json!({"id": id, "content": "second"}))
        .await;
    for (tool, more) in [
        ("update_note", json!({"content": "third"})),
        ("delete_note", json!({})),
    ] {
        let mut arguments = json!({"id": id, "expected_revision": 1});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let refusal = session.refused(tool, arguments).await;
        assert_eq!(
            (&refusal["code"], &refusal["found_revision"]),
            (&json!("conflict"), &json!(2))
        );
        assert!(refusal["message"].as_str().unwrap().contains("get_note"));
    }
    assert_eq!(
        session.ask("get_note", json!({"id": id})).await["content"],
        "second"
    );
}

#[tokio::test]
async fn one_change_of_the_text_at_a_time() {
    let session = session().await;
    let id = session.add("Plan", "a b a").await;
    for arguments in [
        json!({"id": id}),
        json!({"id": id, "content": "x", "append": "y"}),
        json!({"id": id, "append": "y", "replace": {"find": "b", "with": "c"}}),
        json!({"id": id, "replace": {"find": "a", "with": "c"}}),
        json!({"id": id, "replace": {"find": "z", "with": "c"}}),
        json!({"id": id, "replace": {"find": "", "with": "c"}}),
        json!({"id": id, "replace": {"find": "b"}}),
    ] {
        let refusal = session.refused("update_note", arguments.clone()).await;
        assert_eq!(refusal["code"], "invalid_argument", "{arguments}");
    }
    assert_eq!(
        session.ask("get_note", json!({"id": id})).await["revision"],
        1
    );
}

#[tokio::test]
async fn no_ghost_after_a_deletion_and_nothing_lost_after_a_restore() {
    let session = session().await;
    let id = session.add("Plan", "tomatoes along the wall").await;
    let deleted = session.ask("delete_note", json!({"id": id})).await;
    assert_eq!(
        (&deleted["id"], &deleted["deleted"]),
        (&json!(id), &json!(true))
    );
    assert!(
        deleted["restorable_until"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .is_ok()
    );
    for (tool, mode) in [
        ("search_notes", None),
        ("semantic_search_notes", Some("hybrid")),
        ("semantic_search_notes", Some("vector")),
    ] {
        let arguments = match mode {
            None => json!({"query": "tomatoes"}),
            Some(mode) => json!({"query": "tomatoes", "mode": mode}),
        };
        assert!(
            session.found(tool, arguments).await.is_empty(),
            "{tool} {mode:?}"
        );
    }
    assert_eq!(
        session.refused("get_note", json!({"id": id})).await["code"],
        "in_trash"
    );
    session.ask("restore_note", json!({"id": id})).await;
    assert_eq!(
        session
            .found("search_notes", json!({"query": "tomatoes"}))
            .await,
        [id]
    );
    assert_eq!(
        session
            .found("semantic_search_notes", json!({"query": "tomatoes"}))
            .await,
        [id]
    );
}

#[tokio::test]
async fn an_earlier_revision_comes_back_as_a_new_one() {
    let session = session().await;
    let id = session.add("Plan", "first").await;
    session
        .ask(
            "update_note",
            json!({"id": id, "content": "second", "title": "New"}),
        )
        .await;
    let restored = session
        .ask("restore_note", json!({"id": id, "revision": 1}))
        .await;
    assert_eq!(restored, json!({"id": id, "revision": 3}));
    let read = session.ask("get_note", json!({"id": id})).await;
    assert_eq!(
        (&read["content"], &read["title"]),
        (&json!("first"), &json!("Plan"))
    );
    let refusal = session
        .refused("restore_note", json!({"id": id, "revision": 99}))
        .await;
    assert_eq!(refusal["code"], "no_such_revision");
}
