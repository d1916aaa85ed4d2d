//! The handle: start, send, connect, shut down.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::{ConnectionId, Flow, Peer, Transmit, Transport};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::config::SipNetConfig;
use crate::incoming::{Incoming, SendError};
use crate::listen::Listen;
use crate::resolve::Resolver;
use crate::running::Running;
use crate::sctp::SctpAssociation;
use crate::start_error::StartError;
use crate::statistics::WireStatistics;
use crate::tls::{TlsConfig, TlsError};

/// The SIP transports of a program; a handle that is cheap to clone.
///
/// Everything stops when [`shutdown`](Transports::shutdown) is called, when the last handle is
/// dropped, when the receiver of [`Incoming`] is dropped, or when a listener fails.
#[derive(Clone, Debug)]
pub struct Transports {
    running: Arc<Running>,
    /// The worker that sends by this handle.
    worker: usize,
}

impl Transports {
    /// Opens all listeners. What arrives comes out of the receiver; several events can be taken at
    /// a time with [`mpsc::Receiver::recv_many`]. It ends when everything has stopped, also
    /// where a listener has failed, which
    /// [`listeners_failed`](WireStatistics::listeners_failed) counts.
    ///
    /// # Errors
    /// The first listener that cannot be opened; those opened before it are closed.
    ///
    /// # Panics
    /// Outside of a tokio runtime: everything runs on the one that this is called on.
    pub fn start(
        config: SipNetConfig,
    ) -> Result<(Transports, mpsc::Receiver<Incoming>), StartError> {
        let (transports, mut receivers) =
            Transports::start_workers(config, vec![Handle::current()])?;
        // One runtime was given.
        Ok((transports, receivers.remove(0)))
    }

    /// As [`start`](Transports::start), with a runtime for each of several workers, of which there
    /// is one at least, and a receiver for each.
    ///
    /// Every worker has a UDP socket of its own for each UDP listener and accepts TCP connections of
    /// its own; the kernel spreads datagrams and connections among them. What arrives is handed to
    /// the worker that the Call-ID says by a keyed hash: to the same one for all messages of a call.
    /// The end of a connection is told to all. Each worker sends by [its handle](Transports::of_worker).
    ///
    /// # Errors
    /// The first listener that cannot be opened; those opened before it are closed.
    pub fn start_workers(
        config: SipNetConfig,
        runtimes: Vec<Handle>,
    ) -> Result<(Transports, Vec<mpsc::Receiver<Incoming>>), StartError> {
        let (running, receivers) = Running::start(config, runtimes)?;
        let transports = Transports {
            running: Arc::new(running),
            worker: 0,
        };
        Ok((transports, receivers))
    }

    /// The handle of a worker: what it sends leaves by the worker's sockets, and what fails is told
    /// to the worker.
    #[must_use]
    pub fn of_worker(&self, worker: usize) -> Transports {
        Transports {
            running: self.running.clone(),
            worker,
        }
    }

    /// Sends a message without waiting: it is handed to the kernel or put into the bounded queue of
    /// its connection. Where the transmit names a transaction, a failure, now or later, comes back as
    /// [`Incoming::SendFailed`].
    pub fn send(&self, transmit: Transmit) {
        self.send_all([transmit]);
    }

    /// [Sends](Transports::send) several messages; datagrams share calls to the kernel.
    pub fn send_all(&self, transmits: impl IntoIterator<Item = Transmit>) {
        let outbound = &self.running.outbound;
        outbound.send_all(self.worker, transmits);
    }

    /// From now on datagrams come as [`Incoming::Unread`]; where there are several workers, only those whose worker can be
    /// found without parsing them.
    pub fn leave_datagrams_unread(&self) {
        self.running.inbound.leave_datagrams_unread();
    }

    /// From now on answers to keep-alives come as [`Incoming::KeepAlive`]. Keep-alives are [sent](Transports::send) as messages
    /// are.
    pub fn tell_keep_alives(&self) {
        self.running.inbound.tell_keep_alives();
    }

