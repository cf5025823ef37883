//! The engine's outcomes in the protocol's words: errors on two roads, times, bounded text.

use std::borrow::Cow;

use pkm_engine::Error as EngineError;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, JsonObject, ProtocolVersion,
};
use serde_json::{Value, json};

use crate::{check::BadArgument, confirm::Question};

/// How the negotiated revision wants a wrong argument of a tool to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    /// Up to 2025-06-18: an error of the protocol.
    Protocol,
    /// From 2025-11-25: a tool's result, which the model gets to read.
    ToolResult,
}

impl Road {
    /// The road of a revision; of the newest where none was named.
    pub(crate) fn of(revision: Option<&ProtocolVersion>) -> Self {
        match revision {
            Some(revision) if revision.as_str() < ProtocolVersion::V_2025_11_25.as_str() => {
                Self::Protocol
            }
            Some(_) | None => Self::ToolResult,
        }
    }
}

/// Why a request has no good answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An argument breaks the schema or a rule.
    Argument {
        /// Its name.
        field: Cow<'static, str>,
        /// What is wrong with it, to be read after the name.
        reason: String,
    },
    /// The request is understood and cannot be granted; a model can act on the words.
    Refused(Refusal),
    /// The user must be asked first; the server does that and calls again.
    MustAsk(Question),
    /// A defect on our side, as the client gets to see it.
    Defect(ErrorData),
}

/// What a model needs to go on after a refusal.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The kind of refusal, a word that does not change.
    pub(crate) code: &'static str,
    /// What happened and what to do about it.
    pub(crate) message: String,
    /// Whether the same request can succeed later.
    pub(crate) retryable: bool,
    /// Data that belongs to the kind, such as `id`.
    pub(crate) details: Value,
}

impl Fault {
    /// An argument breaks a rule.
    pub(crate) fn argument(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self::Argument {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// Logs a defect and gives it a reference.
    pub(crate) fn defect(doing: &str, cause: &dyn std::fmt::Display) -> Self {
        Self::Defect(pkm_transport::defect(doing, cause))
    }

    /// The answer of a tool that could not do what it was asked.
    ///
    /// # Errors
    ///
    /// An error of the protocol, where the revision or the kind of fault wants one.
    pub(crate) fn into_tool_answer(self, road: Road) -> Result<CallToolResult, ErrorData> {
        match (self, road) {
            (Self::Argument { field, reason }, Road::ToolResult) => {
                let message = format!("`{field}` {reason}");
                Ok(tool_error(
                    &message,
                    json!({
                        "code": "invalid_argument",
                        "message": message,
                        "field": field,
                        "reason": reason,
                        "retryable": false,
                    }),
                ))
            }
            (
                Self::Refused(Refusal {
                    code,
                    message,
                    retryable,
                    details,
                }),
                _,
            ) => {
                let mut content = json!({"code": code, "message": message, "retryable": retryable});
                if let (Value::Object(content), Value::Object(details)) = (&mut content, details) {
                    content.extend(details);
                }
                Ok(tool_error(&message, content))
            }
            (fault, _) => Err(fault.into_protocol_error()),
        }
    }

    /// The error of a request that is no tool call.
    pub(crate) fn into_protocol_error(self) -> ErrorData {
        match self {
            Self::Argument { field, reason } => ErrorData::invalid_params(
                format!("`{field}` {reason}"),
                Some(json!({"field": field, "reason": reason, "retryable": false})),
            ),
            Self::Refused(Refusal {
                code,
                message,
                retryable,
                details,
            }) => {
                let mut data = json!({"code": code, "retryable": retryable});
                if let (Value::Object(data), Value::Object(details)) = (&mut data, details) {
                    data.extend(details);
                }
                ErrorData::new(ErrorCode::INTERNAL_ERROR, message, Some(data))
            }
            Self::MustAsk(question) => pkm_transport::defect("asking the user", &question.message),
            Self::Defect(error) => error,
        }
    }
}

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> Self {
        fault.into_protocol_error()
    }
}

impl From<BadArgument> for Fault {
    fn from(BadArgument { field, reason }: BadArgument) -> Self {
        Self::Argument {
            field: field.into(),
            reason,
        }
    }
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        let (code, message, retryable, details) = match error {
            EngineError::Invalid { field, reason } => return Self::argument(field, reason),
            EngineError::Internal { .. } => {
                return Self::defect("a call of the engine", &chain(&error));
            }
            EngineError::NotFound { id } => {
                let advice = "; `search_notes` and `list_notes` give the ids that exist";
                ("not_found", message + advice, false, json!({"id": id.0}))
            }
            EngineError::Trashed { id } => {
                let advice = " (`restore_note` does that)";
                ("in_trash", message + advice, false, json!({"id": id.0}))
            }
            EngineError::NoRevision { id, revision } => (
                "no_such_revision",
                message,
                false,
                json!({"id": id.0, "revision": revision}),
            ),
            EngineError::NoJob { id } => {
                let advice = "; `index_status` lists the jobs";
                (
                    "no_such_job",
                    message + advice,
                    false,
                    json!({"job_id": id}),
                )
            }
            EngineError::Conflict {
                id,
                expected,
                found,
            } => {
                let advice = format!(
                    " (`get_note`), then send the edit again with expected_revision {found}"
                );
                let details =
                    json!({"id": id.0, "expected_revision": expected, "found_revision": found});
                ("conflict", message + &advice, false, details)
            }
            EngineError::TrashChanged { n_notes } => (
                "trash_changed",
                message + "; ask again",
                true,
                json!({"notes": n_notes}),
            ),
            EngineError::Busy { .. } => {
                tracing::warn!(cause = %chain(&error), "the data folder is busy");
                ("busy", message, true, json!({}))
            }
            EngineError::Cancelled => ("cancelled", message, true, json!({})),
            EngineError::StaleIndex { built_with, model } => {
                let advice = "; search_notes finds by words meanwhile";
                (
                    "stale_index",
                    message + advice,
                    true,
                    json!({"built_with": built_with, "model": model}),
                )
            }
            EngineError::NoModel { .. } => (
                "no_model",
                message + "; search_notes finds by words meanwhile",
                true,
                json!({}),
            ),
            EngineError::ReadOnly { .. } => {
                tracing::warn!(cause = %chain(&error), "a write was refused");
                (
                    "read_only",
                    message + "; nothing was changed, reading goes on",
                    false,
                    json!({}),
                )
            }
            EngineError::DiskFull { .. } => {
                tracing::warn!(cause = %chain(&error), "a write was refused");
                ("disk_full", message, true, json!({}))
            }
            EngineError::Folder { ref path, .. } => {
                let details = json!({"path": path});
                ("folder", chain(&error), false, details)
            }
        };
        Self::Refused(Refusal {
            code,
            message,
            retryable,
            details,
        })
    }
}

