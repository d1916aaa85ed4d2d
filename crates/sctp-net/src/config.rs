//! The settings of a stack.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tap::Tap;
use udp_net::Impairment;

/// The UDP port that SCTP in UDP uses unless told otherwise (RFC 6951 section 5.1).
pub const DEFAULT_ENCAPSULATION_PORT: u16 = 9899;

/// How a [`Stack`](crate::Stack) uses UDP.
#[derive(Clone, Debug)]
pub struct UdpCarrierConfig {
    /// The local addresses and the local UDP encapsulation port, the same for all of them. Port 0
    /// lets the kernel choose one. With more than one address associations are multi-homed: the
    /// peer is told all of them, so they should be reachable for it as they are (RFC 6951 section
    /// 5.7: not through a NAT). A wildcard address stands for itself, and lists nothing. Link-local
    /// peers are on the interface that the scope of an IPv6 address names; without a scope there are
    /// none.
    pub addresses: Vec<SocketAddr>,
    /// The peer's UDP encapsulation port where `connect` is not told another one. The port of
    /// a peer that associates with us is learnt from its packets.
    pub peer_encapsulation_port: u16,
    /// A bad network inside each socket; none by default.
    pub impairment: Option<Impairment>,
    /// Whether the kernel may take several packets at once (GSO), which saves much of the cost of
    /// bulk transfers; see [`UdpConfig`](udp_net::UdpConfig) for what captures then show.
    pub segmentation_offload: bool,
    /// How many associations of an endpoint may wait to be accepted. Further ones are aborted.
    pub accept_backlog: usize,
    /// How long `close` waits for associations to shut down before it aborts them.
    pub close_timeout: Duration,
    /// Whether packets that are read together are acknowledged together, instead of every second one by itself (RFC 9260
    /// section 6.2). It saves packets where messages are few and small, such as signalling; a sender of bulk data is told
    /// of less at a time, and of the window's growth later. False by default.
    pub joint_acknowledgement: bool,
    /// How many tasks share the work; 0 counts as 1. Each association belongs to one of them.
    pub workers: usize,
    /// A capture of what goes over the wire; none by default.
    pub tap: Option<Tap>,
}

impl UdpCarrierConfig {
    /// The defaults for a local address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            addresses: vec![address],
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            impairment: None,
            segmentation_offload: true,
            accept_backlog: ACCEPT_BACKLOG,
            close_timeout: CLOSE_TIMEOUT,
            joint_acknowledgement: false,
            workers: 1,
            tap: None,
        }
    }
}

/// How a [`Stack`](crate::Stack) uses IP directly, as protocol 132. It needs the capability
/// CAP_NET_RAW.
#[derive(Clone, Debug)]
pub struct RawCarrierConfig {
    /// The local addresses, of either IP version; empty: all of the host's that are usable.
    pub addresses: Vec<IpAddr>,
    /// A kernel with an SCTP of its own answers our packets with ABORT, so a stack is refused there.
    /// True says that a packet-filter rule keeps it from that; the error of
    /// [`Stack::raw`](crate::Stack::raw) spells the rule out.
    pub kernel_kept_away: bool,
    /// How many associations of an endpoint may wait to be accepted. Further ones are aborted.
    pub accept_backlog: usize,
    /// How long `close` waits for associations to shut down before it aborts them.
    pub close_timeout: Duration,
    /// Whether packets that are read together are acknowledged together, instead of every second one by itself (RFC 9260
    /// section 6.2). It saves packets where messages are few and small, such as signalling; a sender of bulk data is told
    /// of less at a time, and of the window's growth later. False by default.
    pub joint_acknowledgement: bool,
    /// How many tasks share the work; 0 counts as 1. Each association belongs to one of them.
    pub workers: usize,
    /// A capture of what goes over the wire; none by default.
    pub tap: Option<Tap>,
}

impl Default for RawCarrierConfig {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            kernel_kept_away: false,
            accept_backlog: ACCEPT_BACKLOG,
            close_timeout: CLOSE_TIMEOUT,
            joint_acknowledgement: false,
            workers: 1,
            tap: None,
        }
    }
}

/// How a [`Stack`](crate::Stack) uses the SCTP of the kernel.
///
/// What differs from our own SCTP, which the other carriers have:
///
/// - The kernel takes these of the settings in [`EndpointConfig`](crate::EndpointConfig): those of RTO, cookie
///   life, retransmissions, heartbeats, potentially failed paths and SACKs, Max.Burst, streams, `a_rwnd` and
///   `send_buffer` (as far as the system allows), `nodelay`, `partial_delivery_point`, and `mtu` where
///   `path_mtu_discovery` is off. Zero retransmissions count as one. It has its own way with all others, and
///   none for `unbundled` messages. RTO settings are the same for all paths of an association.
/// - The life time of a message needs a peer that knows partial reliability (RFC 3758), and ends it also
///   when some of it has been sent.
/// - A message that could not be sent comes back in the pieces in which it was to be sent.
/// - In one-to-one style each association takes a file descriptor; in one-to-many style they share the
///   socket's buffers, so that a peer that does not receive may hold up what is sent to the others.
/// - What the kernel does not tell about an association, like bytes in flight, is zero in its status.
/// - The end of an association is known when what arrived before it has been received, unless this side
///   ends it.
/// - Packets cannot be captured here: see a network monitor such as tcpdump.
#[derive(Clone, Debug)]
pub struct KernelCarrierConfig {
    /// The local addresses, of either IP version; empty, or a wildcard: all of the host's.
    pub addresses: Vec<IpAddr>,
    /// How many associations of an endpoint may wait to be accepted. Further ones are aborted.
    pub accept_backlog: usize,
    /// How long `close` waits for associations to shut down before it aborts them.
    pub close_timeout: Duration,
}

impl Default for KernelCarrierConfig {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            accept_backlog: ACCEPT_BACKLOG,
            close_timeout: CLOSE_TIMEOUT,
        }
    }
}

const ACCEPT_BACKLOG: usize = 1024;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
