//! All messages of a log, one after the other.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::calls::{Asked, Call, Calls};
use crate::finding::{Finding, Severity};
use crate::lifecycle::Lifecycle;
use crate::log::{Body, Entry};
use crate::message::{self, Id, Kind, Message};
use crate::names::{self, Direction, Form, Revision};
use crate::progress::Tokens;
use crate::results;
use crate::schema::{KnownTools, Page};
use crate::text;

/// What one line of a log is, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Its number, from 1.
    pub line: u64,
    /// Which way it went, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// When it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// On which channel, where the log says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// What it is, in a line: `request tools/call search_notes id 3`.
    pub what: String,
    /// Its id, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Its method, or that of the request it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings there are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let is_meant = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(is_meant).count()
    }
}

/// Follows the messages of a log. Ids, handshakes and progress are followed for each channel by
/// itself; the tools are those of one server.
#[derive(Debug, Default)]
pub struct Inspector {
    tools: KnownTools,
    channels: HashMap<String, Channel>,
}

#[derive(Debug, Default)]
struct Channel {
    lifecycle: Lifecycle,
    calls: Calls,
    tokens: Tokens,
    /// The log says which way messages go, so it holds both.
    is_marked: bool,
    has_to_server: bool,
    has_to_client: bool,
}

impl Channel {
    fn sees_both(&self) -> bool {
        self.is_marked || (self.has_to_server && self.has_to_client)
    }

    fn sees(&self, direction: Direction) -> bool {
        self.is_marked
            || match direction {
                Direction::ToServer => self.has_to_server,
                Direction::ToClient => self.has_to_client,
            }
    }

    fn note(&mut self, direction: Option<Direction>) {
        match direction {
            Some(Direction::ToServer) => self.has_to_server = true,
            Some(Direction::ToClient) => self.has_to_client = true,
            None => {}
        }
    }
}

impl Inspector {
    /// With tools that are known before the log lists any; a `tools/list` in the log replaces them.
    pub fn new(tools: KnownTools) -> Self {
        Self {
            tools,
            channels: HashMap::new(),
        }
    }

    /// Looks at the next message.
    pub fn message(&mut self, entry: &Entry) -> Report {
        let key = entry.channel.clone().unwrap_or_default();
        let channel = self.channels.entry(key).or_default();
        channel.is_marked |= entry.direction.is_some();
        let mut look = Look {
            tools: &mut self.tools,
            channel,
            entry,
        };
        let mut report = Report {
            line: entry.line,
            direction: entry.direction,
            at: entry.at,
            channel: entry.channel.clone(),
            what: String::new(),
            id: None,
            method: None,
            findings: Vec::new(),
        };
        match &entry.body {
            Body::Json(Value::Object(object)) => look.message(object, &mut report),
            Body::Json(Value::Array(items)) => look.batch(items, &mut report),
            Body::Json(other) => {
                report.what = format!("the JSON value {}", text::cut(&other.to_string(), 40));
                let reason = "a message is a JSON object";
                report.findings.push(Finding::error("not_object", reason));
            }
            Body::Text { text, problem } => {
                report.what = format!("text: {}", text::cut(text, 60));
                report.findings.push(not_json(text, problem));
            }
            Body::TooLong { n_bytes } => {
                report.what = format!("a line of {n_bytes} bytes");
                report.findings.push(Finding::error(
                    "too_long",
                    "the line is over 64 MiB and was not looked at",
                ));
            }
        }
        channel_note(&mut self.channels, entry, report.direction);
        report
    }

    /// Ends the log: what was asked and never answered, by line.
    pub fn finish(self) -> Vec<Report> {
        let mut reports = Vec::new();
        for (name, channel) in &self.channels {
            let channel_name = (!name.is_empty()).then(|| name.clone());
            for direction in [Direction::ToServer, Direction::ToClient] {
                let open = channel.calls.unanswered();
                let mut open = open.into_iter().filter(|(way, ..)| *way == direction);
                let report = |id: &Id, call: &Call, finding| Report {
                    line: call.line,
                    direction: Some(direction),
                    at: call.at,
                    channel: channel_name.clone(),
                    what: call.what.clone(),
                    id: Some(id.to_value()),
                    method: Some(call.method.clone()),
                    findings: vec![finding],
                };
                if channel.sees(direction.reverse()) {
                    reports.extend(open.map(|(_, id, call)| {
                        report(
                            id,
                            call,
                            Finding::error("never_answered", "it was never answered"),
                        )
                    }));
                } else if let Some((_, id, call)) = open.next() {
                    let others = match open.count() {
                        0 => "it was".to_owned(),
                        n => format!("it and {n} more were"),
                    };
                    let reason =
                        format!("{others} not answered; the log seems to hold one direction only");
                    reports.push(report(id, call, Finding::warning("never_answered", reason)));
                }
            }
        }
        reports.sort_by_key(|report| report.line);
        reports
    }
}

