//! One message by itself.

use serde_json::json;

use super::*;

#[test]
fn a_clean_session_has_no_findings() {
    check_tools(
        &answered(r#"{"name":"search_notes","arguments":{"query":"김치","limit":5}}"#),
        &[],
    );
    check("\n  \r\n", &[]);
    check(&format!("\u{feff}{HANDSHAKE}"), &[]);
    // One direction by itself is no mistake, however much is missing.
    let lines: Vec<&str> = HANDSHAKE.lines().chain(TOOLS.lines()).collect();
    let client = format!("{}\n{}\n{}", lines[0], lines[2], lines[3]);
    check(&client, &["1 never_answered?"]);
    check(
        &format!("{}\n{}", lines[1], lines[4]),
        &["1 answer_to_nobody?", "2 answer_to_nobody?"],
    );
}

#[test]
fn what_is_no_json_is_told_with_a_hint() {
    let check = |line: &str, hint: &str| {
        let reports = reports(line);
        assert_eq!(found(&reports)[0], "1 not_json", "{line}");
        let finding = &reports[0].findings[0];
        assert!(
            finding.hint.as_deref().unwrap_or_default().contains(hint),
            "{finding:?}"
        );
    };
    check("Server started on stdio", "logs go to stderr");
    check("Content-Length: 120\r", "no `Content-Length` headers");
    check("{\n", "one line");
    check("{\"jsonrpc\":\"2.0\",", "one line");
    check("{'jsonrpc': '2.0'}", "");
    check("{\"a\":\"\\ud800\"}", "");
    let reports = reports_with(KnownTools::default(), b"{\"a\":\"\xff\"}");
    assert_eq!(
        reports[0].findings[0].reason,
        "it is no JSON: it is not UTF-8 from byte 7 on"
    );
    assert_eq!(
        found(&reports_with(KnownTools::default(), b"3\n\"x\"")),
        ["1 not_object", "2 not_object"]
    );
    check_session("null", &["4 not_object"]);
}

#[test]
fn the_envelope_is_checked() {
    check_session(
        r#"{"id":3,"method":"ping"}
{"jsonrpc":"1.0","id":3,"result":{}}"#,
        &["4 jsonrpc_missing", "5 jsonrpc_version"],
    );
    check_session(
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        &["4 id_missing"],
    );
    check_session(
        r#"{"jsonrpc":"2.0","id":9,"method":"notifications/initialized"}"#,
        &["4 notification_id"],
    );
    check_session(
        r#"{"jsonrpc":"2.0","id":9,"method":"notifications/mine"}"#,
        &["4 notification_id", "4 method_unknown?"],
    );
    check_session(r#"{"jsonrpc":"2.0","id":9,"method":5}"#, &["4 method_type"]);
    check_session(r#"{"jsonrpc":"2.0"}"#, &["4 empty"]);
    check_session(
        &format!("{ASK}\n{}", r#"{"jsonrpc":"2.0","id":3}"#),
        &["5 empty"],
    );
    check_session(
        &format!(
            "{ASK}\n{}",
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]},"error":{"code":1,"message":"m","data":1}}"#
        ),
        &["5 result_and_error"],
    );
    check_session(
        &format!(
            "{}\n{ANSWER}",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","result":{}}"#
        ),
        &["4 method_and_answer"],
    );
    check_session(
        &format!(
            "{}\n{ANSWER}",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":[]}"#
        ),
        &["4 params_type"],
    );
    check_session(
        &format!(
            "{}\n{ANSWER}",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":5}}"#
        ),
        &["4 meta_type"],
    );
    check_session(
        &format!("{ASK}\n{}", r#"{"jsonrpc":"2.0","id":3,"result":[]}"#),
        &["5 result_type"],
    );
    check_session(r#"{"jsonrpc":"2.0","result":{}}"#, &["4 answer_id"]);
}

#[test]
fn an_id_is_a_string_or_an_integer() {
    let request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    for id in ["null", "1.5", "{}", "[1]", "true", "1e300"] {
        check_session(&request(id), &["4 id_type"]);
    }
    for (asked, answered) in [
        ("\"\"", "\"\""),
        ("1.0", "1"),
        ("18446744073709551615", "18446744073709551615"),
        ("-1", "-1"),
    ] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}"#);
        check_session(&format!("{}\n{answer}", request(asked)), &[]);
    }
    check_session(
        &format!("{ASK}\n{}", r#"{"jsonrpc":"2.0","id":null,"result":{}}"#),
        &["5 id_type", "4 never_answered"],
    );
}

#[test]
fn an_error_says_code_message_and_data() {
    let error = |error: &str| format!("{ASK}\n{{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{error}}}");
    check_session(
        &error(r#"{"code":-32602,"message":"m","data":{"field":"x"}}"#),
        &[],
    );
    check_session(
        &error(r#"{"code":-32602,"message":"m"}"#),
        &["5 error_data?"],
    );
    check_session(&error(r#"{"message":"m","data":1}"#), &["5 error_code"]);
    check_session(
        &error(r#"{"code":"-32602","data":1}"#),
        &["5 error_code", "5 error_message"],
    );
    check_session(
        &error(r#"{"code":1.5,"message":7,"data":1}"#),
        &["5 error_code", "5 error_message"],
    );
    check_session(&error(r#""broken""#), &["5 error_type"]);
}

#[test]
fn a_method_is_known_spelt_right_and_sent_by_the_right_side() {
    let request = |method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"{method}"}}
{{"jsonrpc":"2.0","id":3,"error":{{"code":-32601,"message":"m","data":{{}}}}}}"#
        )
    };
    check_session(&request("tool/list"), &["4 method_unknown"]);
    check_session(&request("listTools"), &["4 method_unknown"]);
    check_session(&request("x/y"), &["4 method_unknown?"]);
    let hint = |reports: &[Report]| reports[0].findings[0].hint.clone().unwrap_or_default();
    assert_eq!(
        hint(&reports(&request("tools/lst"))),
        "did you mean `tools/list`?"
    );
    let marked = |dir: &str, method: &str| {
        json!({"dir": dir, "message": {"jsonrpc": "2.0", "method": method}}).to_string()
    };
    check(
        &marked("in", "notifications/tools/list_changed"),
        &["1 method_direction"],
    );
    check(
        &marked("out", "notifications/initialized"),
        &["1 method_direction"],
    );
    // With direction in mind: a client tells that its roots changed, a server that its tools did.
    let meant = |dir: &str| hint(&reports(&marked(dir, "notifications/ools/list_changed")));
    assert_eq!(
        meant("out"),
        "did you mean `notifications/tools/list_changed`?"
    );
    assert_eq!(
        meant("in"),
        "did you mean `notifications/roots/list_changed`?"
    );
}

#[test]
fn a_method_gets_the_parameters_it_needs() {
    let error =
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32602,\"message\":\"m\",\"data\":{}}}";
    let check = |method: &str, params: &str, expected: &[&str]| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
        check_session(&format!("{line}\n{error}"), expected);
    };
    check("tools/call", r#"{"arguments":{}}"#, &["4 param_missing"]);
    check(
        "tools/call",
        r#"{"name":5,"arguments":{}}"#,
        &["4 param_type"],
    );
    check("resources/read", r#"{"uri":"note://1"}"#, &[]);
    check("resources/read", "{}", &["4 param_missing"]);
    check(
        "completion/complete",
        r#"{"ref":{},"argument":"x"}"#,
        &["4 param_type"],
    );
}

#[test]
fn a_message_is_described_in_a_line() {
    let check = |line: &str, what: &str| {
        let reports = reports(&format!("{HANDSHAKE}{ASK}\n{line}"));
        assert_eq!(reports[4].what, what);
    };
    check(
        &call(4, r#"{"name":"search_notes"}"#),
        "request tools/call search_notes id 4",
    );
    check(
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        "request tools/list without id",
    );
    check(
        r#"{"jsonrpc":"2.0","id":"한","method":"ping"}"#,
        "request ping id \"한\"",
    );
    check(
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        "request ping id {\"a\":1}",
    );
    check(
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}"#,
        "error answer to 3 tools/list -32602 \"no\"",
    );
    check(
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
        "error answer to what could not be read -32700 \"no\"",
    );
    check(
        r#"{"jsonrpc":"2.0","id":3,"result":{"isError":true}}"#,
        "answer to 3 tools/list (a tool error)",
    );
    check(&format!("[{ANSWER}]"), "batch of 1: answer to 3 tools/list");
    check("oops", "text: oops");
    check("{}", "message without id");
    check("7", "the JSON value 7");
}
