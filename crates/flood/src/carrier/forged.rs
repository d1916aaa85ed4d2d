//! Packets from addresses that are nobody's: for those who may open raw sockets.

use super::Over;
use crate::Attempt;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Addresses that are nobody's, as many as there are.
pub(crate) const SOURCES: usize = 1 << 16;

/// Writes IPv4 headers of its own.
pub(crate) struct Forger {
    target: Ipv4Addr,
    socket: Socket,
    rng: ChaCha12Rng,
    packet: Vec<u8>,
}

impl Forger {
    pub(crate) fn open(target: Ipv4Addr, rng: ChaCha12Rng) -> io::Result<Forger> {
        // The kernel adds no IP header to what goes to this protocol (raw(7)).
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))?;
        socket.set_nonblocking(true)?;
        Ok(Forger {
            target,
            socket,
            rng,
            packet: Vec::new(),
        })
    }

    /// The address of that number.
    pub(crate) fn source(&self, number: usize) -> Ipv4Addr {
        source(self.target, number)
    }

    pub(super) fn send(&mut self, attempt: &Attempt, over: Over) -> bool {
        let from = self.source(attempt.source);
        let payload = match over {
            Over::Ip => Payload::Sctp(&attempt.packet),
            Over::Udp { port } => Payload::Udp {
                ports: [self.rng.random_range(1024..=u16::MAX), port],
                data: &attempt.packet,
            },
        };
        write(&mut self.packet, from, self.target, payload);
        self.send_written()
    }

    /// Sends a segment of TCP.
    pub(crate) fn send_tcp(&mut self, from: Ipv4Addr, segment: &[u8]) -> bool {
        write(&mut self.packet, from, self.target, Payload::Tcp(segment));
        self.send_written()
    }

    fn send_written(&self) -> bool {
        let to = SockAddr::from(SocketAddr::new(self.target.into(), 0));
        self.socket.send_to(&self.packet, &to).is_ok()
    }
}

/// What an IP packet carries.
#[derive(Clone, Copy)]
enum Payload<'a> {
    Sctp(&'a [u8]),
    Tcp(&'a [u8]),
    Udp { ports: [u16; 2], data: &'a [u8] },
}

impl<'a> Payload<'a> {
    /// Its number, and what comes behind the header of UDP where there is one.
    fn parts(self) -> (u8, &'a [u8]) {
        match self {
            Payload::Sctp(packet) => (132, packet),
            Payload::Tcp(segment) => (6, segment),
            Payload::Udp { data, .. } => (17, data),
        }
    }
}

/// An address that is nobody's: on loopback one of its own network, else one of those that are set
/// apart for benchmarks (198.18.0.0/16 of RFC 2544's 198.18.0.0/15).
fn source(target: Ipv4Addr, number: usize) -> Ipv4Addr {
    let network = if target.is_loopback() {
        [127, 77, 0, 0]
    } else {
        [198, 18, 0, 0]
    };
    let host = (number % SOURCES) as u32;
    Ipv4Addr::from_bits(u32::from_be_bytes(network) | host)
}

/// Writes an IPv4 packet (RFC 791 section 3.1) whose checksum the kernel fills in; in UDP without a
/// checksum (RFC 768), as SCTP has its own.
fn write(packet: &mut Vec<u8>, from: Ipv4Addr, to: Ipv4Addr, payload: Payload<'_>) {
    let (protocol, data) = payload.parts();
    let udp = match payload {
        Payload::Udp { .. } => UDP_HEADER,
        Payload::Sctp(_) | Payload::Tcp(_) => 0,
    };
    let total = u16::try_from(20 + udp + data.len()).unwrap_or(u16::MAX);
    let [high, low] = total.to_be_bytes();
    packet.clear();
    // Version and length of the header, service, total length; identification, flags; time to
    // live, protocol, checksum.
    packet.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    if let Payload::Udp { ports, .. } = payload {
        let length = u16::try_from(udp + data.len()).unwrap_or(u16::MAX);
        for field in [ports[0], ports[1], length, 0] {
            packet.extend(field.to_be_bytes());
        }
    }
    packet.extend(data);
}

const IPPROTO_RAW: i32 = 255;

const UDP_HEADER: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_the_rfcs_have_them() {
        let mut packet = Vec::new();
        let (near, far) = (Ipv4Addr::new(198, 18, 1, 2), Ipv4Addr::new(10, 0, 0, 1));
        let udp = Payload::Udp {
            ports: [5000, 9899],
            data: b"abcd",
        };
        write(&mut packet, near, far, udp);
        assert_eq!(packet.len(), 32);
        assert_eq!(packet[..4], [0x45, 0, 0, 32]);
        assert_eq!(packet[9], 17);
        assert_eq!(packet[12..20], [198, 18, 1, 2, 10, 0, 0, 1]);
        assert_eq!(packet[20..28], [0x13, 0x88, 0x26, 0xab, 0, 12, 0, 0]);
        assert_eq!(&packet[28..], b"abcd");
        for (payload, protocol) in [(Payload::Sctp(b"abcd"), 132), (Payload::Tcp(b"abcd"), 6)] {
            write(&mut packet, near, far, payload);
            assert_eq!((packet.len(), packet[9]), (24, protocol));
        }
    }

    #[test]
    fn forged_addresses_are_nobodys() {
        for number in [0, 1, 77_777, usize::MAX] {
            assert!(source(Ipv4Addr::LOCALHOST, number).is_loopback());
            let [first, second, ..] = source(Ipv4Addr::new(10, 0, 0, 1), number).octets();
            assert_eq!((first, second), (198, 18));
        }
    }
}
