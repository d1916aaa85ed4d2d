//! What an endpoint and its associations tell about themselves on request (RFC 9260 section 11.1,
//! STATUS) and what they count.

use std::net::IpAddr;
use std::time::Duration;

use derive_more::AddAssign;

use crate::{AbandonedMessages, CongestionControl, Extensions, PathAddress, PathState};

/// State of an association (RFC 9260 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssociationState {
    /// It ended; only received messages may still be pulled.
    Closed,
    /// INIT sent.
    CookieWait,
    /// COOKIE ECHO sent.
    CookieEchoed,
    /// Up.
    Established,
    /// Our user wants to end it; our data is not all acknowledged yet.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN received; our data is not all acknowledged yet.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
}

/// A snapshot of an association.
#[derive(Debug, Clone, PartialEq)]
pub struct AssociationStatus {
    /// Its state.
    pub state: AssociationState,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// Streams that we may send on.
    pub outbound_streams: u16,
    /// Streams that the peer may send on.
    pub inbound_streams: u16,
    /// Extensions that both sides have agreed on.
    pub extensions: Extensions,
    /// The peer's receive window as we know it, in bytes.
    pub peer_rwnd: u32,
    /// Bytes of DATA chunks in flight, on all paths.
    pub outstanding_bytes: usize,
    /// Bytes of user messages in the send buffer: waiting or not acknowledged.
    pub send_buffer_bytes: usize,
    /// Bytes of user data received and not pulled yet.
    pub receive_buffer_bytes: usize,
    /// DATA chunks sent and not acknowledged for good.
    pub unacknowledged_chunks: usize,
    /// Messages that wait to be sent, wholly or in part.
    pub unsent_messages: usize,
    /// DATA chunks and messages received that wait to be pulled, or for what is missing.
    pub pending_receipt: usize,
    /// Our own addresses, as the peer was told; none when it was told none.
    pub local_addresses: Vec<IpAddr>,
    /// The peer's address of the primary path.
    pub primary: IpAddr,
    /// All its paths.
    pub paths: Vec<PathStatus>,
}

/// A snapshot of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStatus {
    /// The path.
    pub address: PathAddress,
    /// Whether it is usable.
    pub state: PathState,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Its congestion controller.
    pub congestion_control: CongestionControl,
    /// Congestion window, in bytes.
    pub cwnd: usize,
    /// Slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// Largest SCTP packet, from the common header on, in bytes.
    pub mtu: usize,
    /// Consecutive errors (section 8.2).
    pub error_count: u32,
    /// Bytes of DATA chunks in flight on this path.
    pub outstanding_bytes: usize,
}

/// Counters of one association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssociationStatistics {
    /// Packets handed out to be sent.
    pub packets_sent: u64,
    /// Packets taken in.
    pub packets_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// DATA chunks received, duplicates included.
    pub data_chunks_received: u64,
    /// DATA chunks retransmitted after T3-rtx expired.
    pub retransmitted_by_timeout: u64,
    /// DATA chunks retransmitted before T3-rtx expired.
    pub retransmitted_fast: u64,
    /// Those among them that were not known to be lost: tail loss probes (RFC 8985 section 7).
    pub tail_loss_probes: u64,
    /// How often T3-rtx expired (section 6.3.3).
    pub t3_expiries: u64,
    /// How long it ran each time that it did, summed: the retransmission timeouts that were waited for.
    pub t3_waited: Duration,
    /// DATA chunks received that had been received before.
    pub duplicates_received: u64,
    /// User messages given to `send`.
    pub messages_sent: u64,
    /// User messages handed out by `receive`.
    pub messages_received: u64,
    /// User messages that were given up by their PR-SCTP policies (RFC 7496 section 4.4,
    /// `SCTP_PR_ASSOC_STATUS`).
    pub abandoned: AbandonedMessages,
}

