//! The architectures: what each reads in `config.json`, and one way to run them all.

use std::fmt;
use std::path::{Path, PathBuf};

use candle_core::Device;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bert::{self, Bert, Runner};
use crate::error::{Damage, Error};
use crate::folder;
use crate::kernels::Kernel;
use crate::manifest::{Architecture, Manifest};
use crate::modernbert::{self, ModernBert};
use crate::qwen3::{self, Qwen3};
use crate::static_vectors::{self, StaticVectors};
use crate::weights::WeightFile;

/// A loaded model.
pub(crate) enum Model {
    Bert(Bert),
    ModernBert(ModernBert),
    Qwen3(Qwen3),
    Static(StaticVectors),
}

/// What `config.json` says, as far as vectors depend on it.
pub(crate) enum Config {
    Bert(bert::Config),
    ModernBert(modernbert::Config),
    Qwen3(qwen3::Config),
    Static,
}

impl Model {
    pub(crate) fn load(
        manifest: &Manifest,
        config: &Config,
        file: &mut WeightFile,
        runner: &Runner,
    ) -> Result<Model, Error> {
        let Manifest {
            architecture,
            pooling,
            window,
            dimension,
            ..
        } = *manifest;
        let device = match runner {
            Runner::Cpu(_) => &Device::Cpu,
            Runner::Device(device) => device,
        };
        match config {
            Config::Bert(config) => {
                Bert::load(file, config, architecture, pooling, runner).map(Model::Bert)
            }
            Config::ModernBert(config) => {
                ModernBert::load(file, config, window, pooling, device).map(Model::ModernBert)
            }
            Config::Qwen3(config) => {
                Qwen3::load(file, config, window, pooling, device).map(Model::Qwen3)
            }
            Config::Static => StaticVectors::load(file, dimension).map(Model::Static),
        }
    }

    /// One vector a text, not normalised, in order. `texts` are token ids, none empty but for
    /// static vectors; what a text gets does not depend on the others.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> candle_core::Result<Vec<Vec<f32>>> {
        match self {
            Model::Bert(bert) => bert.forward(texts),
            Model::ModernBert(model) => model.forward(texts),
            Model::Qwen3(model) => model.forward(texts),
            Model::Static(vectors) => vectors.forward(texts),
        }
    }

    /// The kernel that runs the layers, and what one token costs its matrix products in
    /// floating-point operations; none where candle runs them.
    pub(crate) fn kernel(&self) -> Option<(Kernel, usize)> {
        match self {
            Model::Bert(bert) => bert.kernel(),
            Model::ModernBert(_) | Model::Qwen3(_) | Model::Static(_) => None,
        }
    }
}

impl Config {
    pub(crate) fn read(manifest: &Manifest, folder: &Path) -> Result<Config, Error> {
        let file = ConfigFile::open(manifest, folder)?;
        match manifest.architecture {
            Architecture::Bert | Architecture::XlmRoberta => {
                bert::Config::read(&file).map(Config::Bert)
            }
            Architecture::ModernBert => modernbert::Config::read(&file).map(Config::ModernBert),
            Architecture::Qwen3 => qwen3::Config::read(&file).map(Config::Qwen3),
            Architecture::Static => {
                static_vectors::check_config(&file)?;
                Ok(Config::Static)
            }
        }
    }

    /// How many words the model with the weights in `file` has vectors for.
    pub(crate) fn n_words(&self, file: &WeightFile) -> usize {
        match self {
            Config::Bert(config) => config.vocab_size,
            Config::ModernBert(config) => config.vocab_size,
            Config::Qwen3(config) => config.vocab_size,
            Config::Static => StaticVectors::n_words(file),
        }
    }

    /// Every setting that changes vectors and leaves no trace in a tensor's shape.
    pub(crate) fn fingerprint(&self) -> Vec<String> {
        match self {
            Config::Bert(config) => vec![
                config.num_attention_heads.to_string(),
                config.layer_norm_eps.to_string(),
                config.pad_token_id.to_string(),
            ],
            Config::ModernBert(config) => config.fingerprint(),
            Config::Qwen3(config) => config.fingerprint(),
            Config::Static => Vec::new(),
        }
    }
}

/// `config.json` while it is read.
pub(crate) struct ConfigFile<'a> {
    pub(crate) manifest: &'a Manifest,
    folder: &'a Path,
    path: PathBuf,
    json: Vec<u8>,
}

