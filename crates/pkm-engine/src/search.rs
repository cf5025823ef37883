//! Finding notes: by words, by meaning, or both.

mod hit;
mod page;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pkm_embed::{Embedder, Role};
use pkm_index::Filter as KeyFilter;
use pkm_store::{ChunkId, Filter, NoteId, Passage};

use self::hit::{Candidate, hit, rank};
use self::page::Page;
use crate::vectors::{self, Probe};
use crate::{Engine, Error};

/// The most hits one call gives.
pub const MAX_LIMIT: usize = 50;
/// How deep paging may go: hits past this are better reached by a narrower query.
const MAX_DEPTH: usize = 500;
/// How many notes each arm brings to the fusion, at least.
const ARM_DEPTH: usize = 100;
/// How long a search by meaning waits for a model that is being loaded. Clients give up after 60 s.
const MODEL_WAIT: Duration = Duration::from_secs(20);
/// The longest query, in characters.
const MAX_QUERY_CHARS: usize = 4_000;

/// What to look for.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// Words or a question.
    pub query: String,
    /// By words, by meaning, or both.
    pub mode: SearchMode,
    /// Which notes may answer.
    pub filter: Filter,
    /// How many hits, 1..=[`MAX_LIMIT`].
    pub limit: usize,
    /// Where the previous page ended.
    pub cursor: Option<String>,
    /// Leave out hits that score less.
    pub min_score: Option<f64>,
}

/// How to look for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMode {
    /// By words alone.
    Keyword,
    /// By meaning alone.
    Vector,
    /// By both, fused.
    Hybrid,
}

/// What was found, and how complete the search was.
#[derive(Debug, Clone)]
pub struct SearchAnswer {
    /// Best first; a note is there once.
    pub hits: Vec<Hit>,
    /// Give this back for the next page.
    pub next_cursor: Option<String>,
    /// How much of the notes the search could see.
    pub index: IndexState,
}

/// A note that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The note.
    pub id: NoteId,
    /// Its title.
    pub title: String,
    /// The passage that matches best, cut to a few hundred characters.
    pub snippet: String,
    /// By words: BM25 made positive. By meaning: a cosine without what is common to the languages.
    /// Fused: that cosine and what the words add. Comparable within one mode.
    pub score: f64,
    /// The note's folder, empty for the root.
    pub folder: String,
    /// The note's tags.
    pub tags: Vec<String>,
    /// Headings above the passage, outermost first.
    pub heading: Vec<String>,
    /// First and last line of the snippet in the note, from 1.
    pub lines: (usize, usize),
    /// When the note last changed.
    pub updated_at: Timestamp,
    /// Where it stood in each arm.
    pub arms: Arms,
    /// Cosine of query and best passage; `None` where the vector arm did not find the note.
    pub similarity: Option<f32>,
}

/// Ranks from 1 in the arms of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arms {
    /// Rank by words.
    pub keyword: Option<usize>,
    /// Rank by meaning.
    pub vector: Option<usize>,
}

/// How much of the notes a search could see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexState {
    /// In one word.
    pub state: Completeness,
    /// Passages that could not be found by meaning yet.
    pub pending: usize,
    /// Passages that could not be embedded.
    pub failed: usize,
    /// Why it is not complete, for the reader.
    pub reason: Option<String>,
}

/// How complete a search was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every note could be found.
    Complete,
    /// Some notes could be found by words only.
    Partial,
    /// The vector arm did not run.
    KeywordOnly,
    /// There are no notes.
    Empty,
}

/// The best passage of a note in one arm.
struct Evidence {
    note: NoteId,
    chunk: ChunkId,
    score: f64,
    /// Share of the query's terms that the note has; 1 in the vector arm.
    share: f64,
    /// Cosine as the model made it; 0 in the keyword arm.
    similarity: f32,
}

/// What the vector arm gave: a ranking, or the reason why it did not run.
enum VectorArm {
    Ran {
        ranking: Vec<Evidence>,
        fingerprint: String,
    },
    Off {
        reason: String,
    },
}

