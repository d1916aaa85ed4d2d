//! What a stack counts.

use derive_more::AddAssign;
use sctp::EndpointStatistics;
use udp_net::UdpStatistics;

/// What a stack has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct StackStatistics {
    /// Packets and bytes on the wire.
    pub carrier: CarrierStatistics,
    /// The sum over all endpoints, those closed since included.
    pub sctp: EndpointStatistics,
    /// Associations aborted because too many were waiting to be accepted.
    pub accept_overflows: u64,
    /// Packets to an SCTP port without an endpoint (RFC 9260 section 8.4).
    pub out_of_the_blue: u64,
    /// Packets that held nothing for us: too short, or to or from a multicast or broadcast address.
    pub not_for_us: u64,
    /// Packets and ICMP errors that arrived at another worker than the one they belong to, and were
    /// handed over.
    pub handed_over: u64,
    /// Packets and ICMP errors that were dropped because the worker they belong to had too many
    /// waiting already.
    pub hand_over_overflows: u64,
    /// Associations that were given up because another worker had got one with the same peer at
    /// the same time.
    pub duplicate_associations: u64,
}

/// What went over the wire.
///
/// Packets and bytes are counted where their sender puts them on the wire: outgoing ones before
/// an impairment drops them, incoming ones as they arrive from the kernel; right on IP, only those
/// that are for us. Bytes include the headers of IP and, with encapsulation, UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct CarrierStatistics {
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Bytes that arrived.
    pub bytes_received: u64,
    /// OutgoingMessage packets that an impairment's link dropped.
    pub outbound_dropped_by_link: u64,
    /// Incoming packets that an impairment's link dropped.
    pub inbound_dropped_by_link: u64,
    /// Packets dropped because too many were being delayed by an impairment already.
    pub delay_overflows: u64,
    /// Errors while receiving, ICMP errors among them.
    pub receive_errors: u64,
    /// Packets that the kernel refused to send (no route, too large, not permitted).
    pub send_errors: u64,
}

impl StackStatistics {
    /// DATA chunks that were sent again, for whatever reason.
    pub fn retransmissions(&self) -> u64 {
        self.sctp.retransmitted_by_timeout + self.sctp.retransmitted_fast
    }
}

impl From<UdpStatistics> for CarrierStatistics {
    fn from(udp: UdpStatistics) -> Self {
        Self {
            packets_sent: udp.packets_sent,
            bytes_sent: udp.bytes_sent,
            packets_received: udp.packets_received,
            bytes_received: udp.bytes_received,
            outbound_dropped_by_link: udp.outbound_dropped_by_link,
            inbound_dropped_by_link: udp.inbound_dropped_by_link,
            delay_overflows: udp.delay_overflows,
            receive_errors: udp.receive_errors,
            send_errors: udp.send_errors,
        }
    }
}
