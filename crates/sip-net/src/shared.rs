//! What all tasks of the transports share, and the two ways through it: in and out.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use sip::{Flow, Host, Message, Peer, Target, Transmit, Transport};
use tap::Direction;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::asked::Asked;
use crate::budget::Budget;
use crate::config::SipNetConfig;
use crate::connections::{
    Connection, Connections, Fallback, Found, OpenedBy, Outgoing, OwnedTransaction,
};
use crate::departures::Departures;
use crate::impairments::Impairments;
use crate::incoming::{CloseReason, Incoming, MalformedReason, SendError};
use crate::keep_alive::is_keep_alive;
use crate::last_resort::{self, LastResort};
use crate::listen::Listen;
use crate::resolve::Reach;
use crate::routes::Routes;
use crate::sctp::SctpStacks;
use crate::statistics::{AllCounters, Counters};
use crate::stream::PartialMessages;
use crate::tasks::Tasks;
use crate::tls::Tls;
use crate::udp::{UdpPort, UdpPorts};
use crate::undelivered::Unnamed;
use crate::unread::Unread;
use crate::{sctp, stream, trace};

/// The state behind a [`Transports`](crate::Transports) handle.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: SipNetConfig,
    /// The queues of the workers. Whoever holds a handle must not keep them open: their end tells the
    /// users that everything has stopped.
    incoming: Vec<mpsc::WeakSender<Incoming>>,
    /// Whether workers want to have datagrams unread.
    pub(crate) unread: Unread,
    /// The key of the hash that gives every call its owner among the workers.
    owners: RandomState,
    pub(crate) counters: AllCounters,
    pub(crate) routes: Routes,
    pub(crate) tasks: Tasks,
    pub(crate) connections: Connections,
    /// What stream connections hold of messages that are not whole.
    pub(crate) partial_messages: Arc<PartialMessages>,
    pub(crate) udp: UdpPorts,
    pub(crate) sctp: SctpStacks,
    pub(crate) tls: Arc<Tls>,
    /// What may wait to be sent, everywhere together.
    pub(crate) budget: Arc<Budget>,
    /// Where responses go whose connection is gone.
    pub(crate) last_resort: LastResort,
    /// Reports of the network that do not tell whose they are.
    unnamed: Unnamed,
}

/// How many names of a certificate are told.
const MAXIMUM_NAMES: usize = 64;

/// Open queues of all workers. They do not end for as long as somebody has this.
#[derive(Debug)]
pub(crate) struct WaysIn(Vec<mpsc::Sender<Incoming>>);

/// What is to be put into a worker's queue.
#[derive(Debug)]
pub(crate) struct Delivery {
    owner: usize,
    event: Incoming,
}

/// The owner of the receiver of [`Incoming`] has dropped it: there is nobody to work for.
#[derive(Debug)]
pub(crate) struct NobodyListens;

impl Shared {
    /// State without tasks, which hands what comes to `incoming`, the queues of the workers on these
    /// runtimes, for as long as somebody else keeps those open. `udp` are the sockets that listen.
    pub(crate) fn new(
        config: SipNetConfig,
        runtimes: Vec<Handle>,
        incoming: Vec<mpsc::WeakSender<Incoming>>,
        udp: Vec<Vec<Arc<UdpPort>>>,
        sctp: SctpStacks,
        tls: Tls,
        impairments: Arc<Impairments>,
    ) -> Shared {
        let budget = Budget::new(config.limits.all_write_queues_bytes);
        let mut reach = Reach::default();
        for listen in &config.listeners {
            reach.add(listen.transport, listen.address);
        }
        Shared {
            partial_messages: PartialMessages::new(&config.limits),
            last_resort: LastResort::new(reach, config.limits.max_located_responses),
            unread: Unread::default(),
            incoming,
            owners: RandomState::new(),
            counters: AllCounters::default(),
            routes: Routes::default(),
            tasks: Tasks::new(runtimes),
            connections: Connections::new(udp.len() as u64, &config.limits, budget.clone()),
            udp: UdpPorts::new(udp, impairments, &config),
            sctp,
            tls: Arc::new(tls),
            unnamed: Unnamed::default(),
            budget,
            config,
        }
    }

