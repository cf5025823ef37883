//! Embedding what is pending, with a bar: what `import`, `reindex` and `eval` share.

use std::time::Duration;

use anyhow::Result;
use pkm_engine::{Engine, JobState, ModelState, ReindexScope};
use serde_json::{Value, json};

use crate::interrupt::Interrupt;
use crate::out;
use crate::progress::{self, Progress, Unit};
use crate::report::Failure;

/// How long Ctrl-C may go unseen.
const GLANCE: Duration = Duration::from_millis(250);

/// How the embedding ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done {
        n_passages: usize,
        took: Duration,
    },
    /// The user stopped it.
    Stopped {
        n_pending: usize,
    },
    /// There is no model to do it with.
    NoModel {
        reason: String,
    },
}

/// Embeds all passages of `scope`. Other processes on the data folder may do a part of it.
pub(crate) fn run(engine: &Engine, scope: ReindexScope, interrupt: &Interrupt) -> Result<Outcome> {
    match wait_model(engine, interrupt) {
        ModelState::Ready => {}
        ModelState::Loading => return stopped(engine),
        ModelState::Absent { reason } | ModelState::Away { reason } => {
            return Ok(Outcome::NoModel { reason });
        }
        ModelState::Failed { reason } => {
            return Ok(Outcome::NoModel {
                reason: format!("the model cannot be loaded: {reason}"),
            });
        }
    }
    let progress = Progress::new("embedding", Unit::Things);
    let n_before = engine.status()?.n_indexed;
    let mut job = engine.reindex(scope)?;
    loop {
        job = engine.wait_job(job.id, GLANCE, &mut |_| interrupt.flow())?;
        // Counted, not taken from the job: what was pending may also be embedded outside of it.
        let status = engine.status()?;
        let n_done = status.n_indexed.saturating_sub(n_before);
        progress.set(
            n_done as u64,
            (n_done + status.n_pending) as u64,
            &job.message,
        );
        match job.state {
            // The worker ends with the engine, at the edge of a batch; what it embedded is kept.
            JobState::Queued | JobState::Running if interrupt.is_set() => {
                progress.finish();
                return stopped(engine);
            }
            JobState::Queued | JobState::Running => {}
            JobState::Done => {
                return Ok(Outcome::Done {
                    n_passages: n_done,
                    took: progress.finish(),
                });
            }
            JobState::Cancelled => {
                return Err(
                    Failure::new(format!("job {} was cancelled from elsewhere", job.id))
                        .hint("`pkm reindex` goes on where it stopped")
                        .into(),
                );
            }
            JobState::Failed => {
                let reason = job
                    .error
                    .unwrap_or_else(|| "no reason was given".to_owned());
                return Err(Failure::new(format!("job {} failed: {reason}", job.id))
                    .hint("`pkm reindex` goes on where it stopped")
                    .into());
            }
        }
    }
}

/// Waits until the model is there or known not to come; still loading means interrupted.
pub(crate) fn wait_model(engine: &Engine, interrupt: &Interrupt) -> ModelState {
    loop {
        match engine.wait_model(GLANCE) {
            ModelState::Loading if !interrupt.is_set() => {}
            state => return state,
        }
    }
}

fn stopped(engine: &Engine) -> Result<Outcome> {
    Ok(Outcome::Stopped {
        n_pending: engine.status()?.n_pending,
    })
}

impl Outcome {
    /// Says how it ended; having been stopped is a failure to do what was asked.
    pub(crate) fn conclude(&self) -> Result<()> {
        match self {
            Self::Done { n_passages: 0, .. } => {
                out::notice("nothing was left to embed");
                Ok(())
            }
            Self::Done { n_passages, took } => {
                let rate = *n_passages as f64 / took.as_secs_f64().max(0.001);
                out::notice(&format!(
                    "embedded {} in {} ({rate:.1} a second)",
                    out::count(*n_passages, "passage"),
                    progress::show(*took),
                ));
                Ok(())
            }
            Self::Stopped { n_pending } => Err(Failure::new(format!(
                "stopped; not embedded yet: {}",
                out::count(*n_pending, "passage")
            ))
            .hint("`pkm reindex` goes on from here; words can be searched already")
            .into()),
            Self::NoModel { reason } => {
                out::notice(&format!(
                    "the notes can be found by words; by meaning not yet: {reason}, then run `pkm reindex`"
                ));
                Ok(())
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Done { n_passages, took } => {
                json!({ "state": "done", "done": n_passages, "seconds": took.as_secs_f64() })
            }
            Self::Stopped { n_pending } => json!({ "state": "stopped", "pending": n_pending }),
            Self::NoModel { reason } => json!({ "state": "no_model", "reason": reason }),
        }
    }
}
