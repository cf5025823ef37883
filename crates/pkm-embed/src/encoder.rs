//! The embedder with a model.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::bert::Runner;
use crate::error::Error;
use crate::kernels::{Kernel, Precision};
use crate::manifest::{Architecture, Manifest, Pooling, Prefixes};
use crate::model::{Config, Model};
use crate::parallel::in_parallel;
use crate::tokenizer::Tokenizer;
use crate::weights::WeightFile;
use crate::{DeviceChoice, Embedded, Embedder, ModelCard, Role};
use crate::{checksum, device, folder, text, vector};

/// Most tokens that go through the model at once on a CPU: fewer read the weights from memory more
/// often (128: a tenth slower with all-MiniLM-L6-v2), and with more, what lies between two layers
/// no longer fits into the second-level cache.
const CPU_BATCH_TOKENS: usize = 256;
/// Not to be cut smaller for the sake of an idle core.
const MIN_BATCH_TOKENS: usize = 64;
/// Text that takes longer to tokenize than a thread to start.
const MIN_PARALLEL_BYTES: usize = 4_096;
/// The same on a GPU, where only large batches keep it busy.
const GPU_BATCH_TOKENS: usize = 16_384;

/// Widths of a model that runs on [`Kernel::Amx`] are multiples of this.
const AMX_BLOCK: usize = 32;

/// How to run a model.
#[derive(Debug, Clone, Default)]
pub struct EncoderOptions {
    /// Where.
    pub device: DeviceChoice,
    /// How exactly.
    pub precision: Precision,
    /// With which instructions, on a CPU, whatever `precision` says; none for the fastest that
    /// there are for it.
    pub kernel: Option<Kernel>,
    /// On how many cores, of a CPU; none for all that the process may use.
    pub threads: Option<NonZeroUsize>,
}

/// A model in memory, ready to embed from any number of threads.
pub struct Encoder {
    card: ModelCard,
    prefixes: Prefixes,
    tokenizer: Tokenizer,
    model: Model,
    batch_tokens: usize,
    /// Batches that run at once, each on one core from end to end: the products of a small model
    /// are too small to be worth splitting.
    n_threads: usize,
}

impl Encoder {
    /// Checks and reads the model in `folder`.
    ///
    /// # Errors
    ///
    /// Names the file that is missing, damaged or does not fit the manifest, or the device that
    /// cannot be used.
    pub fn load(
        manifest: &Manifest,
        folder: &Path,
        device: DeviceChoice,
    ) -> Result<Encoder, Error> {
        let options = EncoderOptions {
            device,
            ..EncoderOptions::default()
        };
        Encoder::load_with(manifest, folder, &options)
    }

    /// The same with more of a choice.
    ///
    /// # Errors
    ///
    /// As [`Encoder::load`]; and [`Error::Kernel`] or [`Error::Precision`] for what this processor
    /// or this model cannot run.
    pub fn load_with(
        manifest: &Manifest,
        folder: &Path,
        options: &EncoderOptions,
    ) -> Result<Encoder, Error> {
        let device = options.device.open()?;
        let checksums = folder::check_files(manifest, folder)?;
        let config = Config::read(manifest, folder)?;
        let weights = folder.join(&manifest.weights().name);
        let mut weights = WeightFile::open(&weights, folder::hint(manifest, folder))?;
        let tokenizer = Tokenizer::read(manifest, folder, config.n_words(&weights))?;
        let runner = if device.is_cpu() {
            Runner::Cpu(choose_kernel(options, &config)?)
        } else {
            Runner::Device(&device)
        };
        let model = Model::load(manifest, &config, &mut weights, &runner)?;
        Ok(Encoder {
            card: ModelCard {
                name: manifest.name.clone(),
                fingerprint: fingerprint(manifest, &config, |file| &checksums[file]),
                dim: manifest.dimension,
                window: manifest.window,
                device: device::name(&device),
                precision: Some(match &runner {
                    Runner::Cpu(kernel) => kernel.precision(),
                    Runner::Device(_) => Precision::F32,
                }),
                languages: manifest.languages.clone(),
            },
            prefixes: manifest.prefixes.clone(),
            tokenizer,
            model,
            batch_tokens: if device.is_cpu() {
                CPU_BATCH_TOKENS
            } else {
                GPU_BATCH_TOKENS
            },
            n_threads: match options.threads {
                _ if !device.is_cpu() => 1,
                Some(threads) => threads.get(),
                // What the process may use, not what the machine has.
                None => std::thread::available_parallelism().map_or(1, usize::from),
            },
        })
    }

    /// The kernel that runs the model, and how many floating-point operations its linear layers
    /// take for one token; none on a GPU.
    pub fn kernel(&self) -> Option<(Kernel, usize)> {
        self.model.kernel()
    }

    /// How many cores a call may use.
    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Token ids of `text` as the model gets them, special tokens included, uncut; and how many
    /// special tokens come last, which a cut must keep.
    fn tokenize(&self, text: &str, role: Role) -> Result<(Vec<u32>, usize), Error> {
        let prefix = match role {
            Role::Query => &self.prefixes.query,
            Role::Passage => &self.prefixes.passage,
        };
        let text = text::clean(text);
        let text = match self.tokenizer.longest_word() {
            Some(longest) => text::break_long_words(text, longest),
            None => text,
        };
        self.tokenizer
            // A blank text must not leave the prefix with a blank at its end, a token of its own.
            .encode(format!("{prefix}{text}").trim_end())
            .map_err(|source| self.failed(1, source))
    }

    fn failed(
        &self,
        n_texts: usize,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Inference {
            model: self.card.name.clone(),
            n_texts,
            source: source.into(),
        }
    }

