//! What a chunk with user data carries (RFC 9260 section 6.9): a user message, or a fragment of one.

use bytes::Bytes;

use super::limit::Limit;
use crate::SendInfo;
use crate::packet::{Data, Mid, Ssn, Tsn};

/// A user message, or a fragment of one, as its chunk carries it; the TSN is not part of it.
#[derive(Debug, Clone)]
pub(crate) struct MessageFragment {
    pub(crate) stream: u16,
    /// Numbers the message among the ordered or the unordered ones of its stream.
    pub(crate) mid: Mid,
    pub(crate) ppid: u32,
    /// The user's, see [`SendInfo::context`].
    pub(crate) context: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    /// How far the sending of its message may go.
    pub(crate) limit: Limit,
    pub(crate) payload: Bytes,
}

impl MessageFragment {
    /// The DATA chunk with which it goes out.
    pub(crate) fn chunk(&self, tsn: Tsn, immediate: bool) -> Data<'_> {
        Data {
            immediate: self.immediate || immediate,
            unordered: self.unordered,
            beginning: self.beginning,
            ending: self.ending,
            tsn,
            stream: self.stream,
            ssn: self.ssn(),
            ppid: self.ppid,
            user_data: &self.payload,
        }
    }

    /// How its message was sent, as far as it is still known: where it should have gone, and
    /// within which time, matters no more once it has left.
    pub(crate) fn info(&self) -> SendInfo {
        SendInfo {
            stream: self.stream,
            ppid: self.ppid,
            unordered: self.unordered,
            sack_immediately: self.immediate,
            context: self.context,
            ..SendInfo::default()
        }
    }

    /// Whether both belong to one message of an association.
    pub(crate) fn is_of_same_message(&self, other: &MessageFragment) -> bool {
        (self.stream, self.unordered, self.mid) == (other.stream, other.unordered, other.mid)
    }

    /// The size of that DATA chunk with its padding, in bytes: what it counts for in congestion
    /// control (section 7.2).
    pub(crate) fn chunk_size(&self) -> usize {
        (Data::OVERHEAD + self.payload.len()).next_multiple_of(4)
    }

    /// Stream sequence numbers count ordered messages from 0 on, as MIDs do (section 6.5).
    pub(crate) fn ssn(&self) -> Ssn {
        if self.unordered {
            Ssn(0)
        } else {
            Ssn(self.mid.0 as u16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(mid: u32, unordered: bool) -> MessageFragment {
        MessageFragment {
            stream: 1,
            mid: Mid(mid),
            ppid: 2,
            context: 3,
            unordered,
            immediate: false,
            beginning: true,
            ending: true,
            limit: Limit::None,
            payload: Bytes::from_static(b"abcde"),
        }
    }

    #[test]
    fn counts_chunks_with_header_and_padding() {
        assert_eq!(fragment(0, false).chunk_size(), 24);
    }

    #[test]
    fn ordered_messages_alone_have_stream_sequence_numbers() {
        let ssn = |mid, unordered| fragment(mid, unordered).chunk(Tsn(1), false).ssn;
        assert_eq!(ssn(7, false), Ssn(7));
        assert_eq!(ssn(65_537, false), Ssn(1), "goes around");
        assert_eq!(ssn(7, true), Ssn(0));
    }
}