impl Engine {
    /// Finds notes. The model runs before any lock is taken; a deleted note is never in the answer.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a blank query, a limit out of range or a foreign cursor. With
    /// [`SearchMode::Vector`] also [`Error::NoModel`] and [`Error::StaleIndex`]; with
    /// [`SearchMode::Hybrid`] the keyword arm answers then, and [`IndexState::reason`] says why.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, Error> {
        let query = request.query.trim();
        if query.is_empty() {
            return Err(Error::invalid(
                "query",
                "is blank; give a word or a question",
            ));
        }
        if query.chars().count() > MAX_QUERY_CHARS {
            return Err(Error::invalid(
                "query",
                format!("is longer than {MAX_QUERY_CHARS} characters"),
            ));
        }
        let page = Page::new(request.limit, request.cursor.as_deref(), request)?;
        let vector = match request.mode {
            SearchMode::Keyword => None,
            SearchMode::Vector => Some(self.vector_arm(query, &request.filter, page.depth())?),
            SearchMode::Hybrid => match self.vector_arm(query, &request.filter, page.depth()) {
                Err(error @ (Error::NoModel { .. } | Error::StaleIndex { .. })) => {
                    Some(VectorArm::Off {
                        reason: error.to_string(),
                    })
                }
                arm => Some(arm?),
            },
        };
        let keyword = match request.mode {
            SearchMode::Vector => Vec::new(),
            SearchMode::Keyword | SearchMode::Hybrid => {
                self.keyword_arm(query, &request.filter, page.depth())?
            }
        };
        let index = self.index_state(vector.as_ref())?;
        let ranking = match &vector {
            Some(VectorArm::Ran { ranking, .. }) => ranking.as_slice(),
            Some(VectorArm::Off { .. }) | None => &[],
        };
        let candidates = rank(&keyword, ranking, request.min_score);
        self.answer(query, candidates, &page, index)
    }

    /// Notes near to the note `id` in meaning, the nearest first, itself left out.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::NoModel`], [`Error::StaleIndex`], or [`Error::Invalid`] for a
    /// limit out of range.
    pub fn related_notes(
        &self,
        id: NoteId,
        limit: usize,
        filter: &Filter,
    ) -> Result<SearchAnswer, Error> {
        let page = Page::first(limit)?;
        let note = self.store().get_note(id)?;
        let embedder = self.embedder(MODEL_WAIT)?;
        let fingerprint = embedder.card().fingerprint.clone();
        let vectors: Vec<Vec<f32>> = self
            .store()
            .vectors_of(id, &fingerprint)?
            .into_iter()
            .map(|(_, vector)| vector)
            .collect();
        let arm = if vectors.is_empty() {
            VectorArm::Off {
                reason: "this note is not embedded yet; ask again in a moment".into(),
            }
        } else {
            let mean = mean_direction(&vectors, embedder.card().dim);
            let probe = Probe::Passage { vector: &mean };
            let mut ranking = self.nearest_notes(&embedder, &probe, filter, page.depth() + 1)?;
            ranking.retain(|evidence| evidence.note != id);
            VectorArm::Ran {
                ranking,
                fingerprint,
            }
        };
        let index = self.index_state(Some(&arm))?;
        let candidates = match &arm {
            VectorArm::Ran { ranking, .. } => rank(&[], ranking, None),
            VectorArm::Off { .. } => Vec::new(),
        };
        self.answer(&note.title, candidates, &page, index)
    }

    fn keyword_arm(
        &self,
        query: &str,
        filter: &Filter,
        depth: usize,
    ) -> Result<Vec<Evidence>, Error> {
        let answer = self
            .store()
            .keyword_search(query, filter, depth.max(ARM_DEPTH))?;
        let n_terms = answer.n_terms.max(1) as f64;
        let evidence = answer.hits.into_iter().map(|hit| Evidence {
            note: hit.note_id,
            chunk: hit.chunk_id,
            score: hit.score,
            share: (hit.n_terms_matched as f64 / n_terms).min(1.0),
            similarity: 0.0,
        });
        Ok(evidence.collect())
    }

    fn vector_arm(&self, query: &str, filter: &Filter, depth: usize) -> Result<VectorArm, Error> {
        let embedder = self.embedder(MODEL_WAIT)?;
        let card = embedder.card();
        if is_korean(query) && !reads_korean(&card.languages) {
            return Ok(VectorArm::Off {
                reason: format!(
                    "the model `{}` does not know Korean, so this query went by words alone",
                    card.name
                ),
            });
        }
        if let Some(reason) = self.model().quiet() {
            return Err(Error::NoModel { reason });
        }
        let embedded = embedder
            .embed(&[query], Role::Query)
            .map_err(|source| Error::embedding("embedding the query", source))?;
        let fingerprint = card.fingerprint.clone();
        let probe = Probe::Query {
            text: query,
            vector: &embedded.vectors[0],
        };
        let ranking = self.nearest_notes(&embedder, &probe, filter, depth.max(ARM_DEPTH))?;
        if ranking.is_empty() {
            self.refuse_stale(&embedder)?;
        }
        Ok(VectorArm::Ran {
            ranking,
            fingerprint,
        })
    }

    /// The nearest notes by their best chunk: `min(n_notes, allowed notes)` of them.
    fn nearest_notes(
        &self,
        embedder: &Arc<dyn Embedder>,
        probe: &Probe<'_>,
        filter: &Filter,
        n_notes: usize,
    ) -> Result<Vec<Evidence>, Error> {
        self.vectors().catch_up(self.store(), embedder)?;
        let allowed: Option<Vec<u64>> = self
            .store()
            .allowed_chunks(filter)?
            .map(|chunks| chunks.into_iter().map(vectors::key).collect());
        let key_filter = allowed.as_deref().map_or(KeyFilter::All, KeyFilter::Only);
        // Long notes fill the first places with their many chunks: ask for more until enough
        // different notes came.
        let mut k = n_notes * 4;
        loop {
            let near = self.vectors().search(probe, k, key_filter)?;
            let chunks: Vec<ChunkId> = near.iter().map(|near| near.chunk).collect();
            let owners = self.store().notes_of(&chunks)?;
            let mut seen = HashSet::new();
            let mut ranking = Vec::new();
            for found in &near {
                let Some(&note) = owners.get(&found.chunk) else {
                    continue;
                };
                if seen.insert(note) {
                    ranking.push(Evidence {
                        note,
                        chunk: found.chunk,
                        score: f64::from(found.score),
                        share: 1.0,
                        similarity: found.similarity,
                    });
                }
            }
            if ranking.len() >= n_notes || near.len() < k {
                ranking.truncate(n_notes);
                return Ok(ranking);
            }
            k *= 4;
        }
    }

    /// Refuses when there are vectors, but none that the model in use has made.
    fn refuse_stale(&self, embedder: &Arc<dyn Embedder>) -> Result<(), Error> {
        let card = embedder.card();
        let made = self.store().fingerprints()?;
        if made.is_empty() || made.iter().any(|f| f.fingerprint == card.fingerprint) {
            return Ok(());
        }
        let built_with: Vec<String> = made
            .iter()
            .map(|f| format!("`{}` ({} dimensions)", f.fingerprint, f.dim))
            .collect();
        Err(Error::StaleIndex {
            built_with: built_with.join(", "),
            model: format!(
                "`{}` (`{}`, {} dimensions)",
                card.name, card.fingerprint, card.dim
            ),
        })
    }

    fn index_state(&self, vector: Option<&VectorArm>) -> Result<IndexState, Error> {
        let fingerprint = match vector {
            Some(VectorArm::Ran { fingerprint, .. }) => Some(fingerprint.clone()),
            Some(VectorArm::Off { .. }) | None => self.fingerprint(),
        };
        let counts = self
            .store()
            .counts(fingerprint.as_deref().unwrap_or_default())?;
        let (pending, failed) = (counts.n_pending, counts.n_failed);
        let (state, reason) = match vector {
            _ if counts.n_notes == 0 => (
                Completeness::Empty,
                Some("there are no notes yet".to_owned()),
            ),
            Some(VectorArm::Off { reason }) => (Completeness::KeywordOnly, Some(reason.clone())),
            Some(VectorArm::Ran { .. }) if pending > 0 => (
                Completeness::Partial,
                Some(format!(
                    "{pending} of {} passages are not embedded yet and can be found by words only",
                    counts.n_chunks
                )),
            ),
            Some(VectorArm::Ran { .. }) if failed > 0 => (
                Completeness::Partial,
                Some(format!(
                    "{failed} of {} passages could not be embedded",
                    counts.n_chunks
                )),
            ),
            Some(VectorArm::Ran { .. }) | None => (Completeness::Complete, None),
        };
        Ok(IndexState {
            state,
            pending,
            failed,
            reason,
        })
    }

    fn answer(
        &self,
        query: &str,
        candidates: Vec<Candidate>,
        page: &Page,
        index: IndexState,
    ) -> Result<SearchAnswer, Error> {
        let n_candidates = candidates.len();
        let shown: Vec<Candidate> = candidates
            .into_iter()
            .skip(page.offset)
            .take(page.limit)
            .collect();
        let chunks: Vec<ChunkId> = shown.iter().map(|c| c.chunk).collect();
        let passages: HashMap<ChunkId, Passage> = self
            .store()
            .passages(&chunks)?
            .into_iter()
            .map(|p| (p.chunk_id, p))
            .collect();
        let hits = shown
            .into_iter()
            // What was deleted since the ranking was made drops out here.
            .filter_map(|candidate| {
                passages
                    .get(&candidate.chunk)
                    .map(|passage| hit(query, &candidate, passage))
            })
            .collect();
        let end = page.offset + page.limit;
        let next_cursor = (end < n_candidates && end < MAX_DEPTH).then(|| page.cursor_at(end));
        Ok(SearchAnswer {
            hits,
            next_cursor,
            index,
        })
    }
}

pub(crate) fn is_korean(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7a3}'))
}

pub(crate) fn reads_korean(languages: &[String]) -> bool {
    languages
        .iter()
        .any(|language| language == "multilingual" || language == "ko")
}

/// The mean of unit vectors, as a unit vector. They come from one note, so they do not cancel out;
/// where they did, the first stands for all.
fn mean_direction(vectors: &[Vec<f32>], dim: usize) -> Vec<f32> {
    let mut sum = vec![0.0f32; dim];
    for vector in vectors {
        for (total, value) in sum.iter_mut().zip(vector) {
            *total += value;
        }
    }
    let norm = sum.iter().map(|v| v * v).sum::<f32>().sqrt();
    if norm < 1e-6 {
        return vectors[0].clone();
    }
    sum.iter().map(|v| v / norm).collect()
}
