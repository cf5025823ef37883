//! What one request says about who sent it.

use rmcp::{
    RoleServer,
    model::{ClientCapabilities, ProtocolVersion},
    service::RequestContext,
};

use crate::wire::Road;

/// The sender of a request, as far as it decides what can be answered.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    revision: Option<ProtocolVersion>,
    capabilities: ClientCapabilities,
}

impl Caller {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let revision = context.protocol_version();
        // Without a handshake, what an earlier request of the connection said counts for nothing.
        let capabilities = if is_modern(revision.as_ref()) {
            context.meta.client_capabilities()
        } else {
            context.client_capabilities()
        };
        Self {
            revision,
            capabilities: capabilities.unwrap_or_default(),
        }
    }

    /// Whether it speaks a revision without a handshake: 2026-07-28 or later.
    pub(crate) fn is_modern(&self) -> bool {
        is_modern(self.revision.as_ref())
    }

    /// How it wants to be told of a wrong argument.
    pub(crate) fn road(&self) -> Road {
        Road::of(self.revision.as_ref())
    }

    /// Whether a call may be answered with a task. Some clients declare the extension in the
    /// handshake of a revision that does not have it, and show the task as an empty result.
    pub(crate) fn takes_tasks(&self) -> bool {
        self.is_modern() && self.capabilities.supports_tasks()
    }

    /// Whether its user can be asked with a form.
    pub(crate) fn takes_questions(&self) -> bool {
        let has_questions = self
            .revision
            .as_ref()
            .is_some_and(|revision| revision.as_str() >= ProtocolVersion::V_2025_06_18.as_str());
        // A declaration that names no kind means forms.
        let takes_forms = self
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none());
        has_questions && takes_forms
    }
}

fn is_modern(revision: Option<&ProtocolVersion>) -> bool {
    revision.is_some_and(|revision| !revision.has_initialize())
}
