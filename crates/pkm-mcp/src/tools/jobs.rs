//! `reindex_notes` and `job_status`.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use pkm_engine::{Job, JobId, JobState, ReindexScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::{progress::Progress, wire::Fault};

/// How long a wait can go on after the client has cancelled it.
const WAIT_SLICE: Duration = Duration::from_secs(1);

/// A piece of long work of the data folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobAnswer {
    /// For `job_status`.
    job_id: i64,
    kind: String,
    state: StateWord,
    /// Passages done so far.
    done: usize,
    total: usize,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StateWord {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobAnswer {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, StateWord::Queued | StateWord::Running)
    }
}

impl From<Job> for JobAnswer {
    fn from(job: Job) -> Self {
        Self {
            job_id: job.id,
            kind: job.kind,
            state: match job.state {
                JobState::Queued => StateWord::Queued,
                JobState::Running => StateWord::Running,
                JobState::Done => StateWord::Done,
                JobState::Failed => StateWord::Failed,
                JobState::Cancelled => StateWord::Cancelled,
            },
            done: job.done,
            total: job.total,
            message: job.message,
            eta_seconds: job.eta.map(|eta| eta.as_secs()),
            error: job.error,
        }
    }
}

pub(super) fn text_of(job: &JobAnswer) -> String {
    let mut text = line_of(job);
    if job.is_live() {
        let job_id = job.job_id;
        text.push_str(&format!(
            ". It goes on by itself; job_status with job_id {job_id} and wait_seconds 25 tells how it goes"
        ));
    }
    text + "."
}

/// How a job stands, without a full stop.
pub(super) fn line_of(job: &JobAnswer) -> String {
    let JobAnswer {
        job_id,
        kind,
        done,
        total,
        message,
        ..
    } = job;
    let head = match job.state {
        StateWord::Queued => format!("Job {job_id} ({kind}) waits for its turn"),
        StateWord::Running => format!("Job {job_id} ({kind}) is running: {done} of {total}"),
        StateWord::Done => format!("Job {job_id} ({kind}) is done: {done} of {total}"),
        StateWord::Failed => format!("Job {job_id} ({kind}) failed at {done} of {total}"),
        StateWord::Cancelled => format!("Job {job_id} ({kind}) was cancelled at {done} of {total}"),
    };
    let mut text = head;
    if let Some(eta_seconds) = job.eta_seconds {
        text.push_str(&format!(", about {eta_seconds} s to go"));
    }
    for more in [Some(message), job.error.as_ref()]
        .into_iter()
        .flatten()
        .filter(|more| !more.is_empty())
    {
        text.push_str("; ");
        text.push_str(more);
    }
    text
}

/// Waits for the end of a job, tells its progress, and stops waiting when nobody wants to know.
fn wait(turn: &Turn, job: Job, wait_seconds: u64) -> Result<Job, Fault> {
    let mut job = job;
    report(turn, &job);
    let deadline = Instant::now() + Duration::from_secs(wait_seconds);
    while !job.is_over() && !turn.cancelled.is_cancelled() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        job = turn
            .engine
            .wait_job(job.id, left.min(WAIT_SLICE), &mut |job| {
                report(turn, job);
                if turn.cancelled.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        report(turn, &job);
    }
    Ok(job)
}

fn report(turn: &Turn, job: &Job) {
    if let Some(progress) = &turn.progress {
        let state = Some(Progress::of(job));
        progress.send_if_modified(|last| {
            let changed = *last != state;
            *last = state;
            changed
        });
    }
}

#[derive(Debug)]
pub(super) struct ReindexNotes;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReindexArguments {
    /// What is still to be embedded, or everything anew.
    #[serde(default)]
    scope: Scope,
    /// How long to wait for the end before the answer; the job goes on after that.
    #[serde(default = "twenty_five")]
    #[schemars(range(min = 0, max = 55))]
    wait_seconds: u64,
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Pending,
    All,
}

fn twenty_five() -> u64 {
    25
}

impl NoteTool for ReindexNotes {
    const NAME: &'static str = "reindex_notes";
    const TITLE: &'static str = "Rebuild the index by meaning";
    const DESCRIPTION: &'static str = "Embeds notes for search by meaning: what is still pending, or all anew after \
        a change of model. Notes added or edited are embedded by themselves, so this is rarely needed. It runs as a \
        job that goes on after the answer; if the state is `queued` or `running`, look again with job_status. \
        Searches keep working meanwhile.";
    const EFFECT: Effect = Effect::Indexes;
    type Arguments = ReindexArguments;
    type Answer = JobAnswer;

    fn call(turn: &Turn, arguments: ReindexArguments) -> Result<JobAnswer, Fault> {
        if let Some(progress) = &turn.progress
            && !turn.takes_tasks
        {
            // The model may still be loading: the client hears of its request all the same.
            progress.send_replace(Some(Progress::starting()));
        }
        let job = turn.engine.reindex(match arguments.scope {
            Scope::Pending => ReindexScope::Pending,
            Scope::All => ReindexScope::All,
        })?;
        if turn.takes_tasks {
            return Ok(job.into());
        }
        Ok(wait(turn, job, arguments.wait_seconds)?.into())
    }

    fn text(answer: &JobAnswer) -> String {
        text_of(answer)
    }

    fn job(answer: &JobAnswer) -> Option<JobId> {
        Some(answer.job_id)
    }
}

#[derive(Debug)]
pub(super) struct JobStatus;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobArguments {
    /// The job's id, as `reindex_notes` gave it.
    #[schemars(range(min = 1))]
    job_id: i64,
    /// How long to wait for the job's end before the answer.
    #[serde(default)]
    #[schemars(range(min = 0, max = 55))]
    wait_seconds: u64,
    /// Stop the job; what it has done is kept.
    #[serde(default)]
    cancel: bool,
}

impl NoteTool for JobStatus {
    const NAME: &'static str = "job_status";
    const TITLE: &'static str = "Look after a job";
    const DESCRIPTION: &'static str = "Tells how far a job is, waits for its end if you say for how long, or stops \
        it with `cancel`.";
    const EFFECT: Effect = Effect::Indexes;
    type Arguments = JobArguments;
    type Answer = JobAnswer;

    fn call(turn: &Turn, arguments: JobArguments) -> Result<JobAnswer, Fault> {
        let id = arguments.job_id;
        let job = if arguments.cancel {
            turn.engine.cancel_job(id)?
        } else {
            turn.engine.job(id)?
        };
        Ok(wait(turn, job, arguments.wait_seconds)?.into())
    }

    fn text(answer: &JobAnswer) -> String {
        text_of(answer)
    }
}
