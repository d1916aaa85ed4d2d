//! Payload Data (RFC 9260, section 3.3.1).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter, Ssn, Tsn};
use bytes::{Buf, BufMut, Bytes};

/// A user message, or a fragment of one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Data<'a> {
    /// I bit: the sender would like a SACK without delay (RFC 7053).
    pub immediate: bool,
    /// U bit: the message is unordered and `ssn` means nothing.
    pub unordered: bool,
    /// B bit: this is the first fragment.
    pub beginning: bool,
    /// E bit: this is the last fragment. A message in one piece has both bits set.
    pub ending: bool,
    /// The number of this chunk.
    pub tsn: Tsn,
    /// Stream Identifier.
    pub stream: u16,
    /// Stream Sequence Number, the same in all fragments of a message.
    pub ssn: Ssn,
    /// Payload Protocol Identifier: the upper layer's business; 0 says nothing.
    pub ppid: u32,
    /// The user data. The RFC forbids it to be empty, but it can be read so: the answer is an
    /// ABORT with the cause No User Data.
    pub user_data: &'a [u8],
}

/// The flags of DATA and I-DATA.
pub(super) struct DataFlags {
    pub(super) immediate: bool,
    pub(super) unordered: bool,
    pub(super) beginning: bool,
    pub(super) ending: bool,
}

impl<'a> Data<'a> {
    /// Bytes that a DATA chunk takes beside the user data and padding.
    pub const OVERHEAD: usize = 16;

    /// The user data as a part of the packet's own buffer, without copying.
    ///
    /// # Panics
    ///
    /// When this chunk was not read from `packet`.
    pub fn user_data_in(&self, packet: &Bytes) -> Bytes {
        packet.slice_ref(self.user_data)
    }

    pub(super) fn read(flags: u8, mut value: &'a [u8]) -> Option<Data<'a>> {
        let flags = DataFlags::read(flags);
        Some(Data {
            immediate: flags.immediate,
            unordered: flags.unordered,
            beginning: flags.beginning,
            ending: flags.ending,
            tsn: Tsn(value.try_get_u32().ok()?),
            stream: value.try_get_u16().ok()?,
            ssn: Ssn(value.try_get_u16().ok()?),
            ppid: value.try_get_u32().ok()?,
            user_data: value,
        })
    }
}

impl PacketWriter<'_> {
    /// Appends a DATA chunk. This is the one copy that user data goes through.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn data(&mut self, data: &Data<'_>) -> Result<(), DoesNotFit> {
        let flags = DataFlags {
            immediate: data.immediate,
            unordered: data.unordered,
            beginning: data.beginning,
            ending: data.ending,
        };
        let fields_length = Data::OVERHEAD - HEADER_LENGTH;
        let value_length = fields_length + data.user_data.len();
        self.append(ChunkType::DATA, flags.bits(), value_length, |buffer| {
            let [a, b, c, d] = data.tsn.0.to_be_bytes();
            let [e, f] = data.stream.to_be_bytes();
            let [g, h] = data.ssn.0.to_be_bytes();
            let [i, j, k, l] = data.ppid.to_be_bytes();
            buffer.put_slice(&[a, b, c, d, e, f, g, h, i, j, k, l]);
            buffer.put_slice(data.user_data);
        })
    }
}

impl DataFlags {
    pub(super) fn read(flags: u8) -> DataFlags {
        DataFlags {
            immediate: flags & IMMEDIATE != 0,
            unordered: flags & UNORDERED != 0,
            beginning: flags & BEGINNING != 0,
            ending: flags & ENDING != 0,
        }
    }

    pub(super) fn bits(&self) -> u8 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.immediate, IMMEDIATE)
            | flag(self.unordered, UNORDERED)
            | flag(self.beginning, BEGINNING)
            | flag(self.ending, ENDING)
    }
}

const IMMEDIATE: u8 = 0x08;
const UNORDERED: u8 = 0x04;
const BEGINNING: u8 = 0x02;
const ENDING: u8 = 0x01;
