//! An embedding engine behind a line of JSON each way, for `scripts/bench-peers` and
//! `scripts/check-parity`, which run it beside the same worker around other engines:
//! `peer MODELS_FOLDER MODEL [--engine ours|candle] [--kernel NAME] [--threads N] [--window N]
//! [--weights FILE]`, or `peer --list` for the ways in which this processor can run our own.
//!
//! Asked with `{"cmd": "embed", "texts": [...], "batch": N, "out": PATH}` it embeds the texts as
//! passages, with `{"cmd": "query", "text": ..., "n": N}` one question N times, and with
//! `{"cmd": "count", "texts": [...]}` it counts tokens. It answers with the time on the clock, the
//! time that all its threads took of the processor, and the number of tokens; or with what failed,
//! and waits for the next.

#[cfg(feature = "peers")]
mod stock;

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pkm_embed::{
    DeviceChoice, Embedder, Encoder, EncoderOptions, Kernel, Manifest, Precision, Role,
};
use serde::Deserialize;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
enum Request {
    Embed {
        texts: Vec<String>,
        /// Texts that go through the model at once, where the engine leaves that to its caller.
        batch: Option<usize>,
        /// Where to write the vectors: little-endian f32, one vector after the other.
        out: Option<PathBuf>,
    },
    Query {
        text: String,
        n: usize,
    },
    Count {
        texts: Vec<String>,
    },
}

enum Engine {
    Ours(Box<Encoder>),
    #[cfg(feature = "peers")]
    Candle(Box<stock::Stock>),
}

#[derive(Default)]
struct Options {
    engine: Option<String>,
    kernel: Option<Kernel>,
    threads: Option<NonZeroUsize>,
    window: Option<usize>,
    weights: Option<PathBuf>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut out = std::io::stdout().lock();
    match (arguments.next(), arguments.next()) {
        (Some(list), None) if list == "--list" => writeln!(out, "{}", ways())?,
        (Some(root), Some(name)) => {
            let options = Options::parse(arguments)?;
            let start = Instant::now();
            let engine = Engine::load(Path::new(&root), &name, &options)?;
            let loaded = json!({
                "ready": engine.describe(),
                "load_s": start.elapsed().as_secs_f64(),
            });
            writeln!(out, "{loaded}")?;
            out.flush()?;
            for line in std::io::stdin().lock().lines() {
                let answer = answer(&engine, &line?)
                    .unwrap_or_else(|error| json!({"error": error.to_string()}));
                writeln!(out, "{answer}")?;
                out.flush()?;
            }
        }
        _ => {
            return Err("usage: peer MODELS_FOLDER MODEL [OPTION VALUE]..., or peer --list".into());
        }
    }
    Ok(())
}

/// How our engine can run here: by default, and on every other kernel.
fn ways() -> Value {
    let others = Kernel::usable().filter(|kernel| Some(*kernel) != Kernel::best(Precision::Auto));
    let others = others.map(|kernel| {
        let name = kernel.to_string();
        json!({"name": name, "arguments": ["--kernel", name]})
    });
    std::iter::once(json!({"name": "auto", "arguments": []}))
        .chain(others)
        .collect()
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options::default();
        while let Some(option) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("`{option}` wants a value"))?;
            match &option[..] {
                "--engine" => options.engine = Some(value),
                "--kernel" => {
                    let kernel = Kernel::usable().find(|kernel| kernel.to_string() == value);
                    let missing = || format!("this processor cannot run the kernel `{value}`");
                    options.kernel = Some(kernel.ok_or_else(missing)?);
                }
                "--threads" => options.threads = Some(value.parse()?),
                "--window" => options.window = Some(value.parse()?),
                "--weights" => options.weights = Some(value.into()),
                _ => return Err(format!("`{option}` is unknown").into()),
            }
        }
        Ok(options)
    }
}

