//! The handshake, the revision that holds, and what each revision demands of a request.

use serde_json::{Map, Value};

use crate::finding::Finding;
use crate::message::{Kind, Message};
use crate::names::{self, Direction, Revision};
use crate::text;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Handshake {
    #[default]
    None,
    /// `initialize` waits for its answer.
    Asked,
    /// It was answered.
    Agreed,
    /// `notifications/initialized` came.
    Done,
}

/// How far a session is.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    handshake: Handshake,
    /// What the handshake agreed on, if it is a revision that is known.
    agreed: Option<Revision>,
    /// What the last request without handshake spoke.
    modern: Option<Revision>,
}

/// What a request without handshake says of itself.
fn stated_version(meta: Option<&Map<String, Value>>) -> Option<&str> {
    meta?.get(VERSION)?.as_str()
}

impl Lifecycle {
    /// The revision that a message is under, as far as it is known.
    pub(crate) fn revision(&self, message: &Message<'_>) -> Option<Revision> {
        if let Some(version) = stated_version(message.meta()) {
            return Revision::parse(version);
        }
        match self.handshake {
            Handshake::None => self.modern,
            Handshake::Asked => None,
            Handshake::Agreed | Handshake::Done => self.agreed,
        }
    }

    /// The revision of the session, for what is no single message.
    pub(crate) fn session_revision(&self) -> Option<Revision> {
        self.agreed.or(self.modern)
    }

    /// Checks a request against the order of the handshake, or what stands in for one.
    /// `sees_both`: the log is known to hold both directions.
    pub(crate) fn request(
        &mut self,
        message: &Message<'_>,
        direction: Direction,
        sees_both: bool,
        findings: &mut Vec<Finding>,
    ) {
        let method = message.method.unwrap_or_default();
        if method == "initialize" && direction == Direction::ToServer {
            return self.initialize(message, findings);
        }
        match direction {
            Direction::ToServer => self.client_request(message, method, sees_both, findings),
            Direction::ToClient => self.server_request(method, sees_both, findings),
        }
        self.check_revision(message, direction, findings);
    }

    fn initialize(&mut self, message: &Message<'_>, findings: &mut Vec<Finding>) {
        if matches!(self.handshake, Handshake::Agreed | Handshake::Done) {
            findings.push(Finding::warning(
                "initialize_again",
                "the session was initialized before; what follows is read as a new session",
            ));
        }
        self.handshake = Handshake::Asked;
        self.agreed = None;
        if let Some(version) = message.text("protocolVersion") {
            check_known(version, "params.protocolVersion", findings);
        }
    }

    fn client_request(
        &mut self,
        message: &Message<'_>,
        method: &str,
        sees_both: bool,
        findings: &mut Vec<Finding>,
    ) {
        let meta = message.meta();
        let says_anything =
            meta.is_some_and(|meta| meta.contains_key(VERSION) || meta.contains_key(CAPABILITIES));
        let must_say = self.handshake == Handshake::None
            && (method == "server/discover" || self.modern.is_some());
        if says_anything || must_say {
            check_meta(meta, findings);
            if let Some(version) = stated_version(meta) {
                self.modern = check_known(version, "params._meta", findings).or(self.modern);
            }
            return;
        }
        if method == "ping" {
            return;
        }
        match self.handshake {
            Handshake::None => findings.push(
                Finding::error(
                    "before_initialize",
                    format!("`{}` came before `initialize`", text::cut(method, 80)),
                )
                .hint(format!(
                    "send `initialize` first or, from 2026-07-28 on, `{VERSION}` and `{CAPABILITIES}` in `params._meta`"
                )),
            ),
            Handshake::Agreed => findings.push(before_initialized(method)),
            Handshake::Asked if sees_both => findings.push(before_initialized(method)),
            Handshake::Asked | Handshake::Done => {}
        }
    }

