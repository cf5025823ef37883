//! A client, a server and a data folder of their own.

use std::sync::{Arc, Mutex};

use pkm_embed::HashEmbedder;
use pkm_engine::{Engine, ModelSource, Settings, Worker};
use pkm_mcp::Server;
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
        ProgressNotificationParam, ProtocolVersion,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RunningService, serve_client_with_lifecycle,
    },
};
use serde_json::{Value, json};

/// Whether the server has a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    Hash,
    Absent,
}

/// Keeps the progress that it is told.
#[derive(Clone)]
pub(crate) struct Listener {
    revision: ProtocolVersion,
    pub(crate) progress: Arc<Mutex<Vec<ProgressNotificationParam>>>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("tests", "1"),
        )
        .with_protocol_version(self.revision.clone())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params);
    }
}

/// A connected client.
pub(crate) struct Session {
    pub(crate) client: RunningService<RoleClient, Listener>,
    _folder: tempfile::TempDir,
}

/// With the newest revision that has a handshake, and a model.
pub(crate) async fn session() -> Session {
    session_of(ProtocolVersion::V_2025_11_25, Model::Hash).await
}

/// With any revision.
pub(crate) async fn session_of(revision: ProtocolVersion, model: Model) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let model = match model {
        Model::Hash => ModelSource::Ready(Arc::new(HashEmbedder::new())),
        Model::Absent => ModelSource::Absent {
            name: "some-model".into(),
            reason: "the model `some-model` is not installed".into(),
        },
    };
    let engine = Engine::open(Settings {
        data_dir: folder.path().join("data"),
        model,
        worker: Worker::Background,
        trash_retention_days: 30,
    })
    .unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = Server::new(engine);
    tokio::spawn(async move {
        if let Ok(running) = server.serve(theirs).await {
            running.waiting().await.unwrap();
        }
    });
    let lifecycle = if revision.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover {
            preferred_versions: vec![revision.clone()],
        }
    };
    let listener = Listener {
        revision,
        progress: Arc::default(),
    };
    let client = serve_client_with_lifecycle(listener, ours, lifecycle)
        .await
        .unwrap();
    Session {
        client,
        _folder: folder,
    }
}

impl Session {
    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ErrorData> {
        let Value::Object(arguments) = arguments else {
            panic!("arguments are an object")
        };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.client.call_tool(request).await {
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
