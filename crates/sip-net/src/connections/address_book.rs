//! Which connection messages to a bare address use (RFC 3261 section 18).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;

use sip::{ConnectionId, Peer, Transport};

use super::connection::Connection;

/// The key of messages to a bare address: where they go, and the name that the peer there has proved. A TLS server that
/// has shown one name must not get what is for another at its address (RFC 5923 section 8.1).
pub(super) type FarEnd = (Transport, SocketAddr, Option<Box<str>>);

/// The connections by their far ends.
#[derive(Debug, Default)]
pub(super) struct AddressBook {
    /// The connection that messages to a bare address use: the one that was opened last.
    pub(super) by_far_end: HashMap<FarEnd, ConnectionId>,
    /// The other addresses under which an association is there: those of its peer.
    others: HashMap<ConnectionId, Vec<SocketAddr>>,
    /// What the peers of connections that they have opened are to be found by, too (RFC 5923).
    pub(super) aliases: HashMap<ConnectionId, Vec<FarEnd>>,
}

impl AddressBook {
    /// The connection to an address, else to another one of the peer's.
    pub(super) fn find(
        &self,
        transport: Transport,
        remote: SocketAddr,
        peer: Option<&Peer>,
    ) -> Option<ConnectionId> {
        let others = peer.map_or(&[][..], |peer| &peer.addresses);
        std::iter::once(&remote)
            .chain(others)
            .find_map(|&address| self.by_far_end.get(&far_end(transport, address, peer)))
            .copied()
    }

    /// Messages to the far end of a connection use it from now on.
    pub(super) fn add(&mut self, connection: &Connection) {
        let far_end = far_end_of(connection, connection.remote);
        self.by_far_end.insert(far_end, connection.id);
    }

    /// The peer of an association has this address, too: messages to it use the association, unless
    /// another has the address already, or this one is not for all.
    pub(super) fn add_address(&mut self, connection: &Connection, address: SocketAddr) {
        let is_for_all = far_end_of(connection, connection.remote);
        if self.by_far_end.get(&is_for_all) != Some(&connection.id) {
            return;
        }
        if let Entry::Vacant(vacant) = self.by_far_end.entry(far_end_of(connection, address)) {
            vacant.insert(connection.id);
            self.others.entry(connection.id).or_default().push(address);
        }
    }

    /// The peer of an association has lost one of its other addresses.
    pub(super) fn remove_address(&mut self, connection: &Connection, address: SocketAddr) {
        if let Some(others) = self.others.get_mut(&connection.id) {
            let before = others.len();
            others.retain(|other| *other != address);
            if others.len() < before {
                self.by_far_end.remove(&far_end_of(connection, address));
            }
        }
    }

    /// The far ends at an address, one for each name that the peer has proved, under which a connection is not found yet
    /// and may be. None where it has its alias at another address.
    pub(super) fn free_aliases(&self, connection: &Connection, address: SocketAddr) -> Vec<FarEnd> {
        if self.is_alias_of(connection.id, |far_end| far_end.1 != address) {
            return Vec::new();
        }
        let names = connection.names().iter();
        let far_ends = names.map(|name| {
            let name = Some(name.to_ascii_lowercase().into());
            (connection.transport, address, name)
        });
        let free = far_ends.filter(|far_end| self.is_free_for(connection.id, far_end));
        free.collect()
    }

    /// Messages to these far ends use a connection from now on. Returns the connections that have lost one of them.
    pub(super) fn add_aliases(
        &mut self,
        connection: ConnectionId,
        added: Vec<FarEnd>,
    ) -> Vec<ConnectionId> {
        let mut lost = Vec::new();
        for far_end in &added {
            match self.by_far_end.insert(far_end.clone(), connection) {
                Some(other) if other != connection => {
                    self.remove_alias(other, far_end);
                    lost.push(other);
                }
                _ => {}
            }
        }
        self.aliases.entry(connection).or_default().extend(added);
        lost
    }

    /// Keeps messages to bare addresses off a connection.
    pub(super) fn remove(&mut self, connection: &Connection) {
        let others = self.others.remove(&connection.id).unwrap_or_default();
        let addresses = std::iter::once(connection.remote).chain(others);
        let aliases = self.aliases.remove(&connection.id).unwrap_or_default();
        let far_ends = addresses.map(|address| far_end_of(connection, address));
        for far_end in far_ends.chain(aliases) {
            if self.by_far_end.get(&far_end) == Some(&connection.id) {
                self.by_far_end.remove(&far_end);
            }
        }
    }

    /// Whether a connection may have this far end as an alias: no other has it, or an older one has it as an alias, whose peer
    /// has proved the same name.
    fn is_free_for(&self, connection: ConnectionId, far_end: &FarEnd) -> bool {
        let Some(&other) = self.by_far_end.get(far_end) else {
            return true;
        };
        other < connection && self.is_alias_of(other, |alias| alias == far_end)
    }

    /// Whether a connection has an alias like this.
    fn is_alias_of(&self, connection: ConnectionId, is_meant: impl Fn(&FarEnd) -> bool) -> bool {
        let aliases = self.aliases.get(&connection);
        aliases.is_some_and(|aliases| aliases.iter().any(is_meant))
    }

    fn remove_alias(&mut self, connection: ConnectionId, far_end: &FarEnd) {
        if let Entry::Occupied(mut aliases) = self.aliases.entry(connection) {
            aliases.get_mut().retain(|alias| alias != far_end);
            if aliases.get().is_empty() {
                aliases.remove();
            }
        }
    }
}

fn far_end_of(connection: &Connection, address: SocketAddr) -> FarEnd {
    far_end(connection.transport, address, connection.peer.as_deref())
}

fn far_end(transport: Transport, remote: SocketAddr, peer: Option<&Peer>) -> FarEnd {
    let name = peer.and_then(|peer| peer.name.as_ref());
    let name = name.filter(|_| transport.is_secure());
    let name = name.map(|name| name.to_ascii_lowercase().into());
    (transport, remote, name)
}
