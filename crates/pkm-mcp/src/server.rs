//! What the server answers, whatever the transport.

use std::{borrow::Cow, sync::Arc};

use pkm_engine::Engine;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
        GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, MetaObject,
        PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    blocking::blocking,
    progress::Forwarder,
    prompts, resources,
    text::cut,
    tools::{Answer, Tools, Turn},
    wire::{Fault, Refusal, Road, invalid_params},
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
revisions too.

Long work: reindex_notes answers within a minute with a job; while its state is queued or running, call job_status with \
the job_id and wait_seconds. Notes that you add are embedded by themselves.

Cite notes as [title](note://id).";

/// How long a client may keep the lists that change with the program only.
const LIST_TTL_MS: u64 = 300_000;

/// What is served: 2025-03-26 and later.
fn served_revisions() -> &'static [ProtocolVersion] {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let first = known
        .iter()
        .position(|revision| *revision == ProtocolVersion::V_2025_03_26)
        .unwrap_or(0);
    &known[first..]
}

/// The notes of one engine as an MCP server. Clones share everything; use one for each session.
#[derive(Clone)]
pub struct Server {
    engine: Engine,
    tools: Arc<Tools>,
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server for the notes of `engine`.
    pub fn new(engine: Engine) -> Self {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .build();
        let identity = Implementation::new("pkm", env!("CARGO_PKG_VERSION"))
            .with_title("PKM-MCP: personal notes")
            .with_description(
                "Notes on this computer, found by words and by meaning, in Korean and English",
            );
        let config = ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(identity)
            .with_instructions(INSTRUCTIONS);
        Self {
            engine,
            tools: Arc::new(Tools::new()),
            config: Arc::new(config),
        }
    }

    /// Calls a tool on a thread that may block, and tells the client its progress meanwhile.
    async fn call(
        &self,
        name: String,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, Fault> {
        let (progress, forwarder) = match context.meta.get_progress_token() {
            None => (None, None),
            Some(token) => {
                let (sender, states) = watch::channel(None);
                (
                    Some(sender),
                    Some(Forwarder::start(context.peer.clone(), token, states)),
                )
            }
        };
        let turn = Turn {
            engine: self.engine.clone(),
            progress,
            cancelled: context.ct.clone(),
        };
        let tools = Arc::clone(&self.tools);
        let outcome = tokio::select! {
            outcome = blocking("a tool", move || tools.call(&name, &turn, arguments)) => outcome,
            () = context.ct.cancelled() => Err(Fault::Refused(Refusal {
                code: "cancelled",
                message: "the request was cancelled".into(),
                retryable: true,
                details: json!({}),
            })),
        };
        if let Some(forwarder) = forwarder {
            forwarder.finish().await;
        }
        outcome?
    }

    /// Who answers, on each result of the revisions that have no handshake to say it in.
    fn identity(&self, context: &RequestContext<RoleServer>) -> Option<MetaObject> {
        let revision = context.protocol_version()?;
        if revision.has_initialize() {
            return None;
        }
        let identity = serde_json::to_value(&self.config.server_info).ok()?;
        let mut meta = MetaObject::new();
        meta.insert("io.modelcontextprotocol/serverInfo".into(), identity);
        Some(meta)
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

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        (*self.config).clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(served_revisions())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.definition(name).cloned()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        let mut result = ListToolsResult::with_all_items(self.tools.definitions());
        if let Some(identity) = self.identity(&context) {
            result = result
                .with_ttl_ms(LIST_TTL_MS)
                .with_cache_scope(CacheScope::Public);
            result.meta = Some(identity);
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        if self.tools.definition(&name).is_none() {
            let names: Vec<_> = self
                .tools
                .definitions()
                .into_iter()
                .map(|tool| tool.name)
                .collect();
            let reason = format!(
                "is `{}`; the tools are {}",
                cut(&name, 60).0,
                names.join(", ")
            );
            return Err(ErrorData::invalid_params(
                format!("unknown tool `{}`", cut(&name, 60).0),
                Some(json!({"field": "name", "reason": reason, "retryable": false})),
            ));
        }
        let road = Road::of(context.protocol_version().as_ref());
        let mut result = match self
            .call(name, request.arguments.unwrap_or_default(), &context)
            .await
        {
            Ok(Answer { content, text }) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(content);
                result
            }
            Err(fault) => fault.into_tool_answer(road)?,
        };
        result.meta = self.identity(&context);
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (engine, cursor) = (self.engine.clone(), cursor_of(request));
        let listing = blocking("listing resources", move || {
            resources::list(&engine, cursor)
        })
        .await;
        let mut result = listing
            .and_then(|page| page)
            .map_err(Fault::into_protocol_error)?;
        if let Some(identity) = self.identity(&context) {
            result = result.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
            result.meta = Some(identity);
        }
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let mut result = ListResourceTemplatesResult::with_all_items(resources::templates());
        if let Some(identity) = self.identity(&context) {
            result = result
                .with_ttl_ms(LIST_TTL_MS)
                .with_cache_scope(CacheScope::Public);
            result.meta = Some(identity);
        }
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (engine, uri) = (self.engine.clone(), request.uri);
        let contents = blocking("reading a resource", move || resources::read(&engine, &uri)).await;
        let mut result =
            ReadResourceResult::new(vec![contents.map_err(Fault::into_protocol_error)??]);
        if let Some(identity) = self.identity(&context) {
            result = result.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
            result.meta = Some(identity);
        }
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let mut result = ListPromptsResult::with_all_items(prompts::list());
        if let Some(identity) = self.identity(&context) {
            result = result
                .with_ttl_ms(LIST_TTL_MS)
                .with_cache_scope(CacheScope::Public);
            result.meta = Some(identity);
        }
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let engine = self.engine.clone();
        let prompt = blocking("filling in a prompt", move || {
            prompts::get(&engine, &request.name, request.arguments.as_ref())
        });
        let mut result = prompt.await.map_err(Fault::into_protocol_error)??;
        result.meta = self.identity(&context);
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let engine = self.engine.clone();
        let values = blocking("completing", move || {
            resources::complete(&engine, &request.r#ref, &request.argument)
        });
        let mut result = CompleteResult::new(values.await.map_err(Fault::into_protocol_error)??);
        result.meta = self.identity(&context);
        Ok(result)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("unknown method `{}`", cut(&request.method, 60).0),
            Some(json!({"method": cut(&request.method, 200).0, "retryable": false})),
        ))
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
