//! A stand-in for a server that embeds, with either API.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::web::{Request, Web};

/// How it is spoken to; the other API's paths are not there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Api {
    OpenAi,
    Tei,
}

/// A request for vectors.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) texts: Vec<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

/// What comes back.
pub(crate) enum Reply {
    /// As it should be; with the API of OpenAI the last vector first.
    Vectors(Vec<Vec<f32>>),
    /// Success, with this body.
    Body(Vec<u8>),
    /// A status with further headers, each with its line end, and a body.
    Status(u16, &'static str, String),
    /// The beginning of an answer, and then the connection ends.
    Broken,
    /// Numbers without end.
    Endless,
    /// Nothing, as long as the client waits.
    Silence,
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// The server, which can go and come back.
pub(crate) struct Farm {
    web: Option<Web>,
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    api: Api,
    script: Mutex<Arc<Script>>,
    info: Mutex<Value>,
    asked: Mutex<Vec<Asked>>,
}

impl Farm {
    pub(crate) fn start(
        api: Api,
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Farm {
        let state = Arc::new(State {
            api,
            script: Mutex::new(Arc::new(script)),
            info: Mutex::new(json!({
                "model_id": "stand-in",
                "model_sha": "0123456789abcdef",
                "model_dtype": "float16",
                "model_type": {"embedding": {"pooling": "mean"}},
                "max_concurrent_requests": 512,
                "max_input_length": 512,
                "max_batch_tokens": 16384,
                "max_client_batch_size": 32,
                "version": "1.8.0",
            })),
            asked: Mutex::new(Vec::new()),
        });
        let web = serve(&state, None);
        Farm {
            address: web.address(),
            web: Some(web),
            state,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it answers so.
    pub(crate) fn set(&self, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
        *self.state.script.lock().expect("no panic holding it") = Arc::new(script);
    }

    pub(crate) fn set_info(&self, name: &str, value: Value) {
        self.state.info.lock().expect("no panic holding it")[name] = value;
    }

    /// Every request for vectors so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let asked = self.state.asked.lock().expect("no panic holding it");
        asked.clone()
    }

    pub(crate) fn kill(&mut self) {
        self.web = None;
    }

    /// At the same address.
    pub(crate) fn revive(&mut self) {
        self.web = Some(serve(&self.state, Some(self.address)));
    }
}

fn serve(state: &Arc<State>, at: Option<SocketAddr>) -> Web {
    let state = Arc::clone(state);
    Web::start(
        at,
        Arc::new(move |request, connection| answer(&state, request, connection)),
    )
}

fn answer(state: &State, request: &Request, to: &mut TcpStream) -> Option<()> {
    match (state.api, request.method.as_str(), request.path.as_str()) {
        (Api::OpenAi, "POST", "/v1/embeddings") => embed(state, request, "input", to),
        (Api::Tei, "POST", "/embed") => embed(state, request, "inputs", to),
        (Api::Tei, "GET", "/info") => {
            let info = state.info.lock().expect("no panic holding it").to_string();
            respond(to, "200 OK", "", info.as_bytes())
        }
        _ => respond(to, "404 Not Found", "", b"no such path"),
    }
}

fn embed(state: &State, request: &Request, texts: &str, to: &mut TcpStream) -> Option<()> {
    let body: Value = serde_json::from_slice(&request.body).ok()?;
    let asked = Asked {
        texts: serde_json::from_value(body[texts].clone()).ok()?,
        authorization: request.headers.get("authorization").cloned(),
        body,
    };
    let script = Arc::clone(&state.script.lock().expect("no panic holding it"));
    let all = &state.asked;
    all.lock().expect("no panic holding it").push(asked.clone());
    match script(&asked) {
        Reply::Vectors(vectors) => {
            let body = shape(state.api, &asked, &vectors).to_string();
            respond(to, "200 OK", "", body.as_bytes())
        }
        Reply::Body(body) => respond(to, "200 OK", "", &body),
        Reply::Status(status, headers, body) => {
            respond(to, &format!("{status} Said So"), headers, body.as_bytes())
        }
        Reply::Broken => {
            write!(
                to,
                "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{{\"data\""
            )
            .ok()?;
            None
        }
        Reply::Endless => {
            write!(to, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[[0.5").ok()?;
            while to.write_all(&b",0.5".repeat(1_000)).is_ok() {}
            None
        }
        Reply::Silence => {
            let _ = std::io::copy(to, &mut std::io::sink());
            None
        }
    }
}

fn shape(api: Api, asked: &Asked, vectors: &[Vec<f32>]) -> Value {
    match api {
        Api::OpenAi => {
            let data = vectors.iter().enumerate().rev();
            let data: Vec<Value> = data
                .map(|(i, v)| json!({"object": "embedding", "index": i, "embedding": v}))
                .collect();
            let n_words: usize = asked.texts.iter().map(|t| t.split(' ').count()).sum();
            json!({
                "object": "list",
                "data": data,
                "model": asked.body["model"],
                "usage": {"prompt_tokens": n_words, "total_tokens": n_words},
            })
        }
        Api::Tei => json!(vectors),
    }
}

fn respond(to: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> Option<()> {
    write!(
        to,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .ok()?;
    to.write_all(body).ok()
}
