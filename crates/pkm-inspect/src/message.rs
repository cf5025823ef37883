//! One message by itself: what it is, and what is wrong with its envelope.

use std::fmt;

use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::names::{self, Direction, Form};
use crate::text;

/// An id, or a progress token: a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Id {
    Number(i128),
    Text(String),
}

/// Beyond it, not every integer is a number of its own when it is written with a fraction.
const MAX_SAFE: f64 = 9_007_199_254_740_992.0;

impl Id {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => {
                if let Some(number) = number.as_i128() {
                    return Some(Self::Number(number));
                }
                // `1.0` is an integer that is written oddly.
                let float = number.as_f64()?;
                let is_integer = float.fract() == 0.0 && float.abs() <= MAX_SAFE;
                is_integer.then_some(Self::Number(float as i128))
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => match i64::try_from(*number) {
                Ok(number) => number.into(),
                Err(_) => Value::String(number.to_string()),
            },
            Self::Text(id) => Value::String(text::cut(id, 200)),
        }
    }

    /// The same id in the other type: `"3"` for 3.
    pub(crate) fn in_other_type(&self) -> Option<Self> {
        match self {
            Self::Number(number) => Some(Self::Text(number.to_string())),
            Self::Text(text) => text.parse().ok().map(Self::Number),
        }
    }
}

/// As JSON writes it, cut to a readable length.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(id) => write!(f, "{}", Value::String(text::cut(id, 40))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    /// With a result, or with nothing where one should be.
    Answer,
    ErrorAnswer,
    /// Neither a call nor an answer.
    Unclear,
}

/// A message, read as far as it can be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    /// As it was written.
    pub(crate) raw_id: Option<&'a Value>,
    pub(crate) method: Option<&'a str>,
    pub(crate) params: Option<&'a Map<String, Value>>,
    pub(crate) result: Option<&'a Value>,
    pub(crate) error: Option<&'a Value>,
}

impl<'a> Message<'a> {
    pub(crate) fn read(object: &'a Map<String, Value>, findings: &mut Vec<Finding>) -> Self {
        check_version(object, findings);
        let raw_id = object.get("id");
        let method = object.get("method");
        let mut message = Self {
            kind: Kind::Unclear,
            raw_id,
            method: method.and_then(Value::as_str),
            params: object.get("params").and_then(Value::as_object),
            result: object.get("result"),
            error: object.get("error"),
        };
        match method {
            Some(Value::String(_)) => message.read_call(object, findings),
            Some(_) => {
                findings.push(Finding::error("method_type", "`method` is no string").at("method"));
            }
            None => message.read_answer(findings),
        }
        message
    }

    pub(crate) fn id(&self) -> Option<Id> {
        self.raw_id.and_then(Id::read)
    }

    pub(crate) fn meta(&self) -> Option<&'a Map<String, Value>> {
        self.params?.get("_meta")?.as_object()
    }

    /// A text of `params`.
    pub(crate) fn text(&self, field: &str) -> Option<&'a str> {
        self.params?.get(field)?.as_str()
    }

    /// The tool or prompt that is asked for.
    pub(crate) fn name(&self) -> Option<&'a str> {
        match self.method {
            Some("tools/call" | "prompts/get") => self.text("name"),
            _ => None,
        }
    }

    fn read_call(&mut self, object: &Map<String, Value>, findings: &mut Vec<Finding>) {
        let method = self.method.unwrap_or_default();
        let form = names::form(method);
        for field in ["result", "error"] {
            if object.contains_key(field) {
                findings.push(
                    Finding::error("method_and_answer", format!("`method` and `{field}` exclude each other"))
                        .at(field)
                        .hint("a call has `method` and `params`, an answer has `id` and `result` or `error`"),
                );
            }
        }
        let is_notification = match form {
            Some(form) => form == Form::Notification,
            None => method.starts_with("notifications/") || self.raw_id.is_none(),
        };
        if is_notification {
            self.kind = Kind::Notification;
            if self.raw_id.is_some() {
                findings.push(
                    Finding::error(
                        "notification_id",
                        format!("`{method}` is a notification and has no id"),
                    )
                    .at("id")
                    .hint("leave `id` out; a notification is not answered"),
                );
            }
        } else {
            self.kind = Kind::Request;
            match self.raw_id {
                None => findings.push(
                    Finding::error(
                        "id_missing",
                        format!("`{method}` is a request and needs an id"),
                    )
                    .at("id")
                    .hint("without an id it is a notification, and nobody answers"),
                ),
                Some(id) => check_id(id, findings),
            }
        }
        if let Some(params) = object.get("params")
            && !params.is_object()
        {
            findings.push(Finding::error("params_type", "`params` must be an object").at("params"));
        } else if let Some(meta) = self.params.and_then(|params| params.get("_meta"))
            && !meta.is_object()
        {
            findings
                .push(Finding::error("meta_type", "`_meta` must be an object").at("params._meta"));
        }
    }

    fn read_answer(&mut self, findings: &mut Vec<Finding>) {
        match (self.result, self.error) {
            (Some(result), None) => {
                self.kind = Kind::Answer;
                if !result.is_object() {
                    findings.push(
                        Finding::error("result_type", "`result` must be an object")
                            .at("result")
                            .hint("an empty result is `{}`"),
                    );
                }
                match self.raw_id {
                    None => findings.push(
                        Finding::error("answer_id", "a result needs the id of its request")
                            .at("id"),
                    ),
                    Some(id) => check_id(id, findings),
                }
            }
            (None, Some(error)) => {
                self.kind = Kind::ErrorAnswer;
                check_error(error, findings);
                // Without an id, or with null, it answers what could not be read.
                if let Some(id) = self.raw_id.filter(|id| !id.is_null()) {
                    check_id(id, findings);
                }
            }
            (Some(_), Some(error)) => {
                self.kind = Kind::ErrorAnswer;
                findings.push(
                    Finding::error(
                        "result_and_error",
                        "`result` and `error` exclude each other",
                    )
                    .at("error"),
                );
                check_error(error, findings);
            }
            (None, None) => {
                let reason = if self.raw_id.is_some() {
                    self.kind = Kind::Answer;
                    "neither `method`, `result` nor `error` is there"
                } else {
                    "neither `method` nor `id` is there"
                };
                findings.push(Finding::error("empty", reason).hint(
                    "a call has `method` and `params`, an answer has `id` and `result` or `error`",
                ));
            }
        }
    }

    /// What it is, in a line: `request tools/call search_notes id 3`.
    pub(crate) fn describe(&self) -> String {
        let id = match (self.raw_id, self.id()) {
            (None, _) => "without id".to_owned(),
            (_, Some(id)) => format!("id {id}"),
            (Some(raw), None) => format!("id {}", text::cut(&raw.to_string(), 40)),
        };
        let mut what = match self.kind {
            Kind::Request => "request ".to_owned(),
            Kind::Notification => "notification ".to_owned(),
            Kind::Answer => return format!("answer {id}"),
            Kind::ErrorAnswer => return format!("error answer {id}{}", self.describe_error()),
            Kind::Unclear => return format!("message {id}"),
        };
        what.push_str(&text::cut(self.method.unwrap_or_default(), 80));
        if let Some(name) = self.name() {
            what.push(' ');
            what.push_str(&text::cut(name, 80));
        }
        if self.kind == Kind::Request || self.raw_id.is_some() {
            what.push(' ');
            what.push_str(&id);
        }
        what
    }

    /// ` -32602 "message"` of an error.
    pub(crate) fn describe_error(&self) -> String {
        let Some(error) = self.error else {
            return String::new();
        };
        let mut what = String::new();
        if let Some(code) = error.get("code") {
            what.push(' ');
            what.push_str(&text::cut(&code.to_string(), 20));
        }
        if let Some(message) = error.get("message").and_then(Value::as_str) {
            what.push(' ');
            what.push_str(&Value::String(text::cut(message, 80)).to_string());
        }
        what
    }
}

