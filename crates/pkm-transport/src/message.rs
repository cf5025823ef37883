//! Bytes as JSON-RPC messages, or what to say to bytes that are none.

use rmcp::model::{
    CancelTaskMethod, ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetTaskMethod,
    JsonRpcMessage, NumberOrString, ProtocolVersion, RequestId, UpdateTaskMethod,
};
use serde_json::{Map, Value, json};

/// The most messages in one batch.
const MAX_BATCH: usize = 1_000;
/// What a server that has too much to do answers before 2026-07-28, which keeps such codes for
/// itself.
const OVERLOADED_LEGACY: i32 = -32_000;
/// The same from 2026-07-28.
const OVERLOADED: i32 = 429;

/// What a client gets to hear instead of an answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The id of the request, where it can be read.
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Refusal {
    pub(crate) fn new(id: Option<RequestId>, error: ErrorData) -> Box<Self> {
        Box::new(Self { id, error })
    }

    /// An invalid request that names the part at fault.
    pub(crate) fn invalid(id: Option<RequestId>, field: &str, reason: &str) -> Box<Self> {
        let data = json!({"field": field, "reason": reason, "retryable": false});
        let error = ErrorData::invalid_request(format!("`{field}` {reason}"), Some(data));
        Self::new(id, error)
    }

    /// As a JSON-RPC message.
    pub(crate) fn to_json(&self) -> Value {
        let ErrorData {
            code,
            message,
            data,
        } = &self.error;
        let mut error = json!({"code": code.0, "message": message});
        if let Some(data) = data {
            error["data"] = data.clone();
        }
        let id = self.id.clone();
        json!({
            "jsonrpc": "2.0",
            "id": id.map_or(Value::Null, RequestId::into_json_value),
            "error": error,
        })
    }
}

/// The error of a server that has too much to do.
pub(crate) fn overloaded(is_modern: bool, message: &'static str) -> ErrorData {
    let code = if is_modern {
        OVERLOADED
    } else {
        OVERLOADED_LEGACY
    };
    ErrorData::new(ErrorCode(code), message, Some(json!({"retryable": true})))
}

/// The error for a request whose id is that of another one.
pub(crate) fn id_in_use() -> ErrorData {
    let reason = "is that of a request that is still being answered";
    let data = json!({"field": "id", "reason": reason, "retryable": true});
    ErrorData::invalid_request("the id is in use", Some(data))
}

/// One message, or several at once.
#[derive(Debug)]
pub(crate) enum Parsed {
    Blank,
    One(Map<String, Value>),
    Batch(Vec<Value>),
}

/// Reads JSON.
///
/// # Errors
///
/// A parse error for what is no JSON, an invalid request for what is neither an object nor a batch.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Box<Refusal>> {
    let bytes = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii();
    if bytes.is_empty() {
        return Ok(Parsed::Blank);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| parse_error(&error))?;
    match value {
        Value::Object(message) => Ok(Parsed::One(message)),
        Value::Array(messages) if messages.is_empty() => {
            Err(Refusal::invalid(None, "message", "is an empty batch"))
        }
        Value::Array(messages) if messages.len() > MAX_BATCH => Err(Refusal::invalid(
            None,
            "message",
            &format!("is a batch of more than {MAX_BATCH}"),
        )),
        Value::Array(messages) => Ok(Parsed::Batch(messages)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(Refusal::invalid(None, "message", "must be a JSON object"))
        }
    }
}

/// What is no JSON at all.
pub(crate) fn parse_error(error: &dyn std::fmt::Display) -> Box<Refusal> {
    let data = json!({"reason": error.to_string(), "retryable": false});
    let error = ErrorData::parse_error("the message is no JSON", Some(data));
    Refusal::new(None, error)
}

/// A batch where the revision has none.
pub(crate) fn no_batch() -> Box<Refusal> {
    Refusal::invalid(
        None,
        "message",
        "must be one JSON object: only sessions of revision 2025-03-26 take batches",
    )
}

/// One member of a batch as a message; see [`classify`].
pub(crate) fn classify_member(member: Value) -> Result<Option<ClientJsonRpcMessage>, Box<Refusal>> {
    let Value::Object(message) = member else {
        return Err(Refusal::invalid(None, "message", "must be a JSON object"));
    };
    let message = classify(message)?;
    if let Some(JsonRpcMessage::Request(request)) = &message {
        let id = Some(request.id.clone());
        if matches!(request.request, ClientRequest::InitializeRequest(_)) {
            let reason = "must not be `initialize` in a batch";
            return Err(Refusal::invalid(id, "method", reason));
        }
        if let Some(error) = only_modern(&request.request) {
            return Err(Refusal::new(id, error));
        }
    }
    Ok(message)
}

/// The error for a method that only revisions without a handshake have. rmcp would ask a client of
/// the others for a capability that it cannot declare.
pub(crate) fn only_modern(request: &ClientRequest) -> Option<ErrorData> {
    match request {
        ClientRequest::GetTaskRequest(_) => Some(ErrorData::method_not_found::<GetTaskMethod>()),
        ClientRequest::UpdateTaskRequest(_) => {
            Some(ErrorData::method_not_found::<UpdateTaskMethod>())
        }
        ClientRequest::CancelTaskRequest(_) => {
            Some(ErrorData::method_not_found::<CancelTaskMethod>())
        }
        _ => None,
    }
}

