//! Every transport of `sip_net`: TLS, SCTP, TLS over SCTP, WebSocket; and UDP and TCP where something has
//! to happen to them on the way, such as a bad network inside the socket or a capture.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use bytes::Bytes;
use sip::{ConnectionId as NetConnectionId, Flow, Peer, Target, Transmit, Transport};
use sip_net::{Incoming, SendError, SipNetConfig, Transports, WireStatistics};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::Traffic;
use crate::driver::error::LoadError;
use crate::engine::{Connection, ConnectionId};

/// Events taken from the transports at a time.
const BATCH: usize = 128;

/// Messages that are sent before it is looked at what has come.
const SENT_AT_ONCE: usize = 256;

/// Connections that are opened at a time.
const OPENING_AT_ONCE: usize = 64;

/// From the end of a connection, or of an attempt to open one, to the next attempt.
const PAUSE_BEFORE_CONNECTING: Duration = Duration::from_millis(500);

/// Ways to peers who have found us by themselves: their addresses are theirs to choose.
const MAX_STRANGERS: usize = 1 << 16;

/// The transports of `sip_net`, on a runtime of their own that runs while the worker waits.
#[derive(Debug)]
pub(crate) struct NetCarrier {
    runtime: Runtime,
    transports: Transports,
    incoming: mpsc::Receiver<Incoming>,
    batch: Vec<Incoming>,
    /// Connections that are being opened.
    opening: JoinSet<(Planned, Result<Flow, SendError>)>,
    waiting: Vec<Planned>,
    /// Why the last attempt to open one failed, and where to.
    error: Option<(SocketAddr, SendError)>,
    ways: Ways,
    notify: Arc<Notify>,
    buffer: Vec<u8>,
    /// Whether the transports have stopped by themselves: a listener has failed.
    is_stopped: bool,
}

/// Connection ids and flows.
#[derive(Debug)]
struct Ways {
    flows: Vec<Option<Flow>>,
    by_flow: HashMap<Key, ConnectionId, RandomState>,
    /// Ours, by the connection: what is opened again when it is lost.
    ours: HashMap<NetConnectionId, Planned, RandomState>,
    /// Those of peers who have found us, by the connection.
    strangers: HashMap<NetConnectionId, Vec<ConnectionId>, RandomState>,
    /// How many of these there are.
    stranger_count: usize,
    /// Ids of strangers who are gone.
    free: Vec<ConnectionId>,
}

/// What tells flows apart: over UDP a socket has many peers, over SCTP an association many streams.
type Key = (NetConnectionId, u16, SocketAddr);

/// A connection of ours: it has one id, or over SCTP one for each of some streams.
#[derive(Clone, Debug)]
struct Planned {
    first: ConnectionId,
    streams: u16,
    transport: Transport,
    remote: SocketAddr,
    peer: Option<Arc<Peer>>,
}

/// Ends a wait from another thread.
#[derive(Clone, Debug)]
pub(crate) struct NetWaker(Arc<Notify>);

impl NetWaker {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }
}

