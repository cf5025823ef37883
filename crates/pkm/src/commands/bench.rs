//! `pkm bench`

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pkm_embed::{Embedder, Encoder, EncoderOptions, ModelState, Role};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::config::Config;
use crate::eval::metrics;
use crate::models;
use crate::out::{self, Out};
use crate::report::Failure;

/// Lengths of the texts, in tokens: from a question to a full window.
const LENGTHS: [usize; 5] = [16, 64, 128, 256, 512];
/// Tokens that are given to the model at once, as when notes are embedded.
const BATCH_TOKENS: usize = 4_096;
/// Tokens of a question.
const QUERY_TOKENS: usize = 12;
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
    Embed(Embed),
}

#[derive(Debug, clap::Args)]
struct Embed {
    /// How long to measure each length
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// What an earlier run printed with `--json`, to compare with
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Bench, config: &Config, out: &mut Out) -> Result<()> {
    match &args.what {
        What::Embed(args) => embed(args, config, out),
    }
}

fn embed(args: &Embed, config: &Config, out: &mut Out) -> Result<()> {
    let manifest = models::local(config)?.manifest;
    let folder = models::folder(config);
    if let ModelState::Missing = folder.state(&manifest) {
        return Err(
            Failure::new(format!("the model `{}` is not installed", manifest.name))
                .hint(models::how_to_get(&manifest, folder.root()))
                .into(),
        );
    }
    let before = args.compare.as_deref().map(read_report).transpose()?;
    let time = Duration::from_secs(args.seconds);
    let options = models::options(config)?;
    let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    // One core and then all, where nobody chose.
    let mut counts = options
        .threads
        .map_or_else(|| vec![NonZeroUsize::MIN, all], |n| vec![n]);
    counts.dedup();
    let mut runs = Vec::new();
    for threads in counts {
        let started = Instant::now();
        let options = EncoderOptions {
            threads: Some(threads),
            ..options.clone()
        };
        let encoder = Encoder::load_with(&manifest, &folder.path(&manifest), &options)?;
        runs.push(Run::measure(&encoder, started.elapsed(), time)?);
    }
    let mut report = json!({
        "model": manifest.name,
        "cpu_features": cpu_features(),
        "peak_memory_bytes": peak_memory(),
        "runs": runs.iter().map(Run::json).collect::<Vec<_>>(),
    });
    if let Some(before) = &before {
        compare(&mut report, before);
    }
    if args.format.json {
        return Ok(out.json(&report)?);
    }
    show(&report, out)
}

/// One count of threads.
struct Run {
    threads: usize,
    fingerprint: String,
    device: String,
    precision: Option<String>,
    kernel: Option<String>,
    loaded: Duration,
    /// One question at a time.
    queries: Vec<Duration>,
    /// GFLOP/s that a matrix product of the kernel reaches on as many cores as there are threads.
    product_gflops: Option<f64>,
    sets: Vec<Set>,
}

/// Texts of one length, or of many.
struct Set {
    /// None for the mixed set.
    tokens: Option<usize>,
    tokens_per_second: f64,
    texts_per_second: f64,
    /// What the matrix products of the linear layers take of that.
    linear_gflops: Option<f64>,
}

impl Run {
    fn measure(encoder: &Encoder, loaded: Duration, time: Duration) -> Result<Run> {
        let card = encoder.card();
        let kernel = encoder.kernel();
        let mut sets = Vec::new();
        let lengths = LENGTHS.into_iter().filter(|length| *length <= card.window);
        for tokens in lengths.map(Some).chain([None]) {
            let what = tokens.map_or_else(
                || "texts of mixed lengths".to_owned(),
                |tokens| format!("texts of {tokens} tokens"),
            );
            out::notice(&format!(
                "measuring {what} on {}",
                count(encoder.n_threads())
            ));
            let texts: Vec<String> = match tokens {
                Some(tokens) => (0..BATCH_TOKENS.div_ceil(tokens))
                    .map(|i| text_of(encoder, tokens, i))
                    .collect(),
                None => mixed_lengths(card.window)
                    .enumerate()
                    .map(|(i, tokens)| text_of(encoder, tokens, i))
                    .collect(),
            };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            // The first pass sets up what later ones find ready.
            encoder.embed(&texts, Role::Passage)?;
            let (mut n_texts, mut n_tokens) = (0, 0);
            let started = Instant::now();
            while started.elapsed() < time {
                n_tokens += encoder.embed(&texts, Role::Passage)?.n_tokens;
                n_texts += texts.len();
            }
            let seconds = started.elapsed().as_secs_f64();
            let tokens_per_second = n_tokens as f64 / seconds;
            sets.push(Set {
                tokens,
                tokens_per_second,
                texts_per_second: f64::from(u32::try_from(n_texts)?) / seconds,
                linear_gflops: kernel.map(|(_, flops)| tokens_per_second * flops as f64 / 1e9),
            });
        }
        let query = text_of(encoder, QUERY_TOKENS, 0);
        let mut queries = Vec::new();
        let started = Instant::now();
        while started.elapsed() < time {
            let at = Instant::now();
            encoder.embed(&[&query], Role::Query)?;
            queries.push(at.elapsed());
        }
        Ok(Run {
            threads: encoder.n_threads(),
            fingerprint: card.fingerprint.clone(),
            device: card.device.clone(),
            precision: card.precision.map(|precision| precision.to_string()),
            kernel: kernel.map(|(kernel, _)| kernel.to_string()),
            loaded,
            queries,
            product_gflops: kernel.map(|(kernel, _)| {
                kernel.product_flops(time / 2) / 1e9 * encoder.n_threads() as f64
            }),
            sets,
        })
    }

