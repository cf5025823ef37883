//! The embedder with a model.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use tokenizers::{ModelWrapper, Tokenizer};

use crate::bert::{Bert, Config, Runner};
use crate::error::{Damage, Error};
use crate::kernels::Kernel;
use crate::manifest::{Architecture, Manifest, Pooling, Prefixes};
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
    /// WordPiece turns every longer word into the same unknown token.
    longest_word: Option<usize>,
    bert: Bert,
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
        let config = read_config(manifest, folder)?;
        let tokenizer = read_tokenizer(manifest, folder, &config)?;
        let mut weights = WeightFile::open(&folder.join(&manifest.weights().name))?;
        let Manifest {
            architecture,
            pooling,
            ..
        } = *manifest;
        let runner = if device.is_cpu() {
            Runner::Cpu(options.kernel.unwrap_or_else(Kernel::best))
        } else {
            Runner::Device(&device)
        };
        let bert = Bert::load(&mut weights, &config, architecture, pooling, &runner)?;
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
            longest_word: match tokenizer.get_model() {
                ModelWrapper::WordPiece(model) => Some(model.max_input_chars_per_word),
                _ => None,
            },
            tokenizer,
            bert,
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
        self.bert.kernel()
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
        let text = match self.longest_word {
            Some(longest) => text::break_long_words(text, longest),
            None => text,
        };
        let encoding = self
            .tokenizer
            // A blank text must not leave the prefix with a blank at its end, a token of its own.
            .encode_fast(format!("{prefix}{text}").trim_end(), true)
            .map_err(|source| self.failed(1, source))?;
        let specials = encoding.get_special_tokens_mask().iter().rev();
        let n_last = specials.take_while(|special| **special == 1).count();
        Ok((encoding.get_ids().to_vec(), n_last))
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
            match self.bert.forward(&ids) {
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
        self.tokenize(text, Role::Passage)
            .expect("the tokenizer has taken every kind of text when it was loaded")
            .0
            .len()
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

fn read_config(manifest: &Manifest, folder: &Path) -> Result<Config, Error> {
    let path = folder.join("config.json");
    let json = std::fs::read(&path).map_err(|source| Error::Io {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    let config: Config = serde_json::from_slice(&json).map_err(|error| Error::Unreadable {
        path: path.clone(),
        format: "settings of a BERT model",
        source: error.into(),
    })?;
    let damage = |setting, found: String, expected: String| Error::Damaged {
        path: path.clone(),
        damage: Damage::Setting {
            setting,
            found,
            expected,
        },
        hint: folder::hint(manifest, folder),
    };
    let Config {
        hidden_size,
        num_attention_heads,
        max_position_embeddings,
        ..
    } = config;
    let n_positions = manifest.window + config.first_position(manifest.architecture);
    if hidden_size != manifest.dimension {
        let expected = manifest.dimension.to_string();
        return Err(damage("hidden_size", hidden_size.to_string(), expected));
    }
    if num_attention_heads == 0 || !hidden_size.is_multiple_of(num_attention_heads) {
        let expected = format!("a divisor of {hidden_size}");
        return Err(damage(
            "num_attention_heads",
            num_attention_heads.to_string(),
            expected,
        ));
    }
    if max_position_embeddings < n_positions {
        let expected = format!("at least {n_positions}");
        let found = max_position_embeddings.to_string();
        return Err(damage("max_position_embeddings", found, expected));
    }
    if config.hidden_act != "gelu" {
        return Err(damage(
            "hidden_act",
            config.hidden_act.clone(),
            "gelu".to_owned(),
        ));
    }
    if config.type_vocab_size == 0 {
        return Err(damage(
            "type_vocab_size",
            "0".to_owned(),
            "at least 1".to_owned(),
        ));
    }
    Ok(config)
}

fn read_tokenizer(manifest: &Manifest, folder: &Path, config: &Config) -> Result<Tokenizer, Error> {
    let path = folder.join("tokenizer.json");
    let unreadable = |source| Error::Unreadable {
        path: path.clone(),
        format: "a tokenizer",
        source,
    };
    let mut tokenizer = Tokenizer::from_file(&path).map_err(unreadable)?;
    // Files carry the settings of whoever saved them last; cutting and padding are done here.
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(unreadable)?;
    let n_words = tokenizer.get_vocab_size(true);
    if n_words > config.vocab_size {
        return Err(Error::Damaged {
            path,
            damage: Damage::Setting {
                setting: "vocabulary",
                found: n_words.to_string(),
                expected: format!("at most {}", config.vocab_size),
            },
            hint: folder::hint(manifest, folder),
        });
    }
    Ok(tokenizer)
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
    };
    let architecture = match manifest.architecture {
        Architecture::Bert => "bert",
        Architecture::XlmRoberta => "xlm-roberta",
    };
    let parts = [
        sha256(&manifest.weights().name).clone(),
        sha256("tokenizer.json").clone(),
        architecture.to_owned(),
        config.num_attention_heads.to_string(),
        config.layer_norm_eps.to_string(),
        config.pad_token_id.to_string(),
        pooling.to_owned(),
        manifest.prefixes.query.clone(),
        manifest.prefixes.passage.clone(),
        manifest.window.to_string(),
        text::NORMALISATION.to_owned(),
    ];
    // JSON keeps the parts apart: no two lists give the same text.
    let parts = serde_json::to_vec(&parts).expect("strings make JSON");
    checksum::hex(&Sha256::digest(parts))[..32].to_owned()
}
