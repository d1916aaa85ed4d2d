//! Sockets that hear the answers.

use crate::Attempt;
use anyhow::Context;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Sockets on a UDP port each; on IPv4's loopback with an address each, too.
pub(crate) struct UdpSockets {
    target: SocketAddr,
    sockets: Vec<UdpSocket>,
    buffer: Vec<u8>,
}

impl UdpSockets {
    pub(crate) fn open(
        target: IpAddr,
        port: u16,
        mut rng: ChaCha12Rng,
    ) -> anyhow::Result<UdpSockets> {
        let open = |_| -> anyhow::Result<UdpSocket> {
            let local: IpAddr = match target {
                IpAddr::V4(target) if target.is_loopback() => {
                    Ipv4Addr::new(127, rng.random(), rng.random(), rng.random_range(1..255)).into()
                }
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((local, 0)).context("a socket for the flood")?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(UdpSockets {
            target: SocketAddr::new(target, port),
            sockets: (0..SOCKETS).map(open).collect::<anyhow::Result<_>>()?,
            buffer: vec![0; LARGEST],
        })
    }

    pub(super) fn sources(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn send(&mut self, attempt: &Attempt) -> bool {
        let socket = self.sockets.get(attempt.source);
        let sent = socket.map(|socket| socket.send_to(&attempt.packet, self.target));
        matches!(sent, Some(Ok(_)))
    }

    pub(super) fn receive(&mut self, mut take: impl FnMut(usize, &[u8])) -> bool {
        let mut any = false;
        for (source, socket) in self.sockets.iter().enumerate() {
            // A bounded number each, so that sending has its turn.
            for _ in 0..AT_ONCE {
                let Ok((length, from)) = socket.recv_from(&mut self.buffer) else {
                    break;
                };
                if from == self.target {
                    any = true;
                    take(source, &self.buffer[..length]);
                }
            }
        }
        any
    }
}

/// A raw socket, which hears every SCTP packet of the host.
pub(crate) struct RawSocket {
    target: IpAddr,
    socket: Socket,
    buffer: Vec<u8>,
}

impl RawSocket {
    pub(crate) fn open(target: IpAddr) -> io::Result<RawSocket> {
        let domain = if target.is_ipv4() {
            Domain::IPV4
        } else {
            Domain::IPV6
        };
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(PROTOCOL)))?;
        socket.set_nonblocking(true)?;
        if target.is_ipv6() {
            // IPv6 keeps its header to itself, so that the kernel must leave out what others send.
            socket.connect(&SockAddr::from(SocketAddr::new(target, 0)))?;
        }
        Ok(RawSocket {
            target,
            socket,
            buffer: vec![0; LARGEST],
        })
    }

    pub(super) fn send(&mut self, attempt: &Attempt) -> bool {
        let to = SockAddr::from(SocketAddr::new(self.target, 0));
        self.socket.send_to(&attempt.packet, &to).is_ok()
    }

    pub(super) fn receive(&mut self, mut take: impl FnMut(usize, &[u8])) -> bool {
        let mut any = false;
        for _ in 0..AT_ONCE {
            let Ok(length) = (&self.socket).read(&mut self.buffer) else {
                break;
            };
            let bytes = &self.buffer[..length];
            let packet = match self.target {
                IpAddr::V4(target) => from_ipv4(bytes, target),
                IpAddr::V6(_) => Some(bytes),
            };
            if let Some(packet) = packet {
                any = true;
                take(0, packet);
            }
        }
        any
    }
}

/// The payload of an IPv4 packet from that host (RFC 791 section 3.1).
fn from_ipv4(packet: &[u8], host: Ipv4Addr) -> Option<&[u8]> {
    let source: [u8; 4] = *packet.get(12..)?.first_chunk()?;
    let header = usize::from(packet.first()? & 0x0f) * 4;
    packet
        .get(header..)
        .filter(|_| Ipv4Addr::from(source) == host)
}

/// SCTP's number.
const PROTOCOL: i32 = 132;

/// More would not make more peers: those are told apart by their SCTP ports as well.
const SOCKETS: usize = 64;

/// Packets that are read from a socket before anything else is done.
const AT_ONCE: usize = 64;

const LARGEST: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes: Vec<u8>) {
            let payload = from_ipv4(&bytes, Ipv4Addr::LOCALHOST);
            prop_assert!(payload.is_none_or(|payload| payload.len() < bytes.len() + 1));
        }
    }

    #[test]
    fn packets_of_others_are_left_out() {
        let mut packet = vec![0x45; 20];
        packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
        packet.extend([1, 2, 3]);
        assert_eq!(
            from_ipv4(&packet, Ipv4Addr::LOCALHOST),
            Some(&[1, 2, 3][..])
        );
        assert_eq!(from_ipv4(&packet, Ipv4Addr::BROADCAST), None);
        assert_eq!(from_ipv4(&packet[..15], Ipv4Addr::LOCALHOST), None);
    }
}
