//! `pkm config`

use std::fmt::Display;

use anyhow::Result;
use serde_json::{Map, json};

use crate::cli::Format;
use crate::config::{Config, Kind, Setting};
use crate::models;
use crate::out::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print where the config file is, or would be
    Path,
}

pub(crate) fn run(args: &Settings, config: &Config, out: &mut Out) -> Result<()> {
    if let Some(What::Path) = args.what {
        return Ok(out.line(config.file.display().to_string())?);
    }
    let model = Setting {
        value: models::name(config)?,
        origin: config.model.origin,
    };
    let mut rows = vec![
        row("data", &config.data, |path| path.display().to_string()),
        row("embedder", &config.embedder.kind, |kind| {
            kind.name().to_owned()
        }),
        row("model", &model, String::clone),
        row("models", &config.models, |path| path.display().to_string()),
        row("hub", &config.hub, String::clone),
        row("device", &config.device, String::clone),
        row("precision", &config.precision, String::clone),
        row("threads", &config.threads, |threads| {
            threads.map_or_else(|| "all".to_owned(), |threads| threads.to_string())
        }),
        row("log", &config.log, String::clone),
        row("trash_days", &config.trash_days, u32::to_string),
        row("connector_tools", &config.connector_tools, bool::to_string),
    ];
    if config.embedder.kind.value == Kind::Http {
        let of_server = config.embedder.rows.iter();
        rows.extend(of_server.map(|(name, value, by)| (name.as_str(), value.clone(), origin(by))));
    }
    let missing = if config.file_exists {
        ""
    } else {
        " (not there)"
    };
    if args.format.json {
        let settings: Map<_, _> = rows
            .into_iter()
            .map(|(name, value, origin)| {
                (name.to_owned(), json!({ "value": value, "from": origin }))
            })
            .collect();
        return Ok(out.json(&json!({
            "settings": settings,
            "file": config.file,
            "file_exists": config.file_exists,
        }))?);
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    for (name, value, origin) in rows {
        out.line(format!("{name:<width$} {value}  ({origin})"))?;
    }
    Ok(out.line(format!(
        "{:<width$} {}{missing}",
        "file",
        config.file.display()
    ))?)
}

fn row<T>(
    name: &'static str,
    setting: &Setting<T>,
    show: impl Fn(&T) -> String,
) -> (&'static str, String, String) {
    (name, show(&setting.value), origin(&setting.origin))
}

fn origin(origin: &impl Display) -> String {
    origin.to_string()
}