impl NetCarrier {
    /// Opens the listeners of the settings.
    pub(crate) fn start(
        config: SipNetConfig,
        hasher: RandomState,
    ) -> Result<NetCarrier, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (transports, incoming) = runtime.block_on(async { Transports::start(config) })?;
        Ok(NetCarrier {
            runtime,
            transports,
            incoming,
            batch: Vec::with_capacity(BATCH),
            opening: JoinSet::new(),
            waiting: Vec::new(),
            error: None,
            ways: Ways::new(hasher),
            notify: Arc::new(Notify::new()),
            buffer: Vec::new(),
            is_stopped: false,
        })
    }

    pub(crate) fn waker(&self) -> NetWaker {
        NetWaker(self.notify.clone())
    }

    /// Plans a connection, which is opened by and by, and again when it is lost. Over SCTP it has ids for so
    /// many streams, one behind the other from the one that is given back.
    pub(crate) fn connect(
        &mut self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        streams: u16,
    ) -> ConnectionId {
        let first = self.ways.next_id();
        let streams = streams.max(1);
        let count = self.ways.flows.len() + usize::from(streams);
        self.ways.flows.resize(count, None);
        self.waiting.push(Planned {
            first,
            streams,
            transport,
            remote,
            peer,
        });
        first
    }

    /// The UDP address under our SCTP (RFC 6951), where there is one.
    pub(crate) fn encapsulation(&self) -> Option<SocketAddr> {
        self.transports.encapsulation_addresses().first().copied()
    }

    /// Where the listeners are.
    pub(crate) fn listening(&self) -> Vec<sip_net::Listen> {
        self.transports.listening()
    }

    /// Why the last attempt to open a connection failed, if it did, and where to.
    pub(crate) fn take_error(&mut self) -> Option<(SocketAddr, SendError)> {
        self.error.take()
    }

    /// Whether nothing comes any more, because a listener has failed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(crate) fn turn(&mut self, until: Option<Instant>, traffic: &mut impl Traffic) {
        self.flush(traffic);
        self.open_planned();
        let limit = until.map(tokio::time::Instant::from_std);
        let (incoming, batch, opening) = (&mut self.incoming, &mut self.batch, &mut self.opening);
        let (notify, is_stopped) = (&self.notify, &mut self.is_stopped);
        let opened = self.runtime.block_on(async {
            let time_is_up = async {
                match limit {
                    Some(limit) => tokio::time::sleep_until(limit).await,
                    None => std::future::pending().await,
                }
            };
            // The tasks of the connections have their turn even where this one never waits: behind the first it is
            // looked what has come, before the second that is read.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            tokio::select! {
                biased;
                Some(opened) = opening.join_next() => opened.ok(),
                count = incoming.recv_many(batch, BATCH) => {
                    *is_stopped = count == 0;
                    None
                }
                () = notify.notified() => None,
                () = time_is_up => None,
            }
        });
        match opened {
            Some((planned, Ok(flow))) => self.ways.opened(planned, flow, traffic),
            Some((planned, Err(error))) => self.not_opened(planned, error),
            None => {}
        }
        self.receive(traffic);
        self.flush(traffic);
    }

    pub(crate) fn statistics(&self) -> WireStatistics {
        self.runtime.block_on(self.transports.statistics())
    }

    /// What TLS agreed on last, by its IANA name.
    pub(crate) fn tls_cipher_suite(&self) -> Option<String> {
        self.transports.tls_cipher_suite()
    }

    pub(crate) fn shutdown(self) {
        self.runtime.block_on(self.transports.shutdown());
    }

    fn receive(&mut self, traffic: &mut impl Traffic) {
        for incoming in self.batch.drain(..) {
            match incoming {
                Incoming::Message {
                    flow,
                    message,
                    received,
                } => {
                    if let Some(id) = self.ways.find(flow, traffic) {
                        let octets = message.to_bytes();
                        traffic.message(Instant::now(), received, id, &octets);
                    }
                }
                Incoming::ConnectionClosed { connection, .. } => {
                    let again = self.ways.lost(connection, traffic);
                    self.waiting.extend(again);
                }
                // The transports count what is malformed; nothing is sent with a transaction to be told; all is read.
                Incoming::Malformed { .. }
                | Incoming::Unread { .. }
                | Incoming::Undelivered { .. }
                | Incoming::KeepAlive { .. }
                | Incoming::ConnectionIdentified { .. }
                | Incoming::SendFailed { .. } => {}
            }
        }
    }

    pub(crate) fn flush(&mut self, traffic: &mut impl Traffic) {
        let mut transmits = Vec::new();
        loop {
            self.buffer.clear();
            while transmits.len() < SENT_AT_ONCE {
                let start = self.buffer.len();
                let Some(transmit) = traffic.poll_transmit(&mut self.buffer) else {
                    break;
                };
                let octets = &self.buffer[start..];
                if let Some(flow) = self.ways.flow(transmit.connection) {
                    transmits.push(Transmit {
                        target: Target::Flow(flow),
                        peer: None,
                        payload: Bytes::copy_from_slice(octets),
                        call: hash_of_call(octets),
                        transaction: None,
                    });
                }
            }
            if transmits.is_empty() {
                return;
            }
            let all = transmits.drain(..);
            let transports = &self.transports;
            self.runtime.block_on(async {
                transports.send_all(all);
                // It is written now: the worker may pause before it waits for what comes.
                tokio::task::yield_now().await;
            });
        }
    }

    fn open_planned(&mut self) {
        while self.opening.len() < OPENING_AT_ONCE
            && let Some(planned) = self.waiting.pop()
        {
            let transports = self.transports.clone();
            let opening = async move {
                let Planned {
                    transport,
                    remote,
                    ref peer,
                    ..
                } = planned;
                let flow = transports
                    .connect_to(transport, remote, peer.clone(), true)
                    .await;
                if flow.is_err() {
                    // What cannot be opened is tried again, but not at once.
                    tokio::time::sleep(PAUSE_BEFORE_CONNECTING).await;
                }
                (planned, flow)
            };
            self.opening.spawn_on(opening, self.runtime.handle());
        }
    }

    fn not_opened(&mut self, planned: Planned, error: SendError) {
        self.error = Some((planned.remote, error));
        self.waiting.push(planned);
    }
}

