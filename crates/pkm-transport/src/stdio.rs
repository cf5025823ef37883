//! Standard input and output as a transport that leaves no request without an answer.
//!
//! The protocol library drops what it cannot read; here each line is looked at first. What is no
//! JSON-RPC message is answered with the fitting error, and what would end the server before its
//! handshake (an early notification) is dropped.

mod lines;
mod message;

use std::{
    collections::HashSet,
    io::{self, BufRead},
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta,
        JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::{
    lines::{Line, read_lines},
    message::{Unreadable, read},
};
use crate::Error;

/// Lines read ahead of the server.
const LINES_AHEAD: usize = 16;

/// Reads lines on a thread of its own and writes answers to `W`.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    input: mpsc::Receiver<Line>,
    output: Arc<tokio::sync::Mutex<W>>,
    in_flight: Arc<Mutex<HashSet<RequestId>>>,
    /// Errors on their way to the client.
    refusals: JoinSet<()>,
    max_line_bytes: usize,
    /// The library has had the request that ends its handshake.
    opened: bool,
}

/// The process's own streams.
pub(crate) fn standard_streams(max_line_bytes: usize) -> Result<Lines<tokio::io::Stdout>, Error> {
    Lines::start(
        io::BufReader::new(io::stdin()),
        tokio::io::stdout(),
        max_line_bytes,
    )
}

/// Asks the server to stop when the process is asked to.
pub(crate) fn stop_on_signal(
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send, Error> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|source| Error::System {
        doing: "listening for SIGTERM",
        source,
    })?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
        tracing::info!("asked to stop");
        stop.cancel();
    })
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
        max_line_bytes: usize,
    ) -> Result<Self, Error> {
        let (sender, receiver) = mpsc::channel(LINES_AHEAD);
        std::thread::Builder::new()
            .name("pkm-stdin".into())
            .spawn(move || read_lines(input, max_line_bytes, &sender))
            .map_err(|source| Error::System {
                doing: "starting the thread that reads the input",
                source,
            })?;
        Ok(Self {
            input: receiver,
            output: Arc::new(tokio::sync::Mutex::new(output)),
            in_flight: Arc::default(),
            refusals: JoinSet::new(),
            max_line_bytes,
            opened: false,
        })
    }

    /// Answers on the library's behalf. Not awaited: `receive` can be dropped half way, and half a
    /// line must not be left in the output.
    fn refuse(&mut self, id: Option<&RequestId>, code: ErrorCode, message: &str, data: &Value) {
        let line = json!({
            "jsonrpc": "2.0",
            "id": id.map_or(Value::Null, |id| id.clone().into_json_value()),
            "error": {"code": code.0, "message": message, "data": data},
        });
        let output = Arc::clone(&self.output);
        while self.refusals.try_join_next().is_some() {}
        self.refusals.spawn(async move {
            if let Err(error) = write_line(&output, line.to_string()).await {
                tracing::debug!(%error, "the client did not take an error");
            }
        });
    }

    fn take(&mut self, line: &Line) -> Option<ClientJsonRpcMessage> {
        let bytes = match line {
            Line::Bytes(bytes) => bytes,
            Line::TooLong => {
                let reason = format!("is longer than {} bytes", self.max_line_bytes);
                let data = json!({"field": "message", "reason": reason, "retryable": false});
                self.refuse(
                    None,
                    ErrorCode::INVALID_REQUEST,
                    "the message is too long",
                    &data,
                );
                return None;
            }
        };
        match read(bytes) {
            Ok(None) => None,
            Ok(Some(message)) => self.admit(message),
            Err(unreadable) => {
                let Unreadable {
                    id,
                    error:
                        ErrorData {
                            code,
                            message,
                            data,
                        },
                } = *unreadable;
                self.refuse(id.as_ref(), code, &message, &data.unwrap_or(Value::Null));
                None
            }
        }
    }

    /// Keeps away what would confuse the library.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if !lock(&self.in_flight).insert(request.id.clone()) {
                    let reason = "is that of a request that is still being answered";
                    let data = json!({"field": "id", "reason": reason, "retryable": true});
                    self.refuse(
                        Some(&request.id),
                        ErrorCode::INVALID_REQUEST,
                        "the id is in use",
                        &data,
                    );
                    return None;
                }
                self.opened |= opens(&request.request);
            }
            JsonRpcMessage::Notification(notification) => {
                if !self.opened {
                    return None;
                }
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request gets no answer.
                    lock(&self.in_flight).remove(id);
                }
            }
            // Nothing is ever asked of the client.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return None,
        }
        Some(message)
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
        match &message {
            JsonRpcMessage::Response(response) => {
                lock(&self.in_flight).remove(&response.id);
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    lock(&self.in_flight).remove(id);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        let output = Arc::clone(&self.output);
        async move { write_line(&output, serde_json::to_string(&message)?).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        while let Some(line) = self.input.recv().await {
            if let Some(message) = self.take(&line) {
                return Some(message);
            }
        }
        // The server ends with its input, and what was said by then must still go out.
        while self.refusals.join_next().await.is_some() {}
        None
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.input.close();
        self.output.lock().await.flush().await
    }
}

async fn write_line<W: AsyncWrite + Unpin>(
    output: &tokio::sync::Mutex<W>,
    mut line: String,
) -> io::Result<()> {
    line.push('\n');
    let mut output = output.lock().await;
    output.write_all(line.as_bytes()).await?;
    output.flush().await
}

fn lock(in_flight: &Mutex<HashSet<RequestId>>) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
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

    use super::*;

    /// What is said to lines before the library sees any of them: `(id, code)`.
    async fn answers(lines: &[&[u8]], max_line_bytes: usize) -> Vec<(Value, i64)> {
        let (sent, output) = tokio::io::duplex(1 << 20);
        let input = io::Cursor::new(lines.join(&b'\n'));
        let mut transport = Lines::start(input, sent, max_line_bytes).unwrap();
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
        let mut transport = Lines::start(io::BufReader::new(input), sent, 1_000).unwrap();
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
        let mut transport = Lines::start(io::Cursor::new(lines.join(&b'\n')), sent, 1_000).unwrap();
        let first = transport.receive().await;
        assert!(
            matches!(&first, Some(JsonRpcMessage::Request(request)) if matches!(request.request, ClientRequest::InitializeRequest(_))),
            "{first:?}"
        );
        assert!(transport.receive().await.is_none());
    }
}
