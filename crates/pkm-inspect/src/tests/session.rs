//! What a message is after those before it.

use serde_json::{Value, json};

use super::*;

#[test]
fn an_answer_belongs_to_one_request() {
    check_session(
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        &["4 answer_to_nobody"],
    );
    check_session(&format!("{ASK}\n{ANSWER}\n{ANSWER}"), &["6 answered_twice"]);
    check_session(
        &format!("{ASK}\n{}", ANSWER.replace(":3,", ":\"3\",")),
        &["5 id_type_changed"],
    );
    check_session(
        &format!("{}\n{ANSWER}", ASK.replace(":3,", ":\"3\",")),
        &["5 id_type_changed"],
    );
    check_session(
        &format!("{ASK}\n{ANSWER}\n{ASK}\n{ANSWER}"),
        &["6 id_reused?"],
    );
    check_session(ASK, &["4 never_answered"]);
    let refusal =
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"id in flight","data":{}}}"#;
    check_session(
        &format!("{ASK}\n{ASK}\n{refusal}\n{ANSWER}"),
        &["5 id_in_flight"],
    );
    check_session(
        &format!("{ASK}\n{ASK}\n{ANSWER}"),
        &["5 id_in_flight", "4 never_answered"],
    );
    // What was not readable has no id to answer to.
    let unreadable =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON","data":{}}}"#;
    check_session(unreadable, &[]);
    check_session(&unreadable.replace("\"id\":null,", ""), &[]);
}

#[test]
fn cancelling_frees_of_waiting() {
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#
        )
    };
    check_session(&format!("{ASK}\n{}", cancel("3")), &[]);
    check_session(
        &format!("{ASK}\n{}\n{ANSWER}", cancel("3")),
        &["6 answered_after_cancel?"],
    );
    check_session(&format!("{ASK}\n{ANSWER}\n{}", cancel("3")), &[]);
    check_session(
        &format!("{ASK}\n{}", cancel("\"3\"")),
        &["5 id_type_changed"],
    );
    check_session(&cancel("9"), &["4 cancel_unknown?"]);
    check_session(&cancel("1.5"), &["4 id_type"]);
    check_session(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        &["4 cancel_unknown?"],
    );
    let initialize = HANDSHAKE.lines().next().unwrap();
    check(
        &format!("{initialize}\n{}", cancel("0")),
        &["2 cancel_initialize"],
    );
}

#[test]
fn the_handshake_comes_first() {
    let error = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"m","data":{}}}"#;
    check(&format!("{ASK}\n{error}"), &["1 before_initialize"]);
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}";
    check(&format!("{ping}\n{HANDSHAKE}"), &[]);
    let lines: Vec<&str> = HANDSHAKE.lines().collect();
    check(
        &format!("{}\n{}\n{ASK}\n{ANSWER}\n{}", lines[0], lines[1], lines[2]),
        &["3 before_initialized?"],
    );
    let early = format!(
        "{}\n{}\n{}",
        json!({"dir": "in", "message": serde_json::from_str::<Value>(lines[0]).unwrap()}),
        json!({"dir": "in", "message": serde_json::from_str::<Value>(lines[2]).unwrap()}),
        json!({"dir": "out", "message": serde_json::from_str::<Value>(lines[1]).unwrap()}),
    );
    check(&early, &["2 initialized_early?"]);
    check_session(HANDSHAKE, &["4 initialize_again?"]);
    check_session("", &[]);
    check(
        &HANDSHAKE.replace("2025-11-25", "2031-01-01"),
        &["1 revision_unknown?", "2 revision_unknown?"],
    );
    check(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        &["1 param_missing", "1 param_missing", "1 never_answered?"],
    );
    let refused = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"m","data":{}}}"#;
    check(
        &format!("{}\n{refused}\n{ASK}\n{ANSWER}", lines[0]),
        &["3 before_initialize"],
    );
}

#[test]
fn a_request_without_handshake_says_what_it_speaks() {
    let discover = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}
{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}},"ttlMs":0,"cacheScope":"private"}}}}
"#
    );
    check(&discover, &[]);
    let list = |params: &str, result: &str| {
        format!(
            "{discover}{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{params}}}\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}\n"
        )
    };
    let good = r#"{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"public"}"#;
    check(&list(&format!("{{{META}}}"), good), &[]);
    check(&list("{}", good), &["3 meta_missing", "3 meta_missing"]);
    check(
        &list(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
            good,
        ),
        &["3 meta_missing"],
    );
    check(
        &list(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}"#,
            good,
        ),
        &["3 meta_type"],
    );
    check(
        &list(&format!("{{{META}}}"), r#"{"tools":[]}"#),
        &["4 result_missing", "4 result_missing", "4 result_missing"],
    );
    check(
        &list(
            &format!("{{{META}}}"),
            r#"{"resultType":"input_required","inputRequests":{}}"#,
        ),
        &[],
    );
    check(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}",
        &["1 meta_missing", "1 meta_missing", "1 never_answered?"],
    );
    let roots = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}
{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#;
    check(
        &format!("{discover}{roots}"),
        &["3 server_request", "3 method_revision"],
    );
    // A client may ask what there is, and then begin the old way.
    check(&format!("{discover}{HANDSHAKE}{TOOLS}"), &[]);
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{{"notifications":{{}},{META}}}}}"#
    );
    check(&format!("{discover}{listen}"), &[]);
}

