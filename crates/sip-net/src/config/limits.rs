//! The bounds on everything that a peer can make the transports hold.

use std::time::Duration;

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
    /// Bytes waiting to be sent on all connections, associations and UDP sockets together. A message of which a part is sent
    /// may take a quarter more; where there is no room for the rest of it, its connection ends.
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
