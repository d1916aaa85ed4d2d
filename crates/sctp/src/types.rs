//! The plain data that goes in and out of an endpoint.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;

/// Where a packet goes to or came from: the far end of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathAddress {
    /// Our own address on this path, where it is known.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's UDP encapsulation port (RFC 6951); `None` is SCTP right over IP.
    pub encapsulation_port: Option<u16>,
}

/// Names an association of one endpoint; never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId(pub(crate) u64);

impl fmt::Display for AssociationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// How a message is to be sent (RFC 9260 section 11.1.5, SEND).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendInfo {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// Deliver without regard to order.
    pub unordered: bool,
    /// Ask the peer to acknowledge without delay (the I bit, section 3.3.1).
    pub sack_immediately: bool,
}

/// A user message that arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// Whether it was sent without regard to order.
    pub unordered: bool,
    /// Stream sequence number; without meaning when `unordered`.
    pub ssn: u16,
    /// The message.
    pub payload: Bytes,
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub path: PathAddress,
    /// The packet, from the SCTP common header on, checksum filled in.
    pub packet: Bytes,
}

/// Why `connect` refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There is an association with this peer already.
    #[error("there is an association with this peer already")]
    AlreadyAssociated,
    /// The bound on associations is reached.
    #[error("too many associations")]
    TooManyAssociations,
    /// Port 0 names no peer.
    #[error("port 0 cannot be connected to")]
    InvalidPort,
    /// Associations are between unicast addresses.
    #[error("the peer's address is not unicast")]
    InvalidAddress,
}

/// Why `send` refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
    /// The send buffer is full; `Event::Writable` tells when to try again.
    #[error("the send buffer is full")]
    BufferFull,
    /// The association has no such outbound stream.
    #[error("no such outbound stream")]
    InvalidStream,
    /// The message can never fit.
    #[error("the message is too large")]
    TooLarge,
    /// The association is being shut down.
    #[error("the association is being shut down")]
    ShuttingDown,
    /// An empty message cannot be sent (RFC 9260 section 3.3.1).
    #[error("an empty message cannot be sent")]
    Empty,
}

/// Why `shutdown` refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShutdownError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
}

/// Why `abort` refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortError {
    /// There is no such association, or it has ended and nothing was left of it.
    #[error("no such association")]
    UnknownAssociation,
}
