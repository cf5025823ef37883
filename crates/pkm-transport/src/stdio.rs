//! Standard input and output as a transport that leaves no request without an answer.
//!
//! The protocol library drops what it cannot read; here each line is looked at first. What is no
//! JSON-RPC message is answered with the fitting error, and what would end the server before its
//! handshake (an early notification) is dropped.

pub(crate) mod cut;
mod in_flight;
pub(crate) mod lines;

use std::{
    collections::{HashSet, VecDeque},
    io::{self, BufRead},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetExtensions, GetMeta,
        JsonRpcMessage, PingRequestMethod, ProtocolVersion, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time,
};

use self::{
    in_flight::{BatchKey, InFlight, Serial},
    lines::{Line, read_lines},
};
use crate::{
    Error, StdioOptions,
    call::CallEnd,
    message::{self, Parsed, Refusal, classify, classify_member, id_in_use, overloaded, parse},
    tap::{Direction, Tap},
};

/// Lines read ahead of the server.
const LINES_AHEAD: usize = 16;
/// The most requests that are answered at the same time.
const MAX_IN_FLIGHT: usize = 256;
/// How long answers are waited for when the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How often to look whether the last one is there.
const LAST_ANSWERS_POLL: Duration = Duration::from_millis(10);
/// How long the client gets to read what was said to it when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The name of the only client in a log.
const CHANNEL: &str = "stdio";

/// Reads lines on a thread of its own and writes answers to `W`.
pub(crate) struct Lines<W> {
    input: mpsc::Receiver<Line>,
    /// What the library has not had yet.
    ahead: VecDeque<ClientJsonRpcMessage>,
    output: Output<W>,
    state: Arc<Mutex<State>>,
    /// Errors on their way to the client.
    refusals: JoinSet<()>,
    options: StdioOptions,
    /// The library has had the request that ends its handshake.
    opened: bool,
    /// The input has ended, and this is when waiting for answers ends.
    ends_at: Option<time::Instant>,
}

/// What reading and writing both know.
#[derive(Debug, Default)]
struct State {
    in_flight: InFlight,
    /// Requests of ours that the client has not answered.
    asked: HashSet<RequestId>,
    /// The handshake agreed on the revision that has batches.
    takes_batches: bool,
}

struct Output<W> {
    stream: Arc<tokio::sync::Mutex<W>>,
    tap: Option<Arc<dyn Tap>>,
}

impl<W> Clone for Output<W> {
    fn clone(&self) -> Self {
        Self {
            stream: Arc::clone(&self.stream),
            tap: self.tap.clone(),
        }
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&self, mut line: String) -> io::Result<()> {
        let mut stream = self.stream.lock().await;
        if let Some(tap) = &self.tap {
            tap.message(Direction::ToClient, CHANNEL, line.as_bytes());
        }
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        stream.flush().await
    }
}

/// The process's own streams.
pub(crate) fn standard_streams(options: StdioOptions) -> Result<Lines<tokio::fs::File>, Error> {
    let output = standard_output().map_err(|source| Error::System {
        doing: "opening standard output",
        source,
    })?;
    Lines::start(
        io::BufReader::new(io::stdin()),
        tokio::fs::File::from_std(output),
        options,
    )
}

/// Standard output by a handle of its own: a write that waits for a client must not hold the lock
/// which the rest of the process needs to end.
fn standard_output() -> io::Result<std::fs::File> {
    #[cfg(unix)]
    let handle = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?;
    Ok(handle.into())
}

