//! The engine of a worker as its carrier sees it.

use std::time::Instant;

use super::carrier::Traffic;
use crate::engine::{Connection, ConnectionId, Engine, Outgoing, UserRange};

/// An engine, and which of its connections are open.
pub(super) struct Users {
    pub(super) engine: Engine,
    /// By id, of the connections that users need, whether they are open. Peers' have higher ids.
    open: Vec<bool>,
    unopened: u32,
    /// How users are spread over them.
    spread: Vec<(u32, Vec<ConnectionId>)>,
}

impl Users {
    pub(super) fn new(engine: Engine) -> Users {
        Users {
            engine,
            open: Vec::new(),
            unopened: 0,
            spread: Vec::new(),
        }
    }

    /// A connection that users need; ids are given in their order.
    pub(super) fn plan(&mut self, id: ConnectionId) {
        self.open.resize(id.0 as usize + 1, false);
        self.unopened += 1;
    }

    /// Spreads users over connections, one after the other.
    pub(super) fn assign(&mut self, range: UserRange, connections: &[ConnectionId]) {
        let users = (0..range.count).map(|place| range.first + range.step * place);
        for (user, connection) in users.zip(connections.iter().cycle()) {
            self.engine.assign(user, *connection);
        }
        self.spread.push((range.count, connections.to_vec()));
    }

    /// How many users have a connection that is not open.
    pub(super) fn unconnected_users(&self) -> u32 {
        if self.unopened == 0 {
            return 0;
        }
        let unconnected = self.spread.iter().map(|(users, connections)| {
            let connections = connections.iter().cycle().take(*users as usize);
            let closed = connections.filter(|id| self.open.get(id.0 as usize) == Some(&false));
            closed.count() as u32
        });
        unconnected.sum()
    }

    /// Connections that users need and that are not open.
    pub(super) fn unopened(&self) -> u32 {
        self.unopened
    }
}

impl Traffic for Users {
    fn opened(&mut self, id: ConnectionId, connection: Connection) {
        self.engine.set_connection(id, connection);
        if let Some(open) = self.open.get_mut(id.0 as usize)
            && !std::mem::replace(open, true)
        {
            self.unopened -= 1;
        }
    }

    fn message(&mut self, now: Instant, received: Instant, id: ConnectionId, octets: &[u8]) {
        self.engine.handle_message(now, received, id, octets);
    }

    fn lost(&mut self, now: Instant, id: ConnectionId) {
        self.engine.handle_connection_lost(now, id);
        if let Some(open) = self.open.get_mut(id.0 as usize)
            && std::mem::replace(open, false)
        {
            self.unopened += 1;
        }
    }

    fn poll_transmit(&mut self, into: &mut Vec<u8>) -> Option<Outgoing> {
        self.engine.poll_transmit(into)
    }
}
