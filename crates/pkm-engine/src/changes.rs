//! What happens to the notes, by whichever process.

use pkm_store::{Job, JobId, NoteId, Watch};

use crate::model::ModelState;
use crate::{Engine, Error};

/// Jobs looked at: those that can still change are among the newest.
const MAX_JOBS: usize = 20;

/// What has happened between two looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The notes that were written, ascending.
    pub notes: Vec<NoteId>,
    /// Whether a note came, went, or has another title.
    pub relisted: bool,
    /// The jobs that came or moved on.
    pub jobs: Vec<JobId>,
    /// Whether more happened than could be named: every note may have changed.
    pub is_cut: bool,
}

/// Sees what every process does to the notes. Keeps no worker alive.
pub struct ChangeFeed {
    engine: Engine,
    watch: Watch,
    jobs: Vec<Job>,
    model: ModelState,
}

impl Engine {
    /// What happens from now on.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn changes(&self) -> Result<ChangeFeed, Error> {
        let engine = Self {
            _worker: None,
            core: self.core.clone(),
        };
        Ok(ChangeFeed {
            watch: engine.store().watch()?,
            jobs: engine.store().list_jobs(MAX_JOBS)?,
            model: engine.model().state(),
            engine,
        })
    }
}

impl ChangeFeed {
    /// What has happened since the last look; `None` where nothing has. Cheap enough to ask
    /// several times a second.
    ///
    /// # Errors
    ///
    /// Those of the store; the next look begins where this one did.
    pub fn look(&mut self) -> Result<Option<Changes>, Error> {
        let model = self.engine.model().state();
        let commits = self.watch.look()?;
        if commits.is_none() && model == self.model {
            return Ok(None);
        }
        self.model = model;
        let jobs = self.engine.store().list_jobs(MAX_JOBS)?;
        let moved = jobs.iter().filter(|job| !self.jobs.contains(job));
        let moved = moved.map(|job| job.id).collect();
        self.jobs = jobs;
        let commits = commits.unwrap_or_default();
        Ok(Some(Changes {
            notes: commits.notes,
            relisted: commits.relisted,
            jobs: moved,
            is_cut: commits.is_cut,
        }))
    }
}
