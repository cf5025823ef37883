//! The tokenizer of a model: reading it, and whether it is the model's own.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokenizers::ModelWrapper;

use crate::error::{Cause, Damage, Error, without_panic};
use crate::folder;
use crate::manifest::{Architecture, Manifest, Prefixes};

/// Letters that no vocabulary has: a tokenizer that has nothing for what it does not know would
/// refuse the first text with a new emoji.
const UNHEARD_OF: &str = "a \u{12345}\u{e000}";

/// What turns a text into token ids, as its model needs them.
pub(crate) struct Tokenizer {
    inner: tokenizers::Tokenizer,
    use_of: Use,
}

/// What becomes of tokens that are not from the text.
enum Use {
    /// Special tokens are put around the text, and an unknown word is a token like others.
    Layers,
    /// None are put around it, and unknown words, of this id, are left out.
    WordsOnly { unknown: Option<u32> },
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model in `folder` that has vectors for `n_words` words.
    pub(crate) fn read(
        manifest: &Manifest,
        folder: &Path,
        n_words: usize,
    ) -> Result<Tokenizer, Error> {
        let file = TokenizerFile {
            manifest,
            path: folder.join("tokenizer.json"),
            hint: folder::hint(manifest, folder),
        };
        let inner = file.read(|| {
            let mut inner = tokenizers::Tokenizer::from_file(&file.path)?;
            // Files carry the settings of whoever saved them last; cutting and padding are done here.
            inner.with_padding(None);
            inner.with_truncation(None)?;
            Ok(inner)
        })?;
        let use_of = match manifest.architecture {
            Architecture::Bert
            | Architecture::XlmRoberta
            | Architecture::ModernBert
            | Architecture::Qwen3 => Use::Layers,
            Architecture::Static => Use::WordsOnly {
                unknown: file.read(|| unknown_word(&inner, &file.path))?,
            },
        };
        file.check_id(last_id(&inner), n_words)?;
        let tokenizer = Tokenizer { inner, use_of };
        file.check_blank_texts(&tokenizer, n_words)?;
        let (ids, _) = file.read(|| tokenizer.encode(UNHEARD_OF))?;
        for id in ids {
            file.check_id(id as usize, n_words)?;
        }
        Ok(tokenizer)
    }

    /// Token ids of `text`, and how many special tokens come last.
    pub(crate) fn encode(&self, text: &str) -> Result<(Vec<u32>, usize), Cause> {
        let special_tokens = matches!(self.use_of, Use::Layers);
        let encoding = without_panic(|| self.inner.encode_fast(text, special_tokens))?;
        match self.use_of {
            Use::Layers => {
                let specials = encoding.get_special_tokens_mask().iter().rev();
                let n_last = specials.take_while(|special| **special == 1).count();
                Ok((encoding.get_ids().to_vec(), n_last))
            }
            Use::WordsOnly { unknown } => {
                let ids = encoding.get_ids().iter().copied();
                Ok((ids.filter(|id| Some(*id) != unknown).collect(), 0))
            }
        }
    }

    /// The longest word that is taken apart: WordPiece turns every longer one into the same unknown
    /// token.
    pub(crate) fn longest_word(&self) -> Option<usize> {
        match self.inner.get_model() {
            ModelWrapper::WordPiece(model) => Some(model.max_input_chars_per_word),
            ModelWrapper::BPE(_) | ModelWrapper::WordLevel(_) | ModelWrapper::Unigram(_) => None,
        }
    }
}

/// The file while it is read.
struct TokenizerFile<'a> {
    manifest: &'a Manifest,
    path: PathBuf,
    hint: String,
}

impl TokenizerFile<'_> {
    fn read<T>(&self, read: impl FnOnce() -> Result<T, Cause>) -> Result<T, Error> {
        without_panic(read).map_err(|source| Error::Unreadable {
            path: self.path.clone(),
            format: "a tokenizer",
            hint: self.hint.clone(),
            source,
        })
    }

    fn check_id(&self, id: usize, n_words: usize) -> Result<(), Error> {
        if id < n_words {
            return Ok(());
        }
        Err(self.damaged(Damage::TokenId { id, n_words }))
    }

    /// Prefix and special tokens alone must make a text that the model can read, with room for more.
    fn check_blank_texts(&self, tokenizer: &Tokenizer, n_words: usize) -> Result<(), Error> {
        let Prefixes { query, passage } = &self.manifest.prefixes;
        for prefix in [query, passage, ""] {
            let (ids, _) = self.read(|| tokenizer.encode(prefix.trim_end()))?;
            // Special tokens have ids of their own in the file, apart from the vocabulary.
            for id in &ids {
                self.check_id(*id as usize, n_words)?;
            }
            let least = match tokenizer.use_of {
                Use::Layers => 1,
                Use::WordsOnly { .. } => 0,
            };
            if ids.len() < least || ids.len() >= self.manifest.window {
                return Err(self.damaged(Damage::EmptyText {
                    found: ids.len(),
                    expected: format!("{least} to {}", self.manifest.window - 1),
                }));
            }
        }
        Ok(())
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            damage,
            hint: self.hint.clone(),
        }
    }
}

/// The largest id of the vocabulary.
fn last_id(tokenizer: &tokenizers::Tokenizer) -> usize {
    let n_words = tokenizer.get_vocab_size(true);
    // Looking up each id is much quicker than copying the vocabulary. Where all ids below the
    // number of words are taken, none is left for an id above it.
    let mut ids = 0..u32::try_from(n_words).unwrap_or(u32::MAX);
    if ids.all(|id| tokenizer.id_to_token(id).is_some()) {
        return n_words.saturating_sub(1);
    }
    let vocabulary = tokenizer.get_vocab(true);
    vocabulary.values().max().map_or(0, |id| *id as usize)
}

/// The id of the token for words that are not in the vocabulary, if there is one.
fn unknown_word(tokenizer: &tokenizers::Tokenizer, path: &Path) -> Result<Option<u32>, Cause> {
    /// The one kind of model that does not tell it.
    #[derive(Deserialize)]
    struct File {
        model: Unigram,
    }
    #[derive(Deserialize)]
    struct Unigram {
        unk_id: Option<u32>,
    }
    let name = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => Some(&model.unk_token),
        ModelWrapper::WordLevel(model) => Some(&model.unk_token),
        ModelWrapper::BPE(model) => model.unk_token.as_ref(),
        ModelWrapper::Unigram(_) => {
            let file: File = serde_json::from_slice(&std::fs::read(path)?)?;
            return Ok(file.model.unk_id);
        }
    };
    Ok(name.and_then(|name| tokenizer.token_to_id(name)))
}
