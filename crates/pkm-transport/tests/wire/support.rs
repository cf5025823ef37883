//! A server of a few tools, and raw clients of both transports.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pkm_transport::{
    StdioOptions,
    http::{self, HttpOptions},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

pub(crate) const LEGACY: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

/// `echo` answers, `boom` panics, `wait` takes a while or until it is cancelled.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    n_started: Arc<AtomicUsize>,
    n_finished: Arc<AtomicUsize>,
    n_cancelled: Arc<AtomicUsize>,
}

impl Probe {
    /// Calls of `wait` so far: begun, come to their end, cancelled.
    pub(crate) fn waits(&self) -> (usize, usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (
            count(&self.n_started),
            count(&self.n_finished),
            count(&self.n_cancelled),
        )
    }
}

impl ServerHandler for Probe {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_resources()
                .enable_prompts()
                .enable_completions()
                .enable_tasks()
                .build(),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
        .with_server_info(Implementation::new("probe", "1"))
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        known
            .filter(|revision| revision.as_str() >= LEGACY[0])
            .cloned()
            .collect()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(json!({"type": "object"}).as_object().unwrap().clone());
        let tools = ["boom", "echo", "wait"].map(|name| Tool::new(name, name, Arc::clone(&schema)));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        match request.name.as_ref() {
            "echo" => {}
            "boom" => panic!("a tool that panics"),
            "wait" => {
                let ms = arguments["ms"].as_u64().unwrap();
                self.n_started.fetch_add(1, Ordering::SeqCst);
                if let Some(token) = context.meta.get_progress_token() {
                    let progress = ProgressNotificationParam::new(token, 1.0);
                    let _ = context.peer.notify_progress(progress).await;
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(ms)) => {
                        self.n_finished.fetch_add(1, Ordering::SeqCst);
                    }
                    () = context.ct.cancelled() => {
                        self.n_cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            _ => return Err(ErrorData::invalid_params("unknown tool", None)),
        }
        let text = serde_json::to_string(&arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// `(id, code)` of an answer; code 0 is a result.
pub(crate) type Answer = (Value, i64);

pub(crate) fn answer_of(message: &Value) -> Option<Answer> {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let has = |name| message.get(name).is_some();
    if has("method") {
        return None;
    }
    assert!(
        has("id") && has("result") != has("error"),
        "an answer has an id and one of result and error: {message}"
    );
    let code = if has("error") {
        assert!(message["error"]["message"].is_string(), "{message}");
        message["error"]["code"].as_i64().unwrap()
    } else {
        0
    };
    Some((message["id"].clone(), code))
}

/// The messages that begin a session.
pub(crate) fn handshake(revision: &str) -> Vec<Value> {
    vec![
        json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]
}

/// The message that calls a request off.
pub(crate) fn cancellation(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// What each request of the revision without sessions brings along.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    })
}

/// One line for each message.
pub(crate) fn lines(messages: &[Value]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(|message| format!("{message}\n").into_bytes())
        .collect()
}

/// A server whose input stays open.
pub(crate) struct Stdio {
    input: Option<std::io::PipeWriter>,
    output: tokio::io::ReadHalf<tokio::io::DuplexStream>,
    served: JoinHandle<Result<(), pkm_transport::Error>>,
}

impl Stdio {
    pub(crate) fn start(handler: Probe, options: StdioOptions) -> Self {
        let (input, writer) = std::io::pipe().unwrap();
        let (server, client) = tokio::io::duplex(1 << 22);
        let served = tokio::spawn(pkm_transport::serve_streams(
            handler,
            std::io::BufReader::new(input),
            server,
            options,
            CancellationToken::new(),
        ));
        Self {
            input: Some(writer),
            output: tokio::io::split(client).0,
            served,
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let mut input = self.input.take().unwrap();
        let bytes = bytes.to_vec();
        // A pipe holds little, and the server may be slow to read.
        self.input = tokio::task::spawn_blocking(move || {
            input.write_all(&bytes).unwrap();
            Some(input)
        })
        .await
        .unwrap();
    }

    /// The next message of the server.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = Vec::new();
        loop {
            match self.output.read_u8().await.expect("the server goes on") {
                b'\n' => return serde_json::from_slice(&line).unwrap(),
                byte => line.push(byte),
            }
        }
    }

    /// Closes the input; the rest of what the server says until it ends, which it must do well.
    pub(crate) async fn finish(mut self) -> Vec<Value> {
        drop(self.input.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).await.unwrap();
        self.served.await.unwrap().unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line is a message"))
            .collect()
    }
}

/// All that the server says to some bytes.
pub(crate) async fn on_stdio(input: &[u8], options: StdioOptions) -> Vec<Value> {
    let mut server = Stdio::start(Probe::default(), options);
    server.send(input).await;
    server.finish().await
}

/// The answer to one HTTP request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The messages in a body, be it JSON or a stream of events.
    pub(crate) fn messages(&self) -> Vec<Value> {
        if self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            return self
                .body
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .filter(|data| !data.trim().is_empty())
                .map(|data| serde_json::from_str(data).unwrap())
                .collect();
        }
        match self.body.as_str() {
            "" => Vec::new(),
            body => match serde_json::from_str(body).unwrap_or_else(|_| panic!("{self:?}")) {
                Value::Array(messages) => messages,
                message => vec![message],
            },
        }
    }

    pub(crate) fn answers(&self) -> Vec<Answer> {
        sorted(self.messages().iter().filter_map(answer_of).collect())
    }
}

pub(crate) fn sorted(mut answers: Vec<Answer>) -> Vec<Answer> {
    answers.sort_by_key(|(id, code)| (id.to_string(), *code));
    answers
}

/// A server on a port of its own.
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    pub(crate) probe: Probe,
    pub(crate) stop: CancellationToken,
    pub(crate) served: JoinHandle<Result<(), pkm_transport::Error>>,
}

impl Http {
    pub(crate) async fn start(options: HttpOptions) -> Self {
        let listener: TcpListener = http::bind("127.0.0.1:0".parse().unwrap(), &options)
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let (probe, stop) = (Probe::default(), CancellationToken::new());
        let served = tokio::spawn(http::serve(probe.clone(), listener, options, stop.clone()));
        Self {
            address,
            probe,
            stop,
            served,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        read_reply(&mut stream).await
    }

    /// Sends a request; `headers` are whole lines.
    pub(crate) async fn request(&self, method: &str, headers: &[String], body: &[u8]) -> Reply {
        self.raw(&request(self.address, method, headers, body))
            .await
    }

    pub(crate) async fn post(&self, headers: &[String], body: &[u8]) -> Reply {
        read_reply(&mut self.open(headers, body).await).await
    }

    /// As [`Http::post`], with the answer still to be read.
    pub(crate) async fn open(&self, headers: &[String], body: &[u8]) -> TcpStream {
        let mut all = vec![
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
        ];
        all.extend_from_slice(headers);
        let mut stream = self.connect().await;
        // The server may answer and close before it has read everything.
        let _ = stream
            .write_all(&request(self.address, "POST", &all, body))
            .await;
        stream
    }

    /// Begins a session; the headers that its requests need.
    pub(crate) async fn session(&self, revision: &str) -> Vec<String> {
        let [initialize, initialized] = handshake(revision).try_into().unwrap();
        let reply = self.post(&[], initialize.to_string().as_bytes()).await;
        assert_eq!(reply.answers(), [(json!("init"), 0)], "{reply:?}");
        let headers = vec![
            format!(
                "Mcp-Session-Id: {}",
                reply.header("mcp-session-id").unwrap()
            ),
            format!("MCP-Protocol-Version: {revision}"),
        ];
        let reply = self
            .post(&headers, initialized.to_string().as_bytes())
            .await;
        assert_eq!(reply.status, 202);
        headers
    }
}

pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    headers: &[String],
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\n").into_bytes();
    if !headers.iter().any(|line| line.starts_with("Host:")) {
        bytes.extend_from_slice(format!("Host: {address}\r\n").as_bytes());
    }
    for line in headers {
        bytes.extend_from_slice(format!("{line}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) async fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A reset after the answer is an end like any other.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    let is_chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    Reply {
        status,
        head: head.to_owned(),
        body: if is_chunked {
            unchunked(body)
        } else {
            body.to_owned()
        },
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
