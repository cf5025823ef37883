//! One line as a message, or what to say to a line that is none.

use rmcp::model::{ClientJsonRpcMessage, ErrorData, NumberOrString, RequestId};
use serde_json::{Value, json};

use crate::wire::invalid_params;

/// A line that is no message, and what to say to it.
pub(super) struct Unreadable {
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

/// Reads one line; `None` for a blank one and for a notification that makes no sense.
pub(super) fn read(bytes: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Box<Unreadable>> {
    let bytes = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii();
    if bytes.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let data = json!({"reason": error.to_string(), "retryable": false});
        let error = ErrorData::parse_error("the message is no JSON", Some(data));
        Box::new(Unreadable { id: None, error })
    })?;
    let Value::Object(object) = &value else {
        return Err(invalid(
            None,
            "message",
            "must be one JSON object; batches are not taken",
        ));
    };
    let id = match object.get("id") {
        None => None,
        Some(Value::String(id)) => Some(NumberOrString::String(id.as_str().into())),
        Some(Value::Number(number)) if number.is_i64() => {
            number.as_i64().map(NumberOrString::Number)
        }
        Some(_) => return Err(invalid(None, "id", "must be a string or an integer")),
    };
    if object.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return Err(invalid(id, "jsonrpc", "must be \"2.0\""));
    }
    match (object.get("method"), &id) {
        (Some(Value::String(_)), _) => {}
        (Some(_), _) => return Err(invalid(id, "method", "must be a string")),
        // An answer, and nothing was asked; but one must at least look like one.
        (None, Some(_)) if object.contains_key("result") != object.contains_key("error") => {
            return Ok(None);
        }
        (None, _) if object.contains_key("result") && object.contains_key("error") => {
            return Err(invalid(id, "result", "and `error` exclude each other"));
        }
        (None, _) => return Err(invalid(id, "method", "is required")),
    }
    let Some(id) = id else {
        // A notification is never answered, not even with an error.
        return Ok(serde_json::from_value(value).ok());
    };
    let is_other_than = |pointer: &str, fits: fn(&Value) -> bool| {
        value.pointer(pointer).is_some_and(|found| !fits(found))
    };
    let broken = if is_other_than("/params", Value::is_object) {
        Some(invalid_params("params", "must be an object"))
    } else if is_other_than("/params/_meta", Value::is_object) {
        Some(invalid_params("params._meta", "must be an object"))
    } else if is_other_than("/params/cursor", |cursor| {
        cursor.is_string() || cursor.is_null()
    }) {
        Some(invalid_params("cursor", "must be a string"))
    } else {
        None
    };
    if let Some(error) = broken {
        return Err(Box::new(Unreadable {
            id: Some(id),
            error,
        }));
    }
    serde_json::from_value(value).map(Some).map_err(|error| {
        let error = invalid_params("params", format!("cannot be read: {error}"));
        Box::new(Unreadable {
            id: Some(id),
            error,
        })
    })
}

fn invalid(id: Option<RequestId>, field: &str, reason: &str) -> Box<Unreadable> {
    let data = json!({"field": field, "reason": reason, "retryable": false});
    let error = ErrorData::invalid_request(format!("`{field}` {reason}"), Some(data));
    Box::new(Unreadable { id, error })
}
