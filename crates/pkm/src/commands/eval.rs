//! `pkm eval`

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use pkm_engine::{Engine, Filter, NoteId, ReindexScope, SearchMode, SearchRequest};
use serde::Serialize;
use serde_json::json;

use super::embedding::{self, Outcome};
use crate::cli::Format;
use crate::config::Config;
use crate::eval::load;
use crate::eval::metrics::{self, DEPTH, Scores};
use crate::eval::set::{Query, Set};
use crate::interrupt::Interrupt;
use crate::out::{self, Out};
use crate::progress::{Progress, Unit};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Eval {
    /// The folder with `queries.jsonl`, `qrels.tsv`, and `corpus.jsonl` or `notes`
    #[arg(value_name = "FOLDER")]
    set: PathBuf,
    /// What to measure; give it again for more; all if not given
    #[arg(long = "mode", value_enum)]
    modes: Vec<Mode>,
    /// Keep the notes and their vectors here for the next run
    #[arg(long, value_name = "FOLDER")]
    data_cache: Option<PathBuf>,
    /// List the questions that an arm does not answer in its first three hits
    #[arg(long)]
    misses: bool,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// By words
    Keyword,
    /// By meaning
    Vector,
    /// By both
    Hybrid,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
        }
    }

    fn search_mode(self) -> SearchMode {
        match self {
            Self::Keyword => SearchMode::Keyword,
            Self::Vector => SearchMode::Vector,
            Self::Hybrid => SearchMode::Hybrid,
        }
    }
}

pub(crate) fn run(args: &Eval, config: &Config, out: &mut Out) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let set = Set::read(&args.set)?;
    // Removed when it goes out of scope, after the engine that uses it.
    let temporary;
    let data_dir = match &args.data_cache {
        Some(folder) => folder.clone(),
        None => {
            temporary = tempfile::tempdir().map_err(|error| {
                Failure::new("cannot make a folder for the notes").source(error)
            })?;
            temporary.path().join("notes")
        }
    };
    let engine = wiring::open_at(data_dir.clone(), config, Turn::Take, ModelUse::Load)?;
    embedding::wait_model(&engine, &interrupt);
    let names = load::notes(&engine, &set.notes, &data_dir, &interrupt)?;
    let known: HashSet<&str> = names.values().map(String::as_str).collect();
    if let Some(unknown) = set.unknown_note(&known) {
        return Err(Failure::new(format!(
            "`qrels.tsv` judges the note `{unknown}`, which the set does not have"
        ))
        .into());
    }
    let mut modes = args.modes.clone();
    if modes.is_empty() {
        modes = vec![Mode::Keyword, Mode::Vector, Mode::Hybrid];
    }
    if modes.iter().any(|&mode| mode != Mode::Keyword) {
        let outcome = embedding::run(&engine, ReindexScope::Pending, &interrupt)?;
        if let Outcome::NoModel { reason } = &outcome {
            out::notice(&format!("only words are measured: {reason}"));
            modes = vec![Mode::Keyword];
        } else {
            outcome.conclude()?;
        }
    }
    let mut answers = Vec::new();
    for mode in modes {
        answers.extend(ask(&engine, &set, &names, mode, &interrupt)?);
    }
    report(args, &engine, &answers, out)
}

/// How one arm answered one question.
struct Answer<'a> {
    mode: Mode,
    query: &'a Query,
    /// `None` where nothing answers the question.
    scores: Option<Scores>,
    /// Rank of the first answer.
    rank: Option<usize>,
    n_hits: usize,
    top_score: Option<f64>,
    took: Duration,
}

fn ask<'a>(
    engine: &Engine,
    set: &'a Set,
    names: &HashMap<NoteId, String>,
    mode: Mode,
    interrupt: &Interrupt,
) -> Result<Vec<Answer<'a>>> {
    let search = |query: &Query| {
        engine.search(&SearchRequest {
            query: query.text.clone(),
            mode: mode.search_mode(),
            filter: Filter::default(),
            limit: DEPTH,
            cursor: None,
            min_score: None,
        })
    };
    // The first search of a process reads the vectors; that is not what is measured here.
    if let Some(query) = set.queries.first() {
        search(query)?;
    }
    let progress = Progress::new(mode.name(), Unit::Things);
    let mut answers = Vec::new();
    for (i, query) in set.queries.iter().enumerate() {
        if interrupt.is_set() {
            return Err(Failure::new("stopped").into());
        }
        progress.set(i as u64, set.queries.len() as u64, &query.text);
        let started = Instant::now();
        let answer = search(query)?;
        let took = started.elapsed();
        let name = |id| names.get(&id).map_or("", String::as_str);
        let hits: Vec<f64> = answer
            .hits
            .iter()
            .map(|hit| set.judgement(query, name(hit.id)))
            .collect();
        let judged = set.judged(query);
        answers.push(Answer {
            mode,
            query,
            scores: (!judged.is_empty()).then(|| metrics::score(&hits, &judged)),
            rank: hits
                .iter()
                .position(|&gain| gain > 0.0)
                .map(|position| position + 1),
            n_hits: answer.hits.len(),
            top_score: answer.hits.first().map(|hit| hit.score),
            took,
        });
    }
    progress.finish();
    Ok(answers)
}

/// Means over the questions of one class, or of all.
#[derive(Serialize)]
struct Row {
    mode: Mode,
    class: String,
    n: usize,
    #[serde(flatten)]
    scores: Scores,
    p50_ms: f64,
    p95_ms: f64,
}