fn channel_note(
    channels: &mut HashMap<String, Channel>,
    entry: &Entry,
    direction: Option<Direction>,
) {
    if let Some(channel) = channels.get_mut(entry.channel.as_deref().unwrap_or_default()) {
        channel.note(direction);
    }
}

/// One message, and what came before it.
struct Look<'a> {
    tools: &'a mut KnownTools,
    channel: &'a mut Channel,
    entry: &'a Entry,
}

impl Look<'_> {
    fn batch(&mut self, items: &[Value], report: &mut Report) {
        let revision = self.channel.lifecycle.session_revision();
        let no_batches = "only 2025-03-26 has batches";
        match revision {
            Some(revision) if revision.has_batches() => {}
            Some(revision) => report.findings.push(Finding::error(
                "batch",
                format!("{} has no batches; {no_batches}", revision.name()),
            )),
            None => report.findings.push(Finding::warning(
                "batch",
                format!("the revision is not known here; {no_batches}"),
            )),
        }
        if items.is_empty() {
            report
                .findings
                .push(Finding::error("batch_empty", "the batch is empty"));
        }
        let mut parts = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let mut part = Report {
                findings: Vec::new(),
                ..report.clone()
            };
            match item {
                Value::Object(object) => self.message(object, &mut part),
                other => {
                    part.what = text::cut(&other.to_string(), 40);
                    part.findings
                        .push(Finding::error("not_object", "a message is a JSON object"));
                }
            }
            if report.direction.is_none() {
                report.direction = part.direction;
            }
            if part.method.as_deref() == Some("initialize")
                && part.direction == Some(Direction::ToServer)
            {
                part.findings.push(Finding::error(
                    "batch_initialize",
                    "`initialize` must not be part of a batch",
                ));
            }
            report
                .findings
                .extend(part.findings.into_iter().map(|finding| {
                    let field = match &finding.field {
                        Some(field) => format!("[{i}].{field}"),
                        None => format!("[{i}]"),
                    };
                    finding.at(field)
                }));
            parts.push(part.what);
        }
        let n_items = items.len();
        report.what = text::cut(&format!("batch of {n_items}: {}", parts.join("; ")), 240);
    }

    fn message(&mut self, object: &Map<String, Value>, report: &mut Report) {
        let findings = &mut report.findings;
        let message = Message::read(object, findings);
        report.id = message.raw_id.map(short_id);
        report.method = message.method.map(|method| text::cut(method, 80));
        let direction = self.entry.direction.or_else(|| self.infer(&message));
        report.direction = direction;
        report.what = message.describe();
        message::check_method(&message, direction, findings);
        match message.kind {
            Kind::Request => {
                self.request(&message, direction.unwrap_or(Direction::ToServer), findings);
            }
            Kind::Notification => self.notification(&message, direction, findings),
            Kind::Answer | Kind::ErrorAnswer => self.answer(&message, report),
            Kind::Unclear => {}
        }
    }

    fn request(
        &mut self,
        message: &Message<'_>,
        direction: Direction,
        findings: &mut Vec<Finding>,
    ) {
        let channel = &mut *self.channel;
        let sees_both = channel.sees_both();
        channel
            .lifecycle
            .request(message, direction, sees_both, findings);
        let method = message.method.unwrap_or_default();
        if method == "initialize" {
            channel.calls.forget_answered();
        }
        if method == "tools/call" && direction == Direction::ToServer {
            self.tools
                .check_call(message, self.entry.is_redacted, findings);
        }
        // A request that nobody can answer is waited for by nobody.
        let Some(id) = message.id() else { return };
        let token = channel.tokens.give(direction, message, findings);
        let what = message.describe();
        let revision = channel.lifecycle.revision(message);
        let call = Call {
            line: self.entry.line,
            at: self.entry.at,
            what,
            method: method.to_owned(),
            name: message.name().map(str::to_owned),
            token,
            is_modern: direction == Direction::ToServer
                && revision.is_some_and(Revision::is_modern),
            is_first_page: message.text("cursor").is_none(),
            is_cancelled: false,
            n_repeats: 0,
        };
        channel.calls.ask(direction, id, call, findings);
    }

    fn notification(
        &mut self,
        message: &Message<'_>,
        direction: Option<Direction>,
        findings: &mut Vec<Finding>,
    ) {
        let Some(direction) = direction else { return };
        let channel = &mut *self.channel;
        let sees_both = channel.sees_both();
        channel
            .lifecycle
            .notification(message, direction, sees_both, findings);
        match message.method {
            Some("notifications/cancelled") => {
                let id = message.params.and_then(|params| params.get("requestId"));
                match id.map(Id::read) {
                    Some(Some(id)) => channel.calls.cancel(direction, &id, findings),
                    Some(None) => findings.push(
                        Finding::error("id_type", "an id is a string or an integer")
                            .at("params.requestId"),
                    ),
                    None => findings.push(
                        Finding::warning("cancel_unknown", "it does not say which request")
                            .at("params.requestId"),
                    ),
                }
            }
            // Without its requests, a log says nothing about tokens.
            Some("notifications/progress") if channel.sees(direction.reverse()) => {
                channel
                    .tokens
                    .report(direction.reverse(), message, findings);
            }
            _ => {}
        }
    }

    fn answer(&mut self, message: &Message<'_>, report: &mut Report) {
        let Some(id) = message.id() else {
            if message.kind == Kind::ErrorAnswer {
                let error = message.describe_error();
                report.what = format!("error answer to what could not be read{error}");
            }
            return;
        };
        let is_refusal = message
            .error
            .and_then(|error| error.get("code"))
            .is_some_and(|code| code == -32600);
        let findings = &mut report.findings;
        // Who answers was asked by the other side.
        let asker = report
            .direction
            .map_or(Direction::ToServer, Direction::reverse);
        let call = match self.channel.calls.answer(asker, &id, is_refusal) {
            Asked::Call(call) => call,
            Asked::OtherType(call, asked) => {
                findings.push(
                    Finding::error(
                        "id_type_changed",
                        format!("{asked} was asked, {id} answered"),
                    )
                    .at("id")
                    .hint("an answer has the id of its request, in the same type"),
                );
                call
            }
            Asked::Before => {
                findings.push(
                    Finding::error("answered_twice", format!("{id} was answered before")).at("id"),
                );
                return;
            }
            Asked::Nobody => {
                findings.push(self.answer_to_nobody(asker, &id));
                return self.learn(message, None, findings);
            }
            Asked::Unknown => return self.learn(message, None, findings),
        };
        report.what = describe_answer(message, &id, &call, self.entry.at);
        report.method = Some(text::cut(&call.method, 80));
        if call.is_cancelled {
            findings.push(Finding::warning(
                "answered_after_cancel",
                "the request was cancelled before",
            ));
        }
        if let Some(result) = message.result.and_then(Value::as_object) {
            if message.error.is_none() {
                results::check(&call, result, findings);
            }
            if call.method == "tools/call"
                && let Some(name) = &call.name
            {
                self.tools
                    .check_result(name, result, self.entry.is_redacted, findings);
            }
        }
        let goes_on = message
            .result
            .and_then(Value::as_object)
            .is_some_and(|result| !results::is_complete(result));
        if let Some(token) = &call.token
            && !goes_on
        {
            self.channel.tokens.end(asker, token);
        }
        self.learn(message, Some(&call), findings);
    }

    fn answer_to_nobody(&self, asker: Direction, id: &Id) -> Finding {
        let reason = format!("nobody asked {id}");
        if self.channel.sees(asker) {
            Finding::error("answer_to_nobody", reason).at("id")
        } else {
            Finding::warning(
                "answer_to_nobody",
                format!("{reason} in this log, which holds no request before it"),
            )
            .at("id")
        }
    }

    /// Takes from an answer what later messages are judged by.
    fn learn(&mut self, message: &Message<'_>, call: Option<&Call>, findings: &mut Vec<Finding>) {
        let result = message.result.and_then(Value::as_object);
        let method = match call {
            Some(call) => Some(call.method.as_str()),
            None => result.and_then(results::guess),
        };
        match method {
            Some("initialize") => self.channel.lifecycle.answer(message, findings),
            Some("tools/list") => {
                let Some(result) = result else { return };
                let Some(Value::Array(tools)) = result.get("tools") else {
                    return;
                };
                let is_first = call.is_none_or(|call| call.is_first_page);
                let is_last = !result.get("nextCursor").is_some_and(Value::is_string);
                self.tools
                    .learn(tools, Page::new(is_first, is_last), findings);
            }
            _ => {}
        }
    }

    /// Which way an unmarked message goes.
    fn infer(&self, message: &Message<'_>) -> Option<Direction> {
        match message.kind {
            Kind::Request | Kind::Notification => self.infer_call(message),
            Kind::Answer | Kind::ErrorAnswer => self.infer_answer(message),
            Kind::Unclear => None,
        }
    }

    fn infer_call(&self, message: &Message<'_>) -> Option<Direction> {
        let name = message.method?;
        let mut ways = names::find(name).map(|method| method.direction);
        let Some(way) = ways.next() else {
            let meant = names::nearest(name, None).map(|method| method.direction);
            return meant.or(match message.kind {
                Kind::Request => Some(Direction::ToServer),
                _ => None,
            });
        };
        if ways.all(|other| other == way) {
            return Some(way);
        }
        let calls = &self.channel.calls;
        let param = |field: &str| Id::read(message.params?.get(field)?);
        let way = match name {
            "notifications/progress" => {
                let asked =
                    param("progressToken").and_then(|token| self.channel.tokens.asked(&token));
                asked.map_or(Direction::ToClient, Direction::reverse)
            }
            "notifications/cancelled" => {
                let is_servers = |id: &Id| {
                    calls.get(Direction::ToServer, id).is_none()
                        && calls.get(Direction::ToClient, id).is_some()
                };
                if param("requestId").is_some_and(|id| is_servers(&id)) {
                    Direction::ToClient
                } else {
                    Direction::ToServer
                }
            }
            _ if names::form(name) == Some(Form::Notification) => Direction::ToClient,
            // A client does not use an id twice, so a second one is the server's.
            _ => match message.id() {
                Some(id)
                    if calls.get(Direction::ToServer, &id).is_some()
                        || calls.was_answered(Direction::ToServer, &id) =>
                {
                    Direction::ToClient
                }
                _ => Direction::ToServer,
            },
        };
        Some(way)
    }

    fn infer_answer(&self, message: &Message<'_>) -> Option<Direction> {
        let id = message.id()?;
        let calls = &self.channel.calls;
        let asker = |id: &Id| {
            let of_client = calls.get(Direction::ToServer, id);
            let of_server = calls.get(Direction::ToClient, id);
            match (of_client, of_server) {
                (Some(_), None) => Some(Direction::ToServer),
                (None, Some(_)) => Some(Direction::ToClient),
                (None, None) => None,
                (Some(client), Some(server)) => {
                    let result = message.result.and_then(Value::as_object);
                    let fits = |call: &Call| {
                        let mut findings = Vec::new();
                        if let Some(result) = result {
                            results::check(call, result, &mut findings);
                        }
                        findings.is_empty()
                    };
                    // Where both could be meant, a peer answers before it gets its own answer.
                    let is_clients = match (fits(client), fits(server)) {
                        (true, false) => true,
                        (false, true) => false,
                        _ => client.line > server.line,
                    };
                    Some(if is_clients {
                        Direction::ToServer
                    } else {
                        Direction::ToClient
                    })
                }
            }
        };
        let answered = || {
            [Direction::ToServer, Direction::ToClient]
                .into_iter()
                .find(|way| calls.was_answered(*way, &id))
        };
        let asked = asker(&id)
            .or_else(answered)
            .or_else(|| id.in_other_type().and_then(|other| asker(&other)));
        // Most answers are those of servers.
        Some(asked.unwrap_or(Direction::ToServer).reverse())
    }
}

