//! Parameters as they are on the wire (RFC 4666 section 3.2): tag, length, value, padding.

use bytes::{BufMut, Bytes, BytesMut};

use super::error::ReadError;
use crate::{MaskedPointCode, PointCode};

/// The tags of the parameters (section 3.2).
pub(crate) mod tag {
    pub(crate) const INFO_STRING: u16 = 0x0004;
    pub(crate) const ROUTING_CONTEXT: u16 = 0x0006;
    pub(crate) const DIAGNOSTIC_INFORMATION: u16 = 0x0007;
    pub(crate) const HEARTBEAT_DATA: u16 = 0x0009;
    pub(crate) const TRAFFIC_MODE_TYPE: u16 = 0x000b;
    pub(crate) const ERROR_CODE: u16 = 0x000c;
    pub(crate) const STATUS: u16 = 0x000d;
    pub(crate) const ASP_IDENTIFIER: u16 = 0x0011;
    pub(crate) const AFFECTED_POINT_CODE: u16 = 0x0012;
    pub(crate) const CORRELATION_ID: u16 = 0x0013;
    pub(crate) const NETWORK_APPEARANCE: u16 = 0x0200;
    pub(crate) const USER_CAUSE: u16 = 0x0204;
    pub(crate) const CONGESTION_INDICATIONS: u16 = 0x0205;
    pub(crate) const CONCERNED_DESTINATION: u16 = 0x0206;
    pub(crate) const ROUTING_KEY: u16 = 0x0207;
    pub(crate) const REGISTRATION_RESULT: u16 = 0x0208;
    pub(crate) const DEREGISTRATION_RESULT: u16 = 0x0209;
    pub(crate) const LOCAL_ROUTING_KEY_IDENTIFIER: u16 = 0x020a;
    pub(crate) const DESTINATION_POINT_CODE: u16 = 0x020b;
    pub(crate) const SERVICE_INDICATORS: u16 = 0x020c;
    pub(crate) const ORIGINATING_POINT_CODE_LIST: u16 = 0x020e;
    pub(crate) const PROTOCOL_DATA: u16 = 0x0210;
    pub(crate) const REGISTRATION_STATUS: u16 = 0x0212;
    pub(crate) const DEREGISTRATION_STATUS: u16 = 0x0213;
}

/// Tag and length.
const HEADER_LENGTH: usize = 4;

/// A parameter without its padding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter<'a> {
    pub(crate) tag: u16,
    pub(crate) value: &'a [u8],
}

/// The parameters of a message, or of a parameter that has some. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Parameters<'a> {
        Parameters { rest: bytes }
    }

    fn read_one(&mut self) -> Result<Parameter<'a>, ReadError> {
        let rest = std::mem::take(&mut self.rest);
        let (header, _) = rest
            .split_at_checked(HEADER_LENGTH)
            .ok_or(ReadError::CutShort)?;
        let tag = u16_at(header, 0);
        let length = usize::from(u16_at(header, 2));
        let wrong = ReadError::ParameterLength(tag);
        let parameter = rest.get(..length).ok_or(wrong.clone())?;
        let value = parameter.get(HEADER_LENGTH..).ok_or(wrong)?;
        // The last one's padding may be missing.
        self.rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Parameter { tag, value })
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rest.is_empty() {
            true => None,
            false => Some(self.read_one()),
        }
    }
}

/// The first of the parameters with each tag, where a message has one of it, and all routing keys and results.
#[derive(Debug, Default)]
pub(crate) struct ParameterSet<'a> {
    single: Vec<Parameter<'a>>,
    routing_keys: Vec<&'a [u8]>,
    results: Vec<Parameter<'a>>,
}