    fn json(&self) -> Value {
        let millis = |percent| metrics::percentile(&self.queries, percent).as_secs_f64() * 1e3;
        let results: Vec<Value> = self.sets.iter().map(|set| self.set_json(set)).collect();
        json!({
            "threads": self.threads,
            "fingerprint": self.fingerprint,
            "device": self.device,
            "precision": self.precision,
            "kernel": self.kernel,
            "load_seconds": self.loaded.as_secs_f64(),
            "query_ms": {"p50": millis(50), "p95": millis(95), "p99": millis(99)},
            "product_gflops": self.product_gflops,
            "results": results,
        })
    }

    fn set_json(&self, set: &Set) -> Value {
        let share = set.linear_gflops.zip(self.product_gflops);
        json!({
            "tokens": set.tokens.map_or_else(|| json!("mixed"), |tokens| json!(tokens)),
            "tokens_per_second": set.tokens_per_second,
            "texts_per_second": set.texts_per_second,
            "linear_gflops": set.linear_gflops,
            "share_of_product": share.map(|(linear, product)| linear / product),
        })
    }
}

/// Puts into each result of `report` how it stands to that of `before` with as many threads:
/// more than 1 is faster now.
fn compare(report: &mut Value, before: &Value) {
    for run in report["runs"].as_array_mut().into_iter().flatten() {
        let old = before["runs"].as_array().into_iter().flatten();
        let Some(old) = old.clone().find(|old| old["threads"] == run["threads"]) else {
            continue;
        };
        let queries = [old, &*run].map(|run| run["query_ms"]["p50"].as_f64());
        if let [Some(old), Some(new)] = queries {
            run["query_speedup"] = json!(old / new);
        }
        for result in run["results"].as_array_mut().into_iter().flatten() {
            let same = old["results"].as_array().into_iter().flatten();
            let same = same.clone().find(|old| old["tokens"] == result["tokens"]);
            let rate = |result: &Value| result["tokens_per_second"].as_f64();
            if let (Some(old), Some(new)) = (same.and_then(rate), rate(result)) {
                result["speedup"] = json!(new / old);
            }
        }
    }
}

fn show(report: &Value, out: &mut Out) -> Result<()> {
    let number = |value: &Value, decimals: usize| {
        value
            .as_f64()
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let features = report["cpu_features"].as_array().into_iter().flatten();
    let features: Vec<&str> = features.filter_map(Value::as_str).collect();
    let memory = report["peak_memory_bytes"].as_f64();
    out.line(format!(
        "{}; peak memory {} MB; processor: {}",
        text(&report["model"]),
        memory.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0}", bytes / 1e6)),
        features.join(" ")
    ))?;
    for run in report["runs"].as_array().into_iter().flatten() {
        let query = &run["query_ms"];
        out.line(format!(
            "\n{} {} {}, {}: loaded in {} s; one question p50 {} p95 {} p99 {} ms{}",
            text(&run["device"]),
            text(&run["kernel"]),
            text(&run["precision"]),
            count(run["threads"].as_u64().map_or(0, |n| n as usize)),
            number(&run["load_seconds"], 2),
            number(&query["p50"], 1),
            number(&query["p95"], 1),
            number(&query["p99"], 1),
            run["query_speedup"]
                .as_f64()
                .map_or_else(String::new, |ratio| format!(", {ratio:.2} times as fast")),
        ))?;
        out.line("tokens  tokens/s  texts/s  GFLOP/s  of product  speedup")?;
        for result in run["results"].as_array().into_iter().flatten() {
            let tokens = &result["tokens"];
            let share = result["share_of_product"].as_f64();
            out.line(format!(
                "{:>6}  {:>8}  {:>7}  {:>7}  {:>10}  {:>7}",
                tokens
                    .as_u64()
                    .map_or_else(|| text(tokens), |n| n.to_string()),
                number(&result["tokens_per_second"], 0),
                number(&result["texts_per_second"], 1),
                number(&result["linear_gflops"], 0),
                share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
                number(&result["speedup"], 2),
            ))?;
        }
    }
    Ok(())
}

