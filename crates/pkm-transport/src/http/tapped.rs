//! Answers as a tap gets to see them: message by message.

use std::sync::Arc;

use axum::http::{HeaderMap, header};

use crate::{Direction, Tap};

/// Hands the messages of one request and its answer to a tap.
pub(super) struct Recorder {
    tap: Arc<dyn Tap>,
    channel: String,
    /// The answer is a stream of events; otherwise it is one message.
    is_stream: bool,
    /// What came of an answer that is one message.
    whole: Vec<u8>,
}

impl Recorder {
    pub(super) fn new(tap: Arc<dyn Tap>, channel: String) -> Self {
        Self {
            tap,
            channel,
            is_stream: false,
            whole: Vec::new(),
        }
    }

    pub(super) fn rename(&mut self, channel: &str) {
        channel.clone_into(&mut self.channel);
    }

    pub(super) fn message(&self, direction: Direction, bytes: &[u8]) {
        self.tap.message(direction, &self.channel, bytes);
    }

    /// Learns what kind of answer comes.
    pub(super) fn expect(&mut self, headers: &HeaderMap) {
        self.is_stream = headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    }

    /// One piece of the answer; of a stream, one event.
    pub(super) fn data(&mut self, data: &[u8]) {
        if !self.is_stream {
            self.whole.extend_from_slice(data);
            return;
        }
        for line in data.split(|byte| *byte == b'\n') {
            let message = line.strip_prefix(b"data:").unwrap_or_default().trim_ascii();
            if !message.is_empty() {
                self.message(Direction::ToClient, message);
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !self.whole.is_empty() {
            self.message(Direction::ToClient, &self.whole);
        }
    }
}
