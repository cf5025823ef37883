//! A client, a server and a data folder of their own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use pkm_embed::{Embedder, HashEmbedder};
use pkm_engine::{Engine, ModelSource, Settings, Worker};
use pkm_mcp::{Server, ServerOptions};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
        ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// Whether the server has a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    Hash,
    Absent,
}

/// A server and its data folder, for any number of clients.
pub(crate) struct Home {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) stop: CancellationToken,
    folder: tempfile::TempDir,
}

/// The notes in a folder.
fn engine_in(folder: &tempfile::TempDir, model: ModelSource) -> Engine {
    Engine::open(Settings {
        data_dir: folder.path().join("data"),
        model,
        worker: Worker::Background,
        trash_retention_days: 30,
    })
    .unwrap()
}

impl Home {
    pub(crate) fn new(model: Model) -> Arc<Self> {
        match model {
            Model::Hash => Self::with_embedder(Arc::new(HashEmbedder::new())),
            Model::Absent => Self::with_model(ModelSource::Absent {
                name: "some-model".into(),
                reason: "the model `some-model` is not installed".into(),
            }),
        }
    }

    pub(crate) fn with_embedder(embedder: Arc<dyn Embedder>) -> Arc<Self> {
        Self::with_model(ModelSource::Ready(embedder))
    }

    fn with_model(model: ModelSource) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        Self::on(folder, model)
    }

    /// With notes that were written before the server began.
    pub(crate) fn filled(embedder: Arc<dyn Embedder>, fill: impl FnOnce(&Engine)) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let before = Engine::open(Settings {
            data_dir: folder.path().join("data"),
            model: ModelSource::Ready(Arc::clone(&embedder)),
            worker: Worker::Off,
            trash_retention_days: 30,
        });
        fill(&before.unwrap());
        Self::on(folder, ModelSource::Ready(embedder))
    }

    /// With `search` and `fetch`.
    pub(crate) fn with_connector_tools() -> Arc<Self> {
        let model = ModelSource::Ready(Arc::new(HashEmbedder::new()));
        let options = ServerOptions {
            connector_tools: true,
        };
        Self::on_with(tempfile::tempdir().unwrap(), model, options)
    }

    fn on(folder: tempfile::TempDir, model: ModelSource) -> Arc<Self> {
        Self::on_with(folder, model, ServerOptions::default())
    }

    fn on_with(folder: tempfile::TempDir, model: ModelSource, options: ServerOptions) -> Arc<Self> {
        let engine = engine_in(&folder, model);
        let stop = CancellationToken::new();
        Arc::new(Self {
            server: Server::new(engine.clone(), options).with_stop(stop.clone()),
            stop,
            engine,
            folder,
        })
    }

    /// The same folder after the server's process has ended and begun anew.
    pub(crate) fn reopened(home: Arc<Self>) -> Arc<Self> {
        let Some(Self { folder, .. }) = Arc::into_inner(home) else {
            panic!("somebody still uses the server")
        };
        Self::on(folder, ModelSource::Ready(Arc::new(HashEmbedder::new())))
    }

    /// Another engine on the same folder, as another process has it.
    pub(crate) fn second_engine(&self) -> Engine {
        engine_in(
            &self.folder,
            ModelSource::Ready(Arc::new(HashEmbedder::new())),
        )
    }

    /// Serves one more connection.
    fn pipe(&self, n_bytes: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(n_bytes);
        let server = self.server.clone();
        tokio::spawn(async move {
            if let Ok(running) = server.serve(theirs).await {
                running.waiting().await.unwrap();
            }
        });
        ours
    }

    /// One more client, which can do nothing special.
    pub(crate) async fn connect(self: &Arc<Self>, revision: ProtocolVersion) -> Session {
        self.connect_as(revision, ClientCapabilities::default())
            .await
    }

    /// One more client.
    pub(crate) async fn connect_as(
        self: &Arc<Self>,
        revision: ProtocolVersion,
        capabilities: ClientCapabilities,
    ) -> Session {
        let lifecycle = if revision.has_initialize() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Discover {
                preferred_versions: vec![revision.clone()],
            }
        };
        let (told, news) = mpsc::unbounded_channel();
        let listener = Listener {
            revision,
            capabilities,
            progress: Arc::default(),
            answers: Arc::default(),
            questions: Arc::default(),
            told,
        };
        let client = serve_client_with_lifecycle(listener, self.pipe(1 << 20), lifecycle)
            .await
            .unwrap();
        Session {
            client,
            news: tokio::sync::Mutex::new(news),
            home: Arc::clone(self),
        }
    }

    /// A connection whose messages the test writes itself.
    pub(crate) fn raw(&self) -> Raw {
        self.raw_with(1 << 20)
    }

    /// The same over a pipe that holds so many bytes.
    pub(crate) fn raw_with(&self, n_bytes: usize) -> Raw {
        let (reader, writer) = tokio::io::split(self.pipe(n_bytes));
        Raw {
            reader: BufReader::new(reader),
            writer,
        }
    }
}

