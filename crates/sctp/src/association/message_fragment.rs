//! What a DATA or I-DATA chunk carries (RFC 9260 section 6.9, RFC 8260 section 2.1): a user message, or a
//! fragment of one.

use bytes::Bytes;

use super::limit::Limit;
use crate::SendInfo;
use crate::packet::{Data, DoesNotFit, Fragment, IData, Mid, PacketWriter, Ssn, Tsn};

/// A user message, or a fragment of one, as its chunk carries it; the TSN is not part of it.
#[derive(Debug, Clone)]
pub(crate) struct MessageFragment {
    pub(crate) stream: u16,
    /// Numbers the message among the ordered or the unordered ones of its stream.
    pub(crate) mid: Mid,
    /// Numbers it within its message; `None` when it leaves in a DATA chunk, where TSNs do that.
    pub(crate) fsn: Option<u32>,
    pub(crate) ppid: u32,
    /// The user's, see [`SendInfo::context`].
    pub(crate) context: u32,
    /// The shared key that authenticates it, see [`SendInfo::shared_key`].
    pub(crate) shared_key: Option<u16>,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    /// How far the sending of its message may go.
    pub(crate) limit: Limit,
    pub(crate) payload: Bytes,
}

impl MessageFragment {
    /// Writes the chunk in which it goes out.
    #[inline]
    pub(crate) fn write(
        &self,
        tsn: Tsn,
        immediate: bool,
        writer: &mut PacketWriter<'_>,
    ) -> Result<(), DoesNotFit> {
        let immediate = self.immediate || immediate;
        match self.fsn {
            None => writer.data(&Data {
                immediate,
                unordered: self.unordered,
                beginning: self.beginning,
                ending: self.ending,
                tsn,
                stream: self.stream,
                ssn: self.ssn(),
                ppid: self.ppid,
                user_data: &self.payload,
            }),
            Some(fsn) => writer.i_data(&IData {
                immediate,
                unordered: self.unordered,
                ending: self.ending,
                tsn,
                stream: self.stream,
                mid: self.mid,
                fragment: if self.beginning {
                    Fragment::First { ppid: self.ppid }
                } else {
                    Fragment::Later { fsn }
                },
                user_data: &self.payload,
            }),
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
            shared_key: self.shared_key,
            ..SendInfo::default()
        }
    }

    /// Whether both belong to one message of an association.
    pub(crate) fn is_of_same_message(&self, other: &MessageFragment) -> bool {
        (self.stream, self.unordered, self.mid) == (other.stream, other.unordered, other.mid)
    }

    /// The size of that chunk with its padding, in bytes: what it counts for in congestion control
    /// (RFC 9260 section 7.2).
    #[inline]
    pub(crate) fn chunk_size(&self) -> usize {
        let overhead = overhead(self.fsn.is_some());
        (overhead + self.payload.len()).next_multiple_of(4)
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

/// What an I-DATA chunk, if `interleaving`, or else a DATA chunk takes beside its user data and padding.
pub(crate) fn overhead(interleaving: bool) -> usize {
    if interleaving {
        IData::OVERHEAD
    } else {
        Data::OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Chunk, Packet};

    fn fragment(mid: u32, fsn: Option<u32>, unordered: bool) -> MessageFragment {
        MessageFragment {
            stream: 1,
            mid: Mid(mid),
            fsn,
            ppid: 2,
            context: 3,
            shared_key: None,
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
        assert_eq!(fragment(0, None, false).chunk_size(), 24);
        assert_eq!(fragment(0, Some(0), false).chunk_size(), 28);
    }

    #[test]
    fn ordered_messages_alone_have_stream_sequence_numbers() {
        let ssn = |mid, unordered| fragment(mid, None, unordered).ssn();
        assert_eq!(ssn(7, false), Ssn(7));
        assert_eq!(ssn(65_537, false), Ssn(1), "goes around");
        assert_eq!(ssn(7, true), Ssn(0));
    }

    #[test]
    fn the_first_i_data_chunk_has_the_ppid_and_the_others_their_number() {
        let read = |fragment: MessageFragment| {
            let mut buffer = bytes::BytesMut::new();
            let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 100);
            fragment.write(Tsn(9), true, &mut writer).unwrap();
            let packet = writer.finish();
            let Some(Ok(Chunk::IData(data))) = Packet::read(&packet).unwrap().chunks().next()
            else {
                panic!("an I-DATA chunk was written");
            };
            assert_eq!(
                (data.tsn, data.mid, data.immediate),
                (Tsn(9), Mid(70_000), true)
            );
            data.fragment
        };
        let first = fragment(70_000, Some(0), false);
        let later = MessageFragment {
            beginning: false,
            fsn: Some(4),
            ..first.clone()
        };
        assert_eq!(read(first), Fragment::First { ppid: 2 });
        assert_eq!(read(later), Fragment::Later { fsn: 4 });
    }
}
