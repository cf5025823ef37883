//! What a result must hold.

use serde_json::{Map, Value};

use crate::calls::Call;
use crate::finding::Finding;
use crate::names;

/// Results that say for how long, and for whom, they may be kept.
const CACHED: &[&str] = &[
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Whether a result is the answer itself, and no question back and no promise of one.
pub(crate) fn is_complete(result: &Map<String, Value>) -> bool {
    match result.get("resultType") {
        Some(kind) => kind == "complete",
        // What a request that asked for a task gets in 2025-11-25.
        None => !result.contains_key("task"),
    }
}

/// Checks the fields of the result of `call`.
pub(crate) fn check(call: &Call, result: &Map<String, Value>, findings: &mut Vec<Finding>) {
    let missing = |field: &str| {
        Finding::error(
            "result_missing",
            format!("a result of `{}` needs `{field}`", call.method),
        )
        .at(format!("result.{field}"))
    };
    if call.is_modern && !result.get("resultType").is_some_and(Value::is_string) {
        findings.push(missing("resultType"));
    }
    if !is_complete(result) {
        return;
    }
    for method in names::find(&call.method) {
        for (field, shape) in method.result {
            match result.get(*field) {
                None => findings.push(missing(field)),
                Some(value) if !shape.fits(value) => findings.push(
                    Finding::error("result_type", format!("must be {}", shape.name()))
                        .at(format!("result.{field}")),
                ),
                Some(_) => {}
            }
        }
    }
    if call.is_modern && CACHED.contains(&call.method.as_str()) {
        if !result.get("ttlMs").is_some_and(Value::is_u64) {
            findings.push(missing("ttlMs"));
        }
        let scope = result.get("cacheScope").and_then(Value::as_str);
        if !matches!(scope, Some("public" | "private")) {
            findings.push(missing("cacheScope").hint("`public` or `private`"));
        }
    }
}

/// The method whose result this seems to be, for an answer to a request that was not seen.
pub(crate) fn guess(result: &Map<String, Value>) -> Option<&'static str> {
    ["initialize", "tools/list"].into_iter().find(|name| {
        names::find(name).any(|method| {
            let is_there = |(field, shape): &(&str, names::Shape)| {
                result.get(*field).is_some_and(|value| shape.fits(value))
            };
            method.result.iter().all(is_there)
        })
    })
}
