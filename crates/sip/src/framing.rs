//! Messages in a stream of octets (RFC 3261 sections 7.5 and 18.3).

use bytes::{Bytes, BytesMut};

/// How much of a stream is held while a message is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingLimits {
    /// Octets of the start line and the header section.
    pub header_bytes: usize,
    /// Octets of the body.
    pub body_bytes: usize,
}

impl Default for FramingLimits {
    fn default() -> FramingLimits {
        FramingLimits {
            header_bytes: 32 * 1024,
            body_bytes: 256 * 1024,
        }
    }
}

/// Why a stream cannot be read on: where the next message begins is not known any more, so the
/// connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The header section is longer than the limit.
    #[error("header section longer than the limit")]
    HeaderTooLarge,
    /// The body is longer than the limit.
    #[error("body longer than the limit")]
    BodyTooLarge,
    /// Content-Length is missing, is not a number, or is there twice with different values.
    #[error("no usable Content-Length")]
    ContentLength,
}

/// What was found in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One whole message.
    Message(Bytes),
    /// A keep-alive ping: CRLF CRLF, to be answered with one CRLF (RFC 5626 section 3.5.1).
    Ping,
    /// A keep-alive pong: a single CRLF (RFC 5626 section 3.5.1).
    Pong,
}

/// Cuts a stream into messages.
#[derive(Debug, Default)]
pub struct StreamReader {
    limits: FramingLimits,
}

impl StreamReader {
    /// A reader at the beginning of a stream.
    pub fn new(limits: FramingLimits) -> StreamReader {
        StreamReader { limits }
    }

    /// Takes the next frame off the front of what has been received. `None`: more octets are needed.
    pub fn next(&mut self, _received: &mut BytesMut) -> Result<Option<Frame>, FramingError> {
        let _ = self.limits;
        todo!()
    }
}
