//! `pkm model`

use std::path::Path;

use anyhow::Result;
use pkm_embed::{DeviceChoice, Encoder, ListedModel, Manifest, ModelState, PullOptions};
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
    /// Compare the files of a model with their checksums, and load it
    Verify {
        /// The model, if not the one in use
        name: Option<String>,
    },
}

pub(crate) fn run(args: Model, config: &Config, out: &mut Out) -> Result<()> {
    match args.what {
        What::List { format } => list(&format, config, out),
        What::Pull { name } => pull(&to_pull(name.as_deref(), config)?, config, out),
        What::Path { name } => {
            let manifest = chosen(name.as_deref(), config)?;
            Ok(out.line(models::folder(config).path(&manifest).display().to_string())?)
        }
        What::Verify { name } => {
            let manifest = chosen(name.as_deref(), config)?;
            // Not every manifest pins checksums: what the files hold is looked at as well.
            let folder = models::folder(config).path(&manifest);
            Encoder::load(&manifest, &folder, DeviceChoice::Cpu)?;
            Ok(out.line(format!("{}: as it should be", manifest.name))?)
        }
    }
}

/// The model called `name`, else the one in use.
fn chosen(name: Option<&str>, config: &Config) -> Result<Manifest> {
    match name {
        Some(name) => models::named(name, &models::folder(config)),
        None => Ok(models::local(config)?.manifest),
    }
}

/// The model called `name`, else the one of the settings, else the default one: not its stand-in,
/// which is in use only as long as the default one is not there.
fn to_pull(name: Option<&str>, config: &Config) -> Result<Manifest> {
    // The name of a server's model is none of ours.
    let own = config.model.value.as_deref();
    let name = name.or(own.filter(|_| !models::on_server(config)));
    let name = name.unwrap_or(&models::default_model().name);
    models::named(name, &models::folder(config))
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
    // A setting that names a model there is none of is no reason to hide those that there are.
    let chosen = models::in_use(config).ok().flatten();
    let in_use = chosen.map(|choice| choice.manifest.name);
    let is_in_use = |model: &ListedModel| in_use.as_ref() == Some(&model.name);
    if format.json {
        let models: Vec<Value> = folder
            .list()
            .iter()
            .map(|model| to_json(model, is_in_use(model), &folder.root().join(&model.name)))
            .collect();
        return Ok(out.json(&json!({ "models": models }))?);
    }
    for model in folder.list() {
        let mark = if is_in_use(&model) { '*' } else { ' ' };
        let manifest = model.manifest.as_ref();
        let line = format!(
            "{mark} {:<30} {:<10} {:>9}  {:<11} {}",
            model.name,
            name_of(&model.state),
            manifest
                .and_then(size)
                .map_or_else(|| "?".to_owned(), out::size),
            manifest.map_or("?", |manifest| &manifest.licence),
            manifest.map_or("", |manifest| &manifest.description)
        );
        out.line(out::plain(line.trim_end()))?;
        if let ModelState::Damaged(error) = model.state {
            let error = error.to_string().replace("; hint: ", "; ");
            out.line(format!("    {}", out::plain(&error)))?;
        }
    }
    Ok(())
}

fn to_json(model: &ListedModel, in_use: bool, path: &Path) -> Value {
    let mut json = json!({
        "name": model.name,
        "state": name_of(&model.state),
        "in_use": in_use,
        "path": path,
    });
    if let Some(manifest) = &model.manifest {
        json["description"] = json!(manifest.description);
        json["dim"] = json!(manifest.dimension);
        json["window"] = json!(manifest.window);
        json["languages"] = json!(manifest.languages);
        json["licence"] = json!(manifest.licence);
        json["size_bytes"] = json!(size(manifest));
    }
    if let ModelState::Damaged(error) = &model.state {
        json["reason"] = json!(error.to_string().replace("; hint: ", "; "));
    }
    json
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
