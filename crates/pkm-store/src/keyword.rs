//! Keyword search over the postings.
//!
//! FTS5 finds the chunks of every form of every term and gives their BM25; the sum is made
//! here, because it must not count a word thrice that is found as written, by its stem and by
//! its bigrams, and because rarity is a matter of the word and not of the form.

use std::collections::HashMap;

use rusqlite::Transaction;

use crate::analyze::{Form, Plan, Query, Term};
use crate::error::Fault;
use crate::filter::Condition;
use crate::{ChunkId, Filter, NoteId, Result, Store, chunk};

/// A note found by its words, through its best chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct KeywordHit {
    /// The note.
    pub note_id: NoteId,
    /// Its chunk that fits best.
    pub chunk_id: ChunkId,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
    /// Terms of the query that the note has, in any chunk.
    pub n_terms_matched: usize,
    /// Whether the note has all of them.
    pub all_terms: bool,
}

/// The answer of a keyword search, best first, ties by note id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeywordAnswer {
    /// One a note.
    pub hits: Vec<KeywordHit>,
    /// Terms that the query was understood as; 0 for a blank or punctuation-only one.
    pub n_terms: usize,
}

// The weights below were chosen by nDCG@10 on three sets, Korean and English, whole notes and
// notes cut at 1,500 bytes. The optimum is flat. To put the notes with all terms first, whatever
// their score, cost 0.07 on questions of several common words.

/// How much a hit in each column counts: title, headings, tags, body.
const COLUMN_WEIGHTS: &str = "4.0, 2.0, 3.0, 1.0";

/// What a whole note adds to its best chunk, of what other chunks have of the query.
const OTHER_CHUNKS: f64 = 0.15;

/// How much of the score depends on how many of the terms a note has, rarity counted.
const COVERAGE: f64 = 0.5;

/// How much a title that is the query, word for word, adds to a score.
const TITLE: f64 = 1.0;

/// So many of the best notes have their titles compared with the query.
const N_RERANKED: usize = 100;

/// What bigrams of a word that is not found otherwise count for.
const GRAMS_WEIGHT: f64 = 0.3;

/// A form is read up to this many chunks: beyond, it tells nothing apart.
const MAX_ROWS: i64 = 50_000;

/// Bigrams are looked for when the word itself is in fewer chunks than this.
const RARE: usize = 5;

impl Store {
    /// Finds up to `limit_notes` notes by the words of `query`: words, `"phrases"`,
    /// `-excluded` words; everything else is literal, and no text is an error. The more and
    /// the rarer the terms a note has, the higher it comes; one of many is enough to be found.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn keyword_search(
        &self,
        query: &str,
        filter: &Filter,
        limit_notes: usize,
    ) -> Result<KeywordAnswer> {
        let query = Query::parse(query);
        if query.terms.is_empty() || limit_notes == 0 {
            return Ok(KeywordAnswer {
                n_terms: query.terms.len(),
                hits: Vec::new(),
            });
        }
        self.read("searching by keyword", |tx| {
            let allowed = match Condition::of(filter) {
                Some(condition) => Some(chunk::allowed(tx, &condition)?),
                None => None,
            };
            let postings = Postings::new(tx)?;
            let mut notes = Notes::new(query.terms.len());
            for term in &query.terms {
                notes.add(&postings.find(&term.plan())?, &postings, allowed.as_deref())?;
            }
            if notes.notes.is_empty() {
                notes.n_terms += query.stop_words.len();
                for term in &query.stop_words {
                    notes.add(&postings.find(&term.plan())?, &postings, allowed.as_deref())?;
                }
            }
            for term in &query.excluded {
                notes.exclude(&postings.find_strictly(term)?, &postings)?;
            }
            let mut answer = notes.answer(limit_notes.saturating_add(N_RERANKED));
            weigh_titles(tx, &query, &mut answer.hits)?;
            answer.hits.truncate(limit_notes);
            Ok(answer)
        })
    }
}

fn sort(hits: &mut [KeywordHit]) {
    // Ties break by id: the same notes must rank the same way on every run.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.note_id.cmp(&b.note_id)));
}

/// Raises the notes whose title is about what is asked: the more of the title the query
/// covers, and the more of the query the title. BM25 cannot see that, for it measures a hit in
/// a title of two words by the length of the chunk below.
fn weigh_titles(tx: &Transaction<'_>, query: &Query, hits: &mut [KeywordHit]) -> Result<(), Fault> {
    let mut title = tx.prepare_cached("SELECT title FROM note WHERE id = ?1")?;
    for hit in hits.iter_mut().take(N_RERANKED) {
        let title: String = title.query_row([hit.note_id.0], |row| row.get(0))?;
        hit.score *= 1.0 + TITLE * query.overlap(&title);
    }
    sort(hits);
    Ok(())
}

