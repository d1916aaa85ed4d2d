//! The way out: chooses the socket or connection of a message, and another one where sending fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sip::{ConnectionId, Flow, Peer, Target, Transmit, Transport};
use tokio::time::timeout;

use crate::connections::{Connection, Connections};
use crate::inbound::Inbound;
use crate::incoming::{CloseReason, SendError};
use crate::listen::Listen;
use crate::message_log::MessageLog;
use crate::outbound_message::{Fallback, OutboundMessage, OwnedTransaction, SendFailure};
use crate::response_fallback::{Lookup, ResponseFallback, requesting_peer};
use crate::send_queue::{Flushed, Sink};
use crate::tasks::Tasks;
use crate::udp::{SipSocket, UdpSockets};

/// Sends messages to their targets.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) connections: Arc<Connections>,
    pub(crate) sockets: UdpSockets,
    pub(crate) response_fallback: ResponseFallback,
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) log: Arc<MessageLog>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) opener: Box<dyn Opener>,
}

/// Begins the tasks of connections and sockets. The transports implement it, so that this file needs none of them.
pub(crate) trait Opener: std::fmt::Debug + Send + Sync {
    /// Opens a connection and serves it until it ends.
    fn open(&self, outbound: &Arc<Outbound>, connection: Arc<Connection>);
    /// Serves a UDP socket until it is closed.
    fn serve(&self, outbound: &Arc<Outbound>, socket: Arc<SipSocket>);
}

/// The sockets and connections that have messages of one call to [`Outbound::send_all`] in their queues.
#[derive(Default)]
struct Batch(Vec<Arc<dyn Sink>>);

/// How long the response fallback may take: a client has given up after 64*T1 (RFC 3261 section 17), and each of the places
/// named may take its time to be silent.
const RESPONSE_FALLBACK: Duration = Duration::from_secs(32);

impl Outbound {
    /// Sends a worker's messages to their targets without waiting: all that go by one socket or connection together.
    pub(crate) fn send_all(
        self: &Arc<Self>,
        worker: usize,
        transmits: impl IntoIterator<Item = Transmit>,
    ) {
        let mut batch = Batch::default();
        for transmit in transmits {
            self.log.sending(&transmit);
            self.send(worker, transmit, &mut batch);
        }
        self.flush_all(batch);
    }

    fn send(self: &Arc<Self>, worker: usize, transmit: Transmit, batch: &mut Batch) {
        let Transmit {
            target,
            peer,
            payload,
            call,
            transaction,
        } = transmit;
        let (flow, fallback, address) = match target {
            Target::Flow(flow) => (Some(flow), None, (flow.transport, flow.remote)),
            Target::FlowOrAddress(flow, address) => {
                let fallback = Fallback {
                    address,
                    peer: peer.clone(),
                };
                (Some(flow), Some(fallback), (flow.transport, flow.remote))
            }
            Target::Address(transport, remote) => (None, None, (transport, remote)),
        };
        let (transport, remote) = address;
        let message = OutboundMessage {
            source_ip: flow.map(|flow| flow.local.ip()),
            stream: flow.map_or(0, |flow| flow.stream),
            call_id_hash: call,
            transaction: transaction.map(|key| OwnedTransaction { worker, key }),
            fallback,
            ..OutboundMessage::new(payload, remote)
        };
        let sink = match flow {
            Some(flow) => self.sink_of_flow(&flow, worker, batch),
            None => self.sink_to(transport, remote, peer, worker),
        };
        self.push(transport, sink, message, batch);
    }

    /// The way that another message came.
    fn sink_of_flow(
        &self,
        flow: &Flow,
        worker: usize,
        batch: &Batch,
    ) -> Result<Arc<dyn Sink>, SendError> {
        if flow.transport == Transport::Udp {
            let socket = self.sockets.of_flow(flow, worker);
            return Ok(socket.ok_or(SendError::Gone)?);
        }
        // All workers share the table of connections and its lock.
        if let Some(sink) = batch.recent(flow.connection) {
            return Ok(sink.clone());
        }
        let connection = self.connections.get(flow.connection);
        Ok(connection.ok_or(SendError::Gone)?)
    }

