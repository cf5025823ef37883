//! Long work that outlives the call that asked for it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pkm_store::{JobId, NewJob};

use crate::{Engine, Error};

pub use pkm_store::JobState;

/// How long a call that starts a job waits for a model that is being loaded.
const MODEL_WAIT: Duration = Duration::from_secs(20);
/// How often a waiting call looks at the job's row.
const POLL: Duration = Duration::from_millis(100);

/// What a reindex goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReindexScope {
    /// Passages that have no vector of the model in use.
    Pending,
    /// Every note is cut anew as well, passages that failed are tried again, and vectors of other
    /// models are dropped at the end. What has its vector already is not embedded twice.
    All,
}

impl ReindexScope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::All => "all",
        }
    }
}

/// Long work on the data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name for [`Engine::job`].
    pub id: JobId,
    /// Such as `reindex`.
    pub kind: String,
    /// Such as `pending` or `all`.
    pub scope: String,
    /// Where it stands.
    pub state: JobState,
    /// Units done, of [`Job::total`].
    pub done: usize,
    /// Units in all; grows while notes are added.
    pub total: usize,
    /// A line for people.
    pub message: String,
    /// How long it will take at the rate so far; `None` before that can be said.
    pub eta: Option<Duration>,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its row was last written.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// Whether it is over, for better or worse.
    pub fn is_over(&self) -> bool {
        match self.state {
            JobState::Queued | JobState::Running => false,
            JobState::Done | JobState::Failed | JobState::Cancelled => true,
        }
    }
}

impl From<pkm_store::Job> for Job {
    fn from(job: pkm_store::Job) -> Self {
        let eta = eta(&job);
        let later = [job.started_at, job.heartbeat_at, job.finished_at];
        let updated_at = later
            .into_iter()
            .flatten()
            .fold(job.created_at, Timestamp::max);
        Self {
            id: job.id,
            kind: job.kind,
            scope: job.scope,
            state: job.state,
            done: usize::try_from(job.done).unwrap_or(usize::MAX),
            total: usize::try_from(job.total).unwrap_or(usize::MAX),
            message: job.message,
            eta,
            error: job.error,
            created_at: job.created_at,
            updated_at,
            finished_at: job.finished_at,
        }
    }
}

fn eta(job: &pkm_store::Job) -> Option<Duration> {
    let (started, heartbeat) = (job.started_at?, job.heartbeat_at?);
    if job.state != JobState::Running || job.done == 0 || job.done >= job.total {
        return None;
    }
    let spent = Duration::try_from(heartbeat.duration_since(started)).ok()?;
    let left = (job.total - job.done) as f64 / job.done as f64;
    Duration::try_from_secs_f64(spent.as_secs_f64() * left).ok()
}

impl Engine {
    /// Starts a reindex, or gives the one that is running.
    ///
    /// # Errors
    ///
    /// [`Error::NoModel`] when there is nothing to embed with.
    pub fn reindex(&self, scope: ReindexScope) -> Result<Job, Error> {
        let embedder = self.embedder(MODEL_WAIT)?;
        let new = NewJob {
            kind: "reindex",
            scope: scope.name(),
            fingerprint: &embedder.card().fingerprint,
        };
        let (job, _) = self.store().create_job(new, Timestamp::now())?;
        self.wake_worker();
        Ok(job.into())
    }

    /// A job.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn job(&self, id: JobId) -> Result<Job, Error> {
        Ok(self.store().job(id)?.into())
    }

    /// The last `limit` jobs, newest first.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn jobs(&self, limit: usize) -> Result<Vec<Job>, Error> {
        Ok(self
            .store()
            .list_jobs(limit)?
            .into_iter()
            .map(Job::from)
            .collect())
    }

    /// Asks a job to stop at the next batch's edge. What it did so far is kept.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn cancel_job(&self, id: JobId) -> Result<Job, Error> {
        let job = self.store().request_cancel(id, Timestamp::now())?;
        self.wake_worker();
        Ok(job.into())
    }

    /// Waits until a job is over, at most `timeout`, and gives it as it is then. `on_change` is
    /// called at once and at every change; it is quick, and breaks to stop waiting.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn wait_job(
        &self,
        id: JobId,
        timeout: Duration,
        on_change: &mut dyn FnMut(&Job) -> ControlFlow<()>,
    ) -> Result<Job, Error> {
        let started = Instant::now();
        let mut shown: Option<Job> = None;
        loop {
            let job = self.job(id)?;
            if shown.as_ref() != Some(&job) {
                if on_change(&job).is_break() {
                    return Ok(job);
                }
                shown = Some(job.clone());
            }
            let Some(left) = timeout.checked_sub(started.elapsed()) else {
                return Ok(job);
            };
            if job.is_over() {
                return Ok(job);
            }
            std::thread::sleep(POLL.min(left));
        }
    }

    /// Waits until no passage is pending, at most `timeout`; gives how many still are.
    ///
    /// # Errors
    ///
    /// [`Error::NoModel`].
    pub fn settle(&self, timeout: Duration) -> Result<usize, Error> {
        let started = Instant::now();
        let embedder = self.embedder(timeout)?;
        self.wake_worker();
        loop {
            let pending = self.store().counts(&embedder.card().fingerprint)?.n_pending;
            match timeout.checked_sub(started.elapsed()) {
                Some(left) if pending > 0 => std::thread::sleep(POLL.min(left)),
                _ => return Ok(pending),
            }
        }
    }
}
