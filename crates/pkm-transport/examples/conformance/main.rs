//! A server for the protocol's conformance suite: this crate's HTTP transport under the fixtures that
//! the suite asks for.
//!
//! Listens on a free port of the loopback, prints the port as its first line on stdout, and ends with
//! its standard input or on SIGTERM. With `--bare` the transport is rmcp's own, so that a fault of a
//! fixture can be told from a fault of ours.

#![expect(
    deprecated,
    reason = "the suite still asks for logging, sampling and roots"
)]

mod content;
mod questions;
mod server;
mod tasks;
mod tools;

use std::{error::Error, io::Write};

use axum::Router;
use pkm_transport::http::{self, HttpOptions};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::server::Fixtures;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    writeln!(std::io::stdout(), "{port}")?;
    let stop = CancellationToken::new();
    stop_with_the_caller(&stop)?;
    if std::env::args().any(|argument| argument == "--bare") {
        bare(listener, stop).await?;
    } else {
        http::serve(Fixtures::new(), listener, HttpOptions::default(), stop).await?;
    }
    Ok(())
}

/// Serves the fixtures with rmcp's transport as it comes.
async fn bare(listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
    let fixtures = Fixtures::new();
    let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.child_token());
    let service = StreamableHttpService::new(
        move || Ok(fixtures.clone()),
        LocalSessionManager::default().into(),
        config,
    );
    axum::serve(listener, Router::new().route_service("/mcp", service))
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

/// Cancels `stop` on SIGTERM, or when whoever started this process is gone and standard input ends.
fn stop_with_the_caller(stop: &CancellationToken) -> std::io::Result<()> {
    let mut asked = signal(SignalKind::terminate())?;
    let on_signal = stop.clone();
    tokio::spawn(async move {
        asked.recv().await;
        on_signal.cancel();
    });
    // A thread of its own: the runtime would not end before a read of standard input that it began.
    let on_end = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        on_end.cancel();
    });
    Ok(())
}
