//! A handler whose panics are answered.

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hasher, RandomState},
    panic::AssertUnwindSafe,
};

use futures::FutureExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::json;

/// The error of a defect on our side. The cause goes to the log under a reference, and the
/// reference is all that the client gets to see.
pub fn defect(doing: &str, cause: &dyn std::fmt::Display) -> ErrorData {
    let reference = format!("{:016x}", RandomState::new().build_hasher().finish());
    tracing::error!(%reference, %cause, "{doing} failed");
    ErrorData::internal_error(
        "internal error; the server's log has the details",
        Some(json!({"reference": reference, "retryable": false})),
    )
}

/// What a panic said.
pub fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", words.unwrap_or("without words"))
}

/// Hands everything to `H` and turns its panics into errors: rmcp leaves the request of a handler
/// that panics without an answer for ever.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<H>(pub(crate) H);

async fn guarded<T>(
    doing: &str,
    answer: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(defect(doing, &panic_words(panic.as_ref()))),
    }
}

async fn guarded_notification(doing: &str, work: impl Future<Output = ()>) {
    if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
        defect(doing, &panic_words(panic.as_ref()));
    }
}

macro_rules! requests {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        async fn $name(
            &self,
            $($argument: $type,)*
            context: RequestContext<RoleServer>,
        ) -> Result<$answer, ErrorData> {
            guarded(stringify!($name), async { self.0.$name($($argument,)* context).await }).await
        }
    )*};
}

macro_rules! notifications {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        async fn $name(&self, $($argument: $type,)* context: NotificationContext<RoleServer>) {
            guarded_notification(
                stringify!($name),
                async { self.0.$name($($argument,)* context).await },
            ).await;
        }
    )*};
}

#[expect(
    deprecated,
    reason = "the revisions that have these methods are still served"
)]
impl<H: ServerHandler> ServerHandler for Guarded<H> {
    requests! {
        ping() -> ();
        initialize(request: InitializeRequestParams) -> InitializeResult;
        discover() -> DiscoverResult;
        complete(request: CompleteRequestParams) -> CompleteResult;
        set_level(request: SetLevelRequestParams) -> ();
        get_prompt(request: GetPromptRequestParams) -> GetPromptResponse;
        list_prompts(request: Option<PaginatedRequestParams>) -> ListPromptsResult;
        list_resources(request: Option<PaginatedRequestParams>) -> ListResourcesResult;
        list_resource_templates(request: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        read_resource(request: ReadResourceRequestParams) -> ReadResourceResponse;
        subscribe(request: SubscribeRequestParams) -> ();
        unsubscribe(request: UnsubscribeRequestParams) -> ();
        call_tool(request: CallToolRequestParams) -> CallToolResponse;
        list_tools(request: Option<PaginatedRequestParams>) -> ListToolsResult;
        on_custom_request(request: CustomRequest) -> CustomResult;
        get_task(request: GetTaskParams) -> GetTaskResult;
        update_task(request: UpdateTaskParams) -> ();
        cancel_task(request: CancelTaskParams) -> ();
        list_skills(request: Option<PaginatedRequestParams>) -> ListSkillsResult;
        get_skill(request: GetSkillRequestParams) -> GetSkillResult;
        read_resource_directory(request: ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
    }

    notifications! {
        on_cancelled(notification: CancelledNotificationParam);
        on_progress(notification: ProgressNotificationParam);
        on_initialized();
        on_roots_list_changed();
        on_custom_notification(notification: CustomNotification);
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        guarded("listen", async { self.0.listen(subscription).await }).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.0.accepted_subscription_filter(requested)
    }

    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.get_tool(name)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error_with_a_reference() {
        let error = guarded::<()>("a test", async { panic!("secret") })
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
        assert!(!error.message.contains("secret"));
        assert!(error.data.unwrap()["reference"].is_string());
    }
}
