//! Calls of tools, and what they answer.

use serde_json::{Value, json};

use super::*;

#[test]
fn arguments_belong_into_arguments() {
    let check = |params: &str, expected: &[&str]| check_tools(&answered(params), expected);
    check(
        r#"{"name":"search_notes","query":"x"}"#,
        &["6 arguments_place"],
    );
    check(
        r#"{"name":"search_notes","query":"x","arguments":{}}"#,
        &["6 arguments_place"],
    );
    check(
        r#"{"name":"search_notes","limit":5,"arguments":{"query":"x"}}"#,
        &["6 arguments_place"],
    );
    check(
        r#"{"name":"search_notes","trace":5,"arguments":{"query":"x"}}"#,
        &["6 param_unknown?"],
    );
    check(
        r#"{"name":"search_notes","input":{"query":"x"}}"#,
        &["6 arguments_name"],
    );
    check(
        r#"{"name":"search_notes","arguments":[]}"#,
        &["6 arguments_type"],
    );
    check(
        r#"{"name":"search_notes","arguments":"{\"query\":\"x\"}"}"#,
        &["6 arguments_type"],
    );
    // Without a list of tools, too.
    let lines = answered(r#"{"name":"anything","query":"x"}"#);
    check_session(&lines, &["4 arguments_place"]);
}

#[test]
fn arguments_are_held_against_the_schema_that_the_log_lists() {
    let check = |params: &str, expected: &[(&str, &str)]| {
        let log = format!("{HANDSHAKE}{TOOLS}{}", answered(params));
        let findings: Vec<(String, String)> = reports(&log)
            .iter()
            .flat_map(|report| &report.findings)
            .map(|f| (f.field.clone().unwrap_or_default(), f.reason.clone()))
            .collect();
        let found: Vec<(&str, &str)> = findings
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(found, expected, "{params}");
    };
    check(
        r#"{"name":"search_notes","arguments":{}}"#,
        &[("params.arguments.query", "is required")],
    );
    check(
        r#"{"name":"search_notes"}"#,
        &[("params.arguments.query", "is required")],
    );
    check(
        r#"{"name":"search_notes","arguments":{"query":"x","limit":500}}"#,
        &[(
            "params.arguments.limit",
            "500 is greater than the maximum of 50",
        )],
    );
    check(
        r#"{"name":"search_notes","arguments":{"query":5,"limt":1}}"#,
        &[
            ("params.arguments.query", "5 is not of type \"string\""),
            ("params.arguments", "has no `limt`"),
        ],
    );
    check(
        r#"{"name":"search_note","arguments":{}}"#,
        &[("params.name", "there is no tool `search_note`")],
    );
    check(r#"{"name":"index_status","arguments":{"anything":1}}"#, &[]);
}

#[test]
fn known_tools_serve_until_the_log_lists_its_own() {
    let tools = || {
        KnownTools::from_definitions(&[
            json!({"name": "t", "inputSchema": {"type": "object", "required": ["a"]}}),
            json!({"name": "broken", "inputSchema": {"type": "nothing"}}),
            json!("no tool"),
        ])
    };
    let log = format!("{HANDSHAKE}{}", answered(r#"{"name":"t","arguments":{}}"#));
    assert_eq!(
        found(&reports_with(tools(), log.as_bytes())),
        ["4 arguments_schema"]
    );
    let log = format!(
        "{HANDSHAKE}{TOOLS}{}",
        answered(r#"{"name":"t","arguments":{}}"#)
    );
    assert_eq!(
        found(&reports_with(tools(), log.as_bytes())),
        ["6 tool_unknown"]
    );
}

#[test]
fn a_list_in_pages_is_whole_with_its_last_page() {
    let page = |id: u64, cursor: Option<&str>, tool: &str, next: Option<&str>| {
        let definition = json!({"name": tool, "inputSchema": {"type": "object"}});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"cursor": cursor}});
        let mut answer = json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [definition]}});
        if let Some(next) = next {
            answer["result"]["nextCursor"] = next.into();
        }
        format!("{request}\n{answer}\n")
    };
    let pages = page(1, None, "a", Some("2")) + &page(2, Some("2"), "b", None);
    check_session(&format!("{pages}{}", answered(r#"{"name":"a"}"#)), &[]);
    check_session(
        &format!("{pages}{}", answered(r#"{"name":"xyz"}"#)),
        &["8 tool_unknown"],
    );
    let first = page(1, None, "a", Some("2"));
    check_session(&format!("{first}{}", answered(r#"{"name":"xyz"}"#)), &[]);
}

#[test]
fn a_list_of_tools_is_checked_itself() {
    let list = |tools: &str| {
        format!("{ASK}\n{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"tools\":{tools}}}}}")
    };
    check_session(
        &list(r#"[{"inputSchema":{"type":"object"}}]"#),
        &["5 tool_definition"],
    );
    check_session(&list(r#"[{"name":"a"}]"#), &["5 tool_schema"]);
    check_session(
        &list(r#"[{"name":"a","inputSchema":{"type":"strin"}}]"#),
        &["5 tool_schema", "5 tool_schema"],
    );
    check_session(
        &list(r#"[{"name":"a","inputSchema":{"type":"object","$ref":"https://example.com/x"}}]"#),
        &["5 tool_schema"],
    );
    let a = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
    check_session(&list(&format!("[{a},{a}]")), &["5 tool_definition"]);
    check_session(&list(r#"{"a":1}"#), &["5 result_type"]);
    check_session(
        &format!("{ASK}\n{}", r#"{"jsonrpc":"2.0","id":3,"result":{}}"#),
        &["5 result_missing"],
    );
}

#[test]
fn a_result_is_held_against_the_output_schema() {
    let check = |result: &str, expected: &[&str]| {
        let call = call(7, r#"{"name":"search_notes","arguments":{"query":"x"}}"#);
        check_tools(
            &format!("{call}\n{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{result}}}"),
            expected,
        );
    };
    check(r#"{"content":[],"structuredContent":{"matches":[]}}"#, &[]);
    check(
        r#"{"content":[],"structuredContent":{"matches":5}}"#,
        &["7 output_schema"],
    );
    check(
        r#"{"content":[],"structuredContent":{}}"#,
        &["7 output_schema"],
    );
    check(r#"{"content":[]}"#, &["7 output_missing"]);
    check(r#"{"content":[],"isError":true}"#, &[]);
    check(
        r#"{"structuredContent":{"matches":[]}}"#,
        &["7 result_missing"],
    );
}

#[test]
fn hidden_texts_break_no_schema() {
    let tools = json!([{"name": "t", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string", "maxLength": 3, "pattern": "^a", "enum": ["a"]},
        "tags": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
        "either": {"anyOf": [{"const": "x"}, {"const": "y"}]},
        "n": {"type": "integer", "maximum": 5},
    }, "required": ["q"]}}]);
    let tools = || KnownTools::from_definitions(tools.as_array().unwrap());
    let check = |arguments: Value, expected: &[&str]| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": arguments}});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}});
        let log = format!(
            "{HANDSHAKE}{}\n{answer}",
            json!({"dir": "in", "channel": "", "redacted": true, "message": message})
        );
        assert_eq!(found(&reports_with(tools(), log.as_bytes())), expected);
    };
    check(
        json!({"q": "[40 chars]", "tags": ["[1 chars]", "[1 chars]"], "either": "[1 chars]"}),
        &[],
    );
    check(
        json!({"q": 5, "n": 7}),
        &["4 arguments_schema", "4 arguments_schema"],
    );
    check(json!({}), &["4 arguments_schema"]);
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let tools = KnownTools::from_definitions(&[
        json!({"name": "t", "inputSchema": {"type": "object", "$ref": "#"}}),
        json!({"name": "u", "inputSchema": {"type": "object", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}}),
    ]);
    let calls = [
        answered(r#"{"name":"t","arguments":{"a":{}}}"#),
        answered(r#"{"name":"u","arguments":{}}"#).replace(":7,", ":8,"),
    ]
    .join("\n");
    let log = format!("{HANDSHAKE}{calls}");
    assert_eq!(reports_with(tools, log.as_bytes()).len(), 7);
}
