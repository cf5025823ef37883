//! Ctrl-C during long work: the first asks it to stop cleanly, the second ends the process.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes over Ctrl-C for the rest of the process.
    pub(crate) fn install() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Registered here, not on the thread, so that no Ctrl-C is missed once this returns.
        let signals = {
            let _guard = runtime.enter();
            Signals::register()?
        };
        std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let mut signals = signals;
                    signals.next().await;
                    seen.store(true, Ordering::Relaxed);
                    crate::out::notice("stopping; once more ends at once");
                    signals.next().await;
                    std::process::exit(1);
                });
            })?;
        Ok(Self(flag))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For callbacks that may end the work.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_set() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn register() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "registering can fail where there are signals"
    )]
    fn register() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
