//! Jobs of the data folder as tasks (the extension `io.modelcontextprotocol/tasks`, SEP-2663).
//!
//! A task is nothing but a job's row, so it outlives the connection and the process, and any
//! process on the folder can answer for it. Its id is the job's number: whoever may ask may see
//! every note as well, so there is nothing that an unguessable id would keep from anyone.

use pkm_engine::{Engine, Error as EngineError, Job, JobId, JobState};
use rmcp::model::{DetailedTask, ErrorCode, ErrorData, JsonObject, Task, TaskPayload, TaskStatus};
use serde_json::{Value, json};

use crate::{
    text::cut,
    tools,
    wire::{Fault, invalid_params},
};

const PREFIX: &str = "job-";

/// How often a client should ask: a batch of passages takes about that long.
const POLL_INTERVAL_MS: u64 = 2_000;

/// The task that stands for a job, as a call is answered with it.
pub(crate) fn of(job: &Job) -> Task {
    let status = match job.state {
        JobState::Queued | JobState::Running => TaskStatus::Working,
        JobState::Done => TaskStatus::Completed,
        JobState::Failed => TaskStatus::Failed,
        JobState::Cancelled => TaskStatus::Cancelled,
    };
    // No time to live: jobs are kept for as long as the notes.
    Task::new(
        format!("{PREFIX}{}", job.id),
        status,
        job.created_at.to_string(),
        job.updated_at.to_string(),
    )
    .with_status_message(tools::job_line(job))
    .with_poll_interval_ms(POLL_INTERVAL_MS)
}

/// A task with what it came to. Blocks.
///
/// # Errors
///
/// Invalid parameters for a task that does not exist.
pub(crate) fn get(engine: &Engine, task: &str) -> Result<DetailedTask, ErrorData> {
    let job = find(engine, task)?;
    let seed = of(&job);
    let payload = match job.state {
        JobState::Queued | JobState::Running => TaskPayload::Working,
        JobState::Cancelled => TaskPayload::Cancelled,
        JobState::Done => {
            let answer = tools::job_answer(job).map_err(Fault::into_protocol_error)?;
            TaskPayload::Completed {
                result: object(&answer.into_result())?,
            }
        }
        JobState::Failed => {
            let reason = job.error.unwrap_or(job.message);
            let error = ErrorData::new(
                ErrorCode::INTERNAL_ERROR,
                reason,
                Some(json!({"job_id": job.id, "retryable": true})),
            );
            TaskPayload::Failed {
                error: object(&error)?,
            }
        }
    };
    Ok(DetailedTask::new(seed, payload))
}

/// Stops a task at the next batch's edge; one that is over stays as it is. Blocks.
///
/// # Errors
///
/// Invalid parameters for a task that does not exist.
pub(crate) fn cancel(engine: &Engine, task: &str) -> Result<(), ErrorData> {
    let job = find(engine, task)?;
    engine
        .cancel_job(job.id)
        .map(drop)
        .map_err(|error| Fault::from(error).into_protocol_error())
}

/// Takes answers that a task waits for: ours wait for none, and answers to questions that were
/// never asked are passed over, as the extension demands. Blocks.
///
/// # Errors
///
/// Invalid parameters for a task that does not exist.
pub(crate) fn update(engine: &Engine, task: &str) -> Result<(), ErrorData> {
    find(engine, task).map(drop)
}

fn find(engine: &Engine, task: &str) -> Result<Job, ErrorData> {
    let unknown = || {
        let reason = format!("is `{}`, which is no task of this server", cut(task, 60).0);
        invalid_params("taskId", reason)
    };
    let id: JobId = task
        .strip_prefix(PREFIX)
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(unknown)?;
    engine.job(id).map_err(|error| match error {
        EngineError::NoJob { .. } => unknown(),
        error => Fault::from(error).into_protocol_error(),
    })
}

fn object(value: &impl serde::Serialize) -> Result<JsonObject, ErrorData> {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(Fault::defect("writing a task", &other).into_protocol_error()),
        Err(error) => Err(Fault::defect("writing a task", &error).into_protocol_error()),
    }
}
