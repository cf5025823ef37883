//! Work that may block or panic, so that neither holds up or kills what else is asked.

use pkm_transport::panic_words;

use crate::wire::Fault;

/// Runs what may block on a thread made for that.
pub(crate) async fn blocking<T: Send + 'static>(
    doing: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| match error.try_into_panic() {
            Ok(panic) => Fault::defect(doing, &panic_words(panic.as_ref())),
            Err(error) => Fault::defect(doing, &error),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_on_a_blocking_thread_becomes_a_defect() {
        let fault = blocking::<()>("a test", || panic!("secret"))
            .await
            .unwrap_err();
        assert!(matches!(fault, Fault::Defect(_)));
    }
}
