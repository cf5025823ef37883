//! The config file.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::report::Failure;

/// What the file says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) data: Option<PathBuf>,
    pub(super) model: Option<String>,
    pub(super) models: Option<PathBuf>,
    pub(super) hub: Option<String>,
    pub(super) device: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) threads: Option<NonZeroUsize>,
    pub(super) log: Option<String>,
    pub(super) trash_days: Option<u32>,
    pub(super) connector_tools: Option<bool>,
    pub(super) embedder: Option<String>,
    pub(super) embedder_url: Option<String>,
    pub(super) embedder_api: Option<String>,
    pub(super) embedder_key_file: Option<PathBuf>,
    pub(super) embedder_query_prefix: Option<String>,
    pub(super) embedder_passage_prefix: Option<String>,
    pub(super) embedder_dimension: Option<usize>,
    pub(super) embedder_window: Option<usize>,
    pub(super) embedder_languages: Option<Vec<String>>,
    pub(super) embedder_batch: Option<usize>,
    pub(super) embedder_requests: Option<usize>,
    /// Seconds.
    pub(super) embedder_timeout: Option<u64>,
    pub(super) embedder_retries: Option<usize>,
    pub(super) embedder_tokenizer: Option<PathBuf>,
}

impl File {
    /// Reads the file at `path`; `None` where there is none. `~/` at the start of a path means
    /// `home`, and a relative path is below the folder that the file is in.
    pub(super) fn read(path: &Path, home: Option<&Path>) -> Result<Option<Self>, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::new(format!(
                    "cannot read the config file `{}`",
                    path.display()
                ))
                .source(error));
            }
        };
        let mut file: File = toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Failure::new(format!(
                "the config file `{}` is not usable: line {line}: {}",
                path.display(),
                error.message()
            ))
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let paths = [
            &mut file.data,
            &mut file.models,
            &mut file.embedder_key_file,
            &mut file.embedder_tokenizer,
        ];
        for path in paths.into_iter().flatten() {
            let expanded = match (path.strip_prefix("~"), home) {
                (Ok(below), Some(home)) => home.join(below),
                _ => base.join(&*path),
            };
            *path = expanded;
        }
        Ok(Some(file))
    }
}
