//! The embedder with a model on a server.

mod api;
mod options;
mod probe;
mod server;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

pub use self::api::HttpApi;
use self::api::{Answer, Info};
pub use self::options::{ApiKey, HttpOptions};
use self::probe::PROBE;
use self::server::{Patience, Question, Server, not_usable};
use crate::error::{Error, ServerFault};
use crate::manifest::Prefixes;
use crate::parallel::in_parallel;
use crate::{Embedded, Embedder, ModelCard, Role, checksum, text, tokens, vector};

/// Longest wait where somebody waits: for the vector of a question, and at the start.
const QUICK: Duration = Duration::from_secs(10);
/// A usual passage, in tokens; for [`Embedder::batch_tokens`].
const USUAL_TOKENS: usize = 200;
/// Bytes of one number as JSON, at most: a sign, 17 digits, an exponent, a comma and blanks.
const NUMBER_BYTES: usize = 32;
/// Numbers in a vector of a length that is not known yet, at most.
const MAX_DIM: usize = 65_536;
/// Bytes of an answer besides its numbers.
const ANSWER_BYTES: u64 = 65_536;

/// A model on a server, which gets every text that is embedded.
///
/// # What is trusted
///
/// That the server embeds each text by itself, the same way each time, and answers OpenAI's API
/// with the right `index`. Everything that can be checked is: number, order, length and values of
/// vectors, and with every request that the model is the one of the start: a text of our own goes
/// along, and must get the vector that it got then.
///
/// The fingerprint stands for the API, the model's name, what text-embeddings-inference says of the
/// model's revision and pooling, prefixes, window, and the vector of that text as far as one model
/// gives it everywhere. It does not stand for the address: a farm may move.
pub struct HttpEmbedder {
    card: ModelCard,
    server: Server,
    api: HttpApi,
    /// As it is asked for.
    model: String,
    prefixes: Prefixes,
    /// The length of vectors that is asked for.
    dimensions: Option<usize>,
    /// Texts of a request, the probe not included.
    batch: usize,
    n_requests: usize,
    timeout: Duration,
    n_retries: usize,
    tokenizer: Option<Tokenizer>,
    /// The probe's vector; none where a request can have but one text.
    probe: Option<Vec<f32>>,
}

impl HttpEmbedder {
    /// Asks the server what it is, and for the vector of a short text of our own.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] names a setting that is missing or not usable, [`Error::Server`] says why
    /// the server cannot be used now: another try may succeed. [`Error::Unreadable`] for the
    /// tokenizer.
    pub fn connect(options: HttpOptions) -> Result<HttpEmbedder, Error> {
        options.check()?;
        let tokenizer = options
            .tokenizer
            .as_deref()
            .map(read_tokenizer)
            .transpose()?;
        let server = Server::new(&options.url, options.key, options.n_requests)?;
        let quick = Patience {
            total: options.timeout.min(QUICK),
            n_retries: 0,
        };
        let (api, info) =
            ask_api(&server, options.api, quick).map_err(|fault| server.error(fault))?;
        let model = model_name(&server, options.model, info.as_ref())?;
        let (window, batch) = match &info {
            Some(info) => (
                options.window.min(info.max_input_length),
                options.batch.min(info.max_client_batch_size),
            ),
            None => (options.window, options.batch),
        };
        let mut embedder = HttpEmbedder {
            card: ModelCard {
                name: model.clone(),
                // Both are known when the probe is embedded.
                fingerprint: String::new(),
                dim: 0,
                window,
                device: server.url().to_owned(),
                precision: None,
                languages: options.languages,
            },
            server,
            api,
            model,
            prefixes: options.prefixes,
            dimensions: options.dim,
            batch: batch.saturating_sub(1).max(1),
            n_requests: options.n_requests,
            timeout: options.timeout,
            n_retries: options.n_retries,
            tokenizer,
            probe: None,
        };
        let probe = embedder
            .embed_probe(quick)
            .map_err(|fault| embedder.server.error(fault))?;
        embedder.card.dim = probe.len();
        let said = embedder.said(info.as_ref());
        let name = options
            .known_models
            .map(|path| probe::recognize(&path, &said, &probe));
        embedder.card.fingerprint = digest(&[said, name.unwrap_or_default()]);
        embedder.probe = (batch > 1).then_some(probe);
        Ok(embedder)
    }

    /// Stands for everything that settings and server say of what decides a text's vector.
    fn said(&self, info: Option<&Info>) -> String {
        digest(&[
            "http-1".to_owned(),
            self.api.name().to_owned(),
            self.model.clone(),
            info.and_then(|info| info.model_sha.clone())
                .unwrap_or_default(),
            info.map_or_else(String::new, |info| info.model_type.to_string()),
            self.card.dim.to_string(),
            self.prefixes.query.clone(),
            self.prefixes.passage.clone(),
            self.card.window.to_string(),
            text::CLEANING.to_owned(),
        ])
    }