/// A JSON object as a message; `None` for a notification or an answer that makes no sense, which
/// nobody waits for.
///
/// # Errors
///
/// An invalid request, or invalid parameters of a method that the protocol has.
pub(crate) fn classify(
    message: Map<String, Value>,
) -> Result<Option<ClientJsonRpcMessage>, Box<Refusal>> {
    let id = match message.get("id") {
        None => None,
        Some(id) => match request_id(id) {
            Some(id) => Some(id),
            None => {
                return Err(Refusal::invalid(
                    None,
                    "id",
                    "must be a string or an integer",
                ));
            }
        },
    };
    if message
        .get("jsonrpc")
        .is_none_or(|version| version != "2.0")
    {
        return Err(Refusal::invalid(id, "jsonrpc", "must be \"2.0\""));
    }
    let is_answer = message.contains_key("result") || message.contains_key("error");
    if is_answer && message.contains_key("method") {
        return Err(Refusal::invalid(
            id,
            "method",
            "excludes `result` and `error`",
        ));
    }
    let method = match (message.get("method"), &id) {
        (Some(Value::String(method)), _) => method.clone(),
        (Some(_), _) => return Err(Refusal::invalid(id, "method", "must be a string")),
        (None, _) if message.contains_key("result") && message.contains_key("error") => {
            return Err(Refusal::invalid(
                id,
                "result",
                "and `error` exclude each other",
            ));
        }
        (None, Some(_)) if is_answer => {
            return Ok(serde_json::from_value(Value::Object(message)).ok());
        }
        (None, _) => return Err(Refusal::invalid(id, "method", "is required")),
    };
    let Some(id) = id else {
        // A notification is never answered, not even with an error.
        return Ok(serde_json::from_value(Value::Object(message)).ok());
    };
    if method.starts_with("notifications/") {
        return Err(Refusal::invalid(
            Some(id),
            "id",
            "must be left out: a notification has none",
        ));
    }
    let invalid_params = |(field, reason): (&str, &str)| {
        let data = json!({"field": field, "reason": reason, "retryable": false});
        let error = ErrorData::invalid_params(format!("`{field}` {reason}"), Some(data));
        Refusal::new(Some(id.clone()), error)
    };
    if let Some(fault) = misshapen(&message) {
        return Err(invalid_params(fault));
    }
    // Looked for before the message is used up: parameters can be large, and are not copied.
    let params = message.get("params");
    let fault = if is_modern(params) && is_removed(&method) {
        None
    } else {
        unreadable(&method, params)
    };
    let message: ClientJsonRpcMessage = serde_json::from_value(Value::Object(message))
        .map_err(|error| invalid_params(("params", &format!("cannot be read: {error}"))))?;
    // rmcp takes a method that it knows for one that it does not when it cannot read the
    // parameters.
    if let JsonRpcMessage::Request(request) = &message
        && let ClientRequest::CustomRequest(_) = &request.request
        && let Some(fault) = fault
    {
        return Err(invalid_params(fault));
    }
    Ok(Some(message))
}

pub(crate) fn request_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(id) => Some(NumberOrString::String(id.as_str().into())),
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether the parameters are those of a revision without a handshake.
pub(crate) fn is_modern(params: Option<&Value>) -> bool {
    params
        .and_then(|params| params.get("_meta"))
        .and_then(|meta| meta.get("io.modelcontextprotocol/protocolVersion"))
        .and_then(Value::as_str)
        .is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28.as_str())
}

/// What revision 2026-07-28 has no more: unknown there, whatever the parameters.
fn is_removed(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
    )
}

/// What is wrong with the parameters of any request.
fn misshapen(message: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    let params = message.get("params")?;
    if !params.is_object() {
        return Some(("params", "must be an object"));
    }
    if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
        return Some(("params._meta", "must be an object"));
    }
    if params
        .get("cursor")
        .is_some_and(|cursor| !cursor.is_string() && !cursor.is_null())
    {
        return Some(("cursor", "must be a string"));
    }
    None
}

/// What is wrong with the parameters of a method of the protocol, should they turn out to be
/// unreadable; `None` for other methods.
fn unreadable(method: &str, params: Option<&Value>) -> Option<(&'static str, &'static str)> {
    const STRING: &str = "is required and must be a string";
    const OBJECT: &str = "is required and must be an object";
    let field = |name: &str| params.and_then(|params| params.get(name));
    let no_string = |name: &str| !field(name).is_some_and(Value::is_string);
    let no_object = |name: &str| !field(name).is_some_and(Value::is_object);
    let arguments_are_other =
        || field("arguments").is_some_and(|value| !value.is_object() && !value.is_null());
    Some(match method {
        "tools/call" | "prompts/get" if no_string("name") => ("name", STRING),
        "tools/call" | "prompts/get" if arguments_are_other() => ("arguments", "must be an object"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" if no_string("uri") => {
            ("uri", STRING)
        }
        "tasks/get" | "tasks/cancel" | "tasks/update" if no_string("taskId") => ("taskId", STRING),
        "initialize" if no_string("protocolVersion") => ("protocolVersion", STRING),
        "initialize" if no_object("capabilities") => ("capabilities", OBJECT),
        "initialize" if no_object("clientInfo") => ("clientInfo", OBJECT),
        "completion/complete" if no_object("ref") => ("ref", OBJECT),
        "completion/complete" if no_object("argument") => ("argument", OBJECT),
        "logging/setLevel" if no_string("level") => ("level", STRING),
        "subscriptions/listen" if no_object("notifications") => ("notifications", OBJECT),
        "tools/call"
        | "prompts/get"
        | "resources/read"
        | "resources/subscribe"
        | "resources/unsubscribe"
        | "tasks/get"
        | "tasks/cancel"
        | "tasks/update"
        | "initialize"
        | "completion/complete"
        | "logging/setLevel"
        | "subscriptions/listen"
        | "tools/list"
        | "prompts/list"
        | "resources/list"
        | "resources/templates/list"
        | "server/discover"
        | "ping" => ("params", "cannot be read"),
        _ => return None,
    })
}
