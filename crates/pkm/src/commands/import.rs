//! `pkm import`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use pkm_engine::{DryRun, Error as EngineError, ImportReport, ImportRequest, Prune, ReindexScope};
use serde_json::{Value, json};

use super::embedding;
use crate::cli::Format;
use crate::config::Config;
use crate::interrupt::Interrupt;
use crate::out::{self, Out};
use crate::progress::{self, Progress, Unit};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The folder of Markdown files
    #[arg(value_name = "FOLDER")]
    from: PathBuf,
    /// Put the notes below this folder of the notes
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "",
        hide_default_value = true
    )]
    into: String,
    /// Put notes whose files are gone into the trash
    #[arg(long)]
    prune: bool,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave embedding for later
    #[arg(long)]
    no_embed: bool,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: Import, config: &Config, out: &mut Out) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let embeds = !args.no_embed && !args.dry_run;
    let engine = if embeds {
        wiring::open(config, Turn::Take, ModelUse::Load)?
    } else {
        wiring::open(config, Turn::Never, ModelUse::None)?
    };
    if embeds {
        // Notes that come in before the model is there are cut by estimate, and once more later.
        embedding::wait_model(&engine, &interrupt);
    }
    let request = ImportRequest {
        root: args.from,
        into: args.into,
        prune: if args.prune {
            Prune::Remove
        } else {
            Prune::Keep
        },
        dry_run: if args.dry_run {
            DryRun::Yes
        } else {
            DryRun::No
        },
    };
    let progress = Progress::new("importing", Unit::Things);
    let imported = engine.import_folder(&request, &mut |step| {
        progress.set(step.done as u64, step.total as u64, &step.path);
        interrupt.flow()
    });
    let took = progress.finish();
    let report = imported.map_err(|error| match error {
        EngineError::Cancelled => anyhow::Error::new(
            Failure::new("stopped; what was imported so far is kept")
                .hint("run the same command again to go on"),
        ),
        error => error.into(),
    })?;
    if !args.format.json {
        print(&report, &request, out)?;
        out.flush()?;
        out::notice(&format!(
            "read {} in {}",
            out::count(n_files(&report), "file"),
            progress::show(took)
        ));
    }
    let outcome = if embeds {
        Some(embedding::run(&engine, ReindexScope::Pending, &interrupt)?)
    } else {
        None
    };
    if args.format.json {
        out.json(&to_json(&report, &request, outcome.as_ref()))?;
    }
    match outcome {
        Some(outcome) => outcome.conclude(),
        None => Ok(()),
    }
}

fn n_files(report: &ImportReport) -> usize {
    report.n_added + report.n_updated + report.n_unchanged + report.skipped.len()
}

fn print(report: &ImportReport, request: &ImportRequest, out: &mut Out) -> Result<()> {
    let would = match request.dry_run {
        DryRun::No => "",
        DryRun::Yes => "would be: ",
    };
    for (path, encoding) in &report.decoded {
        out.line(format!("decoded `{}` from {encoding}", out::plain(path)))?;
    }
    for (path, warning) in &report.warnings {
        out.line(format!("warning about `{}`: {warning}", out::plain(path)))?;
    }
    for (path, reason) in &report.skipped {
        out.line(format!("skipped `{}`: {reason}", out::plain(path)))?;
    }
    out.line(format!(
        "{would}added {}, updated {}, unchanged {}, removed {}, skipped {}",
        report.n_added,
        report.n_updated,
        report.n_unchanged,
        report.n_removed,
        report.skipped.len()
    ))?;
    Ok(())
}

fn to_json(
    report: &ImportReport,
    request: &ImportRequest,
    outcome: Option<&embedding::Outcome>,
) -> Value {
    let pairs = |pairs: &[(String, String)], second: &str| -> Vec<Value> {
        pairs
            .iter()
            .map(|(path, value)| json!({ "path": path, second: value }))
            .collect()
    };
    json!({
        "added": report.n_added,
        "updated": report.n_updated,
        "unchanged": report.n_unchanged,
        "removed": report.n_removed,
        "decoded": pairs(&report.decoded, "encoding"),
        "skipped": pairs(&report.skipped, "reason"),
        "warnings": pairs(&report.warnings, "warning"),
        "dry_run": matches!(request.dry_run, DryRun::Yes),
        "embedding": outcome.map_or_else(|| json!({ "state": "not_asked" }), embedding::Outcome::json),
    })
}