    fn prefix(&self, role: Role) -> &str {
        match role {
            Role::Query => &self.prefixes.query,
            Role::Passage => &self.prefixes.passage,
        }
    }

    /// Tokens of a text with its prefix.
    fn count(&self, text: &str) -> usize {
        let counted = self
            .tokenizer
            .as_ref()
            .and_then(|tokenizer| tokenizer.encode_fast(text, true).ok());
        counted.map_or_else(|| tokens::estimate_tokens(text), |encoding| encoding.len())
    }

    /// `text` as it is sent, its tokens, and whether it is longer than the window.
    fn prepare(&self, text: &str, role: Role) -> (String, usize, bool) {
        let mut text = format!("{}{}", self.prefix(role), text::clean(text));
        text.truncate(text.trim_end().len());
        let n_tokens = self.count(&text);
        if n_tokens <= self.card.window {
            return (text, n_tokens, false);
        }
        // The other server cuts by itself and knows its tokens.
        if self.api == HttpApi::OpenAi {
            self.cut(&mut text);
        }
        (text, self.card.window, true)
    }

    /// Takes as many characters from the end of `text` as it takes to fit the window.
    fn cut(&self, text: &mut String) {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let n_kept = ends.partition_point(|end| self.count(&text[..*end]) <= self.card.window);
        text.truncate(ends[n_kept.saturating_sub(1)]);
    }

    fn patience(&self, role: Role) -> Patience {
        match role {
            Role::Query => Patience {
                total: self.timeout.min(QUICK),
                // For a connection that was kept and has died meanwhile.
                n_retries: self.n_retries.min(1),
            },
            Role::Passage => Patience {
                total: self.timeout,
                n_retries: self.n_retries,
            },
        }
    }

    /// The vectors of `texts`, of the right number and length, otherwise as they came.
    fn request(&self, texts: &[&str], patience: Patience) -> Result<Answer, ServerFault> {
        let body = self.api.body(&self.model, texts, self.dimensions);
        let dim = if self.card.dim == 0 {
            MAX_DIM
        } else {
            self.card.dim
        };
        let question = Question {
            path: self.api.path(),
            body: Some(&body),
            max_bytes: (texts.len() * dim * NUMBER_BYTES) as u64 + ANSWER_BYTES,
        };
        self.server.ask(question, patience, |bytes| {
            let answer = self.api.read(bytes, texts.len())?;
            let expected = match (self.card.dim, self.dimensions) {
                (0, Some(asked)) => asked,
                (0, None) => answer.vectors.first().map_or(0, Vec::len),
                (known, _) => known,
            };
            match answer.vectors.iter().find(|v| v.len() != expected) {
                Some(other) => Err(not_usable(format!(
                    "it has a vector of {} dimensions, expected {expected}",
                    other.len()
                ))),
                None => Ok(answer),
            }
        })
    }

    /// The probe's vector, of length 1.
    fn embed_probe(&self, patience: Patience) -> Result<Vec<f32>, ServerFault> {
        let mut vectors = self.request(&[PROBE], patience)?.vectors;
        let mut found = vectors.pop().expect("a vector for each text");
        usable(&mut found)?;
        Ok(found)
    }

    /// As [`HttpEmbedder::request`], with the probe at the end, which is taken off again.
    fn request_with_probe(
        &self,
        texts: &[&str],
        patience: Patience,
    ) -> Result<Answer, ServerFault> {
        let Some(probe) = &self.probe else {
            return self.request(texts, patience);
        };
        let with_probe: Vec<&str> = texts.iter().copied().chain([PROBE]).collect();
        let mut answer = self.request(&with_probe, patience)?;
        let mut found = answer.vectors.pop().expect("a vector for each text");
        usable(&mut found)?;
        let likeness = probe::likeness(probe, &found);
        if probe::is_same(likeness) {
            Ok(answer)
        } else {
            Err(ServerFault::OtherModel { likeness })
        }
    }

    /// The error of `n_texts` texts of `role`, by who is to blame: a server that embeds the probe
    /// while it does not embed these texts is all right.
    fn error(&self, fault: ServerFault, n_texts: usize, role: Role) -> Error {
        let is_texts = role == Role::Passage
            && server::may_be_the_texts(&fault)
            && self.embed_probe(self.patience(Role::Query)).is_ok();
        let source = self.server.error(fault);
        if !is_texts {
            return source;
        }
        Error::Inference {
            model: self.card.name.clone(),
            n_texts,
            source: source.into(),
        }
    }

