//! The table of connections and associations: by name, and by far end (RFC 3261 section 18).

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use sctp_net::FlushGuard;
use sip::transaction::TransactionKey;
use sip::{ConnectionId, Flow, Peer, Transport};
use tcp_info::tcp_info;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};

use crate::budget::{Budget, Reservation};
use crate::config::Limits;
use crate::incoming::{CloseReason, SendError};
use crate::shared::Shared;
use crate::tcp_counts::TcpCounts;
use crate::unanswered::is_response;
use crate::{sctp, stream};

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) payload: Bytes,
    /// The stream that the target's flow names.
    pub(crate) stream: u16,
    /// Hash of the Call-ID.
    pub(crate) call: u32,
    pub(crate) transaction: Option<OwnedTransaction>,
    /// Where to send it when the connection turns out to be gone (RFC 3261 section 18.2.2).
    pub(crate) fallback: Option<Fallback>,
    /// Its share of the budget of all queues, while it is in one.
    pub(crate) reserved: Option<Reservation>,
    /// It goes where nothing else is left (RFC 3263 section 5).
    pub(crate) is_last_resort: bool,
}

/// Another way for a message whose connection is gone.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) address: SocketAddr,
    /// Who is expected there, where that is known.
    pub(crate) peer: Option<Arc<Peer>>,
}

/// A transaction, and the worker that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnedTransaction {
    pub(crate) worker: usize,
    pub(crate) key: TransactionKey,
}

/// A message that did not go into a queue, and why.
pub(crate) type Refused = Box<(Outgoing, SendError)>;

impl Outgoing {
    pub(crate) fn refused(self, error: SendError) -> Refused {
        Box::new((self, error))
    }

    /// Takes its share of the budget before it goes into a queue; tells whether there is one.
    pub(crate) fn reserve(&mut self, budget: &Arc<Budget>) -> bool {
        // First it gives back what it may have from another queue.
        self.reserved = None;
        self.reserved = budget.reserve(self.payload.len());
        self.reserved.is_some()
    }
}

/// One connection or association: what everyone but its own task knows of it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) transport: Transport,
    pub(crate) remote: SocketAddr,
    /// Who is expected there, where we opened it and were told.
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) opened_by: OpenedBy,
    queue: mpsc::Sender<Outgoing>,
    /// What waits to be sent, in the queue or taken from it.
    queued_messages: AtomicUsize,
    queued_bytes: AtomicUsize,
    max_queued_bytes: usize,
    budget: Arc<Budget>,
    state: watch::Sender<State>,
    close: Notify,
    /// It gives way to others.
    displaced: AtomicBool,
    half_closed: AtomicBool,
    socket: OnceLock<Arc<TcpStream>>,
    /// By which messages are written without waiting for the connection's task, once it is open.
    outbox: OnceLock<WayOut>,
    /// The names that a peer which has opened it has proved.
    names: OnceLock<Arc<[Box<str>]>>,
    /// It can be found under its alias, and nobody has taken a part of that since.
    has_alias: AtomicBool,
}

/// By which messages leave without waiting for the connection's task.
#[derive(Clone, Debug)]
pub(crate) enum WayOut {
    Stream(Arc<stream::Outbox>),
    Sctp(Arc<sctp::Outbox>),
}

impl WayOut {
    /// Sends messages, or gives them back where they have to take the connection's queue. Those along an association leave
    /// when what is put into `departures` is dropped, with those along others.
    pub(crate) fn send(
        &self,
        shared: &Arc<Shared>,
        connection: &Connection,
        messages: Vec<Outgoing>,
        departures: &mut Vec<FlushGuard>,
    ) -> Vec<Outgoing> {
        match self {
            WayOut::Stream(outbox) => outbox.send(shared, connection, messages),
            WayOut::Sctp(outbox) => outbox.send(shared, connection, messages, departures),
        }
    }
}

/// Which side opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedBy {
    Us,
    Peer,
}

#[derive(Clone, Debug)]
enum State {
    Opening,
    Open(Flow),
    Failed(SendError),
}

