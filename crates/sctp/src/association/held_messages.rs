//! Messages of after a reset of their streams that cannot be done yet (RFC 6525 section 5.2.2, E2).

use super::received_tsns::{MessageTsns, TsnRange};
use super::stream_set::StreamSet;
use crate::ReceivedMessage;
use crate::packet::{Mid, Tsn};

/// The messages, and which ones they are.
#[derive(Debug)]
pub(crate) struct HeldMessages {
    /// The last TSN of before the reset.
    last: Tsn,
    streams: StreamSet,
    messages: Vec<HeldMessage>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct HeldMessage {
    pub(crate) message: ReceivedMessage,
    /// Its MID, or stream sequence number.
    pub(crate) number: Mid,
    pub(crate) tsns: MessageTsns,
}

impl HeldMessages {
    /// None yet, of those on `streams` above `last`.
    pub(crate) fn new(last: Tsn, streams: StreamSet) -> HeldMessages {
        HeldMessages {
            last,
            streams,
            messages: Vec::new(),
        }
    }

    /// Whether a message on that stream that has this TSN is to be held.
    pub(crate) fn holds(&self, stream: u16, tsn: Tsn) -> bool {
        tsn > self.last && self.streams.contains(stream)
    }

    /// Takes one in.
    pub(crate) fn push(&mut self, message: ReceivedMessage, number: Mid, tsns: MessageTsns) {
        self.messages.push(HeldMessage {
            message,
            number,
            tsns,
        });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The TSNs of each.
    pub(crate) fn tsns(&self) -> impl Iterator<Item = &MessageTsns> {
        self.messages.iter().map(|held| &held.tsns)
    }

    /// Throws away those above `limit`; `on_removed` hears all TSNs, and bytes.
    pub(crate) fn renege(&mut self, limit: Tsn, mut on_removed: impl FnMut(TsnRange, usize)) {
        self.messages.retain(|held| {
            held.tsns
                .stay_below(limit, held.message.payload.len(), &mut on_removed)
        });
    }

    /// Gives them, in the order in which they became whole.
    pub(crate) fn release(self) -> impl Iterator<Item = HeldMessage> {
        self.messages.into_iter()
    }
}