    /// Sends `requests`, several at once, and gives their answers in order.
    fn run(&self, requests: &[&[&str]], patience: Patience) -> Result<Vec<Answer>, ServerFault> {
        in_parallel(self.n_requests, requests.len(), |i| {
            self.request_with_probe(requests[i], patience)
        })
    }
}

impl Embedder for HttpEmbedder {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    /// Exact with a tokenizer; else an estimate that errs on the long side.
    fn count_tokens(&self, text: &str) -> usize {
        let text = format!("{}{}", self.prefixes.passage, text::clean(text));
        self.count(text.trim_end())
    }

    /// [`Embedded::n_cut`] and [`Embedded::n_tokens`] are as exact as the counting of tokens is.
    fn embed(&self, texts: &[&str], role: Role) -> Result<Embedded, Error> {
        let (mut n_cut, mut n_tokens) = (0, 0);
        let mut prepared = Vec::with_capacity(texts.len());
        for text in texts {
            let (text, n, is_cut) = self.prepare(text, role);
            n_cut += usize::from(is_cut);
            n_tokens += n;
            prepared.push(text);
        }
        let prepared: Vec<&str> = prepared.iter().map(String::as_str).collect();
        // Spread over all requests that may run at once, rather than into few full ones.
        let batch = texts.len().div_ceil(self.n_requests).clamp(1, self.batch);
        let requests: Vec<&[&str]> = prepared.chunks(batch).collect();
        let answers = self
            .run(&requests, self.patience(role))
            .map_err(|fault| self.error(fault, texts.len(), role))?;
        // The server's count holds for all or for none.
        let counted: Option<usize> = answers.iter().map(|answer| answer.n_tokens).sum();
        let mut vectors: Vec<Vec<f32>> = answers
            .into_iter()
            .flat_map(|answer| answer.vectors)
            .collect();
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
            n_tokens: counted.unwrap_or(n_tokens),
        })
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn batch_tokens(&self) -> usize {
        self.n_requests * self.batch * USUAL_TOKENS
    }
}

impl fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbedder")
            .field("card", &self.card)
            .finish_non_exhaustive()
    }
}

/// Scales the probe's vector to length 1.
fn usable(found: &mut [f32]) -> Result<(), ServerFault> {
    vector::normalize(found);
    vector::check(found, found.len())
        .map_err(|fault| not_usable(format!("the vector of the probe {fault}")))
}

/// Finds out how the server is spoken to, and what it says of itself.
fn ask_api(
    server: &Server,
    api: Option<HttpApi>,
    patience: Patience,
) -> Result<(HttpApi, Option<Info>), ServerFault> {
    if api == Some(HttpApi::OpenAi) {
        return Ok((HttpApi::OpenAi, None));
    }
    let question = Question {
        path: "/info",
        body: None,
        max_bytes: ANSWER_BYTES,
    };
    match (
        server.ask(question, patience, api::json::<Info>),
        api.unwrap_or(HttpApi::OpenAi),
    ) {
        (Ok(info), _) => Ok((HttpApi::Tei, Some(info))),
        // Something else answers there, or nothing does at that path.
        (
            Err(
                ServerFault::NotUsable { .. }
                | ServerFault::Status {
                    status: 404 | 405, ..
                },
            ),
            other,
        ) => Ok((other, None)),
        (Err(fault), _) => Err(fault),
    }
}

fn model_name(
    server: &Server,
    wanted: Option<String>,
    info: Option<&Info>,
) -> Result<String, Error> {
    match (wanted, info) {
        (Some(wanted), Some(info)) if wanted != info.model_id => {
            Err(server.error(not_usable(format!(
                "it runs the model `{}`, and `model` is `{wanted}`",
                server.plain(&info.model_id)
            ))))
        }
        (Some(wanted), _) => Ok(wanted),
        (None, Some(info)) => Ok(info.model_id.clone()),
        (None, None) => Err(Error::Setting {
            setting: "model",
            reason: "is missing; give the name by which the embedding server knows its model"
                .to_owned(),
        }),
    }
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer, Error> {
    let unreadable = |source| Error::Unreadable {
        path: path.to_owned(),
        format: "a tokenizer",
        hint: "name the model's `tokenizer.json`, or none".to_owned(),
        source,
    };
    let mut tokenizer = Tokenizer::from_file(path).map_err(unreadable)?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(unreadable)?;
    Ok(tokenizer)
}

/// 32 hex digits that stand for `parts`.
fn digest(parts: &[String]) -> String {
    // JSON keeps the parts apart: no two lists give the same text.
    let parts = serde_json::to_vec(parts).expect("strings make JSON");
    checksum::hex(&Sha256::digest(parts))[..32].to_owned()
}
