//! The parameters of chunks (RFC 9260, sections 3.2.1, 3.3.2, 3.3.3, and 3.3.5, and the extensions).

mod asconf;
mod re_config;

pub use asconf::{AddressRequest, ErrorCauseIndication};
pub use re_config::{
    AddStreamsRequest, IncomingSsnResetRequest, NextTsns, OutgoingSsnResetRequest,
    ReConfigResponse, ReConfigResult, StreamList,
};

use super::chunk_type::ChunkTypeList;
use super::hmac::HmacList;
use super::list::U16List;
use super::tlv::{HEADER_LENGTH, MAXIMUM_VALUE_LENGTH, Tlv, Tlvs, UnrecognizedAction, pad};
use super::{DoesNotFit, FormatError, FormatErrorKind, SequenceNumber};
use bytes::{BufMut, BytesMut};
use std::fmt;
use std::iter::FusedIterator;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParameterType(pub u16);

/// One parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameter<'a> {
    /// Heartbeat Info (section 3.3.5): only its sender knows what it means.
    HeartbeatInfo(&'a [u8]),
    /// An IPv4 address of the sender (section 3.3.2.1.1).
    Ipv4Address(Ipv4Addr),
    /// An IPv6 address of the sender (section 3.3.2.1.2).
    Ipv6Address(Ipv6Addr),
    /// State Cookie (section 3.3.3.1.1).
    StateCookie(&'a [u8]),
    /// Unrecognized Parameter (section 3.3.3.1.2): a parameter of the INIT, with type and length,
    /// that comes back because it was not recognized.
    UnrecognizedParameter(&'a [u8]),
    /// Cookie Preservative (section 3.3.2.1.3): by how much the sender would like the cookie to
    /// live longer.
    CookiePreservative {
        /// Suggested Cookie Life-Span Increment, in milliseconds.
        life_span_increment: u32,
    },
    /// Host Name Address (section 3.3.2.1.4): deprecated, and answered by an ABORT.
    HostNameAddress(&'a [u8]),
    /// Supported Address Types (section 3.3.2.1.5).
    SupportedAddressTypes(TypeList<'a>),
    /// ECN Capable: reserved (section 3.3.2, note 2).
    EcnCapable,
    /// Outgoing SSN Reset Request (RFC 6525, section 4.1).
    OutgoingSsnResetRequest(OutgoingSsnResetRequest<'a>),
    /// Incoming SSN Reset Request (RFC 6525, section 4.2).
    IncomingSsnResetRequest(IncomingSsnResetRequest<'a>),
    /// SSN/TSN Reset Request: all numbers of both sides begin again (RFC 6525, section 4.3).
    SsnTsnResetRequest {
        /// Re-configuration Request Sequence Number: the number of this request.
        request_sequence_number: SequenceNumber,
    },
    /// Re-configuration Response (RFC 6525, section 4.4).
    ReConfigResponse(ReConfigResponse),
    /// Add Outgoing Streams Request (RFC 6525, section 4.5).
    AddOutgoingStreamsRequest(AddStreamsRequest),
    /// Add Incoming Streams Request (RFC 6525, section 4.6).
    AddIncomingStreamsRequest(AddStreamsRequest),
    /// Zero Checksum Acceptable (RFC 9653, section 4).
    ZeroChecksumAcceptable {
        /// Error Detection Method Identifier: what protects packets in the checksum's stead.
        error_detection_method: u32,
    },
    /// RANDOM: a Random Number for the association's keys (RFC 4895, section 3.1).
    Random(&'a [u8]),
    /// CHUNKS: types of chunks that the peer is to authenticate (RFC 4895, section 3.2).
    Chunks(ChunkTypeList<'a>),
    /// HMAC-ALGO: algorithms that the peer may use, the best one first (RFC 4895, section 3.3).
    HmacAlgo(HmacList<'a>),
    /// Padding (RFC 4820, section 4): makes an INIT larger, and is to be ignored.
    Padding(&'a [u8]),
    /// Supported Extensions: types of chunks that the sender understands (RFC 5061, section 4.2.7).
    SupportedExtensions(ChunkTypeList<'a>),
    /// Forward-TSN-Supported (RFC 3758, section 3.1).
    ForwardTsnSupported,
    /// Add IP Address (RFC 5061, section 4.2.1).
    AddIpAddress(AddressRequest),
    /// Delete IP Address (RFC 5061, section 4.2.2).
    DeleteIpAddress(AddressRequest),
    /// Error Cause Indication (RFC 5061, section 4.2.3).
    ErrorCauseIndication(ErrorCauseIndication<'a>),
    /// Set Primary Address (RFC 5061, section 4.2.4). In an INIT or INIT ACK it is no request of an
    /// ASCONF, and its correlation identifier means nothing.
    SetPrimaryAddress(AddressRequest),
    /// Success Indication (RFC 5061, section 4.2.5).
    SuccessIndication {
        /// ASCONF-Response Correlation ID: that of the request.
        correlation_id: u32,
    },
    /// Adaptation Layer Indication (RFC 5061, section 4.2.6).
    AdaptationLayerIndication {
        /// Adaptation Code Point: the upper layer's business.
        code_point: u32,
    },
    /// A parameter of a type that is not known here.
    Other(Tlv<'a>),
}

/// The parameters of a chunk, as they lie in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Parameters<'a>(&'a [u8]);

/// Walks parameters. After one whose framing is broken there are no more; after one whose fields do
/// not fit its type the walk goes on.
#[derive(Clone, Debug)]
pub struct ParameterIterator<'a>(Tlvs<'a>);

/// Collects parameters to be written into a chunk.
#[derive(Clone, Default, Debug)]
pub struct ParameterBuffer(BytesMut);

/// A list of parameter types.
pub type TypeList<'a> = U16List<'a, ParameterType>;

impl ParameterType {
    /// Heartbeat Info.
    pub const HEARTBEAT_INFO: ParameterType = ParameterType(1);
    /// IPv4 Address.
    pub const IPV4_ADDRESS: ParameterType = ParameterType(5);
    /// IPv6 Address.
    pub const IPV6_ADDRESS: ParameterType = ParameterType(6);
    /// State Cookie.
    pub const STATE_COOKIE: ParameterType = ParameterType(7);
    /// Unrecognized Parameter.
    pub const UNRECOGNIZED_PARAMETER: ParameterType = ParameterType(8);
    /// Cookie Preservative.
    pub const COOKIE_PRESERVATIVE: ParameterType = ParameterType(9);
    /// Host Name Address.
    pub const HOST_NAME_ADDRESS: ParameterType = ParameterType(11);
    /// Supported Address Types.
    pub const SUPPORTED_ADDRESS_TYPES: ParameterType = ParameterType(12);
    /// Outgoing SSN Reset Request (RFC 6525).
    pub const OUTGOING_SSN_RESET_REQUEST: ParameterType = ParameterType(13);
    /// Incoming SSN Reset Request (RFC 6525).
    pub const INCOMING_SSN_RESET_REQUEST: ParameterType = ParameterType(14);
    /// SSN/TSN Reset Request (RFC 6525).
    pub const SSN_TSN_RESET_REQUEST: ParameterType = ParameterType(15);
    /// Re-configuration Response (RFC 6525).
    pub const RE_CONFIG_RESPONSE: ParameterType = ParameterType(16);
    /// Add Outgoing Streams Request (RFC 6525).
    pub const ADD_OUTGOING_STREAMS_REQUEST: ParameterType = ParameterType(17);
    /// Add Incoming Streams Request (RFC 6525).
    pub const ADD_INCOMING_STREAMS_REQUEST: ParameterType = ParameterType(18);
    /// ECN Capable.
    pub const ECN_CAPABLE: ParameterType = ParameterType(0x8000);
    /// Zero Checksum Acceptable (RFC 9653).
    pub const ZERO_CHECKSUM_ACCEPTABLE: ParameterType = ParameterType(0x8001);
    /// Random (RFC 4895).
    pub const RANDOM: ParameterType = ParameterType(0x8002);
    /// Chunk List (RFC 4895).
    pub const CHUNKS: ParameterType = ParameterType(0x8003);
    /// Requested HMAC Algorithm (RFC 4895).
    pub const HMAC_ALGO: ParameterType = ParameterType(0x8004);
    /// Padding (RFC 4820).
    pub const PADDING: ParameterType = ParameterType(0x8005);
    /// Supported Extensions (RFC 5061).
    pub const SUPPORTED_EXTENSIONS: ParameterType = ParameterType(0x8008);
    /// Forward-TSN-Supported (RFC 3758).
    pub const FORWARD_TSN_SUPPORTED: ParameterType = ParameterType(0xc000);
    /// Add IP Address (RFC 5061).
    pub const ADD_IP_ADDRESS: ParameterType = ParameterType(0xc001);
    /// Delete IP Address (RFC 5061).
    pub const DELETE_IP_ADDRESS: ParameterType = ParameterType(0xc002);
    /// Error Cause Indication (RFC 5061).
    pub const ERROR_CAUSE_INDICATION: ParameterType = ParameterType(0xc003);
    /// Set Primary Address (RFC 5061).
    pub const SET_PRIMARY_ADDRESS: ParameterType = ParameterType(0xc004);
    /// Success Indication (RFC 5061).
    pub const SUCCESS_INDICATION: ParameterType = ParameterType(0xc005);
    /// Adaptation Layer Indication (RFC 5061).
    pub const ADAPTATION_LAYER_INDICATION: ParameterType = ParameterType(0xc006);

    /// What to do with a parameter of this type by someone who does not recognize it.
    pub fn unrecognized_action(self) -> UnrecognizedAction {
        let [highest, _] = self.0.to_be_bytes();
        UnrecognizedAction::of_highest_bits(highest)
    }

    /// The type in network byte order, as a [`TypeList`] holds it.
    pub const fn to_be_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

impl From<u16> for ParameterType {
    fn from(parameter_type: u16) -> ParameterType {
        ParameterType(parameter_type)
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            ParameterType::HEARTBEAT_INFO => "Heartbeat Info",
            ParameterType::IPV4_ADDRESS => "IPv4 Address",
            ParameterType::IPV6_ADDRESS => "IPv6 Address",
            ParameterType::STATE_COOKIE => "State Cookie",
            ParameterType::UNRECOGNIZED_PARAMETER => "Unrecognized Parameter",
            ParameterType::COOKIE_PRESERVATIVE => "Cookie Preservative",
            ParameterType::HOST_NAME_ADDRESS => "Host Name Address",
            ParameterType::SUPPORTED_ADDRESS_TYPES => "Supported Address Types",
            ParameterType::OUTGOING_SSN_RESET_REQUEST => "Outgoing SSN Reset Request",
            ParameterType::INCOMING_SSN_RESET_REQUEST => "Incoming SSN Reset Request",
            ParameterType::SSN_TSN_RESET_REQUEST => "SSN/TSN Reset Request",
            ParameterType::RE_CONFIG_RESPONSE => "Re-configuration Response",
            ParameterType::ADD_OUTGOING_STREAMS_REQUEST => "Add Outgoing Streams Request",
            ParameterType::ADD_INCOMING_STREAMS_REQUEST => "Add Incoming Streams Request",
            ParameterType::ECN_CAPABLE => "ECN Capable",
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE => "Zero Checksum Acceptable",
            ParameterType::RANDOM => "Random",
            ParameterType::CHUNKS => "Chunk List",
            ParameterType::HMAC_ALGO => "Requested HMAC Algorithm",
            ParameterType::PADDING => "Padding",
            ParameterType::SUPPORTED_EXTENSIONS => "Supported Extensions",
            ParameterType::FORWARD_TSN_SUPPORTED => "Forward-TSN-Supported",
            ParameterType::ADD_IP_ADDRESS => "Add IP Address",
            ParameterType::DELETE_IP_ADDRESS => "Delete IP Address",
            ParameterType::ERROR_CAUSE_INDICATION => "Error Cause Indication",
            ParameterType::SET_PRIMARY_ADDRESS => "Set Primary Address",
            ParameterType::SUCCESS_INDICATION => "Success Indication",
            ParameterType::ADAPTATION_LAYER_INDICATION => "Adaptation Layer Indication",
            ParameterType(other) => return write!(f, "parameter type {other:#06x}"),
        })
    }
}

impl fmt::Debug for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParameterType({:#06x})", self.0)
    }
}

impl<'a> Parameter<'a> {
    /// Reads the value by its type.
    ///
    /// # Errors
    ///
    /// When the value does not hold the fields that the type prescribes.
    pub fn read(tlv: Tlv<'a>) -> Result<Parameter<'a>, FormatError<'a>> {
        let value = tlv.value();
        let parameter = match ParameterType(tlv.type_field()) {
            ParameterType::HEARTBEAT_INFO => Some(Parameter::HeartbeatInfo(value)),
            ParameterType::IPV4_ADDRESS => {
                exactly::<4>(value).map(|octets| Parameter::Ipv4Address(octets.into()))
            }
            ParameterType::IPV6_ADDRESS => {
                exactly::<16>(value).map(|octets| Parameter::Ipv6Address(octets.into()))
            }
            ParameterType::STATE_COOKIE => Some(Parameter::StateCookie(value)),
            ParameterType::UNRECOGNIZED_PARAMETER => Some(Parameter::UnrecognizedParameter(value)),
            ParameterType::COOKIE_PRESERVATIVE => {
                number(value).map(|increment| Parameter::CookiePreservative {
                    life_span_increment: increment,
                })
            }
            ParameterType::HOST_NAME_ADDRESS => Some(Parameter::HostNameAddress(value)),
            ParameterType::SUPPORTED_ADDRESS_TYPES => {
                TypeList::read(value).map(Parameter::SupportedAddressTypes)
            }
            ParameterType::ECN_CAPABLE => value.is_empty().then_some(Parameter::EcnCapable),
            ParameterType::OUTGOING_SSN_RESET_REQUEST => {
                OutgoingSsnResetRequest::read(value).map(Parameter::OutgoingSsnResetRequest)
            }
            ParameterType::INCOMING_SSN_RESET_REQUEST => {
                IncomingSsnResetRequest::read(value).map(Parameter::IncomingSsnResetRequest)
            }
            ParameterType::SSN_TSN_RESET_REQUEST => {
                number(value).map(|request| Parameter::SsnTsnResetRequest {
                    request_sequence_number: SequenceNumber(request),
                })
            }
            ParameterType::RE_CONFIG_RESPONSE => {
                ReConfigResponse::read(value).map(Parameter::ReConfigResponse)
            }
            ParameterType::ADD_OUTGOING_STREAMS_REQUEST => {
                AddStreamsRequest::read(value).map(Parameter::AddOutgoingStreamsRequest)
            }
            ParameterType::ADD_INCOMING_STREAMS_REQUEST => {
                AddStreamsRequest::read(value).map(Parameter::AddIncomingStreamsRequest)
            }
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE => {
                number(value).map(|method| Parameter::ZeroChecksumAcceptable {
                    error_detection_method: method,
                })
            }
            ParameterType::RANDOM => Some(Parameter::Random(value)),
            ParameterType::CHUNKS => Some(Parameter::Chunks(ChunkTypeList::new(value))),
            ParameterType::HMAC_ALGO => HmacList::read(value).map(Parameter::HmacAlgo),
            ParameterType::PADDING => Some(Parameter::Padding(value)),
            ParameterType::SUPPORTED_EXTENSIONS => {
                Some(Parameter::SupportedExtensions(ChunkTypeList::new(value)))
            }
            ParameterType::FORWARD_TSN_SUPPORTED => {
                value.is_empty().then_some(Parameter::ForwardTsnSupported)
            }
            ParameterType::ADD_IP_ADDRESS => {
                AddressRequest::read(value).map(Parameter::AddIpAddress)
            }
            ParameterType::DELETE_IP_ADDRESS => {
                AddressRequest::read(value).map(Parameter::DeleteIpAddress)
            }
            ParameterType::ERROR_CAUSE_INDICATION => {
                ErrorCauseIndication::read(value).map(Parameter::ErrorCauseIndication)
            }
            ParameterType::SET_PRIMARY_ADDRESS => {
                AddressRequest::read(value).map(Parameter::SetPrimaryAddress)
            }
            ParameterType::SUCCESS_INDICATION => {
                number(value).map(|correlation_id| Parameter::SuccessIndication { correlation_id })
            }
            ParameterType::ADAPTATION_LAYER_INDICATION => {
                number(value).map(|code_point| Parameter::AdaptationLayerIndication { code_point })
            }
            _ => Some(Parameter::Other(tlv)),
        };
        parameter.ok_or(FormatError::new(
            FormatErrorKind::MalformedValue,
            tlv.bytes(),
        ))
    }

    /// The type of this parameter.
    pub fn parameter_type(&self) -> ParameterType {
        match self {
            Parameter::HeartbeatInfo(_) => ParameterType::HEARTBEAT_INFO,
            Parameter::Ipv4Address(_) => ParameterType::IPV4_ADDRESS,
            Parameter::Ipv6Address(_) => ParameterType::IPV6_ADDRESS,
            Parameter::StateCookie(_) => ParameterType::STATE_COOKIE,
            Parameter::UnrecognizedParameter(_) => ParameterType::UNRECOGNIZED_PARAMETER,
            Parameter::CookiePreservative { .. } => ParameterType::COOKIE_PRESERVATIVE,
            Parameter::HostNameAddress(_) => ParameterType::HOST_NAME_ADDRESS,
            Parameter::SupportedAddressTypes(_) => ParameterType::SUPPORTED_ADDRESS_TYPES,
            Parameter::EcnCapable => ParameterType::ECN_CAPABLE,
            Parameter::OutgoingSsnResetRequest(_) => ParameterType::OUTGOING_SSN_RESET_REQUEST,
            Parameter::IncomingSsnResetRequest(_) => ParameterType::INCOMING_SSN_RESET_REQUEST,
            Parameter::SsnTsnResetRequest { .. } => ParameterType::SSN_TSN_RESET_REQUEST,
            Parameter::ReConfigResponse(_) => ParameterType::RE_CONFIG_RESPONSE,
            Parameter::AddOutgoingStreamsRequest(_) => ParameterType::ADD_OUTGOING_STREAMS_REQUEST,
            Parameter::AddIncomingStreamsRequest(_) => ParameterType::ADD_INCOMING_STREAMS_REQUEST,
            Parameter::ZeroChecksumAcceptable { .. } => ParameterType::ZERO_CHECKSUM_ACCEPTABLE,
            Parameter::Random(_) => ParameterType::RANDOM,
            Parameter::Chunks(_) => ParameterType::CHUNKS,
            Parameter::HmacAlgo(_) => ParameterType::HMAC_ALGO,
            Parameter::Padding(_) => ParameterType::PADDING,
            Parameter::SupportedExtensions(_) => ParameterType::SUPPORTED_EXTENSIONS,
            Parameter::ForwardTsnSupported => ParameterType::FORWARD_TSN_SUPPORTED,
            Parameter::AddIpAddress(_) => ParameterType::ADD_IP_ADDRESS,
            Parameter::DeleteIpAddress(_) => ParameterType::DELETE_IP_ADDRESS,
            Parameter::ErrorCauseIndication(_) => ParameterType::ERROR_CAUSE_INDICATION,
            Parameter::SetPrimaryAddress(_) => ParameterType::SET_PRIMARY_ADDRESS,
            Parameter::SuccessIndication { .. } => ParameterType::SUCCESS_INDICATION,
            Parameter::AdaptationLayerIndication { .. } => {
                ParameterType::ADAPTATION_LAYER_INDICATION
            }
            Parameter::Other(tlv) => ParameterType(tlv.type_field()),
        }
    }

    fn write_value(&self, buffer: &mut BytesMut) {
        match self {
            Parameter::HeartbeatInfo(value)
            | Parameter::StateCookie(value)
            | Parameter::UnrecognizedParameter(value)
            | Parameter::HostNameAddress(value)
            | Parameter::Random(value)
            | Parameter::Padding(value) => buffer.put_slice(value),
            Parameter::Ipv4Address(address) => buffer.put_slice(&address.octets()),
            Parameter::Ipv6Address(address) => buffer.put_slice(&address.octets()),
            Parameter::CookiePreservative {
                life_span_increment: number,
            }
            | Parameter::SsnTsnResetRequest {
                request_sequence_number: SequenceNumber(number),
            }
            | Parameter::ZeroChecksumAcceptable {
                error_detection_method: number,
            }
            | Parameter::SuccessIndication {
                correlation_id: number,
            }
            | Parameter::AdaptationLayerIndication { code_point: number } => {
                buffer.put_u32(*number);
            }
            Parameter::SupportedAddressTypes(types) => buffer.put_slice(types.as_bytes()),
            Parameter::OutgoingSsnResetRequest(request) => request.write(buffer),
            Parameter::IncomingSsnResetRequest(request) => request.write(buffer),
            Parameter::ReConfigResponse(response) => response.write(buffer),
            Parameter::AddOutgoingStreamsRequest(request)
            | Parameter::AddIncomingStreamsRequest(request) => request.write(buffer),
            Parameter::Chunks(types) | Parameter::SupportedExtensions(types) => {
                buffer.put_slice(types.as_bytes());
            }
            Parameter::HmacAlgo(identifiers) => buffer.put_slice(identifiers.as_bytes()),
            Parameter::AddIpAddress(request)
            | Parameter::DeleteIpAddress(request)
            | Parameter::SetPrimaryAddress(request) => request.write(buffer),
            Parameter::ErrorCauseIndication(indication) => indication.write(buffer),
            Parameter::EcnCapable | Parameter::ForwardTsnSupported => {}
            Parameter::Other(tlv) => buffer.put_slice(tlv.value()),
        }
    }
}

impl From<IpAddr> for Parameter<'_> {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Parameter::Ipv4Address(address),
            IpAddr::V6(address) => Parameter::Ipv6Address(address),
        }
    }
}

impl<'a> Parameters<'a> {
    /// Parameters that lie in `bytes` one after another.
    pub fn new(bytes: &'a [u8]) -> Parameters<'a> {
        Parameters(bytes)
    }

    /// The bytes in which they lie.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Walks them in order.
    pub fn iter(&self) -> ParameterIterator<'a> {
        ParameterIterator(Tlvs::new(self.0))
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, FormatError<'a>>;
    type IntoIter = ParameterIterator<'a>;

    fn into_iter(self) -> ParameterIterator<'a> {
        self.iter()
    }
}

impl<'a> ParameterIterator<'a> {
    /// Walks the rest without looking into the values, for those who must tell a parameter to
    /// its sender as it came.
    pub fn raw(self) -> Tlvs<'a> {
        self.0
    }
}

impl<'a> Iterator for ParameterIterator<'a> {
    type Item = Result<Parameter<'a>, FormatError<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| item.and_then(Parameter::read))
    }
}

impl FusedIterator for ParameterIterator<'_> {}

impl ParameterBuffer {
    /// An empty buffer.
    pub fn new() -> ParameterBuffer {
        ParameterBuffer::default()
    }

    /// Appends a parameter.
    ///
    /// # Errors
    ///
    /// When its value is longer than a length field can tell; nothing is appended then.
    pub fn push(&mut self, parameter: &Parameter<'_>) -> Result<(), DoesNotFit> {
        push_tlv(&mut self.0, parameter.parameter_type().0, |buffer| {
            parameter.write_value(buffer);
        })
    }

    /// What has been collected. The last parameter is not padded: its chunk's padding does that.
    pub fn parameters(&self) -> Parameters<'_> {
        Parameters(&self.0)
    }
}

/// Appends an item after padding the one before it.
pub(super) fn push_tlv(
    buffer: &mut BytesMut,
    type_field: u16,
    value: impl FnOnce(&mut BytesMut),
) -> Result<(), DoesNotFit> {
    let before = buffer.len();
    pad(buffer, 0);
    let start = buffer.len();
    buffer.put_u16(type_field);
    buffer.put_u16(0);
    value(buffer);
    let length = buffer.len() - start;
    if length > HEADER_LENGTH + MAXIMUM_VALUE_LENGTH {
        buffer.truncate(before);
        return Err(DoesNotFit);
    }
    if let Some(field) = buffer.get_mut(start + 2..start + HEADER_LENGTH) {
        field.copy_from_slice(&(length as u16).to_be_bytes());
    }
    Ok(())
}

/// The value when it has exactly the length of the one field that it consists of.
fn exactly<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

/// The number when the value consists of that one field.
fn number(value: &[u8]) -> Option<u32> {
    exactly(value).map(u32::from_be_bytes)
}