/// The chunks that have a term.
#[derive(Default)]
struct Found {
    /// Weighted term frequency, normalised by BM25, by chunk.
    frequencies: HashMap<i64, f64>,
    /// By which a frequency becomes a score.
    rarity: f64,
    /// Chunks that have only some bigrams of the word, with their scores.
    partly: HashMap<i64, f64>,
}

/// The full-text index within one transaction.
struct Postings<'a> {
    tx: &'a Transaction<'a>,
    n_chunks: f64,
}

impl<'a> Postings<'a> {
    fn new(tx: &'a Transaction<'a>) -> Result<Self, Fault> {
        let n_chunks: i64 = tx
            .prepare_cached("SELECT count(*) FROM posting_docsize")?
            .query_row([], |row| row.get(0))?;
        Ok(Self {
            tx,
            n_chunks: n_chunks as f64,
        })
    }

    fn find(&self, plan: &Plan) -> Result<Found, Fault> {
        let mut found = self.find_forms(&plan.forms)?;
        if found.frequencies.is_empty() {
            found = self.find_forms(&plan.fallback)?;
        }
        if found.frequencies.len() < RARE && !plan.grams.is_empty() {
            found.partly = self.find_grams(&plan.grams)?;
        }
        Ok(found)
    }

    /// The chunks that really have the term: what a minus takes away.
    fn find_strictly(&self, term: &Term) -> Result<Vec<i64>, Fault> {
        let forms: Vec<Form> = term
            .plan()
            .forms
            .into_iter()
            .filter(Form::is_sure)
            .collect();
        Ok(self.find_forms(&forms)?.frequencies.into_keys().collect())
    }

    fn find_forms(&self, forms: &[Form]) -> Result<Found, Fault> {
        let mut found = Found::default();
        for form in forms {
            for (chunk, frequency) in self.rows(&form.expression)? {
                let best = found.frequencies.entry(chunk).or_default();
                *best = best.max(frequency * form.weight);
            }
        }
        found.rarity = self.rarity(found.frequencies.len());
        Ok(found)
    }

    /// Chunks with at least half of the bigrams, and their scores.
    fn find_grams(&self, grams: &[String]) -> Result<HashMap<i64, f64>, Fault> {
        let mut sums: HashMap<i64, (usize, f64)> = HashMap::new();
        for gram in grams {
            let rows = self.rows(gram)?;
            let rarity = self.rarity(rows.len());
            for (chunk, frequency) in rows {
                let sum = sums.entry(chunk).or_default();
                sum.0 += 1;
                sum.1 += frequency * rarity;
            }
        }
        let n_grams = grams.len();
        sums.retain(|_, (n, _)| *n * 2 >= n_grams);
        Ok(sums
            .into_iter()
            .map(|(chunk, (_, sum))| (chunk, sum / n_grams as f64 * GRAMS_WEIGHT))
            .collect())
    }

    /// The chunks that match an expression, with the part of their BM25 that is not rarity.
    fn rows(&self, expression: &str) -> Result<Vec<(i64, f64)>, Fault> {
        let mut query = self.tx.prepare_cached(&format!(
            "SELECT rowid, -bm25(posting, {COLUMN_WEIGHTS}) FROM posting
             WHERE posting MATCH ?1 LIMIT {MAX_ROWS}"
        ))?;
        let rows = query.query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut rows: Vec<(i64, f64)> = rows.collect::<rusqlite::Result<_>>()?;
        // FTS5 multiplies by ln((N - n + 0.5) / (n + 0.5)), or a millionth where that is not
        // positive; here it is taken out again.
        let n_rows = rows.len() as i64;
        let n = if n_rows < MAX_ROWS {
            n_rows
        } else {
            self.count(expression)?
        } as f64;
        let mut idf = ((self.n_chunks - n + 0.5) / (n + 0.5)).ln();
        if idf <= 0.0 {
            idf = 1e-6;
        }
        for (_, score) in &mut rows {
            *score /= idf;
        }
        Ok(rows)
    }

    fn count(&self, expression: &str) -> Result<i64, Fault> {
        Ok(self
            .tx
            .prepare_cached("SELECT count(*) FROM posting WHERE posting MATCH ?1")?
            .query_row([expression], |row| row.get(0))?)
    }

