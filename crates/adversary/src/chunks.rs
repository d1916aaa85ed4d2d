//! Chunks that are nearly right: types and fields that make sense more often than not, TSNs near
//! those that are expected, and now and then a length that lies.

use crate::engine::Numbers;
use crate::lists::Few;
use arbitrary::Arbitrary;
use bytes::{Bytes, BytesMut};
use sctp::packet::{CommonHeader, checksum};

/// One chunk of a made-up packet.
#[derive(Arbitrary, Debug, Clone)]
pub(crate) enum Chunk {
    Data {
        flags: u8,
        /// From the first TSN that the receiver misses.
        tsn: i8,
        stream: u8,
        ssn: u16,
        length: u16,
    },
    Init(Init),
    InitAck(Init),
    Sack {
        /// From the last TSN that the receiver sent.
        cumulative: i8,
        a_rwnd: u32,
        gaps: Few<(u16, u16)>,
        duplicates: Few<i8>,
    },
    /// With the parameters of the last INIT or INIT ACK that the receiver of this sent.
    Heartbeat(Few<Parameter>),
    /// The answer to one of the last HEARTBEATs of the receiver, or to none.
    HeartbeatAck {
        which: u8,
        forged: Option<Vec<u8>>,
    },
    Abort {
        reflected: bool,
        causes: Few<Parameter>,
    },
    Error(Few<Parameter>),
    Shutdown {
        cumulative: i8,
    },
    ShutdownAck,
    /// A cookie that the receiver gave out, perhaps spoilt at a place.
    CookieEcho {
        which: u8,
        spoilt: Option<(u8, u8)>,
    },
    CookieAck,
    ShutdownComplete {
        reflected: bool,
    },
    Pad(u8),
    Other {
        chunk_type: u8,
        flags: u8,
        value: Vec<u8>,
    },
    /// A chunk whose length field lies by so much.
    WrongLength(Box<Chunk>, i8),
}

/// The fields of INIT and INIT ACK.
#[derive(Arbitrary, Debug, Clone)]
pub(crate) struct Init {
    tag: Option<u32>,
    a_rwnd: u32,
    streams: [u16; 2],
    tsn: Option<u32>,
    /// Whether an INIT ACK has a cookie that the receiver gave out.
    has_cookie: bool,
    parameters: Few<Parameter>,
}

/// A parameter of a chunk, or an error cause: both are a type, a length and a value.
#[derive(Arbitrary, Debug, Clone)]
pub(crate) enum Parameter {
    Ipv4([u8; 4]),
    /// One of the addresses that hosts really have.
    KnownIpv4(u8),
    Ipv6([u8; 16]),
    SupportedAddressTypes(Vec<u16>),
    CookiePreservative(u32),
    HostName(Vec<u8>),
    HeartbeatInfo(Vec<u8>),
    StaleCookie(u32),
    Known {
        parameter_type: u8,
        value: Vec<u8>,
    },
    Other {
        parameter_type: u16,
        value: Vec<u8>,
    },
    WrongLength(Box<Parameter>, i8),
}

