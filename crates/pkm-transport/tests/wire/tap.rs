//! What somebody who listens gets to see.

use std::sync::{Arc, Mutex};

use pkm_transport::{Direction, StdioOptions, Tap, http::HttpOptions};
use serde_json::{Value, json};

use crate::support::{Http, MODERN, handshake, lines, meta, on_stdio};

#[derive(Default)]
struct Listener(Mutex<Vec<(Direction, String, Vec<u8>)>>);

impl Tap for Listener {
    fn message(&self, direction: Direction, channel: &str, bytes: &[u8]) {
        let seen = (direction, channel.to_owned(), bytes.to_vec());
        self.0.lock().unwrap().push(seen);
    }
}

impl Listener {
    /// The channel and the id or method of each message, in order.
    fn seen(&self, direction: Direction) -> Vec<(String, String)> {
        let seen = self.0.lock().unwrap();
        seen.iter()
            .filter(|(way, ..)| *way == direction)
            .map(|(_, channel, bytes)| {
                let message: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
                let name = match (&message["method"], &message["id"]) {
                    (Value::String(method), _) => method.clone(),
                    (_, id) => id.to_string(),
                };
                (channel.clone(), name)
            })
            .collect()
    }
}

fn pairs(channel: &str, names: &[&str]) -> Vec<(String, String)> {
    let pair = |name: &&str| (channel.to_owned(), (*name).to_owned());
    names.iter().map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_stdio_every_line_is_seen() {
    let listener = Arc::new(Listener::default());
    let mut input = lines(&handshake("2025-11-25"));
    input.extend_from_slice(b"{not json\n[]\n");
    input.extend(lines(&[
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ]));
    let options = StdioOptions {
        tap: Some(listener.clone()),
        ..StdioOptions::default()
    };
    on_stdio(&input, options).await;
    assert_eq!(
        listener.seen(Direction::ToServer),
        pairs(
            "stdio",
            &[
                "initialize",
                "notifications/initialized",
                "null",
                "null",
                "tools/list"
            ]
        )
    );
    let mut answers = listener.seen(Direction::ToClient);
    answers.sort();
    assert_eq!(answers, pairs("stdio", &["\"init\"", "1", "null", "null"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_each_session_and_each_request_without_one_is_a_channel() {
    let listener = Arc::new(Listener::default());
    let server = Http::start(HttpOptions {
        tap: Some(listener.clone()),
        ..HttpOptions::default()
    })
    .await;
    let session = server.session("2025-03-26").await;
    let id = session[0].strip_prefix("Mcp-Session-Id: ").unwrap();
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "wait", "arguments": {"ms": 1}, "_meta": {"progressToken": "p"}}});
    server
        .post(&session, json!([wait]).to_string().as_bytes())
        .await;
    server.post(&session, b"{not json").await;
    let modern = [
        format!("MCP-Protocol-Version: {MODERN}"),
        "Mcp-Method: tools/list".to_owned(),
    ];
    let list =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta()}});
    server.post(&modern, list.to_string().as_bytes()).await;
    server.post(&modern, list.to_string().as_bytes()).await;

    let (requests, sessions): (Vec<_>, Vec<_>) = listener
        .seen(Direction::ToServer)
        .into_iter()
        .partition(|(channel, _)| channel != id);
    // A batch is seen as it came.
    assert_eq!(
        sessions,
        pairs(
            id,
            &["initialize", "notifications/initialized", "null", "null"]
        )
    );
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].0, requests[1].0);
    let (requests, sessions): (Vec<_>, Vec<_>) = listener
        .seen(Direction::ToClient)
        .into_iter()
        .partition(|(channel, _)| channel != id);
    assert_eq!(
        sessions,
        pairs(id, &["\"init\"", "notifications/progress", "1", "null"])
    );
    assert_eq!(requests.len(), 2);
}
