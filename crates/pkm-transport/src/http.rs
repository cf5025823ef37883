//! Streamable HTTP: one endpoint, `/mcp`, for both eras of the protocol.
//!
//! rmcp answers the requests that get as far as it. Before it stand, in this order: who may ask
//! ([`access`](self)), whether there is room, how long and how fast a body may be, whether it is a
//! message at all, and the rules of sessions.

mod access;
mod answer;
mod front;
mod sessions;
mod tapped;

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::{any, get},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use rmcp::ServerHandler;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

pub use self::access::Token;
use self::{access::Access, front::Front};
use crate::{Error, MAX_MESSAGE_BYTES, Tap, defect};

/// How long connections get to close after their last answer.
const CLOSING: Duration = Duration::from_secs(2);
/// How long to wait after the operating system refused a connection, for want of file handles say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How often to look whether the last request is answered.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// Says whether the server can do its work, or why it cannot; it may block.
pub type Ready = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// How to serve over HTTP.
#[derive(Clone)]
pub struct HttpOptions {
    /// The longest body that is taken; a longer one is refused with 413.
    pub max_body_bytes: usize,
    /// How long the head of a request, and then its body, may take to arrive.
    pub read_timeout: Duration,
    /// How long a client may take nothing of an answer before its connection is closed.
    pub write_timeout: Duration,
    /// The most sessions of clients that begin with a handshake. One more displaces the session
    /// that was idle longest; where none is idle it is refused with 429.
    pub max_sessions: usize,
    /// How long a session may be idle before it ends. One that answers a request or has a stream
    /// open is not idle.
    pub session_idle: Duration,
    /// The most requests that are answered at the same time; one more is refused with 429.
    pub max_in_flight: usize,
    /// The most open connections; one more waits.
    pub max_connections: usize,
    /// How long requests get to finish when the server is asked to stop.
    pub drain: Duration,
    /// The names, besides loopback and the address itself, under which clients may reach the
    /// server (`Host`), each with or without a port. With a token and no names, any name will do.
    pub allowed_hosts: Vec<String>,
    /// The web origins, such as `http://localhost:6274`, that may ask from a browser.
    pub allowed_origins: Vec<String>,
    /// What each request must bring along as its bearer token.
    pub token: Option<Token>,
    /// What `/readyz` asks.
    pub ready: Option<Ready>,
    /// Who listens.
    pub tap: Option<Arc<dyn Tap>>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            max_body_bytes: MAX_MESSAGE_BYTES,
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            max_sessions: 256,
            session_idle: Duration::from_secs(1_800),
            max_in_flight: 256,
            max_connections: 1_024,
            drain: Duration::from_secs(5),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            token: None,
            ready: None,
            tap: None,
        }
    }
}

/// Refuses an address that other machines can reach while no token keeps them out.
fn keep_closed(address: SocketAddr, options: &HttpOptions) -> Result<(), Error> {
    if address.ip().is_loopback() || options.token.is_some() {
        return Ok(());
    }
    Err(Error::Exposed { address })
}

/// Takes an address.
///
/// # Errors
///
/// [`Error::Exposed`] for one that other machines can reach while no token keeps them out,
/// [`Error::System`] where the operating system refuses it.
pub async fn bind(address: SocketAddr, options: &HttpOptions) -> Result<TcpListener, Error> {
    keep_closed(address, options)?;
    TcpListener::bind(address)
        .await
        .map_err(|source| Error::System {
            doing: "listening for connections",
            source,
        })
}

/// Serves clients that connect to `listener` until `stop` is cancelled: then it takes no new
/// connections, lets requests finish for [`HttpOptions::drain`], and cancels what is left.
///
/// # Errors
///
/// [`Error::Exposed`], as [`bind`].
pub async fn serve<H>(
    handler: H,
    listener: TcpListener,
    options: HttpOptions,
    stop: CancellationToken,
) -> Result<(), Error>
where
    H: ServerHandler + Clone,
{
    let address = listener.local_addr().map_err(|source| Error::System {
        doing: "asking for the address of the socket",
        source,
    })?;
    keep_closed(address, &options)?;
    let cancel = CancellationToken::new();
    let _cancel = cancel.clone().drop_guard();
    let front = Arc::new(Front::new(handler, options.clone(), cancel.clone()));
    let reaper = tokio::spawn(Arc::clone(&front.sessions).reap());
    let app = Router::new()
        .route("/mcp", any(front::answer::<H>))
        .route("/mcp/", any(front::answer::<H>))
        .fallback(async || (StatusCode::NOT_FOUND, "MCP is served at /mcp"))
        .layer(middleware::from_fn_with_state(
            Arc::new(Access::new(&options, address)),
            access::check,
        ))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready).with_state(options.ready.clone()))
        .with_state(Arc::clone(&front));

    let connections = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(options.max_connections));
    loop {
        let permit = tokio::select! {
            () = stop.cancelled() => break,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let connection = connections.watch(connection(stream, app.clone(), &options));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
            drop(permit);
        });
    }
    drop(listener);
    let closed = connections.shutdown();
    tokio::pin!(closed);
    let drained = async {
        while front.in_flight.load(Ordering::Acquire) > 0 {
            time::sleep(DRAIN_POLL).await;
        }
    };
    let is_closed = tokio::select! {
        () = &mut closed => true,
        _ = time::timeout(options.drain, drained) => false,
    };
    cancel.cancel();
    if !is_closed && time::timeout(CLOSING, closed).await.is_err() {
        tracing::info!("clients that do not read keep their connections until the end");
    }
    reaper.abort();
    Ok(())
}

type Stream = TokioIo<Pin<Box<TimeoutStream<TcpStream>>>>;

fn connection(
    stream: TcpStream,
    app: Router,
    options: &HttpOptions,
) -> hyper::server::conn::http1::Connection<Stream, TowerToHyperService<Router>> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small answers of a connection may be late");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(options.write_timeout));
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.read_timeout)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(app),
        )
}

async fn ready(State(ready): State<Option<Ready>>) -> Response {
    let Some(ready) = ready else {
        return "ready".into_response();
    };
    match tokio::task::spawn_blocking(move || ready()).await {
        Ok(Ok(())) => "ready".into_response(),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, reason).into_response(),
        Err(error) => {
            defect("asking whether the server is ready", &error);
            (StatusCode::SERVICE_UNAVAILABLE, "internal error").into_response()
        }
    }
}
