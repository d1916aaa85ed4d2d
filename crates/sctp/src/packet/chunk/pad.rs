//! Padding (RFC 4820, section 3).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter};
use bytes::BufMut;

/// Makes a packet larger, and says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pad<'a> {
    /// What fills the chunk; a receiver ignores it.
    pub padding_data: &'a [u8],
}

impl Pad<'_> {
    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        writer.append(ChunkType::PAD, 0, self.padding_data.len(), |buffer| {
            buffer.put_slice(self.padding_data);
        })
    }
}

impl PacketWriter<'_> {
    /// Appends a PAD chunk so that the packet gets a size of exactly `size` bytes, or leaves it
    /// alone when it has that size already.
    ///
    /// # Errors
    ///
    /// When `size` cannot be reached: less than what is there, more than the largest size of the
    /// packet, no multiple of four, or further away than the length of a chunk can tell.
    pub fn pad_to(&mut self, size: usize) -> Result<(), DoesNotFit> {
        let missing = size.checked_sub(self.len()).ok_or(DoesNotFit)?;
        if !missing.is_multiple_of(4) {
            return Err(DoesNotFit);
        }
        match missing.checked_sub(self.auth_length_before(ChunkType::PAD) + HEADER_LENGTH) {
            Some(value_length) => self.append(ChunkType::PAD, 0, value_length, |buffer| {
                buffer.put_bytes(0, value_length);
            }),
            None if missing == 0 => Ok(()),
            None => Err(DoesNotFit),
        }
    }
}
