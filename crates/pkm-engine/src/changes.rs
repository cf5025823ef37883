//! What happens to the notes, by whichever process.

use pkm_store::{Commits, Job, JobId, NoteId, Watch};

use crate::model::ModelState;
use crate::{Engine, Error};

/// Jobs looked at: those that can still change are among the newest.
const MAX_JOBS: usize = 20;

/// What has happened between two looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The notes that were written.
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
    /// What was seen by a look that failed in the end.
    unseen: Option<Changes>,
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
            unseen: None,
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
        let is_same = commits.is_none() && model == self.model;
        self.model = model;
        let Commits {
            notes,
            relisted,
            is_cut,
        } = commits.unwrap_or_default();
        let unseen = match (&mut self.unseen, is_same) {
            (None, true) => return Ok(None),
            (unseen, _) => unseen.get_or_insert_default(),
        };
        unseen.notes.extend(notes);
        unseen.relisted |= relisted;
        unseen.is_cut |= is_cut;

        let jobs = self.engine.store().list_jobs(MAX_JOBS)?;
        let moved = jobs.iter().filter(|job| !self.jobs.contains(job));
        unseen.jobs = moved.map(|job| job.id).collect();
        self.jobs = jobs;
        Ok(self.unseen.take())
    }
}
