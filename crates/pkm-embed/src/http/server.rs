//! One request to an embedding server: bounded in time and size, tried again where that may help.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Uri};

use super::ApiKey;
use crate::error::{Error, ServerFault};

/// How long making a connection may take: who is there answers sooner.
const CONNECT: Duration = Duration::from_secs(5);
/// The first wait between two tries; each further one is twice as long, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const MAX_WAIT: Duration = Duration::from_secs(8);
/// How much of an answer that tells of an error is read.
const MAX_ERROR_BYTES: u64 = 4_096;
/// How much of that is passed on.
const MAX_ERROR_CHARS: usize = 200;

/// Where the server is and how to talk to it.
pub(super) struct Server {
    agent: ureq::Agent,
    base: String,
    key: Option<ApiKey>,
}

/// How long an answer is waited for, tries again included, and how many of these there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) total: Duration,
    pub(super) n_retries: usize,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    /// Below the server's address.
    pub(super) path: &'a str,
    /// JSON to post; none to get.
    pub(super) body: Option<&'a [u8]>,
    /// The longest answer that is read.
    pub(super) max_bytes: u64,
}

impl Server {
    /// `url` is the server's address, with or without `/v1` at its end.
    pub(super) fn new(url: &str, key: Option<ApiKey>, n_requests: usize) -> Result<Self, Error> {
        let (base, host) = address(url)?;
        if key.as_ref().is_some_and(|key| !key.is_usable()) {
            return Err(Error::Setting {
                setting: "embedder_key",
                reason: "holds something else than visible ASCII characters".to_owned(),
            });
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Texts and key go where the settings say and nowhere else.
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .max_idle_connections(n_requests)
            .max_idle_connections_per_host(n_requests)
            .user_agent(concat!("pkm/", env!("CARGO_PKG_VERSION")));
        let config = if is_loopback(&host) {
            config.proxy(None)
        } else {
            config
        };
        Ok(Self {
            agent: config.build().into(),
            base,
            key,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// Asks until `read` can make something of the answer, or patience is at its end.
    pub(super) fn ask<T>(
        &self,
        question: Question<'_>,
        patience: Patience,
        read: impl Fn(&[u8]) -> Result<T, ServerFault>,
    ) -> Result<T, ServerFault> {
        let started = Instant::now();
        let mut wait = FIRST_WAIT;
        let mut n_left = patience.n_retries;
        loop {
            let time = patience.total.saturating_sub(started.elapsed());
            let fault = match self.once(question, time).and_then(|bytes| read(&bytes)) {
                Ok(answer) => return Ok(answer),
                Err(ServerFault::NoAnswer { .. }) => {
                    return Err(ServerFault::NoAnswer {
                        after: patience.total,
                    });
                }
                Err(fault) => fault,
            };
            let pause = match fault {
                ServerFault::Status {
                    retry_after: Some(asked),
                    ..
                } => asked,
                _ => wait,
            };
            let has_time = started.elapsed() + pause < patience.total;
            if n_left == 0 || !has_time || !may_pass(&fault) {
                return Err(fault);
            }
            tracing::debug!(url = self.base, %fault, ?pause, "the embedding server is asked again");
            std::thread::sleep(pause);
            n_left -= 1;
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    fn once(&self, question: Question<'_>, time: Duration) -> Result<Vec<u8>, ServerFault> {
        let url = format!("{}{}", self.base, question.path);
        let sent = match question.body {
            None => self
                .with_key(self.agent.get(&url))
                .config()
                .timeout_global(Some(time))
                .build()
                .call(),
            Some(body) => self
                .with_key(self.agent.post(&url))
                .content_type("application/json")
                .config()
                .timeout_global(Some(time))
                .build()
                .send(body),
        };
        let mut answer = sent.map_err(|error| self.fault(&error))?;
        let is_success = answer.status().is_success();
        let max_bytes = if is_success {
            question.max_bytes
        } else {
            MAX_ERROR_BYTES
        };
        let retry_after = retry_after(answer.headers());
        let status = answer.status().as_u16();
        let body = answer
            .body_mut()
            .with_config()
            .limit(max_bytes)
            .read_to_vec();
        if is_success {
            return body.map_err(|error| self.fault(&error));
        }
        // What a server says of a key may hold a part of it.
        let message = match (status, body) {
            (401 | 403, _) | (_, Err(_)) => None,
            (_, Ok(body)) => message(&body),
        };
        Err(ServerFault::Status {
            status,
            message: message.map_or_else(String::new, |m| format!(": {}", self.plain(&m))),
            retry_after,
        })
    }

    fn with_key<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.key {
            Some(ApiKey(key)) => request.header("Authorization", format!("Bearer {key}")),
            None => request,
        }
    }

    fn fault(&self, error: &ureq::Error) -> ServerFault {
        let reason = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                format!("no connection within {} s", CONNECT.as_secs())
            }
            ureq::Error::Timeout(_) => {
                let after = Duration::ZERO;
                return ServerFault::NoAnswer { after };
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                return not_usable(format!("it is longer than {limit} bytes"));
            }
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        ServerFault::Unreachable {
            reason: self.plain(&reason),
        }
    }

    /// `text` on one line, not too long and without the key.
    pub(super) fn plain(&self, text: &str) -> String {
        let text = match &self.key {
            Some(ApiKey(key)) => text.replace(key.as_str(), "[key]"),
            None => text.to_owned(),
        };
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        words.join(" ").chars().take(MAX_ERROR_CHARS).collect()
    }

    /// The error that tells of `fault`.
    pub(super) fn error(&self, fault: ServerFault) -> Error {
        Error::Server {
            url: self.base.clone(),
            hint: hint(&fault),
            fault,
        }
    }
}

/// The fault of an answer that is not what was asked for.
pub(super) fn not_usable(reason: String) -> ServerFault {
    ServerFault::NotUsable { reason }
}

/// Whether another try of the same request can come out otherwise.
fn may_pass(fault: &ServerFault) -> bool {
    match fault {
        ServerFault::Unreachable { .. } | ServerFault::NotUsable { .. } => true,
        ServerFault::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
        // A busy server is not helped by being asked twice.
        ServerFault::NoAnswer { .. } | ServerFault::OtherModel { .. } => false,
    }
}

/// Whether the texts may be to blame: a server that can embed other texts answers such a fault.
pub(super) fn may_be_the_texts(fault: &ServerFault) -> bool {
    match fault {
        ServerFault::Unreachable { .. } | ServerFault::NotUsable { .. } => true,
        ServerFault::Status { status, .. } => {
            !matches!(status, 300..=399 | 401 | 403..=405 | 407 | 408 | 425 | 429 | 502..=504)
        }
        ServerFault::NoAnswer { .. } | ServerFault::OtherModel { .. } => false,
    }
}

fn hint(fault: &ServerFault) -> &'static str {
    match fault {
        ServerFault::Unreachable { .. } => "start the server, or correct `embedder_url`",
        ServerFault::NoAnswer { .. } => {
            "see what keeps the server busy, lower `embedder_batch` or `embedder_requests`, or \
             raise `embedder_timeout`"
        }
        ServerFault::Status { status, .. } => match status {
            300..=399 => "set `embedder_url` to the address that it has moved to",
            401 | 403 => {
                "check the key in `PKM_EMBEDDER_KEY` or in the file of `embedder_key_file`"
            }
            404 | 405 => "check `embedder_url`, `embedder_api` and `model`",
            429 => "lower `embedder_requests`, or give the server more machines",
            400..=499 => "check `model` and `embedder_dimension`, or lower `embedder_batch`",
            _ => "see the server's log",
        },
        ServerFault::NotUsable { .. } => {
            "check `embedder_url`, `embedder_api`, `model` and `embedder_dimension`"
        }
        ServerFault::OtherModel { .. } => {
            "bring the former model back, or start `pkm` anew to embed the notes with this one"
        }
    }
}

/// What an error answer says, if it says it in words: other JSON may repeat the texts.
fn message(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    let Ok(json) = serde_json::from_str::<serde_json::Value>(text) else {
        let is_words = !text.is_empty() && !text.starts_with(['<', '{', '[']);
        return is_words.then(|| text.to_owned());
    };
    let places = ["/error/message", "/error", "/message", "/detail"];
    let found = places
        .iter()
        .find_map(|at| json.pointer(at)?.as_str().map(str::to_owned));
    found.or_else(|| json.as_str().map(str::to_owned))
}

/// Seconds, as rate limits give them; a date is passed over.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers
        .get("retry-after")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The address that paths are put behind, and its host; or what is wrong with `url`. Never repeats
/// `url`, which may hold a password.
pub(super) fn address(url: &str) -> Result<(String, String), Error> {
    let refused = |reason: &str| {
        Err(Error::Setting {
            setting: "embedder_url",
            reason: reason.to_owned(),
        })
    };
    let url = url.trim().trim_end_matches('/');
    if url.is_empty() {
        return refused("is missing; give an address such as `http://127.0.0.1:8080`");
    }
    if url.contains(['?', '#']) {
        return refused("must not have a `?` or `#`: paths are put behind it");
    }
    let base = url.strip_suffix("/v1").unwrap_or(url).trim_end_matches('/');
    let Ok(uri) = base.parse::<Uri>() else {
        return refused("is no address; give one such as `http://127.0.0.1:8080`");
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return refused("must begin with `http://` or `https://`");
    }
    if uri
        .authority()
        .is_some_and(|part| part.as_str().contains('@'))
    {
        return refused(
            "must not hold a name or a password; give a key with `PKM_EMBEDDER_KEY` or \
             `embedder_key_file`",
        );
    }
    match uri.host() {
        Some(host) if !host.is_empty() => Ok((base.to_owned(), host.to_owned())),
        _ => refused("names no host"),
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_with_and_without_v1() {
        for (url, base) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            (" http://farm:80/ ", "http://farm:80"),
            ("https://api.example/v1", "https://api.example"),
            ("https://api.example/v1/", "https://api.example"),
            ("https://x.example/openai/v1", "https://x.example/openai"),
            ("http://[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(address(url).unwrap().0, base, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for url in [
            "",
            "farm",
            "farm:80",
            "ftp://farm",
            "http://",
            "http://me:secret@farm",
            "http://farm/?secret=1",
            "http://farm/#secret",
        ] {
            let reason = address(url).unwrap_err().to_string();
            assert!(!reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn only_words_of_an_error_are_passed_on() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(message(body.as_bytes()).as_deref(), expected, "{body}");
        };
        check(r#"{"error": {"message": "too long"}}"#, Some("too long"));
        check(
            r#"{"error": "overloaded", "error_type": "x"}"#,
            Some("overloaded"),
        );
        check(r#"{"detail": "no"}"#, Some("no"));
        check(r#"{"detail": [{"input": "my diary"}]}"#, None);
        check("<html>Bad Gateway</html>", None);
        check("upstream is gone", Some("upstream is gone"));
        check("", None);
    }

    #[test]
    fn a_key_is_hidden_wherever_a_server_repeats_it() {
        let key = ApiKey::new(" s3cret\n");
        assert!(!format!("{key:?}").contains("s3cret"));
        let server = Server::new("http://127.0.0.1:1", Some(key), 1).unwrap();
        assert_eq!(server.plain("bad\n key s3cret!"), "bad key [key]!");
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "[2001:db8::1]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
