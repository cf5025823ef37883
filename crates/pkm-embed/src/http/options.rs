//! Where a server is and how it is to be used.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::server::address;
use super::{HttpApi, MAX_DIM};
use crate::error::Error;
use crate::manifest::Prefixes;

/// A server and how to use it.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Its address, `http` or `https`, with or without `/v1` at the end.
    pub url: String,
    /// How it is spoken to; none to ask it.
    pub api: Option<HttpApi>,
    /// The model's name as the server knows it. OpenAI's API needs one; of text-embeddings-inference
    /// it is asked.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub key: Option<ApiKey>,
    /// What the model wants before a text.
    pub prefixes: Prefixes,
    /// The length of vectors that is asked for; none for the model's own.
    pub dim: Option<usize>,
    /// Most tokens of one text, prefix and special tokens included; less where the server takes less.
    pub window: usize,
    /// Languages of the model, as BCP 47 tags, or `multilingual`.
    pub languages: Vec<String>,
    /// Most texts of a request, the probe included; fewer where the server takes fewer.
    pub batch: usize,
    /// Most requests at once.
    pub n_requests: usize,
    /// How long a request may take, tries again included.
    pub timeout: Duration,
    /// How often a request is tried again after a failure that may pass.
    pub n_retries: usize,
    /// A `tokenizer.json` to count tokens with; none to estimate.
    pub tokenizer: Option<PathBuf>,
    /// A file to know the server's model by from one start to the next.
    pub known_models: Option<PathBuf>,
}

impl HttpOptions {
    /// The server at `url`, everything else as usual.
    pub fn new(url: impl Into<String>) -> HttpOptions {
        HttpOptions {
            url: url.into(),
            api: None,
            model: None,
            key: None,
            prefixes: Prefixes {
                query: String::new(),
                passage: String::new(),
            },
            dim: None,
            window: 512,
            languages: vec!["multilingual".to_owned()],
            batch: 32,
            n_requests: 4,
            timeout: Duration::from_secs(60),
            n_retries: 6,
            tokenizer: None,
            known_models: None,
        }
    }

    /// Finds settings that no server could be used with.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] names the first one.
    pub fn check(&self) -> Result<(), Error> {
        address(&self.url)?;
        let numbers = [
            ("embedder_dimension", self.dim.unwrap_or(2), 2),
            ("embedder_window", self.window, 16),
            ("embedder_batch", self.batch, 1),
            ("embedder_requests", self.n_requests, 1),
        ];
        for (setting, value, least) in numbers {
            if value < least || value > MAX_DIM {
                return Err(Error::Setting {
                    setting,
                    reason: format!("is {value}; it must be {least} to {MAX_DIM}"),
                });
            }
        }
        if self.timeout.is_zero() {
            return Err(Error::Setting {
                setting: "embedder_timeout",
                reason: "is 0; it must be at least a second".to_owned(),
            });
        }
        Ok(())
    }
}

/// A key for a server. It is in no message, whatever the server answers.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(pub(super) String);

impl ApiKey {
    /// `text` without the blanks around it.
    pub fn new(text: &str) -> ApiKey {
        ApiKey(text.trim().to_owned())
    }

    /// Whether it can be sent in a header.
    pub(super) fn is_usable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}