    /// The way to an address.
    fn sink_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        worker: usize,
    ) -> Result<Arc<dyn Sink>, SendError> {
        match transport {
            Transport::Udp => Ok(self.socket_to(remote, worker)?),
            _ => Ok(self.connection_to(transport, remote, peer)?),
        }
    }

    fn push(
        self: &Arc<Self>,
        transport: Transport,
        sink: Result<Arc<dyn Sink>, SendError>,
        message: OutboundMessage,
        batch: &mut Batch,
    ) {
        let pushed = match sink {
            Ok(sink) => batch.push(sink, message),
            Err(error) => Err(message.failed(error)),
        };
        if let Err(failure) = pushed {
            self.not_sent(transport, failure);
        }
    }

    /// A worker's socket for sending to an address.
    pub(crate) fn socket_to(
        self: &Arc<Self>,
        remote: SocketAddr,
        worker: usize,
    ) -> Result<Arc<SipSocket>, SendError> {
        if let Some(socket) = self.sockets.toward(remote, worker) {
            return Ok(socket);
        }
        self.may_open()?;
        let _runtime = self.tasks.enter();
        let id = self.connections.new_id();
        let (socket, is_new) = self.sockets.open_common(remote, id)?;
        if is_new {
            self.serve(socket.clone());
        }
        Ok(socket)
    }

    /// A socket of one's own for talking to an address.
    pub(crate) fn private_socket_to(
        self: &Arc<Self>,
        remote: SocketAddr,
    ) -> Result<Arc<SipSocket>, SendError> {
        self.may_open()?;
        let _runtime = self.tasks.enter();
        let id = self.connections.new_id();
        let socket = self.sockets.open_private(remote, id)?;
        self.serve(socket.clone());
        Ok(socket)
    }

    fn serve(self: &Arc<Self>, socket: Arc<SipSocket>) {
        let counters = self.log.counters(Transport::Udp);
        counters.connections_opened.increment();
        self.opener.serve(self, socket);
    }

    /// The connection to an address, or to another one of the peer's (RFC 3261 section 18.1.1: one
    /// that is open is used), or a new one that is being opened.
    pub(crate) fn connection_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Arc<Connection>, SendError> {
        self.may_open()?;
        let (connection, is_new) = self.connections.find_or_open(transport, remote, peer)?;
        if is_new {
            self.opener.open(self, connection.clone());
        }
        Ok(connection)
    }

    /// A connection of one's own to an address, which is being opened.
    pub(crate) fn private_connection_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Arc<Connection>, SendError> {
        self.may_open()?;
        let connection = self.connections.open_private(transport, remote, peer)?;
        self.opener.open(self, connection.clone());
        Ok(connection)
    }

    fn may_open(&self) -> Result<(), SendError> {
        match self.tasks.is_stopping() {
            true => Err(SendError::ShutDown),
            false => Ok(()),
        }
    }

    /// A message did not go out: it takes the other way that it may have, or its transaction is
    /// told.
    pub(crate) fn not_sent(self: &Arc<Self>, transport: Transport, failure: SendFailure) {
        let SendFailure { message, error } = failure;
        let mut message = *message;
        match message.fallback.take() {
            // No connection can be opened to a browser: its own is the only way (RFC 7118 section 5.3).
            Some(Fallback { address, peer })
                if error == SendError::Gone
                    && !matches!(transport, Transport::Ws | Transport::Wss) =>
            {
                message.stream = 0;
                message.source_ip = None;
                message.remote = address;
                let peer = peer.or_else(|| requesting_peer(&message.payload));
                let worker = message.transaction.map_or(0, |owned| owned.worker);
                let sink = self.sink_to(transport, address, peer, worker);
                let mut batch = Batch::default();
                self.push(transport, sink, message, &mut batch);
                self.flush_all(batch);
            }
            _ => self.try_response_fallback(transport, message, error),
        }
    }

    /// Counts a message that was not sent and tells its transaction.
    pub(crate) fn send_failed(
        &self,
        transport: Transport,
        transaction: Option<OwnedTransaction>,
        error: SendError,
    ) {
        let counters = self.log.counters(transport);
        counters.sends_failed.increment();
        tracing::debug!(%transport, ?transaction, %error, "not sent");
        if let Some(transaction) = transaction {
            self.inbound.send_failed(transport, transaction, error);
        }
    }

    /// A socket that listened does not any more. A program that went on would be deaf
    /// unnoticed: everything stops, and the queue of [`Incoming`](crate::Incoming) ends.
    pub(crate) fn listener_failed(&self, listen: Listen, reason: &CloseReason) {
        let counters = self.log.counters(listen.transport);
        counters.listeners_failed.increment();
        tracing::error!(%listen, %reason, "listener failed, everything stops");
        self.tasks.stop();
    }

    /// Looks for another way in a task, where there may be one; else the transaction is told.
    fn try_response_fallback(
        self: &Arc<Self>,
        transport: Transport,
        mut message: OutboundMessage,
        error: SendError,
    ) {
        let lookup = match message.is_response_fallback || self.tasks.is_stopping() {
            true => None,
            false => self
                .response_fallback
                .lookup(&message.payload, transport, &error),
        };
        let Some(lookup) = lookup else {
            return self.send_failed(transport, message.transaction, error);
        };
        message.is_response_fallback = true;
        message.stream = 0;
        message.room = None;
        let outbound = self.clone();
        self.tasks.spawn(async move {
            let transaction = message.transaction;
            let sent = outbound.send_to_hops(&lookup, message, error);
            if let Err(error) = no_later_than(RESPONSE_FALLBACK, sent).await {
                outbound.send_failed(transport, transaction, error);
            }
        });
    }

    /// Tries one place after the other that the Via leads to.
    async fn send_to_hops(
        self: &Arc<Self>,
        lookup: &Lookup,
        mut message: OutboundMessage,
        mut error: SendError,
    ) -> Result<(), SendFailure> {
        let hops = tokio::select! {
            hops = self.response_fallback.hops(lookup) => hops,
            () = self.tasks.stopped() => Vec::new(),
        };
        for hop in hops {
            if !lookup.may_go_to(&hop) {
                let counters = self.log.counters(hop.transport);
                counters.places_refused.increment();
                continue;
            }
            let connection = match self.connection_to(hop.transport, hop.remote, hop.peer) {
                Ok(connection) => connection,
                Err(refused) => {
                    error = refused;
                    continue;
                }
            };
            if let Err(refused) = connection.flow().await {
                error = refused;
                continue;
            }
            message.remote = hop.remote;
            match connection.push(message) {
                Ok(()) => {
                    self.flush(&*connection);
                    return Ok(());
                }
                Err(failure) => (message, error) = (*failure.message, failure.error),
            }
        }
        Err(message.failed(error))
    }

    /// Sends what is in a queue.
    pub(crate) fn flush(self: &Arc<Self>, sink: &dyn Sink) {
        self.flush_with(sink, &mut Flushed::default());
    }

    fn flush_all(self: &Arc<Self>, Batch(sinks): Batch) {
        let mut flushed = Flushed::default();
        for sink in sinks {
            self.flush_with(&*sink, &mut flushed);
        }
    }

    fn flush_with(self: &Arc<Self>, sink: &dyn Sink, flushed: &mut Flushed) {
        sink.flush(flushed);
        for failure in flushed.failed.drain(..) {
            self.not_sent(sink.transport(), failure);
        }
    }
}

