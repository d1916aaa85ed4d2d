//! The parameters of INIT, INIT ACK, HEARTBEAT, and HEARTBEAT ACK chunks (RFC 9260, sections 3.2.1,
//! 3.3.2, 3.3.3, and 3.3.5; RFC 4820).

use super::tlv::{HEADER_LENGTH, MAXIMUM_VALUE_LENGTH, Tlv, Tlvs, UnrecognizedAction, pad};
use super::{DoesNotFit, FormatError, FormatErrorKind};
use bytes::{BufMut, BytesMut};
use std::fmt;
use std::iter::FusedIterator;
use std::net::{Ipv4Addr, Ipv6Addr};

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
    /// Padding (RFC 4820, section 4): makes an INIT larger, and is to be ignored.
    Padding(&'a [u8]),
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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TypeList<'a>(&'a [[u8; 2]]);

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
    /// ECN Capable.
    pub const ECN_CAPABLE: ParameterType = ParameterType(0x8000);
    /// Padding (RFC 4820).
    pub const PADDING: ParameterType = ParameterType(0x8005);

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
                exactly(value).map(|increment| Parameter::CookiePreservative {
                    life_span_increment: u32::from_be_bytes(increment),
                })
            }
            ParameterType::HOST_NAME_ADDRESS => Some(Parameter::HostNameAddress(value)),
            ParameterType::SUPPORTED_ADDRESS_TYPES => {
                TypeList::read(value).map(Parameter::SupportedAddressTypes)
            }
            ParameterType::ECN_CAPABLE => value.is_empty().then_some(Parameter::EcnCapable),
            ParameterType::PADDING => Some(Parameter::Padding(value)),
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
            Parameter::Padding(_) => ParameterType::PADDING,
            Parameter::Other(tlv) => ParameterType(tlv.type_field()),
        }
    }

    fn write_value(&self, buffer: &mut BytesMut) {
        match self {
            Parameter::HeartbeatInfo(value)
            | Parameter::StateCookie(value)
            | Parameter::UnrecognizedParameter(value)
            | Parameter::HostNameAddress(value)
            | Parameter::Padding(value) => buffer.put_slice(value),
            Parameter::Ipv4Address(address) => buffer.put_slice(&address.octets()),
            Parameter::Ipv6Address(address) => buffer.put_slice(&address.octets()),
            Parameter::CookiePreservative {
                life_span_increment,
            } => buffer.put_u32(*life_span_increment),
            Parameter::SupportedAddressTypes(types) => buffer.put_slice(types.as_bytes()),
            Parameter::EcnCapable => {}
            Parameter::Other(tlv) => buffer.put_slice(tlv.value()),
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

impl<'a> TypeList<'a> {
    /// A list of types in network byte order (see [`ParameterType::to_be_bytes`]).
    pub fn new(types: &'a [[u8; 2]]) -> TypeList<'a> {
        TypeList(types)
    }

    /// The types in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ParameterType> + 'a {
        self.0
            .iter()
            .map(|&bytes| ParameterType(u16::from_be_bytes(bytes)))
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no type.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }

    pub(super) fn read(bytes: &'a [u8]) -> Option<TypeList<'a>> {
        match bytes.as_chunks() {
            (types, []) => Some(TypeList(types)),
            _ => None,
        }
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
