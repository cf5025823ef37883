//! Being asked to stop.

use tokio_util::sync::CancellationToken;

use crate::Error;

/// Cancels `stop` when the process is asked to stop (SIGTERM, SIGINT).
///
/// # Errors
///
/// [`Error::System`] where signals cannot be listened for.
pub fn stop_on_signal(stop: CancellationToken) -> Result<impl Future<Output = ()> + Send, Error> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|source| Error::System {
        doing: "listening for SIGTERM",
        source,
    })?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
        tracing::info!("asked to stop");
        stop.cancel();
    })
}
