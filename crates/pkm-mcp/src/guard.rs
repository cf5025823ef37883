//! Work that may block or panic, so that neither holds up or kills what else is asked.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rmcp::ErrorData;

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

/// A panic must not leave a request without its answer.
pub(crate) async fn guarded<T>(
    doing: &str,
    answer: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Fault::defect(doing, &panic_words(panic.as_ref())).into_protocol_error()),
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", words.unwrap_or("without words"))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error_with_a_reference() {
        let error = guarded::<()>("a test", async { panic!("secret") })
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
        assert!(!error.message.contains("secret"));
        assert!(error.data.unwrap()["reference"].is_string());
    }

    #[tokio::test]
    async fn a_panic_on_a_blocking_thread_becomes_a_defect() {
        let fault = blocking::<()>("a test", || panic!("secret"))
            .await
            .unwrap_err();
        assert!(matches!(fault, Fault::Defect { .. }));
    }
}
