//! STUN as far as a SIP port speaks it: Binding requests that keep NAT bindings open are answered, and sent
//! (RFC 5626 sections 3.5.2 and 8, STUN by RFC 8489). No authentication, no other method.

mod client;

use std::net::{IpAddr, SocketAddr};

use bytes::Buf;
use crc_fast::{CrcAlgorithm, checksum};

pub use client::{BindingResponse, binding_request, read_binding_response};

/// Whether a datagram is a STUN message (RFC 8489 section 5). No SIP message begins like one: its
/// first octet is a letter, or an empty line's.
pub fn is_stun(datagram: &[u8]) -> bool {
    let Some((header, attributes)) = datagram.split_first_chunk::<HEADER>() else {
        return false;
    };
    let [first, _, length_high, length_low, cookie @ ..] = header;
    let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
    first & 0xc0 == 0
        && cookie.starts_with(&COOKIE)
        && length == attributes.len()
        && length.is_multiple_of(4)
}

/// The answer to a Binding request: the address that it came from, or which of its attributes are
/// not understood (RFC 8489 section 6.3.1). `None` for what is to be discarded: no STUN, no Binding
/// request, attributes that do not add up, a wrong FINGERPRINT.
///
/// The answer repeats nothing but numbers of the request, and no part of it is made longer than
/// what asked for it by more than an address.
pub fn answer_binding(datagram: &[u8], source: SocketAddr) -> Option<Vec<u8>> {
    if !is_stun(datagram) || !datagram.starts_with(&BINDING_REQUEST) {
        return None;
    }
    let attributes = Attributes::read(datagram)?;
    let kind = if attributes.unknown.is_empty() {
        BINDING_SUCCESS
    } else {
        BINDING_ERROR
    };
    let mut answer = Vec::with_capacity(HEADER + 64);
    answer.extend_from_slice(&kind);
    answer.extend_from_slice(&[0, 0]);
    // The cookie and the transaction's id.
    answer.extend_from_slice(datagram.get(4..HEADER)?);
    if attributes.unknown.is_empty() {
        append_xor_mapped_address(source, &mut answer);
    } else {
        append_attribute(ERROR_CODE, UNKNOWN_ATTRIBUTE, &mut answer);
        let unknown = attributes
            .unknown
            .iter()
            .flat_map(|kind| kind.to_be_bytes());
        append_attribute(
            UNKNOWN_ATTRIBUTES,
            &unknown.collect::<Vec<_>>(),
            &mut answer,
        );
    }
    if attributes.has_fingerprint {
        append_fingerprint(&mut answer);
    } else {
        put_length(&mut answer);
    }
    Some(answer)
}

/// What is to be known of a request's attributes.
#[derive(Debug, Default)]
struct Attributes {
    /// Those that have to be understood and are not.
    unknown: Vec<u16>,
    has_fingerprint: bool,
}

impl Attributes {
    /// `None` where they do not fill the message or the FINGERPRINT is wrong.
    fn read(message: &[u8]) -> Option<Attributes> {
        let mut attributes = Attributes::default();
        let mut position = HEADER;
        while position < message.len() {
            let mut rest = message.get(position..)?;
            let kind = rest.try_get_u16().ok()?;
            let length = usize::from(rest.try_get_u16().ok()?);
            let value = rest.get(..length)?;
            let end = position + 4 + length.next_multiple_of(4);
            match kind {
                FINGERPRINT => {
                    // It is the last one (section 14.7).
                    if value != fingerprint(message.get(..position)?) || end != message.len() {
                        return None;
                    }
                    attributes.has_fingerprint = true;
                }
                kind if kind < FIRST_OPTIONAL && !KNOWN.contains(&kind) => {
                    attributes.unknown.push(kind);
                }
                _ => {}
            }
            position = end;
        }
        (position == message.len()).then_some(attributes)
    }
}

/// Section 14.2.
fn append_xor_mapped_address(address: SocketAddr, answer: &mut Vec<u8>) {
    let key: Vec<u8> = answer.iter().skip(4).copied().collect();
    let xor = |octets: &[u8]| -> Vec<u8> {
        octets
            .iter()
            .zip(&key)
            .map(|(octet, key)| octet ^ key)
            .collect()
    };
    let (family, ip) = match address.ip().to_canonical() {
        IpAddr::V4(ip) => (1, xor(&ip.octets())),
        IpAddr::V6(ip) => (2, xor(&ip.octets())),
    };
    let mut value = vec![0, family];
    value.extend(xor(&address.port().to_be_bytes()));
    value.extend(ip);
    append_attribute(XOR_MAPPED_ADDRESS, &value, answer);
}

/// Section 14: padded with zeros, which do not count.
fn append_attribute(kind: u16, value: &[u8], message: &mut Vec<u8>) {
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&(value.len() as u16).to_be_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The last attribute, over a header that counts it (section 14.7).
fn append_fingerprint(message: &mut Vec<u8>) {
    let end = message.len();
    append_attribute(FINGERPRINT, &[0; 4], message);
    put_length(message);
    let value = fingerprint(message.get(..end).unwrap_or_default());
    message.truncate(end);
    append_attribute(FINGERPRINT, &value, message);
}

/// Writes the length of what follows the header.
fn put_length(message: &mut [u8]) {
    let length = (message.len().saturating_sub(HEADER)) as u16;
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

fn fingerprint(covered: &[u8]) -> [u8; 4] {
    // Of the 64 bits that all checksums are given in, a CRC-32 has the lower half.
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, covered) as u32;
    (crc ^ 0x5354_554e).to_be_bytes()
}

/// Bytes of a header (section 5).
const HEADER: usize = 20;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];
const BINDING_ERROR: [u8; 2] = [0x01, 0x11];

