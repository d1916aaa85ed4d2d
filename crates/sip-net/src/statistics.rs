//! What the transports count.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sip::Transport;

/// What went over the wire and what was refused, of one transport or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireStatistics {
    /// IP packets sent. With an impairment they are counted before it drops them.
    pub packets_sent: u64,
    /// IP packets received. With an impairment they are counted before it drops them, so that sent
    /// and received together are what both sides put on the wire.
    pub packets_received: u64,
    /// Bytes sent, IP headers included. For TCP the headers are estimated: the kernel tells segments
    /// and payload; 32 bytes of TCP header (with time stamps) are assumed and no IP options.
    pub bytes_sent: u64,
    /// Bytes received, IP headers included; for TCP estimated as for those sent.
    pub bytes_received: u64,
    /// Segments (TCP) or DATA chunks (SCTP) that our side sent again.
    pub transport_retransmissions: u64,

    /// SIP messages handed to the transport.
    pub messages_sent: u64,
    /// SIP messages received, those that were dropped afterwards included. So are datagrams that begin as a message does
    /// and are handed over [unread](crate::Transports::leave_datagrams_unread): what turns out to be no message then is not
    /// among the `malformed`.
    pub messages_received: u64,
    /// Keep-alives received: CRLF on any transport (RFC 5626 section 3.5.1), STUN over UDP (section
    /// 3.5.2), pings and pongs of WebSocket.
    pub keep_alives: u64,
    /// Datagrams, user messages or streams that were no SIP message.
    pub malformed: u64,
    /// Datagrams dropped because the queue of incoming events was full.
    pub incoming_dropped: u64,
    /// Messages not sent, for whatever reason.
    pub sends_failed: u64,
    /// Datagrams of which the network has said that they cannot get there.
    pub undelivered: u64,
    /// Places to which the Via of a response led whose connection was gone, and to which it did not go: they are not
    /// for everybody to name (loopback, private and link-local addresses).
    pub places_refused: u64,
    /// Failures that were not reported because the queue of incoming events was full; and what the network says of
    /// datagrams without quoting their Call-ID, of responses, and of requests beyond a hundred in a second.
    pub reports_dropped: u64,

    /// Connections, associations and client UDP sockets that are open or being opened.
    pub connections: u64,
    /// Connections that peers opened to us.
    pub connections_accepted: u64,
    /// Connections that we opened.
    pub connections_opened: u64,
    /// Connections that peers tried to open to us beyond a limit, that of their source or of all.
    pub connections_refused: u64,
    /// Attempts to open a connection that failed.
    pub connects_failed: u64,
    /// Connections of peers that did not make the handshake of TLS or WebSocket.
    pub handshakes_failed: u64,
    /// Connections whose acceptance the system refused (out of descriptors, reset at once).
    pub accept_errors: u64,
    /// Listeners that failed while they served; everything stops then.
    pub listeners_failed: u64,
    /// Connections closed because a message was not finished in time.
    pub partial_message_timeouts: u64,
    /// Connections closed because messages that were not finished took too much room on all connections together.
    pub partial_messages_given_up: u64,
    /// Connections closed because there were too many, of peers that we do not know.
    pub connections_displaced: u64,
    /// Connections closed because the peer that had opened them sent no message in time.
    pub first_message_timeouts: u64,
    /// Connections closed because they were idle.
    pub idle_timeouts: u64,
    /// Connections closed because their peer did not read.
    pub stalled_write_timeouts: u64,
    /// WebSockets closed because their peer did not answer a ping.
    pub unanswered_pings: u64,
}

impl WireStatistics {
    /// IP packets in both directions.
    pub fn packets(&self) -> u64 {
        self.packets_sent + self.packets_received
    }

    /// Bytes in both directions, IP headers included.
    pub fn bytes(&self) -> u64 {
        self.bytes_sent + self.bytes_received
    }
}