impl Connection {
    /// All addresses of the peer that were known when we opened it.
    pub(crate) fn peer_addresses(&self) -> &[SocketAddr] {
        self.peer.as_deref().map_or(&[], |peer| &peer.addresses)
    }

    fn far_end(&self, address: SocketAddr) -> FarEnd {
        far_end(self.transport, address, self.peer.as_deref())
    }

    /// Puts a message into the queue; gives it back with the reason where that fails.
    pub(crate) fn push(&self, mut outgoing: Outgoing) -> Result<(), Refused> {
        if self.is_half_closed() && !is_response(&outgoing.payload) {
            return Err(outgoing.refused(SendError::Gone));
        }
        let bytes = outgoing.payload.len();
        if !self.take_room(&mut outgoing) {
            return Err(outgoing.refused(match self.queue.is_closed() {
                true => SendError::Gone,
                false => SendError::QueueFull,
            }));
        }
        self.queue.try_send(outgoing).map_err(|error| {
            self.popped(bytes);
            match error {
                mpsc::error::TrySendError::Full(outgoing) => outgoing.refused(SendError::QueueFull),
                mpsc::error::TrySendError::Closed(outgoing) => outgoing.refused(SendError::Gone),
            }
        })
    }

    /// Takes a message's share of what may wait here and everywhere; tells whether there is one.
    pub(crate) fn take_room(&self, outgoing: &mut Outgoing) -> bool {
        let bytes = outgoing.payload.len();
        let messages = self.queued_messages.fetch_add(1, Relaxed) + 1;
        let octets = self.queued_bytes.fetch_add(bytes, Relaxed) + bytes;
        let has_room = messages <= self.queue.max_capacity()
            && octets <= self.max_queued_bytes
            && outgoing.reserve(&self.budget);
        if !has_room {
            self.popped(bytes);
        }
        has_room
    }

    /// Room for a message of so many bytes, where nothing waits here.
    pub(crate) fn room_for(&self, bytes: usize) -> Option<Reservation> {
        let may_wait = bytes <= self.max_queued_bytes;
        may_wait.then(|| self.budget.reserve(bytes)).flatten()
    }

    /// A message of so many bytes waits that [has room](Connection::room_for).
    pub(crate) fn queued(&self, bytes: usize) {
        self.queued_messages.fetch_add(1, Relaxed);
        self.queued_bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether messages wait that have to go before others.
    pub(crate) fn has_queue(&self) -> bool {
        self.queued_messages.load(Relaxed) > 0
    }

    /// Makes room: a message of so many bytes waits no more.
    pub(crate) fn popped(&self, bytes: usize) {
        self.queued_messages.fetch_sub(1, Relaxed);
        self.queued_bytes.fetch_sub(bytes, Relaxed);
    }

    /// It is open: whoever waits for it gets this flow.
    pub(crate) fn opened(&self, flow: Flow) {
        self.state.send_replace(State::Open(flow));
    }

    /// The peer sends no more: a request could not be answered, so only responses still go.
    pub(crate) fn half_closed(&self) {
        self.half_closed.store(true, Relaxed);
    }

    /// Whether the peer has closed its half.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.half_closed.load(Relaxed)
    }

    /// It is gone, or was never opened.
    pub(crate) fn failed(&self, error: SendError) {
        self.state.send_replace(State::Failed(error));
    }

