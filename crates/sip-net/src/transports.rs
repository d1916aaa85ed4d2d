//! The handle: start, send, connect, shut down.

use std::net::SocketAddr;

use sip::{ConnectionId, Flow, Transmit, Transport};
use tokio::sync::mpsc;

use crate::config::SipNetConfig;
use crate::incoming::{Incoming, SendError};
use crate::listen::{Listen, StartError};
use crate::statistics::WireStatistics;

/// The SIP transports of a program; a handle that is cheap to clone.
///
/// Everything stops when [`shutdown`](Transports::shutdown) is called, when the last handle is
/// dropped, or when the receiver of [`Incoming`] is dropped.
#[derive(Clone, Debug)]
pub struct Transports {}

impl Transports {
    /// Opens all listeners. What arrives comes out of the receiver; several events can be taken at a
    /// time with [`mpsc::Receiver::recv_many`].
    ///
    /// # Errors
    /// The first listener that cannot be opened; those opened before it are closed.
    pub fn start(
        _config: SipNetConfig,
    ) -> Result<(Transports, mpsc::Receiver<Incoming>), StartError> {
        todo!()
    }

    /// Sends a message without waiting: it is handed to the kernel or put into the bounded queue of
    /// its connection. Where the transmit names a transaction, a failure, now or later, comes back
    /// as [`Incoming::SendFailed`].
    pub fn send(&self, _transmit: Transmit) {
        todo!()
    }

    /// Gives a flow to an address, over the connection that is there or a new one. With `new` the
    /// connection (UDP: the socket; SCTP: the association from an SCTP port of its own) is opened in
    /// any case and serves this flow alone: messages to the bare address do not use it.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(
        &self,
        _transport: Transport,
        _remote: SocketAddr,
        _new: bool,
    ) -> Result<Flow, SendError> {
        todo!()
    }

    /// Closes a connection, association or client UDP socket, after what is queued on it has been
    /// sent. Listening UDP sockets and unknown connections stay as they are.
    pub fn close(&self, _connection: ConnectionId) {
        todo!()
    }

    /// The listeners, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        todo!()
    }

    /// The UDP ports under our SCTP listeners (RFC 6951), with the address that each is bound to.
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        todo!()
    }

    /// The address that a peer should send to so that it reaches one of our listeners: what belongs
    /// into Via and Record-Route. On a wildcard listener it is the local address of the route to the
    /// peer. `None` where no listener of this transport and address family exists.
    pub fn local_address_for(
        &self,
        _transport: Transport,
        _remote: SocketAddr,
    ) -> Option<SocketAddr> {
        todo!()
    }

    /// What went over the wire and what was refused, all transports together.
    pub fn statistics(&self) -> WireStatistics {
        todo!()
    }

    /// What went over the wire and what was refused, of one transport.
    pub fn statistics_of(&self, _transport: Transport) -> WireStatistics {
        todo!()
    }

    /// Stops accepting, sends what is queued, ends connections (FIN) and associations (SHUTDOWN,
    /// RFC 9260 section 9.2), and returns when all is closed or the time limit is reached.
    pub async fn shutdown(&self) {
        todo!()
    }
}
