//! Requests that are being answered, and the batches they came in.

use std::collections::HashMap;

use rmcp::model::RequestId;

/// A batch of requests, whose answers go out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchKey(u64);

#[derive(Debug, Default)]
struct Batch {
    n_waiting: usize,
    answers: Vec<String>,
    /// All of its requests are known.
    is_sealed: bool,
}

/// What is in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    requests: HashMap<RequestId, Option<BatchKey>>,
    batches: HashMap<BatchKey, Batch>,
    n_batches: u64,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Notes a request down; false where its id is in use.
    pub(super) fn begin(&mut self, id: &RequestId, batch: Option<BatchKey>) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        self.requests.insert(id.clone(), batch);
        if let Some(batch) = batch.and_then(|key| self.batches.get_mut(&key)) {
            batch.n_waiting += 1;
        }
        true
    }

    /// The line to write now for an answer: itself, its whole batch, or none yet.
    pub(super) fn answer(&mut self, id: &RequestId, line: String) -> Option<String> {
        match self.requests.remove(id).flatten() {
            None => Some(line),
            Some(key) => {
                let batch = self.batches.get_mut(&key)?;
                batch.n_waiting -= 1;
                batch.answers.push(line);
                self.finished(key)
            }
        }
    }

    /// A request that gets no answer; the line to write if its batch waited for it alone.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<String> {
        let key = self.requests.remove(id).flatten()?;
        self.batches.get_mut(&key)?.n_waiting -= 1;
        self.finished(key)
    }

    pub(super) fn open_batch(&mut self) -> BatchKey {
        let key = BatchKey(self.n_batches);
        self.n_batches += 1;
        self.batches.insert(key, Batch::default());
        key
    }

    /// An answer to a member of a batch that is no request.
    pub(super) fn refuse_member(&mut self, key: BatchKey, line: String) {
        if let Some(batch) = self.batches.get_mut(&key) {
            batch.answers.push(line);
        }
    }

    /// All members are known; the line to write if none of them is waited for.
    pub(super) fn seal_batch(&mut self, key: BatchKey) -> Option<String> {
        self.batches.get_mut(&key)?.is_sealed = true;
        self.finished(key)
    }

    fn finished(&mut self, key: BatchKey) -> Option<String> {
        let batch = self.batches.get(&key)?;
        if !batch.is_sealed || batch.n_waiting > 0 {
            return None;
        }
        let batch = self.batches.remove(&key)?;
        (!batch.answers.is_empty()).then(|| format!("[{}]", batch.answers.join(",")))
    }
}
