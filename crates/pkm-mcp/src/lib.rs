//! The engine spoken in MCP: tools, resources and prompts over a transport.
//!
//! [`Server`] answers requests and knows nothing of the transport; [`serve_stdio`] is the one
//! transport so far.

mod check;
mod guard;
mod progress;
mod prompts;
mod resources;
mod schema;
mod server;
mod stdio;
mod text;
mod tools;
mod wire;

use pkm_engine::Engine;
use rmcp::{
    RoleServer,
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
    transport::Transport,
};
use tokio_util::sync::CancellationToken;

pub use self::server::Server;

/// How to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// The longest message that is taken from a client; a longer one is refused.
    pub max_message_bytes: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        // The largest note and its quoting fit.
        Self {
            max_message_bytes: 64 << 20,
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
    /// A thread or a signal could not be had from the operating system.
    #[error("{doing} failed")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
}

/// Serves one client over standard input and output until the input ends, or until the process is
/// asked to stop (SIGTERM, SIGINT). An input that ends before the handshake is a normal end.
///
/// Nothing else may write to standard output meanwhile. A write to a client that does not read
/// may still be blocked when this returns: end the runtime with `shutdown_background`.
///
/// # Errors
///
/// See [`Error`].
pub async fn serve_stdio(engine: Engine, options: ServeOptions) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stdio::stop_on_signal(stop.clone())?);
    let transport = stdio::standard_streams(options.max_message_bytes)?;
    let outcome = serve(Server::new(engine), transport, stop).await;
    signals.abort();
    outcome
}

async fn serve<T>(server: Server, transport: T, stop: CancellationToken) -> Result<(), Error>
where
    T: Transport<RoleServer> + 'static,
{
    let running = match serve_server_with_ct(server, transport, stop).await {
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
    match running.waiting().await {
        Ok(QuitReason::JoinError(source)) | Err(source) => Err(Error::Loop { source }),
        Ok(_) => Ok(()),
    }
}
