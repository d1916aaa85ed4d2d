//! Cookie Echo (RFC 9260, section 3.3.11).

use super::ChunkType;
use crate::packet::{DoesNotFit, PacketWriter};
use bytes::BufMut;

/// Brings the State Cookie of the INIT ACK back to its maker.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CookieEcho<'a> {
    /// The cookie, exactly as it was in the State Cookie parameter.
    pub cookie: &'a [u8],
}

impl CookieEcho<'_> {
    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        writer.append(ChunkType::COOKIE_ECHO, 0, self.cookie.len(), |buffer| {
            buffer.put_slice(self.cookie);
        })
    }
}
