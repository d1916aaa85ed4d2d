//! The table of connections and associations.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sip::{ConnectionId, Peer, Transport};

use super::accepted::AcceptedConnections;
use super::address_book::AddressBook;
use super::connection::{Connection, OpenedBy};
use super::traffic::Traffic;
use crate::budget::{Budget, QueueBudget};
use crate::config::Limits;
use crate::incoming::SendError;

/// All connections and associations.
#[derive(Debug)]
pub(crate) struct Connections {
    table: RwLock<Table>,
    next_id: AtomicU64,
    max_connections: usize,
    max_queue_messages: usize,
    max_queue_bytes: usize,
    budget: Arc<Budget>,
}

#[derive(Debug)]
pub(super) struct Table {
    by_id: HashMap<ConnectionId, Arc<Connection>>,
    pub(super) addresses: AddressBook,
    pub(super) accepted: AcceptedConnections,
    /// What the kernel counted on TCP connections that are gone.
    closed: HashMap<Transport, Traffic>,
}

impl Connections {
    /// An empty table that gives out names from `first_id` on; the queues share `budget`.
    pub(crate) fn new(first_id: u64, limits: &Limits, budget: Arc<Budget>) -> Connections {
        Connections {
            table: RwLock::new(Table {
                by_id: HashMap::new(),
                addresses: AddressBook::default(),
                accepted: AcceptedConnections::new(limits),
                closed: HashMap::new(),
            }),
            next_id: AtomicU64::new(first_id),
            max_connections: limits.max_connections,
            max_queue_messages: limits.write_queue_messages.max(1),
            max_queue_bytes: limits.write_queue_bytes,
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
    /// opened. Returns whether it is new.
    pub(crate) fn find_or_open(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<(Arc<Connection>, bool), SendError> {
        if let Some(connection) = self.read().find(transport, remote, peer.as_deref()) {
            return Ok((connection, false));
        }
        let mut table = self.write();
        // Another may have opened it between the two locks.
        if let Some(connection) = table.find(transport, remote, peer.as_deref()) {
            return Ok((connection, false));
        }
        let connection = self.new_connection(transport, remote, peer, OpenedBy::Us, false);
        let connection = self.insert(&mut table, connection)?;
        table.addresses.add(&connection);
        Ok((connection, true))
    }

    /// A new connection that messages to the bare address do not use.
    pub(crate) fn open_private(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
    ) -> Result<Arc<Connection>, SendError> {
        let connection = self.new_connection(transport, remote, peer, OpenedBy::Us, true);
        self.insert(&mut self.write(), connection)
    }

    /// A connection that a peer opened.
    pub(crate) fn accept(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Arc<Connection>, SendError> {
        let mut table = self.write();
        let connection = self.insert_accepted(&mut table, transport, remote)?;
        table.add_accepted_address(&connection);
        Ok(connection)
    }

    /// A connection that a peer opened and over which nothing can be sent yet: messages to the bare
    /// address do not use it until its [handshake is over](Connections::handshake_done). Handshakes cost the most and
    /// prove nothing, so that those under way are bounded by themselves, in all and for each source.
    pub(crate) fn accept_with_handshake(
        &self,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Arc<Connection>, SendError> {
        let mut table = self.write();
        if !table.accepted.has_room_for_handshake(remote) {
            return Err(SendError::TooManyConnections);
        }
        let connection = self.insert_accepted(&mut table, transport, remote)?;
        table.accepted.handshake_began(connection.id, remote);
        Ok(connection)
    }

    /// The handshake of a connection that a peer opened is over.
    pub(crate) fn handshake_done(&self, connection: &Connection) {
        let mut table = self.write();
        table
            .accepted
            .handshake_ended(connection.id, connection.remote);
        table.add_accepted_address(connection);
    }

    /// The handshake of a connection that a peer opened has failed; the connection stays in the table
    /// until the peer has been told.
    pub(crate) fn handshake_failed(&self, connection: &Connection) {
        let mut table = self.write();
        let accepted = &mut table.accepted;
        accepted.handshake_ended(connection.id, connection.remote);
    }

    /// The peer of an association has this address, too: messages to it use the association, unless
    /// another has the address already, or this one is not for all.
    pub(crate) fn add_address(&self, connection: &Connection, address: SocketAddr) {
        self.write().addresses.add_address(connection, address);
    }

    /// The peer of an association has lost one of its other addresses.
    pub(crate) fn remove_address(&self, connection: &Connection, address: SocketAddr) {
        self.write().addresses.remove_address(connection, address);
    }

    /// The peer of a connection that it has opened wants to get requests by it that are for this address of its, as
    /// one of the names that it has proved (RFC 5923 section 8.2). Messages to these use the connection from now on, and
    /// not an older one that was offered so: a peer that has begun anew knows nothing of that, which may come back once
    /// the newer one is gone. One that we have opened keeps its place. Each connection has one such address, the first
    /// under which it could be found.
    pub(crate) fn add_alias(&self, connection: &Connection, address: SocketAddr) {
        // Each request offers it, and seldom is there anything to do: no lock for writing, for which all others would wait.
        if connection.has_alias.load(Relaxed)
            || connection.names().is_empty()
            || self
                .read()
                .addresses
                .free_aliases(connection, address)
                .is_empty()
        {
            return;
        }
        let mut table = self.write();
        // Things may have changed between the two locks.
        let added = table.addresses.free_aliases(connection, address);
        if added.is_empty() || !table.by_id.contains_key(&connection.id) {
            return;
        }
        connection.has_alias.store(true, Relaxed);
        for other in table.addresses.add_aliases(connection.id, added) {
            // It is to look whether its place is free when it is offered the next time.
            if let Some(other) = table.by_id.get(&other) {
                other.has_alias.store(false, Relaxed);
            }
        }
    }

    /// The peer of a connection is one that we know: a user who has registered or authenticated by it, or a peer that is
    /// trusted. It does not give way to others.
    pub(crate) fn set_known(&self, id: ConnectionId) {
        let unknown = |table: &Table| {
            let connection = table.by_id.get(&id)?;
            let is_unknown = table.accepted.is_unknown(id, connection.remote);
            is_unknown.then_some(connection.remote)
        };
        // Each registration says so: no lock for writing where there is nothing to do.
        if unknown(&self.read()).is_none() {
            return;
        }
        let mut table = self.write();
        if let Some(remote) = unknown(&table) {
            table.accepted.set_known(id, remote);
        }
    }

    /// Those to an address that are open, and were opened from this address of ours.
    pub(crate) fn opened_from(
        &self,
        local: IpAddr,
        transport: Transport,
        remote: SocketAddr,
    ) -> Vec<ConnectionId> {
        let table = self.read();
        let opened = table.by_id.values().filter(|connection| {
            connection.opened_by == OpenedBy::Us
                && connection.transport == transport
                && connection.remote == remote
                && connection.local() == Some(local)
        });
        opened.map(|connection| connection.id).collect()
    }

    /// Keeps messages to the bare address off a connection that is about to end.
    pub(crate) fn retire(&self, connection: &Connection) {
        self.write().addresses.remove(connection);
    }

    /// Takes a connection out of the table; what it carried stays counted.
    pub(crate) fn remove(&self, connection: &Connection) {
        let mut table = self.write();
        table.addresses.remove(connection);
        if table.by_id.remove(&connection.id).is_some() {
            let closed = table.closed.entry(connection.transport).or_default();
            closed.add(connection.remote.ip(), connection.tcp_counts());
            if connection.opened_by == OpenedBy::Peer {
                let is_displaced = connection.is_displaced();
                let accepted = &mut table.accepted;
                accepted.remove(connection.id, connection.remote, is_displaced);
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
        // The kernel is asked about each, without the lock.
        for connection in connections {
            traffic.add(connection.remote.ip(), connection.tcp_counts());
        }
        traffic
    }

    fn insert_accepted(
        &self,
        table: &mut Table,
        transport: Transport,
        remote: SocketAddr,
    ) -> Result<Arc<Connection>, SendError> {
        if !table.accepted.has_room(remote) {
            return Err(SendError::TooManyConnections);
        }
        let must_displace = self.is_full(table) || table.accepted.is_full_of_unknown();
        if must_displace && !table.displace() {
            return Err(SendError::TooManyConnections);
        }
        let connection = self.new_connection(transport, remote, None, OpenedBy::Peer, false);
        let connection = self.insert(table, connection)?;
        table.accepted.add(connection.id, remote);
        Ok(connection)
    }

    fn new_connection(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<Arc<Peer>>,
        opened_by: OpenedBy,
        is_private: bool,
    ) -> Connection {
        let budget = QueueBudget::new(
            self.max_queue_messages,
            self.max_queue_bytes,
            self.budget.clone(),
        );
        let id = self.new_id();
        Connection::new(id, transport, remote, peer, opened_by, is_private, budget)
    }

    fn insert(
        &self,
        table: &mut Table,
        connection: Connection,
    ) -> Result<Arc<Connection>, SendError> {
        if self.is_full(table) {
            return Err(SendError::TooManyConnections);
        }
        let connection = Arc::new(connection);
        table.by_id.insert(connection.id, connection.clone());
        Ok(connection)
    }

    /// Those that give way make room at once.
    fn is_full(&self, table: &Table) -> bool {
        table.by_id.len() - table.accepted.displaced >= self.max_connections
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn find(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<&Peer>,
    ) -> Option<Arc<Connection>> {
        let id = self.addresses.find(transport, remote, peer)?;
        self.by_id.get(&id).cloned()
    }

    /// Messages to the bare address use a connection that a peer opened, but not where they are to be
    /// secure: the peer's name is not verified, and it is not known where it listens. A peer that wants requests over
    /// its connection [says so](Connections::add_alias). Responses and bindings know their connection.
    fn add_accepted_address(&mut self, connection: &Connection) {
        if !connection.transport.is_secure() {
            self.addresses.add(connection);
        }
    }

    /// Makes room by ending a connection that gives way to others. Returns whether there is one.
    fn displace(&mut self) -> bool {
        let displaced = self.accepted.displace();
        let displaced = displaced.and_then(|id| self.by_id.get(&id));
        displaced
            .inspect(|connection| connection.displace())
            .is_some()
    }
}
