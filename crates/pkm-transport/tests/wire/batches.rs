//! Several messages at once, which revision 2025-03-26 alone has.

use pkm_transport::{StdioOptions, http::HttpOptions};
use serde_json::{Value, json};

use crate::support::{
    Http, LEGACY, answer_of, cancellation, handshake, lines, meta, on_stdio, sorted,
};

fn call(id: &Value, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"ms": 1}}})
}

/// Requests, notifications, an answer to nothing, and what is no message.
fn mixed() -> Value {
    json!([
        call(&json!(1), "echo"),
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        call(&json!("b"), "wait"),
        5,
        {"jsonrpc": "2.0", "id": 3, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 4, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call"},
        handshake("2025-03-26")[0],
        call(&json!(1), "echo"),
    ])
}

fn answers_to_mixed() -> Vec<(Value, i64)> {
    sorted(vec![
        (json!(1), 0),
        (json!("b"), 0),
        (Value::Null, -32_600),
        (json!(3), -32_601),
        (json!(5), -32_602),
        (json!("init"), -32_600),
        (json!(1), -32_600),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn over_stdio_the_answers_come_in_one_array() {
    let mut input = lines(&handshake("2025-03-26"));
    input.extend(lines(&[mixed(), call(&json!(9), "echo")]));
    let said = on_stdio(&input, StdioOptions::default()).await;
    let arrays: Vec<_> = said.iter().filter_map(Value::as_array).collect();
    assert_eq!(arrays.len(), 1, "{said:?}");
    let answers = arrays[0].iter().filter_map(answer_of).collect();
    assert_eq!(sorted(answers), answers_to_mixed());
    assert!(said.iter().any(|message| message["id"] == 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_the_answers_come_in_one_stream() {
    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-03-26").await;
    let reply = server.post(&session, mixed().to_string().as_bytes()).await;
    assert_eq!((reply.answers(), reply.status), (answers_to_mixed(), 200));
    // A client of this revision need not say which it speaks.
    let reply = server
        .post(&session[..1], mixed().to_string().as_bytes())
        .await;
    assert_eq!((reply.answers(), reply.status), (answers_to_mixed(), 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_asks_nothing_is_not_answered() {
    let notes = json!([{"jsonrpc": "2.0", "method": "notifications/unknown"}, {"jsonrpc": "2.0", "id": 4, "result": {}}]);
    let mut input = lines(&handshake("2025-03-26"));
    input.extend(lines(std::slice::from_ref(&notes)));
    assert_eq!(on_stdio(&input, StdioOptions::default()).await.len(), 1);
    let server = Http::start(HttpOptions::default()).await;
    let session = server.session("2025-03-26").await;
    let reply = server.post(&session, notes.to_string().as_bytes()).await;
    assert_eq!((reply.status, reply.body.as_str()), (202, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_member_does_not_hold_up_the_others() {
    let slow = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {"ms": 60_000}}});
    let cancel = cancellation(2);
    let mut input = lines(&handshake("2025-03-26"));
    input.extend(lines(&[json!([call(&json!(1), "echo"), slow]), cancel]));
    let said = on_stdio(&input, StdioOptions::default()).await;
    let array = said.iter().find_map(Value::as_array).expect("an array");
    let answers: Vec<_> = array.iter().filter_map(answer_of).collect();
    assert_eq!(answers, [(json!(1), 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_revisions_take_no_batch() {
    let batch = json!([call(&json!(1), "echo")]);
    let server = Http::start(HttpOptions::default()).await;
    for revision in &LEGACY[1..] {
        let mut input = lines(&handshake(revision));
        input.extend(lines(std::slice::from_ref(&batch)));
        let said = on_stdio(&input, StdioOptions::default()).await;
        let answers = sorted(said.iter().filter_map(answer_of).collect());
        assert_eq!(answers, [(json!("init"), 0), (Value::Null, -32_600)]);

        let session = server.session(revision).await;
        let reply = server.post(&session, batch.to_string().as_bytes()).await;
        assert_eq!(
            (reply.answers(), reply.status),
            (vec![(Value::Null, -32_600)], 400)
        );
    }
    let mut request = call(&json!(1), "echo");
    request["params"]["_meta"] = meta();
    let said = on_stdio(&lines(&[json!([request])]), StdioOptions::default()).await;
    assert_eq!(answer_of(&said[0]), Some((Value::Null, -32_600)));
}