/// Counters of an endpoint, over all its associations since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub struct EndpointStatistics {
    /// Packets handed out to be sent.
    pub packets_sent: u64,
    /// Bytes of them, from the SCTP common header on.
    pub bytes_sent: u64,
    /// Packets taken in, dropped ones included.
    pub packets_received: u64,
    /// Bytes of them, from the SCTP common header on.
    pub bytes_received: u64,
    /// DATA chunks retransmitted after T3-rtx expired.
    pub retransmitted_by_timeout: u64,
    /// DATA chunks retransmitted before T3-rtx expired.
    pub retransmitted_fast: u64,
    /// Those among them that were not known to be lost: tail loss probes (RFC 8985 section 7).
    pub tail_loss_probes: u64,
    /// How often T3-rtx expired (section 6.3.3).
    pub t3_expiries: u64,
    /// How long it ran each time that it did, summed: the retransmission timeouts that were waited for.
    pub t3_waited: Duration,
    /// DATA chunks received that had been received before.
    pub duplicates_received: u64,
    /// What was dropped, and why.
    pub drops: DropStatistics,
}

/// What an endpoint dropped, by reason. Packets, if nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub struct DropStatistics {
    /// Too short, or a chunk with broken framing, or chunks that must not be bundled.
    pub malformed: u64,
    /// Wrong checksum (section 6.8).
    pub checksum: u64,
    /// For another port, or from port 0.
    pub port: u64,
    /// From an address that is not unicast.
    pub not_unicast: u64,
    /// Wrong verification tag (section 8.5).
    pub verification_tag: u64,
    /// Right verification tag, but from an address that is none of the association's.
    pub unknown_path: u64,
    /// Out of the blue (section 8.4), whether answered or not.
    pub out_of_the_blue: u64,
    /// INITs that were answered with ABORT or not at all.
    pub init: u64,
    /// COOKIE ECHOs with a cookie that is not ours or was altered.
    pub cookie_not_authentic: u64,
    /// COOKIE ECHOs with an expired cookie.
    pub cookie_stale: u64,
    /// COOKIE ECHOs that belong to nothing by section 5.2.4, or repeat that of an association that
    /// has ended.
    pub cookie_unexpected: u64,
    /// INITs beyond the bound on those answered within a second.
    pub init_rate: u64,
    /// COOKIE ECHOs beyond the bound on those looked at within a second.
    pub cookie_rate: u64,
    /// INITs refused because they would add addresses to an association that exists
    /// (sections 5.2.1 and 5.2.2).
    pub restart_with_new_addresses: u64,
    /// Addresses in INIT and INIT ACK that were left out: not usable, or too many.
    pub addresses: u64,
    /// COOKIE ECHOs refused because there are too many associations.
    pub too_many_associations: u64,
    /// Verification tags of ended associations that were forgotten before their time, because too
    /// many are remembered.
    pub forgotten_tags: u64,
    /// Replies that were not given because too many wait already.
    pub replies: u64,
    /// Packets of which the part from the AUTH chunk on was dropped, because the AUTH chunk was not
    /// right (RFC 4895 section 6.3).
    pub not_authentic: u64,
    /// Chunks that have to be authenticated and were not (RFC 4895 section 6.3).
    pub not_authenticated: u64,
    /// Chunks that do not belong to the association's state, or are malformed.
    pub chunks: u64,
    /// DATA chunks for which there was no room (section 6.2).
    pub data_no_room: u64,
    /// DATA chunks that were taken back out of order, because the endpoint needed the room
    /// (section 6.2); the peer sends them again.
    pub data_reneged: u64,
    /// DATA chunks too far above the cumulative TSN, or with too many holes before them.
    pub data_out_of_reach: u64,
    /// FORWARD-TSNs that skip more than the peer can have sent (RFC 3758 section 3.6).
    pub forward_tsn_out_of_reach: u64,
    /// DATA chunks on streams beyond those that the peer may send on (section 6.5).
    pub data_invalid_stream: u64,
    /// Messages that were larger than is taken; each ended its association.
    pub messages_too_large: u64,
    /// Chunks of a kind of which too many wait to be answered: HEARTBEATs and reportable errors.
    pub answers: u64,
    /// ICMP messages that quote no packet of an association (section 10, ICMP5).
    pub icmp_unmatched: u64,
    /// ICMP messages that quote neither the peer's verification tag nor our INIT (section 10,
    /// ICMP6).
    pub icmp_verification_tag: u64,
    /// ICMP messages that are about an association and say nothing we heed, like a path MTU that
    /// cannot be.
    pub icmp_ignored: u64,
}
