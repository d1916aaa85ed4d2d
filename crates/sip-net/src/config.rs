//! The settings of the transports and the bounds on everything that a peer can make them hold.

use std::net::IpAddr;
use std::time::Duration;

use sctp_net::Tap;
use tap::SipTap;
use udp_net::Impairment;

use crate::listen::Listen;
use crate::sctp::{SctpOver, StreamPolicy};
use crate::stream::WebSocketConfig;
use crate::tls::TlsConfig;

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
    pub sctp: sctp::EndpointConfig,
    /// Certificates, and whom we believe, wherever TLS is used.
    pub tls: TlsConfig,
    /// WebSocket (RFC 7118).
    pub websocket: WebSocketConfig,
    /// A bad network inside the UDP sockets, those under SCTP included. Each socket draws from a
    /// sequence of its own, which the seed and the order of opening fix.
    pub impairment: Option<Impairment>,
    /// Where to write the SCTP packets that go over the wire.
    pub tap: Option<Tap>,
    /// Where to write the SIP messages that are sent and received, in the clear on every transport.
    pub sip_tap: Option<SipTap>,
    /// Bounds.
    pub limits: Limits,
}

impl Default for SipNetConfig {
    /// No listeners; encapsulation ports 9899 (RFC 6951 section 5.1); 64 outbound SCTP streams, so
    /// that a stream per call or per user has some to choose from.
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
            sctp: sctp::EndpointConfig {
                outbound_streams: 64,
                ..Default::default()
            },
            tls: TlsConfig::default(),
            websocket: WebSocketConfig::default(),
            impairment: None,
            tap: None,
            sip_tap: None,
            limits: Limits::default(),
        }
    }
}

/// Bounds on time and memory. A limit reached is an error to the sender or a counted drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the start line and header section of a message on a stream transport.
    pub max_header_bytes: usize,
    /// Bytes of the body of a message on a stream transport.
    pub max_body_bytes: usize,
    /// How long a peer may take from the first byte of a message on a stream transport to its last.
    pub partial_message_timeout: Duration,
    /// Bytes of messages on stream transports that are not finished, on all connections together. Beyond it the largest one of
    /// the source that holds most is given up, and its connection closed. Messages of up to 4 KiB do not count.
    pub all_partial_messages_bytes: usize,
    /// Of those, the ones of one IPv4 address or one IPv6 prefix of 64 bits.
    pub partial_messages_bytes_per_source: usize,
    /// How long a connection whose peer has closed its half (TCP's FIN) stays for the final
    /// responses to what the peer has asked. 64*T1, the time of Timer F (RFC 3261 section
    /// 17.1.2.2): after it only an INVITE can still be waiting. It ends at once where nothing is to
    /// be answered.
    pub half_closed_timeout: Duration,
    /// A connection that a peer opened and on which no whole message of its has come for so long
    /// since is closed. Keep-alives are no messages.
    pub first_message_timeout: Duration,
    /// How long a peer may take for the handshakes of TLS and WebSocket.
    pub handshake_timeout: Duration,
    /// Connections and associations at one time whose first handshake of TLS or WebSocket is not finished,
    /// of those that peers have opened. Further ones are closed at once.
    pub max_handshakes: usize,
    /// Of those, the ones that peers with one IPv4 address or one IPv6 prefix of 64 bits opened, so
    /// that a single host does not shut out all others.
    pub max_handshakes_per_source: usize,
    /// A connection over which nothing has gone for so long, in either direction, is closed. Keep-alives
    /// count, so that a peer that sends them keeps its connection (RFC 5626 section 3.5). For phones
    /// behind NAT that send none it should exceed the registration interval: they are reached by their
    /// connection alone.
    pub idle_timeout: Duration,
    /// A connection whose peer takes nothing of what we send for so long is closed.
    pub stalled_write_timeout: Duration,
    /// How long opening a connection may take, handshakes included. Far below Timers B and F (32 s, RFC
    /// 3261 section 17.1.1.1), so that there is time for the next hops that are tried after a dead one.
    pub connect_timeout: Duration,
    /// Connections, associations and client UDP sockets at one time. Where there is no room for another one that a peer
    /// opens, or those of peers that are not [known](crate::Transports::known) take more than three quarters of it, the oldest
    /// one of these gives way, of the source that has most of them. Where there is none, it is closed at once.
    pub max_connections: usize,
    /// Of those, the ones that peers with one IPv4 address or one IPv6 prefix of 64 bits opened, so
    /// that a single host does not shut out all others. Further ones are closed at once.
    pub max_accepted_per_source: usize,
    /// Messages waiting to be sent on one connection.
    pub write_queue_messages: usize,
    /// Bytes waiting to be sent on one connection.
    pub write_queue_bytes: usize,
    /// Bytes waiting to be sent on all connections, associations and UDP sockets together.
    pub all_write_queues_bytes: usize,
    /// Events waiting to be taken from the queue of [`Incoming`](crate::Incoming). While it is full,
    /// connections are not read; datagrams are dropped.
    pub incoming_queue: usize,
    /// Responses at one time whose connection is gone, and for which a place is looked for by what their Via says
    /// (RFC 3263 section 5). Further ones are not sent.
    pub max_located_responses: usize,
    /// How long [`Transports::shutdown`](crate::Transports::shutdown) may take.
    pub shutdown_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_header_bytes: 64 * 1024,
            max_body_bytes: 256 * 1024,
            partial_message_timeout: Duration::from_secs(30),
            all_partial_messages_bytes: 64 * 1024 * 1024,
            partial_messages_bytes_per_source: 16 * 1024 * 1024,
            half_closed_timeout: Duration::from_secs(32),
            first_message_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            max_handshakes: 4_096,
            max_handshakes_per_source: 256,
            idle_timeout: Duration::from_secs(3_900),
            stalled_write_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_connections: 16_384,
            max_accepted_per_source: 4_096,
            write_queue_messages: 1_024,
            write_queue_bytes: 4 * 1024 * 1024,
            all_write_queues_bytes: 256 * 1024 * 1024,
            incoming_queue: 4_096,
            max_located_responses: 64,
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

/// The port registered for SCTP over UDP (RFC 6951 section 5.1).
const ENCAPSULATION_PORT: u16 = 9899;