#[test]
fn a_revision_has_its_own_methods_and_batches() {
    let ask = |method: &str, params: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"{method}\",\"params\":{params}}}\n{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{}}}}"
        )
    };
    let check_in = |revision: &str, lines: &str, expected: &[&str]| {
        check(
            &format!("{}{lines}", HANDSHAKE.replace("2025-11-25", revision)),
            expected,
        );
    };
    check_in("2025-11-25", &ask("tasks/list", "{}"), &[]);
    check_in(
        "2025-06-18",
        &ask("tasks/list", "{}"),
        &["4 method_revision"],
    );
    check_in(
        "2025-11-25",
        &ask("subscriptions/listen", r#"{"notifications":{}}"#),
        &["4 method_revision"],
    );
    check_in(
        "2025-11-25",
        &ask("server/discover", "{}"),
        &["4 method_revision", "5 result_missing", "5 result_missing"],
    );
    check(
        &ask(
            "resources/subscribe",
            &format!(r#"{{"uri":"note://1",{META}}}"#),
        ),
        &["1 method_revision", "2 result_missing"],
    );
    let batch = format!(
        "[{ASK},{}]\n[{ANSWER}]",
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#
    );
    check_in("2025-03-26", &batch, &["4 cancel_unknown?"]);
    check_in(
        "2025-06-18",
        &batch,
        &["4 batch", "4 cancel_unknown?", "5 batch"],
    );
    check_in("2025-03-26", "[]", &["4 batch_empty"]);
    check_in("2025-03-26", "[1]", &["4 not_object"]);
    let initialize = HANDSHAKE.lines().next().unwrap();
    check(
        &format!("[{initialize}]"),
        &["1 batch?", "1 batch_initialize", "1 never_answered?"],
    );
    let field = |log: &str| reports(log)[3].findings[0].field.clone();
    let log = format!(
        "{}{}",
        HANDSHAKE.replace("2025-11-25", "2025-03-26"),
        r#"[{"jsonrpc":"2.0","id":null,"method":"ping"}]"#
    );
    assert_eq!(field(&log).as_deref(), Some("[0].id"));
}

#[test]
fn progress_has_a_token_rises_and_ends_with_the_answer() {
    let ask = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"progressToken":"t"}}}"#;
    let progress = |token: &str, n: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
        )
    };
    let t = |n: &str| progress("\"t\"", n);
    check_session(&format!("{ask}\n{}\n{}\n{ANSWER}", t("0"), t("0.5")), &[]);
    check_session(
        &format!("{ask}\n{}\n{}\n{ANSWER}", t("1"), t("1")),
        &["6 progress_order"],
    );
    check_session(
        &format!("{ask}\n{ANSWER}\n{}", t("1")),
        &["6 progress_late"],
    );
    check_session(
        &format!("{ask}\n{}\n{ANSWER}", progress("5", "1")),
        &["5 progress_token_unknown"],
    );
    check_session(
        &format!("{ask}\n{}\n{ANSWER}", progress("1.5", "\"x\"")),
        &["5 param_type", "5 param_type"],
    );
    check_session(
        &format!("{}\n{ANSWER}", ask.replace("\"t\"", "1.5")),
        &["4 progress_token_type"],
    );
    let other = ask.replace(":3,", ":4,");
    check_session(
        &format!("{ask}\n{other}\n{ANSWER}\n{}", ANSWER.replace(":3,", ":4,")),
        &["5 progress_token_in_use"],
    );
}

#[test]
fn both_sides_may_use_the_same_ids() {
    // The server asks while the client waits; the client answers first.
    let lines = format!(
        "{}\n{}\n{}\n{}",
        call(1, r#"{"name":"t","arguments":{}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
    );
    check_session(&lines, &[]);
    let directions: Vec<_> = reports(&format!("{HANDSHAKE}{lines}"))
        .iter()
        .map(|report| serde_json::to_value(report.direction).unwrap())
        .collect();
    assert_eq!(directions, ["in", "out", "in", "in", "out", "in", "out"]);
    let pings = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}
{"jsonrpc":"2.0","id":0,"result":{}}"#;
    check_session(pings, &[]);
}

#[test]
fn channels_are_followed_by_themselves() {
    let on = |channel: &str, dir: &str, ms: u32, message: &str| {
        let message: Value = serde_json::from_str(message).unwrap();
        json!({"at": format!("2026-11-30T09:00:00.{ms:03}Z"), "dir": dir, "channel": channel, "message": message}).to_string()
    };
    let lines: Vec<&str> = HANDSHAKE.lines().collect();
    let mut log = Vec::new();
    for channel in ["a", "b"] {
        log.push(on(channel, "in", 1, lines[0]));
        log.push(on(channel, "out", 13, lines[1]));
        log.push(on(channel, "in", 14, lines[2]));
    }
    log.push(on("a", "in", 20, ASK));
    log.push(on("b", "in", 21, ASK));
    log.push(on("b", "out", 29, ANSWER));
    log.push(on("b", "out", 30, ANSWER));
    let reports = reports(&log.join("\n"));
    assert_eq!(found(&reports), ["10 answered_twice", "7 never_answered"]);
    let whats: Vec<&str> = reports.iter().map(|report| report.what.as_str()).collect();
    assert_eq!(whats[0], "request initialize id 0");
    assert_eq!(whats[1], "answer to 0 initialize after 12 ms");
    assert_eq!(whats[2], "notification notifications/initialized");
    assert_eq!(whats[8], "answer to 3 tools/list after 8 ms");
    assert_eq!(reports[10].channel.as_deref(), Some("a"));
}
