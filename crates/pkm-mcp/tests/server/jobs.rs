use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ProtocolVersion, ServerResult,
};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use crate::support::{Model, session, session_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_reindex_tells_its_progress_and_ends() {
    for revision in [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28] {
        let session = session_of(revision, Model::Hash).await;
        for number in 0..5 {
            session.add(&format!("n{number}"), "some words").await;
        }
        let job = session
            .ask("reindex_notes", json!({"scope": "all", "wait_seconds": 55}))
            .await;
        assert_eq!(
            (&job["state"], &job["kind"]),
            (&json!("done"), &json!("reindex")),
            "{job}"
        );
        let progress = session.client.service().progress.lock().unwrap().clone();
        assert!(progress.len() >= 2, "{progress:?}");
        assert!(
            progress.is_sorted_by(|a, b| a.progress < b.progress),
            "{progress:?}"
        );
        for step in &progress {
            assert!(
                step.total.unwrap() >= step.progress && !step.message.as_ref().unwrap().is_empty(),
                "{step:?}"
            );
        }
        let last = progress.last().unwrap();
        assert_eq!(Some(last.progress), last.total);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reindex_without_waiting_answers_with_a_job_to_look_after() {
    let session = session().await;
    session.add("One", "some words").await;
    let job = session
        .ask("reindex_notes", json!({"wait_seconds": 0}))
        .await;
    let id = &job["job_id"];
    let done = session
        .ask("job_status", json!({"job_id": id, "wait_seconds": 55}))
        .await;
    assert_eq!((&done["job_id"], &done["state"]), (id, &json!("done")));
    let text = session.text("job_status", json!({"job_id": id})).await;
    assert!(text.contains("is done"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_request_stops_waiting_and_not_the_job() {
    let session = session().await;
    session.add("One", "some words").await;
    let arguments = json!({"scope": "all", "wait_seconds": 55})
        .as_object()
        .unwrap()
        .clone();
    let call = CallToolRequestParams::new("reindex_notes").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
    let handle = session
        .client
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await
        .unwrap();
    handle
        .cancel(Some("no longer of interest".into()))
        .await
        .unwrap();
    // Whether the job was made before the request was cancelled or not: a new call finds or makes it.
    let job = session
        .ask("reindex_notes", json!({"scope": "all", "wait_seconds": 55}))
        .await;
    assert_eq!(job["state"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tools_send_no_progress() {
    let session = session().await;
    let request = CallToolRequest::new(CallToolRequestParams::new("index_status"));
    let options = PeerRequestOptions::with_timeout(Duration::from_secs(60));
    let handle = session
        .client
        .send_request_with_option(ClientRequest::CallToolRequest(request), options)
        .await
        .unwrap();
    assert!(matches!(
        handle.await_response().await.unwrap(),
        ServerResult::CallToolResult(_)
    ));
    assert!(session.client.service().progress.lock().unwrap().is_empty());
}
