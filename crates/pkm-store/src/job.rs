//! Long work as rows, so that every process sees it and a killed one is taken up again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Store};

/// A job's number.
pub type JobId = i64;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waiting for a worker.
    Queued,
    /// A worker has it, or had it and died.
    Running,
    /// Finished.
    Done,
    /// Ended by an error.
    Failed,
    /// Ended because someone asked.
    Cancelled,
}

/// A piece of long work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What is done, such as `reindex`.
    pub kind: String,
    /// On what, such as `pending`.
    pub scope: String,
    /// For which model.
    pub fingerprint: String,
    /// Where it stands.
    pub state: JobState,
    /// Units done.
    pub done: u64,
    /// Units in all, as far as known.
    pub total: u64,
    /// A line for people.
    pub message: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Someone asked it to stop.
    pub cancel_requested: bool,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When a worker first took it.
    pub started_at: Option<Timestamp>,
    /// When a worker last said that it is alive.
    pub heartbeat_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// A job to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewJob<'a> {
    /// What is to be done.
    pub kind: &'a str,
    /// On what.
    pub scope: &'a str,
    /// For which model.
    pub fingerprint: &'a str,
}

/// Whether a job was made or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStart {
    /// It is new.
    Started,
    /// One of the same kind, scope and fingerprint was already queued or running.
    AlreadyRunning,
}

/// What a worker reports; it counts as a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobUpdate {
    /// Where the job stands now.
    pub state: JobState,
    /// Units done.
    pub done: u64,
    /// Units in all.
    pub total: u64,
    /// A line for people.
    pub message: String,
    /// Why it failed.
    pub error: Option<String>,
}

impl Store {
    /// Makes a job, or finds the live one of the same kind, scope and fingerprint.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn create_job(&self, job: NewJob<'_>, now: Timestamp) -> Result<(Job, JobStart)> {
        let _ = (job, now);
        todo!()
    }

    /// The oldest job of `fingerprint` that is queued, or that was left running by a worker
    /// that is gone; it is running from now on. Only the folder's one elected worker may ask.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn next_job(&self, fingerprint: &str, now: Timestamp) -> Result<Option<Job>> {
        let _ = (fingerprint, now);
        todo!()
    }

    /// Writes a worker's report and returns the job as it is now, so that the worker sees a
    /// request to cancel. A job that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`](crate::Error::NoSuchJob).
    pub fn update_job(&self, id: JobId, update: &JobUpdate, now: Timestamp) -> Result<Job> {
        let _ = (id, update, now);
        todo!()
    }

    /// Asks a job to stop. A queued one is cancelled at once; one that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`](crate::Error::NoSuchJob).
    pub fn request_cancel(&self, id: JobId, now: Timestamp) -> Result<Job> {
        let _ = (id, now);
        todo!()
    }

    /// A job.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`](crate::Error::NoSuchJob).
    pub fn job(&self, id: JobId) -> Result<Job> {
        Err(Error::NoSuchJob { id })
    }

    /// The last `limit` jobs, newest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_jobs(&self, limit: usize) -> Result<Vec<Job>> {
        let _ = limit;
        todo!()
    }
}
