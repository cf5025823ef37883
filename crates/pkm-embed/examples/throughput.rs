//! Tokens a second at a few text lengths: `cargo run --release -p pkm-embed --example throughput
//! MODELS_FOLDER MODEL`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pkm_embed::{DeviceChoice, Embedder, Encoder, Manifest, Role};

/// Long enough to see past one disturbed batch.
const MEASURE_FOR: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("usage: throughput MODELS_FOLDER MODEL".into());
    };
    let manifest = Manifest::named(&name).ok_or("no such model")?;
    let mut out = std::io::stdout();
    let start = Instant::now();
    let encoder = Encoder::load(
        manifest,
        &PathBuf::from(root).join(&name),
        DeviceChoice::Auto,
    )?;
    writeln!(
        out,
        "{name} on {}: loaded in {:.2?}",
        encoder.card().device,
        start.elapsed()
    )?;
    let start = Instant::now();
    encoder.embed(&["first query"], Role::Query)?;
    writeln!(out, "first query: {:.2?}", start.elapsed())?;
    let start = Instant::now();
    for _ in 0..50 {
        encoder.embed(&["how do we authenticate clients"], Role::Query)?;
    }
    writeln!(out, "short query: {:.2?}", start.elapsed() / 50)?;
    for length in [32, 128, 512] {
        let text = text_of(&encoder, length);
        let n_texts = 8192 / length;
        let texts = vec![&text[..]; n_texts];
        let (start, cpu_start, mut n_tokens) = (Instant::now(), cpu_seconds(), 0);
        while start.elapsed() < MEASURE_FOR {
            n_tokens += encoder.embed(&texts, Role::Passage)?.n_tokens;
        }
        let rate = n_tokens as f64 / start.elapsed().as_secs_f64();
        write!(out, "{length:>4} tokens: {rate:>8.0} tokens/s")?;
        if let (Some(before), Some(after)) = (cpu_start, cpu_seconds()) {
            write!(
                out,
                ", {:.0} tokens/s of one core",
                n_tokens as f64 / (after - before)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Processor time of this process, where Linux tells it: the figure to compare on a busy machine.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |idx: usize| fields.get(idx)?.parse::<f64>().ok();
    // Fields 14 and 15 of proc(5), in hundredths of a second on every common system.
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

fn text_of(encoder: &Encoder, n_tokens: usize) -> String {
    let words = [
        "note", " meeting", " 회의", " search", " 검색", " index", " garden", " 요리",
    ];
    let mut text = String::new();
    for word in words.iter().cycle() {
        let longer = format!("{text}{word}");
        if encoder.count_tokens(&longer) > n_tokens {
            break;
        }
        text = longer;
    }
    text
}
