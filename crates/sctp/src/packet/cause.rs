//! The error causes of ERROR and ABORT chunks (RFC 9260, section 3.3.10, and the extensions).

use super::parameter::push_tlv;
use super::tlv::{Tlv, Tlvs};
use super::{DoesNotFit, FormatError, FormatErrorKind, HmacIdentifier, Parameters, Tsn, TypeList};
use bytes::{Buf, BufMut, BytesMut};
use std::fmt;
use std::iter::FusedIterator;

/// The code of an error cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CauseCode(pub u16);

/// One error cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause<'a> {
    /// A DATA chunk came on a stream that does not exist (section 3.3.10.1).
    InvalidStreamIdentifier {
        /// The stream.
        stream: u16,
    },
    /// An INIT or INIT ACK lacks mandatory parameters (section 3.3.10.2).
    MissingMandatoryParameter(TypeList<'a>),
    /// A valid State Cookie has expired (section 3.3.10.3).
    StaleCookie {
        /// Measure of Staleness: how long ago it expired, in microseconds; 0 does not say.
        staleness: u32,
    },
    /// The sender is out of resource (section 3.3.10.4).
    OutOfResource,
    /// An address parameter cannot be resolved; holds that parameter with type and length
    /// (section 3.3.10.5).
    UnresolvableAddress(&'a [u8]),
    /// A chunk was not recognized; holds that chunk with type, flags, and length
    /// (section 3.3.10.6).
    UnrecognizedChunkType(&'a [u8]),
    /// A mandatory parameter has an invalid value (section 3.3.10.7).
    InvalidMandatoryParameter,
    /// Parameters of an INIT ACK were not recognized (section 3.3.10.8).
    UnrecognizedParameters(Parameters<'a>),
    /// A DATA chunk had no user data (section 3.3.10.9).
    NoUserData {
        /// The TSN of that chunk.
        tsn: Tsn,
    },
    /// A COOKIE ECHO came in the SHUTDOWN-ACK-SENT state (section 3.3.10.10).
    CookieReceivedWhileShuttingDown,
    /// An INIT for an existing association brought new addresses; holds these
    /// (section 3.3.10.11).
    RestartWithNewAddresses(Parameters<'a>),
    /// The upper layer aborted; holds its reason (section 3.3.10.12).
    UserInitiatedAbort(&'a [u8]),
    /// The peer violated the protocol in a way that no other cause covers; may hold an explanation
    /// (section 3.3.10.13).
    ProtocolViolation(&'a [u8]),
    /// A request would have deleted the last address; holds the request
    /// (RFC 5061, section 4.3.1).
    RequestToDeleteLastIpAddress(Parameters<'a>),
    /// There are not the resources for a request; holds the request
    /// (RFC 5061, section 4.3.2).
    OperationRefusedDueToResourceShortage(Parameters<'a>),
    /// A request would have deleted the source address of its packet; holds the request
    /// (RFC 5061, section 4.3.3).
    RequestToDeleteSourceIpAddress(Parameters<'a>),
    /// An ASCONF-ACK acknowledges an ASCONF that was never sent (RFC 5061, section 4.3.4).
    IllegalAsconfAck,
    /// A request is against the local security policy; may hold the request
    /// (RFC 5061, section 4.3.5).
    RequestRefusedNoAuthorization(Parameters<'a>),
    /// An AUTH used an algorithm that the sender does not support (RFC 4895, section 4.1).
    UnsupportedHmacIdentifier {
        /// The algorithm.
        hmac_identifier: HmacIdentifier,
    },
    /// A cause with a code that is not known here.
    Other(Tlv<'a>),
}

/// The error causes of a chunk, as they lie in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Causes<'a>(&'a [u8]);

/// Walks error causes. After one whose framing is broken there are no more; after one whose fields
/// do not fit its code the walk goes on.
#[derive(Clone, Debug)]
pub struct CauseIterator<'a>(Tlvs<'a>);

/// Collects error causes to be written into a chunk.
#[derive(Clone, Default, Debug)]
pub struct CauseBuffer(BytesMut);

impl CauseCode {
    /// Invalid Stream Identifier.
    pub const INVALID_STREAM_IDENTIFIER: CauseCode = CauseCode(1);
    /// Missing Mandatory Parameter.
    pub const MISSING_MANDATORY_PARAMETER: CauseCode = CauseCode(2);
    /// Stale Cookie.
    pub const STALE_COOKIE: CauseCode = CauseCode(3);
    /// Out of Resource.
    pub const OUT_OF_RESOURCE: CauseCode = CauseCode(4);
    /// Unresolvable Address.
    pub const UNRESOLVABLE_ADDRESS: CauseCode = CauseCode(5);
    /// Unrecognized Chunk Type.
    pub const UNRECOGNIZED_CHUNK_TYPE: CauseCode = CauseCode(6);
    /// Invalid Mandatory Parameter.
    pub const INVALID_MANDATORY_PARAMETER: CauseCode = CauseCode(7);
    /// Unrecognized Parameters.
    pub const UNRECOGNIZED_PARAMETERS: CauseCode = CauseCode(8);
    /// No User Data.
    pub const NO_USER_DATA: CauseCode = CauseCode(9);
    /// Cookie Received While Shutting Down.
    pub const COOKIE_RECEIVED_WHILE_SHUTTING_DOWN: CauseCode = CauseCode(10);
    /// Restart of an Association with New Addresses.
    pub const RESTART_WITH_NEW_ADDRESSES: CauseCode = CauseCode(11);
    /// User-Initiated Abort.
    pub const USER_INITIATED_ABORT: CauseCode = CauseCode(12);
    /// Protocol Violation.
    pub const PROTOCOL_VIOLATION: CauseCode = CauseCode(13);
    /// Request to Delete Last Remaining IP Address (RFC 5061).
    pub const REQUEST_TO_DELETE_LAST_IP_ADDRESS: CauseCode = CauseCode(0x00a0);
    /// Operation Refused Due to Resource Shortage (RFC 5061).
    pub const OPERATION_REFUSED_DUE_TO_RESOURCE_SHORTAGE: CauseCode = CauseCode(0x00a1);
    /// Request to Delete Source IP Address (RFC 5061).
    pub const REQUEST_TO_DELETE_SOURCE_IP_ADDRESS: CauseCode = CauseCode(0x00a2);
    /// Association Aborted Due to Illegal ASCONF-ACK (RFC 5061).
    pub const ILLEGAL_ASCONF_ACK: CauseCode = CauseCode(0x00a3);
    /// Request Refused - No Authorization (RFC 5061).
    pub const REQUEST_REFUSED_NO_AUTHORIZATION: CauseCode = CauseCode(0x00a4);
    /// Unsupported HMAC Identifier (RFC 4895).
    pub const UNSUPPORTED_HMAC_IDENTIFIER: CauseCode = CauseCode(0x0105);
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            CauseCode::INVALID_STREAM_IDENTIFIER => "Invalid Stream Identifier",
            CauseCode::MISSING_MANDATORY_PARAMETER => "Missing Mandatory Parameter",
            CauseCode::STALE_COOKIE => "Stale Cookie",
            CauseCode::OUT_OF_RESOURCE => "Out of Resource",
            CauseCode::UNRESOLVABLE_ADDRESS => "Unresolvable Address",
            CauseCode::UNRECOGNIZED_CHUNK_TYPE => "Unrecognized Chunk Type",
            CauseCode::INVALID_MANDATORY_PARAMETER => "Invalid Mandatory Parameter",
            CauseCode::UNRECOGNIZED_PARAMETERS => "Unrecognized Parameters",
            CauseCode::NO_USER_DATA => "No User Data",
            CauseCode::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => "Cookie Received While Shutting Down",
            CauseCode::RESTART_WITH_NEW_ADDRESSES => "Restart of an Association with New Addresses",
            CauseCode::USER_INITIATED_ABORT => "User-Initiated Abort",
            CauseCode::PROTOCOL_VIOLATION => "Protocol Violation",
            CauseCode::REQUEST_TO_DELETE_LAST_IP_ADDRESS => {
                "Request to Delete Last Remaining IP Address"
            }
            CauseCode::OPERATION_REFUSED_DUE_TO_RESOURCE_SHORTAGE => {
                "Operation Refused Due to Resource Shortage"
            }
            CauseCode::REQUEST_TO_DELETE_SOURCE_IP_ADDRESS => "Request to Delete Source IP Address",
            CauseCode::ILLEGAL_ASCONF_ACK => "Association Aborted Due to Illegal ASCONF-ACK",
            CauseCode::REQUEST_REFUSED_NO_AUTHORIZATION => "Request Refused - No Authorization",
            CauseCode::UNSUPPORTED_HMAC_IDENTIFIER => "Unsupported HMAC Identifier",
            CauseCode(other) => return write!(f, "error cause {other}"),
        })
    }
}

impl fmt::Debug for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CauseCode({})", self.0)
    }
}

impl<'a> Cause<'a> {
    /// Reads the cause-specific information by the code.
    ///
    /// # Errors
    ///
    /// When it does not hold the fields that the code prescribes.
    pub fn read(tlv: Tlv<'a>) -> Result<Cause<'a>, FormatError<'a>> {
        let value = tlv.value();
        let mut fields = value;
        let cause = match CauseCode(tlv.type_field()) {
            CauseCode::INVALID_STREAM_IDENTIFIER => fields
                .try_get_u16()
                .ok()
                .map(|stream| Cause::InvalidStreamIdentifier { stream }),
            CauseCode::MISSING_MANDATORY_PARAMETER => {
                missing_types(fields).map(Cause::MissingMandatoryParameter)
            }
            CauseCode::STALE_COOKIE => fields
                .try_get_u32()
                .ok()
                .map(|staleness| Cause::StaleCookie { staleness }),
            CauseCode::OUT_OF_RESOURCE => Some(Cause::OutOfResource),
            CauseCode::UNRESOLVABLE_ADDRESS => Some(Cause::UnresolvableAddress(value)),
            CauseCode::UNRECOGNIZED_CHUNK_TYPE => Some(Cause::UnrecognizedChunkType(value)),
            CauseCode::INVALID_MANDATORY_PARAMETER => Some(Cause::InvalidMandatoryParameter),
            CauseCode::UNRECOGNIZED_PARAMETERS => {
                Some(Cause::UnrecognizedParameters(Parameters::new(value)))
            }
            CauseCode::NO_USER_DATA => fields
                .try_get_u32()
                .ok()
                .map(|tsn| Cause::NoUserData { tsn: Tsn(tsn) }),
            CauseCode::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => {
                Some(Cause::CookieReceivedWhileShuttingDown)
            }
            CauseCode::RESTART_WITH_NEW_ADDRESSES => {
                Some(Cause::RestartWithNewAddresses(Parameters::new(value)))
            }
            CauseCode::USER_INITIATED_ABORT => Some(Cause::UserInitiatedAbort(value)),
            CauseCode::PROTOCOL_VIOLATION => Some(Cause::ProtocolViolation(value)),
            CauseCode::REQUEST_TO_DELETE_LAST_IP_ADDRESS => {
                Some(Cause::RequestToDeleteLastIpAddress(Parameters::new(value)))
            }
            CauseCode::OPERATION_REFUSED_DUE_TO_RESOURCE_SHORTAGE => Some(
                Cause::OperationRefusedDueToResourceShortage(Parameters::new(value)),
            ),
            CauseCode::REQUEST_TO_DELETE_SOURCE_IP_ADDRESS => Some(
                Cause::RequestToDeleteSourceIpAddress(Parameters::new(value)),
            ),
            CauseCode::ILLEGAL_ASCONF_ACK => Some(Cause::IllegalAsconfAck),
            CauseCode::REQUEST_REFUSED_NO_AUTHORIZATION => {
                Some(Cause::RequestRefusedNoAuthorization(Parameters::new(value)))
            }
            CauseCode::UNSUPPORTED_HMAC_IDENTIFIER => {
                fields
                    .try_get_u16()
                    .ok()
                    .map(|identifier| Cause::UnsupportedHmacIdentifier {
                        hmac_identifier: HmacIdentifier(identifier),
                    })
            }
            _ => Some(Cause::Other(tlv)),
        };
        cause.ok_or(FormatError::new(
            FormatErrorKind::MalformedValue,
            tlv.bytes(),
        ))
    }

    /// The code of this cause.
    pub fn code(&self) -> CauseCode {
        match self {
            Cause::InvalidStreamIdentifier { .. } => CauseCode::INVALID_STREAM_IDENTIFIER,
            Cause::MissingMandatoryParameter(_) => CauseCode::MISSING_MANDATORY_PARAMETER,
            Cause::StaleCookie { .. } => CauseCode::STALE_COOKIE,
            Cause::OutOfResource => CauseCode::OUT_OF_RESOURCE,
            Cause::UnresolvableAddress(_) => CauseCode::UNRESOLVABLE_ADDRESS,
            Cause::UnrecognizedChunkType(_) => CauseCode::UNRECOGNIZED_CHUNK_TYPE,
            Cause::InvalidMandatoryParameter => CauseCode::INVALID_MANDATORY_PARAMETER,
            Cause::UnrecognizedParameters(_) => CauseCode::UNRECOGNIZED_PARAMETERS,
            Cause::NoUserData { .. } => CauseCode::NO_USER_DATA,
            Cause::CookieReceivedWhileShuttingDown => {
                CauseCode::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN
            }
            Cause::RestartWithNewAddresses(_) => CauseCode::RESTART_WITH_NEW_ADDRESSES,
            Cause::UserInitiatedAbort(_) => CauseCode::USER_INITIATED_ABORT,
            Cause::ProtocolViolation(_) => CauseCode::PROTOCOL_VIOLATION,
            Cause::RequestToDeleteLastIpAddress(_) => CauseCode::REQUEST_TO_DELETE_LAST_IP_ADDRESS,
            Cause::OperationRefusedDueToResourceShortage(_) => {
                CauseCode::OPERATION_REFUSED_DUE_TO_RESOURCE_SHORTAGE
            }
            Cause::RequestToDeleteSourceIpAddress(_) => {
                CauseCode::REQUEST_TO_DELETE_SOURCE_IP_ADDRESS
            }
            Cause::IllegalAsconfAck => CauseCode::ILLEGAL_ASCONF_ACK,
            Cause::RequestRefusedNoAuthorization(_) => CauseCode::REQUEST_REFUSED_NO_AUTHORIZATION,
            Cause::UnsupportedHmacIdentifier { .. } => CauseCode::UNSUPPORTED_HMAC_IDENTIFIER,
            Cause::Other(tlv) => CauseCode(tlv.type_field()),
        }
    }

    fn write_value(&self, buffer: &mut BytesMut) {
        match self {
            Cause::InvalidStreamIdentifier { stream } => {
                buffer.put_u16(*stream);
                buffer.put_u16(0);
            }
            Cause::MissingMandatoryParameter(types) => {
                buffer.put_u32(types.len() as u32);
                buffer.put_slice(types.as_bytes());
            }
            Cause::StaleCookie { staleness } => buffer.put_u32(*staleness),
            Cause::OutOfResource
            | Cause::InvalidMandatoryParameter
            | Cause::CookieReceivedWhileShuttingDown
            | Cause::IllegalAsconfAck => {}
            Cause::UnresolvableAddress(bytes)
            | Cause::UnrecognizedChunkType(bytes)
            | Cause::UserInitiatedAbort(bytes)
            | Cause::ProtocolViolation(bytes) => buffer.put_slice(bytes),
            Cause::UnrecognizedParameters(parameters)
            | Cause::RestartWithNewAddresses(parameters)
            | Cause::RequestToDeleteLastIpAddress(parameters)
            | Cause::OperationRefusedDueToResourceShortage(parameters)
            | Cause::RequestToDeleteSourceIpAddress(parameters)
            | Cause::RequestRefusedNoAuthorization(parameters) => {
                buffer.put_slice(parameters.as_bytes());
            }
            Cause::NoUserData { tsn } => buffer.put_u32(tsn.0),
            Cause::UnsupportedHmacIdentifier { hmac_identifier } => {
                buffer.put_u16(hmac_identifier.0);
            }
            Cause::Other(tlv) => buffer.put_slice(tlv.value()),
        }
    }
}

impl<'a> Causes<'a> {
    /// Error causes that lie in `bytes` one after another.
    pub fn new(bytes: &'a [u8]) -> Causes<'a> {
        Causes(bytes)
    }

    /// The bytes in which they lie.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Walks them in order.
    pub fn iter(&self) -> CauseIterator<'a> {
        CauseIterator(Tlvs::new(self.0))
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<Cause<'a>, FormatError<'a>>;
    type IntoIter = CauseIterator<'a>;

    fn into_iter(self) -> CauseIterator<'a> {
        self.iter()
    }
}

impl<'a> CauseIterator<'a> {
    /// Walks the rest without looking into the information.
    pub fn raw(self) -> Tlvs<'a> {
        self.0
    }
}

impl<'a> Iterator for CauseIterator<'a> {
    type Item = Result<Cause<'a>, FormatError<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| item.and_then(Cause::read))
    }
}

impl FusedIterator for CauseIterator<'_> {}

impl CauseBuffer {
    /// An empty buffer.
    pub fn new() -> CauseBuffer {
        CauseBuffer::default()
    }

    /// Appends a cause.
    ///
    /// # Errors
    ///
    /// When its information is longer than a length field can tell; nothing is appended then.
    pub fn push(&mut self, cause: &Cause<'_>) -> Result<(), DoesNotFit> {
        push_tlv(&mut self.0, cause.code().0, |buffer| {
            cause.write_value(buffer)
        })
    }

    /// What has been collected. The last cause is not padded: its chunk's padding does that.
    pub fn causes(&self) -> Causes<'_> {
        Causes(&self.0)
    }
}

/// The list of missing types behind its 32-bit count (section 3.3.10.2).
fn missing_types(mut value: &[u8]) -> Option<TypeList<'_>> {
    let count = usize::try_from(value.try_get_u32().ok()?).ok()?;
    TypeList::read(value.get(..count.checked_mul(2)?)?)
}