impl<W> Lines<W>
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Starts the reading thread. It ends with the input, or with the process: a blocked read of
    /// standard input cannot be called off.
    pub(crate) fn start(
        input: impl BufRead + Send + 'static,
        output: W,
        options: StdioOptions,
    ) -> Result<Self, Error> {
        let (sender, receiver) = mpsc::channel(LINES_AHEAD);
        let max_line_bytes = options.max_message_bytes;
        std::thread::Builder::new()
            .name("pkm-stdin".into())
            .spawn(move || read_lines(input, max_line_bytes, &sender))
            .map_err(|source| Error::System {
                doing: "starting the thread that reads the input",
                source,
            })?;
        Ok(Self {
            input: receiver,
            ahead: VecDeque::new(),
            output: Output {
                stream: Arc::new(tokio::sync::Mutex::new(output)),
                tap: options.tap.clone(),
            },
            state: Arc::default(),
            refusals: JoinSet::new(),
            options,
            opened: false,
            ends_at: None,
        })
    }

    /// Writes on the library's behalf. Not awaited: `receive` can be dropped half way, and half a
    /// line must not be left in the output.
    fn write(&mut self, line: String) {
        let output = self.output.clone();
        while self.refusals.try_join_next().is_some() {}
        self.refusals.spawn(async move {
            if let Err(error) = output.write(line).await {
                tracing::debug!(%error, "the client did not take an error");
            }
        });
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.write(refusal.to_json().to_string());
    }

    fn take(&mut self, line: &Line) {
        let bytes = match line {
            Line::Bytes(bytes) => bytes,
            Line::TooLong { head, tail } => {
                let reason = format!("is longer than {} bytes", self.options.max_message_bytes);
                self.refuse(&Refusal::invalid(
                    cut::id_of(head, tail),
                    "message",
                    &reason,
                ));
                return;
            }
        };
        if let Some(tap) = &self.options.tap {
            tap.message(Direction::ToServer, CHANNEL, bytes);
        }
        match parse(bytes) {
            Ok(Parsed::Blank) => {}
            Ok(Parsed::One(message)) => {
                if let Err(refusal) = self.take_message(classify(message), None) {
                    self.refuse(&refusal);
                }
            }
            Ok(Parsed::Batch(members)) if lock(&self.state).takes_batches => {
                self.take_batch(members);
            }
            Ok(Parsed::Batch(_)) => self.refuse(&message::no_batch()),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn take_batch(&mut self, members: Vec<Value>) {
        let key = lock(&self.state).in_flight.open_batch();
        for member in members {
            if let Err(refusal) = self.take_message(classify_member(member), Some(key)) {
                let line = refusal.to_json().to_string();
                lock(&self.state).in_flight.refuse_member(key, line);
            }
        }
        let line = lock(&self.state).in_flight.seal_batch(key);
        if let Some(line) = line {
            self.write(line);
        }
    }

    fn take_message(
        &mut self,
        classified: Result<Option<ClientJsonRpcMessage>, Box<Refusal>>,
        batch: Option<BatchKey>,
    ) -> Result<(), Box<Refusal>> {
        if let Some(message) = classified? {
            let admitted = self.admit(message, batch)?;
            self.ahead.extend(admitted);
        }
        Ok(())
    }

    fn end_of(&self, id: RequestId, serial: Serial) -> CallEnd {
        let state = Arc::clone(&self.state);
        CallEnd::new(move || lock(&state).in_flight.ended(&id, serial))
    }

    /// Keeps away what would confuse the library.
    fn admit(
        &mut self,
        mut message: ClientJsonRpcMessage,
        batch: Option<BatchKey>,
    ) -> Result<Option<ClientJsonRpcMessage>, Box<Refusal>> {
        let mut state = lock(&self.state);
        match &mut message {
            JsonRpcMessage::Request(request) => {
                let refuse = |error| Err(Refusal::new(Some(request.id.clone()), error));
                let is_modern = request
                    .request
                    .get_meta()
                    .protocol_version()
                    .is_some_and(|revision| !revision.has_initialize());
                // Before the handshake the library answers it in every revision.
                if is_modern && matches!(request.request, ClientRequest::PingRequest(_)) {
                    return refuse(ErrorData::method_not_found::<PingRequestMethod>());
                }
                if !is_modern && let Some(error) = message::only_modern(&request.request) {
                    return refuse(error);
                }
                if state.in_flight.len() >= MAX_IN_FLIGHT {
                    return refuse(overloaded(is_modern, "too many requests at once"));
                }
                let Some(serial) = state.in_flight.begin(&request.id, batch) else {
                    return refuse(id_in_use());
                };
                drop(state);
                let end = self.end_of(request.id.clone(), serial);
                request.request.extensions_mut().insert(end);
                self.opened |= opens(&request.request);
            }
            JsonRpcMessage::Notification(notification) => {
                if !self.opened {
                    return Ok(None);
                }
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request gets no answer.
                    let line = state.in_flight.cancel(id);
                    drop(state);
                    if let Some(line) = line {
                        self.write(line);
                    }
                }
            }
            JsonRpcMessage::Response(response) if state.asked.remove(&response.id) => {}
            JsonRpcMessage::Error(error)
                if error.id.as_ref().is_some_and(|id| state.asked.remove(id)) => {}
            // An answer to nothing that was asked.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Ok(None),
        }
        Ok(Some(message))
    }
}