impl Engine {
    fn load(root: &Path, name: &str, options: &Options) -> Result<Engine> {
        let mut manifest = Manifest::named(name)
            .ok_or_else(|| format!("no model is called `{name}`"))?
            .clone();
        // The model can take more than its makers advise; engines are compared over all of it.
        manifest.window = options.window.unwrap_or(manifest.window);
        let folder = root.join(name);
        match options.engine.as_deref() {
            None | Some("ours") => {
                let options = EncoderOptions {
                    device: DeviceChoice::Cpu,
                    precision: Precision::Auto,
                    kernel: options.kernel,
                    threads: options.threads,
                };
                let encoder = Encoder::load_with(&manifest, &folder, &options)?;
                Ok(Engine::Ours(Box::new(encoder)))
            }
            #[cfg(feature = "peers")]
            Some("candle") => {
                let weights = options.weights.clone();
                let weights = weights.unwrap_or_else(|| folder.join(&manifest.weights().name));
                let stock = stock::Stock::load(&manifest, &folder, &weights)?;
                Ok(Engine::Candle(Box::new(stock)))
            }
            #[cfg(not(feature = "peers"))]
            Some("candle") => Err("built without `--features peers`".into()),
            Some(other) => Err(format!("no engine is called `{other}`").into()),
        }
    }

    fn describe(&self) -> Value {
        match self {
            Engine::Ours(encoder) => json!({
                "engine": "ours",
                "version": env!("CARGO_PKG_VERSION"),
                "kernel": encoder.kernel().map(|(kernel, _)| kernel.to_string()),
                "precision": encoder.card().precision.map(|precision| precision.to_string()),
                "threads": encoder.n_threads(),
            }),
            #[cfg(feature = "peers")]
            Engine::Candle(_) => json!({
                "engine": "candle-transformers",
                "threads": candle_core::utils::get_num_threads(),
            }),
        }
    }

    /// Vectors of `texts` and the tokens that went through the model.
    fn embed(
        &self,
        texts: &[&str],
        role: Role,
        batch: Option<usize>,
    ) -> Result<(Vec<Vec<f32>>, usize)> {
        match (self, batch) {
            (Engine::Ours(encoder), _) => {
                let embedded = encoder.embed(texts, role)?;
                Ok((embedded.vectors, embedded.n_tokens))
            }
            #[cfg(feature = "peers")]
            (Engine::Candle(stock), batch) => stock.embed(texts, role, batch.unwrap_or(32)),
        }
    }
}

fn answer(engine: &Engine, line: &str) -> Result<Value> {
    match serde_json::from_str(line)? {
        Request::Embed { texts, batch, out } => {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (clock, processor) = (Instant::now(), processor_time());
            let (vectors, n_tokens) = engine.embed(&texts, Role::Passage, batch)?;
            let (wall, cpu) = (clock.elapsed(), processor_time() - processor);
            if let Some(path) = out {
                let bytes = vectors.iter().flatten().flat_map(|x| x.to_le_bytes());
                std::fs::write(path, bytes.collect::<Vec<u8>>())?;
            }
            Ok(json!({
                "wall_s": wall.as_secs_f64(),
                "cpu_s": cpu.as_secs_f64(),
                "n_tokens": n_tokens,
                "peak_rss_bytes": peak_rss_bytes(),
            }))
        }
        Request::Query { text, n } => {
            let (mut wall, mut cpu, mut n_tokens) = (Vec::new(), Vec::new(), 0);
            for _ in 0..n {
                let (clock, processor) = (Instant::now(), processor_time());
                (_, n_tokens) = engine.embed(&[&text], Role::Query, None)?;
                wall.push(clock.elapsed());
                cpu.push(processor_time() - processor);
            }
            Ok(json!({"wall_s": median(wall), "cpu_s": median(cpu), "n_tokens": n_tokens}))
        }
        Request::Count { texts } => match engine {
            Engine::Ours(encoder) => {
                let counts = texts.iter().map(|text| encoder.count_tokens(text));
                Ok(json!({"counts": counts.collect::<Vec<usize>>()}))
            }
            #[cfg(feature = "peers")]
            Engine::Candle(_) => Err("only our engine counts".into()),
        },
    }
}

/// What all threads of this process took of the processor, those that have ended included.
#[cfg(unix)]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The clock, where nothing better is at hand.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// The most memory that this process has held, where Linux tells it.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn median(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(Duration::as_secs_f64)
}
