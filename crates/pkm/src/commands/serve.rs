//! `pkm serve`

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use jiff::Timestamp;
use pkm_engine::{Engine, ModelState};
use pkm_inspect::{Redaction, TraceLog};
use pkm_mcp::{Server, ServerOptions};
use pkm_transport::http::{self, HttpOptions, Token};
use pkm_transport::{Direction, StdioOptions, Tap};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Kind};
use crate::out;
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

/// Where clients look for the server, if nothing else is said.
const DEFAULT_PORT: u16 = 7433;

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Serve over HTTP at this address instead, such as `127.0.0.1:7433` or just `7433`; clients
    /// use the path `/mcp`. Port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,
    /// File that holds the token which clients must send (`Authorization: Bearer …`); required for
    /// an address that other machines can reach
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Further name under which clients may reach the server; with a token and no names, any will do
    #[arg(long = "allow-host", value_name = "NAME", requires = "http", value_parser = host)]
    hosts: Vec<String>,
    /// Web page that may ask from a browser, by its origin such as `http://localhost:6274`
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http", value_parser = origin)]
    origins: Vec<String>,
    /// Serve `search` and `fetch` too, which connectors of chat applications look for
    /// [env: PKM_CONNECTOR_TOOLS]
    #[arg(long)]
    connector_tools: bool,
    /// Write each message to this file, for `pkm inspect`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write texts of notes to the trace, too, and not only their lengths
    #[arg(long, requires = "trace")]
    keep_text: bool,
}

/// Answers clients until they close the input, or until the process is asked to stop.
pub(crate) fn run(args: &Serve, config: &Config) -> Result<()> {
    let tap = args
        .trace
        .as_deref()
        .map(|file| trace(file, args.keep_text))
        .transpose()?;
    let http = match &args.http {
        Some(address) => Some((*address, http_options(args)?)),
        None => None,
    };
    if config.embedder.kind.value == Kind::Http {
        tracing::warn!(
            url = config.embedder.http.url,
            "texts of notes and questions leave this program for the embedding server"
        );
    }
    let engine = wiring::open(config, Turn::Take, ModelUse::Load)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let server = ServerOptions {
        connector_tools: args.connector_tools || config.connector_tools.value,
    };
    let served = runtime.block_on(serve(engine.clone(), server, http, tap));
    // A read of stdin cannot be interrupted: do not wait for its thread.
    runtime.shutdown_background();
    drop(engine);
    served
}

async fn serve(
    engine: Engine,
    server: ServerOptions,
    http: Option<(SocketAddr, HttpOptions)>,
    tap: Option<Arc<dyn Tap>>,
) -> Result<()> {
    let stopped = |error| Failure::new("the server stopped").source(error);
    let stop = CancellationToken::new();
    tokio::spawn(pkm_transport::stop_on_signal(stop.clone()).map_err(stopped)?);
    let ending = stop.child_token();
    let server = Server::new(engine.clone(), server).with_stop(ending.clone());
    let Some((address, mut options)) = http else {
        let options = StdioOptions {
            tap,
            input_ended: ending,
            ..StdioOptions::default()
        };
        return Ok(pkm_transport::serve_stdio(server, options, stop)
            .await
            .map_err(stopped)?);
    };
    options.tap = tap;
    options.ready = Some(Arc::new(move || ready(&engine)));
    let listener = http::bind(address, &options).await.map_err(|error| {
        let hint = bind_hint(&error);
        let failure = Failure::new(format!("cannot serve at {address}")).source(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    out::notice(&format!(
        "listening on http://{}/mcp",
        listener.local_addr()?
    ));
    Ok(http::serve(server, listener, options, stop)
        .await
        .map_err(stopped)?)
}

fn bind_hint(error: &pkm_transport::Error) -> Option<&'static str> {
    let kind = match error {
        pkm_transport::Error::Exposed { .. } => {
            return Some("give a token with `--token-file`, or listen on 127.0.0.1");
        }
        pkm_transport::Error::System { source, .. } => source.kind(),
        pkm_transport::Error::Handshake { .. } | pkm_transport::Error::Loop { .. } => return None,
    };
    match kind {
        io::ErrorKind::AddrInUse => Some("another server listens there; port 0 takes any free one"),
        io::ErrorKind::AddrNotAvailable => Some("this machine has no such address"),
        io::ErrorKind::PermissionDenied => Some("try a port above 1023"),
        _ => None,
    }
}

/// `127.0.0.1:7433`, `[::1]:7433`, `localhost:7433`, and each half of them.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, DEFAULT_PORT));
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port = if text == "localhost" {
        Some(DEFAULT_PORT)
    } else {
        port.parse().ok()
    };
    match (host, port) {
        ("" | "localhost", Some(port)) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        _ => Err("must be an IP address, a port, or both, such as `127.0.0.1:7433`".to_owned()),
    }
}

/// A name with or without a port.
fn host(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['/', '@', '*', ' ']) {
        return Err("must be a name, with or without a port, such as `notes.example`".to_owned());
    }
    Ok(text.to_owned())
}

/// A scheme and a host, as a browser writes them.
fn origin(text: &str) -> Result<String, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    match text.split_once("://") {
        Some(("http" | "https", name)) => host(name).map(|_| text.to_owned()),
        _ => Err(String::new()),
    }
    .map_err(|_| "must be a scheme and a name, such as `http://localhost:6274`".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_half_said() {
        for (text, wanted) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("7433", "127.0.0.1:7433"),
            (":0", "127.0.0.1:0"),
            ("localhost", "127.0.0.1:7433"),
            ("localhost:80", "127.0.0.1:80"),
            ("0.0.0.0", "0.0.0.0:7433"),
            ("::1", "[::1]:7433"),
            ("[::1]", "[::1]:7433"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(address(text), Ok(wanted.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "notes.example:80",
            "70000",
            "127.0.0.1:x",
            "http://127.0.0.1",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_name() {
        assert_eq!(
            origin("http://localhost:6274/"),
            Ok("http://localhost:6274".to_owned())
        );
        for text in [
            "*",
            "evil.example",
            "http://",
            "ftp://x",
            "http://x/y",
            "http://*",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
        assert!(host("http://x/").is_err() && host("x:80").is_ok());
    }
}
