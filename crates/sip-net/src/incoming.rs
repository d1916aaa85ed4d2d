//! What comes out of the transports, in plain data.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use sip::transaction::TransactionKey;
use sip::{ConnectionId, Flow, Message, Transport};

/// An event of the transports.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A message. It could be read, which does not mean that it keeps the rules:
    /// [`Message::validate`] tells.
    Message {
        /// The way it came, and by which an answer can go back.
        flow: Flow,
        /// The message.
        message: Message,
        /// When it came: a datagram to the kernel, where that tells, else when it was read from the socket.
        received: Instant,
    },
    /// A datagram that begins with a start line, where that is wanted
    /// ([`Transports::leave_datagrams_unread`](crate::Transports::leave_datagrams_unread)). It may be no message.
    Unread {
        /// The way it came, and by which an answer can go back.
        flow: Flow,
        /// The datagram.
        bytes: Bytes,
        /// When it came to the kernel, where that tells, else when it was read from the socket.
        received: Instant,
    },
    /// A pong, or a STUN response, where that is wanted
    /// ([`Transports::tell_keep_alives`](crate::Transports::tell_keep_alives)): a keep-alive of ours was answered (RFC 5626 section
    /// 4.4), or the peer says so unasked.
    KeepAlive {
        /// The way it came.
        flow: Flow,
        /// The line ends, or the STUN message.
        payload: Bytes,
    },
    /// Octets that are no message. On a stream transport the place where the next message begins is
    /// lost with it: an answer to it can still be sent, for a second, then the connection is closed.
    Malformed {
        /// The way they came.
        flow: Flow,
        /// The octets, on a stream transport at most the limit of a header section.
        bytes: Bytes,
        /// What is wrong with them.
        reason: MalformedReason,
    },
    /// The far end of a connection or association has shown a certificate that was verified. It comes
    /// before the messages of the connection. On TLS over SCTP it may come again, with fewer names: those
    /// that the sessions of the association have all shown.
    ConnectionIdentified {
        /// Which one.
        connection: ConnectionId,
        /// The SIP domains that the certificate is for (RFC 5922 section 7.1), 64 at most.
        names: Arc<[Box<str>]>,
    },
    /// A connection or association, opened by either side, is gone. Flows along it are dead.
    ConnectionClosed {
        /// Which one.
        connection: ConnectionId,
        /// Its transport.
        transport: Transport,
        /// The far end.
        remote: SocketAddr,
        /// Why.
        reason: CloseReason,
    },
    /// A message of this transaction was not sent; or a request was, over a connection that has ended
    /// since, so that no answer comes by it (RFC 3261 section 18.4). It may have been answered before.
    SendFailed {
        /// The transaction that the [`Transmit`](sip::Transmit) named.
        transaction: TransactionKey,
        /// Why.
        error: SendError,
    },
    /// The network says of a datagram that we sent that it did not get to its destination (RFC 3261 section 18.4). Reports
    /// can be forged by every host that has seen the message, or one that was forwarded for it.
    Undelivered {
        /// Where it went.
        remote: SocketAddr,
        /// How it began, as far as that was quoted in whole lines.
        beginning: Message,
    },
}

/// What is wrong with octets that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedReason {
    /// They cannot be read as a message.
    #[error(transparent)]
    Read(#[from] sip::ReadError),
    /// The end of the message cannot be found in the stream (RFC 3261 section 18.3).
    #[error(transparent)]
    Framing(#[from] sip::FramingError),
}

/// Why a connection or association ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer closed it.
    #[error("closed by the peer")]
    Peer,
    /// We were asked to close it, or the transports shut down.
    #[error("closed by us")]
    Local,
    /// The stream could not be cut into messages any more.
    #[error("no message in the stream: {0}")]
    Framing(MalformedReason),
    /// The peer began a message and did not finish it in time.
    #[error("a message was not finished in time")]
    PartialMessage,
    /// Messages that were not finished took too much room on all connections together, and the one on this connection was
    /// the largest.
    #[error("no room for a message that was not finished")]
    PartialMessages,
    /// There were too many connections, and this was the oldest one of an unknown peer, from the source with most of those.
    #[error("gave way to other connections")]
    Displaced,
    /// The peer opened it and sent no message in time.
    #[error("no first message in time")]
    Silent,
    /// Nothing went over it for long.
    #[error("idle")]
    Idle,
    /// The peer did not take what we sent.
    #[error("the peer does not read")]
    Stalled,
    /// TLS failed, or was not set up in time.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer broke the rules of WebSocket (RFC 6455).
    #[error("WebSocket: {0}")]
    WebSocket(String),
    /// The peer did not answer a ping.
    #[error("no answer to a ping")]
    NoPong,
    /// The connection failed.
    #[error("failed: {0}")]
    Failed(String),
}

/// Why a message was not sent or a connection not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The flow's connection is gone.
    #[error("the connection is gone")]
    Gone,
    /// More than the limit waits to be sent there already.
    #[error("too much is waiting to be sent there")]
    QueueFull,
    /// More than a datagram or a user message of the transport holds.
    #[error("the message is too large for the transport")]
    TooLarge,
    /// The connection was not opened in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// As many connections are open as the limit allows.
    #[error("too many connections")]
    TooManyConnections,
    /// The transports are shut down.
    #[error("shut down")]
    ShutDown,
    /// The system refused.
    #[error("{1}")]
    Io(io::ErrorKind, String),
    /// TLS was not set up: the peer has no certificate that is believed, or there is no TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// WebSocket was not set up: the server does not know it, or not for SIP.
    #[error("WebSocket: {0}")]
    WebSocket(String),
    /// The SCTP association was not set up or was lost.
    #[error("{0}")]
    Sctp(String),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::Io(error.kind(), error.to_string())
    }
}
