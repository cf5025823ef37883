//! The embedder with a model.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

use crate::bert::Runner;
use crate::error::Error;
use crate::kernels::Kernel;
use crate::manifest::{Architecture, Manifest, Pooling, Prefixes};
use crate::model::{Config, Model};
use crate::tokenizer::Tokenizer;
use crate::weights::WeightFile;
use crate::{DeviceChoice, Embedded, Embedder, ModelCard, Role};
use crate::{checksum, device, folder, text, vector};

/// Most tokens, padding included, that go through the model at once on a CPU. Fewer read the
/// weights from memory more often (128: a tenth slower with all-MiniLM-L6-v2), more gain nothing
/// and leave less to share out among the cores.
const CPU_BATCH_TOKENS: usize = 512;
/// The same on a GPU, where only large batches keep it busy.
const GPU_BATCH_TOKENS: usize = 16_384;

/// How to run a model.
#[derive(Debug, Clone, Default)]
pub struct EncoderOptions {
    /// Where.
    pub device: DeviceChoice,
    /// With which instructions, on a CPU; none for the fastest that it has.
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
    /// As [`Encoder::load`]; and [`Error::Kernel`] for a kernel that this processor cannot run.
    pub fn load_with(
        manifest: &Manifest,
        folder: &Path,
        options: &EncoderOptions,
    ) -> Result<Encoder, Error> {
        if let Some(kernel) = options.kernel.filter(|kernel| !kernel.is_usable()) {
            return Err(Error::Kernel { kernel });
        }
        let device = options.device.open()?;
        let checksums = folder::check_files(manifest, folder)?;
        let config = Config::read(manifest, folder)?;
        let weights = folder.join(&manifest.weights().name);
        let mut weights = WeightFile::open(&weights, folder::hint(manifest, folder))?;
        let tokenizer = Tokenizer::read(manifest, folder, config.n_words(&weights))?;
        let runner = if device.is_cpu() {
            Runner::Cpu(options.kernel.unwrap_or_else(Kernel::best))
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

    /// Runs `batches`, indices into `texts`, and hands each result to `accept`.
    fn run(&self, batches: &[&[usize]], texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, Error> {
        let vectors = Mutex::new(vec![Vec::new(); texts.len()]);
        let failure = Mutex::new(None);
        let next = AtomicUsize::new(0);
        let step = || {
            let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return ControlFlow::Break(());
            };
            let ids: Vec<&[u32]> = batch.iter().map(|text| &texts[*text][..]).collect();
            match self.model.forward(&ids) {
                Ok(found) => {
                    let mut vectors = vectors.lock().expect("no thread panics holding it");
                    for (text, vector) in batch.iter().zip(found) {
                        vectors[*text] = vector;
                    }
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    *failure.lock().expect("no thread panics holding it") = Some(error);
                    next.store(batches.len(), Ordering::Relaxed);
                    ControlFlow::Break(())
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.n_threads.min(batches.len()) {
                scope.spawn(|| while step().is_continue() {});
            }
            while step().is_continue() {}
        });
        match failure.into_inner().expect("no thread panics holding it") {
            Some(error) => Err(self.failed(texts.len(), error)),
            None => Ok(vectors.into_inner().expect("no thread panics holding it")),
        }
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
        let mut n_cut = 0;
        let mut tokens = Vec::with_capacity(texts.len());
        for text in texts {
            let (mut ids, n_last) = self.tokenize(text, role)?;
            if ids.len() > self.card.window {
                n_cut += 1;
                let last = ids.split_off(ids.len() - n_last);
                ids.truncate(self.card.window - n_last);
                ids.extend(last);
            }
            tokens.push(ids);
        }
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|text| tokens[*text].len());
        let batches = batches(&order, &tokens, self.batch_tokens);
        let mut vectors = self.run(&batches, &tokens)?;
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
            n_tokens: tokens.iter().map(Vec::len).sum(),
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
/// at most `budget` tokens with their padding, or of one text.
fn batches<'a>(order: &'a [usize], tokens: &[Vec<u32>], budget: usize) -> Vec<&'a [usize]> {
    let mut batches = Vec::new();
    let mut start = 0;
    for (end, text) in order.iter().enumerate() {
        // The text at hand is the longest so far, so all would be padded to its length.
        if end > start && (end - start + 1) * tokens[*text].len() > budget {
            batches.push(&order[start..end]);
            start = end;
        }
    }
    if start < order.len() {
        batches.push(&order[start..]);
    }
    // The longest first: no lane is left with a long one when the others are done.
    batches.reverse();
    batches
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