const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const FINGERPRINT: u16 = 0x8028;
/// From here on attributes may be ignored (section 14).
const FIRST_OPTIONAL: u16 = 0x8000;

/// MAPPED-ADDRESS, USERNAME, MESSAGE-INTEGRITY, ERROR-CODE, UNKNOWN-ATTRIBUTES, REALM, NONCE,
/// MESSAGE-INTEGRITY-SHA256, PASSWORD-ALGORITHM, USERHASH, XOR-MAPPED-ADDRESS (section 18.3): not
/// expected in a request to us, and known, so they are ignored (section 6.3).
const KNOWN: [u16; 11] = [
    0x0001, 0x0006, 0x0008, 0x0009, 0x000a, 0x0014, 0x0015, 0x001c, 0x001d, 0x001e, 0x0020,
];

/// Class 4, number 20, and the reason that is recommended (section 14.8).
const UNKNOWN_ATTRIBUTE: &[u8] = b"\0\0\x04\x14Unknown Attribute";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(attributes: &[u8]) -> Vec<u8> {
        let mut message = [
            &BINDING_REQUEST[..],
            &[0, 0],
            &COOKIE,
            b"transactions",
            attributes,
        ]
        .concat();
        put_length(&mut message);
        message
    }

    fn source() -> SocketAddr {
        "192.0.2.1:32853".parse().expect("an address")
    }

    #[test]
    fn a_request_is_answered_with_its_source() {
        let answer = answer_binding(&request(&[]), source()).expect("an answer");
        let expected = [
            b"\x01\x01\x00\x0c\x21\x12\xa4\x42transactions\x00\x20\x00\x08\x00\x01".as_slice(),
            b"\xa1\x47\xe1\x12\xa6\x43",
        ];
        assert_eq!(answer, expected.concat());
    }

    #[test]
    fn an_ipv6_address_is_mixed_with_the_transaction() {
        let source = "[2001:db8::1]:5060".parse().expect("an address");
        let answer = answer_binding(&request(&[]), source).expect("an answer");
        let (_, value) = answer.split_at(HEADER + 4);
        assert_eq!(value[..2], [0, 2]);
        let key = [&COOKIE[..], b"transactions"].concat();
        let ip: Vec<u8> = value[4..]
            .iter()
            .zip(&key)
            .map(|(octet, key)| octet ^ key)
            .collect();
        assert_eq!(
            ip,
            "2001:db8::1"
                .parse::<std::net::Ipv6Addr>()
                .expect("an address")
                .octets()
        );
        assert_eq!(u16::from_be_bytes([value[2], value[3]]) ^ 0x2112, 5060);
    }

    #[test]
    fn a_fingerprint_is_checked_and_answered_with_one() {
        let mut message = request(&[]);
        append_fingerprint(&mut message);
        let answer = answer_binding(&message, source()).expect("an answer");
        assert!(is_stun(&answer));
        let (covered, last) = answer.split_at(answer.len() - 8);
        assert_eq!(last[..4], [0x80, 0x28, 0, 4]);
        assert_eq!(last[4..], fingerprint(covered));

        let end = message.len() - 1;
        message[end] ^= 1;
        assert_eq!(answer_binding(&message, source()), None);
        message[end] ^= 1;
        // Not the last one.
        append_attribute(0x8022, b"name", &mut message);
        put_length(&mut message);
        assert_eq!(answer_binding(&message, source()), None);
    }

    #[test]
    fn what_has_to_be_understood_and_is_not_is_named() {
        let attributes = [
            b"\x00\x03\x00\x04\x00\x00\x00\x06".as_slice(),
            b"\x80\x99\x00\x01x\x00\x00\x00",
            b"\x00\x06\x00\x03abc\x00",
            b"\x7f\xff\x00\x00",
        ];
        let answer = answer_binding(&request(&attributes.concat()), source()).expect("an answer");
        assert!(is_stun(&answer));
        assert_eq!(answer[..2], BINDING_ERROR);
        let expected = [
            b"\x00\x09\x00\x15\x00\x00\x04\x14Unknown Attribute\x00\x00\x00".as_slice(),
            b"\x00\x0a\x00\x04\x00\x03\x7f\xff",
        ];
        assert_eq!(answer[HEADER..], expected.concat());
    }

    #[test]
    fn what_is_no_request_is_not_answered() {
        let good = request(&[]);
        assert!(answer_binding(&good, source()).is_some());
        for (position, value) in [(0, 1), (1, 0x11), (3, 4), (4, 0), (0, 0x80)] {
            let mut other = good.clone();
            other[position] = value;
            assert_eq!(answer_binding(&other, source()), None, "{position}");
        }
        assert!(!is_stun(&good[..19]));
        assert!(!is_stun(b"OPTIONS sip:example.org SIP/2.0\r\n\r\n"));
        // Attributes that are cut short, or longer than what is there.
        for attributes in [
            &b"\x80\x22"[..],
            b"\x80\x22\x00\x05name",
            b"\x80\x22\x00\x04nam",
        ] {
            assert_eq!(answer_binding(&request(attributes), source()), None);
        }
    }
}
