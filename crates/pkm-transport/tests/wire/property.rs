//! Whatever the bytes: each request with a readable id is answered once, nothing but messages is
//! said, the server lives.

use std::collections::HashMap;

use pkm_transport::StdioOptions;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{answer_of, handshake, lines, on_stdio};

/// One line of input: nonsense, half a message, or a message with something wrong in it.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![
        (0..1_000_i64).prop_map(Value::from),
        "[a-z가-힣]{0,3}".prop_map(Value::from),
        Just(Value::Null),
        Just(json!(1.5)),
        Just(json!([])),
    ];
    let method = prop_oneof![
        Just(json!("ping")),
        Just(json!("tools/list")),
        Just(json!("tools/call")),
        Just(json!("initialize")),
        Just(json!("resources/read")),
        Just(json!("notifications/cancelled")),
        Just(json!("server/discover")),
        Just(json!("no/such")),
        Just(json!(7)),
        "[a-z/]{0,8}".prop_map(Value::from),
    ];
    let params = prop_oneof![
        Just(json!({})),
        Just(json!({"name": "echo", "arguments": {"a": 1}})),
        Just(json!({"name": "boom"})),
        Just(json!({"name": 5})),
        Just(json!({"requestId": 1})),
        Just(json!([1])),
        Just(json!("x")),
        Just(json!({"_meta": 5})),
        Just(Value::Null),
    ];
    let message = (
        prop::option::weighted(0.9, id),
        prop::option::weighted(0.9, method),
        prop::option::weighted(0.7, params),
        prop::option::weighted(0.1, Just(json!({}))),
        prop::bool::weighted(0.95),
    )
        .prop_map(|(id, method, params, result, has_version)| {
            let mut message = json!({});
            if has_version {
                message["jsonrpc"] = json!("2.0");
            }
            let members = [
                ("id", id),
                ("method", method),
                ("params", params),
                ("result", result),
            ];
            for (name, member) in members {
                if let Some(member) = member {
                    message[name] = member;
                }
            }
            message.to_string().into_bytes()
        });
    let cut = (message.clone(), 0.0..1.0_f64).prop_map(|(mut bytes, share)| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a short line"
        )]
        let end = (bytes.len() as f64 * share) as usize;
        bytes.truncate(end);
        bytes
    });
    let batch = prop::collection::vec(message.clone(), 0..4)
        .prop_map(|members| [b"[", members.join(&b","[..]).as_slice(), b"]"].concat());
    prop_oneof![
        6 => message,
        1 => cut,
        1 => batch,
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|mut bytes| {
            bytes.retain(|byte| *byte != b'\n');
            bytes
        }),
    ]
}

/// The id that a client would wait for an answer to.
fn asked(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let id = message.as_object()?.get("id")?;
    let is_answer = message.get("method").is_none()
        && (message.get("result").is_some() != message.get("error").is_some());
    let has_id = id.is_string() || id.is_i64();
    (has_id && !(is_answer && message["jsonrpc"] == "2.0")).then(|| id.clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once(
        revision in prop::sample::select(vec!["2025-03-26", "2025-11-25"]),
        input in prop::collection::vec(line(), 0..30),
    ) {
        let mut bytes = lines(&handshake(revision));
        for line in &input {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let said = runtime.block_on(on_stdio(&bytes, StdioOptions::default()));

        let mut wanted: HashMap<String, usize> = HashMap::new();
        for id in input.iter().filter_map(|line| asked(line)) {
            *wanted.entry(id.to_string()).or_default() += 1;
        }
        let is_cancelled = |id: &str| id == "1" && input.iter().any(|line| {
            let text = String::from_utf8_lossy(line);
            text.contains("notifications/cancelled")
        });
        let mut answered: HashMap<String, usize> = HashMap::new();
        // Members of batches are not counted, and neither are refusals without an id.
        for (id, _) in said.iter().filter(|message| message.is_object()).filter_map(answer_of) {
            if id != "init" && !id.is_null() {
                *answered.entry(id.to_string()).or_default() += 1;
            }
        }
        for (id, n) in &answered {
            prop_assert!(wanted.get(id) >= Some(n), "{id} is answered {n} times");
        }
        for (id, n) in &wanted {
            if !is_cancelled(id) {
                prop_assert_eq!(answered.get(id), Some(n), "answers to {}", id);
            }
        }
    }
}
