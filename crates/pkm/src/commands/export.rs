//! `pkm export`

use std::path::PathBuf;

use anyhow::Result;
use pkm_engine::{Error as EngineError, ExportRequest, Overwrite};
use serde_json::json;

use crate::cli::Format;
use crate::config::Config;
use crate::interrupt::Interrupt;
use crate::out::{self, Out};
use crate::progress::{Progress, Unit};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The folder to write to
    #[arg(value_name = "FOLDER")]
    to: PathBuf,
    /// Write over what an earlier export left there
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: Export, config: &Config, out: &mut Out) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let request = ExportRequest {
        to: args.to,
        overwrite: if args.overwrite {
            Overwrite::FormerExport
        } else {
            Overwrite::Refuse
        },
    };
    let progress = Progress::new("exporting", Unit::Things);
    let exported = engine.export_folder(&request, &mut |step| {
        progress.set(step.done as u64, step.total as u64, &step.path);
        interrupt.flow()
    });
    progress.finish();
    let report = exported.map_err(|error| match error {
        EngineError::Cancelled => anyhow::Error::new(
            Failure::new("stopped; the export is not complete")
                .hint("run the command again with `--overwrite`"),
        ),
        error => error.into(),
    })?;
    if args.format.json {
        out.json(&json!({ "written": report.n_written, "to": request.to }))?;
    } else {
        out.line(format!(
            "wrote {} to `{}`",
            out::count(report.n_written, "note"),
            request.to.display()
        ))?;
    }
    Ok(())
}
