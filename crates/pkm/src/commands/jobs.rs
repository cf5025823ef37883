//! `pkm jobs`

use anyhow::Result;
use pkm_engine::Job;

use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, progress, when};

#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    /// Stop this job, at the edge of a batch
    #[arg(long, value_name = "JOB")]
    cancel: Option<i64>,
    /// How many, the newest first
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Jobs, config: &Config, out: &mut Out) -> Result<()> {
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let jobs = match args.cancel {
        Some(id) => vec![engine.cancel_job(id)?],
        None => engine.jobs(args.limit)?,
    };
    if args.format.json {
        return Ok(out.json(&json::jobs(&jobs))?);
    }
    for job in &jobs {
        out.line(line(job))?;
    }
    if jobs.is_empty() {
        out::notice("no jobs");
    }
    Ok(())
}

/// `    3  reindex  running  120/300  embedding, 12.0 s left`
pub(super) fn line(job: &Job) -> String {
    let mut line = format!(
        "{:>5}  {}  {} {}  {}  {}/{}",
        job.id,
        when::show(job.created_at),
        job.kind,
        job.scope,
        json::job_state(job.state),
        job.done,
        job.total
    );
    if let Some(eta) = job.eta {
        line.push_str(&format!("  {} left", progress::show(eta)));
    }
    if let Some(error) = &job.error {
        line.push_str(&format!("  {error}"));
    }
    out::plain(&line).replace('\n', " ")
}
