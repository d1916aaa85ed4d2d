//! Abort Association (RFC 9260, section 3.3.7).

use super::{ChunkType, TAG_REFLECTED};
use crate::packet::{Causes, DoesNotFit, PacketWriter};
use bytes::BufMut;

/// Closes the association at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Abort<'a> {
    /// T bit: the verification tag is the one of the packet that caused the ABORT, not the one
    /// that the receiver expects.
    pub tag_reflected: bool,
    /// Why; may be empty.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    pub(super) fn read(flags: u8, value: &'a [u8]) -> Abort<'a> {
        Abort {
            tag_reflected: flags & TAG_REFLECTED != 0,
            causes: Causes::new(value),
        }
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let flags = if self.tag_reflected { TAG_REFLECTED } else { 0 };
        let causes = self.causes.as_bytes();
        writer.append(ChunkType::ABORT, flags, causes.len(), |buffer| {
            buffer.put_slice(causes);
        })
    }
}
