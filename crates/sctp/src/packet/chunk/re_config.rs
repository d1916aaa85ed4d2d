//! Re-configuration (RFC 6525, section 3.1).

use super::ChunkType;
use crate::packet::{DoesNotFit, PacketWriter, Parameters};
use bytes::BufMut;

/// Asks for resets of streams or for more of them, or answers such requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReConfig<'a> {
    /// One or two requests and responses. Nothing makes sure that they may go together.
    pub parameters: Parameters<'a>,
}

impl<'a> ReConfig<'a> {
    pub(super) fn read(value: &'a [u8]) -> ReConfig<'a> {
        ReConfig {
            parameters: Parameters::new(value),
        }
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let parameters = self.parameters.as_bytes();
        writer.append(ChunkType::RE_CONFIG, 0, parameters.len(), |buffer| {
            buffer.put_slice(parameters);
        })
    }
}
