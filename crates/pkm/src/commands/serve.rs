//! `pkm serve`

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use jiff::Timestamp;
use pkm_engine::{Engine, ModelState};
use pkm_inspect::{Redaction, TraceLog};
use pkm_mcp::Server;
use pkm_transport::http::{self, HttpOptions, Token};
use pkm_transport::{Direction, StdioOptions, Tap};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::out;
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Serve over HTTP at this address instead, such as `127.0.0.1:7433`; clients use the path
    /// `/mcp`. Port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// File that holds the token which clients must send (`Authorization: Bearer …`); required for
    /// an address that other machines can reach
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Further name under which clients may reach the server; with a token and no names, any will do
    #[arg(long = "allow-host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    /// Web page that may ask from a browser, by its origin such as `http://localhost:6274`
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    origins: Vec<String>,
    /// Write each message to this file, for `pkm inspect`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write texts of notes to the trace, too, and not only their lengths
    #[arg(long, requires = "trace")]
    keep_text: bool,
}

/// Answers clients until they close the input, or until the process is asked to stop.
pub(crate) fn run(args: Serve, config: &Config) -> Result<()> {
    let tap = args
        .trace
        .as_deref()
        .map(|file| trace(file, args.keep_text))
        .transpose()?;
    let http = match &args.http {
        Some(address) => Some((*address, http_options(&args)?)),
        None => None,
    };
    let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(engine.clone(), http, tap));
    // A read of stdin cannot be interrupted: do not wait for its thread.
    runtime.shutdown_background();
    drop(engine);
    served
}

async fn serve(
    engine: Engine,
    http: Option<(SocketAddr, HttpOptions)>,
    tap: Option<Arc<dyn Tap>>,
) -> Result<()> {
    let stopped = |error| Failure::new("the server stopped").source(error);
    let stop = CancellationToken::new();
    tokio::spawn(pkm_transport::stop_on_signal(stop.clone()).map_err(stopped)?);
    let server = Server::new(engine.clone()).with_stop(stop.clone());
    let Some((address, mut options)) = http else {
        let options = StdioOptions {
            tap,
            ..StdioOptions::default()
        };
        return Ok(pkm_transport::serve_stdio(server, options, stop)
            .await
            .map_err(stopped)?);
    };
    options.tap = tap;
    options.ready = Some(Arc::new(move || ready(&engine)));
    let listener = http::bind(address, &options).await.map_err(|error| {
        let hint = match &error {
            pkm_transport::Error::Exposed { .. } => {
                "give a token with `--token-file`, or listen on 127.0.0.1"
            }
            _ => "is another server listening there? Port 0 takes any free one",
        };
        Failure::new(format!("cannot serve at {address}"))
            .source(error)
            .hint(hint)
    })?;
    out::notice(&format!(
        "listening on http://{}/mcp",
        listener.local_addr()?
    ));
    Ok(http::serve(server, listener, options, stop)
        .await
        .map_err(stopped)?)
}

/// The notes can be read, and search by meaning is there if it ever will be.
fn ready(engine: &Engine) -> Result<(), String> {
    let status = engine.status().map_err(|error| error.to_string())?;
    match status.model.state {
        ModelState::Loading => Err("the model is loading".to_owned()),
        _ => Ok(()),
    }
}

fn http_options(args: &Serve) -> Result<HttpOptions> {
    Ok(HttpOptions {
        token: args.token_file.as_deref().map(read_token).transpose()?,
        allowed_hosts: args.hosts.clone(),
        allowed_origins: args.origins.clone(),
        ..HttpOptions::default()
    })
}

fn read_token(path: &Path) -> Result<Token> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read the token in {}", path.display())).source(error)
    })?;
    warn_if_others_can_read(path);
    let token = Token::new(&text).ok_or_else(|| {
        Failure::new(format!(
            "{} holds no token: at least {} visible ASCII characters are needed",
            path.display(),
            Token::MIN_CHARS
        ))
        .hint("make one with `openssl rand -hex 32`")
    })?;
    Ok(token)
}

/// Writes what goes over the wire to a log.
struct Trace {
    log: TraceLog,
    /// Several processes may write to one file.
    process: u32,
    has_failed: AtomicBool,
}

impl Tap for Trace {
    fn message(&self, direction: Direction, channel: &str, bytes: &[u8]) {
        let direction = match direction {
            Direction::ToServer => pkm_inspect::Direction::ToServer,
            Direction::ToClient => pkm_inspect::Direction::ToClient,
        };
        let channel = format!("{}/{channel}", self.process);
        if let Err(error) = self
            .log
            .record(Timestamp::now(), direction, &channel, bytes)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "the trace cannot be written; serving goes on");
        }
    }
}

fn trace(file: &Path, with_text: bool) -> Result<Arc<dyn Tap>> {
    let redaction = if with_text {
        Redaction::None
    } else {
        Redaction::NoteText
    };
    let log = TraceLog::create(file, redaction).map_err(|error| {
        Failure::new(format!("cannot write the trace to {}", file.display())).source(error)
    })?;
    Ok(Arc::new(Trace {
        log,
        process: std::process::id(),
        has_failed: AtomicBool::new(false),
    }))
}

#[cfg(unix)]
fn warn_if_others_can_read(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().mode() & 0o077 != 0
    {
        tracing::warn!(
            "other users of this machine can read the token in {}",
            path.display()
        );
    }
}

#[cfg(not(unix))]
fn warn_if_others_can_read(_: &Path) {}