/// What a server says by itself in a session with a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Updated(String),
    ListChanged,
}

/// Keeps what it is told, and answers questions with what the test has laid ready.
#[derive(Clone)]
pub(crate) struct Listener {
    revision: ProtocolVersion,
    capabilities: ClientCapabilities,
    pub(crate) progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
    /// Answers to the next questions; without one left, the user is taken to have walked away.
    pub(crate) answers: Arc<Mutex<VecDeque<ElicitResult>>>,
    /// The questions asked.
    pub(crate) questions: Arc<Mutex<Vec<String>>>,
    told: mpsc::UnboundedSender<News>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(self.capabilities.clone(), Implementation::new("tests", "1"))
            .with_protocol_version(self.revision.clone())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _ = self.told.send(News::Updated(params.uri));
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.told.send(News::ListChanged);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("only forms are asked for")
        };
        self.questions.lock().unwrap().push(message);
        let answer = self.answers.lock().unwrap().pop_front();
        Ok(answer.unwrap_or_else(|| ElicitResult::new(ElicitationAction::Cancel)))
    }
}

/// A connected client.
pub(crate) struct Session {
    pub(crate) client: RunningService<RoleClient, Listener>,
    news: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
    pub(crate) home: Arc<Home>,
}

/// With the newest revision that has a handshake, and a model.
pub(crate) async fn session() -> Session {
    session_of(ProtocolVersion::V_2025_11_25, Model::Hash).await
}

/// With any revision.
pub(crate) async fn session_of(revision: ProtocolVersion, model: Model) -> Session {
    Home::new(model).connect(revision).await
}

/// A connection whose messages the test writes itself, a line each.
pub(crate) struct Raw {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    pub(crate) async fn send(&mut self, message: Value) {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.reader.read_line(&mut line).await.unwrap(), 0, "closed");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request and gives what answers it; what else comes meanwhile is passed over.
    pub(crate) async fn request(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// A handshake of 2025-11-25 with these capabilities; gives the server's.
    pub(crate) async fn shake_hands(&mut self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "tests", "version": "1"},
        });
        let answer = self.request(0, "initialize", params).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer["result"]["capabilities"].clone()
    }
}

/// `params` of a request of 2026-07-28 by a client with these capabilities.
pub(crate) fn modern(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    });
    params
}

/// Arguments of a tool.
pub(crate) fn call_of(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

impl Session {
    /// What the server says by itself next.
    pub(crate) async fn news(&self) -> News {
        self.news.lock().await.recv().await.unwrap()
    }

    /// Waits until the server has said all of this; gives what else it said until then.
    pub(crate) async fn hear(&self, wanted: &[News]) -> Vec<News> {
        let mut missing: Vec<&News> = wanted.iter().collect();
        let mut others = Vec::new();
        while !missing.is_empty() {
            let news = self.news().await;
            match missing.iter().position(|wanted| **wanted == news) {
                Some(found) => {
                    missing.remove(found);
                }
                None => others.push(news),
            }
        }
        others
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ErrorData> {
        match self.client.call_tool(call_of(tool, arguments)).await {
            Ok(result) => Ok(result),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(other) => panic!("no answer: {other}"),
        }
    }

    /// The structured content of a call that must succeed.
    pub(crate) async fn ask(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await.unwrap();
        assert_ne!(result.is_error, Some(true), "{result:?}");
        result.structured_content.unwrap()
    }

    /// The text of a call that must succeed.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await.unwrap();
        assert_ne!(result.is_error, Some(true), "{result:?}");
        text_of(&result)
    }

    /// The structured content of a call that must be refused by a result.
    pub(crate) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await.unwrap();
        assert_eq!(result.is_error, Some(true), "{result:?}");
        let content = result.structured_content.clone().unwrap();
        assert_eq!(
            content["message"],
            text_of(&result),
            "the text says the same"
        );
        content
    }

    /// Adds a note; gives its id.
    pub(crate) async fn add(&self, title: &str, content: &str) -> i64 {
        let added = self
            .ask("add_note", json!({"title": title, "content": content}))
            .await;
        added["id"].as_i64().unwrap()
    }

    /// Ids that a search found.
    pub(crate) async fn found(&self, tool: &str, arguments: Value) -> Vec<i64> {
        let answer = self.ask(tool, arguments).await;
        let matches = answer["matches"].as_array().unwrap();
        matches
            .iter()
            .map(|found| found["id"].as_i64().unwrap())
            .collect()
    }
}

pub(crate) fn text_of(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}