impl<'a> ParameterSet<'a> {
    /// Reads all. A parameter that may be there once only is an error when it comes again; one that we do not know is passed
    /// over (section 3: all messages may have parameters of later versions).
    pub(crate) fn read(bytes: &'a [u8]) -> Result<ParameterSet<'a>, ReadError> {
        let mut set = ParameterSet::default();
        for parameter in Parameters::new(bytes) {
            let parameter = parameter?;
            match parameter.tag {
                tag::ROUTING_KEY => set.routing_keys.push(parameter.value),
                tag::REGISTRATION_RESULT | tag::DEREGISTRATION_RESULT => {
                    set.results.push(parameter);
                }
                known if !is_known(known) => {}
                known if set.value(known).is_some() => return Err(ReadError::Repeated(known)),
                _ => set.single.push(parameter),
            }
        }
        Ok(set)
    }

    /// The value of the parameter with this tag.
    pub(crate) fn value(&self, tag: u16) -> Option<&'a [u8]> {
        let found = self.single.iter().find(|parameter| parameter.tag == tag);
        found.map(|parameter| parameter.value)
    }

    /// The values of all routing keys.
    pub(crate) fn routing_keys(&self) -> &[&'a [u8]] {
        &self.routing_keys
    }

    /// The values of all results with this tag.
    pub(crate) fn results(&self, tag: u16) -> impl Iterator<Item = &'a [u8]> {
        let of_tag = self.results.iter().filter(move |result| result.tag == tag);
        of_tag.map(|result| result.value)
    }

    /// A parameter that is one number.
    pub(crate) fn number(&self, tag: u16) -> Result<Option<u32>, ReadError> {
        self.value(tag).map(|value| number(tag, value)).transpose()
    }

    /// The same where it must be there.
    pub(crate) fn mandatory_number(&self, tag: u16) -> Result<u32, ReadError> {
        self.number(tag)?.ok_or(ReadError::Missing(tag))
    }

    /// A parameter that is a list of numbers; empty if it is not there.
    pub(crate) fn numbers(&self, tag: u16) -> Result<Vec<u32>, ReadError> {
        let Some(value) = self.value(tag) else {
            return Ok(Vec::new());
        };
        let (words, rest) = value.as_chunks::<4>();
        if words.is_empty() || !rest.is_empty() {
            return Err(ReadError::ParameterLength(tag));
        }
        Ok(words.iter().map(|word| u32::from_be_bytes(*word)).collect())
    }

    /// The mandatory list of affected point codes.
    pub(crate) fn affected(&self) -> Result<Vec<MaskedPointCode>, ReadError> {
        let words = self.numbers(tag::AFFECTED_POINT_CODE)?;
        match words.is_empty() {
            true => Err(ReadError::Missing(tag::AFFECTED_POINT_CODE)),
            false => Ok(words.into_iter().map(masked_point_code).collect()),
        }
    }

    /// A parameter of octets, as a part of the message that it came in.
    pub(crate) fn octets(&self, message: &Bytes, tag: u16) -> Option<Bytes> {
        self.value(tag).map(|value| message.slice_ref(value))
    }
}

/// Whether RFC 4666 has a single parameter with this tag in a message.
fn is_known(tag: u16) -> bool {
    matches!(
        tag,
        tag::INFO_STRING
            | tag::ROUTING_CONTEXT
            | tag::DIAGNOSTIC_INFORMATION
            | tag::HEARTBEAT_DATA
            | tag::TRAFFIC_MODE_TYPE
            | tag::ERROR_CODE
            | tag::STATUS
            | tag::ASP_IDENTIFIER
            | tag::AFFECTED_POINT_CODE
            | tag::CORRELATION_ID
            | tag::NETWORK_APPEARANCE
            | tag::USER_CAUSE
            | tag::CONGESTION_INDICATIONS
            | tag::CONCERNED_DESTINATION
            | tag::PROTOCOL_DATA
    )
}

/// The value of a parameter that is one number.
pub(crate) fn number(tag: u16, value: &[u8]) -> Result<u32, ReadError> {
    let octets = value.try_into();
    octets
        .map(u32::from_be_bytes)
        .map_err(|_| ReadError::ParameterLength(tag))
}

