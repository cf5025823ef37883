//! The one place that reads the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use pkm_embed::ApiKey;

use crate::report::Failure;

/// What sets the embedding server, each named after the key of the config file.
pub(super) const EMBEDDER: [&str; 14] = [
    "PKM_EMBEDDER",
    "PKM_EMBEDDER_URL",
    "PKM_EMBEDDER_API",
    "PKM_EMBEDDER_KEY_FILE",
    "PKM_EMBEDDER_QUERY_PREFIX",
    "PKM_EMBEDDER_PASSAGE_PREFIX",
    "PKM_EMBEDDER_DIMENSION",
    "PKM_EMBEDDER_WINDOW",
    "PKM_EMBEDDER_LANGUAGES",
    "PKM_EMBEDDER_BATCH",
    "PKM_EMBEDDER_REQUESTS",
    "PKM_EMBEDDER_TIMEOUT",
    "PKM_EMBEDDER_RETRIES",
    "PKM_EMBEDDER_TOKENIZER",
];

/// What the environment says; an empty variable counts as unset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) home: Option<PathBuf>,
    pub(crate) xdg_data_home: Option<PathBuf>,
    pub(crate) xdg_config_home: Option<PathBuf>,
    /// Windows: `%LOCALAPPDATA%`.
    pub(crate) local_app_data: Option<PathBuf>,
    /// Windows: `%APPDATA%`.
    pub(crate) app_data: Option<PathBuf>,
    pub(crate) pkm_home: Option<PathBuf>,
    pub(crate) pkm_models: Option<PathBuf>,
    pub(crate) pkm_model: Option<OsString>,
    pub(crate) pkm_device: Option<OsString>,
    pub(crate) pkm_precision: Option<OsString>,
    pub(crate) pkm_threads: Option<OsString>,
    pub(crate) pkm_log: Option<OsString>,
    pub(crate) pkm_connector_tools: Option<OsString>,
    /// Those of [`EMBEDDER`] that are set.
    pub(crate) embedder: BTreeMap<&'static str, OsString>,
    /// Kept apart, and in a type that does not show it.
    pub(crate) pkm_embedder_key: Option<ApiKey>,
    /// The variable that the hub's own tools read.
    pub(crate) hf_endpoint: Option<OsString>,
    pub(crate) visual: Option<OsString>,
    pub(crate) editor: Option<OsString>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        // The desktop standard says to pass over relative paths.
        let absolute = |name| path(name).filter(|path| path.is_absolute());
        Self {
            home: path(if cfg!(windows) { "USERPROFILE" } else { "HOME" }),
            xdg_data_home: absolute("XDG_DATA_HOME"),
            xdg_config_home: absolute("XDG_CONFIG_HOME"),
            local_app_data: absolute("LOCALAPPDATA"),
            app_data: absolute("APPDATA"),
            pkm_home: path("PKM_HOME"),
            pkm_models: path("PKM_MODELS"),
            pkm_model: variable("PKM_MODEL"),
            pkm_device: variable("PKM_DEVICE"),
            pkm_precision: variable("PKM_PRECISION"),
            pkm_threads: variable("PKM_THREADS"),
            pkm_log: variable("PKM_LOG"),
            pkm_connector_tools: variable("PKM_CONNECTOR_TOOLS"),
            embedder: EMBEDDER
                .into_iter()
                .filter_map(|name| Some((name, variable(name)?)))
                .collect(),
            pkm_embedder_key: variable("PKM_EMBEDDER_KEY")
                .map(|key| ApiKey::new(&key.to_string_lossy())),
            hf_endpoint: variable("HF_ENDPOINT"),
            visual: variable("VISUAL"),
            editor: variable("EDITOR"),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the module that reads the environment"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// The text of a variable.
pub(super) fn utf8(name: &str, value: Option<&OsString>) -> Result<Option<String>, Failure> {
    match value.map(|value| value.to_str()) {
        None => Ok(None),
        Some(Some(text)) => Ok(Some(text.to_owned())),
        Some(None) => Err(Failure::usage(format!(
            "the environment variable `{name}` is not UTF-8"
        ))),
    }
}

/// A variable that says yes or no.
pub(super) fn switch(name: &str, value: Option<&OsString>) -> Result<Option<bool>, Failure> {
    let Some(text) = utf8(name, value)? else {
        return Ok(None);
    };
    match text.as_str() {
        "1" | "true" | "yes" => Ok(Some(true)),
        "0" | "false" | "no" => Ok(Some(false)),
        _ => Err(Failure::usage(format!(
            "the environment variable `{name}` is `{text}`; it must be `true` or `false`"
        ))),
    }
}

/// A variable that counts.
pub(super) fn count(name: &str, value: Option<&OsString>) -> Result<Option<NonZeroUsize>, Failure> {
    let Some(text) = utf8(name, value)? else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        Failure::usage(format!(
            "the environment variable `{name}` is `{text}`; it must be a number from 1 on"
        ))
    })
}
