//! Operation Error (RFC 9260, section 3.3.10).

use super::ChunkType;
use crate::packet::{Causes, DoesNotFit, PacketWriter};
use bytes::BufMut;

/// Tells the peer of errors that are not fatal by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OperationError<'a> {
    /// What is wrong.
    pub causes: Causes<'a>,
}

impl<'a> OperationError<'a> {
    pub(super) fn read(value: &'a [u8]) -> OperationError<'a> {
        OperationError {
            causes: Causes::new(value),
        }
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let causes = self.causes.as_bytes();
        writer.append(ChunkType::ERROR, 0, causes.len(), |buffer| {
            buffer.put_slice(causes);
        })
    }
}
