//! What has gone over TCP connections.

use derive_more::AddAssign;
use tcp_info::TcpInfo;

/// Packets and bytes of TCP connections, as their kernel counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub(crate) struct TcpCounts {
    /// Segments sent, retransmissions, bare acknowledgements, SYN and FIN included.
    pub(crate) segments_sent: u64,
    /// Segments received.
    pub(crate) segments_received: u64,
    /// Payload bytes sent, retransmissions included.
    pub(crate) payload_bytes_sent: u64,
    /// Payload bytes received, each counted once.
    pub(crate) payload_bytes_received: u64,
    /// Segments retransmitted.
    pub(crate) retransmissions: u64,
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