/// Mask and point code in a word (section 3.4.1).
pub(crate) fn masked_point_code(word: u32) -> MaskedPointCode {
    let [mask, high, middle, low] = word.to_be_bytes();
    let value = u32::from_be_bytes([0, high, middle, low]);
    MaskedPointCode {
        mask,
        point_code: PointCode::new(value).unwrap_or(PointCode::MAX),
    }
}

/// The reverse of [`masked_point_code`].
pub(crate) fn masked_word(range: MaskedPointCode) -> u32 {
    u32::from(range.mask) << 24 | range.point_code.value()
}

/// The two octets at `position`, 0 beyond the end.
pub(crate) fn u16_at(bytes: &[u8], position: usize) -> u16 {
    let octet = |at: usize| bytes.get(at).copied().unwrap_or_default();
    u16::from_be_bytes([octet(position), octet(position + 1)])
}

/// Writes parameters, into a message or into a parameter.
#[derive(Debug)]
pub(crate) struct ParameterWriter<'a> {
    buffer: &'a mut BytesMut,
    too_long: Option<u16>,
}

impl<'a> ParameterWriter<'a> {
    pub(crate) fn new(buffer: &'a mut BytesMut) -> ParameterWriter<'a> {
        ParameterWriter {
            buffer,
            too_long: None,
        }
    }

    /// The first parameter that was longer than its length field can say.
    pub(crate) fn too_long(&self) -> Option<u16> {
        self.too_long
    }

    /// A parameter with the parameters that `write` writes.
    pub(crate) fn nested(&mut self, tag: u16, write: impl FnOnce(&mut ParameterWriter<'_>)) {
        let start = self.begin(tag);
        let mut inner = ParameterWriter::new(self.buffer);
        write(&mut inner);
        self.too_long = self.too_long.or(inner.too_long);
        self.end(tag, start);
    }

    pub(crate) fn octets(&mut self, tag: u16, value: &[u8]) {
        self.pieces(tag, &[value]);
    }

    /// A parameter of octets that are not in one place.
    pub(crate) fn pieces(&mut self, tag: u16, pieces: &[&[u8]]) {
        let start = self.begin(tag);
        for piece in pieces {
            self.buffer.put_slice(piece);
        }
        self.end(tag, start);
    }

    pub(crate) fn optional_octets(&mut self, tag: u16, value: Option<&Bytes>) {
        if let Some(value) = value {
            self.octets(tag, value);
        }
    }

    pub(crate) fn number(&mut self, tag: u16, value: u32) {
        self.octets(tag, &value.to_be_bytes());
    }

    pub(crate) fn optional_number(&mut self, tag: u16, value: Option<u32>) {
        if let Some(value) = value {
            self.number(tag, value);
        }
    }

    /// A list of numbers; nothing if it is empty.
    pub(crate) fn numbers(&mut self, tag: u16, values: impl ExactSizeIterator<Item = u32>) {
        if values.len() == 0 {
            return;
        }
        let start = self.begin(tag);
        for value in values {
            self.buffer.put_u32(value);
        }
        self.end(tag, start);
    }

    /// A list of point codes; nothing if it is empty.
    pub(crate) fn point_codes(&mut self, tag: u16, ranges: &[MaskedPointCode]) {
        self.numbers(tag, ranges.iter().copied().map(masked_word));
    }

    /// The head of a parameter, and where it begins.
    fn begin(&mut self, tag: u16) -> usize {
        let start = self.buffer.len();
        self.buffer.put_u16(tag);
        self.buffer.put_u16(0);
        start
    }

    /// Its length, and its padding, which does not count (section 3.2).
    fn end(&mut self, tag: u16, start: usize) {
        let length = self.buffer.len() - start;
        match u16::try_from(length) {
            Ok(length) => {
                if let Some(field) = self.buffer.get_mut(start + 2..start + 4) {
                    field.copy_from_slice(&length.to_be_bytes());
                }
            }
            Err(_) => self.too_long = self.too_long.or(Some(tag)),
        }
        self.buffer
            .put_bytes(0, length.next_multiple_of(4) - length);
    }
}