/// Settings that every file may have, and that none of the models here leaves open.
#[derive(Deserialize)]
struct Common {
    model_type: Option<String>,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

impl<'a> ConfigFile<'a> {
    fn open(manifest: &'a Manifest, folder: &'a Path) -> Result<ConfigFile<'a>, Error> {
        let path = folder.join("config.json");
        let json = std::fs::read(&path).map_err(|source| Error::Io {
            doing: "read",
            path: path.clone(),
            source,
        })?;
        let file = ConfigFile {
            manifest,
            folder,
            path,
            json,
        };
        let common: Common = file.parse()?;
        let expected: &[&str] = match manifest.architecture {
            Architecture::Bert => &["bert"],
            Architecture::XlmRoberta => &["xlm-roberta", "roberta", "camembert"],
            Architecture::ModernBert => &["modernbert"],
            Architecture::Qwen3 => &["qwen3"],
            Architecture::Static => &["model2vec"],
        };
        if let Some(found) = common.model_type {
            let fits = expected.contains(&found.as_str());
            file.check(fits, "model_type", &found, &expected.join(" or "))?;
        }
        if let Some(found) = common.position_embedding_type {
            let fits = found == "absolute";
            file.check(fits, "position_embedding_type", &found, "absolute")?;
        }
        file.check(!common.is_decoder, "is_decoder", &true, "false")?;
        Ok(file)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.json).map_err(|error| Error::Unreadable {
            path: self.path.clone(),
            format: match self.manifest.architecture {
                Architecture::Bert | Architecture::XlmRoberta => "settings of a BERT model",
                Architecture::ModernBert => "settings of a ModernBERT model",
                Architecture::Qwen3 => "settings of a Qwen3 model",
                Architecture::Static => "settings of static word vectors",
            },
            hint: folder::hint(self.manifest, self.folder),
            source: error.into(),
        })
    }

    /// Refuses the file with what `setting` is and should be, unless it `fits`.
    pub(crate) fn check(
        &self,
        fits: bool,
        setting: &'static str,
        found: &dyn fmt::Display,
        expected: &str,
    ) -> Result<(), Error> {
        if fits {
            return Ok(());
        }
        Err(Error::Damaged {
            path: self.path.clone(),
            damage: Damage::Setting {
                setting,
                found: found.to_string(),
                expected: expected.to_owned(),
            },
            hint: folder::hint(self.manifest, self.folder),
        })
    }

    /// What all models with layers must have in common.
    pub(crate) fn check_layers(&self, layers: &Layers) -> Result<(), Error> {
        let width = self.manifest.dimension;
        let window = self.manifest.window.saturating_add(layers.first_position);
        self.check(
            layers.width == width,
            "hidden_size",
            &layers.width,
            &width.to_string(),
        )?;
        self.check(layers.n_layers > 0, "num_hidden_layers", &0, "at least 1")?;
        self.check(
            layers.n_positions >= window,
            "max_position_embeddings",
            &layers.n_positions,
            &format!("at least {window}"),
        )?;
        let (name, epsilon) = layers.epsilon;
        self.check(
            epsilon > 0.0 && epsilon < 1.0,
            name,
            &epsilon,
            "between 0 and 1",
        )
    }
}

/// What [`ConfigFile::check_layers`] looks at.
pub(crate) struct Layers {
    pub(crate) width: usize,
    pub(crate) n_layers: usize,
    pub(crate) n_positions: usize,
    /// Positions before that of the first token.
    pub(crate) first_position: usize,
    /// What the norms add to the variance, with the setting's name.
    pub(crate) epsilon: (&'static str, f64),
}

/// How fast rotary positions turn, in the form of transformers 5.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Rope {
    pub(crate) rope_theta: f64,
    rope_type: Option<String>,
}

impl Rope {
    pub(crate) fn plain(rope_theta: f64) -> Rope {
        Rope {
            rope_theta,
            rope_type: None,
        }
    }

    pub(crate) fn check(&self, file: &ConfigFile) -> Result<(), Error> {
        if let Some(kind) = &self.rope_type {
            file.check(kind == "default", "rope_type", &kind, "default")?;
        }
        let theta = self.rope_theta;
        file.check(
            (1.0..=1e12).contains(&theta),
            "rope_theta",
            &theta,
            "between 1 and 1e12",
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::tokenizer::Tokenizer;

    /// What a GPU would run, on candle's CPU, with all texts of a tiny model in one batch.
    #[test]
    fn the_padded_pass_gives_the_vectors_of_the_originals() {
        for name in ["tiny-bert", "tiny-xlm-roberta"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/tiny")
                .join(name);
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
            let manifest = Manifest::parse(&read("manifest.toml")).unwrap();
            let config = Config::read(&manifest, &folder).unwrap();
            let weights = folder.join("model.safetensors");
            let mut weights = WeightFile::open(&weights, String::new()).unwrap();
            let n_words = config.n_words(&weights);
            let tokenizer = Tokenizer::read(&manifest, &folder, n_words).unwrap();
            let runner = Runner::Device(&Device::Cpu);
            let model = Model::load(&manifest, &config, &mut weights, &runner).unwrap();
            let reference: Value = serde_json::from_str(&read("reference.json")).unwrap();
            let texts = reference["texts"].as_array().unwrap();
            let ids: Vec<Vec<u32>> = texts
                .iter()
                .map(|text| format!("{}{}", manifest.prefixes.passage, text.as_str().unwrap()))
                .map(|text| tokenizer.encode(text.trim_end()).unwrap().0)
                .collect();
            let ids: Vec<&[u32]> = ids.iter().map(|ids| &ids[..]).collect();
            let found = model.forward(&ids).unwrap();
            assert_eq!(found.len(), texts.len());
            for (found, expected) in found.iter().zip(reference["passage"].as_array().unwrap()) {
                let norm = found.iter().map(|x| x * x).sum::<f32>().sqrt();
                let expected = expected.as_array().unwrap().iter();
                let dot: f64 = expected
                    .zip(found)
                    .map(|(a, b)| a.as_f64().unwrap() * f64::from(*b / norm))
                    .sum();
                assert!(dot > 0.99999, "{name}: {dot}");
            }
        }
    }
}
