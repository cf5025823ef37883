//! Tokens a second of one core at a few text lengths, and one short query's time, with each kernel
//! that is named, in turns so that a busy machine disturbs all alike:
//! `cargo run --release -p pkm-embed --example throughput MODELS_FOLDER MODEL [KERNEL]...`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pkm_embed::{DeviceChoice, Embedder, Encoder, EncoderOptions, Kernel, Manifest, Role};

/// Tokens in a call, and how often each kernel has its turn.
const CALL_TOKENS: usize = 2_048;
const ROUNDS: usize = 5;
const QUERIES: u32 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, name, kernels @ ..] = &arguments[..] else {
        return Err("usage: throughput MODELS_FOLDER MODEL [KERNEL]...".into());
    };
    let manifest = Manifest::named(name).ok_or("no such model")?;
    let folder = PathBuf::from(root).join(name);
    let mut encoders = Vec::new();
    for kernel in Kernel::usable() {
        if kernels.is_empty() || kernels.contains(&kernel.to_string()) {
            let options = EncoderOptions {
                device: DeviceChoice::Cpu,
                precision: kernel.precision(),
                kernel: Some(kernel),
                threads: Some(NonZeroUsize::MIN),
            };
            encoders.push((kernel, Encoder::load_with(manifest, &folder, &options)?));
        }
    }
    let mut out = std::io::stdout();
    write!(out, "{name:<28}")?;
    for (kernel, _) in &encoders {
        write!(out, "{:>10}", kernel.to_string())?;
    }
    writeln!(out)?;
    let Some((_, any)) = encoders.first() else {
        return Err("no such kernel".into());
    };
    let mut gauge = 0.0_f64;
    let lengths = [(32, 32), (128, 128), (256, 256), (512, 512), (8, 320)];
    for (shortest, longest) in lengths {
        let texts = texts(any, shortest, longest);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut best = vec![0.0_f64; encoders.len()];
        for _ in 0..ROUNDS {
            for ((_, encoder), best) in encoders.iter().zip(&mut best) {
                gauge = gauge.max(encoders[0].0.product_flops(Duration::from_millis(5)));
                let start = processor_time();
                let n_tokens = encoder.embed(&texts, Role::Passage)?.n_tokens;
                let rate = n_tokens as f64 / (processor_time() - start).as_secs_f64();
                *best = best.max(rate);
            }
        }
        write!(
            out,
            "{:<28}",
            format!("{shortest}-{longest} tokens, tokens/s")
        )?;
        for rate in best {
            write!(out, "{rate:>10.0}")?;
        }
        writeln!(out, "   product {:.0} GFLOP/s", gauge / 1e9)?;
    }
    let mut best = vec![Duration::MAX; encoders.len()];
    for _ in 0..ROUNDS {
        for ((_, encoder), best) in encoders.iter().zip(&mut best) {
            // The kernel counts processor time in steps of milliseconds.
            let start = processor_time();
            for _ in 0..QUERIES {
                encoder.embed(&["how do we authenticate clients"], Role::Query)?;
            }
            *best = (*best).min((processor_time() - start) / QUERIES);
        }
    }
    write!(out, "{:<28}", "short query, ms")?;
    for time in best {
        write!(out, "{:>10.2}", time.as_secs_f64() * 1e3)?;
    }
    writeln!(out)?;
    Ok(())
}

/// Texts of every length from the shortest to the longest, as many as fill a call.
fn texts(encoder: &Encoder, shortest: usize, longest: usize) -> Vec<String> {
    let mut texts = Vec::new();
    let (mut n_tokens, mut length) = (0, shortest);
    while n_tokens < CALL_TOKENS {
        texts.push(text_of(encoder, length));
        n_tokens += length;
        length = if length * 2 > longest {
            shortest
        } else {
            length * 2
        };
    }
    texts
}

/// What this thread took of the processor, where Linux tells it, else the clock: on a busy machine
/// the figure to compare.
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// About `n_tokens` of words, a quarter of them Korean.
fn text_of(encoder: &Encoder, n_tokens: usize) -> String {
    let words = [
        "note", "meeting", "회의", "search", "검색", "index", "garden", "요리",
    ];
    let mut text = String::new();
    let mut found = 0;
    for word in words.iter().cycle() {
        found += encoder
            .count_tokens(word)
            .saturating_sub(encoder.count_tokens(""));
        if found + 8 > n_tokens {
            break;
        }
        text.push_str(word);
        text.push(' ');
    }
    text
}
