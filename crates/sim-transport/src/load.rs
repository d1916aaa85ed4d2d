//! What the user of a flow sends.

use std::time::Duration;

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The stream; without meaning over TCP.
    pub stream: u16,
    /// Delivered without regard to order; without meaning over TCP.
    pub unordered: bool,
    /// How large it is; at least [`MESSAGE_HEADER`](crate::MESSAGE_HEADER) bytes. Over TCP a length
    /// of 4 bytes goes before it.
    pub bytes: usize,
}

/// What the user of a flow sends, as soon as the flow is up. Messages go to the streams in turn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Load {
    /// Nothing.
    #[default]
    None,
    /// As much as the transport takes, without end.
    Greedy {
        /// Bytes of each message.
        message: usize,
        /// How many streams are used, at least 1.
        streams: u16,
        /// Delivered without regard to order.
        unordered: bool,
    },
    /// So many messages, as fast as the transport takes them.
    Transfer {
        /// Bytes of each message.
        message: usize,
        /// Messages left.
        remaining: u64,
        /// How many streams are used, at least 1.
        streams: u16,
        /// Delivered without regard to order.
        unordered: bool,
    },
    /// One message each time the interval has passed, the first at once. What the transport does
    /// not take waits, and its delay counts from when it was due.
    Paced {
        /// Bytes of each message.
        message: usize,
        /// From one to the next; at least a microsecond.
        interval: Duration,
        /// Messages left; `None` is without end.
        remaining: Option<u64>,
        /// How many streams are used, at least 1.
        streams: u16,
        /// Delivered without regard to order.
        unordered: bool,
    },
}

impl Load {
    /// The message with this number.
    pub(crate) fn message(&self, number: u64) -> Option<Message> {
        let (bytes, streams, unordered) = match *self {
            Load::None => return None,
            Load::Greedy {
                message,
                streams,
                unordered,
            }
            | Load::Transfer {
                message,
                streams,
                unordered,
                ..
            }
            | Load::Paced {
                message,
                streams,
                unordered,
                ..
            } => (message, streams, unordered),
        };
        Some(Message {
            stream: (number % u64::from(streams.max(1))) as u16,
            unordered,
            bytes,
        })
    }

    /// Counts a message of this load that is sent or waits to be.
    pub(crate) fn count(&mut self) {
        let remaining = match self {
            Load::Transfer { remaining, .. }
            | Load::Paced {
                remaining: Some(remaining),
                ..
            } => remaining,
            _ => return,
        };
        *remaining = remaining.saturating_sub(1);
        if *remaining == 0 {
            *self = Load::None;
        }
    }
}
