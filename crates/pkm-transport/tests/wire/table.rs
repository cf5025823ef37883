//! The table: one row for each kind of input.

use pkm_transport::{StdioOptions, http::HttpOptions};
use serde_json::{Value, json};

use crate::support::{
    Answer, Http, LEGACY, MODERN, answer_of, handshake, lines, meta, on_stdio, sorted,
};

/// Input and what must be said to it.
struct Row {
    name: &'static str,
    input: Vec<u8>,
    /// The method that an HTTP client of the newest revision names in its headers, and the name.
    method: &'static str,
    target: &'static str,
    /// Answers in the revisions with a handshake, and the status over HTTP.
    legacy: (Vec<Answer>, u16),
    /// The same without a handshake; there the input is completed by the required `_meta`.
    modern: (Vec<Answer>, u16),
}

const PARSE: i64 = -32_700;
const INVALID: i64 = -32_600;
const UNKNOWN: i64 = -32_601;
const PARAMS: i64 = -32_602;
const HEADERS: i64 = -32_020;

/// Bytes that are refused in the same way everywhere.
fn raw(name: &'static str, input: impl Into<Vec<u8>>, id: Value, code: i64) -> Row {
    Row {
        name,
        input: input.into(),
        method: "ping",
        target: "",
        legacy: (vec![(id.clone(), code)], 400),
        modern: (vec![(id, code)], 400),
    }
}

/// A request with id 7 and some parameters.
fn request(
    name: &'static str,
    method: &'static str,
    params: Value,
    legacy: (i64, u16),
    modern: (i64, u16),
) -> Row {
    let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": method});
    if !params.is_null() {
        message["params"] = params;
    }
    Row {
        name,
        input: message.to_string().into(),
        method,
        target: "",
        legacy: (vec![(json!(7), legacy.0)], legacy.1),
        modern: (vec![(json!(7), modern.0)], modern.1),
    }
}

