//! `pkm model`

use anyhow::Result;
use pkm_embed::{Manifest, ModelState, PullOptions};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::config::Config;
use crate::models;
use crate::out::{self, Out};
use crate::progress::{self, Progress, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Model {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the models and whether they are installed
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Fetch a model from the hub; goes on where an earlier pull stopped
    Pull {
        /// The model, if not the one in use
        name: Option<String>,
    },
    /// Print the folder of a model
    Path {
        /// The model, if not the one in use
        name: Option<String>,
    },
    /// Compare the files of a model with their checksums
    Verify {
        /// The model, if not the one in use
        name: Option<String>,
    },
}

pub(crate) fn run(args: Model, config: &Config, out: &mut Out) -> Result<()> {
    match args.what {
        What::List { format } => list(&format, config, out),
        What::Pull { name } => pull(to_pull(name.as_deref(), config)?, config, out),
        What::Path { name } => {
            let manifest = chosen(name.as_deref(), config)?;
            Ok(out.line(models::folder(config).path(manifest).display().to_string())?)
        }
        What::Verify { name } => {
            let manifest = chosen(name.as_deref(), config)?;
            models::folder(config).verify(manifest)?;
            Ok(out.line(format!("{}: as it should be", manifest.name))?)
        }
    }
}

/// The model called `name`, else the one in use.
fn chosen(name: Option<&str>, config: &Config) -> Result<&'static Manifest> {
    Ok(match name {
        Some(name) => models::named(name)?,
        None => models::local(config)?.manifest,
    })
}

/// The model called `name`, else the one of the settings, else the default one: not its stand-in,
/// which is in use only as long as the default one is not there.
fn to_pull(name: Option<&str>, config: &Config) -> Result<&'static Manifest> {
    let name = match name {
        Some(name) => Some(name),
        // The name of a server's model is none of ours.
        None if models::in_use(config)?.is_none() => None,
        None => config.model.value.as_deref(),
    };
    Ok(match name {
        Some(name) => models::named(name)?,
        None => models::default_model(),
    })
}

fn pull(manifest: &Manifest, config: &Config, out: &mut Out) -> Result<()> {
    let options = PullOptions {
        endpoint: config.hub.value.clone(),
        ..PullOptions::new()
    };
    let progress = Progress::new("fetching", Unit::Bytes);
    let pulled = models::folder(config).pull(manifest, options, &mut |step| {
        progress.set(step.done_bytes, step.total_bytes, &step.file);
    });
    let took = progress.finish();
    pulled?;
    out::notice(&format!("fetched in {}", progress::show(took)));
    let folder = models::folder(config).path(manifest);
    Ok(out.line(format!("{} is in `{}`", manifest.name, folder.display()))?)
}

fn list(format: &Format, config: &Config, out: &mut Out) -> Result<()> {
    let folder = models::folder(config);
    let in_use = models::in_use(config)?.map(|choice| choice.manifest.name.as_str());
    if format.json {
        let models: Vec<Value> = folder
            .list()
            .into_iter()
            .map(|(manifest, state)| {
                json!({
                    "name": manifest.name,
                    "description": manifest.description,
                    "state": name_of(&state),
                    "in_use": in_use == Some(manifest.name.as_str()),
                    "dim": manifest.dimension,
                    "window": manifest.window,
                    "languages": manifest.languages,
                    "licence": manifest.licence,
                    "size_bytes": size(manifest),
                    "path": folder.path(manifest),
                })
            })
            .collect();
        return Ok(out.json(&json!({ "models": models }))?);
    }
    for (manifest, state) in folder.list() {
        let mark = if in_use == Some(manifest.name.as_str()) {
            '*'
        } else {
            ' '
        };
        out.line(format!(
            "{mark} {:<26} {:<10} {:>9}  {:<11} {}",
            manifest.name,
            name_of(&state),
            size(manifest).map_or_else(|| "?".to_owned(), out::size),
            manifest.licence,
            manifest.description
        ))?;
        if let ModelState::Damaged(error) = state {
            out.line(format!(
                "    {}",
                error.to_string().replace("; hint: ", "; ")
            ))?;
        }
    }
    Ok(())
}

fn name_of(state: &ModelState) -> &'static str {
    match state {
        ModelState::Installed => "installed",
        ModelState::Missing => "missing",
        ModelState::Damaged(_) => "damaged",
    }
}

/// Bytes of all files, where each is pinned.
fn size(manifest: &Manifest) -> Option<u64> {
    manifest.files.iter().map(|file| file.size_bytes).sum()
}
