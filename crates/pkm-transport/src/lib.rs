//! MCP over stdio and HTTP with no request left unanswered.
//!
//! rmcp carries the protocol; what it drops, misreads or leaves to its users is put right here for
//! any [`ServerHandler`]: bytes that are no message, parameters of a wrong type, panics, ids in
//! use, batches, early notifications, and over HTTP who may ask and for how much.

mod call;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guarded;
pub mod http;
mod message;
mod signal;
mod stdio;
mod tap;

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer, ServerHandler,
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
    transport::Transport,
};
use tokio_util::sync::CancellationToken;

use self::guarded::Guarded;
pub use self::{
    guarded::{defect, panic_words},
    signal::stop_on_signal,
    tap::{Direction, Tap},
};

/// The longest message that is taken where nothing else is said: the largest note and its quoting
/// fit.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How long the server gets to end after it was asked to, or after its input has ended.
const STOPPING: Duration = Duration::from_secs(7);

/// How to serve over standard input and output.
#[derive(Clone)]
pub struct StdioOptions {
    /// The longest message that is taken from a client; a longer one is refused.
    pub max_message_bytes: usize,
    /// Who listens.
    pub tap: Option<Arc<dyn Tap>>,
    /// Cancelled when the input ends: requests that are never over, such as
    /// `subscriptions/listen`, should end then, since all answers are waited for.
    pub input_ended: CancellationToken,
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self {
            max_message_bytes: MAX_MESSAGE_BYTES,
            tap: None,
            input_ended: CancellationToken::new(),
        }
    }
}

/// Why serving ended badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client began with something that is no handshake, or the pipe to it broke meanwhile.
    #[error("the handshake with the client failed")]
    Handshake {
        /// What the protocol library says.
        #[source]
        source: Box<ServerInitializeError>,
    },
    /// The task that answers requests died.
    #[error("the server's loop ended unexpectedly")]
    Loop {
        /// How it ended.
        #[source]
        source: tokio::task::JoinError,
    },
    /// The address is open to other machines, and nothing would keep them out.
    #[error("{address} can be reached from other machines, and no token is set")]
    Exposed {
        /// Where the server was to listen.
        address: std::net::SocketAddr,
    },
    /// A thread, a socket or a signal could not be had from the operating system.
    #[error("{doing} failed")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
}

/// Serves one client over standard input and output until the input ends or `stop` is cancelled.
/// An input that ends before the handshake is a normal end.
///
/// Nothing else may write to standard output meanwhile. A write to a client that does not read
/// may still be blocked when this returns: end the runtime with `shutdown_background`.
///
/// # Errors
///
/// See [`Error`].
pub async fn serve_stdio(
    handler: impl ServerHandler,
    options: StdioOptions,
    stop: CancellationToken,
) -> Result<(), Error> {
    let ended = options.input_ended.clone();
    serve(handler, stdio::standard_streams(options)?, stop, ended).await
}

/// Serves one client over any pair of blocking input and asynchronous output, as [`serve_stdio`].
///
/// # Errors
///
/// See [`Error`].
pub async fn serve_streams(
    handler: impl ServerHandler,
    input: impl std::io::BufRead + Send + 'static,
    output: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    options: StdioOptions,
    stop: CancellationToken,
) -> Result<(), Error> {
    let ended = options.input_ended.clone();
    let lines = stdio::Lines::start(input, output, options)?;
    serve(handler, lines, stop, ended).await
}

async fn serve<T>(
    handler: impl ServerHandler,
    transport: T,
    stop: CancellationToken,
    input_ended: CancellationToken,
) -> Result<(), Error>
where
    T: Transport<RoleServer> + 'static,
{
    let stopped = stop.clone();
    let running = match serve_server_with_ct(Guarded(handler), transport, stop).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(source) => {
            return Err(Error::Handshake {
                source: Box::new(source),
            });
        }
    };
    // A client that does not read can keep the library's loop in a write.
    let given_up = async {
        tokio::select! {
            () = stopped.cancelled() => {}
            () = input_ended.cancelled() => {}
        }
        tokio::time::sleep(STOPPING).await;
    };
    let ended = tokio::select! {
        ended = running.waiting() => ended,
        () = given_up => return Ok(()),
    };
    match ended {
        Ok(QuitReason::JoinError(source)) | Err(source) => Err(Error::Loop { source }),
        Ok(_) => Ok(()),
    }
}
