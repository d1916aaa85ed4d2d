//! What a stack counts.

use sctp::EndpointStatistics;
use udp_net::UdpStatistics;

/// What a stack has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackStatistics {
    /// Datagrams and bytes on the wire.
    pub udp: UdpStatistics,
    /// The sum over all endpoints, those closed since included.
    pub sctp: EndpointStatistics,
    /// Associations aborted because too many were waiting to be accepted.
    pub accept_overflows: u64,
    /// Packets to an SCTP port without an endpoint (RFC 9260 section 8.4).
    pub out_of_the_blue: u64,
    /// Datagrams that held no SCTP packet for us: too short, or to or from a multicast or
    /// broadcast address.
    pub not_for_us: u64,
}

impl StackStatistics {
    /// DATA chunks that were sent again, for whatever reason.
    pub fn retransmissions(&self) -> u64 {
        self.sctp.retransmitted_by_timeout + self.sctp.retransmitted_fast
    }
}
