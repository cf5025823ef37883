//! The embedder with a model.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use tokenizers::{ModelWrapper, Tokenizer};

use crate::bert::{Bert, Config, Runner};
use crate::error::{Damage, Error};
use crate::kernels::{Kernel, Precision};
use crate::manifest::{Architecture, Manifest, Pooling, Prefixes};
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
    /// As [`Encoder::load`]; and [`Error::Kernel`] or [`Error::Precision`] for what this processor
    /// or this model cannot run.
    pub fn load_with(
        manifest: &Manifest,
        folder: &Path,
        options: &EncoderOptions,
    ) -> Result<Encoder, Error> {
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
            Runner::Cpu(choose_kernel(options, &config)?)
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
                precision: match &runner {
                    Runner::Cpu(kernel) => kernel.precision(),
                    Runner::Device(_) => Precision::F32,
                },
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
        self.tokenize(text, Role::Passage)
            .expect("the tokenizer has taken every kind of text when it was loaded")
            .0
            .len()
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
            let found = self.bert.forward(&ids);
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

/// What `job` gives for 0 to `n_jobs`, in order, worked off by this thread and as many others as
/// make `n_threads`; or the first failure, after which no more are begun.
fn in_parallel<T: Send>(
    n_threads: usize,
    n_jobs: usize,
    job: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n_jobs {
                return Ok(done);
            }
            match job(i) {
                Ok(result) => done.push((i, result)),
                Err(error) => {
                    next.store(n_jobs, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(n_jobs))
            .map(|_| scope.spawn(work))
            .collect();
        let mut done = work()?;
        for other in others {
            let joined = other.join();
            done.extend(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(done)
    })?;
    done.sort_unstable_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
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
    let fits = in_blocks(config.hidden_size) && in_blocks(config.intermediate_size);
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
            return Err(refused("the model's widths are no multiples of 32"));
        }
        Precision::Auto if !fits => Kernel::best(Precision::F32),
        precision => Kernel::best(precision),
    }
    .ok_or_else(|| refused("it takes a processor with AMX, and Linux"))
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