fn rows() -> Vec<Row> {
    let null = Value::Null;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let mut rows = vec![
        raw("malformed JSON", "{not json", null.clone(), PARSE),
        raw("garbage", "\u{1}\u{2}<html>", null.clone(), PARSE),
        raw(
            "invalid UTF-8",
            b"\"\xff\xfe\"".as_slice(),
            null.clone(),
            PARSE,
        ),
        raw(
            "half a surrogate pair",
            r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
            null.clone(),
            PARSE,
        ),
        raw("nesting", deep, null.clone(), PARSE),
        raw("a number", "5", null.clone(), INVALID),
        raw("an empty batch", "[]", null.clone(), INVALID),
        raw(
            "no jsonrpc",
            r#"{"id":7,"method":"ping"}"#,
            json!(7),
            INVALID,
        ),
        raw(
            "jsonrpc 1.0",
            r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
            json!("a"),
            INVALID,
        ),
        raw(
            "id null",
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            null.clone(),
            INVALID,
        ),
        raw(
            "id 1.5",
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            null.clone(),
            INVALID,
        ),
        raw(
            "id true",
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            null.clone(),
            INVALID,
        ),
        raw(
            "id {}",
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            null.clone(),
            INVALID,
        ),
        raw(
            "id 2^63",
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#,
            null.clone(),
            INVALID,
        ),
        raw(
            "method 5",
            r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
            json!(7),
            INVALID,
        ),
        raw(
            "no method",
            r#"{"jsonrpc":"2.0","id":7}"#,
            json!(7),
            INVALID,
        ),
        raw(
            "result and error",
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}"#,
            json!(7),
            INVALID,
        ),
        raw(
            "method and result",
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#,
            json!(7),
            INVALID,
        ),
        raw(
            "a notification with an id",
            r#"{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}"#,
            json!(7),
            INVALID,
        ),
        request(
            "an unknown method",
            "no/such",
            json!({}),
            (UNKNOWN, 200),
            (UNKNOWN, 404),
        ),
        request(
            "an unknown method with a list",
            "no/such",
            json!([1]),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "params a string",
            "tools/list",
            json!("x"),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "_meta a string",
            "tools/list",
            json!({"_meta": "x"}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "cursor 5",
            "tools/list",
            json!({"cursor": 5}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "name 5",
            "tools/call",
            json!({"name": 5}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "no name",
            "tools/call",
            json!({}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "arguments []",
            "tools/call",
            json!({"name": "echo", "arguments": []}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "uri 5",
            "resources/read",
            json!({"uri": 5}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "no ref",
            "completion/complete",
            json!({"argument": {"name": "a", "value": ""}}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "prompt without a name",
            "prompts/get",
            json!({"arguments": {}}),
            (PARAMS, 200),
            (PARAMS, 400),
        ),
        request(
            "subscribe to 5",
            "resources/subscribe",
            json!({"uri": 5}),
            (PARAMS, 200),
            (UNKNOWN, 404),
        ),
        request(
            "a level 5",
            "logging/setLevel",
            json!({"level": 5}),
            (PARAMS, 200),
            (UNKNOWN, 404),
        ),
        request("ping", "ping", json!({}), (0, 200), (UNKNOWN, 404)),
        request(
            "a task of a client that declares none",
            "tasks/get",
            json!({"taskId": "1"}),
            (UNKNOWN, 200),
            (-32_021, 400),
        ),
        request(
            "an unknown tool",
            "tools/call",
            json!({"name": "nope"}),
            (PARAMS, 200),
            (PARAMS, 200),
        ),
        request(
            "a tool that panics",
            "tools/call",
            json!({"name": "boom"}),
            (-32_603, 200),
            (-32_603, 200),
        ),
        request(
            "a tool",
            "tools/call",
            json!({"name": "echo", "arguments": {"a": "한"}}),
            (0, 200),
            (0, 200),
        ),
        request("a list", "tools/list", Value::Null, (0, 200), (0, 200)),
        Row {
            name: "an id that is an empty string",
            input: r#"{"jsonrpc":"2.0","id":"","method":"tools/list"}"#.into(),
            method: "tools/list",
            target: "",
            legacy: (vec![(json!(""), 0)], 200),
            modern: (vec![(json!(""), 0)], 200),
        },
        Row {
            name: "a request without an id",
            input: r#"{"jsonrpc":"2.0","method":"tools/list"}"#.into(),
            method: "tools/list",
            target: "",
            legacy: (vec![], 202),
            modern: (vec![], 202),
        },
        Row {
            name: "an unknown notification",
            input: r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#.into(),
            method: "notifications/unknown",
            target: "",
            legacy: (vec![], 202),
            modern: (vec![], 202),
        },
        Row {
            name: "a byte order mark",
            input: "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}".into(),
            method: "tools/list",
            target: "",
            legacy: (vec![(json!(7), 0)], 200),
            modern: (vec![(json!(7), 0)], 200),
        },
    ];
    for row in &mut rows {
        row.target = match row.name {
            "an unknown tool" => "nope",
            "a task of a client that declares none" => "1",
            "a tool that panics" => "boom",
            "a tool" | "arguments []" => "echo",
            _ => "",
        };
    }
    rows
}

/// The input with the `_meta` that its revision demands, where there is a place for it.
fn completed(input: &[u8]) -> Vec<u8> {
    let bare = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let Ok(Value::Object(mut message)) = serde_json::from_slice::<Value>(bare) else {
        return input.to_vec();
    };
    let is_request = message.contains_key("id") && message.contains_key("method");
    let params = message.entry("params").or_insert_with(|| json!({}));
    if !is_request || !params.is_object() || params.get("_meta").is_some() {
        return input.to_vec();
    }
    params["_meta"] = meta();
    let text = Value::Object(message).to_string();
    [&input[..input.len() - bare.len()], text.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_input_over_stdio() {
    for row in rows() {
        for revision in LEGACY {
            let mut input = lines(&handshake(revision));
            input.extend_from_slice(&row.input);
            input.push(b'\n');
            let said = on_stdio(&input, StdioOptions::default()).await;
            let answers: Vec<_> = said.iter().filter_map(answer_of).collect();
            let (handshakes, answers): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|(id, _)| id == "init");
            assert_eq!(handshakes.len(), 1);
            assert_eq!(sorted(answers), row.legacy.0, "{} in {revision}", row.name);
        }
        let mut input = completed(&row.input);
        input.push(b'\n');
        let said = on_stdio(&input, StdioOptions::default()).await;
        let answers = sorted(said.iter().filter_map(answer_of).collect());
        assert_eq!(answers, row.modern.0, "{} in {MODERN}", row.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_input_over_http() {
    let server = Http::start(HttpOptions::default()).await;
    for row in rows() {
        for revision in LEGACY {
            let session = server.session(revision).await;
            let reply = server.post(&session, &row.input).await;
            assert_eq!(
                (reply.answers(), reply.status),
                row.legacy,
                "{} in {revision}: {reply:?}",
                row.name
            );
        }
        let mut headers = vec![
            format!("MCP-Protocol-Version: {MODERN}"),
            format!("Mcp-Method: {}", row.method),
        ];
        if !row.target.is_empty() {
            headers.push(format!("Mcp-Name: {}", row.target));
        }
        let reply = server.post(&headers, &completed(&row.input)).await;
        assert_eq!(
            (reply.answers(), reply.status),
            row.modern,
            "{} in {MODERN}: {reply:?}",
            row.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_the_newest_revision_must_agree_with_the_body() {
    let server = Http::start(HttpOptions::default()).await;
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "echo", "_meta": meta()}});
    let version = format!("MCP-Protocol-Version: {MODERN}");
    let method = "Mcp-Method: tools/call".to_owned();
    let name = "Mcp-Name: echo".to_owned();
    for headers in [
        vec![version.clone(), name.clone()],
        vec![version.clone(), method.clone()],
        vec![version.clone(), method.clone(), "Mcp-Name: boom".to_owned()],
        vec![
            version.clone(),
            "Mcp-Method: tools/list".to_owned(),
            name.clone(),
        ],
        vec![
            version.clone(),
            method.clone(),
            "Mcp-Name: =?base64?%%?=".to_owned(),
        ],
        vec![method.clone(), name.clone()],
    ] {
        let reply = server.post(&headers, call.to_string().as_bytes()).await;
        assert_eq!(
            (reply.answers(), reply.status),
            (vec![(json!(7), HEADERS)], 400),
            "{headers:?}"
        );
    }
    let encoded = "Mcp-Name: =?base64?ZWNobw==?=".to_owned();
    let headers = [version, method, encoded];
    let reply = server.post(&headers, call.to_string().as_bytes()).await;
    assert_eq!((reply.answers(), reply.status), (vec![(json!(7), 0)], 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_is_not_served_is_refused_with_those_that_are() {
    // Without a handshake, by the code that the revision has for it.
    let mut request =
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta()}});
    request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let mut input = request.to_string().into_bytes();
    input.push(b'\n');
    let said = on_stdio(&input, StdioOptions::default()).await;
    assert_eq!(said[0]["error"]["code"], -32_022, "{said:?}");
    assert_eq!(
        said[0]["error"]["data"]["supported"],
        json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
    );
    let server = Http::start(HttpOptions::default()).await;
    let headers = [
        "MCP-Protocol-Version: 2099-01-01".to_owned(),
        "Mcp-Method: tools/list".to_owned(),
    ];
    let reply = server.post(&headers, request.to_string().as_bytes()).await;
    assert_eq!(
        (reply.answers(), reply.status),
        (vec![(json!(7), -32_022)], 400)
    );

    // In a session, as an invalid request.
    let session = server.session("2025-11-25").await;
    for (named, words) in [
        ("1900-01-01", "is not served"),
        ("2025-06-18", "must be 2025-11-25"),
    ] {
        let headers = [session[0].clone(), format!("MCP-Protocol-Version: {named}")];
        let body = br#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        let reply = server.post(&headers, body).await;
        assert_eq!(
            (reply.answers(), reply.status),
            (vec![(json!(7), INVALID)], 400)
        );
        let reason = reply.messages()[0]["error"]["data"]["reason"].clone();
        assert!(reason.as_str().unwrap().starts_with(words), "{reason}");
    }

    // A handshake with an unknown revision is offered one that is served.
    let said = on_stdio(&lines(&handshake("2024-11-05")), StdioOptions::default()).await;
    assert_eq!(said[0]["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_newest_revision_requires_in_meta_is_required() {
    for key in ["protocolVersion", "clientCapabilities"] {
        let mut request =
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta()}});
        let meta = request["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{key}"));
        let mut input = request.to_string().into_bytes();
        input.push(b'\n');
        let said = on_stdio(&input, StdioOptions::default()).await;
        assert_eq!(answer_of(&said[0]), Some((json!(7), PARAMS)), "{key}");

        let server = Http::start(HttpOptions::default()).await;
        let headers = [
            format!("MCP-Protocol-Version: {MODERN}"),
            "Mcp-Method: tools/list".to_owned(),
        ];
        let reply = server.post(&headers, request.to_string().as_bytes()).await;
        assert_eq!(
            (reply.answers(), reply.status),
            (vec![(json!(7), PARAMS)], 400),
            "{key}"
        );
    }
}
