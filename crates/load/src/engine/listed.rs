//! Which sessions are on a connection, so that the loss of one concerns its own sessions alone.
//!
//! The list goes through the sessions themselves, in the order in which they began: neighbours begin, and as a rule
//! end, one after the other, so that they are in the processor's cache. Connections that cannot be lost have none.

use super::Engine;
use super::config::ConnectionId;
use super::session::NOBODY;

impl Engine {
    /// A session has begun on its connection.
    pub(super) fn list(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let connection = self.connections.get_mut(session.connection);
        let Some(connection) = connection.filter(|connection| !connection.is_unreliable()) else {
            return;
        };
        let older = std::mem::replace(&mut connection.newest, index);
        session.older = older;
        session.newer = NOBODY;
        session.notes.is_listed = true;
        if let Some(older) = self.sessions.get_mut(older) {
            older.newer = index;
        }
    }

    /// A session is over.
    pub(super) fn unlist(&mut self, index: u32) {
        let Some(session) = self
            .sessions
            .get_mut(index)
            .filter(|session| session.notes.is_listed)
        else {
            return;
        };
        session.notes.is_listed = false;
        let (connection, older, newer) = (session.connection, session.older, session.newer);
        if let Some(older) = self.sessions.get_mut(older) {
            older.newer = newer;
        }
        match self.sessions.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => {
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.newest = older;
                }
            }
        }
    }

    /// The sessions that wait for an answer on a connection, those that began last first.
    pub(super) fn waiting_on(&self, connection: ConnectionId) -> Vec<u32> {
        let mut waiting = Vec::new();
        let mut next = self
            .connections
            .get(connection)
            .map_or(NOBODY, |connection| connection.newest);
        while let Some(session) = self.sessions.get(next) {
            if session.invite.is_pending() || session.other.is_pending() {
                waiting.push(next);
            }
            next = session.older;
        }
        waiting
    }
}
