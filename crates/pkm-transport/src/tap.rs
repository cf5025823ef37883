//! Somebody who listens to what goes over the wire.

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Gets to see each message as it is, in the order of its channel. It must not block for long: the
/// message waits for it.
pub trait Tap: Send + Sync {
    /// `channel` is one client's stream of messages: `stdio`, a session, or one request of a
    /// revision without sessions. `bytes` are one message without its newline, or what should
    /// have been one.
    fn message(&self, direction: Direction, channel: &str, bytes: &[u8]);
}
