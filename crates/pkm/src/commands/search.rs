//! `pkm search`

use std::time::{Duration, Instant};

use anyhow::Result;
use pkm_engine::{Completeness, Engine, Hit, ModelState, SearchAnswer, SearchMode, SearchRequest};

use crate::cli::{FilterArgs, Format};
use crate::config::Config;
use crate::json;
use crate::out::{self, Out};
use crate::progress::{Progress, Unit};
use crate::wiring::{self, ModelUse, Turn};

/// A backlog up to this many passages is worth a wait, of at most [`SETTLE`].
const SMALL_BACKLOG: usize = 100;
const SETTLE: Duration = Duration::from_secs(10);
/// How often a wait shows how far it is.
const GLANCE: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    /// What to look for: words, a question, a name. Put `--` before a query with a `-minus`
    #[arg(required = true, num_args = 1..)]
    query: Vec<String>,
    /// By words alone
    #[arg(long, conflicts_with = "vector")]
    keyword: bool,
    /// By meaning alone
    #[arg(long)]
    vector: bool,
    /// How many
    #[arg(long, default_value_t = 10, value_name = "N")]
    limit: usize,
    /// Only hits with this score or a better one
    #[arg(long, value_name = "SCORE")]
    min_score: Option<f64>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Search, config: &Config, out: &mut Out) -> Result<()> {
    let mode = if args.keyword {
        SearchMode::Keyword
    } else if args.vector {
        SearchMode::Vector
    } else {
        SearchMode::Hybrid
    };
    let engine = match mode {
        SearchMode::Keyword => wiring::open(config, Turn::Never, ModelUse::None)?,
        SearchMode::Vector | SearchMode::Hybrid => {
            let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
            settle(&engine)?;
            engine
        }
    };
    let answer = engine.search(&SearchRequest {
        query: args.query.join(" "),
        mode,
        filter: args.filter.filter(),
        limit: args.limit,
        cursor: None,
        min_score: args.min_score,
    })?;
    if args.format.json {
        return Ok(out.json(&json::search_answer(&answer))?);
    }
    print(&answer, out)
}

/// Waits for the model, and a moment for the few passages that were written since the last time.
pub(super) fn settle(engine: &Engine) -> Result<()> {
    if engine.wait_model(wiring::MODEL_WAIT) != ModelState::Ready {
        return Ok(());
    }
    let status = engine.status()?;
    let total = status.n_pending;
    if !status.store.writable || !(1..=SMALL_BACKLOG).contains(&total) {
        return Ok(());
    }
    let progress = Progress::new("embedding", Unit::Things);
    let started = Instant::now();
    loop {
        let left = engine.settle(GLANCE)?;
        progress.set(
            total.saturating_sub(left) as u64,
            total as u64,
            "what is new",
        );
        if left == 0 || started.elapsed() >= SETTLE {
            break;
        }
    }
    progress.finish();
    Ok(())
}

pub(super) fn print(answer: &SearchAnswer, out: &mut Out) -> Result<()> {
    for (rank, hit) in answer.hits.iter().enumerate() {
        if rank > 0 {
            out.line("")?;
        }
        out.line(describe(rank + 1, hit))?;
    }
    if answer.hits.is_empty() {
        out::notice("nothing found");
    }
    let reason = answer
        .index
        .reason
        .as_deref()
        .unwrap_or("no reason was given");
    match answer.index.state {
        Completeness::Complete => {}
        Completeness::Empty => {
            out::notice("there are no notes yet; `pkm add` and `pkm import` bring some in")
        }
        Completeness::Partial => {
            out::notice(&format!(
                "not complete: {reason}; `pkm reindex` embeds the rest"
            ));
        }
        Completeness::KeywordOnly => out::notice(&format!("by words only: {reason}")),
    }
    Ok(())
}

/// Rank, id, title and folder; where in the note and why; the passage.
fn describe(rank: usize, hit: &Hit) -> String {
    let one_line = |text: &str| out::plain(text).replace('\n', " ");
    let mut text = format!("{rank:>2}. #{}  {}", hit.id, one_line(&hit.title));
    if !hit.folder.is_empty() {
        text.push_str(&format!("  ({})", one_line(&hit.folder)));
    }
    text.push_str("\n    ");
    if !hit.heading.is_empty() {
        text.push_str(&one_line(&hit.heading.join(" > ")));
        text.push_str(", ");
    }
    text.push_str(&match hit.lines {
        (first, last) if first == last => format!("line {first}"),
        (first, last) => format!("lines {first}-{last}"),
    });
    if let Some(rank) = hit.arms.keyword {
        text.push_str(&format!(", words {rank}"));
    }
    if let Some(rank) = hit.arms.vector {
        text.push_str(&format!(", meaning {rank}"));
    }
    for line in out::plain(&hit.snippet)
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        text.push_str("\n      ");
        text.push_str(line.trim_end());
    }
    text
}