    /// Token ids as [`Encoder::tokenize`] gives them, cut to the window; and whether they were
    /// longer.
    fn tokenize_cut(&self, text: &str, role: Role) -> Result<(Vec<u32>, bool), Error> {
        let (mut ids, n_last) = self.tokenize(text, role)?;
        let is_long = ids.len() > self.card.window;
        if is_long {
            let last = ids.split_off(ids.len() - n_last);
            ids.truncate(self.card.window - n_last);
            ids.extend(last);
        }
        Ok((ids, is_long))
    }
}

impl Embedder for Encoder {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn count_tokens(&self, text: &str) -> usize {
        match self.tokenize(text, Role::Passage) {
            Ok((ids, _)) => ids.len(),
            // It will be refused when it is embedded; no token is shorter than a byte.
            Err(_) => text.len(),
        }
    }

    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, Error> {
        let n_bytes = texts.iter().map(|text| text.len()).sum::<usize>();
        let n_threads = if n_bytes < MIN_PARALLEL_BYTES {
            1
        } else {
            self.n_threads
        };
        let tokenized = in_parallel(n_threads, texts.len(), |i| {
            self.tokenize_cut(texts[i], role)
        })?;
        let n_cut = tokenized.iter().filter(|(_, is_cut)| *is_cut).count();
        let tokens: Vec<Vec<u32>> = tokenized.into_iter().map(|(ids, _)| ids).collect();
        let n_tokens = tokens.iter().map(Vec::len).sum::<usize>();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|text| tokens[*text].len());
        let fair_share = n_tokens.div_ceil(self.n_threads).max(MIN_BATCH_TOKENS);
        let budget = self.batch_tokens.min(fair_share);
        let batches = batches(&order, &tokens, budget);
        let found = in_parallel(self.n_threads, batches.len(), |i| {
            let ids: Vec<&[u32]> = batches[i].iter().map(|text| &tokens[*text][..]).collect();
            let found = self.model.forward(&ids);
            found.map_err(|error| self.failed(ids.len(), error))
        })?;
        let mut vectors = vec![Vec::new(); texts.len()];
        for (text, vector) in batches
            .iter()
            .copied()
            .flatten()
            .zip(found.into_iter().flatten())
        {
            vectors[*text] = vector;
        }
        for found in &mut vectors {
            vector::normalize(found);
            vector::check(found, self.card.dim).map_err(|fault| Error::BadVector {
                model: self.card.name.clone(),
                fault,
            })?;
        }
        Ok(Embedded {
            vectors,
            n_cut,
            n_tokens,
        })
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("card", &self.card)
            .finish_non_exhaustive()
    }
}

/// Cuts `order`, indices into `tokens` from the shortest text to the longest, into batches of
/// at most `budget` tokens, or of one text, the longest first. The longest text counts for all:
/// on a GPU they are padded to it, elsewhere the others are nearly as long.
fn batches<'a>(order: &'a [usize], tokens: &[Vec<u32>], budget: usize) -> Vec<&'a [usize]> {
    let mut batches = Vec::new();
    let mut start = 0;
    for (end, text) in order.iter().enumerate() {
        if end > start && (end - start + 1) * tokens[*text].len() > budget {
            batches.push(&order[start..end]);
            start = end;
        }
    }
    if start < order.len() {
        batches.push(&order[start..]);
    }
    // No thread is left with a long one when the others are done.
    batches.reverse();
    batches
}

/// The instructions that the layers of a model run on.
fn choose_kernel(options: &EncoderOptions, config: &Config) -> Result<Kernel, Error> {
    let in_blocks = |size: usize| size.is_multiple_of(AMX_BLOCK);
    let fits = match config {
        Config::Bert(config) => {
            in_blocks(config.hidden_size) && in_blocks(config.intermediate_size)
        }
        Config::ModernBert(_) | Config::Qwen3(_) | Config::Static => false,
    };
    if let Some(kernel) = options.kernel {
        return if kernel.is_usable() && (fits || kernel != Kernel::Amx) {
            Ok(kernel)
        } else {
            Err(Error::Kernel { kernel })
        };
    }
    let refused = |reason| Error::Precision {
        precision: options.precision,
        reason,
    };
    match options.precision {
        Precision::Bf16 if !fits => {
            let reason = "only BERT models with widths that are multiples of 32 run in it";
            return Err(refused(reason));
        }
        Precision::Auto if !fits => Kernel::best(Precision::F32),
        precision => Kernel::best(precision),
    }
    .ok_or_else(|| refused("it takes a processor with AMX, and Linux"))
}

/// Stands for everything that decides which vector a text gets.
fn fingerprint<'a>(
    manifest: &Manifest,
    config: &Config,
    sha256: impl Fn(&str) -> &'a String,
) -> String {
    let pooling = match manifest.pooling {
        Pooling::Mean => "mean",
        Pooling::Cls => "cls",
        Pooling::Last => "last",
    };
    let architecture = match manifest.architecture {
        Architecture::Bert => "bert",
        Architecture::XlmRoberta => "xlm-roberta",
        Architecture::ModernBert => "modernbert",
        Architecture::Qwen3 => "qwen3",
        Architecture::Static => "static",
    };
    let mut parts = vec![
        sha256(&manifest.weights().name).clone(),
        sha256("tokenizer.json").clone(),
        architecture.to_owned(),
    ];
    parts.extend(config.fingerprint());
    parts.extend([
        pooling.to_owned(),
        manifest.prefixes.query.clone(),
        manifest.prefixes.passage.clone(),
        manifest.window.to_string(),
        text::NORMALISATION.to_owned(),
    ]);
    // JSON keeps the parts apart: no two lists give the same text.
    let parts = serde_json::to_vec(&parts).expect("strings make JSON");
    checksum::hex(&Sha256::digest(parts))[..32].to_owned()
}
