//! The engine of a worker as its carrier sees it.

use std::sync::Arc;
use std::time::Instant;

use sip::Transport;

use super::carrier::Traffic;
use super::traces::Traces;
use crate::engine::{Connection, ConnectionId, Engine, Transmit, UserRange};

/// An engine, and which of its connections are open.
pub(super) struct Users {
    pub(super) engine: Engine,
    /// By id, the connections that are ours. Peers' have higher ids.
    ways: Vec<Way>,
    unopened: u32,
    /// How users are spread over them.
    spread: Vec<(u32, Vec<ConnectionId>)>,
    transport: Transport,
    traces: Option<Arc<Traces>>,
}

/// A connection of ours.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Whether users need it: they can do without those to second next hops.
    is_needed: bool,
    is_open: bool,
    /// The connection to the second next hop, where there is one.
    second: Option<ConnectionId>,
}

impl Users {
    pub(super) fn new(engine: Engine, transport: Transport, traces: Option<Arc<Traces>>) -> Users {
        Users {
            engine,
            transport,
            traces,
            ways: Vec::new(),
            unopened: 0,
            spread: Vec::new(),
        }
    }

    /// A connection that users need; ids are given in their order.
    pub(super) fn plan(&mut self, id: ConnectionId) {
        self.way(id).is_needed = true;
        self.unopened += 1;
    }

    /// A connection to a second next hop, for what nobody answers on one that users need.
    pub(super) fn plan_second(&mut self, first: ConnectionId, second: ConnectionId) {
        self.engine.set_alternative(first, second);
        self.way(second);
        self.way(first).second = Some(second);
    }

    fn way(&mut self, id: ConnectionId) -> &mut Way {
        let place = id.0 as usize;
        if self.ways.len() <= place {
            self.ways.resize(place + 1, Way::default());
        }
        &mut self.ways[place]
    }

    /// Spreads users over connections, one after the other.
    pub(super) fn assign(&mut self, range: UserRange, connections: &[ConnectionId]) {
        let users = (0..range.count).map(|place| range.first + range.step * place);
        for (user, connection) in users.zip(connections.iter().cycle()) {
            self.engine.assign(user, *connection);
        }
        self.spread.push((range.count, connections.to_vec()));
    }

    /// Writes down what the engine says, where that is wanted.
    pub(super) fn write_traces(&mut self) {
        while let Some(trace) = self.engine.poll_trace() {
            if let Some(traces) = &self.traces {
                traces.trace(&trace);
            }
        }
    }

    /// How many users have a connection that is not open, and no second one that is.
    pub(super) fn unconnected_users(&self) -> u32 {
        if self.unopened == 0 {
            return 0;
        }
        let unconnected = self.spread.iter().map(|(users, connections)| {
            let connections = connections.iter().cycle().take(*users as usize);
            let closed = connections.filter(|id| !self.is_reached(**id));
            closed.count() as u32
        });
        unconnected.sum()
    }

    /// Whether one of its next hops is.
    fn is_reached(&self, id: ConnectionId) -> bool {
        let Some(way) = self.known(id) else {
            return true;
        };
        let second = way.second.and_then(|second| self.known(second));
        way.is_open || second.is_some_and(|second| second.is_open)
    }

    fn known(&self, id: ConnectionId) -> Option<&Way> {
        self.ways.get(id.0 as usize)
    }

    /// A connection has been opened, or lost.
    fn note(&mut self, id: ConnectionId, is_open: bool) {
        if let Some(way) = self.ways.get_mut(id.0 as usize)
            && std::mem::replace(&mut way.is_open, is_open) != is_open
            && way.is_needed
        {
            match is_open {
                true => self.unopened -= 1,
                false => self.unopened += 1,
            }
        }
    }

    /// Connections that users need and that are not open.
    pub(super) fn unopened(&self) -> u32 {
        self.unopened
    }
}

impl Traffic for Users {
    fn opened(&mut self, id: ConnectionId, mut connection: Connection) {
        // A socket at all addresses answers from the one by which the peer is reached, and has to say so.
        if connection.local.ip().is_unspecified()
            && let Ok(local) = udp_net::local_address_towards(connection.remote.ip())
        {
            connection.local.set_ip(local);
        }
        self.engine.set_connection(id, connection);
        self.note(id, true);
    }

    fn message(&mut self, now: Instant, received: Instant, id: ConnectionId, octets: &[u8]) {
        if let Some(traces) = &self.traces {
            traces.message(self.transport, "received", octets);
        }
        self.engine.handle_message(now, received, id, octets);
    }

    fn lost(&mut self, now: Instant, id: ConnectionId) {
        self.engine.handle_connection_lost(now, id);
        self.note(id, false);
    }

    fn poll_transmit(&mut self, into: &mut Vec<u8>) -> Option<Transmit> {
        let begin = into.len();
        let transmit = self.engine.poll_transmit(into)?;
        if let Some(traces) = &self.traces {
            traces.message(
                self.transport,
                "sent",
                into.get(begin..).unwrap_or_default(),
            );
        }
        Some(transmit)
    }
}