fn tool_error(message: &str, content: Value) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
    result.structured_content = Some(content);
    result
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        line.push_str(": ");
        line.push_str(&inner.to_string());
        cause = inner.source();
    }
    line
}

/// An error of the protocol that names a field.
pub(crate) fn invalid_params(field: &str, reason: impl Into<String>) -> ErrorData {
    Fault::argument(field.to_owned(), reason).into_protocol_error()
}

/// The arguments of a prompt, which are all strings.
pub(crate) fn text_argument(
    arguments: Option<&JsonObject>,
    field: &'static str,
) -> Result<Option<String>, Fault> {
    match arguments.and_then(|arguments| arguments.get(field)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => {
            Err(Fault::argument(field, "must not be blank"))
        }
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Err(Fault::argument(field, "must be a string"))
        }
    }
}

#[cfg(test)]
mod tests {
    use pkm_engine::NoteId;

    use super::*;

    #[test]
    fn a_wrong_argument_takes_the_road_of_its_revision() {
        let old = ProtocolVersion::V_2025_06_18;
        let error = Fault::argument("limit", "is 0")
            .into_tool_answer(Road::of(Some(&old)))
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
        assert_eq!(
            error.data.unwrap(),
            json!({"field": "limit", "reason": "is 0", "retryable": false})
        );

        for new in [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28] {
            let result = Fault::argument("limit", "is 0")
                .into_tool_answer(Road::of(Some(&new)))
                .unwrap();
            assert_eq!(result.is_error, Some(true));
            let content = result.structured_content.unwrap();
            assert_eq!(
                (&content["field"], &content["reason"]),
                (&json!("limit"), &json!("is 0"))
            );
            assert_eq!(result.content[0].as_text().unwrap().text, "`limit` is 0");
        }
    }

    #[test]
    fn a_refusal_is_a_result_on_both_roads() {
        for road in [Road::Protocol, Road::ToolResult] {
            let conflict = EngineError::Conflict {
                id: NoteId(3),
                expected: 1,
                found: 2,
            };
            let result = Fault::from(conflict).into_tool_answer(road).unwrap();
            assert_eq!(result.is_error, Some(true));
            let content = result.structured_content.unwrap();
            assert_eq!(content["code"], "conflict");
            assert_eq!(content["found_revision"], 2);
        }
    }

    #[test]
    fn a_defect_shows_a_reference_and_no_details() {
        let source = "secret path".into();
        let fault = Fault::from(EngineError::Internal {
            doing: "reading",
            source,
        });
        let error = fault.into_tool_answer(Road::ToolResult).unwrap_err();
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
        assert!(!error.message.contains("secret"));
        assert_eq!(error.data.unwrap()["reference"].as_str().unwrap().len(), 16);
    }
}
