//! Fixtures that run as tasks: the `io.modelcontextprotocol/tasks` extension of 2026-07-28.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult,
        JsonObject, ProtocolVersion,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::Value;
use tokio::time::sleep;

use crate::questions::{accepted, form, request};

/// What a tool does about tasks.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// Without tasks the call takes as long as it takes.
    Optional,
    /// Without tasks there is no answer.
    Required,
}

fn need(name: &str) -> Option<Need> {
    match name {
        "slow_compute" => Some(Need::Optional),
        "failing_job"
        | "protocol_error_job"
        | "confirm_delete"
        | "multi_input"
        | "test_tool_with_task" => Some(Need::Required),
        _ => None,
    }
}

/// Whether this request may be answered with a task.
fn offered(context: &RequestContext<RoleServer>) -> bool {
    let modern = context
        .protocol_version()
        .is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28);
    let declared = context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks());
    modern && declared
}

/// Refuses a call that can only be answered with a task to a client that knows none.
///
/// # Errors
///
/// −32021, naming the extension.
pub(crate) fn require(name: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    if need(name) == Some(Need::Required) && !offered(context) {
        return Err(ErrorData::missing_required_client_capability(
            ClientCapabilities::builder().enable_tasks().build(),
        ));
    }
    Ok(())
}

/// Runs the tool; `None` when it is none that runs as a task. `who` is what was asked for beforehand.
pub(crate) async fn call(
    tasks: &TaskManager,
    name: &str,
    arguments: JsonObject,
    who: Option<String>,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let need = need(name)?;
    if need == Need::Optional && !offered(context) {
        sleep(duration(&arguments)).await;
        return Some(Ok(computed(&arguments).into()));
    }
    let name = name.to_owned();
    let options = TaskOptions::new().with_poll_interval_ms(200);
    let task = tasks.spawn(options, move |task| {
        Box::pin(async move {
            tokio::select! {
                () = task.cancelled() => Err(TaskExit::Cancelled),
                outcome = run(&name, &arguments, who, &task) => outcome,
            }
        })
    });
    Some(Ok(CreateTaskResult::new(task).into()))
}

async fn run(
    name: &str,
    arguments: &JsonObject,
    who: Option<String>,
    task: &TaskContext,
) -> Result<CallToolResult, TaskExit> {
    let confirm = |key, message| {
        let (key, method, params) = form(key, message, "confirm", "boolean");
        let request = request(method, &params);
        async move { task.request_input(key, request?).await }
    };
    match name {
        "slow_compute" => {
            sleep(duration(arguments)).await;
            Ok(computed(arguments))
        }
        "failing_job" => {
            sleep(Duration::from_millis(300)).await;
            Ok(CallToolResult::error(vec![ContentBlock::text(
                "the job ran and failed",
            )]))
        }
        "confirm_delete" => {
            let filename = arguments.get("filename").and_then(Value::as_str);
            let answer = confirm("confirm", "Delete the file?").await?;
            let verb = match accepted(Some(&answer)) {
                Some(_) => "deleted",
                None => "kept",
            };
            Ok(text(format!("{verb} {}", filename.unwrap_or("it"))))
        }
        "multi_input" => {
            let (first, second) = tokio::try_join!(
                confirm("first", "The first?"),
                confirm("second", "The second?")
            )?;
            let n_accepted = [first, second]
                .iter()
                .filter(|answer| accepted(Some(answer)).is_some())
                .count();
            Ok(text(format!("{n_accepted} of 2 accepted")))
        }
        "test_tool_with_task" => {
            sleep(Duration::from_millis(100)).await;
            Ok(text(format!("Done for {}.", who.unwrap_or_default())))
        }
        _ => Err(TaskExit::Error(ErrorData::internal_error(
            "the job could not be run",
            None,
        ))),
    }
}

fn duration(arguments: &JsonObject) -> Duration {
    let seconds = arguments.get("seconds").and_then(Value::as_f64);
    Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default()
}

fn computed(arguments: &JsonObject) -> CallToolResult {
    let label = arguments.get("label").and_then(Value::as_str);
    text(format!("computed {}", label.unwrap_or("it")))
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}