impl<W> Transport<RoleServer> for Lines<W>
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let output = self.output.clone();
        let state = Arc::clone(&self.state);
        async move {
            let line = serde_json::to_string(&message)?;
            let line = {
                let mut state = lock(&state);
                match &message {
                    JsonRpcMessage::Response(response) => {
                        if let ServerResult::InitializeResult(agreed) = &response.result {
                            state.takes_batches =
                                agreed.protocol_version == ProtocolVersion::V_2025_03_26;
                        }
                        state.in_flight.answer(&response.id, line)
                    }
                    JsonRpcMessage::Error(error) => match &error.id {
                        Some(id) => state.in_flight.answer(id, line),
                        None => Some(line),
                    },
                    JsonRpcMessage::Request(request) => {
                        state.asked.insert(request.id.clone());
                        Some(line)
                    }
                    JsonRpcMessage::Notification(_) => Some(line),
                }
            };
            match line {
                Some(line) => output.write(line).await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.ahead.pop_front() {
                return Some(message);
            }
            let Some(line) = self.input.recv().await else {
                break;
            };
            self.take(&line);
        }
        self.options.input_ended.cancel();
        // What was asked is still answered, by the library's loop as it stands: its own way to
        // wait loses what a handler says while it waits.
        let ends_at = *self
            .ends_at
            .get_or_insert_with(|| time::Instant::now() + LAST_ANSWERS);
        while lock(&self.state).in_flight.len() > 0 && time::Instant::now() < ends_at {
            time::sleep(LAST_ANSWERS_POLL).await;
        }
        // What was said by then must still go out; but not to a client that does not read.
        let said = async { while self.refusals.join_next().await.is_some() {} };
        let _ = time::timeout(LAST_WORDS, said).await;
        None
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.input.close();
        let flushed = async { self.output.stream.lock().await.flush().await };
        time::timeout(LAST_WORDS, flushed).await.unwrap_or(Ok(()))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the library leaves its handshake with this request.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28)
                .is_empty()
                && meta.protocol_version().is_some_and(|revision| {
                    ProtocolVersion::KNOWN_VERSIONS.contains(&revision)
                        && revision.as_str() >= ProtocolVersion::V_2025_03_26.as_str()
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn options(max_message_bytes: usize) -> StdioOptions {
        StdioOptions {
            max_message_bytes,
            ..StdioOptions::default()
        }
    }

    /// What is said to lines before the library sees any of them: `(id, code)`.
    async fn answers(lines: &[&[u8]], max_line_bytes: usize) -> Vec<(Value, i64)> {
        let (sent, output) = tokio::io::duplex(1 << 20);
        let input = io::Cursor::new(lines.join(&b'\n'));
        let mut transport = Lines::start(input, sent, options(max_line_bytes)).unwrap();
        while transport.receive().await.is_some() {}
        drop(transport);
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut tokio::io::BufReader::new(output), &mut text)
            .await
            .unwrap();
        let parse = |line: &str| {
            let answer: Value = serde_json::from_str(line).unwrap();
            (
                answer["id"].clone(),
                answer["error"]["code"].as_i64().unwrap(),
            )
        };
        let mut answers: Vec<_> = text.lines().map(parse).collect();
        answers.sort_by_key(|(id, code)| (id.to_string(), *code));
        answers
    }

    #[tokio::test]
    async fn what_is_no_json_is_a_parse_error_without_an_id() {
        let deep = "[".repeat(200);
        for line in [
            b"{not json".as_slice(),
            b"\"\xff\"",
            b"\"\\ud800\"",
            deep.as_bytes(),
        ] {
            assert_eq!(answers(&[line], 1_000).await, [(Value::Null, -32700)]);
        }
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused_with_the_id_that_can_be_read() {
        for (line, id) in [
            (r#"{"id": 3, "method": "ping"}"#, json!(3)),
            (
                r#"{"jsonrpc": "1.0", "id": "a", "method": "ping"}"#,
                json!("a"),
            ),
            (r#"{"jsonrpc": "2.0", "id": 3, "method": 5}"#, json!(3)),
            (r#"{"jsonrpc": "2.0", "id": 3}"#, json!(3)),
            (
                r#"{"jsonrpc": "2.0", "id": 3, "result": {}, "error": {"code": 1, "message": ""}}"#,
                json!(3),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#,
                Value::Null,
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#,
                Value::Null,
            ),
            (
                r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#,
                Value::Null,
            ),
            ("[]", Value::Null),
            (
                r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#,
                Value::Null,
            ),
        ] {
            assert_eq!(
                answers(&[line.as_bytes()], 1_000).await,
                [(id, -32600)],
                "{line}"
            );
        }
    }

    #[tokio::test]
    async fn parameters_of_a_wrong_type_are_invalid_parameters() {
        for line in [
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": []}"#,
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": "x"}}"#,
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"cursor": 5}}"#,
        ] {
            assert_eq!(
                answers(&[line.as_bytes()], 1_000).await,
                [(json!(3), -32602)],
                "{line}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_refused_and_the_next_one_is_read() {
        let long = vec![b'x'; 100_000];
        let next = br#"{"id": 3, "method": "ping"}"#;
        assert_eq!(
            answers(&[&long, next], 1_000).await,
            [(json!(3), -32600), (Value::Null, -32600)]
        );
    }

    #[tokio::test]
    async fn an_id_in_flight_is_refused_until_it_is_answered() {
        let ping = br#"{"jsonrpc": "2.0", "id": 3, "method": "ping"}"#;
        assert_eq!(answers(&[ping, ping], 1_000).await, [(json!(3), -32600)]);

        let (input, mut client) = io::pipe().unwrap();
        let (sent, _output) = tokio::io::duplex(1 << 20);
        let mut transport = Lines::start(io::BufReader::new(input), sent, options(1_000)).unwrap();
        for _ in 0..2 {
            client.write_all(ping).unwrap();
            client.write_all(b"\n").unwrap();
            let Some(JsonRpcMessage::Request(request)) = transport.receive().await else {
                panic!("the request is not passed on")
            };
            let error = ErrorData::internal_error("", None);
            transport
                .send(ServerJsonRpcMessage::error(error, Some(request.id)))
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn notifications_and_answers_before_the_handshake_are_dropped() {
        let lines: [&[u8]; 4] = [
            br#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}"#,
            br#"{"jsonrpc": "2.0", "id": 9, "result": {}}"#,
            b"",
            br#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}"#,
        ];
        let (sent, _output) = tokio::io::duplex(1 << 20);
        let mut transport =
            Lines::start(io::Cursor::new(lines.join(&b'\n')), sent, options(1_000)).unwrap();
        let first = transport.receive().await;
        assert!(
            matches!(&first, Some(JsonRpcMessage::Request(request)) if matches!(request.request, ClientRequest::InitializeRequest(_))),
            "{first:?}"
        );
        assert!(transport.receive().await.is_none());
    }
}