impl Ways {
    fn new(hasher: RandomState) -> Ways {
        Ways {
            flows: Vec::new(),
            by_flow: HashMap::with_hasher(hasher.clone()),
            ours: HashMap::with_hasher(hasher.clone()),
            strangers: HashMap::with_hasher(hasher),
            stranger_count: 0,
            free: Vec::new(),
        }
    }

    fn next_id(&self) -> ConnectionId {
        ConnectionId(u32::try_from(self.flows.len()).unwrap_or(u32::MAX))
    }

    fn flow(&self, id: ConnectionId) -> Option<Flow> {
        *self.flows.get(id.0 as usize)?
    }

    fn opened(&mut self, planned: Planned, flow: Flow, traffic: &mut impl Traffic) {
        for stream in 0..planned.streams {
            let id = ConnectionId(planned.first.0 + u32::from(stream));
            self.set(id, Flow { stream, ..flow }, traffic);
        }
        self.ours.insert(flow.connection, planned);
    }

    fn set(&mut self, id: ConnectionId, flow: Flow, traffic: &mut impl Traffic) {
        let Some(entry) = self.flows.get_mut(id.0 as usize) else {
            return;
        };
        *entry = Some(flow);
        self.by_flow.insert(key(flow), id);
        let connection = Connection {
            transport: flow.transport,
            local: flow.local,
            remote: flow.remote,
        };
        traffic.opened(id, connection);
    }

    /// The id of the way that a message came. Over SCTP the peer chooses a stream: where that has no id of
    /// its own, the association's first one stands for it.
    fn find(&mut self, flow: Flow, traffic: &mut impl Traffic) -> Option<ConnectionId> {
        if let Some(id) = self.by_flow.get(&key(flow)) {
            return Some(*id);
        }
        if let Some(planned) = self.ours.get(&flow.connection)
            && planned.remote == flow.remote
        {
            return Some(planned.first);
        }
        if self.stranger_count >= MAX_STRANGERS {
            return None;
        }
        self.stranger_count += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            let id = self.next_id();
            self.flows.push(None);
            id
        });
        self.strangers.entry(flow.connection).or_default().push(id);
        self.set(id, flow, traffic);
        Some(id)
    }

    /// Forgets the flows of a connection. Gives how it is opened again, where it is ours.
    fn lost(&mut self, connection: NetConnectionId, traffic: &mut impl Traffic) -> Option<Planned> {
        let now = Instant::now();
        let planned = self.ours.remove(&connection);
        let of_ours = planned.iter().flat_map(|planned| {
            let first = planned.first.0;
            (first..first + u32::from(planned.streams)).map(ConnectionId)
        });
        let strangers = self.strangers.remove(&connection).unwrap_or_default();
        self.stranger_count -= strangers.len();
        self.free.extend_from_slice(&strangers);
        for id in of_ours.chain(strangers) {
            if let Some(flow) = self.flows.get_mut(id.0 as usize).and_then(Option::take) {
                self.by_flow.remove(&key(flow));
            }
            traffic.lost(now, id);
        }
        planned
    }
}

fn key(flow: Flow) -> Key {
    (flow.connection, flow.stream, flow.remote)
}

/// A number for the Call-ID of a message, by which a stream is chosen where each call has its own: FNV-1a,
/// for what we have written ourselves.
fn hash_of_call(octets: &[u8]) -> u32 {
    const NAME: &[u8] = b"\r\nCall-ID:";
    let Some(at) = memchr::memmem::find(octets, NAME) else {
        return 0;
    };
    let value = octets[at + NAME.len()..].iter();
    value
        .take_while(|octet| **octet != b'\r')
        .fold(0x811c_9dc5, |hash: u32, octet| {
            (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193)
        })
}