impl Batch {
    fn push(&mut self, sink: Arc<dyn Sink>, message: OutboundMessage) -> Result<(), SendFailure> {
        sink.push(message)?;
        // One that is there twice has nothing left the second time.
        if self.recent(sink.id()).is_none() {
            self.0.push(sink);
        }
        Ok(())
    }

    /// The socket or connection of this name, where it is among the last ones.
    fn recent(&self, id: ConnectionId) -> Option<&Arc<dyn Sink>> {
        let mut recent = self.0.iter().rev().take(RECENT_SINKS);
        recent.find(|sink| sink.id() == id)
    }
}

/// How many of the last sockets and connections of a batch are looked at for one that is there already.
const RECENT_SINKS: usize = 16;

/// The result of sending a message, within a time limit.
async fn no_later_than(
    limit: Duration,
    sent: impl Future<Output = Result<(), SendFailure>>,
) -> Result<(), SendError> {
    match timeout(limit, sent).await {
        Ok(sent) => sent.map_err(|failure| failure.error),
        Err(_) => Err(SendError::ConnectTimeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_that_are_silent_for_too_long_have_failed() {
        let silent = no_later_than(Duration::from_millis(1), std::future::pending());
        assert_eq!(silent.await, Err(SendError::ConnectTimeout));
        let at_once = no_later_than(RESPONSE_FALLBACK, std::future::ready(Ok(())));
        assert_eq!(at_once.await, Ok(()));
    }
}
