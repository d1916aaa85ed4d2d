//! Parameters of ASCONF and ASCONF-ACK chunks (RFC 5061, section 4.2).

use super::{Parameter, ParameterType, Parameters};
use crate::packet::Causes;
use bytes::{Buf, BufMut, BytesMut};
use std::net::IpAddr;

/// A request about an address of the sender of an ASCONF: to add it, delete it, or make it primary
/// (sections 4.2.1, 4.2.2, and 4.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressRequest {
    /// ASCONF-Request Correlation ID: comes back in the response.
    pub correlation_id: u32,
    /// The address. The unspecified one means the source address of the packet, and in a request
    /// to delete all others.
    pub address: IpAddr,
}

/// Error Cause Indication: why a request was refused (section 4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorCauseIndication<'a> {
    /// ASCONF-Response Correlation ID: that of the request.
    pub correlation_id: u32,
    /// Why.
    pub causes: Causes<'a>,
}

impl AddressRequest {
    pub(super) fn read(mut value: &[u8]) -> Option<AddressRequest> {
        let correlation_id = value.try_get_u32().ok()?;
        let mut parameters = Parameters::new(value).iter();
        let address = match parameters.next() {
            Some(Ok(Parameter::Ipv4Address(address))) => IpAddr::V4(address),
            Some(Ok(Parameter::Ipv6Address(address))) => IpAddr::V6(address),
            _ => return None,
        };
        parameters.next().is_none().then_some(AddressRequest {
            correlation_id,
            address,
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.correlation_id);
        match self.address {
            IpAddr::V4(address) => {
                buffer.put_u16(ParameterType::IPV4_ADDRESS.0);
                buffer.put_u16(8);
                buffer.put_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                buffer.put_u16(ParameterType::IPV6_ADDRESS.0);
                buffer.put_u16(20);
                buffer.put_slice(&address.octets());
            }
        }
    }
}

impl<'a> ErrorCauseIndication<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<ErrorCauseIndication<'a>> {
        Some(ErrorCauseIndication {
            correlation_id: value.try_get_u32().ok()?,
            causes: Causes::new(value),
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.correlation_id);
        buffer.put_slice(self.causes.as_bytes());
    }
}