/// Checks what a known method must have in `params`, and that this side may send it.
pub(crate) fn check_method(
    message: &Message<'_>,
    direction: Option<Direction>,
    findings: &mut Vec<Finding>,
) {
    let Some(name) = message.method else { return };
    if names::form(name).is_none() {
        let near = names::nearest(name, direction).or_else(|| names::nearest(name, None));
        let reason = format!("`{}` is no method of the protocol", text::cut(name, 80));
        let finding = match near {
            Some(_) => Finding::error("method_unknown", reason),
            // An extension of somebody's own, perhaps.
            None => Finding::warning("method_unknown", reason),
        };
        findings.push(
            finding
                .at("method")
                .did_you_mean(near.map(|method| method.name)),
        );
        return;
    }
    let Some(method) = names::sent(name, direction) else {
        if let Some(direction) = direction {
            findings.push(
                Finding::error(
                    "method_direction",
                    format!(
                        "`{name}` is sent by the {}, not by the {}",
                        direction.reverse().sender(),
                        direction.sender()
                    ),
                )
                .at("method"),
            );
        }
        return;
    };
    for (field, shape) in method.params {
        let path = format!("params.{field}");
        match message.params.and_then(|params| params.get(*field)) {
            None => findings.push(
                Finding::error("param_missing", format!("`{name}` needs `{field}`")).at(path),
            ),
            Some(value) if !shape.fits(value) => findings
                .push(Finding::error("param_type", format!("must be {}", shape.name())).at(path)),
            Some(_) => {}
        }
    }
}

fn check_version(object: &Map<String, Value>, findings: &mut Vec<Finding>) {
    let finding = match object.get("jsonrpc") {
        Some(Value::String(version)) if version == "2.0" => return,
        None => Finding::error("jsonrpc_missing", "`jsonrpc` is missing"),
        Some(other) => Finding::error(
            "jsonrpc_version",
            format!("`jsonrpc` is {}", text::cut(&other.to_string(), 40)),
        ),
    };
    findings.push(finding.at("jsonrpc").hint("it must be \"2.0\""));
}

fn check_id(id: &Value, findings: &mut Vec<Finding>) {
    if Id::read(id).is_some() {
        return;
    }
    let what = match id {
        Value::Null => "null".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::Bool(_) => "a truth value".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(_) => return,
    };
    findings.push(
        Finding::error("id_type", format!("the id is {what}"))
            .at("id")
            .hint("an id is a string or an integer"),
    );
}

fn check_error(error: &Value, findings: &mut Vec<Finding>) {
    let Some(error) = error.as_object() else {
        findings.push(Finding::error("error_type", "`error` must be an object").at("error"));
        return;
    };
    match error.get("code") {
        None => findings.push(Finding::error("error_code", "`code` is missing").at("error.code")),
        Some(code) if !matches!(Id::read(code), Some(Id::Number(_))) => findings
            .push(Finding::error("error_code", "`code` must be an integer").at("error.code")),
        Some(_) => {}
    }
    match error.get("message") {
        None => findings
            .push(Finding::error("error_message", "`message` is missing").at("error.message")),
        Some(message) if !message.is_string() => findings.push(
            Finding::error("error_message", "`message` must be a string").at("error.message"),
        ),
        Some(_) => {}
    }
    if !error.contains_key("data") {
        findings.push(
            Finding::warning("error_data", "the error has no `data`")
                .at("error.data")
                .hint("which field, why, and whether trying again can help"),
        );
    }
}
