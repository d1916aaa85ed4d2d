//! Heartbeat and its acknowledgement (RFC 9260, sections 3.3.5 and 3.3.6).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{DoesNotFit, PacketWriter, Parameter, ParameterType, Parameters};
use bytes::BufMut;

/// What a HEARTBEAT or HEARTBEAT ACK carries. The receiver of a HEARTBEAT sends the same parameters
/// back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Heartbeat<'a> {
    /// The parameters; the RFC knows one, Heartbeat Info.
    pub parameters: Parameters<'a>,
}

impl<'a> Heartbeat<'a> {
    /// Bytes of a chunk beside the Heartbeat Info: the headers of the chunk and of its parameter.
    pub const OVERHEAD: usize = 2 * HEADER_LENGTH;

    /// The Sender-Specific Heartbeat Info, if it comes first as it should.
    pub fn info(&self) -> Option<&'a [u8]> {
        match self.parameters.iter().next() {
            Some(Ok(Parameter::HeartbeatInfo(info))) => Some(info),
            _ => None,
        }
    }

    pub(super) fn read(value: &'a [u8]) -> Heartbeat<'a> {
        Heartbeat {
            parameters: Parameters::new(value),
        }
    }

    pub(super) fn write(
        &self,
        chunk_type: ChunkType,
        writer: &mut PacketWriter<'_>,
    ) -> Result<(), DoesNotFit> {
        let value = self.parameters.as_bytes();
        writer.append(chunk_type, 0, value.len(), |buffer| buffer.put_slice(value))
    }
}

impl PacketWriter<'_> {
    /// Appends a HEARTBEAT with `info` in its Heartbeat Info parameter.
    ///
    /// # Errors
    ///
    /// When the chunk does not fit.
    pub fn heartbeat(&mut self, info: &[u8]) -> Result<(), DoesNotFit> {
        let parameter_length = HEADER_LENGTH + info.len();
        self.append(ChunkType::HEARTBEAT, 0, parameter_length, |buffer| {
            buffer.put_u16(ParameterType::HEARTBEAT_INFO.0);
            buffer.put_u16(parameter_length as u16);
            buffer.put_slice(info);
        })
    }
}
