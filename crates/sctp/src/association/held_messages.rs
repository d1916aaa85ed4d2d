//! Messages of after a reset of their streams that cannot be done yet (RFC 6525 section 5.2.2, E2).

use super::received_tsns::TsnRange;
use super::stream_set::StreamSet;
use crate::ReceivedMessage;
use crate::packet::Tsn;

/// The messages, and which ones they are.
#[derive(Debug)]
pub(crate) struct HeldMessages {
    /// The last TSN of before the reset.
    last: Tsn,
    streams: StreamSet,
    messages: Vec<(ReceivedMessage, TsnRange)>,
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

    /// Whether a message on that stream that begins with this TSN is to be held.
    pub(crate) fn holds(&self, stream: u16, first: Tsn) -> bool {
        first > self.last && self.streams.contains(stream)
    }

    /// Takes one in.
    pub(crate) fn push(&mut self, message: ReceivedMessage, tsns: TsnRange) {
        self.messages.push((message, tsns));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The TSNs of each.
    pub(crate) fn tsns(&self) -> impl Iterator<Item = TsnRange> {
        self.messages.iter().map(|(_, tsns)| *tsns)
    }

    /// Throws away those above `limit`; `on_removed` hears TSNs and bytes of each.
    pub(crate) fn renege(&mut self, limit: Tsn, mut on_removed: impl FnMut(TsnRange, usize)) {
        self.messages.retain(|(message, tsns)| {
            let stays = tsns.first <= limit;
            if !stays {
                on_removed(*tsns, message.payload.len());
            }
            stays
        });
    }

    /// Gives them, in the order in which they became whole.
    pub(crate) fn release(self) -> impl Iterator<Item = (ReceivedMessage, TsnRange)> {
        self.messages.into_iter()
    }
}
