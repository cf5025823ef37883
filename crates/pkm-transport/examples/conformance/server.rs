//! The fixtures as one server.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CompleteRequestParams, CompleteResult, ContentBlock, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, RequestStateCodec, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
    task_manager::TaskManager,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::{
    content,
    questions::{self, Outcome, Round},
    tasks,
    tools::{self, TOOLS},
};

/// Reads a value as the wire has it.
pub(crate) fn wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Which list a subscriber should read again.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Tools,
    Prompts,
}

/// The server; clones share tasks and subscribers.
#[derive(Clone)]
pub(crate) struct Fixtures {
    tasks: TaskManager,
    seal: RequestStateCodec,
    changes: broadcast::Sender<Change>,
}

impl Fixtures {
    pub(crate) fn new() -> Self {
        Self {
            tasks: TaskManager::new(),
            // Nothing here is worth a secret.
            seal: RequestStateCodec::try_new(*b"a key for the conformance suite.")
                .expect("32 bytes are enough"),
            changes: broadcast::channel(16).0,
        }
    }

    /// Tells all subscribers; it may be that there are none.
    pub(crate) fn announce(&self, change: Change) {
        let _ = self.changes.send(change);
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("pkm-conformance", "0.0.0"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        let arguments = request.arguments.clone().unwrap_or_default();
        tasks::require(name, &context)?;
        let round = Round {
            name,
            answers: request.input_responses.as_ref(),
            state: request.request_state.as_deref(),
            capabilities: context.client_capabilities(),
            seal: &self.seal,
        };
        let mut who = None;
        match questions::answer(&round).transpose()? {
            Some(Outcome::Ask(questions)) => return Ok(questions.into()),
            Some(Outcome::Done(name_given)) if name == "test_tool_with_task" => {
                who = Some(name_given);
            }
            Some(Outcome::Done(text)) => {
                return Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
            }
            None => {}
        }
        if let Some(result) = tools::call(self, name, &arguments, &context).await {
            return result.map(Into::into);
        }
        let task = tasks::call(&self.tasks, name, arguments, who, &context).await;
        task.unwrap_or_else(|| {
            let data = json!({"field": "name"});
            Err(ErrorData::invalid_params("unknown tool", Some(data)))
        })
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(content::resources()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            content::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match content::read(&request.uri) {
            Some(contents) => Ok(ReadResourceResult::new(vec![wire(contents)?]).into()),
            None => {
                let data = json!({"uri": request.uri});
                Err(ErrorData::resource_not_found(
                    "no such resource",
                    Some(data),
                ))
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(content::prompts()?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let round = Round {
            name: &request.name,
            answers: request.input_responses.as_ref(),
            state: request.request_state.as_deref(),
            capabilities: context.client_capabilities(),
            seal: &self.seal,
        };
        let messages = match questions::answer(&round).transpose()? {
            Some(Outcome::Ask(questions)) => return Ok(questions.into()),
            Some(Outcome::Done(text)) => {
                json!([{"role": "user", "content": {"type": "text", "text": text}}])
            }
            None => content::messages(&request.name, &request.arguments.unwrap_or_default())
                .ok_or_else(|| {
                    let data = json!({"field": "name"});
                    ErrorData::invalid_params("unknown prompt", Some(data))
                })?,
        };
        let prompt: GetPromptResult =
            wire(json!({"resultType": "complete", "messages": messages}))?;
        Ok(prompt.into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // What this subscriber did not ask for is refused by its sink; that is as it should be.
            let _ = match change {
                Ok(Change::Tools) => subscription.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => subscription.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks
            .get_task(&request.task_id)
            .map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
