//! `pkm status`

use anyhow::Result;
use pkm_engine::{ModelState, Status as EngineStatus};

use super::jobs;
use crate::cli::Format;
use crate::config::Config;
use crate::out::{self, Out};
use crate::wiring::{self, ModelUse, Turn};
use crate::{json, models};

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: &Status, config: &Config, out: &mut Out) -> Result<()> {
    // Why there is none to choose is said where the model's state is.
    let chosen = models::in_use(config).ok().flatten();
    let note = chosen.and_then(|choice| choice.note);
    let engine = wiring::open(config, Turn::Never, ModelUse::Load)?;
    // Only a loaded model says which passages are its own.
    engine.wait_model(wiring::MODEL_WAIT);
    let status = engine.status()?;
    if args.format.json {
        return Ok(out.json(&json::status(&status, note.as_deref()))?);
    }
    print(&status, note.as_deref(), out)
}

fn print(status: &EngineStatus, note: Option<&str>, out: &mut Out) -> Result<()> {
    out.line(format!(
        "notes     {}, in the trash: {}",
        status.n_notes, status.n_trashed
    ))?;
    out.line(format!(
        "passages  {}, embedded: {}, pending: {}, failed: {}",
        status.n_chunks, status.n_indexed, status.n_pending, status.n_failed
    ))?;
    let model = &status.model;
    let state = match &model.state {
        ModelState::Loading => "loading".to_owned(),
        ModelState::Ready => format!(
            "ready on {} in {}, {} dimensions, fingerprint {}",
            model.device.as_deref().unwrap_or("?"),
            model
                .precision
                .map_or_else(|| "?".to_owned(), |precision| precision.to_string()),
            model.dim.unwrap_or_default(),
            model.fingerprint.as_deref().unwrap_or("?")
        ),
        ModelState::Absent { .. } => "absent".to_owned(),
        ModelState::Failed { .. } => "failed".to_owned(),
        ModelState::Away { .. } => "away".to_owned(),
    };
    out.line(format!("model     {}: {state}", model.name))?;
    if let ModelState::Absent { reason }
    | ModelState::Failed { reason }
    | ModelState::Away { reason } = &model.state
    {
        out.line(format!("          {reason}"))?;
    }
    if let Some(note) = note {
        out.line(format!("          {note}"))?;
    }
    out.line(format!(
        "vectors   {}, {} in memory: {}",
        status.vectors.kind,
        status.vectors.n_vectors,
        out::size(status.vectors.size_bytes as u64)
    ))?;
    let read_only = if status.store.writable {
        ""
    } else {
        ", cannot be written"
    };
    out.line(format!(
        "store     {}, {}, schema {}{read_only}",
        status.store.path.display(),
        out::size(status.store.size_bytes),
        status.store.schema
    ))?;
    for job in &status.jobs {
        out.line(format!("job       {}", jobs::line(job).trim_start()))?;
    }
    Ok(())
}
