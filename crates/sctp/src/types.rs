//! The plain data that goes in and out of an endpoint.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;

use crate::{AssociationConfig, PrPolicy};

/// Which of the streams that have something to send has the next turn (RFC 8260 section 3). A turn is a
/// message, or, where messages may be interleaved, a fragment of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StreamScheduler {
    /// Messages leave in the order in which they came (section 3.1).
    #[default]
    FirstComeFirstServed,
    /// The streams take turns (section 3.2).
    RoundRobin,
    /// The streams take turns, each filling a packet (section 3.3).
    RoundRobinPerPacket,
    /// The stream of the highest priority has the turn: the one whose value is lowest (section 3.4).
    Priority,
    /// Each stream sends as many bytes as any other (section 3.5).
    FairCapacity,
    /// Each stream sends bytes in proportion to its weight, its value (section 3.6); 0 counts as 1.
    WeightedFairQueueing,
}

/// Where a packet goes to or came from: the far end of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathAddress {
    /// Our own address on this path. Of a packet to send: where it must come from, or `None` when
    /// the driver is free to choose. Of a packet received: where it was sent to, if that is known.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's UDP encapsulation port (RFC 6951); `None` is SCTP right over IP.
    pub encapsulation_port: Option<u16>,
}

/// Names an association of one endpoint; never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId(pub(crate) u64);

impl AssociationId {
    /// The name with this number, for those who serve associations of which no endpoint of ours
    /// knows, such as the kernel's.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

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
    /// The peer's address to send it to, in place of the primary path, whenever possible
    /// ("destination transport address").
    pub path: Option<IpAddr>,
    /// Do not delay it for the sake of bundling ("no-bundle flag"): it overrides
    /// [`AssociationConfig::nodelay`](field@AssociationConfig::nodelay) being off.
    pub unbundled: bool,
    /// When none of it has been sent by then, it is not sent any more, and
    /// [`Event::SendFailed`](crate::Event::SendFailed) tells ("life time"). Without a `pr_policy`, it is
    /// that of [`PrPolicy::Timed`], too: what was sent of it is not sent again.
    pub life_time: Option<Duration>,
    /// When it is given up (RFC 6458 `SCTP_PRINFO`). `None`: by its `life_time`, or, without one, by
    /// [`AssociationConfig::default_pr_policy`](field@AssociationConfig::default_pr_policy).
    pub pr_policy: Option<PrPolicy>,
    /// The shared key that authenticates it where the peer asks for that (RFC 6458 section 5.3.8,
    /// `SCTP_AUTHINFO`); `None` is the active one. Messages with different keys never share a packet.
    pub shared_key: Option<u16>,
    /// Comes back in [`Event::SendFailed`](crate::Event::SendFailed) and means nothing to us.
    pub context: u32,
}

/// What to connect to (RFC 9260 section 11.1.2, ASSOCIATE).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Connect {
    /// Addresses of the peer that are known beforehand, the first one being the primary. The INIT
    /// goes to them in turn; the peer's answer may tell of more.
    pub peer: Vec<PathAddress>,
    /// The peer's SCTP port.
    pub port: u16,
    /// The settings of this association; `None` takes those of the endpoint.
    pub config: Option<AssociationConfig>,
}

/// Which verification tags an endpoint gives out, for drivers that let several endpoints work side
/// by side on one port and hand each packet to its owner by the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagOwner {
    /// This endpoint's number: its tags have this remainder when divided by `count`.
    pub index: u32,
    /// How many endpoints there are; 0 counts as 1.
    pub count: u32,
}

impl TagOwner {
    /// The tag of ours that is nearest below `tag`, or 0 when there is none.
    pub(crate) fn own(self, tag: u32) -> u32 {
        let count = self.count.max(1);
        let begin = tag - tag % count;
        begin.checked_add(self.index % count).unwrap_or(0)
    }
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
    /// The message, or a part of it.
    pub payload: Bytes,
    /// Whether the message ends here (RFC 6458 `MSG_EOR`). `false` only under partial delivery.
    pub end_of_record: bool,
}

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub path: PathAddress,
    /// The packet, from the SCTP common header on, checksum filled in.
    pub packet: Bytes,
    /// Whether IP may fragment it. If not, Don't Fragment is to be set where it can be.
    pub may_fragment: bool,
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
    /// Associations are between unicast addresses, and at least one is needed.
    #[error("the peer's address is not unicast")]
    InvalidAddress,
    /// More addresses than an association may have.
    #[error("too many addresses")]
    TooManyAddresses,
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
    /// The address to send it to is not one of the peer's.
    #[error("not an address of the peer")]
    UnknownPath,
    /// There is no such shared key, or it was deactivated.
    #[error("no such shared key")]
    UnknownKey,
}

/// Why something could not be done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
    /// The address is not one of the peer's.
    #[error("not an address of the peer")]
    UnknownPath,
    /// The address is not proved to be the peer's yet (section 5.4).
    #[error("the address is not confirmed yet")]
    NotConfirmed,
}

/// Why something could not be done to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
    /// The association has no such outbound stream.
    #[error("no such outbound stream")]
    InvalidStream,
}

/// Why `configure` refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigureError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
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
