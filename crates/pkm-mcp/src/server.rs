//! What the server answers, whatever the transport.

mod call;

use std::{borrow::Cow, sync::Arc};

use pkm_engine::Engine;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
        GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Icon,
        Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, MetaObject,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    blocking::blocking,
    caller::Caller,
    confirm::Confirmations,
    feed::Feed,
    prompts,
    resources::{self, Address},
    signature::{self, Sign},
    subscriptions::{self, MAX_RESOURCES, Outlet, Session, Wanted},
    tasks,
    text::cut,
    tools::Tools,
    wire::invalid_params,
};

/// For models: what this is, how to search well, how to edit safely, what takes long.
const INSTRUCTIONS: &str = "\
A person's own notes (Markdown), in Korean, English or both, kept on this computer.

Finding: search_notes finds words and sees every note at once; give it the bare noun (인증, not 인증을), a name, a code. \
semantic_search_notes finds meaning across languages; give it a whole question in the user's own language. If one finds \
nothing, try the other, then a synonym or the other language. `index.state` says whether all notes could be seen: with \
`partial` or `keyword_only` an empty answer does not prove that there is no such note. Snippets are passages; get_note \
gives the note.

Writing: search before you add, so that one subject stays one note. To edit, read the note, then call update_note with \
the `revision` you read as expected_revision; prefer `replace` or `append` over sending the whole text. On a conflict \
read the note again and redo the edit. Deleting goes to the trash; restore_note undoes it, and brings back former \
revisions too. empty_trash cannot be undone: only when the user asks for it.

Long work: reindex_notes answers within a minute with a job; while its state is queued or running, call job_status with \
the job_id and wait_seconds. Notes that you add are embedded by themselves.

Cite notes as [title](note://id).";

/// Two notes and the line between them. The tools have none: it would add 5 kB to a list of 27.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' \
    stroke='%235b6ee1' stroke-width='2'%3E%3Crect x='3' y='3' width='8' height='10' rx='1.5'/%3E%3Crect x='13' y='11' \
    width='8' height='10' rx='1.5'/%3E%3Cpath d='M11 8h3a3 3 0 0 1 3 3M7 13v3a2 2 0 0 0 2 2h4'/%3E%3C/svg%3E";

/// What is served: 2025-03-26 and later.
fn served_revisions() -> &'static [ProtocolVersion] {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let first = known
        .iter()
        .position(|revision| *revision == ProtocolVersion::V_2025_03_26)
        .unwrap_or(0);
    &known[first..]
}

/// What a server offers beyond what every server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerOptions {
    /// The tools `search` and `fetch`, in the shape that connectors of chat applications look
    /// for. A model that is shown all tools would have two ways to search, so they are off by
    /// default.
    pub connector_tools: bool,
}

/// The notes of one engine as an MCP server, for one session. A clone serves the same notes in a
/// session of its own: it begins without subscriptions.
pub struct Server {
    shared: Arc<Shared>,
    session: Session,
}

/// What the sessions of a process have in common.
#[derive(Clone)]
struct Shared {
    engine: Engine,
    tools: Arc<Tools>,
    config: ServerConfig,
    identity: MetaObject,
    feed: Feed,
    confirmations: Arc<Confirmations>,
    stop: CancellationToken,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            session: Session::new(),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("tools", &self.shared.tools)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server for the notes of `engine`.
    pub fn new(engine: Engine, options: ServerOptions) -> Self {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .enable_tasks()
            .build();
        let server = Implementation::new("pkm", env!("CARGO_PKG_VERSION"))
            .with_title("PKM-MCP: personal notes");
        let identity = signature::identity(&server);
        let server = server
            .with_description(
                "Notes on this computer, found by words and by meaning, in Korean and English",
            )
            .with_icons(vec![
                Icon::new(ICON)
                    .with_mime_type("image/svg+xml")
                    .with_sizes(vec!["any".into()]),
            ]);
        let config = ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS);
        Self {
            shared: Arc::new(Shared {
                feed: Feed::new(engine.clone()),
                engine,
                tools: Arc::new(Tools::new(options)),
                config,
                identity,
                confirmations: Arc::new(Confirmations::new()),
                stop: CancellationToken::new(),
            }),
            session: Session::new(),
        }
    }

    /// The same server, which ends the subscriptions of its clients in due form once `stop` is
    /// cancelled.
    #[must_use]
    pub fn with_stop(self, stop: CancellationToken) -> Self {
        let shared = Shared {
            stop,
            ..(*self.shared).clone()
        };
        Self {
            shared: Arc::new(shared),
            session: self.session,
        }
    }

    /// Asks the engine on a thread that may block.
    async fn ask<T: Send + 'static, E: Into<ErrorData> + Send + 'static>(
        &self,
        doing: &str,
        question: impl FnOnce(&Engine) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let engine = self.shared.engine.clone();
        blocking(doing, move || question(&engine))
            .await?
            .map_err(Into::into)
    }

    /// A result as the caller's revision wants it: with the server's name where no handshake said
    /// it.
    fn signed<T: Sign>(&self, context: &RequestContext<RoleServer>, mut result: T) -> T {
        if Caller::of(context).is_modern() {
            result.sign(self.shared.identity.clone());
        }
        result
    }
}

