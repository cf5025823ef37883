//! `pkm bench`

use std::time::{Duration, Instant};

use anyhow::Result;
use pkm_embed::{Embedder, Encoder, ModelState, Role};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::config::Config;
use crate::eval::metrics;
use crate::out::{self, Out};
use crate::report::Failure;
use crate::{models, progress};

/// Lengths of the texts, in tokens: a question, a short passage, a full window.
const LENGTHS: [usize; 3] = [32, 128, 512];
/// Tokens that are given to the model at once, as when notes are embedded.
const BATCH_TOKENS: usize = 4_096;
/// Words that texts are made of: both scripts, so that tokens are of a usual length.
const WORDS: [&str; 12] = [
    "회의에서",
    "the",
    "데이터베이스",
    "query",
    "느린",
    "index",
    "어제",
    "we",
    "측정한",
    "slower",
    "결과를",
    "than",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// How fast the model embeds, by length of text
    Embed {
        /// How long to measure each length
        #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
        #[command(flatten)]
        format: Format,
    },
}

pub(crate) fn run(args: &Bench, config: &Config, out: &mut Out) -> Result<()> {
    match &args.what {
        What::Embed { seconds, format } => {
            embed(Duration::from_secs(*seconds), format, config, out)
        }
    }
}

fn embed(time: Duration, format: &Format, config: &Config, out: &mut Out) -> Result<()> {
    let manifest = models::choose(config)?.manifest;
    let folder = models::folder(config);
    if let ModelState::Missing = folder.state(manifest) {
        return Err(
            Failure::new(format!("the model `{}` is not installed", manifest.name))
                .hint(models::how_to_get(manifest, folder.root()))
                .into(),
        );
    }
    let started = Instant::now();
    let device = models::device(&config.device.value)?;
    let encoder = Encoder::load(manifest, &folder.path(manifest), device)?;
    let loaded = started.elapsed();
    let window = encoder.card().window;
    let mut rows = Vec::new();
    for length in LENGTHS.into_iter().filter(|&length| length <= window) {
        out::notice(&format!("measuring texts of {length} tokens"));
        rows.push(measure(&encoder, length, time)?);
    }
    let card = encoder.card();
    if format.json {
        let results: Vec<Value> = rows.iter().map(Row::json).collect();
        return Ok(out.json(&json!({
            "model": card.name,
            "fingerprint": card.fingerprint,
            "device": card.device,
            "load_seconds": loaded.as_secs_f64(),
            "results": results,
        }))?);
    }
    out.line(format!(
        "{} on {}, loaded in {}",
        card.name,
        card.device,
        progress::show(loaded)
    ))?;
    out.line("tokens  tokens/s  texts/s  one text, p50 ms  p95 ms")?;
    for row in &rows {
        out.line(format!(
            "{:>6}  {:>8.0}  {:>7.1}  {:>16.1}  {:>6.1}",
            row.length, row.tokens_per_second, row.texts_per_second, row.p50_ms, row.p95_ms
        ))?;
    }
    Ok(())
}

struct Row {
    length: usize,
    tokens_per_second: f64,
    texts_per_second: f64,
    /// A text alone, as a question comes.
    p50_ms: f64,
    p95_ms: f64,
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "tokens": self.length,
            "tokens_per_second": self.tokens_per_second,
            "texts_per_second": self.texts_per_second,
            "single_p50_ms": self.p50_ms,
            "single_p95_ms": self.p95_ms,
        })
    }
}

/// Half of the time in batches, half of it one text at a time.
fn measure(encoder: &Encoder, length: usize, time: Duration) -> Result<Row> {
    let texts: Vec<String> = (0..BATCH_TOKENS.div_ceil(length))
        .map(|i| text_of(encoder, length, i))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // The first pass sets up what later ones find ready.
    encoder.embed(&texts[..1], Role::Passage)?;
    let (mut n_texts, mut n_tokens) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < time / 2 {
        n_tokens += encoder.embed(&texts, Role::Passage)?.n_tokens;
        n_texts += texts.len();
    }
    let batched = started.elapsed().as_secs_f64();
    let mut singles = Vec::new();
    let started = Instant::now();
    for text in texts.iter().cycle() {
        let at = Instant::now();
        encoder.embed(&[text], Role::Query)?;
        singles.push(at.elapsed());
        if started.elapsed() >= time / 2 {
            break;
        }
    }
    let millis = |percent| metrics::percentile(&singles, percent).as_secs_f64() * 1000.0;
    Ok(Row {
        length,
        tokens_per_second: n_tokens as f64 / batched,
        texts_per_second: n_texts as f64 / batched,
        p50_ms: millis(50),
        p95_ms: millis(95),
    })
}

/// A text of at most `length` tokens and nearly so, that differs from those of other `i`.
fn text_of(encoder: &Encoder, length: usize, i: usize) -> String {
    let mut text = i.to_string();
    for word in WORDS.iter().cycle().skip(i % WORDS.len()) {
        let longer = format!("{text} {word}");
        if encoder.count_tokens(&longer) > length {
            return text;
        }
        text = longer;
    }
    text
}