    pub(crate) fn counters(&self, transport: Transport) -> &Counters {
        self.counters.of(transport)
    }

    // The way in.

    /// Hands a message from a connection to the user; waits while the queue is full, so that the
    /// connection is not read meanwhile.
    pub(crate) async fn deliver(
        &self,
        flow: Flow,
        message: Message,
        received: Instant,
    ) -> Result<(), NobodyListens> {
        let (owner, event) = self.received(flow, message, received);
        self.put(owner, event).await
    }

    /// A message from a connection, to be [put](Shared::put_by) into a worker's queue.
    pub(crate) fn delivery(&self, flow: Flow, message: Message, received: Instant) -> Delivery {
        let (owner, event) = self.received(flow, message, received);
        Delivery { owner, event }
    }

    /// Waits while the worker's queue is full.
    pub(crate) async fn put_by(
        &self,
        ways_in: &WaysIn,
        delivery: Delivery,
    ) -> Result<(), NobodyListens> {
        let Some(Delivery { owner, event }) = self.offer(ways_in, delivery)? else {
            return Ok(());
        };
        let way_in = ways_in.0.get(owner).ok_or(NobodyListens)?;
        way_in.send(event).await.map_err(|_| NobodyListens)
    }

    /// Puts a message into the worker's queue. One for which there is no room comes back.
    pub(crate) fn offer(
        &self,
        ways_in: &WaysIn,
        Delivery { owner, event }: Delivery,
    ) -> Result<Option<Delivery>, NobodyListens> {
        let way_in = ways_in.0.get(owner).ok_or(NobodyListens)?;
        match way_in.try_send(event) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(event)) => Ok(Some(Delivery { owner, event })),
            Err(TrySendError::Closed(_)) => Err(NobodyListens),
        }
    }

    /// Counts a message from a connection, and tells whose it is.
    fn received(&self, flow: Flow, message: Message, received: Instant) -> (usize, Incoming) {
        self.counters(flow.transport).messages_received.increment();
        if self.config.sip_tap.is_some() {
            self.capture(&flow, Direction::Inbound, &message.to_bytes());
        }
        let owner = self.owner(&message);
        let event = Incoming::Message {
            flow,
            message,
            received,
        };
        (owner, event)
    }

    /// Hands octets that are no message from a connection to the user; waits while the queue is
    /// full.
    pub(crate) async fn deliver_malformed(
        &self,
        flow: Flow,
        bytes: Bytes,
        reason: MalformedReason,
    ) -> Result<(), NobodyListens> {
        let Delivery { owner, event } = self.delivery_of_malformed(flow, bytes, reason);
        self.put(owner, event).await
    }

    /// Octets that are no message from a connection, to be [put](Shared::put_by) into a worker's queue.
    pub(crate) fn delivery_of_malformed(
        &self,
        flow: Flow,
        bytes: Bytes,
        reason: MalformedReason,
    ) -> Delivery {
        self.counters(flow.transport).malformed.increment();
        trace::malformed(&flow, &bytes, reason);
        let event = Incoming::Malformed {
            flow,
            bytes,
            reason,
        };
        Delivery {
            owner: self.owner_of_malformed(&flow),
            event,
        }
    }

    /// Hands what came in a datagram to the user; drops it where the queue is full. SIP repeats
    /// it, and by then the queue is shorter.
    pub(crate) fn deliver_datagram(
        &self,
        ways_in: &WaysIn,
        flow: Flow,
        payload: Bytes,
        received: Instant,
    ) {
        let counters = self.counters(flow.transport);
        let is_shown = self.config.sip_tap.is_some() || trace::is_on();
        let shown = is_shown.then(|| payload.clone());
        let owner_of_call = |call_id: &str| self.owner_of_call(Some(call_id));
        let workers = self.incoming.len();
        if let Some(owner) = self.unread.owner_of(&payload, workers, owner_of_call) {
            if let Some(payload) = shown {
                trace::received(&flow, &payload);
                self.capture(&flow, Direction::Inbound, &payload);
            }
            counters.messages_received.increment();
            let event = Incoming::Unread {
                flow,
                bytes: payload,
                received,
            };
            self.hand_over(ways_in, owner, event);
            return;
        }
        let (owner, event) = match Message::read_or_return(payload) {
            Ok(message) => {
                if let Some(payload) = shown {
                    trace::received(&flow, &payload);
                    self.capture(&flow, Direction::Inbound, &payload);
                }
                counters.messages_received.increment();
                let owner = self.owner(&message);
                let event = Incoming::Message {
                    flow,
                    message,
                    received,
                };
                (owner, event)
            }
            Err((error, payload)) => {
                let reason = MalformedReason::Read(error);
                counters.malformed.increment();
                trace::malformed(&flow, &payload, reason);
                let event = Incoming::Malformed {
                    flow,
                    bytes: payload,
                    reason,
                };
                (self.owner_of_malformed(&flow), event)
            }
        };
        self.hand_over(ways_in, owner, event);
    }

    /// Hands what a datagram has brought to a worker; drops it where the queue is full.
    fn hand_over(&self, ways_in: &WaysIn, owner: usize, event: Incoming) {
        let way_in = ways_in.0.get(owner);
        if way_in.is_none_or(|incoming| incoming.try_send(event).is_err()) {
            self.counters(Transport::Udp).incoming_dropped.increment();
        }
    }

    /// The queues of the workers, for a task that brings much and ends when it is told to stop. `None` where
    /// one of them has ended.
    pub(crate) fn ways_in(&self) -> Option<WaysIn> {
        let queues = self.incoming.iter();
        let open: Option<_> = queues.map(mpsc::WeakSender::upgrade).collect();
        open.map(WaysIn)
    }

    /// The worker that a message belongs to: all of a call have one Call-ID, and with it one owner.
    fn owner(&self, message: &Message) -> usize {
        self.owner_of_call(message.call_id())
    }

    /// The worker that messages with this Call-ID belong to.
    pub(crate) fn owner_of_call(&self, call_id: Option<&str>) -> usize {
        match self.incoming.len() {
            1 => 0,
            workers => {
                let call = self.owners.hash_one(call_id);
                // The remainder is less than a usize.
                (call % workers as u64) as usize
            }
        }
    }

    /// What names no call goes where others of its connection go.
    fn owner_of_malformed(&self, flow: &Flow) -> usize {
        (flow.connection.0 % self.incoming.len() as u64) as usize
    }

    /// Waits while the worker's queue is full.
    async fn put(&self, worker: usize, event: Incoming) -> Result<(), NobodyListens> {
        let incoming = self
            .incoming
            .get(worker)
            .and_then(mpsc::WeakSender::upgrade);
        let incoming = incoming.ok_or(NobodyListens)?;
        incoming.send(event).await.map_err(|_| NobodyListens)
    }

    /// Tells whether there was room in the worker's queue.
    fn try_put(&self, worker: usize, event: Incoming) -> bool {
        self.incoming
            .get(worker)
            .and_then(mpsc::WeakSender::upgrade)
            .is_some_and(|incoming| incoming.try_send(event).is_ok())
    }

    // The way out.

    /// Sends a worker's messages to their targets without waiting.
    pub(crate) fn send_all(
        self: &Arc<Self>,
        worker: usize,
        transmits: impl IntoIterator<Item = Transmit>,
    ) {
        let mut departures = Departures::default();
        for transmit in transmits {
            self.send(worker, transmit, &mut departures);
        }
        departures.send(self);
    }

    fn send(self: &Arc<Self>, worker: usize, transmit: Transmit, departures: &mut Departures) {
        trace::sending(&transmit);
        let Transmit {
            target,
            peer,
            payload,
            call,
            transaction,
        } = transmit;
        let outgoing = |stream, fallback| Outgoing {
            payload,
            stream,
            call,
            transaction: transaction.map(|key| OwnedTransaction { worker, key }),
            fallback,
            reserved: None,
            is_last_resort: false,
        };
        let way_out = (worker, departures);
        match target {
            Target::Flow(flow) => self.send_along(flow, outgoing(flow.stream, None), way_out),
            Target::FlowOrAddress(flow, address) => {
                let fallback = Fallback { address, peer };
                self.send_along(flow, outgoing(flow.stream, Some(fallback)), way_out);
            }
            Target::Address(transport, remote) => {
                self.send_to(transport, remote, peer, outgoing(0, None), way_out);
            }
        }
    }

    fn send_along(
        self: &Arc<Self>,
        flow: Flow,
        outgoing: Outgoing,
        (worker, departures): (usize, &mut Departures),
    ) {
        let sent = match flow.transport {
            Transport::Udp => match self.udp.along(&flow, worker) {
                Some(port) => {
                    let source = Some(flow.local.ip());
                    departures.by(self, port, flow.remote, source, outgoing)
                }
                None => Err(outgoing.refused(SendError::Gone)),
            },
            _ => {
                let known = departures.connection(flow.connection);
                match known.or_else(|| self.connections.get(flow.connection)) {
                    Some(connection) => {
                        departures.along(connection, outgoing);
                        Ok(())
                    }
                    None => Err(outgoing.refused(SendError::Gone)),
                }
            }
        };
        if let Err(refused) = sent {
            let (outgoing, error) = *refused;
            self.not_sent(flow.transport, outgoing, error);
        }
    }

    fn send_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        outgoing: Outgoing,
        (worker, departures): (usize, &mut Departures),
    ) {
        let sent = match transport {
            Transport::Udp => match self.udp.toward(self, remote, worker) {
                Ok(port) => departures.by(self, port, remote, None, outgoing),
                Err(error) => Err(outgoing.refused(error)),
            },
            _ => match self.connection_to(transport, remote, peer) {
                Ok(connection) => {
                    departures.along(connection, outgoing);
                    Ok(())
                }
                Err(error) => Err(outgoing.refused(error)),
            },
        };
        if let Err(refused) = sent {
            let (outgoing, error) = *refused;
            self.not_sent(transport, outgoing, error);
        }
    }

    /// The connection to an address, or to another one of the peer's (RFC 3261 section 18.1.1: one
    /// that is open is used), or a new one that is being opened.
    pub(crate) fn connection_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Arc<Connection>, SendError> {
        if self.tasks.is_stopping() {
            return Err(SendError::ShutDown);
        }
        match self.connections.find_or_open(transport, remote, peer)? {
            Found::Existing(connection) => Ok(connection),
            Found::New(opening) => Ok(self.open(opening, false)),
        }
    }

    /// A connection of one's own to an address, which is being opened.
    pub(crate) fn private_connection_to(
        self: &Arc<Self>,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Arc<Connection>, SendError> {
        if self.tasks.is_stopping() {
            return Err(SendError::ShutDown);
        }
        let opening = self.connections.open_private(transport, remote, peer)?;
        Ok(self.open(opening, true))
    }

    fn open(
        self: &Arc<Self>,
        (connection, queue): (Arc<Connection>, mpsc::Receiver<Outgoing>),
        private: bool,
    ) -> Arc<Connection> {
        let shared = self.clone();
        let opening = connection.clone();
        if matches!(connection.transport, Transport::Sctp | Transport::TlsSctp) {
            self.tasks
                .spawn(sctp::open(shared, opening, queue, private));
        } else {
            self.tasks.spawn(stream::open(shared, opening, queue));
        }
        connection
    }

    /// A message has gone out.
    pub(crate) fn sent(&self, flow: &Flow, message: &[u8]) {
        if is_keep_alive(message) {
            return;
        }
        self.counters(flow.transport).messages_sent.increment();
        self.capture(flow, Direction::Outbound, message);
    }

    /// Records a message where a capture of SIP is taken.
    pub(crate) fn capture(&self, flow: &Flow, direction: Direction, message: &[u8]) {
        if let Some(tap) = &self.config.sip_tap {
            trace::capture(tap, flow, direction, message);
        }
    }

    // When it fails.

    /// A socket that listened does not any more. A program that went on would be deaf without
    /// anybody noticing: everything stops, and the queue of [`Incoming`] ends.
    pub(crate) fn listener_failed(&self, listen: Listen, reason: &CloseReason) {
        self.counters(listen.transport).listeners_failed.increment();
        tracing::error!(%listen, %reason, "listener failed, everything stops");
        self.tasks.stop();
    }

    /// A message did not go out: it takes the other way that it may have, or its transaction is
    /// told.
    pub(crate) fn not_sent(
        self: &Arc<Self>,
        transport: Transport,
        mut outgoing: Outgoing,
        error: SendError,
    ) {
        match outgoing.fallback.take() {
            // Nobody can be connected to who is in a browser: its connection is the only way (RFC 7118
            // section 5.3).
            Some(Fallback { address, peer })
                if error == SendError::Gone
                    && !matches!(transport, Transport::Ws | Transport::Wss) =>
            {
                outgoing.stream = 0;
                let peer = peer.or_else(|| who_asked(&outgoing.payload));
                let worker = outgoing.transaction.map_or(0, |owned| owned.worker);
                let mut departures = Departures::default();
                self.send_to(
                    transport,
                    address,
                    peer,
                    outgoing,
                    (worker, &mut departures),
                );
                departures.send(self);
            }
            _ => {
                if let Err(refused) = last_resort::begin(self, transport, outgoing, error) {
                    let (outgoing, error) = *refused;
                    self.send_failed(transport, outgoing.transaction, error);
                }
            }
        }
    }

    /// Counts a message that was not sent and tells its transaction. This is called by the user's
    /// own task, which cannot be waited for here: where the queue is full the transaction learns
    /// of the failure by its timer.
    pub(crate) fn send_failed(
        &self,
        transport: Transport,
        transaction: Option<OwnedTransaction>,
        error: SendError,
    ) {
        let counters = self.counters(transport);
        counters.sends_failed.increment();
        tracing::debug!(%transport, ?transaction, %error, "not sent");
        let Some(OwnedTransaction { worker, key }) = transaction else {
            return;
        };
        let event = Incoming::SendFailed {
            transaction: key,
            error,
        };
        if !self.try_put(worker, event) {
            counters.reports_dropped.increment();
        }
    }

    /// Tells whose message did not get to where it was sent: the worker that has its call. Where that is not quoted, every
    /// worker is told of a request, for so long as there are not too many; a response is sent again until it is
    /// acknowledged, or the request is.
    pub(crate) fn report_undelivered(&self, remote: SocketAddr, beginning: &Message) {
        let workers = match beginning.call_id() {
            None if self.incoming.len() > 1 => {
                let is_told = beginning.is_request() && self.unnamed.may_be_told(Instant::now());
                if !is_told {
                    self.counters(Transport::Udp).reports_dropped.increment();
                    return;
                }
                0..self.incoming.len()
            }
            call_id => {
                let owner = self.owner_of_call(call_id);
                owner..owner + 1
            }
        };
        for worker in workers {
            let event = Incoming::Undelivered {
                remote,
                beginning: beginning.clone(),
            };
            if !self.try_put(worker, event) {
                self.counters(Transport::Udp).reports_dropped.increment();
            }
        }
    }

    /// A connection is gone by which these have asked something: no answer comes by it any more (RFC 3261
    /// section 18.4).
    pub(crate) async fn not_answered(&self, asked: &mut Asked) {
        for OwnedTransaction { worker, key } in asked.take(Instant::now()) {
            let event = Incoming::SendFailed {
                transaction: key,
                error: SendError::Gone,
            };
            tokio::select! {
                // Where nobody listens any more, nobody has to know.
                _ = self.put(worker, event) => {}
                () = self.tasks.stopped() => return,
            }
        }
    }

    /// The end of every connection: out of the table, what was not sent reported, then its end.
    pub(crate) async fn connection_ended(
        self: &Arc<Self>,
        connection: &Connection,
        mut queue: mpsc::Receiver<Outgoing>,
        unsent: impl Iterator<Item = Outgoing>,
        reason: CloseReason,
    ) {
        let transport = connection.transport;
        // Counted first: who sees that it is gone finds out why.
        let counters = self.counters(transport);
        match reason {
            CloseReason::PartialMessage => counters.partial_message_timeouts.increment(),
            CloseReason::PartialMessages => counters.partial_messages_given_up.increment(),
            CloseReason::Displaced => counters.connections_displaced.increment(),
            CloseReason::Silent => counters.first_message_timeouts.increment(),
            CloseReason::Idle => counters.idle_timeouts.increment(),
            CloseReason::Stalled => counters.stalled_write_timeouts.increment(),
            CloseReason::NoPong => counters.unanswered_pings.increment(),
            _ => {}
        }
        self.connections.remove(connection);
        connection.failed(SendError::Gone);
        queue.close();
        for outgoing in unsent {
            self.not_sent(transport, outgoing, SendError::Gone);
        }
        while let Some(outgoing) = queue.recv().await {
            self.not_sent(transport, outgoing, SendError::Gone);
        }
        tracing::debug!(%transport, remote = %connection.remote, %reason, "connection closed");
        self.report_closed(connection, reason).await;
    }

    /// The end of a connection that was never open.
    pub(crate) async fn connect_failed(
        self: &Arc<Self>,
        connection: &Connection,
        mut queue: mpsc::Receiver<Outgoing>,
        error: SendError,
    ) {
        let transport = connection.transport;
        self.connections.remove(connection);
        connection.failed(error.clone());
        self.counters(transport).connects_failed.increment();
        tracing::debug!(%transport, remote = %connection.remote, %error, "not connected");
        queue.close();
        while let Some(outgoing) = queue.recv().await {
            self.not_sent(transport, outgoing, error.clone());
        }
    }

    /// Tells every worker which names the far end of a connection has proved. What nobody has verified
    /// proves nothing.
    pub(crate) async fn identified(&self, connection: &Connection, mut names: Vec<Box<str>>) {
        if connection.opened_by == OpenedBy::Us && self.config.tls.client.insecure {
            return;
        }
        tracing::debug!(remote = %connection.remote, ?names, "certificate");
        names.truncate(MAXIMUM_NAMES);
        let names: Arc<[Box<str>]> = names.into();
        connection.proved_to_be(names.clone());
        for worker in 0..self.incoming.len() {
            let event = Incoming::ConnectionIdentified {
                connection: connection.id,
                names: names.clone(),
            };
            tokio::select! {
                // Where nobody listens any more, nobody has to know.
                _ = self.put(worker, event) => {}
                () = self.tasks.stopped() => return,
            }
        }
    }

    /// Tells every worker; waits for room in the queues, but not once everything is to stop.
    async fn report_closed(&self, connection: &Connection, reason: CloseReason) {
        for worker in 0..self.incoming.len() {
            let event = Incoming::ConnectionClosed {
                connection: connection.id,
                transport: connection.transport,
                remote: connection.remote,
                reason: reason.clone(),
            };
            let reported = if self.tasks.is_stopping() {
                self.try_put(worker, event)
            } else {
                tokio::select! {
                    put = self.put(worker, event) => put.is_ok(),
                    () = self.tasks.stopped() => false,
                }
            };
            if !reported {
                self.counters(connection.transport)
                    .reports_dropped
                    .increment();
            }
        }
    }
}

/// Who is expected where a response goes over a connection of its own: the host that has asked, as it
/// calls itself in the Via (RFC 3261 section 18.2.2). A TLS certificate has to show that name (RFC 5922
/// section 7.3). `None` where it is an address, and for a request.
fn who_asked(payload: &Bytes) -> Option<Arc<Peer>> {
    let message = Message::read(payload.clone()).ok()?;
    message.status()?;
    match message.top_via()?.host() {
        Host::Name(name) => Some(Arc::new(Peer {
            name: Some(name.into()),
            ..Peer::default()
        })),
        Host::Address(_) => None,
    }
}
