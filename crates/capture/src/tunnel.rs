//! Packets inside of packets: IP in IP, GRE, VXLAN and GTP-U.

use bytes::Buf;
use etherparse::{IpNumber, ip_number};

use crate::link;

/// What a tunnel carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tunnel<'a> {
    /// An IP packet of either version.
    Ip(&'a [u8]),
    /// Something else, or a header that cannot be read.
    Other,
}

/// The tunnel that an IP packet with this protocol is; `None` where it is none.
pub(crate) fn over_ip(protocol: IpNumber, payload: &[u8]) -> Option<Tunnel<'_>> {
    match protocol {
        // RFC 2003 section 3.1, RFC 2473 section 3, RFC 4213 section 3.
        ip_number::IPV4 | ip_number::IPV6 => Some(Tunnel::of(Some(payload))),
        ip_number::GRE => Some(Tunnel::of(gre(payload))),
        _ => None,
    }
}

/// The tunnel that a UDP datagram is, by its ports and its header; `None` where it is none.
pub(crate) fn over_udp(ports: [u16; 2], payload: &[u8]) -> Option<Tunnel<'_>> {
    if ports.contains(&VXLAN_PORT) && payload.first()? & !VXLAN_HAS_POLICY == VXLAN_HAS_NETWORK {
        return Some(Tunnel::of(payload.get(8..).and_then(link::ethernet)));
    }
    let is_gtp = ports.contains(&GTP_U_PORT)
        && payload.first()? & GTP_VERSION_AND_TYPE == GTP_1
        && *payload.get(1)? == G_PDU;
    is_gtp.then(|| Tunnel::of(g_pdu(payload)))
}

impl<'a> Tunnel<'a> {
    fn of(inside: Option<&'a [u8]>) -> Tunnel<'a> {
        inside
            .filter(|inside| link::is_ip(inside))
            .map_or(Tunnel::Other, Tunnel::Ip)
    }
}

/// What follows a GRE header (RFC 2784 section 2, RFC 2890 section 2).
fn gre(mut octets: &[u8]) -> Option<&[u8]> {
    let flags = octets.try_get_u16().ok()?;
    let protocol = octets.try_get_u16().ok()?;
    // The bits that RFC 1701 had for routing, and other versions.
    if flags & (GRE_ROUTING | GRE_VERSION) != 0 {
        return None;
    }
    let optional = (flags & (GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE)).count_ones() as usize * 4;
    link::tagged(protocol, octets.get(optional..)?)
}

/// What follows the header of a G-PDU (TS 29.281 section 5).
fn g_pdu(octets: &[u8]) -> Option<&[u8]> {
    let (header, rest) = octets.split_first_chunk::<8>()?;
    let has_optional = header[0] & 0x07 != 0;
    if !has_optional {
        return Some(rest);
    }
    // Sequence number, N-PDU number, and the type of the first extension header, which counts only if the E flag is set.
    let (&[_, _, _, first], mut rest) = rest.split_first_chunk::<4>()?;
    let mut next = match header[0] & 0x04 {
        0 => 0,
        _ => first,
    };
    while next != 0 {
        // In units of four octets; the last one of them is the next type. A length of zero is an error.
        let length = usize::from(*rest.first()?) * 4;
        next = *rest.get(length.checked_sub(1)?)?;
        rest = rest.get(length..)?;
    }
    Some(rest)
}

/// RFC 7348 section 5.
const VXLAN_PORT: u16 = 4789;
const VXLAN_HAS_NETWORK: u8 = 0x08;
/// The flag of a group policy; others are zero, which tells VXLAN from SIP on this port.
const VXLAN_HAS_POLICY: u8 = 0x80;
/// TS 29.281 section 4.4.2.
const GTP_U_PORT: u16 = 2152;
/// Version 1 and the protocol type GTP; between them and the flags is a spare bit.
const GTP_VERSION_AND_TYPE: u8 = 0xf0;
const GTP_1: u8 = 0x30;
const G_PDU: u8 = 255;
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_VERSION: u16 = 0x0007;
