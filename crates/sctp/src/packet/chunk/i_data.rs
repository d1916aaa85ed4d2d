//! Payload Data of interleaved messages (RFC 8260, section 2.1).

use super::ChunkType;
use super::data::DataFlags;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, Mid, PacketWriter, Tsn};
use bytes::{Buf, BufMut, Bytes};

/// A user message, or a fragment of one, that fragments of other messages may come between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IData<'a> {
    /// I bit: the sender would like a SACK without delay (RFC 7053).
    pub immediate: bool,
    /// U bit: the message is unordered.
    pub unordered: bool,
    /// E bit: this is the last fragment.
    pub ending: bool,
    /// The number of this chunk.
    pub tsn: Tsn,
    /// Stream Identifier.
    pub stream: u16,
    /// Message Identifier, the same in all fragments of a message. Ordered and unordered messages
    /// of a stream are numbered apart.
    pub mid: Mid,
    /// Whether this is the first fragment (B bit), and what the chunk says in either case.
    pub fragment: Fragment,
    /// The user data. It must not be empty (RFC 9260, section 3.3.1), but can be read so.
    pub user_data: &'a [u8],
}

/// What the last field of an I-DATA chunk's header means: the B bit decides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fragment {
    /// The first fragment of a message; its Fragment Sequence Number is 0.
    First {
        /// Payload Protocol Identifier.
        ppid: u32,
    },
    /// A later fragment of a message.
    Later {
        /// Fragment Sequence Number, one more than that of the fragment before.
        fsn: u32,
    },
}

impl<'a> IData<'a> {
    /// Bytes that an I-DATA chunk takes beside the user data and padding.
    pub const OVERHEAD: usize = 20;

    /// B bit: this is the first fragment. A message in one piece has the E bit set, too.
    pub fn beginning(&self) -> bool {
        matches!(self.fragment, Fragment::First { .. })
    }

    /// The user data as a part of the packet's own buffer, without copying.
    ///
    /// # Panics
    ///
    /// When this chunk was not read from `packet`.
    pub fn user_data_in(&self, packet: &Bytes) -> Bytes {
        packet.slice_ref(self.user_data)
    }

    pub(super) fn read(flags: u8, mut value: &'a [u8]) -> Option<IData<'a>> {
        let flags = DataFlags::read(flags);
        let tsn = Tsn(value.try_get_u32().ok()?);
        let stream = value.try_get_u16().ok()?;
        let _reserved = value.try_get_u16().ok()?;
        let mid = Mid(value.try_get_u32().ok()?);
        let ppid_or_fsn = value.try_get_u32().ok()?;
        Some(IData {
            immediate: flags.immediate,
            unordered: flags.unordered,
            ending: flags.ending,
            tsn,
            stream,
            mid,
            fragment: if flags.beginning {
                Fragment::First { ppid: ppid_or_fsn }
            } else {
                Fragment::Later { fsn: ppid_or_fsn }
            },
            user_data: value,
        })
    }
}

impl PacketWriter<'_> {
    /// Appends an I-DATA chunk. This is the one copy that user data goes through.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn i_data(&mut self, data: &IData<'_>) -> Result<(), DoesNotFit> {
        let flags = DataFlags {
            immediate: data.immediate,
            unordered: data.unordered,
            beginning: data.beginning(),
            ending: data.ending,
        };
        let (Fragment::First { ppid: ppid_or_fsn } | Fragment::Later { fsn: ppid_or_fsn }) =
            data.fragment;
        let fields_length = IData::OVERHEAD - HEADER_LENGTH;
        let value_length = fields_length + data.user_data.len();
        self.append(ChunkType::I_DATA, flags.bits(), value_length, |buffer| {
            let [a, b, c, d] = data.tsn.0.to_be_bytes();
            let [e, f] = data.stream.to_be_bytes();
            let [g, h, i, j] = data.mid.0.to_be_bytes();
            let [k, l, m, n] = ppid_or_fsn.to_be_bytes();
            buffer.put_slice(&[a, b, c, d, e, f, 0, 0, g, h, i, j, k, l, m, n]);
            buffer.put_slice(data.user_data);
        })
    }
}