/// How one arm answered the questions that nothing answers.
#[derive(Serialize)]
struct Unanswerable {
    mode: Mode,
    n: usize,
    n_with_hits: usize,
    max_score: Option<f64>,
}

fn rows(answers: &[Answer<'_>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for of_mode in answers.chunk_by(|a, b| a.mode == b.mode) {
        let judged: Vec<&Answer<'_>> = of_mode.iter().filter(|a| a.scores.is_some()).collect();
        let mut classes: BTreeMap<&str, Vec<&Answer<'_>>> = BTreeMap::new();
        for answer in &judged {
            if let Some(class) = &answer.query.class {
                classes.entry(class).or_default().push(answer);
            }
        }
        for (class, answers) in classes {
            rows.push(row(class, &answers));
        }
        if !judged.is_empty() {
            rows.push(row("all", &judged));
        }
    }
    rows
}

fn row(class: &str, answers: &[&Answer<'_>]) -> Row {
    let scores: Vec<Scores> = answers.iter().filter_map(|answer| answer.scores).collect();
    let times: Vec<Duration> = answers.iter().map(|answer| answer.took).collect();
    let millis = |percent| metrics::percentile(&times, percent).as_secs_f64() * 1000.0;
    Row {
        mode: answers[0].mode,
        class: class.to_owned(),
        n: answers.len(),
        scores: metrics::mean(&scores),
        p50_ms: millis(50),
        p95_ms: millis(95),
    }
}

fn unanswerable(answers: &[Answer<'_>]) -> Vec<Unanswerable> {
    answers
        .chunk_by(|a, b| a.mode == b.mode)
        .filter_map(|of_mode| {
            let mut asked = of_mode
                .iter()
                .filter(|answer| answer.scores.is_none())
                .peekable();
            asked.peek()?;
            let mut summary = Unanswerable {
                mode: of_mode[0].mode,
                n: 0,
                n_with_hits: 0,
                max_score: None,
            };
            for answer in asked {
                summary.n += 1;
                summary.n_with_hits += usize::from(answer.n_hits > 0);
                summary.max_score = match (summary.max_score, answer.top_score) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    (a, b) => a.or(b),
                };
            }
            Some(summary)
        })
        .collect()
}

fn report(args: &Eval, engine: &Engine, answers: &[Answer<'_>], out: &mut Out) -> Result<()> {
    let (rows, unanswerable) = (rows(answers), unanswerable(answers));
    let status = engine.status()?;
    if args.format.json {
        let per_query: Vec<_> = answers
            .iter()
            .map(|answer| {
                json!({
                    "mode": answer.mode,
                    "id": answer.query.id,
                    "class": answer.query.class,
                    "rank": answer.rank,
                    "n_hits": answer.n_hits,
                    "top_score": answer.top_score,
                    "ms": answer.took.as_secs_f64() * 1000.0,
                })
            })
            .collect();
        return Ok(out.json(&json!({
            "set": args.set,
            "notes": status.n_notes,
            "chunks": status.n_chunks,
            "model": {
                "name": status.model.name,
                "fingerprint": status.model.fingerprint,
                "device": status.model.device,
            },
            "results": rows,
            "unanswerable": unanswerable,
            "queries": per_query,
        }))?);
    }
    let model = match &status.model.device {
        Some(device) => format!("{} on {device}", status.model.name),
        None => "no model".to_owned(),
    };
    out.line(format!(
        "{}, {}, {model}",
        out::count(status.n_notes, "note"),
        out::count(status.n_chunks, "passage"),
    ))?;
    out.line(
        "mode     class             n  nDCG@10  recall@10  MRR@10  hit@1  hit@3  hit@5  p50 ms  p95 ms",
    )?;
    for row in &rows {
        let scores = &row.scores;
        out.line(format!(
            "{:<8} {:<14} {:>4}  {:>7.3}  {:>9.3}  {:>6.3}  {:>5.3}  {:>5.3}  {:>5.3}  {:>6.1}  {:>6.1}",
            row.mode.name(),
            row.class,
            row.n,
            scores.ndcg_at_10,
            scores.recall_at_10,
            scores.mrr_at_10,
            scores.hit_at_1,
            scores.hit_at_3,
            scores.hit_at_5,
            row.p50_ms,
            row.p95_ms
        ))?;
    }
    for nothing in &unanswerable {
        out.line(format!(
            "{:<8} answers {} of {} questions that nothing answers, with a score up to {:.3}",
            nothing.mode.name(),
            nothing.n_with_hits,
            nothing.n,
            nothing.max_score.unwrap_or(0.0)
        ))?;
    }
    if args.misses {
        print_misses(answers, out)?;
    }
    Ok(())
}

fn print_misses(answers: &[Answer<'_>], out: &mut Out) -> Result<()> {
    for answer in answers {
        let missed = answer.scores.is_some() && answer.rank.is_none_or(|rank| rank > 3);
        if missed {
            let rank = answer.rank.map_or("-".to_owned(), |rank| rank.to_string());
            out.line(format!(
                "missed by {:<8} {:<14} {:<8} rank {rank:>2}  {}",
                answer.mode.name(),
                answer.query.class.as_deref().unwrap_or(""),
                answer.query.id,
                out::plain(&answer.query.text)
            ))?;
        }
    }
    Ok(())
}
