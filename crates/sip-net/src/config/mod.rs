//! The settings of the transports and the bounds on everything that a peer can make them hold.

mod limits;
mod sctp;
mod websocket;

use std::net::IpAddr;

use sctp_net::{Profile, Tap};
use tap::MessageTap;
use udp_net::Impairment;

use crate::listen::Listen;
use crate::tls::TlsConfig;

pub use limits::Limits;

pub use sctp::{SctpOver, StreamPolicy, UnknownSctpOver, UnknownStreamPolicy};
pub use websocket::WebSocketConfig;

/// What [`Transports::start`](crate::Transports::start) is told.
#[derive(Clone, Debug)]
pub struct SipNetConfig {
    /// The addresses to listen on. A program that only opens connections needs none.
    pub listeners: Vec<Listen>,
    /// What carries SCTP packets.
    pub sctp_over: SctpOver,
    /// Local addresses that belong together, in groups: an SCTP port on one of a group has all of the
    /// group, so that its associations survive the loss of a path (multi-homing, RFC 9260 section
    /// 6.4). An address in no group is alone.
    pub sctp_addresses: Vec<Vec<IpAddr>>,
    /// Over IP on a kernel with an SCTP of its own: a packet-filter rule keeps that from answering
    /// what is ours.
    pub kernel_kept_away: bool,
    /// The local UDP port under our SCTP (RFC 6951): one socket on it for each local IP address,
    /// shared by all SCTP ports. 0 lets the system choose.
    pub encapsulation_port: u16,
    /// The UDP port under the SCTP of a peer that we connect to.
    pub peer_encapsulation_port: u16,
    /// Which SCTP stream a message goes on.
    pub stream_policy: StreamPolicy,
    /// How many pairs of streams an association with TLS has at most: each one in use has a TLS
    /// session of its own (RFC 3436 section 5). The side that asks for fewer decides.
    pub tls_streams: u16,
    /// The protocol parameters of our SCTP endpoints. Where path MTU discovery is on, `mtu` and `guaranteed_receive_bytes` become
    /// what the interfaces of an endpoint's addresses carry, up to 16 KiB, unless they are more or there is an `impairment`.
    pub sctp: ::sctp::EndpointConfig,
    /// Certificates and trusted authorities, wherever TLS is used.
    pub tls: TlsConfig,
    /// WebSocket (RFC 7118).
    pub websocket: WebSocketConfig,
    /// A bad network inside the UDP sockets, those under SCTP included. Each socket draws from a
    /// sequence of its own, which the seed and the order of opening fix.
    pub impairment: Option<Impairment>,
    /// Where to write the SCTP packets that go over the wire.
    pub tap: Option<Tap>,
    /// Where to write the SIP messages that are sent and received, in the clear on every transport.
    pub sip_tap: Option<MessageTap>,
    /// Bounds.
    pub limits: Limits,
}

impl Default for SipNetConfig {
    /// No listeners; encapsulation ports 9899 (RFC 6951 section 5.1); SCTP with the profile for signalling and
    /// 64 outbound streams, so that a stream per call or per user has some to choose from.
    fn default() -> SipNetConfig {
        SipNetConfig {
            listeners: Vec::new(),
            sctp_over: SctpOver::default(),
            sctp_addresses: Vec::new(),
            kernel_kept_away: false,
            encapsulation_port: ENCAPSULATION_PORT,
            peer_encapsulation_port: ENCAPSULATION_PORT,
            stream_policy: StreamPolicy::default(),
            tls_streams: 16,
            sctp: ::sctp::EndpointConfig::default()
                .profile(Profile::Signalling)
                .outbound_streams(64),
            tls: TlsConfig::default(),
            websocket: WebSocketConfig::default(),
            impairment: None,
            tap: None,
            sip_tap: None,
            limits: Limits::default(),
        }
    }
}

/// The port registered for SCTP over UDP (RFC 6951 section 5.1).
const ENCAPSULATION_PORT: u16 = 9899;
