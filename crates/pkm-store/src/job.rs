//! Long work as rows, so that every process sees it and a killed one is taken up again.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, named_params, params};
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::key::{from_micros, micros};
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

/// The columns of [`from_row`].
const COLUMNS: &str = "id, kind, scope, fingerprint, state, done, total, message, error,
    cancel_requested, created_at, started_at, heartbeat_at, finished_at";

impl Store {
    /// Makes a job, or finds the live one of the same kind, scope and fingerprint.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn create_job(&self, job: NewJob<'_>, now: Timestamp) -> Result<(Job, JobStart)> {
        self.write("making a job", |tx| {
            let live = tx
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM job WHERE kind = ?1 AND scope = ?2 AND fingerprint = ?3
                     AND state IN ('queued', 'running')"
                ))?
                .query_row([job.kind, job.scope, job.fingerprint], from_row)
                .optional()?;
            if let Some(live) = live {
                return Ok((live, JobStart::AlreadyRunning));
            }
            tx.prepare_cached(
                "INSERT INTO job (kind, scope, fingerprint, state, done, total, message,
                                  cancel_requested, created_at)
                 VALUES (?1, ?2, ?3, 'queued', 0, 0, '', 0, ?4)",
            )?
            .execute(params![job.kind, job.scope, job.fingerprint, micros(now)])?;
            Ok((find(tx, tx.last_insert_rowid())?, JobStart::Started))
        })
    }

    /// The oldest job of `fingerprint` that is queued, or that was left running by a worker
    /// that is gone; it is running from now on. Only the folder's one elected worker may ask.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn next_job(&self, fingerprint: &str, now: Timestamp) -> Result<Option<Job>> {
        self.write("taking a job", |tx| {
            let found: Option<JobId> = tx
                .prepare_cached(
                    "SELECT id FROM job WHERE fingerprint = ?1 AND state IN ('queued', 'running')
                     ORDER BY id LIMIT 1",
                )?
                .query_row([fingerprint], |row| row.get(0))
                .optional()?;
            let Some(id) = found else {
                return Ok(None);
            };
            tx.prepare_cached(
                "UPDATE job SET state = 'running', heartbeat_at = ?2,
                                started_at = coalesce(started_at, ?2) WHERE id = ?1",
            )?
            .execute([id, micros(now)])?;
            find(tx, id).map(Some)
        })
    }

    /// Writes a worker's report and returns the job as it is now, so that the worker sees a
    /// request to cancel. A job that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`].
    pub fn update_job(&self, id: JobId, update: &JobUpdate, now: Timestamp) -> Result<Job> {
        self.write("reporting on a job", |tx| {
            if !find(tx, id)?.state.has_ended() {
                tx.prepare_cached(
                    "UPDATE job SET state = :state, done = :done, total = :total,
                         message = :message, error = :error, heartbeat_at = :now,
                         finished_at = CASE WHEN :ended THEN :now END
                     WHERE id = :id",
                )?
                .execute(named_params! {
                    ":id": id,
                    ":state": update.state.name(),
                    ":done": count(update.done),
                    ":total": count(update.total),
                    ":message": update.message,
                    ":error": update.error,
                    ":now": micros(now),
                    ":ended": update.state.has_ended(),
                })?;
            }
            find(tx, id)
        })
    }

    /// Asks a job to stop. A queued one is cancelled at once; one that has ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`].
    pub fn request_cancel(&self, id: JobId, now: Timestamp) -> Result<Job> {
        self.write("cancelling a job", |tx| {
            tx.prepare_cached(
                "UPDATE job SET cancel_requested = 1,
                     finished_at = CASE state WHEN 'queued' THEN ?2 END,
                     state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END
                 WHERE id = ?1 AND state IN ('queued', 'running')",
            )?
            .execute([id, micros(now)])?;
            find(tx, id)
        })
    }

    /// A job.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchJob`].
    pub fn job(&self, id: JobId) -> Result<Job> {
        self.read("reading a job", |tx| find(tx, id))
    }

    /// The last `limit` jobs, newest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn list_jobs(&self, limit: usize) -> Result<Vec<Job>> {
        self.read("listing jobs", |tx| {
            let mut query = tx.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM job ORDER BY id DESC LIMIT ?1"
            ))?;
            let jobs = query.query_map([limit as i64], from_row)?;
            Ok(jobs.collect::<rusqlite::Result<_>>()?)
        })
    }
}

impl JobState {
    /// Whether nothing more will happen.
    pub fn has_ended(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Done | Self::Failed | Self::Cancelled => true,
        }
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

fn find(tx: &Transaction<'_>, id: JobId) -> Result<Job, Fault> {
    tx.prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE id = ?1"))?
        .query_row([id], from_row)
        .optional()?
        .ok_or_else(|| Error::NoSuchJob { id }.into())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Job> {
    let state = match row.get_ref(4)?.as_str()? {
        "queued" => JobState::Queued,
        "running" => JobState::Running,
        "done" => JobState::Done,
        "cancelled" => JobState::Cancelled,
        // The schema lets nothing else in.
        _ => JobState::Failed,
    };
    let time = |column| {
        row.get::<_, Option<i64>>(column)
            .map(|at| at.map(from_micros))
    };
    Ok(Job {
        id: row.get(0)?,
        kind: row.get(1)?,
        scope: row.get(2)?,
        fingerprint: row.get(3)?,
        state,
        done: row.get::<_, i64>(5)?.unsigned_abs(),
        total: row.get::<_, i64>(6)?.unsigned_abs(),
        message: row.get(7)?,
        error: row.get(8)?,
        cancel_requested: row.get(9)?,
        created_at: from_micros(row.get(10)?),
        started_at: time(11)?,
        heartbeat_at: time(12)?,
        finished_at: time(13)?,
    })
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
