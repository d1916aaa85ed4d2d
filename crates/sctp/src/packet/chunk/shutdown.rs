//! The chunks of the graceful close that have fields (RFC 9260, sections 3.3.8 and 3.3.13).

use super::{ChunkType, TAG_REFLECTED};
use crate::packet::{DoesNotFit, PacketWriter, Tsn};
use bytes::{Buf, BufMut};

/// Begins the graceful close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shutdown {
    /// All TSNs up to and including this one have been received.
    pub cumulative_tsn_ack: Tsn,
}

/// Ends the graceful close.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShutdownComplete {
    /// T bit: the verification tag is the one of the SHUTDOWN ACK, not the one that the receiver
    /// expects.
    pub tag_reflected: bool,
}

impl Shutdown {
    pub(super) fn read(mut value: &[u8]) -> Option<Shutdown> {
        let cumulative_tsn_ack = Tsn(value.try_get_u32().ok()?);
        Some(Shutdown { cumulative_tsn_ack })
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        writer.append(ChunkType::SHUTDOWN, 0, 4, |buffer| {
            buffer.put_u32(self.cumulative_tsn_ack.0);
        })
    }
}

impl ShutdownComplete {
    pub(super) fn read(flags: u8) -> ShutdownComplete {
        ShutdownComplete {
            tag_reflected: flags & TAG_REFLECTED != 0,
        }
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let flags = if self.tag_reflected { TAG_REFLECTED } else { 0 };
        writer.append(ChunkType::SHUTDOWN_COMPLETE, flags, 0, |_| {})
    }
}
