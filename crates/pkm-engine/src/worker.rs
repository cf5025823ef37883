//! Background work: one process of those on a folder does it, on one thread.
//!
//! The elected one is whoever holds the lock on a file in the data folder. The lock dies with its
//! holder, so a killed worker's turn goes to the next process that looks.

use std::fs::{File, OpenOptions, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pkm_embed::{Embedder, Role};
use pkm_store::{ChunkId, JobId, JobState, JobUpdate, NoteId, PassageHash, PendingPassage};

use crate::model::{FIRST_REST, MAX_REST};
use crate::passages::Chunks;
use crate::{Engine, Error, chunk};

/// How often a worker looks for work that another process left.
const LOOK: Duration = Duration::from_millis(500);
/// Passages fetched at a time, to sort by length and batch.
const FETCH: usize = 256;
/// The longest rest that a model on a server may ask for.
const MAX_ASKED_REST: Duration = Duration::from_secs(600);
/// How often a job's row is written, at most.
const REPORT: Duration = Duration::from_millis(200);
/// How long the end of an engine waits for its worker.
const STOPPING: Duration = Duration::from_secs(2);
const STOPPING_POLL: Duration = Duration::from_millis(5);
/// Notes fetched at a time, to be cut anew.
const FETCH_NOTES: usize = 50;

/// Wakes the worker, or tells it to end.
#[derive(Default)]
pub(crate) struct Wake {
    pending: Mutex<bool>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Wake {
    pub(crate) fn notify(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn wait(&self, timeout: Duration) {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut pending, _) = self
            .changed
            .wait_timeout_while(pending, timeout, |pending| !*pending && !self.stopped())
            .unwrap_or_else(PoisonError::into_inner);
        *pending = false;
    }
}

/// The worker's thread; dropped, it is told to end at the next batch's edge.
pub(crate) struct WorkerHandle {
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl WorkerHandle {
    pub(crate) fn start(engine: Engine) -> Result<Self, Error> {
        let wake = Arc::clone(&engine.core.wake);
        let thread = std::thread::Builder::new()
            .name("pkm-worker".to_owned())
            .spawn(move || engine.work())
            .map_err(|source| Error::Internal {
                doing: "starting the background worker",
                source: Box::new(source),
            })?;
        Ok(Self {
            wake,
            thread: Some(thread),
        })
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.wake.stop.store(true, Ordering::Release);
        self.wake.notify();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // It looks up between two batches. One that takes longer is left to the end of the
        // process: what it would store is still pending then.
        let give_up = Instant::now() + STOPPING;
        while !thread.is_finished() {
            if Instant::now() >= give_up {
                tracing::debug!("the background worker is left in the middle of a batch");
                return;
            }
            std::thread::sleep(STOPPING_POLL);
        }
        if thread.join().is_err() {
            tracing::error!("the background worker panicked");
        }
    }
}

/// How long a model that is away is let alone.
struct Rest {
    until: Instant,
    next: Duration,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            until: Instant::now(),
            next: FIRST_REST,
        }
    }
}

impl Rest {
    fn lasts(&self) -> bool {
        Instant::now() < self.until
    }

    /// Rests for twice as long as the last time, and at least as long as the model asks for.
    fn lengthen(&mut self, asked: Option<Duration>) {
        let asked = asked.unwrap_or_default().min(MAX_ASKED_REST);
        self.until = Instant::now() + self.next.max(asked);
        self.next = (self.next * 2).min(MAX_REST);
    }
}

/// Why a stretch of work ended before its end.
enum Interrupted {
    /// The engine closes: the work is left for the next worker.
    Stopped,
    /// Somebody cancelled the job.
    Cancelled,
    /// A job waits, and its caller wants to see the work counted.
    JobWaits,
    Failed(Error),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<pkm_store::Error> for Interrupted {
    fn from(error: pkm_store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Engine {
    fn work(&self) {
        let mut purged = false;
        let mut rest = Rest::default();
        while !self.core.wake.stopped() {
            // Whoever reaches a model that was away ends the rest.
            let is_resting = self.model().is_away() && rest.lasts();
            if let Some(embedder) = self.model().get()
                && !is_resting
            {
                match self.work_once(&embedder, &mut purged) {
                    Ok(()) => rest = Rest::default(),
                    // Said when the model went away; what is pending stays so.
                    Err(Error::NoModel { .. }) => rest.lengthen(self.model().retry_after()),
                    Err(error) => tracing::warn!(
                        error = crate::error::chain(&error),
                        "background work failed"
                    ),
                }
            }
            self.core.wake.wait(LOOK);
        }
    }

    /// Does what there is to do, if it is this process's turn.
    fn work_once(&self, embedder: &Arc<dyn Embedder>, purged: &mut bool) -> Result<(), Error> {
        let fingerprint = &embedder.card().fingerprint;
        self.vectors().catch_up(self.store(), embedder)?;
        if self.store().access() == pkm_store::Access::ReadOnly {
            return Ok(());
        }
        let Some(_turn) = self.take_turn(fingerprint)? else {
            return Ok(());
        };
        if !*purged {
            if let Some(before) = self.trash_limit() {
                self.store().empty_trash(Some(before), None)?;
            }
            *purged = true;
        }
        loop {
            while let Some(job) = self.store().next_job(fingerprint, Timestamp::now())? {
                let mut report = Report::of_job(self, job.id);
                let all = job.scope == crate::ReindexScope::All.name();
                let outcome = self.reindex_now(embedder, all, &mut report);
                if report.finish(outcome)? == Outcome::Stopped {
                    return Ok(());
                }
            }
            let mut report = Report::silent(self);
            let outcome = self.embed_pending(embedder, &mut report);
            if report.finish(outcome)? != Outcome::JobWaits {
                return Ok(());
            }
        }
    }

    /// The folder's lock for embedding with this model; `None` when another process has it.
    fn take_turn(&self, fingerprint: &str) -> Result<Option<File>, Error> {
        let short = &fingerprint[..fingerprint.len().min(16)];
        let path = self.store().dir().join(format!("worker-{short}.lock"));
        let internal = |source: std::io::Error| Error::Internal {
            doing: "taking the worker's lock",
            source: Box::new(source),
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(internal)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(internal(source)),
        }
    }

    fn reindex_now(
        &self,
        embedder: &Arc<dyn Embedder>,
        all: bool,
        report: &mut Report<'_>,
    ) -> Result<(), Interrupted> {
        let fingerprint = &embedder.card().fingerprint;
        if all {
            self.store().clear_failed(fingerprint)?;
            report.n_left(self.store().counts(fingerprint)?.n_notes);
            self.rechunk(embedder, Rechunk::Every, report)?;
        }
        self.embed_pending(embedder, report)?;
        if all {
            self.store().drop_vectors_except(&[fingerprint])?;
        }
        Ok(())
    }

    /// Makes the set of passages without a vector empty.
    fn embed_pending(
        &self,
        embedder: &Arc<dyn Embedder>,
        report: &mut Report<'_>,
    ) -> Result<(), Interrupted> {
        self.rechunk(embedder, Rechunk::CutOtherwise, report)?;
        let fingerprint = &embedder.card().fingerprint;
        loop {
            let mut missing =
                self.store()
                    .pending_passages(fingerprint, ChunkId::default(), FETCH)?;
            if missing.is_empty() {
                return Ok(());
            }
            report.n_left(self.store().counts(fingerprint)?.n_pending);
            missing.sort_by_key(|passage| passage.n_tokens);
            for batch in batches(&missing, embedder.batch_tokens()) {
                self.embed_batch(embedder, batch)?;
                report.advance(batch.len(), "passages embedded")?;
            }
        }
    }

    fn embed_batch(
        &self,
        embedder: &Arc<dyn Embedder>,
        batch: &[PendingPassage],
    ) -> Result<(), Error> {
        let card = embedder.card();
        let texts: Vec<String> = batch
            .iter()
            .map(|p| chunk::passage_text(&p.title, &p.heading_path, &p.text))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match embedder.embed(&texts, Role::Passage) {
            Ok(embedded) => {
                if embedded.n_cut > 0 {
                    tracing::warn!(
                        n_cut = embedded.n_cut,
                        "passages were longer than the window"
                    );
                }
                let vectors: Vec<(PassageHash, Vec<f32>)> =
                    batch.iter().map(|p| p.hash).zip(embedded.vectors).collect();
                self.store()
                    .put_vectors(&card.fingerprint, card.dim, &vectors)?;
            }
            // Not the passages' fault: they stay pending.
            Err(error) if error.is_transient() => {
                return Err(Error::embedding("embedding passages", error));
            }
            Err(error) if batch.len() == 1 => {
                let reason = crate::error::chain(&error);
                tracing::error!(note = batch[0].note_id.0, reason, "a passage was given up");
                self.store()
                    .mark_failed(&card.fingerprint, batch[0].hash, &reason)?;
            }
            // One bad passage must not take the others with it.
            Err(_) => {
                let (first, second) = batch.split_at(batch.len() / 2);
                self.embed_batch(embedder, first)?;
                self.embed_batch(embedder, second)?;
            }
        }
        Ok(())
    }

    /// Cuts notes anew with the model's tokenizer.
    fn rechunk(
        &self,
        embedder: &Arc<dyn Embedder>,
        which: Rechunk,
        report: &mut Report<'_>,
    ) -> Result<(), Interrupted> {
        let by = Chunks::name_of(embedder.as_ref());
        let cut_by = match which {
            Rechunk::CutOtherwise => by.as_str(),
            // No chunker has this name, so every note qualifies.
            Rechunk::Every => "",
        };
        let mut after = NoteId::default();
        loop {
            let notes = self
                .store()
                .notes_not_chunked_by(cut_by, after, FETCH_NOTES)?;
            let Some(last) = notes.last() else {
                return Ok(());
            };
            after = last.id;
            for note in notes {
                let chunks = Chunks::by_model(embedder.as_ref(), &note.title, &note.content);
                // A note that moved on was cut by whoever changed it.
                self.store()
                    .rechunk_note(note.id, note.revision, chunks.chunking())?;
                report.advance(1, "notes cut into passages")?;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rechunk {
    Every,
    CutOtherwise,
}

/// Stretches of `passages` of about `max_tokens` tokens each, at least one passage.
fn batches(passages: &[PendingPassage], max_tokens: usize) -> Vec<&[PendingPassage]> {
    let mut batches = Vec::new();
    let (mut start, mut n_tokens) = (0, 0);
    for (i, passage) in passages.iter().enumerate() {
        if i > start && n_tokens + passage.n_tokens > max_tokens {
            batches.push(&passages[start..i]);
            (start, n_tokens) = (i, 0);
        }
        n_tokens += passage.n_tokens;
    }
    if start < passages.len() {
        batches.push(&passages[start..]);
    }
    batches
}

/// What a stretch of work tells its job, and hears from it.
struct Report<'a> {
    engine: &'a Engine,
    job: Option<JobId>,
    done: usize,
    left: usize,
    message: String,
    written_at: Option<Instant>,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Ended,
    Stopped,
    JobWaits,
}

impl<'a> Report<'a> {
    fn of_job(engine: &'a Engine, job: JobId) -> Self {
        Self {
            job: Some(job),
            ..Self::silent(engine)
        }
    }

    fn silent(engine: &'a Engine) -> Self {
        Self {
            engine,
            job: None,
            done: 0,
            left: 0,
            message: String::new(),
            written_at: None,
        }
    }

    fn n_left(&mut self, left: usize) {
        self.left = left;
    }

    /// Counts `n` units done, and finds out whether to go on.
    fn advance(&mut self, n: usize, what: &str) -> Result<(), Interrupted> {
        self.done += n;
        self.left = self.left.saturating_sub(n);
        self.message = format!("{} of {} {what}", self.done, self.done + self.left);
        if self.engine.core.wake.stopped() {
            return Err(Interrupted::Stopped);
        }
        if self.written_at.is_some_and(|at| at.elapsed() < REPORT) {
            return Ok(());
        }
        self.written_at = Some(Instant::now());
        let store = self.engine.store();
        match self.job {
            Some(job) => {
                let update = self.update(JobState::Running, None);
                let job = store.update_job(job, &update, Timestamp::now())?;
                if job.cancel_requested {
                    return Err(Interrupted::Cancelled);
                }
            }
            None => {
                let newest = store.list_jobs(1)?;
                if newest.iter().any(|job| job.state == JobState::Queued) {
                    return Err(Interrupted::JobWaits);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, outcome: Result<(), Interrupted>) -> Result<Outcome, Error> {
        let (state, error) = match outcome {
            Ok(()) => {
                self.left = 0;
                self.message = format!("{} units done", self.done);
                (JobState::Done, None)
            }
            Err(Interrupted::Cancelled) => (JobState::Cancelled, None),
            Err(Interrupted::Stopped) => return Ok(Outcome::Stopped),
            Err(Interrupted::JobWaits) => return Ok(Outcome::JobWaits),
            Err(Interrupted::Failed(error)) if self.job.is_none() => return Err(error),
            Err(Interrupted::Failed(Error::NoModel { reason })) => (
                JobState::Failed,
                Some(format!(
                    "{reason}; what is embedded is kept, the rest follows when the model is back"
                )),
            ),
            Err(Interrupted::Failed(error)) => {
                (JobState::Failed, Some(crate::error::chain(&error)))
            }
        };
        if let Some(job) = self.job {
            let update = self.update(state, error);
            self.engine
                .store()
                .update_job(job, &update, Timestamp::now())?;
        }
        Ok(Outcome::Ended)
    }

    fn update(&self, state: JobState, error: Option<String>) -> JobUpdate {
        JobUpdate {
            state,
            done: self.done as u64,
            total: (self.done + self.left) as u64,
            message: self.message.clone(),
            error,
        }
    }
}
