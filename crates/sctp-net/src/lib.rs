//! Driver: carries SCTP packets in UDP (RFC 6951), with an async API.
#![forbid(unsafe_code)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
pub use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, CannotStartCause, EndpointConfig,
    EndpointStatistics, LostCause, ReceivedMessage, SendError, SendInfo,
};
pub use udp_net::{Impairment, LinkConfig, UdpStatistics};

/// How a stack uses UDP.
#[derive(Clone, Debug)]
pub struct UdpCarrierConfig {
    /// The local address and UDP encapsulation port; port 0 lets the kernel choose one.
    pub address: SocketAddr,
    /// The peer's UDP encapsulation port where `connect` is not told another one.
    pub peer_encapsulation_port: u16,
    /// A bad network inside the socket; none by default.
    pub impairment: Option<Impairment>,
    /// How many associations of an endpoint may wait to be accepted.
    pub accept_backlog: usize,
    /// How long closing waits for associations to shut down before it aborts them.
    pub close_timeout: Duration,
}

impl UdpCarrierConfig {
    /// The defaults for a local address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            peer_encapsulation_port: 9899,
            impairment: None,
            accept_backlog: 1024,
            close_timeout: Duration::from_secs(3),
        }
    }
}

/// A UDP socket with any number of SCTP endpoints on it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stack;

impl Stack {
    /// Binds the UDP socket.
    pub fn udp(_config: UdpCarrierConfig) -> io::Result<Stack> {
        todo!()
    }

    /// The local address and UDP encapsulation port.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    /// An endpoint whose associations are accepted and read one by one (RFC 6458 section 4,
    /// one-to-one style). Port 0 chooses a free one.
    pub fn endpoint(&self, _port: u16, _config: EndpointConfig) -> io::Result<Endpoint> {
        todo!()
    }

    /// An endpoint that receives from all its associations in one place (RFC 6458 section 3,
    /// one-to-many style). Port 0 chooses a free one.
    pub fn one_to_many(&self, _port: u16, _config: EndpointConfig) -> io::Result<OneToMany> {
        todo!()
    }

    /// What the stack has counted until now.
    pub async fn statistics(&self) -> StackStatistics {
        todo!()
    }

    /// Shuts down all associations of all endpoints, waits for them a bounded time, aborts the
    /// rest, and closes the socket.
    pub async fn close(&self) {
        todo!()
    }
}

/// What a stack counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackStatistics {
    /// Datagrams and bytes on the wire.
    pub udp: UdpStatistics,
    /// The sum over all endpoints, those closed since included.
    pub sctp: EndpointStatistics,
    /// Associations aborted because nobody accepted those before them.
    pub accept_overflows: u64,
    /// Packets to an SCTP port without an endpoint.
    pub out_of_the_blue: u64,
}

/// A local SCTP port in one-to-one style. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Endpoint;

impl Endpoint {
    /// The local SCTP port.
    pub fn port(&self) -> u16 {
        todo!()
    }

    /// Begins an association and waits until it is up.
    pub async fn connect(
        &self,
        _remote: IpAddr,
        _port: u16,
        _encapsulation_port: Option<u16>,
    ) -> Result<Association, ConnectError> {
        todo!()
    }

    /// The next association that a peer began; `None` when the endpoint is closed.
    pub async fn accept(&self) -> Option<Association> {
        todo!()
    }

    /// Shuts down all associations, waits for them a bounded time, and aborts the rest.
    pub async fn close(&self) {
        todo!()
    }
}

/// A local SCTP port in one-to-many style. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OneToMany;

/// What happens on a [`OneToMany`] endpoint.
#[derive(Clone, Debug)]
pub enum EndpointEvent {
    /// A peer began an association.
    Accepted(Association),
    /// A message arrived.
    Message {
        /// From where.
        association: Association,
        /// The message.
        message: ReceivedMessage,
    },
    /// An association ended, one that `connect` began included.
    Closed {
        /// Which one.
        association: Association,
        /// How.
        cause: CloseCause,
    },
}

impl OneToMany {
    /// The local SCTP port.
    pub fn port(&self) -> u16 {
        todo!()
    }

    /// Begins an association and waits until it is up.
    pub async fn connect(
        &self,
        _remote: IpAddr,
        _port: u16,
        _encapsulation_port: Option<u16>,
    ) -> Result<Association, ConnectError> {
        todo!()
    }

    /// The next event; `None` when the endpoint is closed. Each event goes to one caller.
    pub async fn next(&self) -> Option<EndpointEvent> {
        todo!()
    }

    /// Shuts down all associations, waits for them a bounded time, and aborts the rest.
    pub async fn close(&self) {
        todo!()
    }
}

/// An association. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Association;

impl Association {
    /// Its name, unique in its endpoint.
    pub fn id(&self) -> AssociationId {
        todo!()
    }

    /// The peer's address and SCTP port.
    pub fn peer(&self) -> SocketAddr {
        todo!()
    }

    /// The peer's UDP encapsulation port.
    pub fn peer_encapsulation_port(&self) -> u16 {
        todo!()
    }

    /// Our address and SCTP port.
    pub fn local(&self) -> SocketAddr {
        todo!()
    }

    /// How many streams can be sent on.
    pub fn outbound_streams(&self) -> u16 {
        todo!()
    }

    /// Sends a message; waits while too much is waiting to be sent already.
    pub async fn send(&self, _info: SendInfo, _payload: Bytes) -> Result<(), SendError> {
        todo!()
    }

    /// Sends a message without waiting; `SendError::BufferFull` when `send` would wait.
    pub fn try_send(&self, _info: SendInfo, _payload: Bytes) -> Result<(), SendError> {
        todo!()
    }

    /// The next message; `None` when the association has ended and all messages are read.
    pub async fn receive(&self) -> Option<ReceivedMessage> {
        todo!()
    }

    /// Sends what is waiting, shuts down, and waits until that is done.
    pub async fn shutdown(&self) -> CloseCause {
        todo!()
    }

    /// Ends the association at once; `reason` goes to the peer. Does not wait.
    pub fn abort(&self, _reason: &[u8]) {
        todo!()
    }

    /// Waits until the association has ended.
    pub async fn closed(&self) -> CloseCause {
        todo!()
    }

    /// A snapshot; `None` when it has ended.
    pub async fn status(&self) -> Option<AssociationStatus> {
        todo!()
    }

    /// Counters; `None` when it has ended.
    pub async fn statistics(&self) -> Option<AssociationStatistics> {
        todo!()
    }
}

/// How an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// In good order, by either side.
    Shutdown,
    /// It was lost or aborted.
    Lost(LostCause),
    /// The stack was closed, or its socket failed.
    StackClosed,
}

/// Why there is no association.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The engine refused.
    #[error("{0}")]
    Refused(#[from] sctp::ConnectError),
    /// The peer refused or did not answer.
    #[error("cannot associate: {0:?}")]
    CannotStart(CannotStartCause),
    /// The stack is closed.
    #[error("the SCTP stack is closed")]
    StackClosed,
}
