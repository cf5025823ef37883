//! The end of a call, wherever it comes to it.

use std::{sync::Arc, time::Duration};

/// The library forgets a call a moment after its handler has ended.
const FORGETTING: Duration = Duration::from_millis(100);

/// Does something when the call that it was given to, as an extension of the request, has ended:
/// by an answer, by a panic, or with nobody left to hear of it.
#[derive(Clone)]
pub(crate) struct CallEnd {
    _end: Arc<End>,
}

struct End(Option<Box<dyn FnOnce() + Send + Sync>>);

impl CallEnd {
    pub(crate) fn new(then: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self {
            _end: Arc::new(End(Some(Box::new(then)))),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(then) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    tokio::time::sleep(FORGETTING).await;
                    then();
                });
            }
            // Nothing runs any more.
            Err(_) => then(),
        }
    }
}
