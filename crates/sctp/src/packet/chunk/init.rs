//! Initiation and its acknowledgement (RFC 9260, sections 3.3.2 and 3.3.3).

use super::ChunkType;
use crate::packet::{DoesNotFit, PacketWriter, Parameters, Tsn};
use bytes::{Buf, BufMut};

/// What an INIT or an INIT ACK says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init<'a> {
    /// Initiate Tag: the verification tag for all packets to the sender of this chunk; not 0.
    pub initiate_tag: u32,
    /// Advertised Receiver Window Credit, in bytes; at least 1500.
    pub a_rwnd: u32,
    /// Number of Outbound Streams that the sender wishes for; not 0.
    pub outbound_streams: u16,
    /// Number of Inbound Streams that the sender allows; not 0.
    pub inbound_streams: u16,
    /// Initial TSN of the sender of this chunk.
    pub initial_tsn: Tsn,
    /// The parameters after the fixed fields.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<Init<'a>> {
        Some(Init {
            initiate_tag: value.try_get_u32().ok()?,
            a_rwnd: value.try_get_u32().ok()?,
            outbound_streams: value.try_get_u16().ok()?,
            inbound_streams: value.try_get_u16().ok()?,
            initial_tsn: Tsn(value.try_get_u32().ok()?),
            parameters: Parameters::new(value),
        })
    }

    pub(super) fn write(
        &self,
        chunk_type: ChunkType,
        writer: &mut PacketWriter<'_>,
    ) -> Result<(), DoesNotFit> {
        let parameters = self.parameters.as_bytes();
        let value_length = FIELDS_LENGTH + parameters.len();
        writer.append(chunk_type, 0, value_length, |buffer| {
            buffer.put_u32(self.initiate_tag);
            buffer.put_u32(self.a_rwnd);
            buffer.put_u16(self.outbound_streams);
            buffer.put_u16(self.inbound_streams);
            buffer.put_u32(self.initial_tsn.0);
            buffer.put_slice(parameters);
        })
    }
}

const FIELDS_LENGTH: usize = 16;
