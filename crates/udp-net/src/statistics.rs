//! What a socket counts.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use derive_more::AddAssign;

/// Bytes of an IPv4 header without options and a UDP header.
const IPV4_AND_UDP: u64 = 20 + 8;
/// Bytes of an IPv6 header without extension headers and a UDP header.
const IPV6_AND_UDP: u64 = 40 + 8;

/// What a socket has sent, received and lost since it was bound.
///
/// Packets and bytes are counted where their sender puts them on the wire: outgoing ones before
/// an impairment drops them, incoming ones as they arrive from the kernel, before an impairment
/// drops them. Bytes include the IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct UdpStatistics {
    /// Datagrams put on the wire.
    pub packets_sent: u64,
    /// Bytes put on the wire, IP and UDP headers included.
    pub bytes_sent: u64,
    /// Datagrams that arrived.
    pub packets_received: u64,
    /// Bytes that arrived, IP and UDP headers included.
    pub bytes_received: u64,
    /// Outgoing datagrams that the impairment's link dropped.
    pub outbound_dropped_by_link: u64,
    /// Incoming datagrams that the impairment's link dropped.
    pub inbound_dropped_by_link: u64,
    /// Datagrams dropped because too many were being delayed by the impairment already.
    pub delay_overflows: u64,
    /// Errors of the kernel while receiving, such as ICMP errors that it reports there.
    pub receive_errors: u64,
    /// Datagrams that the kernel refused to send (no route, too large, not permitted); and those that the errors of others
    /// have stopped, which count as sent, too.
    pub send_errors: u64,
}

/// Bytes that a datagram takes at the IP layer, for the family of its address.
pub(crate) fn bytes_on_wire(remote: &SocketAddr, payload: usize) -> u64 {
    let headers = match remote {
        SocketAddr::V4(_) => IPV4_AND_UDP,
        SocketAddr::V6(_) => IPV6_AND_UDP,
    };
    headers + payload as u64
}

/// The counters behind [`UdpStatistics`], shared by everyone who uses the socket.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    packets_sent: AtomicU64,
    bytes_sent: AtomicU64,
    packets_received: AtomicU64,
    bytes_received: AtomicU64,
    outbound_dropped_by_link: AtomicU64,
    inbound_dropped_by_link: AtomicU64,
    delay_overflows: AtomicU64,
    receive_errors: AtomicU64,
    send_errors: AtomicU64,
}

impl Counters {
    pub(crate) fn sent(&self, packets: u64, bytes: u64) {
        self.packets_sent.fetch_add(packets, Relaxed);
        self.bytes_sent.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn received(&self, packets: u64, bytes: u64) {
        self.packets_received.fetch_add(packets, Relaxed);
        self.bytes_received.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn outbound_dropped(&self) {
        self.outbound_dropped_by_link.fetch_add(1, Relaxed);
    }

    pub(crate) fn inbound_dropped(&self) {
        self.inbound_dropped_by_link.fetch_add(1, Relaxed);
    }

    pub(crate) fn delay_overflow(&self) {
        self.delay_overflows.fetch_add(1, Relaxed);
    }

    pub(crate) fn receive_error(&self) {
        self.receive_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn send_error(&self) {
        self.send_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> UdpStatistics {
        UdpStatistics {
            packets_sent: self.packets_sent.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            packets_received: self.packets_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
            outbound_dropped_by_link: self.outbound_dropped_by_link.load(Relaxed),
            inbound_dropped_by_link: self.inbound_dropped_by_link.load(Relaxed),
            delay_overflows: self.delay_overflows.load(Relaxed),
            receive_errors: self.receive_errors.load(Relaxed),
            send_errors: self.send_errors.load(Relaxed),
        }
    }
}
