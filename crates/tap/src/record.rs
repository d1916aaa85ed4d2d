//! What is told of a packet.

use std::net::IpAddr;
use std::time::SystemTime;

/// One SCTP packet on the wire.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When it was sent or received.
    pub time: SystemTime,
    /// Which way it went.
    pub direction: Direction,
    /// The sender's address. An unspecified one is written as it is.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// The ports of the UDP datagram that it is in (RFC 6951); `None` when it is right over IP.
    pub udp: Option<UdpPorts>,
    /// The packet, from the SCTP common header on.
    pub packet: &'a [u8],
}

/// Which way a packet went, seen from this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It was received.
    Inbound,
    /// It was sent.
    Outbound,
}

/// The ports of a UDP datagram that carries SCTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPorts {
    /// The sender's.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
}
