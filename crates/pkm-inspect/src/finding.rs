//! What is wrong with a message.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The protocol allows it, or leaves it open; it is seldom meant.
    Warning,
    /// The protocol forbids it.
    Error,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name for the kind of mistake, such as `id_missing`.
    pub code: &'static str,
    /// Where in the message, such as `params.arguments.limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// A way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    pub(crate) fn error(code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            field: None,
            reason: reason.into(),
            hint: None,
        }
    }

    pub(crate) fn warning(code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, reason)
        }
    }

    pub(crate) fn at(self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// With the nearest known name, where there is one.
    pub(crate) fn did_you_mean(self, nearest: Option<&str>) -> Self {
        match nearest {
            Some(nearest) => self.hint(format!("did you mean `{nearest}`?")),
            None => self,
        }
    }
}