impl AddAssign for WireStatistics {
    fn add_assign(&mut self, other: WireStatistics) {
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.transport_retransmissions += other.transport_retransmissions;
        self.messages_sent += other.messages_sent;
        self.messages_received += other.messages_received;
        self.keep_alives += other.keep_alives;
        self.malformed += other.malformed;
        self.incoming_dropped += other.incoming_dropped;
        self.sends_failed += other.sends_failed;
        self.undelivered += other.undelivered;
        self.places_refused += other.places_refused;
        self.reports_dropped += other.reports_dropped;
        self.connections += other.connections;
        self.connections_accepted += other.connections_accepted;
        self.connections_opened += other.connections_opened;
        self.connections_refused += other.connections_refused;
        self.connects_failed += other.connects_failed;
        self.handshakes_failed += other.handshakes_failed;
        self.accept_errors += other.accept_errors;
        self.listeners_failed += other.listeners_failed;
        self.partial_message_timeouts += other.partial_message_timeouts;
        self.partial_messages_given_up += other.partial_messages_given_up;
        self.connections_displaced += other.connections_displaced;
        self.first_message_timeouts += other.first_message_timeouts;
        self.idle_timeouts += other.idle_timeouts;
        self.stalled_write_timeouts += other.stalled_write_timeouts;
        self.unanswered_pings += other.unanswered_pings;
    }
}

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters behind [`WireStatistics`] that this crate itself counts; those of the wire come
/// from the sockets.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) messages_sent: Counter,
    pub(crate) messages_received: Counter,
    pub(crate) keep_alives: Counter,
    pub(crate) malformed: Counter,
    pub(crate) incoming_dropped: Counter,
    pub(crate) sends_failed: Counter,
    pub(crate) undelivered: Counter,
    pub(crate) places_refused: Counter,
    pub(crate) reports_dropped: Counter,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_opened: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) connects_failed: Counter,
    pub(crate) handshakes_failed: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) listeners_failed: Counter,
    pub(crate) partial_message_timeouts: Counter,
    pub(crate) partial_messages_given_up: Counter,
    pub(crate) connections_displaced: Counter,
    pub(crate) first_message_timeouts: Counter,
    pub(crate) idle_timeouts: Counter,
    pub(crate) stalled_write_timeouts: Counter,
    pub(crate) unanswered_pings: Counter,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> WireStatistics {
        WireStatistics {
            messages_sent: self.messages_sent.get(),
            messages_received: self.messages_received.get(),
            keep_alives: self.keep_alives.get(),
            malformed: self.malformed.get(),
            incoming_dropped: self.incoming_dropped.get(),
            sends_failed: self.sends_failed.get(),
            undelivered: self.undelivered.get(),
            places_refused: self.places_refused.get(),
            reports_dropped: self.reports_dropped.get(),
            connections_accepted: self.connections_accepted.get(),
            connections_opened: self.connections_opened.get(),
            connections_refused: self.connections_refused.get(),
            connects_failed: self.connects_failed.get(),
            handshakes_failed: self.handshakes_failed.get(),
            accept_errors: self.accept_errors.get(),
            listeners_failed: self.listeners_failed.get(),
            partial_message_timeouts: self.partial_message_timeouts.get(),
            partial_messages_given_up: self.partial_messages_given_up.get(),
            connections_displaced: self.connections_displaced.get(),
            first_message_timeouts: self.first_message_timeouts.get(),
            idle_timeouts: self.idle_timeouts.get(),
            stalled_write_timeouts: self.stalled_write_timeouts.get(),
            unanswered_pings: self.unanswered_pings.get(),
            ..WireStatistics::default()
        }
    }
}

/// A set of counters for each transport.
#[derive(Debug, Default)]
pub(crate) struct AllCounters {
    udp: Counters,
    tcp: Counters,
    sctp: Counters,
    tls_sctp: Counters,
    tls: Counters,
    ws: Counters,
    wss: Counters,
}

impl AllCounters {
    pub(crate) fn of(&self, transport: Transport) -> &Counters {
        match transport {
            Transport::Udp => &self.udp,
            Transport::Tcp => &self.tcp,
            Transport::Sctp => &self.sctp,
            Transport::TlsSctp => &self.tls_sctp,
            Transport::Tls => &self.tls,
            Transport::Ws => &self.ws,
            Transport::Wss => &self.wss,
        }
    }
}
