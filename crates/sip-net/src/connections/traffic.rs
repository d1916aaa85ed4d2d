//! What has gone over the TCP connections of a transport.

use std::net::IpAddr;

use derive_more::AddAssign;
use tcp_info::TcpInfo;

use crate::statistics::WireStatistics;

/// What TCP connections carried, by the size of their IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    ipv4: TcpCounts,
    ipv6: TcpCounts,
}

impl Traffic {
    /// What a connection with this peer has carried.
    pub(super) fn add(&mut self, remote: IpAddr, counts: TcpCounts) {
        match remote {
            IpAddr::V4(_) => self.ipv4 += counts,
            IpAddr::V6(_) => self.ipv6 += counts,
        }
    }

    pub(crate) fn add_to(&self, statistics: &mut WireStatistics) {
        self.ipv4.add_to(statistics, IPV4_HEADER);
        self.ipv6.add_to(statistics, IPV6_HEADER);
    }
}

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: u64 = 20;
/// Bytes of an IPv6 header without extension headers.
const IPV6_HEADER: u64 = 40;
/// Bytes of a TCP header with the time stamp option, which Linux has on by default.
const TCP_HEADER: u64 = 32;

/// Packets and bytes of TCP connections, as their kernel counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub(super) struct TcpCounts {
    /// Segments sent, retransmissions, bare acknowledgements, SYN and FIN included.
    segments_sent: u64,
    /// Segments received.
    segments_received: u64,
    /// Payload bytes sent, retransmissions included.
    payload_bytes_sent: u64,
    /// Payload bytes received, each counted once.
    payload_bytes_received: u64,
    /// Segments retransmitted.
    retransmissions: u64,
}

impl From<TcpInfo> for TcpCounts {
    fn from(info: TcpInfo) -> TcpCounts {
        TcpCounts {
            segments_sent: info.segments_sent,
            segments_received: info.segments_received,
            payload_bytes_sent: info.payload_bytes_sent,
            payload_bytes_received: info.payload_bytes_received,
            retransmissions: info.retransmissions,
        }
    }
}

impl TcpCounts {
    fn add_to(&self, statistics: &mut WireStatistics, ip_header: u64) {
        let header = ip_header + TCP_HEADER;
        statistics.packets_sent += self.segments_sent;
        statistics.packets_received += self.segments_received;
        statistics.bytes_sent += self.payload_bytes_sent + header * self.segments_sent;
        statistics.bytes_received += self.payload_bytes_received + header * self.segments_received;
        statistics.transport_retransmissions += self.retransmissions;
    }
}