    fn server_request(&self, method: &str, sees_both: bool, findings: &mut Vec<Finding>) {
        if method == "ping" {
            return;
        }
        match self.handshake {
            Handshake::None if self.modern.is_some() => findings.push(
                Finding::error(
                    "server_request",
                    "a server sends no requests from 2026-07-28 on",
                )
                .hint("answer with `resultType: \"input_required\"` and what is asked for"),
            ),
            Handshake::None if sees_both => findings.push(Finding::error(
                "before_initialize",
                format!("`{}` came before `initialize`", text::cut(method, 80)),
            )),
            Handshake::Asked | Handshake::Agreed => findings.push(before_initialized(method)),
            Handshake::None | Handshake::Done => {}
        }
    }

    /// Takes a notification.
    pub(crate) fn notification(
        &mut self,
        message: &Message<'_>,
        direction: Direction,
        sees_both: bool,
        findings: &mut Vec<Finding>,
    ) {
        if message.method == Some("notifications/initialized") && direction == Direction::ToServer {
            let is_early = match self.handshake {
                Handshake::None => true,
                Handshake::Asked => sees_both,
                Handshake::Agreed | Handshake::Done => false,
            };
            if is_early {
                findings.push(Finding::warning(
                    "initialized_early",
                    "it came before the answer to `initialize`",
                ));
            }
            if self.handshake != Handshake::None {
                self.handshake = Handshake::Done;
            }
        }
        self.check_revision(message, direction, findings);
    }

    /// Takes the answer to `initialize`.
    pub(crate) fn answer(&mut self, message: &Message<'_>, findings: &mut Vec<Finding>) {
        if message.kind == Kind::ErrorAnswer {
            if self.handshake == Handshake::Asked {
                self.handshake = Handshake::None;
            }
            return;
        }
        if self.handshake != Handshake::Done {
            self.handshake = Handshake::Agreed;
        }
        let version = message
            .result
            .and_then(|result| result.get("protocolVersion"))
            .and_then(Value::as_str);
        if let Some(version) = version {
            self.agreed = check_known(version, "result.protocolVersion", findings);
        }
    }

    /// Whether the revision has the method that the message names.
    fn check_revision(
        &self,
        message: &Message<'_>,
        direction: Direction,
        findings: &mut Vec<Finding>,
    ) {
        let Some(revision) = self.revision(message) else {
            return;
        };
        let Some(method) = message
            .method
            .and_then(|name| names::sent(name, Some(direction)))
        else {
            return;
        };
        let reason = if revision < method.first {
            format!("it came with {}", method.first.name())
        } else if revision > method.last {
            format!("{} was the last revision that had it", method.last.name())
        } else {
            return;
        };
        findings.push(
            Finding::error(
                "method_revision",
                format!(
                    "{} has no `{}` from a {}: {reason}",
                    revision.name(),
                    method.name,
                    direction.sender()
                ),
            )
            .at("method"),
        );
    }
}

fn before_initialized(method: &str) -> Finding {
    Finding::warning(
        "before_initialized",
        format!(
            "`{}` came before `notifications/initialized`",
            text::cut(method, 80)
        ),
    )
}

/// Checks what every request without handshake must carry.
fn check_meta(meta: Option<&Map<String, Value>>, findings: &mut Vec<Finding>) {
    for (key, is_right, shape) in [
        (VERSION, Value::is_string as fn(&Value) -> bool, "a string"),
        (CAPABILITIES, Value::is_object, "an object"),
    ] {
        let field = format!("params._meta.{key}");
        match meta.and_then(|meta| meta.get(key)) {
            None => findings.push(
                Finding::error("meta_missing", format!("`_meta` lacks `{key}`"))
                    .at(field)
                    .hint("every request without handshake carries it"),
            ),
            Some(value) if !is_right(value) => {
                findings.push(Finding::error("meta_type", format!("must be {shape}")).at(field))
            }
            Some(_) => {}
        }
    }
}

fn check_known(version: &str, field: &str, findings: &mut Vec<Finding>) -> Option<Revision> {
    let revision = Revision::parse(version);
    if revision.is_none() {
        findings.push(
            Finding::warning(
                "revision_unknown",
                format!("`{}` is no revision that is known", text::cut(version, 40)),
            )
            .at(field),
        );
    }
    revision
}
