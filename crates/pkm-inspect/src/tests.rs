//! Every item of the checklist: lines of a log, and what is found in them.

mod envelope;
mod session;
mod tools;

use std::convert::Infallible;

use proptest::prelude::*;
use serde_json::Value;

use crate::{Entry, Inspector, KnownTools, Report, Severity, Splitter};

/// A handshake that agrees on 2025-11-25; three lines.
const HANDSHAKE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

/// A list of two tools; two lines.
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":"l","method":"tools/list"}
{"jsonrpc":"2.0","id":"l","result":{"tools":[{"name":"search_notes","inputSchema":{"type":"object","properties":{"query":{"type":"string","minLength":1},"limit":{"type":"integer","maximum":50}},"required":["query"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"matches":{"type":"array"}},"required":["matches"]}},{"name":"index_status","inputSchema":{"type":"object"}}]}}
"#;

/// `_meta` of 2026-07-28.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn reports_with(tools: KnownTools, log: &[u8]) -> Vec<Report> {
    let mut inspector = Inspector::new(tools);
    let (mut splitter, mut n_lines, mut reports) = (Splitter::default(), 0, Vec::new());
    let mut take = |line: crate::Line<'_>| {
        n_lines += 1;
        if let Some(entry) = Entry::read(n_lines, line) {
            reports.push(inspector.message(&entry));
        }
        Ok::<(), Infallible>(())
    };
    splitter.push(log, &mut take).unwrap();
    splitter.finish(&mut take).unwrap();
    reports.extend(inspector.finish());
    reports
}

fn reports(log: &str) -> Vec<Report> {
    reports_with(KnownTools::default(), log.as_bytes())
}

/// `4 id_missing`, and with a question mark what is a warning only.
fn found(reports: &[Report]) -> Vec<String> {
    let tell = |report: &Report| {
        let line = report.line;
        let mark = |severity| match severity {
            Severity::Error => "",
            Severity::Warning => "?",
        };
        let tell = move |f: &crate::Finding| format!("{line} {}{}", f.code, mark(f.severity));
        report.findings.iter().map(tell).collect::<Vec<_>>()
    };
    reports.iter().flat_map(tell).collect()
}

/// What is found in `lines`, and nothing else.
fn check(lines: &str, expected: &[&str]) {
    assert_eq!(found(&reports(lines)), expected, "{lines}");
}

/// The same behind a handshake; `lines` begin with line 4.
fn check_session(lines: &str, expected: &[&str]) {
    check(&format!("{HANDSHAKE}{lines}"), expected);
}

/// The same behind a list of tools; `lines` begin with line 6.
fn check_tools(lines: &str, expected: &[&str]) {
    check_session(&format!("{TOOLS}{lines}"), expected);
}

fn call(id: u64, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// A call of a tool and its answer; the call is line 6 behind a list of tools.
fn answered(params: &str) -> String {
    let result = r#"{"content":[],"structuredContent":{"matches":[]}}"#;
    format!(
        "{}\n{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{result}}}",
        call(7, params)
    )
}

const ASK: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#;

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z가-힣\\\\\"/ ]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "2.0",
            "initialize",
            "tools/list",
            "tools/call",
            "t",
            "in",
            "out",
            "2025-11-25",
            "notifications/progress",
            "notifications/cancelled",
            "object"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let key = prop::sample::select(vec![
            "jsonrpc",
            "id",
            "method",
            "params",
            "result",
            "error",
            "code",
            "message",
            "data",
            "name",
            "arguments",
            "_meta",
            "progressToken",
            "progress",
            "requestId",
            "tools",
            "inputSchema",
            "outputSchema",
            "type",
            "properties",
            "$ref",
            "structuredContent",
            "protocolVersion",
            "capabilities",
            "serverInfo",
            "dir",
            "at",
            "channel",
            "raw",
            "redacted",
            "n_bytes",
            "비밀",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..7).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(lines in prop::collection::vec(any::<u8>(), 0..400)) {
        reports_with(KnownTools::default(), &lines);
    }

    #[test]
    fn no_messages_bring_it_down(values in prop::collection::vec(json_value(), 0..12)) {
        let log: Vec<String> = values.iter().map(Value::to_string).collect();
        let reports = reports_with(KnownTools::default(), log.join("\n").as_bytes());
        prop_assert!(reports.len() >= values.len());
        for mut value in values {
            crate::redact::message(&mut value, crate::Redaction::NoteText);
        }
    }
}
