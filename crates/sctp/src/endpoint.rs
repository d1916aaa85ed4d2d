//! One local SCTP port with all its associations.

use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;

use crate::{AssociationStatistics, AssociationStatus, EndpointConfig, EndpointStatistics, Event};

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

/// How a message is to be sent (RFC 9260 section 11.1, SEND).
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
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
}

/// One local SCTP port with all its associations. See the crate's documentation.
pub struct Endpoint {
    local_port: u16,
    config: EndpointConfig,
    statistics: EndpointStatistics,
}

impl Endpoint {
    /// An endpoint on `local_port`; `rng` is the source of tags, nonces and keys.
    pub fn new(local_port: u16, config: EndpointConfig, _rng: ChaCha12Rng) -> Endpoint {
        Endpoint {
            local_port,
            config,
            statistics: EndpointStatistics::default(),
        }
    }

    /// The local SCTP port.
    pub fn local_port(&self) -> u16 {
        self.local_port
    }

    /// The settings that it was made with.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Takes in a packet, from the SCTP common header on.
    pub fn handle_packet(&mut self, _now: Instant, _from: PathAddress, _packet: Bytes) {
        todo!()
    }

    /// Begins an association (section 11.1, ASSOCIATE). `Event::CommunicationUp` or
    /// `Event::CannotStart` tells how it went; messages can be sent at once and leave with the
    /// COOKIE ECHO.
    pub fn connect(
        &mut self,
        _now: Instant,
        _to: PathAddress,
        _remote_port: u16,
    ) -> Result<AssociationId, ConnectError> {
        todo!()
    }

    /// Queues a message (section 11.1, SEND).
    pub fn send(
        &mut self,
        _now: Instant,
        _id: AssociationId,
        _info: SendInfo,
        _payload: Bytes,
    ) -> Result<(), SendError> {
        todo!()
    }

    /// The next message that arrived whole, and in its turn (section 11.1, RECEIVE). What is not
    /// pulled fills the window that the peer sees.
    pub fn receive(&mut self, _now: Instant, _id: AssociationId) -> Option<ReceivedMessage> {
        todo!()
    }

    /// Ends an association in good order (section 9.2): what is queued is delivered first.
    pub fn shutdown(&mut self, _now: Instant, _id: AssociationId) -> Result<(), ShutdownError> {
        todo!()
    }

    /// Ends an association at once (section 9.1); `reason` goes to the peer.
    pub fn abort(
        &mut self,
        _now: Instant,
        _id: AssociationId,
        _reason: &[u8],
    ) -> Result<(), AbortError> {
        todo!()
    }

    /// The next packet to send. To be called until `None` after each of the calls above.
    pub fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        todo!()
    }

    /// The next event. To be called until `None` after each of the calls above.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When `handle_timeout` wants to be called; `None` when nothing is waited for. It may be
    /// called early or late: early does nothing.
    pub fn next_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, _now: Instant) {
        todo!()
    }

    /// A snapshot of an association; `None` when it is not known (any more).
    pub fn status(&self, _id: AssociationId) -> Option<AssociationStatus> {
        todo!()
    }

    /// Counters of an association; `None` when it is not known (any more).
    pub fn association_statistics(&self, _id: AssociationId) -> Option<AssociationStatistics> {
        todo!()
    }

    /// Counters over all associations.
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.statistics
    }

    /// How many associations there are, in any state.
    pub fn association_count(&self) -> usize {
        todo!()
    }
}