/// The lists of tools, prompts and templates have one page.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match cursor_of(request) {
        None => Ok(()),
        Some(_) => Err(invalid_params("cursor", "is not one that this server gave")),
    }
}

/// The cursor; an empty one stands for the first page with some clients.
fn cursor_of(request: Option<PaginatedRequestParams>) -> Option<String> {
    request
        .and_then(|request| request.cursor)
        .filter(|cursor| !cursor.is_empty())
}

fn unknown_method(method: &str) -> ErrorData {
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("unknown method `{}`", cut(method, 60).0),
        Some(json!({"method": cut(method, 200).0, "retryable": false})),
    )
}

/// Tasks are for revisions without a handshake, whatever a client declares in one.
fn only_modern(method: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if Caller::of(context).is_modern() {
        Ok(())
    } else {
        Err(unknown_method(method))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        self.shared.config.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(served_revisions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut config = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        // No revision with a handshake has our extensions.
        config.capabilities.extensions = None;
        // From the handshake on, nothing that changes is missed.
        let feed = self.shared.feed.clone();
        match blocking("starting to watch the notes", move || feed.listen()).await? {
            Ok(listener) => self.session.prepare(listener),
            Err(fault) => tracing::warn!(?fault, "a client will not hear of changes"),
        }
        Ok(config)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.session.start(context.peer, self.shared.stop.clone());
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let revisions = served_revisions().to_vec();
        let discovery = DiscoverResult::from_server_info(revisions, self.get_info());
        Ok(signature::discovered(discovery))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.tools.definition(name).cloned()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        let tools = ListToolsResult::with_all_items(self.shared.tools.definitions());
        Ok(self.signed(&context, tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.respond(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = cursor_of(request);
        let page = self.ask("listing resources", |engine| {
            resources::list(engine, cursor)
        });
        Ok(self.signed(&context, page.await?))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let templates = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(self.signed(&context, templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = self.ask("reading a resource", move |engine| {
            resources::read(engine, &request.uri)
        });
        let result = ReadResourceResult::new(vec![contents.await?]);
        Ok(self.signed(&context, result).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let prompts = ListPromptsResult::with_all_items(prompts::list());
        Ok(self.signed(&context, prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = self.ask("filling in a prompt", move |engine| {
            prompts::get(engine, &request.name, request.arguments.as_ref())
        });
        Ok(self.signed(&context, prompt.await?).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = self.ask("completing", move |engine| {
            resources::complete(engine, &request.r#ref, &request.argument)
        });
        Ok(self.signed(&context, CompleteResult::new(values.await?)))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let uri = request.uri.clone();
        let address = self.ask("reading a resource", move |engine| {
            resources::find(engine, &uri)
        });
        if !self.session.subscribe(address.await?, request.uri) {
            let reason = format!("is one more than the {MAX_RESOURCES} that a session may watch");
            return Err(invalid_params("uri", reason));
        }
        // For clients that leave out to say that they are ready.
        self.session.start(context.peer, self.shared.stop.clone());
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Some(address) = Address::parse(&request.uri) {
            self.session.unsubscribe(address);
        }
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let wanted = Wanted::of(requested);
        // The client is told next that the subscription stands: it must miss nothing from here on.
        if !wanted.is_empty()
            && let Err(fault) = self.shared.feed.promise()
        {
            tracing::warn!(?fault, "a client will not hear of changes");
            return Some(SubscriptionFilter::new());
        }
        Some(wanted.into_filter())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let wanted = Wanted::of(context.accepted());
        if wanted.is_empty() {
            tokio::select! {
                () = context.cancelled() => {}
                () = self.shared.stop.cancelled() => {}
            }
            return Ok(());
        }
        let listener = self.shared.feed.take_up()?;
        let outlet = Outlet::Stream(context.sink().clone());
        let wanted = watch::Sender::new(wanted);
        let stop = self.shared.stop.clone();
        tokio::select! {
            () = context.cancelled() => {}
            () = subscriptions::deliver(outlet, wanted.subscribe(), listener, stop) => {}
        }
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        only_modern("tasks/get", &context)?;
        let task = self.ask("reading a task", move |engine| {
            tasks::get(engine, &request.task_id)
        });
        Ok(self.signed(&context, GetTaskResult::new(task.await?)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        only_modern("tasks/update", &context)?;
        self.ask("updating a task", move |engine| {
            tasks::update(engine, &request.task_id)
        })
        .await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        only_modern("tasks/cancel", &context)?;
        self.ask("cancelling a task", move |engine| {
            tasks::cancel(engine, &request.task_id)
        })
        .await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(unknown_method(&request.method))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_served_revisions_are_those_of_the_contract() {
        let names: Vec<_> = served_revisions()
            .iter()
            .map(ProtocolVersion::as_str)
            .collect();
        assert_eq!(
            names,
            ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
        );
    }
}
