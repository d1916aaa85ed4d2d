//! Errors that routers send: ICMP (RFC 792) and ICMPv6 (RFC 4443).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{Ipv4Header, Ipv6Header};

use super::{v4, v6};
use crate::protocol::Protocol;

/// What a router tells the sender of a packet that it cannot pass on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Problem {
    /// Its time to live, or hop limit, has run out.
    TimeExceeded,
    /// There is no route to its destination.
    NoRoute,
    /// The network of its destination is here, but not the destination.
    NoHost,
    /// It is for the router, and nobody listens there.
    NoPort,
    /// It is for the router, which does not know what it carries.
    NoProtocol,
    /// It does not fit into the next link, and must not be, or cannot be, fragmented.
    TooBig {
        /// The MTU of that link.
        mtu: usize,
    },
}

/// The longest error of ICMP (RFC 1812 section 4.3.2.3).
const LONGEST_V4: usize = 576;

/// Precedence 6, internetwork control (RFC 1812 section 4.3.2.5).
const TYPE_OF_SERVICE: u8 = 6 << 5;

/// Type, code, checksum, and four octets more, before the packet that the error is about.
const ICMP_HEADER: usize = 8;

/// The error about a packet that has been read, from an address of the router; `None` when no error may be
/// sent about such a packet.
pub(crate) fn about(
    packet: &[u8],
    problem: Problem,
    router: IpAddr,
    identification: u16,
) -> Option<Vec<u8>> {
    match (packet.first()? >> 4, router) {
        (4, IpAddr::V4(router)) => about_v4(packet, problem, router, identification),
        (6, IpAddr::V6(router)) => about_v6(packet, problem, router),
        _ => None,
    }
}

fn about_v4(
    packet: &[u8],
    problem: Problem,
    router: Ipv4Addr,
    identification: u16,
) -> Option<Vec<u8>> {
    let original = v4::Packet::read(packet)?;
    let source = original.header.source_addr();
    // RFC 1812 section 4.3.2.7.
    let may_be_sent = v4::is_one_host(source)
        && v4::may_be_forwarded_to(original.header.destination_addr())
        && original.fragment_offset() == 0
        && !is_error_v4(&original);
    if !may_be_sent {
        return None;
    }
    let (kind, code, rest) = match problem {
        Problem::TimeExceeded => (11, 0, 0),
        Problem::NoRoute => (3, 0, 0),
        Problem::NoHost => (3, 1, 0),
        Problem::NoProtocol => (3, 2, 0),
        Problem::NoPort => (3, 3, 0),
        // The MTU is in the lower half (RFC 1191 section 4).
        Problem::TooBig { mtu } => (3, 4, mtu as u32),
    };
    let whole = &packet[..original.total_length()];
    let room = LONGEST_V4 - Ipv4Header::MIN_LEN - ICMP_HEADER;
    let quoted = &whole[..whole.len().min(room)];
    let mut message = icmp(kind, code, rest, quoted);
    let sum = Sum16BitWords::new().add_slice(&message);
    message[2..4].copy_from_slice(&sum.ones_complement().to_ne_bytes());
    let addresses = [router, source];
    let outer = v4::new_header(
        addresses,
        Protocol::ICMP,
        TYPE_OF_SERVICE,
        identification,
        message.len(),
    );
    Some([&outer[..], &message].concat())
}

fn about_v6(packet: &[u8], problem: Problem, router: Ipv6Addr) -> Option<Vec<u8>> {
    let original = v6::Packet::read(packet)?;
    let source = original.header.source_addr();
    let is_too_big = matches!(problem, Problem::TooBig { .. });
    // RFC 4443 section 2.4 (e): a packet to a group may be too big.
    let may_be_sent = v6::is_one_host(source)
        && (is_too_big || !original.header.destination_addr().is_multicast())
        && !is_error_v6(&original);
    if !may_be_sent {
        return None;
    }
    let (kind, code, rest) = match problem {
        Problem::NoRoute => (1, 0, 0),
        Problem::NoHost => (1, 3, 0),
        Problem::NoPort => (1, 4, 0),
        Problem::TooBig { mtu } => (2, 0, mtu as u32),
        Problem::TimeExceeded => (3, 0, 0),
        // Where the number of the protocol stands (section 3.4): in the header, since the routers of this
        // network answer nobody with extension headers.
        Problem::NoProtocol => (4, 1, 6),
    };
    let whole = &packet[..original.total_length()];
    // Section 2.4 (c): as much as fits without exceeding the least MTU.
    let room = v6::LEAST_MTU - Ipv6Header::LEN - ICMP_HEADER;
    let quoted = &whole[..whole.len().min(room)];
    let mut message = icmp(kind, code, rest, quoted);
    let addresses = [router, source];
    let sum = v6::pseudo_header(addresses, Protocol::ICMPV6, message.len()).add_slice(&message);
    message[2..4].copy_from_slice(&sum.ones_complement().to_ne_bytes());
    let outer = v6::new_header(addresses, Protocol::ICMPV6, message.len());
    Some([&outer[..], &message].concat())
}

/// Without its checksum.
fn icmp(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(ICMP_HEADER + quoted.len());
    message.extend_from_slice(&[kind, code, 0, 0]);
    message.extend_from_slice(&rest.to_be_bytes());
    message.extend_from_slice(quoted);
    message
}

/// Whether it is an error of ICMP. What tells nothing counts as one: no error about an error is the stronger
/// rule.
fn is_error_v4(packet: &v4::Packet<'_>) -> bool {
    const QUERIES: [u8; 10] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];
    packet.protocol() == Protocol::ICMP
        && packet
            .payload
            .first()
            .is_none_or(|kind| !QUERIES.contains(kind))
}

/// Whether it is an error of ICMPv6, or a redirect (RFC 4443 sections 2.1 and 2.4 (e)).
fn is_error_v6(packet: &v6::Packet<'_>) -> bool {
    const REDIRECT: u8 = 137;
    let (protocol, payload) = packet.upper_layer();
    protocol == Protocol::ICMPV6
        && payload
            .and_then(|payload| payload.first())
            .is_none_or(|kind| *kind < 128 || *kind == REDIRECT)
}