fn count(threads: usize) -> String {
    out::count(threads, "thread")
}

fn read_report(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("`{}` is not JSON", path.display()))?;
    if !report["runs"].is_array() {
        return Err(Failure::new(format!("`{}` has no `runs`", path.display()))
            .hint("make it with `pkm bench embed --json`")
            .into());
    }
    Ok(report)
}

/// What the processor has of what makes embedding fast.
fn cpu_features() -> Vec<&'static str> {
    let mut features = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let mut add = |name, has: bool| features.extend(has.then_some(name));
        add("avx2", std::is_x86_feature_detected!("avx2"));
        add("fma", std::is_x86_feature_detected!("fma"));
        add("avx512f", std::is_x86_feature_detected!("avx512f"));
        add("avx512vnni", std::is_x86_feature_detected!("avx512vnni"));
        add("avx512bf16", std::is_x86_feature_detected!("avx512bf16"));
        add("avx512fp16", std::is_x86_feature_detected!("avx512fp16"));
        add("amx", pkm_embed::Kernel::Amx.is_usable());
    }
    #[cfg(target_arch = "aarch64")]
    features.push("neon");
    features
}

/// The most memory that this process has held, where Linux tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Lengths as notes have them, lognormal with a median of 67 tokens, the same in every run; as many
/// as fill a batch.
fn mixed_lengths(window: usize) -> impl Iterator<Item = usize> {
    let mut state = 1_u32;
    let mut uniform = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state >> 8) + 0.5) / f64::from(1 << 24)
    };
    let mut left = BATCH_TOKENS;
    std::iter::from_fn(move || {
        // The Box-Muller transform: a number of the normal distribution.
        let radius = (-2.0 * uniform().ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * uniform()).cos();
        let tokens = (4.2 + 0.9 * normal).exp().clamp(5.0, window as f64) as usize;
        (left > 0).then(|| {
            left = left.saturating_sub(tokens);
            tokens
        })
    })
}

/// A text of at most `length` tokens and nearly so, that differs from those of other `i`.
fn text_of(encoder: &Encoder, length: usize, i: usize) -> String {
    let mut text = i.to_string();
    let empty = encoder.count_tokens("");
    let mut n_tokens = encoder.count_tokens(&text);
    for word in WORDS.iter().cycle().skip(i % WORDS.len()) {
        n_tokens += encoder.count_tokens(word) - empty;
        if n_tokens > length {
            break;
        }
        text.push(' ');
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_compared_where_threads_and_lengths_are_the_same() {
        let report = |threads: usize, p50: f64, rate: f64| {
            json!({"runs": [{
                "threads": threads,
                "query_ms": {"p50": p50},
                "results": [
                    {"tokens": 16, "tokens_per_second": rate},
                    {"tokens": "mixed", "tokens_per_second": 2.0 * rate},
                ],
            }]})
        };
        let mut now = report(2, 1.0, 300.0);
        compare(&mut now, &report(2, 4.0, 100.0));
        let run = &now["runs"][0];
        assert_eq!(run["query_speedup"], 4.0);
        assert_eq!(run["results"][0]["speedup"], 3.0);
        assert_eq!(run["results"][1]["speedup"], 3.0);
        let mut other = report(1, 1.0, 300.0);
        compare(&mut other, &report(2, 4.0, 100.0));
        assert_eq!(other, report(1, 1.0, 300.0));
    }

    #[test]
    fn mixed_lengths_are_the_same_in_every_run_and_fit_the_window() {
        let lengths: Vec<usize> = mixed_lengths(200).collect();
        assert_eq!(lengths, mixed_lengths(200).collect::<Vec<_>>());
        assert!(lengths.iter().all(|tokens| (5..=200).contains(tokens)));
        assert!(lengths.iter().sum::<usize>() >= BATCH_TOKENS);
        assert!(lengths.iter().any(|tokens| *tokens < 40) && lengths.contains(&200));
    }
}
