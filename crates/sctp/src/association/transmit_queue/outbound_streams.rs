//! Our streams: the messages of each, and their numbers (RFC 9260 section 6.5, RFC 8260
//! section 2.1).

use super::messages::MessageList;
use crate::packet::Mid;

/// All of them.
#[derive(Debug)]
pub(super) struct OutboundStreams {
    count: u16,
    /// Streams beyond the end have not been used.
    used: Vec<OutboundStream>,
}

/// One of them.
#[derive(Debug, Clone, Default)]
pub(super) struct OutboundStream {
    pub(super) messages: MessageList,
    /// What the scheduler is to know of it: its weight, or its priority.
    pub(super) value: u16,
    /// It waits for its turn, or has it.
    pub(super) is_scheduled: bool,
    next_ordered: Mid,
    next_unordered: Mid,
}

impl OutboundStreams {
    /// `count` streams that carried nothing yet.
    pub(super) fn new(count: u16) -> OutboundStreams {
        OutboundStreams {
            count,
            used: Vec::new(),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Changes how many there are.
    pub(super) fn set_count(&mut self, count: u16) {
        self.count = count;
    }

    /// A stream that has been used.
    pub(super) fn get(&self, stream: u16) -> Option<&OutboundStream> {
        self.used.get(usize::from(stream))
    }

    /// A stream that has been used.
    pub(super) fn get_mut(&mut self, stream: u16) -> Option<&mut OutboundStream> {
        self.used.get_mut(usize::from(stream))
    }

    /// A stream, used from now on.
    pub(super) fn entry(&mut self, stream: u16) -> Option<&mut OutboundStream> {
        let index = usize::from(stream);
        if index >= self.used.len() {
            self.used.resize(index + 1, OutboundStream::default());
        }
        self.used.get_mut(index)
    }

    /// The numbers of those that have been used.
    pub(super) fn used(&self) -> impl Iterator<Item = u16> + use<> {
        (0..).take(self.used.len()).map(|number: u32| number as u16)
    }

    /// All that have been used.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut OutboundStream)> {
        let used = self.used.iter_mut().zip(0..);
        used.map(|(stream, number)| (number, stream))
    }
}

impl OutboundStream {
    /// The number of the next message.
    pub(super) fn assign(&mut self, unordered: bool) -> Mid {
        let next = if unordered {
            &mut self.next_unordered
        } else {
            &mut self.next_ordered
        };
        let assigned = *next;
        *next = next.next();
        assigned
    }

    /// Whether no message has a number yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.next_ordered == Mid(0) && self.next_unordered == Mid(0)
    }

    /// Begins to count anew.
    pub(super) fn reset_numbers(&mut self) {
        self.next_ordered = Mid(0);
        self.next_unordered = Mid(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_the_messages_of_each_stream() {
        let mut streams = OutboundStreams::new(10);
        let mut assign = |stream, unordered| streams.entry(stream).unwrap().assign(unordered);
        assert_eq!(assign(4, false), Mid(0));
        assert_eq!(assign(4, false), Mid(1));
        assert_eq!(assign(0, false), Mid(0));
        assert_eq!(assign(4, true), Mid(0), "they are counted by themselves");
        assert_eq!(assign(4, false), Mid(2));
        let stream = streams.get_mut(4).unwrap();
        stream.reset_numbers();
        assert_eq!(stream.assign(false), Mid(0));
        assert_eq!(stream.assign(true), Mid(0));
    }

    #[test]
    fn numbers_go_around() {
        let mut stream = OutboundStream {
            next_ordered: Mid(u32::MAX),
            ..OutboundStream::default()
        };
        assert_eq!(stream.assign(false), Mid(u32::MAX));
        assert_eq!(stream.assign(false), Mid(0));
    }
}
