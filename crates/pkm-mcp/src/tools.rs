//! The tools: their arguments and answers, and one call of the engine each.

mod change;
mod connector;
mod jobs;
mod list;
mod matches;
mod read;
mod search;
mod status;
mod trash;

use std::collections::{BTreeMap, BTreeSet};

use pkm_engine::{Engine, Job, JobId};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{jobs::JobAnswer, status::status};
use crate::{
    check,
    confirm::Consent,
    progress::Progress,
    schema,
    server::ServerOptions,
    wire::{Fault, Refusal},
};

/// One tool. The call is synchronous: it runs on a thread that may block.
trait NoteTool {
    const NAME: &'static str;
    const TITLE: &'static str;
    /// One paragraph, for a model.
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;
    type Arguments: DeserializeOwned + JsonSchema;
    type Answer: Serialize + JsonSchema;

    /// Asks the engine.
    fn call(turn: &Turn, arguments: Self::Arguments) -> Result<Self::Answer, Fault>;

    /// The answer in a few lines, for clients that show text only.
    fn text(answer: &Self::Answer) -> String;

    /// The job that the call began, which can stand for its answer.
    fn job(_: &Self::Answer) -> Option<JobId> {
        None
    }
}

/// What a tool does to the notes, for the client's confirmation dialogs.
#[derive(Debug, Clone, Copy)]
enum Effect {
    Reads,
    Adds,
    /// Changes or hides something; twice the same call is the same as once.
    Changes,
    /// Changes something, and the second call changes it again.
    ChangesEachTime,
    /// Works on the index, which holds nothing that is not in the notes.
    Indexes,
    /// Cannot be undone: the user is asked first.
    Destroys,
}

/// What a call has at hand.
pub(crate) struct Turn {
    pub(crate) engine: Engine,
    /// Where a job's progress goes, if the client wants it.
    pub(crate) progress: Option<watch::Sender<Option<Progress>>>,
    /// The client no longer waits for the answer.
    pub(crate) cancelled: CancellationToken,
    /// How far the call has the user's word, for what cannot be undone.
    pub(crate) consent: Consent,
    /// The client takes a task in place of an answer, so that a job need not be waited for.
    pub(crate) takes_tasks: bool,
}

/// What a tool has to say.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) content: Value,
    pub(crate) text: String,
    /// The job that the call began.
    pub(crate) job: Option<JobId>,
}

impl Answer {
    /// The answer on the wire.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.content);
        result
    }
}

type Call = fn(&Turn, &JsonObject, JsonObject) -> Result<Answer, Fault>;

/// All tools by name.
pub(crate) struct Tools {
    by_name: BTreeMap<&'static str, (Tool, Call)>,
    /// Those that ask the user first.
    asking: BTreeSet<&'static str>,
}

impl Tools {
    pub(crate) fn new(options: ServerOptions) -> Self {
        let mut tools = Self {
            by_name: BTreeMap::new(),
            asking: BTreeSet::new(),
        };
        tools.add::<search::SearchNotes>();
        tools.add::<search::SemanticSearchNotes>();
        tools.add::<search::RelatedNotes>();
        tools.add::<read::GetNote>();
        tools.add::<list::ListNotes>();
        tools.add::<change::AddNote>();
        tools.add::<change::UpdateNote>();
        tools.add::<change::DeleteNote>();
        tools.add::<change::RestoreNote>();
        tools.add::<trash::EmptyTrash>();
        tools.add::<jobs::ReindexNotes>();
        tools.add::<jobs::JobStatus>();
        tools.add::<status::IndexStatus>();
        if options.connector_tools {
            tools.add::<connector::Search>();
            tools.add::<connector::Fetch>();
        }
        tools
    }

    /// The definitions, in the same order each time.
    pub(crate) fn definitions(&self) -> Vec<Tool> {
        self.by_name
            .values()
            .map(|(tool, _)| tool.clone())
            .collect()
    }

    /// The definition of one tool.
    pub(crate) fn definition(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|(tool, _)| tool)
    }

    /// Whether a tool asks the user first.
    pub(crate) fn asks(&self, name: &str) -> bool {
        self.asking.contains(name)
    }

    /// Calls a tool, which blocks.
    ///
    /// # Panics
    ///
    /// Where there is no such tool: look with [`Tools::definition`] first.
    pub(crate) fn call(
        &self,
        name: &str,
        turn: &Turn,
        arguments: JsonObject,
    ) -> Result<Answer, Fault> {
        let (tool, call) = self
            .by_name
            .get(name)
            .expect("the caller looked the tool up");
        call(turn, &tool.input_schema, arguments)
    }

    fn add<T: NoteTool>(&mut self) {
        let annotations = ToolAnnotations::with_title(T::TITLE).open_world(false);
        let annotations = match T::EFFECT {
            Effect::Reads => annotations
                .read_only(true)
                .destructive(false)
                .idempotent(true),
            Effect::Adds => annotations
                .read_only(false)
                .destructive(false)
                .idempotent(false),
            Effect::Changes | Effect::Destroys => annotations
                .read_only(false)
                .destructive(true)
                .idempotent(true),
            Effect::ChangesEachTime => annotations
                .read_only(false)
                .destructive(true)
                .idempotent(false),
            Effect::Indexes => annotations
                .read_only(false)
                .destructive(false)
                .idempotent(true),
        };
        let tool = Tool::new(
            T::NAME,
            T::DESCRIPTION,
            schema::of_arguments::<T::Arguments>(),
        )
        .with_title(T::TITLE)
        .with_raw_output_schema(schema::of_answer::<T::Answer>())
        .with_annotations(annotations);
        if matches!(T::EFFECT, Effect::Destroys) {
            self.asking.insert(T::NAME);
        }
        self.by_name.insert(T::NAME, (tool, call::<T>));
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

/// From the wire, to the engine, to the wire.
fn call<T: NoteTool>(
    turn: &Turn,
    input_schema: &JsonObject,
    mut arguments: JsonObject,
) -> Result<Answer, Fault> {
    check::check(input_schema, &mut arguments)?;
    let arguments = serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Fault::argument("arguments", format!("cannot be read: {error}")))?;
    answered::<T>(T::call(turn, arguments)?)
}

fn answered<T: NoteTool>(answer: T::Answer) -> Result<Answer, Fault> {
    let (text, job) = (T::text(&answer), T::job(&answer));
    let content =
        serde_json::to_value(answer).map_err(|error| Fault::defect("writing an answer", &error))?;
    Ok(Answer { content, text, job })
}

/// A job as `job_status` tells it.
pub(crate) fn job_answer(job: Job) -> Result<Answer, Fault> {
    answered::<jobs::JobStatus>(job.into())
}

/// A job in one line.
pub(crate) fn job_line(job: &Job) -> String {
    jobs::line_of(&job.clone().into())
}

/// The refusal of a call that the user was asked about and did not reply to in time.
pub(crate) fn unconfirmed() -> Fault {
    Fault::Refused(Refusal {
        code: "not_confirmed",
        message: "nothing was done: the user was asked and has not replied; call again when the user is there".into(),
        retryable: true,
        details: serde_json::json!({}),
    })
}

/// The refusal of a call that nobody waits for any more.
pub(crate) fn cancelled() -> Fault {
    Fault::Refused(Refusal {
        code: "cancelled",
        message: "the request was cancelled".into(),
        retryable: true,
        details: serde_json::json!({}),
    })
}
