//! Which socket a connection id stands for, and where what goes by it is sent.

use std::collections::HashMap;
use std::net::SocketAddr;

use ahash::RandomState;

use crate::engine::ConnectionId;

/// Ways to peers who have found us by themselves: their addresses are theirs to choose.
const MAX_STRANGERS: usize = 1 << 18;

/// Where what goes by a connection id is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) token: u32,
    pub(super) remote: SocketAddr,
}

/// All of them, by connection id.
#[derive(Debug)]
pub(super) struct Routes {
    all: Vec<Option<Route>>,
    by_peer: HashMap<(u32, SocketAddr), ConnectionId, RandomState>,
    strangers: usize,
    free: Vec<ConnectionId>,
}

impl Routes {
    pub(super) fn new(hasher: RandomState) -> Routes {
        Routes {
            all: Vec::new(),
            by_peer: HashMap::with_hasher(hasher),
            strangers: 0,
            free: Vec::new(),
        }
    }

    /// One of our own.
    pub(super) fn add(&mut self, token: u32, remote: SocketAddr) -> ConnectionId {
        let id = self.next_id();
        self.set(id, Route { token, remote });
        id
    }

    /// That of a peer who has found us; none where there are too many already.
    pub(super) fn add_stranger(&mut self, token: u32, remote: SocketAddr) -> Option<ConnectionId> {
        if self.strangers >= MAX_STRANGERS {
            return None;
        }
        self.strangers += 1;
        let id = self.free.pop().unwrap_or_else(|| self.next_id());
        self.set(id, Route { token, remote });
        Some(id)
    }

    /// Forgets that of a peer who had found us.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        if let Some(route) = self.all.get_mut(id.0 as usize).and_then(Option::take) {
            self.by_peer.remove(&(route.token, route.remote));
            self.strangers = self.strangers.saturating_sub(1);
            self.free.push(id);
        }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<Route> {
        *self.all.get(id.0 as usize)?
    }

    /// The id of a peer by a socket.
    pub(super) fn find(&self, token: u32, remote: SocketAddr) -> Option<ConnectionId> {
        self.by_peer.get(&(token, remote)).copied()
    }

    fn next_id(&self) -> ConnectionId {
        ConnectionId(u32::try_from(self.all.len()).unwrap_or(u32::MAX))
    }

    fn set(&mut self, id: ConnectionId, route: Route) {
        let index = id.0 as usize;
        if index == self.all.len() {
            self.all.push(None);
        }
        if let Some(entry) = self.all.get_mut(index) {
            *entry = Some(route);
            self.by_peer.insert((route.token, route.remote), id);
        }
    }
}
