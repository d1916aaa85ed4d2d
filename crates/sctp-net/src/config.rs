//! The settings of a stack.

use std::net::SocketAddr;
use std::time::Duration;

use udp_net::Impairment;

/// The UDP port that SCTP in UDP uses unless told otherwise (RFC 6951 section 5.1).
pub const DEFAULT_ENCAPSULATION_PORT: u16 = 9899;

/// How a [`Stack`](crate::Stack) uses UDP.
#[derive(Clone, Debug)]
pub struct UdpCarrierConfig {
    /// The local address and the local UDP encapsulation port. Port 0 lets the kernel choose one.
    pub address: SocketAddr,
    /// The peer's UDP encapsulation port where `connect` is not told another one. The port of
    /// a peer that associates with us is learnt from its packets.
    pub peer_encapsulation_port: u16,
    /// A bad network inside the socket; none by default.
    pub impairment: Option<Impairment>,
    /// Whether the kernel may take several packets at once (GSO), which saves much of the cost of
    /// bulk transfers; see [`UdpConfig`](udp_net::UdpConfig) for what captures then show.
    pub segmentation_offload: bool,
    /// How many associations of an endpoint may wait to be accepted. Further ones are aborted.
    pub accept_backlog: usize,
    /// How long `close` waits for associations to shut down before it aborts them.
    pub close_timeout: Duration,
}

impl UdpCarrierConfig {
    /// The defaults for a local address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            impairment: None,
            segmentation_offload: true,
            accept_backlog: 1024,
            close_timeout: Duration::from_secs(3),
        }
    }
}
