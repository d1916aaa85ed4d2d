//! Messages that are to be sent, one behind the other in one piece of memory.

use std::ops::Range;

use super::config::ConnectionId;

/// A message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Which way.
    pub connection: ConnectionId,
    /// How many octets were appended to the buffer.
    pub length: usize,
}

/// Messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct TransmitQueue {
    octets: Vec<u8>,
    queue: Vec<Entry>,
    /// How many of the queue have been taken.
    taken: usize,
}

#[derive(Debug)]
struct Entry {
    connection: ConnectionId,
    range: Range<usize>,
}

impl TransmitQueue {
    /// Where the next message begins: whoever writes it writes from here on, and then says where it goes.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.octets
    }

    /// The message written since `start` goes this way.
    pub(super) fn finish(&mut self, start: usize, connection: ConnectionId) {
        let range = start..self.octets.len();
        self.queue.push(Entry { connection, range });
    }

    /// The message written since `start` does not go anywhere.
    pub(super) fn discard(&mut self, start: usize) {
        self.octets.truncate(start);
    }

    /// A message that has been written in this trigger.
    pub(super) fn written(&self, range: Range<usize>) -> &[u8] {
        self.octets.get(range).unwrap_or_default()
    }

    /// The octets so far.
    pub(super) fn len(&self) -> usize {
        self.octets.len()
    }

    /// The next message.
    pub(super) fn poll(&mut self, into: &mut Vec<u8>) -> Option<Transmit> {
        let Some(entry) = self.queue.get(self.taken) else {
            self.clear();
            return None;
        };
        self.taken += 1;
        let octets = self.octets.get(entry.range.clone()).unwrap_or_default();
        into.extend_from_slice(octets);
        Some(Transmit {
            connection: entry.connection,
            length: octets.len(),
        })
    }

    /// Forgets all messages.
    fn clear(&mut self) {
        self.octets.clear();
        self.queue.clear();
        self.taken = 0;
    }
}
