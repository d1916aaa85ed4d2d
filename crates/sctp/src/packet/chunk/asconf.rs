//! Address Configuration Change and its acknowledgement (RFC 5061, section 4.1).

use super::ChunkType;
use crate::packet::tlv::HEADER_LENGTH;
use crate::packet::{
    DoesNotFit, PacketWriter, Parameter, ParameterIterator, Parameters, SequenceNumber,
};
use bytes::{Buf, BufMut};
use std::net::IpAddr;

/// Asks for changes of the sender's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asconf<'a> {
    /// The number of this chunk.
    pub sequence_number: SequenceNumber,
    /// The Address Parameter, and the requests after it.
    pub parameters: Parameters<'a>,
}

/// Answers an ASCONF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsconfAck<'a> {
    /// The number of the ASCONF.
    pub sequence_number: SequenceNumber,
    /// The responses to its requests, in their order. A request without one succeeded.
    pub responses: Parameters<'a>,
}

impl<'a> Asconf<'a> {
    /// Bytes of a chunk before its parameters.
    pub const OVERHEAD: usize = 8;

    /// The Address Parameter, if it comes first as it should: an address of the sender that belongs
    /// to the association, or the unspecified address.
    pub fn address(&self) -> Option<IpAddr> {
        match self.parameters.iter().next() {
            Some(Ok(Parameter::Ipv4Address(address))) => Some(address.into()),
            Some(Ok(Parameter::Ipv6Address(address))) => Some(address.into()),
            _ => None,
        }
    }

    /// The parameters after the first one.
    pub fn requests(&self) -> ParameterIterator<'a> {
        let mut parameters = self.parameters.iter();
        parameters.next();
        parameters
    }

    pub(super) fn read(mut value: &'a [u8]) -> Option<Asconf<'a>> {
        Some(Asconf {
            sequence_number: SequenceNumber(value.try_get_u32().ok()?),
            parameters: Parameters::new(value),
        })
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let (number, parameters) = (self.sequence_number, self.parameters);
        write(ChunkType::ASCONF, number, parameters, writer)
    }
}

impl<'a> AsconfAck<'a> {
    /// Bytes of a chunk before its responses.
    pub const OVERHEAD: usize = 8;

    pub(super) fn read(mut value: &'a [u8]) -> Option<AsconfAck<'a>> {
        Some(AsconfAck {
            sequence_number: SequenceNumber(value.try_get_u32().ok()?),
            responses: Parameters::new(value),
        })
    }

    pub(super) fn write(&self, writer: &mut PacketWriter<'_>) -> Result<(), DoesNotFit> {
        let (number, responses) = (self.sequence_number, self.responses);
        write(ChunkType::ASCONF_ACK, number, responses, writer)
    }
}

fn write(
    chunk_type: ChunkType,
    sequence_number: SequenceNumber,
    parameters: Parameters<'_>,
    writer: &mut PacketWriter<'_>,
) -> Result<(), DoesNotFit> {
    let parameters = parameters.as_bytes();
    let value_length = Asconf::OVERHEAD - HEADER_LENGTH + parameters.len();
    writer.append(chunk_type, 0, value_length, |buffer| {
        buffer.put_u32(sequence_number.0);
        buffer.put_slice(parameters);
    })
}
