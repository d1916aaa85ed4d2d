//! Authentication (RFC 4895, section 5.1).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, HmacIdentifier, PacketWriter};
use bytes::{Buf, BufMut};

/// Authenticates all chunks that come after it in its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auth<'a> {
    /// Shared Key Identifier: which of the endpoint pair shared keys is used.
    pub shared_key_identifier: u16,
    /// Which algorithm made the HMAC.
    pub hmac_identifier: HmacIdentifier,
    /// The HMAC over this chunk, with zeros in the place of the HMAC, and everything after it
    /// (section 6.2). Nothing makes sure that its length is that of the algorithm.
    pub hmac: &'a [u8],
}

impl<'a> Auth<'a> {
    /// Bytes of the chunk before the HMAC.
    pub const OVERHEAD: usize = 8;

    pub(super) fn read(mut value: &'a [u8]) -> Option<Auth<'a>> {
        Some(Auth {
            shared_key_identifier: value.try_get_u16().ok()?,
            hmac_identifier: HmacIdentifier(value.try_get_u16().ok()?),
            hmac: value,
        })
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let value_length = Auth::OVERHEAD - HEADER_LENGTH + self.hmac.len();
        writer.append(ChunkType::AUTH, 0, value_length, |buffer| {
            buffer.put_u16(self.shared_key_identifier);
            buffer.put_u16(self.hmac_identifier.0);
            buffer.put_slice(self.hmac);
        })
    }
}
