//! Requests that are being answered, and the batches they came in.

use std::collections::HashMap;

use rmcp::model::RequestId;

/// A batch of requests, whose answers go out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchKey(u64);

/// Which of the requests that have had an id it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial(u64);

#[derive(Debug, Default)]
struct Batch {
    n_waiting: usize,
    answers: Vec<String>,
    /// All of its requests are known.
    is_sealed: bool,
}

#[derive(Debug)]
struct Request {
    serial: Serial,
    batch: Option<BatchKey>,
    call: Call,
}

/// How far the handler is.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Runs,
    /// It has ended, and its answer is on the way.
    Ended,
    /// It may run on, and is not answered. Until it ends, its id stays in use: the library would
    /// take what it comes to for the answer to the next request of that id.
    Cancelled,
}

/// What is in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    requests: HashMap<RequestId, Request>,
    batches: HashMap<BatchKey, Batch>,
    n_batches: u64,
    n_requests: u64,
}

impl InFlight {
    /// Handlers that may run.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Notes a request down; `None` where its id is in use.
    pub(super) fn begin(&mut self, id: &RequestId, batch: Option<BatchKey>) -> Option<Serial> {
        if self.requests.contains_key(id) {
            return None;
        }
        self.n_requests += 1;
        let request = Request {
            serial: Serial(self.n_requests),
            batch,
            call: Call::Runs,
        };
        let serial = request.serial;
        self.requests.insert(id.clone(), request);
        if let Some(batch) = batch.and_then(|key| self.batches.get_mut(&key)) {
            batch.n_waiting += 1;
        }
        Some(serial)
    }

    /// The handler of a request has ended.
    pub(super) fn ended(&mut self, id: &RequestId, serial: Serial) {
        match self.requests.get_mut(id) {
            Some(request) if request.serial == serial => match request.call {
                Call::Runs => request.call = Call::Ended,
                Call::Cancelled => {
                    self.requests.remove(id);
                }
                Call::Ended => {}
            },
            Some(_) | None => {}
        }
    }

    /// The line to write now for an answer: itself, its whole batch, or none (yet).
    pub(super) fn answer(&mut self, id: &RequestId, line: String) -> Option<String> {
        let Some(request) = self.requests.get(id) else {
            return Some(line);
        };
        let batch = request.batch;
        if request.call == Call::Cancelled {
            return None;
        }
        self.requests.remove(id);
        let Some(key) = batch else { return Some(line) };
        let batch = self.batches.get_mut(&key)?;
        batch.n_waiting -= 1;
        batch.answers.push(line);
        self.finished(key)
    }

    /// A request that gets no answer; the line to write if its batch waited for it alone.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<String> {
        let request = self.requests.get_mut(id)?;
        let batch = request.batch.take();
        match request.call {
            Call::Runs => request.call = Call::Cancelled,
            Call::Ended => {
                self.requests.remove(id);
            }
            Call::Cancelled => {}
        }
        let key = batch?;
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