    /// Waits until it is open.
    pub(crate) async fn flow(&self) -> Result<Flow, SendError> {
        let mut state = self.state.subscribe();
        match state
            .wait_for(|state| !matches!(state, State::Opening))
            .await
            .as_deref()
        {
            Ok(State::Open(flow)) => Ok(*flow),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Opening) | Err(_) => Err(SendError::Gone),
        }
    }

    /// Lets the kernel be asked about this TCP connection for as long as it is in the table.
    pub(crate) fn counted_by(&self, socket: Arc<TcpStream>) {
        // Each connection has one socket in its life, so the cell is empty.
        let _ = self.socket.set(socket);
    }

    /// It is open, and messages can be written by this.
    pub(crate) fn written_by(&self, outbox: WayOut) {
        // It is opened once.
        let _ = self.outbox.set(outbox);
    }

    /// By which messages are written, where that does not take the connection's task.
    pub(crate) fn outbox(&self) -> Option<&WayOut> {
        self.outbox.get()
    }

    /// Asks the connection's task to end it.
    pub(crate) fn close(&self) {
        self.close.notify_one();
    }

    /// Ends when the connection is to be [closed](Connection::close), or gives way to others. Tells why.
    pub(crate) async fn close_requested(&self) -> CloseReason {
        self.close.notified().await;
        match self.is_displaced() {
            true => CloseReason::Displaced,
            false => CloseReason::Local,
        }
    }

    fn is_displaced(&self) -> bool {
        self.displaced.load(Relaxed)
    }

    /// The peer, which has opened it, has proved these names.
    pub(crate) fn proved_to_be(&self, names: Arc<[Box<str>]>) {
        if self.opened_by == OpenedBy::Peer {
            // It has shown one certificate.
            let _ = self.names.set(names);
        }
    }

    /// The names that it can be used for in our direction, if there are any.
    pub(crate) fn names(&self) -> &[Box<str>] {
        self.names.get().map_or(&[], |names| names)
    }

    fn tcp_counts(&self) -> TcpCounts {
        self.socket
            .get()
            .and_then(|socket| tcp_info(socket.as_fd()))
            .map_or_else(TcpCounts::default, TcpCounts::from)
    }
}

/// A new connection and the end of its queue that its task takes from.
pub(crate) type Opening = (Arc<Connection>, mpsc::Receiver<Outgoing>);

/// What [`Connections::find_or_open`] found.
pub(crate) enum Found {
    Existing(Arc<Connection>),
    New(Opening),
}

/// All connections and associations.
#[derive(Debug)]
pub(crate) struct Connections {
    table: RwLock<Table>,
    next_id: AtomicU64,
    max_connections: usize,
    max_unknown: usize,
    max_accepted_per_source: usize,
    max_handshakes: usize,
    max_handshakes_per_source: usize,
    queue_messages: usize,
    queue_bytes: usize,
    budget: Arc<Budget>,
}

/// What messages to a bare address look for: where, and who has shown to be there. A TLS server that
/// has shown one name must not get what is for another at its address (RFC 5923 section 8.1).
type FarEnd = (Transport, SocketAddr, Option<Box<str>>);

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<ConnectionId, Arc<Connection>>,
    /// The connection that messages to a bare address use: the one that was opened last.
    by_remote: HashMap<FarEnd, ConnectionId>,
    /// The other addresses under which an association is there: those of its peer.
    others: HashMap<ConnectionId, Vec<SocketAddr>>,
    /// What the peers of connections that they have opened are to be found by, too (RFC 5923).
    aliases: HashMap<ConnectionId, Vec<FarEnd>>,
    /// How many connections each source has opened to us.
    accepted: HashMap<IpAddr, Accepted>,
    /// Those whose handshake is under way.
    unproved: HashSet<ConnectionId>,
    /// How many there are of peers that we do not know, and the sources that have opened them by how many they have.
    unknown: usize,
    sources_by_unknown: BTreeSet<(usize, IpAddr)>,
    /// Those that give way and are not closed yet.
    displaced: usize,
    /// What the kernel counted on TCP connections that are gone.
    closed: HashMap<Transport, Traffic>,
}

/// Connections that one source has opened to us.
#[derive(Clone, Debug, Default)]
struct Accepted {
    all: usize,
    /// Of those, the ones whose handshake is under way.
    unproved: usize,
    /// Those of peers that we do not know, the oldest ones first.
    unknown: BTreeSet<ConnectionId>,
}

/// What TCP connections carried, by the size of their IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) ipv4: TcpCounts,
    pub(crate) ipv6: TcpCounts,
}

