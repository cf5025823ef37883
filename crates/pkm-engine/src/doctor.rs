//! Whether everything agrees, and mending what does not.

use crate::{Engine, Error, ModelState};

/// How many failed passages a report names.
const N_FAILED: usize = 20;

/// Something that the doctor found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it needs mending.
    pub severity: Severity,
    /// What it is, one sentence.
    pub what: String,
}

/// Whether a finding needs mending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something is wrong; [`Engine::repair`] mends it or says what to do.
    Problem,
    /// Worth knowing.
    Note,
}

impl Engine {
    /// Looks over notes, chunks, postings and vectors. No [`Severity::Problem`] means sound.
    ///
    /// # Errors
    ///
    /// When the notes' file cannot be read at all.
    pub fn doctor(&self) -> Result<Vec<Finding>, Error> {
        let problem = |what: String| Finding {
            severity: Severity::Problem,
            what,
        };
        let note = |what: String| Finding {
            severity: Severity::Note,
            what,
        };
        let mut findings: Vec<Finding> = self
            .store()
            .check()?
            .iter()
            .map(|found| problem(found.to_string()))
            .collect();
        let Some(embedder) = self.model().get() else {
            if let ModelState::Failed { reason } = self.model().state() {
                let name = self.model().name();
                findings.push(problem(format!(
                    "the model `{name}` could not be loaded: {reason}"
                )));
            }
            return Ok(findings);
        };
        let card = embedder.card();
        let counts = self.store().counts(&card.fingerprint)?;
        if counts.n_pending > 0 {
            findings.push(note(format!(
                "{} of {} passages wait to be embedded; `pkm reindex` does it now",
                counts.n_pending, counts.n_chunks
            )));
        }
        for failed in self.store().failed_passages(&card.fingerprint, N_FAILED)? {
            findings.push(problem(format!(
                "passage {} could not be embedded: {}; `pkm reindex --all` tries again",
                failed.hash, failed.reason
            )));
        }
        for other in self.store().fingerprints()? {
            if other.fingerprint != card.fingerprint {
                findings.push(note(format!(
                    "{} vectors of another model (`{}`) are kept; `pkm reindex --all` drops them",
                    other.n_vectors, other.fingerprint
                )));
            }
        }
        self.vectors().catch_up(self.store(), &embedder)?;
        let (n_vectors, _) = self.vectors().size();
        // Others may write between the two counts; only a lasting difference is a problem, and a
        // reload mends it, so it is worth a note.
        if n_vectors != self.store().counts(&card.fingerprint)?.n_indexed {
            findings.push(note(format!(
                "the index in memory holds {n_vectors} vectors, the notes' file {}",
                counts.n_indexed
            )));
        }
        Ok(findings)
    }

    /// Mends what can be mended from the notes themselves, and says what was done.
    ///
    /// # Errors
    ///
    /// When the notes' file cannot be written.
    pub fn repair(&self) -> Result<Vec<String>, Error> {
        let repaired = self.store().repair()?;
        self.wake_worker();
        let done = [
            (repaired.n_postings, "postings written anew"),
            (
                repaired.n_vectors,
                "bad vectors dropped; their passages will be embedded anew",
            ),
            (repaired.n_notes_to_rechunk, "notes marked to be cut anew"),
        ];
        Ok(done
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect())
    }
}
