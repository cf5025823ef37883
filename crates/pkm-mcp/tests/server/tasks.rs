use std::time::Duration;

use pkm_engine::ReindexScope;
use rmcp::{
    ServiceError,
    model::{
        CallToolResponse, CancelTaskParams, ClientCapabilities, DetailedTask, ErrorCode,
        GetTaskParams, InputResponses, ProtocolVersion, Task, TaskPayload, TaskStatus,
        UpdateTaskParams,
    },
};
use serde_json::{Value, json};

use crate::support::{Home, Model, Session, call_of, modern, text_of};

fn declares_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

async fn session_with_tasks() -> Session {
    let capabilities = ClientCapabilities::builder().enable_tasks().build();
    Home::new(Model::Hash)
        .connect_as(ProtocolVersion::V_2026_07_28, capabilities)
        .await
}

async fn started(session: &Session, arguments: Value) -> Task {
    let call = call_of("reindex_notes", arguments);
    match session.client.call_tool_once(call).await.unwrap() {
        CallToolResponse::Task(created) => {
            assert!(created.meta.is_some(), "a task names the server too");
            created.task
        }
        other => panic!("no task: {other:?}"),
    }
}

async fn task(session: &Session, id: &str) -> DetailedTask {
    let result = session.client.get_task(GetTaskParams::new(id)).await;
    let result = result.unwrap();
    assert!(result.meta.is_some());
    result.task
}

async fn ended(session: &Session, id: &str) -> DetailedTask {
    loop {
        let found = task(session, id).await;
        if found.status().is_terminal() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reindex_is_a_task_that_ends_with_what_the_tool_would_have_answered() {
    let session = session_with_tasks().await;
    session.add("One", "some words").await;
    let seed = started(&session, json!({"scope": "all", "wait_seconds": 55})).await;
    assert_eq!((seed.ttl_ms, seed.task_id.as_str()), (None, "job-1"));
    assert!((2_000..=5_000).contains(&seed.poll_interval_ms.unwrap()));
    assert!(seed.status_message.is_some());
    assert!(seed.created_at <= seed.last_updated_at);

    let done = ended(&session, &seed.task_id).await;
    let TaskPayload::Completed { result } = done.payload else {
        panic!("not completed: {done:?}")
    };
    let told = session
        .call("job_status", json!({"job_id": 1}))
        .await
        .unwrap();
    assert_eq!(
        result["structuredContent"],
        told.structured_content.clone().unwrap()
    );
    assert_eq!(result["content"][0]["text"], text_of(&told));
    assert_eq!(result["resultType"], "complete");
    let job = session.home.engine.job(1).unwrap();
    assert_eq!(done.task.created_at, job.created_at.to_string());
    assert_eq!(done.task.last_updated_at, job.updated_at.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_begins_no_job_is_answered_at_once() {
    let session = session_with_tasks().await;
    let refused = session
        .call("reindex_notes", json!({"scope": "some"}))
        .await
        .unwrap();
    assert_eq!(refused.is_error, Some(true));
    session.ask("index_status", json!({})).await;
    let progress = session.client.service().progress.lock().unwrap().clone();
    assert!(progress.is_empty(), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_and_stays_so() {
    let session = session_with_tasks().await;
    let client = &session.client;
    let task_of = |id: i64| format!("job-{id}");
    // Another engine makes the job: nothing is pending here, so this one ends at once.
    let job = session.home.engine.reindex(ReindexScope::All).unwrap();
    let id = task_of(job.id);
    client
        .update_task(UpdateTaskParams::new(&id, InputResponses::new()))
        .await
        .unwrap();
    client
        .cancel_task(CancelTaskParams::new(&id))
        .await
        .unwrap();
    let over = ended(&session, &id).await;
    // Cancelling what is over is acknowledged and changes nothing.
    client
        .cancel_task(CancelTaskParams::new(&id))
        .await
        .unwrap();
    assert_eq!(task(&session, &id).await.status(), over.status());
    assert!(matches!(
        over.status(),
        TaskStatus::Cancelled | TaskStatus::Completed
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_task_is_invalid_parameters() {
    let session = session_with_tasks().await;
    let client = &session.client;
    for id in ["job-404", "404", "job-", "job--1", "job-x", ""] {
        let outcomes = [
            client.get_task(GetTaskParams::new(id)).await.map(drop),
            client.cancel_task(CancelTaskParams::new(id)).await,
            client
                .update_task(UpdateTaskParams::new(id, InputResponses::new()))
                .await,
        ];
        for outcome in outcomes {
            let Err(ServiceError::McpError(error)) = outcome else {
                panic!("no error for `{id}`: {outcome:?}")
            };
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
            assert_eq!(error.data.unwrap()["field"], "taskId");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_outlives_the_process_that_began_it() {
    let home = Home::new(Model::Hash);
    let capabilities = ClientCapabilities::builder().enable_tasks().build();
    let first = home
        .connect_as(ProtocolVersion::V_2026_07_28, capabilities.clone())
        .await;
    first.add("One", "some words").await;
    let seed = started(&first, json!({"scope": "all"})).await;
    drop(first);
    let again = Home::reopened(home);
    let second = again
        .connect_as(ProtocolVersion::V_2026_07_28, capabilities)
        .await;
    assert_eq!(
        ended(&second, &seed.task_id).await.status(),
        TaskStatus::Completed
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_reaches_a_session_with_a_handshake() {
    let home = Home::new(Model::Hash);
    let mut raw = home.raw();
    let offered = raw.shake_hands(declares_tasks()).await;
    assert_eq!(offered.get("extensions"), None);
    let call = json!({"name": "reindex_notes", "arguments": {"wait_seconds": 55}});
    let answer = raw.request(1, "tools/call", call).await;
    assert_eq!(answer["result"]["structuredContent"]["state"], "done");
    assert_eq!(answer["result"].get("resultType"), None);
    for (id, method) in [(2, "tasks/get"), (3, "tasks/cancel")] {
        let answer = raw.request(id, method, json!({"taskId": "job-1"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_needs_the_declaration_of_its_own_request() {
    let home = Home::new(Model::Hash);
    let mut raw = home.raw();
    let discovered = raw
        .request(0, "server/discover", modern(json!({}), &json!({})))
        .await;
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/tasks"], json!({}));
    let call = json!({"name": "reindex_notes", "arguments": {"wait_seconds": 55}});
    let answer = raw
        .request(1, "tools/call", modern(call.clone(), &declares_tasks()))
        .await;
    assert_eq!(answer["result"]["resultType"], "task");
    assert_eq!(answer["result"]["ttlMs"], Value::Null);
    let answer = raw.request(2, "tools/call", modern(call, &json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    let get = json!({"taskId": "job-1"});
    let answer = raw
        .request(3, "tasks/get", modern(get.clone(), &json!({})))
        .await;
    assert_eq!(answer["error"]["code"], -32021);
    let answer = raw
        .request(4, "tasks/list", modern(get, &declares_tasks()))
        .await;
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(answer["error"]["data"]["method"], "tasks/list");
}