impl Traffic {
    fn add(&mut self, connection: &Connection) {
        let counts = connection.tcp_counts();
        match connection.remote {
            SocketAddr::V4(_) => self.ipv4 += counts,
            SocketAddr::V6(_) => self.ipv6 += counts,
        }
    }
}

impl Connections {
    /// An empty table that gives out names from `first_id` on; the queues share `budget`.
    pub(crate) fn new(first_id: u64, limits: &Limits, budget: Arc<Budget>) -> Connections {
        Connections {
            table: RwLock::default(),
            next_id: AtomicU64::new(first_id),
            max_connections: limits.max_connections,
            max_unknown: limits.max_connections - limits.max_connections / KEPT_FOR_KNOWN,
            max_accepted_per_source: limits.max_accepted_per_source,
            max_handshakes: limits.max_handshakes,
            max_handshakes_per_source: limits.max_handshakes_per_source,
            queue_messages: limits.write_queue_messages.max(1),
            queue_bytes: limits.write_queue_bytes,
            budget,
        }
    }

    /// A name that nothing else has had.
    pub(crate) fn new_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Relaxed))
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        self.read().by_id.get(&id).cloned()
    }

    /// The connection to an address, or to another one of the peer's; or a new one that waits to be
    /// opened.
    pub(crate) fn find_or_open(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Found, SendError> {
        if let Some(connection) = self.read().find_peer(transport, remote, peer.as_deref()) {
            return Ok(Found::Existing(connection));
        }
        let mut table = self.write();
        // Another may have opened it between the two locks.
        if let Some(connection) = table.find_peer(transport, remote, peer.as_deref()) {
            return Ok(Found::Existing(connection));
        }
        let opening = self.insert(&mut table, transport, remote, peer, OpenedBy::Us)?;
        let far_end = opening.0.far_end(remote);
        table.by_remote.insert(far_end, opening.0.id);
        Ok(Found::New(opening))
    }

    /// A new connection that messages to the bare address do not use.
    pub(crate) fn open_private(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Opening, SendError> {
        self.insert(&mut self.write(), transport, remote, peer, OpenedBy::Us)
    }

    /// A connection that a peer opened.
    pub(crate) fn accepted(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Opening, SendError> {
        let mut table = self.write();
        let opening = self.insert_accepted(&mut table, transport, remote)?;
        table.file_accepted(&opening.0);
        Ok(opening)
    }

    /// A connection that a peer opened and over which nothing can be sent yet: messages to the bare
    /// address do not use it until it is [proved](Connections::proved). Handshakes cost the most and
    /// prove nothing, so that those under way are bounded by themselves, in all and for each source.
    pub(crate) fn accepted_unproved(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Opening, SendError> {
        let mut table = self.write();
        let of_source = table.accepted.get(&source(remote));
        let of_source = of_source.map_or(0, |of_source| of_source.unproved);
        if table.unproved.len() >= self.max_handshakes
            || of_source >= self.max_handshakes_per_source
        {
            return Err(SendError::TooManyConnections);
        }
        let opening = self.insert_accepted(&mut table, transport, remote)?;
        table.unproved.insert(opening.0.id);
        table.accepted.entry(source(remote)).or_default().unproved += 1;
        Ok(opening)
    }

    /// The handshake of a connection that a peer opened is over.
    pub(crate) fn proved(&self, connection: &Connection) {
        let mut table = self.write();
        table.handshake_ended(connection);
        table.file_accepted(connection);
    }

    /// The handshake of a connection that a peer opened has failed; the connection stays in the table
    /// until the peer has been told.
    pub(crate) fn disproved(&self, connection: &Connection) {
        self.write().handshake_ended(connection);
    }

    /// The peer of an association has this address, too: messages to it use the association, unless
    /// another has the address already, or this one is not for all.
    pub(crate) fn reached_at(&self, connection: &Connection, address: SocketAddr) {
        let mut table = self.write();
        let table = &mut *table;
        let name = |address| connection.far_end(address);
        if table.by_remote.get(&name(connection.remote)) != Some(&connection.id) {
            return;
        }
        if let Entry::Vacant(vacant) = table.by_remote.entry(name(address)) {
            vacant.insert(connection.id);
            table.others.entry(connection.id).or_default().push(address);
        }
    }

    /// The peer of an association has lost one of its other addresses.
    pub(crate) fn not_reached_at(&self, connection: &Connection, address: SocketAddr) {
        let mut table = self.write();
        let table = &mut *table;
        if let Some(others) = table.others.get_mut(&connection.id) {
            let before = others.len();
            others.retain(|other| *other != address);
            if others.len() < before {
                table.by_remote.remove(&connection.far_end(address));
            }
        }
    }

    /// The peer of a connection that it has opened wants to get requests by it that are for this address of its, as
    /// one of the names that it has proved (RFC 5923 section 8.2). Messages to these use the connection from now on, and
    /// not an older one that was offered so: a peer that has begun anew knows nothing of that, which may come back once
    /// the newer one is gone. One that we have opened keeps its place. Each connection has one such address, the first
    /// under which it could be found.
    pub(crate) fn add_alias(&self, connection: &Connection, address: SocketAddr) {
        // Each request offers it; seldom is there anything to do, and all others wait for who writes.
        if connection.has_alias.load(Relaxed) || connection.names().is_empty() {
            return;
        }
        let far_ends = |table: &Table| {
            if table.is_alias_of(connection.id, |far_end| far_end.1 != address) {
                return Vec::new();
            }
            let names = connection.names().iter();
            let far_ends = names.map(|name| {
                let name = Some(name.to_ascii_lowercase().into());
                (connection.transport, address, name)
            });
            let free = far_ends.filter(|far_end| table.is_free_for(connection.id, far_end));
            free.collect::<Vec<FarEnd>>()
        };
        if far_ends(&self.read()).is_empty() {
            return;
        }
        let mut table = self.write();
        // Things may have changed between the two locks.
        let added = far_ends(&table);
        if added.is_empty() || !table.by_id.contains_key(&connection.id) {
            return;
        }
        connection.has_alias.store(true, Relaxed);
        for far_end in &added {
            match table.by_remote.insert(far_end.clone(), connection.id) {
                Some(other) if other != connection.id => table.alias_taken(other, far_end),
                _ => {}
            }
        }
        table
            .aliases
            .entry(connection.id)
            .or_default()
            .extend(added);
    }

    /// The peer of a connection is one that we know: a user who has registered or authenticated by it, or a peer that is
    /// trusted. It gives way to nobody.
    pub(crate) fn known(&self, id: ConnectionId) {
        let is_unknown = |table: &Table| {
            let connection = table.by_id.get(&id)?;
            let source = source(connection.remote);
            let of_source = table.accepted.get(&source)?;
            of_source.unknown.contains(&id).then_some(source)
        };
        // Each registration says so, and all others wait for who writes.
        if is_unknown(&self.read()).is_none() {
            return;
        }
        let mut table = self.write();
        if let Some(source) = is_unknown(&table) {
            table.set_unknown(source, id, false);
        }
    }

    /// Keeps messages to the bare address off a connection that is about to end.
    pub(crate) fn retire(&self, connection: &Connection) {
        self.write().retire(connection);
    }

    /// Takes a connection out of the table; what it carried stays counted.
    pub(crate) fn remove(&self, connection: &Connection) {
        let mut table = self.write();
        table.retire(connection);
        if table.by_id.remove(&connection.id).is_some() {
            let closed = table.closed.entry(connection.transport).or_default();
            closed.add(connection);
            if connection.opened_by == OpenedBy::Peer {
                let source = source(connection.remote);
                table.handshake_ended(connection);
                table.set_unknown(source, connection.id, false);
                table.displaced -= usize::from(connection.is_displaced());
                table.accepted_ended(source);
            }
        }
    }

    /// How many connections of a transport there are.
    pub(crate) fn count(&self, transport: Transport) -> usize {
        self.read()
            .by_id
            .values()
            .filter(|connection| connection.transport == transport)
            .count()
    }

    /// What all TCP connections of a transport have carried until now.
    pub(crate) fn tcp_traffic(&self, transport: Transport) -> Traffic {
        let (mut traffic, connections) = {
            let table = self.read();
            let of_transport = table
                .by_id
                .values()
                .filter(|connection| connection.transport == transport);
            let connections: Vec<Arc<Connection>> = of_transport.cloned().collect();
            let closed = table.closed.get(&transport).copied();
            (closed.unwrap_or_default(), connections)
        };
        // The kernel is asked about each: nobody is to wait for the table meanwhile.
        for connection in connections {
            traffic.add(&connection);
        }
        traffic
    }

    fn insert_accepted(
        &self,
        table: &mut Table,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Opening, SendError> {
        let source = source(remote);
        let of_source = table.accepted.get(&source);
        if of_source.map_or(0, |of_source| of_source.all) >= self.max_accepted_per_source {
            return Err(SendError::TooManyConnections);
        }
        let is_full = table.by_id.len() - table.displaced >= self.max_connections;
        if (is_full || table.unknown >= self.max_unknown) && !table.displace() {
            return Err(SendError::TooManyConnections);
        }
        let opening = self.insert(table, transport, remote, None, OpenedBy::Peer)?;
        table.accepted.entry(source).or_default().all += 1;
        table.set_unknown(source, opening.0.id, true);
        Ok(opening)
    }

    fn insert(
        &self,
        table: &mut Table,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        opened_by: OpenedBy,
    ) -> Result<Opening, SendError> {
        if table.by_id.len() - table.displaced >= self.max_connections {
            return Err(SendError::TooManyConnections);
        }
        let (queue, receiver) = mpsc::channel(self.queue_messages);
        let connection = Arc::new(Connection {
            id: self.new_id(),
            transport,
            remote,
            peer,
            opened_by,
            queue,
            queued_messages: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            max_queued_bytes: self.queue_bytes,
            budget: self.budget.clone(),
            state: watch::Sender::new(State::Opening),
            close: Notify::new(),
            displaced: AtomicBool::new(false),
            half_closed: AtomicBool::new(false),
            socket: OnceLock::new(),
            outbox: OnceLock::new(),
            names: OnceLock::new(),
            has_alias: AtomicBool::new(false),
        });
        table.by_id.insert(connection.id, connection.clone());
        Ok((connection, receiver))
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn find(&self, far_end: &FarEnd) -> Option<Arc<Connection>> {
        let id = self.by_remote.get(far_end)?;
        self.by_id.get(id).cloned()
    }

    /// The connection to an address, else to another one of the peer's.
    fn find_peer(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<&Peer>,
    ) -> Option<Arc<Connection>> {
        let others = peer.map_or(&[][..], |peer| &peer.addresses);
        std::iter::once(&remote)
            .chain(others)
            .find_map(|&address| self.find(&far_end(transport, address, peer)))
    }

    /// Whether a connection may be found here, as an alias: nobody else is, or one whose peer has proved the same and
    /// has opened this one later.
    fn is_free_for(&self, connection: ConnectionId, far_end: &FarEnd) -> bool {
        let Some(&other) = self.by_remote.get(far_end) else {
            return true;
        };
        other < connection && self.is_alias_of(other, |alias| alias == far_end)
    }

    /// Whether a connection has an alias like this.
    fn is_alias_of(&self, connection: ConnectionId, is_meant: impl Fn(&FarEnd) -> bool) -> bool {
        let aliases = self.aliases.get(&connection);
        aliases.is_some_and(|aliases| aliases.iter().any(is_meant))
    }

    /// Another connection is found now where this one was, which is to look whether its place is free when it is offered
    /// the next time.
    fn alias_taken(&mut self, connection: ConnectionId, far_end: &FarEnd) {
        if let Entry::Occupied(mut aliases) = self.aliases.entry(connection) {
            aliases.get_mut().retain(|alias| alias != far_end);
            if aliases.get().is_empty() {
                aliases.remove();
            }
        }
        if let Some(connection) = self.by_id.get(&connection) {
            connection.has_alias.store(false, Relaxed);
        }
    }

    fn retire(&mut self, connection: &Connection) {
        let others = self.others.remove(&connection.id).unwrap_or_default();
        let addresses = std::iter::once(connection.remote).chain(others);
        let aliases = self.aliases.remove(&connection.id).unwrap_or_default();
        let far_ends = addresses.map(|address| connection.far_end(address));
        for far_end in far_ends.chain(aliases) {
            if self.by_remote.get(&far_end) == Some(&connection.id) {
                self.by_remote.remove(&far_end);
            }
        }
    }

    /// Messages to the bare address use a connection that a peer opened, but not where they are to be
    /// secure: nobody has verified who is there, and it is not known where the peer listens; who wants to be found by
    /// such a one [says so](Connections::add_alias). Responses and bindings know their connection.
    fn file_accepted(&mut self, connection: &Connection) {
        if !connection.transport.is_secure() {
            let far_end = connection.far_end(connection.remote);
            self.by_remote.insert(far_end, connection.id);
        }
    }

    fn handshake_ended(&mut self, connection: &Connection) {
        if self.unproved.remove(&connection.id)
            && let Some(of_source) = self.accepted.get_mut(&source(connection.remote))
        {
            of_source.unproved -= 1;
        }
    }

    /// Makes room: of the source with the most connections of peers that we do not know, the oldest one of these is to end.
    /// Returns whether there is one; not while as many as there may be are about to end.
    fn displace(&mut self) -> bool {
        if self.displaced >= MAXIMUM_DISPLACED {
            return false;
        }
        let Some(&(_, source)) = self.sources_by_unknown.last() else {
            return false;
        };
        let of_source = self.accepted.get(&source);
        let oldest = of_source.and_then(|of_source| of_source.unknown.first().copied());
        let Some(connection) = oldest.and_then(|oldest| self.by_id.get(&oldest).cloned()) else {
            return false;
        };
        self.set_unknown(source, connection.id, false);
        self.displaced += 1;
        connection.displaced.store(true, Relaxed);
        connection.close();
        true
    }

    /// Notes whether the peer of a connection that a source has opened is one that we do not know.
    fn set_unknown(&mut self, source: IpAddr, connection: ConnectionId, is_unknown: bool) {
        let Some(of_source) = self.accepted.get_mut(&source) else {
            return;
        };
        let before = of_source.unknown.len();
        match is_unknown {
            true => of_source.unknown.insert(connection),
            false => of_source.unknown.remove(&connection),
        };
        let now = of_source.unknown.len();
        if now == before {
            return;
        }
        self.sources_by_unknown.remove(&(before, source));
        if now > 0 {
            self.sources_by_unknown.insert((now, source));
        }
        self.unknown = self.unknown - before + now;
    }

    fn accepted_ended(&mut self, source: IpAddr) {
        if let Entry::Occupied(mut of_source) = self.accepted.entry(source) {
            of_source.get_mut().all -= 1;
            if of_source.get().all == 0 {
                of_source.remove();
            }
        }
    }
}

fn far_end(transport: Transport, remote: SocketAddr, peer: Option<&Peer>) -> FarEnd {
    let name = peer.and_then(|peer| peer.name.as_ref());
    let name = name.filter(|_| transport.is_secure());
    let name = name.map(|name| name.to_ascii_lowercase().into());
    (transport, remote, name)
}

/// One part in so many of all connections is for peers that we know, and for those that we open.
const KEPT_FOR_KNOWN: usize = 4;

/// How many connections may be about to end because they give way. They end at once: more at a time are not needed.
const MAXIMUM_DISPLACED: usize = 1024;

/// What one host has for itself: an IPv4 address, or the 64 bits of an IPv6 prefix, under which it
/// picks addresses as it likes (RFC 4291 section 2.5.4, RFC 8981).
pub(crate) fn source(remote: SocketAddr) -> IpAddr {
    match remote.ip() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests;