/// A packet with these chunks, everything around them right.
pub(crate) fn packet(ports: [u16; 2], tag: u32, chunks: &[Chunk], numbers: &Numbers) -> Bytes {
    let mut packet = BytesMut::with_capacity(CommonHeader::LENGTH);
    packet.extend_from_slice(&ports[0].to_be_bytes());
    packet.extend_from_slice(&ports[1].to_be_bytes());
    packet.extend_from_slice(&tag.to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    for chunk in chunks.iter().take(MOST_CHUNKS) {
        chunk.append(numbers, 0, &mut packet);
    }
    packet.truncate(LARGEST_PACKET);
    checksum::fill(&mut packet);
    packet.freeze()
}

impl Chunk {
    pub(crate) fn is_init(&self) -> bool {
        matches!(self, Chunk::Init(_))
    }

    fn append(&self, numbers: &Numbers, wrong_by: i8, out: &mut BytesMut) {
        let tlv = |chunk_type: u8, flags: u8, value: &[u8], out: &mut BytesMut| {
            append_tlv([chunk_type, flags], value, wrong_by, out);
        };
        match self {
            Chunk::Data {
                flags,
                tsn,
                stream,
                ssn,
                length,
            } => {
                let mut value = (offset(numbers.expected_tsn, *tsn)).to_be_bytes().to_vec();
                value.extend_from_slice(&[0, stream & 0x0f]);
                value.extend_from_slice(&ssn.to_be_bytes());
                value.extend_from_slice(&[0; 4]);
                value.resize(12 + usize::from(*length) % 3000, b'x');
                tlv(0, *flags, &value, out);
            }
            Chunk::Init(init) => tlv(1, 0, &init.value(numbers, false), out),
            Chunk::InitAck(init) => tlv(2, 0, &init.value(numbers, init.has_cookie), out),
            Chunk::Sack {
                cumulative,
                a_rwnd,
                gaps,
                duplicates,
            } => {
                let cumulative = offset(numbers.last_tsn_sent, *cumulative);
                let mut value = cumulative.to_be_bytes().to_vec();
                value.extend_from_slice(&a_rwnd.to_be_bytes());
                value.extend_from_slice(&(gaps.len() as u16).to_be_bytes());
                value.extend_from_slice(&(duplicates.len() as u16).to_be_bytes());
                for (start, end) in gaps.iter() {
                    value.extend_from_slice(&start.to_be_bytes());
                    value.extend_from_slice(&end.to_be_bytes());
                }
                for tsn in duplicates.iter() {
                    value.extend_from_slice(&offset(cumulative, *tsn).to_be_bytes());
                }
                tlv(3, 0, &value, out);
            }
            Chunk::Heartbeat(parameters) => tlv(4, 0, &all(parameters), out),
            Chunk::HeartbeatAck { which, forged } => {
                let echoed = pick(&numbers.heartbeats, *which).map(Bytes::as_ref);
                tlv(5, 0, forged.as_deref().or(echoed).unwrap_or_default(), out);
            }
            Chunk::Abort { reflected, causes } => tlv(6, u8::from(*reflected), &all(causes), out),
            Chunk::Shutdown { cumulative } => {
                let cumulative = offset(numbers.last_tsn_sent, *cumulative);
                tlv(7, 0, &cumulative.to_be_bytes(), out);
            }
            Chunk::ShutdownAck => tlv(8, 0, &[], out),
            Chunk::Error(causes) => tlv(9, 0, &all(causes), out),
            Chunk::CookieEcho { which, spoilt } => {
                let cookie = pick(&numbers.cookies, *which);
                let mut cookie = cookie.map(|cookie| cookie.to_vec()).unwrap_or_default();
                if let Some((place, bits)) = spoilt {
                    let place = usize::from(*place) % cookie.len().max(1);
                    cookie
                        .iter_mut()
                        .skip(place)
                        .take(1)
                        .for_each(|byte| *byte ^= bits);
                }
                tlv(10, 0, &cookie, out);
            }
            Chunk::CookieAck => tlv(11, 0, &[], out),
            Chunk::ShutdownComplete { reflected } => tlv(14, u8::from(*reflected), &[], out),
            Chunk::Pad(length) => tlv(0x84, 0, &vec![0; usize::from(*length)], out),
            Chunk::Other {
                chunk_type,
                flags,
                value,
            } => tlv(*chunk_type, *flags, value, out),
            Chunk::WrongLength(chunk, wrong_by) => chunk.append(numbers, *wrong_by, out),
        }
    }
}

impl Init {
    fn value(&self, numbers: &Numbers, has_cookie: bool) -> Vec<u8> {
        let tag = self.tag.unwrap_or(FORGED_TAG);
        let mut value = tag.to_be_bytes().to_vec();
        value.extend_from_slice(&self.a_rwnd.to_be_bytes());
        for streams in self.streams {
            value.extend_from_slice(&streams.to_be_bytes());
        }
        let tsn = self.tsn.unwrap_or(numbers.expected_tsn);
        value.extend_from_slice(&tsn.to_be_bytes());
        value.extend_from_slice(&all(&self.parameters));
        if let Some(cookie) = numbers.cookies.last().filter(|_| has_cookie) {
            let mut buffer = BytesMut::from(&value[..]);
            append_tlv(7_u16.to_be_bytes(), cookie, 0, &mut buffer);
            value = buffer.to_vec();
        }
        value
    }
}

impl Parameter {
    fn append(&self, wrong_by: i8, out: &mut BytesMut) {
        let tlv = |parameter_type: u16, value: &[u8], out: &mut BytesMut| {
            append_tlv(parameter_type.to_be_bytes(), value, wrong_by, out);
        };
        match self {
            Parameter::Ipv4(address) => tlv(5, address, out),
            Parameter::KnownIpv4(last) => tlv(5, &[10, last >> 7, 0, last & 3], out),
            Parameter::Ipv6(address) => tlv(6, address, out),
            Parameter::SupportedAddressTypes(types) => {
                let types: Vec<u8> = types.iter().flat_map(|value| value.to_be_bytes()).collect();
                tlv(12, &types, out);
            }
            Parameter::CookiePreservative(increment) => tlv(9, &increment.to_be_bytes(), out),
            Parameter::HostName(name) => tlv(11, name, out),
            Parameter::HeartbeatInfo(info) => tlv(1, info, out),
            Parameter::StaleCookie(measure) => tlv(3, &measure.to_be_bytes(), out),
            Parameter::Known {
                parameter_type,
                value,
            } => tlv(u16::from(parameter_type % 14), value, out),
            Parameter::Other {
                parameter_type,
                value,
            } => tlv(*parameter_type, value, out),
            Parameter::WrongLength(parameter, wrong_by) => parameter.append(*wrong_by, out),
        }
    }
}

fn all(parameters: &[Parameter]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for parameter in parameters {
        parameter.append(0, &mut out);
    }
    out.to_vec()
}

/// Type, length, value and padding; the length is wrong by so much.
fn append_tlv(head: [u8; 2], value: &[u8], wrong_by: i8, out: &mut BytesMut) {
    let length = (4 + value.len() as u16).wrapping_add_signed(wrong_by.into());
    out.extend_from_slice(&head);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn offset(from: u32, by: i8) -> u32 {
    from.wrapping_add_signed(by.into())
}

/// One of the last, counted from the end.
fn pick<T>(list: &[T], which: u8) -> Option<&T> {
    let which = usize::from(which).checked_rem(list.len())?;
    list.iter().rev().nth(which)
}

/// The tag that the adversary gives when he plays a peer.
pub(crate) const FORGED_TAG: u32 = 0xf06d_ed01;

const MOST_CHUNKS: usize = 40;

/// What UDP carries.
const LARGEST_PACKET: usize = 65_507;
