//! `index_status`.

use std::path::Path;

use pkm_engine::{Engine, ModelState, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Effect, NoteTool, Turn,
    jobs::{self, JobAnswer},
};
use crate::{text::count, wire::Fault};

#[derive(Debug)]
pub(super) struct IndexStatus;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// What is in the data folder and how much of it is indexed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    notes: usize,
    /// Notes in the trash.
    trashed: usize,
    chunks: usize,
    /// Chunks that search by meaning can find.
    indexed: usize,
    pending: usize,
    failed: usize,
    model: ModelAnswer,
    vectors: VectorsAnswer,
    store: StoreAnswer,
    jobs: Vec<JobAnswer>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModelAnswer {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<String>,
    state: ModelWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ModelWord {
    Loading,
    Ready,
    Absent,
    Failed,
    Away,
}

#[derive(Debug, Serialize, JsonSchema)]
struct VectorsAnswer {
    kind: String,
    n: usize,
    size_bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StoreAnswer {
    /// The end of the data folder's path.
    path_hint: String,
    size_bytes: u64,
    schema: i64,
    /// Whether notes can be added and changed.
    writable: bool,
}

impl NoteTool for IndexStatus {
    const NAME: &'static str = "index_status";
    const TITLE: &'static str = "Status of notes and index";
    const DESCRIPTION: &'static str = "Tells how many notes there are, how much of them search by meaning can see, \
        which model is in use and whether it is ready, and which jobs run. Look here when a search seems to miss \
        something.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = NoArguments;
    type Answer = StatusAnswer;

    fn call(turn: &Turn, _: NoArguments) -> Result<StatusAnswer, Fault> {
        status(&turn.engine)
    }

    fn text(answer: &StatusAnswer) -> String {
        let model = match (answer.model.state, &answer.model.reason) {
            (ModelWord::Ready, _) => "ready".to_owned(),
            (ModelWord::Loading, _) => "still loading".to_owned(),
            (ModelWord::Absent | ModelWord::Failed | ModelWord::Away, Some(reason)) => {
                format!("not available: {reason}")
            }
            (ModelWord::Absent | ModelWord::Failed | ModelWord::Away, None) => {
                "not available".to_owned()
            }
        };
        let mut text = format!(
            "{}, {} in the trash. By meaning: {} of {} indexed, {} pending, {} failed. Model {}: {model}.",
            count(answer.notes, "note"),
            answer.trashed,
            answer.indexed,
            count(answer.chunks, "passage"),
            answer.pending,
            answer.failed,
            answer.model.name,
        );
        for job in answer.jobs.iter().filter(|job| job.is_live()) {
            text.push(' ');
            text.push_str(&jobs::text_of(job));
        }
        text
    }
}

/// The status as the tool `index_status` and the resource `pkm://status` give it.
pub(crate) fn status(engine: &Engine) -> Result<StatusAnswer, Fault> {
    let status = engine.status()?;
    let (notes, trashed, chunks) = (status.n_notes, status.n_trashed, status.n_chunks);
    let (indexed, pending, failed) = (status.n_indexed, status.n_pending, status.n_failed);
    let Status {
        model,
        vectors,
        store,
        jobs,
        ..
    } = status;
    let (state, reason) = match model.state {
        ModelState::Loading => (ModelWord::Loading, None),
        ModelState::Ready => (ModelWord::Ready, None),
        ModelState::Absent { reason } => (ModelWord::Absent, Some(reason)),
        ModelState::Failed { reason } => (ModelWord::Failed, Some(reason)),
        ModelState::Away { reason } => (ModelWord::Away, Some(reason)),
    };
    Ok(StatusAnswer {
        notes,
        trashed,
        chunks,
        indexed,
        pending,
        failed,
        model: ModelAnswer {
            name: model.name,
            fingerprint: model.fingerprint,
            dim: model.dim,
            device: model.device,
            precision: model.precision.map(|precision| precision.to_string()),
            state,
            reason,
        },
        vectors: VectorsAnswer {
            kind: vectors.kind.to_owned(),
            n: vectors.n_vectors,
            size_bytes: vectors.size_bytes as u64,
        },
        store: StoreAnswer {
            path_hint: path_hint(&store.path),
            size_bytes: store.size_bytes,
            schema: store.schema,
            writable: store.writable,
        },
        jobs: jobs.into_iter().map(JobAnswer::from).collect(),
    })
}

/// The last two names of a path: enough to know the folder by, without the user's whole layout.
fn path_hint(path: &Path) -> String {
    let names: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    names[names.len().saturating_sub(2)..].join("/")
}
