//! One call of a tool: run where it may block, its progress told, its job handed over as a task.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pkm_engine::JobId;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CreateTaskResult, JsonObject, Task},
    service::RequestContext,
};
use serde_json::json;
use tokio::sync::watch;

use super::Server;
use crate::{
    blocking::blocking,
    caller::Caller,
    confirm::{self, Consent},
    progress::Forwarder,
    tasks,
    text::cut,
    tools::{self, Answer, Turn},
    wire::Fault,
};

/// How long a call waits for the user's replies in all: clients give up after a minute.
const MAX_ASKING: Duration = Duration::from_secs(50);

impl Server {
    pub(super) async fn respond(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        if self.shared.tools.definition(&name).is_none() {
            return Err(self.unknown_tool(&name));
        }
        let caller = Caller::of(&context);
        let arguments = request.arguments.unwrap_or_default();
        let bound_to = confirm::bound_to(&name, &arguments);
        let mut consent = match &request.request_state {
            _ if !caller.takes_questions() => Consent::CannotAsk,
            Some(state) if caller.is_modern() && self.shared.tools.asks(&name) => {
                let replies = request.input_responses.as_ref();
                self.shared.confirmations.reply(state, replies, &bound_to)?
            }
            _ => Consent::CanAsk,
        };
        let asked_since = Instant::now();
        let outcome = loop {
            let call = self.call(&name, arguments.clone(), consent, &caller, &context);
            match call.await {
                Err(Fault::MustAsk(question)) if caller.is_modern() => {
                    let asked = self.shared.confirmations.question(question, &bound_to)?;
                    return Ok(self.signed(&context, asked).into());
                }
                Err(Fault::MustAsk(question)) => {
                    let patience = MAX_ASKING.saturating_sub(asked_since.elapsed());
                    match confirm::ask(&context.peer, question, patience, &context.ct).await {
                        Ok(reply) => consent = reply,
                        Err(fault) => break Err(fault),
                    }
                }
                outcome => break outcome,
            }
        };
        let result = match outcome {
            Ok(Answer { job: Some(job), .. }) if caller.takes_tasks() => {
                let task = CreateTaskResult::new(self.task(job).await?);
                return Ok(self.signed(&context, task).into());
            }
            Ok(answer) => answer.into_result(),
            Err(fault) => fault.into_tool_answer(caller.road())?,
        };
        Ok(self.signed(&context, result).into())
    }

    /// Calls a tool on a thread that may block, and tells the client its progress meanwhile.
    async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        consent: Consent,
        caller: &Caller,
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
            engine: self.shared.engine.clone(),
            progress,
            cancelled: context.ct.clone(),
            consent,
            takes_tasks: caller.takes_tasks(),
        };
        let (tools, name) = (Arc::clone(&self.shared.tools), name.to_owned());
        let outcome = tokio::select! {
            outcome = blocking("a tool", move || tools.call(&name, &turn, arguments)) => outcome,
            () = context.ct.cancelled() => Err(tools::cancelled()),
        };
        if let Some(forwarder) = forwarder {
            forwarder.finish().await;
        }
        outcome?
    }

    /// The task that stands for a job, whose row is on disk.
    async fn task(&self, job: JobId) -> Result<Task, ErrorData> {
        self.ask("reading a job", move |engine| {
            engine
                .job(job)
                .map(|job| tasks::of(&job))
                .map_err(Fault::from)
        })
        .await
    }

    fn unknown_tool(&self, name: &str) -> ErrorData {
        let names: Vec<_> = self
            .shared
            .tools
            .definitions()
            .into_iter()
            .map(|tool| tool.name)
            .collect();
        let name = cut(name, 60).0;
        let reason = format!("is `{name}`; the tools are {}", names.join(", "));
        ErrorData::invalid_params(
            format!("unknown tool `{name}`"),
            Some(json!({"field": "name", "reason": reason, "retryable": false})),
        )
    }
}
