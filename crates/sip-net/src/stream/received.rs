//! The results of a read.

use bytes::Bytes;

/// What a read brought.
#[derive(Debug)]
pub(super) enum Received {
    /// So many octets, which are at the beginning of the room.
    Octets(usize),
    /// One whole message, or a keep-alive in its place.
    Message(Bytes),
    /// A ping or pong of the WebSocket.
    Ping,
    /// The peer sends no more.
    End,
}
