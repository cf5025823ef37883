//! Text in, unit vectors out: models, tokenizers and the encoder.
//!
//! [`Embedder`] is what the rest of the program sees. [`Encoder`] implements it with a model read
//! from a folder; which models there are, what they need and where they come from
//! is written in the [`Manifest`]s; [`ModelFolder`] holds them on disk and fetches them.
//! [`HttpEmbedder`] implements it with a server that someone else runs.
//! Candle, tokenizers, devices, pooling, prefixes and batching stay inside this crate.

mod bert;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod bf16;
mod checksum;
mod cpu;
mod device;
mod encoder;
mod error;
mod folder;
#[cfg(any(test, feature = "hash-embedder"))]
mod hash_embedder;
mod http;
mod kernels;
mod manifest;
mod model;
mod modernbert;
mod packed;
mod parallel;
mod pull;
mod qwen3;
mod static_vectors;
mod text;
mod tokenizer;
mod tokens;
mod vector;
mod weights;

pub use device::DeviceChoice;
pub use encoder::{Encoder, EncoderOptions};
pub use error::{Damage, Error, ManifestFault, ServerFault, VectorFault};
pub use folder::{ListedModel, ModelFolder, ModelState};
#[cfg(any(test, feature = "hash-embedder"))]
pub use hash_embedder::HashEmbedder;
pub use http::{ApiKey, HttpApi, HttpEmbedder, HttpOptions};
pub use kernels::{Kernel, Precision};
pub use manifest::{Architecture, Manifest, ModelFile, Pooling, Prefixes, Source, Wheel};
pub use pull::{PullOptions, PullProgress};
pub use tokens::{estimate_tokens, token_weight};

/// Which side of a search a text is on: models trained for retrieval embed the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// What someone asks.
    Query,
    /// What may answer.
    Passage,
}

/// What one needs to know of a model that is ready to embed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// The manifest's name of the model, or the server's.
    pub name: String,
    /// 32 hex digits that change whenever the same text could get another vector: they stand for
    /// weights, tokenizer, pooling, prefixes, window and the way text is normalised.
    pub fingerprint: String,
    /// Length of every vector.
    pub dim: usize,
    /// Most tokens of one text that are read, prefix and special tokens included.
    pub window: usize,
    /// Where it runs: `cpu`, `cuda:0`, `metal:0`, or the address of a server.
    pub device: String,
    /// What it computes in, never `Auto`; none where a server does not tell. Not part of the
    /// fingerprint: the vectors of one text lie closer together than a cosine of 0.999.
    pub precision: Option<Precision>,
    /// Languages it was trained for, as BCP 47 tags, or `multilingual`.
    pub languages: Vec<String>,
}

/// The answer to [`Embedder::embed`].
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// One vector a text, in the order of the texts; each finite, of length 1, not constant.
    pub vectors: Vec<Vec<f32>>,
    /// How many texts were longer than the window and lost their end.
    pub n_cut: usize,
    /// Tokens that went through the model, prefix and special tokens included, padding not.
    pub n_tokens: usize,
}

/// Turns texts into unit vectors whose dot product says how near they are in meaning.
pub trait Embedder: Send + Sync {
    /// What model this is.
    fn card(&self) -> &ModelCard;

    /// Number of tokens of `text` as a passage, prefix and special tokens included, uncut.
    fn count_tokens(&self, text: &str) -> usize;

    /// Embeds `texts`, in order. Text is trimmed and brought to NFC before the prefix of `role`
    /// is put on; a text longer than the window is cut and counted, not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Inference`] when the model cannot run, [`Error::BadVector`] when what it gives
    /// is not a usable unit vector. [`Error::is_transient`] tells a server that is away from texts
    /// that cannot be embedded.
    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, Error>;

    /// Whether a call goes to a server, which may be slow or away: who writes a note does not wait
    /// for it.
    fn is_remote(&self) -> bool {
        false
    }

    /// About how many tokens a call should bring where there is a choice: enough to keep the
    /// engine busy, few enough that a stop between two calls is quick.
    fn batch_tokens(&self) -> usize {
        4_096
    }
}
