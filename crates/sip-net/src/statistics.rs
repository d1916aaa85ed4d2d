//! What the transports count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use derive_more::AddAssign;
use sip::Transport;

/// What went over the wire and what was refused, of one transport or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
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
    /// Destinations from the Via of a response whose connection was gone that were refused: loopback, private and link-local
    /// addresses of another scope than the sender's.
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

/// Makes a counter for each of these fields of [`WireStatistics`].
macro_rules! counters {
    ($($name:ident,)*) => {
        /// The counters behind [`WireStatistics`] that this crate itself counts; those of the wire come
        /// from the sockets.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> WireStatistics {
                WireStatistics {
                    $($name: self.$name.get(),)*
                    ..WireStatistics::default()
                }
            }
        }
    };
}

counters! {
    messages_sent,
    messages_received,
    keep_alives,
    malformed,
    incoming_dropped,
    sends_failed,
    undelivered,
    places_refused,
    reports_dropped,
    connections_accepted,
    connections_opened,
    connections_refused,
    connects_failed,
    handshakes_failed,
    accept_errors,
    listeners_failed,
    partial_message_timeouts,
    partial_messages_given_up,
    connections_displaced,
    first_message_timeouts,
    idle_timeouts,
    stalled_write_timeouts,
    unanswered_pings,
}

/// The counters of each transport.
#[derive(Debug, Default)]
pub(crate) struct AllCounters([Counters; Transport::ALL.len()]);

impl AllCounters {
    pub(crate) fn of(&self, transport: Transport) -> &Counters {
        &self.0[transport as usize]
    }
}