    /// Inverse document frequency as in BM25 of Lucene, which stays positive.
    fn rarity(&self, n: usize) -> f64 {
        let n = n as f64;
        (1.0 + (self.n_chunks - n).max(0.0) / (n + 0.5) + 0.5 / (n + 0.5)).ln()
    }

    fn note_of(&self, chunk: i64) -> Result<i64, Fault> {
        Ok(self
            .tx
            .prepare_cached("SELECT note_id FROM chunk WHERE id = ?1")?
            .query_row([chunk], |row| row.get(0))?)
    }
}

/// Scores as they gather.
struct Notes {
    n_terms: usize,
    /// Sum of the rarity of the terms that are found anywhere.
    rarity: f64,
    notes: HashMap<i64, NoteScore>,
    note_of: HashMap<i64, i64>,
}

#[derive(Default)]
struct NoteScore {
    /// Each term's score in its best chunk, summed.
    of_all_chunks: f64,
    chunks: HashMap<i64, f64>,
    n_terms: usize,
    rarity: f64,
    is_excluded: bool,
}

impl Notes {
    fn new(n_terms: usize) -> Self {
        Self {
            n_terms,
            rarity: 0.0,
            notes: HashMap::new(),
            note_of: HashMap::new(),
        }
    }

    fn note(&mut self, chunk: i64, postings: &Postings<'_>) -> Result<i64, Fault> {
        if let Some(note) = self.note_of.get(&chunk) {
            return Ok(*note);
        }
        let note = postings.note_of(chunk)?;
        self.note_of.insert(chunk, note);
        Ok(note)
    }

    fn add(
        &mut self,
        found: &Found,
        postings: &Postings<'_>,
        allowed: Option<&[ChunkId]>,
    ) -> Result<(), Fault> {
        let is_allowed = |chunk: &i64| {
            allowed.is_none_or(|allowed| allowed.binary_search(&ChunkId(*chunk)).is_ok())
        };
        if !found.frequencies.is_empty() {
            self.rarity += found.rarity;
        }
        // Each note's best chunk for this term, and whether it has the term or some bigrams.
        let mut best: HashMap<i64, (f64, bool)> = HashMap::new();
        let whole = found
            .frequencies
            .iter()
            .map(|(chunk, f)| (*chunk, f * found.rarity, true));
        let partly = found
            .partly
            .iter()
            .filter(|(chunk, _)| !found.frequencies.contains_key(chunk))
            .map(|(chunk, score)| (*chunk, *score, false));
        for (chunk, score, is_whole) in whole.chain(partly) {
            if !is_allowed(&chunk) {
                continue;
            }
            let id = self.note(chunk, postings)?;
            let note = self.notes.entry(id).or_default();
            *note.chunks.entry(chunk).or_default() += score;
            let best = best.entry(id).or_default();
            *best = (best.0.max(score), best.1 || is_whole);
        }
        for (id, (score, is_whole)) in best {
            let note = self.notes.entry(id).or_default();
            note.of_all_chunks += score;
            if is_whole {
                note.n_terms += 1;
                note.rarity += found.rarity;
            }
        }
        Ok(())
    }

    fn exclude(&mut self, chunks: &[i64], postings: &Postings<'_>) -> Result<(), Fault> {
        for chunk in chunks {
            let id = self.note(*chunk, postings)?;
            if let Some(note) = self.notes.get_mut(&id) {
                note.is_excluded = true;
            }
        }
        Ok(())
    }

    fn answer(self, limit_notes: usize) -> KeywordAnswer {
        let mut hits: Vec<KeywordHit> = self
            .notes
            .into_iter()
            .filter(|(_, note)| !note.is_excluded)
            .filter_map(|(id, note)| {
                let (chunk, best) = note
                    .chunks
                    .iter()
                    .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
                let covered = if self.rarity > 0.0 {
                    note.rarity / self.rarity
                } else {
                    1.0
                };
                let others = (note.of_all_chunks - best).max(0.0);
                let score = (best + OTHER_CHUNKS * others) * (1.0 - COVERAGE + COVERAGE * covered);
                Some(KeywordHit {
                    note_id: NoteId(id),
                    chunk_id: ChunkId(*chunk),
                    score,
                    n_terms_matched: note.n_terms,
                    all_terms: note.n_terms == self.n_terms,
                })
            })
            .collect();
        sort(&mut hits);
        hits.truncate(limit_notes);
        KeywordAnswer {
            hits,
            n_terms: self.n_terms,
        }
    }
}