    /// Gives a flow to an address, over the connection that is there or a new one. With `new` the
    /// connection (UDP: the socket; SCTP: the association, from an SCTP port of its own) is opened
    /// in any case and serves this flow alone: messages to the bare address do not use it.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(
        &self,
        transport: Transport,
        remote: SocketAddr,
        new: bool,
    ) -> Result<Flow, SendError> {
        self.connect_to(transport, remote, None, new).await
    }

    /// [`connect`](Transports::connect) to a peer of which more than the address is known: the
    /// name that its TLS certificate has to show, further addresses.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect_to(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        new: bool,
    ) -> Result<Flow, SendError> {
        let outbound = &self.running.outbound;
        match transport {
            Transport::Udp => {
                let socket = match new {
                    true => outbound.private_socket_to(remote)?,
                    false => outbound.socket_to(remote, self.worker)?,
                };
                let local = self.running.routes.specific(socket.local, remote);
                Ok(socket.flow(local, remote))
            }
            _ => {
                let connection = match new {
                    true => outbound.private_connection_to(transport, remote, peer)?,
                    false => outbound.connection_to(transport, remote, peer)?,
                };
                connection.flow().await
            }
        }
    }

    /// The peer of a connection or association is known: a user has registered or authenticated over it, or it
    /// is trusted. When there are too many connections that peers have opened, it does not give way to others.
    pub fn known(&self, connection: ConnectionId) {
        self.running.connections.set_known(connection);
    }

    /// Closes a connection, association or client UDP socket; what is queued on it is sent first,
    /// as far as the peer takes it within a second. Listening UDP sockets stay as they are, as does
    /// what is gone already.
    pub fn close(&self, connection: ConnectionId) {
        let Running {
            connections,
            outbound,
            ..
        } = &*self.running;
        if let Some(connection) = connections.get(connection) {
            // Messages that follow open a new one.
            connections.retire(&connection);
            connection.close();
        } else if let Some(socket) = outbound.sockets.get(connection, self.worker) {
            socket.close();
        }
    }

    /// The connections and associations to an address that were opened from this address of ours.
    pub fn connections_from(
        &self,
        local: IpAddr,
        transport: Transport,
        remote: SocketAddr,
    ) -> Vec<ConnectionId> {
        let connections = &self.running.connections;
        connections.opened_from(local, transport, remote)
    }

    /// The addresses of this host have changed: the kernel is asked again from which of them packets leave.
    pub fn addresses_changed(&self) {
        self.running.routes.forget();
    }

    /// Asks the peer of an association to send to this address of ours from now on, and no more to the one that this host has
    /// lost (RFC 5061). That needs [`Extensions::address_reconfiguration`](::sctp::Extensions) at both sides, and an
    /// association that was begun from all addresses of the host: from no listener, or one at a wildcard address. `false` when
    /// the peer cannot be asked; [closing](Transports::close) the association lets messages that follow open a new one.
    pub async fn change_sctp_address(
        &self,
        connection: ConnectionId,
        new: IpAddr,
        lost: Option<IpAddr>,
    ) -> bool {
        let associations = &self.running.sctp.associations;
        associations.change_address(connection, new, lost).await
    }

    /// Reads certificates, keys and authorities again, whether or not the files have changed.
    /// Connections keep what they began with. The files are read before this returns.
    ///
    /// # Errors
    /// What is wrong with them; then what was read before stays in use.
    pub fn reload_certificates(&self) -> Result<(), TlsError> {
        self.running.tls.reload()
    }

    /// Goes over to other settings of TLS: what listeners show and ask for, named as in
    /// [`SipNetConfig::listeners`](crate::SipNetConfig::listeners), and what we do where we open the connection. A
    /// listener for which they have no certificate keeps what it has; the key log, the interval, and whether servers are
    /// believed unseen (`insecure`) stay as they were at the start. Connections keep what they began with. The files are read before this returns.
    ///
    /// # Errors
    /// What is wrong with them; then everything stays as it was.
    pub fn set_tls(&self, tls: TlsConfig) -> Result<(), TlsError> {
        self.running.tls.set(tls)
    }

    /// The listeners, in the order of the settings, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        self.running.listening.clone()
    }

    /// The local UDP addresses under our SCTP (RFC 6951): those of the listeners, and those opened
    /// since to begin associations from.
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        self.running.sctp.stacks.encapsulation_addresses()
    }

    /// Lets responses whose connection is gone follow the name in their Via (RFC 3263 section 5). Without that they
    /// go to the address that the request came from, or nowhere. The Via leads to loopback, private and link-local
    /// addresses only where the request came from such a one. The first resolver stays.
    pub fn locate_responses_by(&self, names: Resolver) {
        let fallback = &self.running.outbound.response_fallback;
        fallback.resolve_by(names);
    }

    /// The cipher suite that TLS agreed on last with a server that we connected to, by its IANA name.
    pub fn tls_cipher_suite(&self) -> Option<String> {
        self.running.tls.cipher_suite()
    }

    /// How many SCTP associations are up.
    pub fn sctp_association_count(&self) -> usize {
        self.running.sctp.associations.count()
    }

    /// Snapshots of SCTP associations that are up, `at_most` so many: what their paths are doing, and their counters. First
    /// those that we have opened, then those of several paths, then all others; of each the oldest first.
    pub async fn sctp_associations(&self, at_most: usize) -> Vec<SctpAssociation> {
        let associations = &self.running.sctp.associations;
        associations.snapshot(at_most).await
    }

    /// The number of the worker that all messages with this Call-ID come to.
    pub fn worker_of(&self, call_id: &str) -> usize {
        self.running.inbound.worker_of_call(Some(call_id))
    }

    /// The address that a peer should send to so that it reaches one of our listeners: what belongs
    /// into Via and Record-Route (RFC 3261 section 18.1.1). On a wildcard listener it is the local
    /// address of the route to the peer. `None` where no listener of this transport and address
    /// family exists.
    pub fn local_address_for(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Option<SocketAddr> {
        let listeners = self.running.listening.iter();
        let same = listeners.filter(|listen| listen.transport == transport);
        let routes = &self.running.routes;
        let (local, _) = routes.choose(remote, same.map(|listen| (listen.address, listen)))?;
        Some(routes.specific(local, remote))
    }

    /// What went over the wire and what was refused, all transports together.
    pub async fn statistics(&self) -> WireStatistics {
        let mut sum = WireStatistics::default();
        for transport in Transport::ALL {
            sum += self.statistics_of(transport).await;
        }
        sum
    }

    /// What went over the wire and what was refused, of one transport.
    pub async fn statistics_of(&self, transport: Transport) -> WireStatistics {
        self.running.statistics_of(transport).await
    }

    /// Stops accepting, sends what is queued, ends connections (FIN) and associations (SHUTDOWN,
    /// RFC 9260 section 9.2), and returns when all is closed or the time limit is reached.
    pub async fn shutdown(&self) {
        self.running.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_that_was_asked_for_is_no_failure() {
        let config = SipNetConfig {
            listeners: ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sctp:127.0.0.1:5060"]
                .iter()
                .map(|text| text.parse().expect("a listener"))
                .collect(),
            encapsulation_port: 0,
            ..SipNetConfig::default()
        };
        let (transports, mut incoming) = Transports::start(config).expect("it starts");
        transports.shutdown().await;
        assert!(incoming.recv().await.is_none());
        assert_eq!(transports.statistics().await.listeners_failed, 0);
    }
}
