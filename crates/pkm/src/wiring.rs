//! The engine, as the settings want it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use pkm_engine::{Engine, ModelSource, Settings, Worker};

use crate::config::Config;
use crate::models;

/// Longest wait for a model that is being loaded.
pub(crate) const MODEL_WAIT: Duration = Duration::from_secs(60);

/// Whether this process embeds what is pending.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// It takes its turn.
    Take,
    /// It leaves that to others.
    Never,
}

/// Whether this command needs the model.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ModelUse {
    Load,
    /// Loading would only make a short command long.
    None,
}

pub(crate) fn open(config: &Config, turn: Turn, model: ModelUse) -> Result<Engine> {
    open_at(config.data.value.clone(), config, turn, model)
}

/// As [`open`], on another data folder.
pub(crate) fn open_at(
    data_dir: PathBuf,
    config: &Config,
    turn: Turn,
    model: ModelUse,
) -> Result<Engine> {
    let source = match model {
        ModelUse::Load => models::source(config, &data_dir)?,
        ModelUse::None => ModelSource::Absent {
            name: models::name(config)?,
            reason: "this command does not load the model".to_owned(),
        },
    };
    Ok(Engine::open(Settings {
        data_dir,
        model: source,
        worker: match turn {
            Turn::Take => Worker::Background,
            Turn::Never => Worker::Off,
        },
        trash_retention_days: config.trash_days.value,
    })?)
}