/// `answer to 3 tools/call search_notes after 12 ms`.
fn describe_answer(message: &Message<'_>, id: &Id, call: &Call, at: Option<Timestamp>) -> String {
    let mut what = match message.kind {
        Kind::ErrorAnswer => format!("error answer to {id} "),
        _ => format!("answer to {id} "),
    };
    what.push_str(&text::cut(&call.method, 80));
    if let Some(name) = &call.name {
        what.push(' ');
        what.push_str(&text::cut(name, 80));
    }
    if message.kind == Kind::ErrorAnswer {
        what.push_str(&message.describe_error());
    } else if let Some(result) = message.result {
        if result.get("isError").is_some_and(|flag| flag == true) {
            what.push_str(" (a tool error)");
        }
        if let Some(kind) = result.get("resultType").and_then(Value::as_str)
            && kind != "complete"
        {
            what.push_str(&format!(" ({})", text::cut(kind, 40)));
        }
    }
    if let (Some(asked), Some(answered)) = (call.at, at) {
        let took = answered.as_millisecond() - asked.as_millisecond();
        what.push_str(&format!(" after {took} ms"));
    }
    what
}

/// The id as it was written, but no longer than an id is.
fn short_id(id: &Value) -> Value {
    match id {
        Value::String(id) => Value::String(text::cut(id, 200)),
        Value::Null | Value::Bool(_) | Value::Number(_) => id.clone(),
        Value::Array(_) | Value::Object(_) => Value::String(text::cut(&id.to_string(), 200)),
    }
}

fn not_json(text: &str, problem: &str) -> Finding {
    let finding = Finding::error("not_json", format!("it is no JSON: {problem}"));
    let start = text.trim_start();
    if start.len() >= 15 && start.as_bytes()[..15].eq_ignore_ascii_case(b"content-length:") {
        finding.hint("MCP has no `Content-Length` headers: one message a line")
    } else if matches!(start.trim_end(), "{" | "[" | "}" | "]" | "},") || problem.starts_with("EOF")
    {
        finding.hint("a message is one line, without line breaks inside")
    } else if start.starts_with(['{', '[']) {
        finding
    } else {
        finding.hint("stdout is for messages only; logs go to stderr")
    }
}
