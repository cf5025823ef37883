use rmcp::model::{ErrorCode, ProtocolVersion};
use serde_json::{Value, json};

use crate::support::{Model, session, session_of};

/// Calls with one argument wrong, and its name.
fn wrong_calls() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("search_notes", json!({}), "query"),
        ("search_notes", json!({"query": ""}), "query"),
        ("search_notes", json!({"query": " \u{3000}"}), "query"),
        ("search_notes", json!({"query": ["a"]}), "query"),
        ("search_notes", json!({"query": "a", "limit": 0}), "limit"),
        ("search_notes", json!({"query": "a", "limit": 51}), "limit"),
        (
            "search_notes",
            json!({"query": "a", "limit": "many"}),
            "limit",
        ),
        (
            "search_notes",
            json!({"query": "a", "cursor": "not ours"}),
            "cursor",
        ),
        ("search_notes", json!({"query": "a", "tags": "one"}), "tags"),
        (
            "search_notes",
            json!({"query": "a", "updated_before": "soon"}),
            "updated_before",
        ),
        (
            "search_notes",
            json!({"query": "a", "unheard_of": 1}),
            "unheard_of",
        ),
        (
            "semantic_search_notes",
            json!({"query": "a", "mode": "magic"}),
            "mode",
        ),
        ("related_notes", json!({"id": 0}), "id"),
        ("get_note", json!({"id": "first"}), "id"),
        ("get_note", json!({"id": 1, "from_line": 0}), "from_line"),
        ("list_notes", json!({"sort": "size"}), "sort"),
        ("list_notes", json!({"cursor": "not ours"}), "cursor"),
        ("add_note", json!({"title": "  ", "content": ""}), "title"),
        ("add_note", json!({"title": "a"}), "content"),
        (
            "add_note",
            json!({"title": "a", "content": "b", "folder": "../c"}),
            "folder",
        ),
        ("empty_trash", json!({"confirm": -1}), "confirm"),
        (
            "empty_trash",
            json!({"deleted_before": "lately"}),
            "deleted_before",
        ),
        ("reindex_notes", json!({"scope": "some"}), "scope"),
        ("reindex_notes", json!({"wait_seconds": 56}), "wait_seconds"),
        ("job_status", json!({}), "job_id"),
        ("index_status", json!({"verbose": true}), "verbose"),
    ]
}

#[tokio::test]
async fn wrong_arguments_are_errors_of_the_protocol_up_to_2025_06_18() {
    for revision in [ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18] {
        let session = session_of(revision, Model::Hash).await;
        for (tool, arguments, field) in wrong_calls() {
            let error = session.call(tool, arguments.clone()).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{tool} {arguments}");
            let data = error.data.unwrap();
            assert_eq!(data["field"], field, "{tool} {arguments}");
            assert!(!data["reason"].as_str().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn wrong_arguments_are_results_from_2025_11_25_on() {
    for revision in [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28] {
        let session = session_of(revision, Model::Hash).await;
        for (tool, arguments, field) in wrong_calls() {
            let refusal = session.refused(tool, arguments.clone()).await;
            assert_eq!(refusal["code"], "invalid_argument", "{tool} {arguments}");
            assert_eq!(refusal["field"], field, "{tool} {arguments}");
            let (reason, message) = (
                refusal["reason"].as_str().unwrap(),
                refusal["message"].as_str().unwrap(),
            );
            assert!(
                !reason.is_empty() && message.contains(reason) && message.contains(field),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn what_a_model_can_act_on_is_a_result_in_every_revision() {
    for revision in [
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2026_07_28,
    ] {
        let session = session_of(revision, Model::Absent).await;
        let id = session.add("One", "text").await;
        session.ask("delete_note", json!({"id": id})).await;
        for (tool, arguments, code) in [
            ("get_note", json!({"id": 404}), "not_found"),
            ("update_note", json!({"id": 404, "title": "x"}), "not_found"),
            ("delete_note", json!({"id": 404}), "not_found"),
            ("restore_note", json!({"id": 404}), "not_found"),
            ("related_notes", json!({"id": 404}), "not_found"),
            ("update_note", json!({"id": id, "title": "x"}), "in_trash"),
            ("delete_note", json!({"id": id}), "in_trash"),
            ("job_status", json!({"job_id": 404}), "no_such_job"),
            (
                "semantic_search_notes",
                json!({"query": "a", "mode": "vector"}),
                "no_model",
            ),
            ("reindex_notes", json!({}), "no_model"),
        ] {
            let refusal = session.refused(tool, arguments.clone()).await;
            assert_eq!(refusal["code"], code, "{tool} {arguments}");
            assert!(refusal["retryable"].is_boolean(), "{refusal}");
        }
    }
}

#[tokio::test]
async fn an_unknown_tool_is_invalid_parameters_in_every_revision() {
    for revision in [
        ProtocolVersion::V_2025_06_18,
        ProtocolVersion::V_2025_11_25,
        ProtocolVersion::V_2026_07_28,
    ] {
        let session = session_of(revision, Model::Hash).await;
        let error = session.call("no_such_tool", json!({})).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
        let data = error.data.unwrap();
        assert_eq!(data["field"], "name");
        assert!(
            data["reason"].as_str().unwrap().contains("search_notes"),
            "{data}"
        );
    }
}

#[tokio::test]
async fn a_null_stands_for_an_argument_left_out() {
    let session = session().await;
    let id = session.add("One", "word").await;
    let arguments =
        json!({"query": "word", "folder": null, "limit": null, "tags": null, "cursor": null});
    assert_eq!(session.found("search_notes", arguments).await, [id]);
}
