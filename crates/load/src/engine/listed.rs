//! Which runs are on a connection, so that the loss of one concerns its own runs alone.
//!
//! The list goes through the runs themselves, in the order in which they began: neighbours begin, and as a rule
//! end, one after the other, so that they are in the processor's cache. Connections that cannot be lost have none.

use super::Engine;
use super::config::ConnectionId;
use super::run::NOBODY;

impl Engine {
    /// A run has begun on its connection.
    pub(super) fn list(&mut self, index: u32) {
        let Some(run) = self.runs.get_mut(index) else {
            return;
        };
        let connection = self.connections.get_mut(run.connection);
        let Some(connection) = connection.filter(|connection| !connection.is_unreliable()) else {
            return;
        };
        let older = std::mem::replace(&mut connection.newest, index);
        run.older = older;
        run.newer = NOBODY;
        run.notes.is_listed = true;
        if let Some(older) = self.runs.get_mut(older) {
            older.newer = index;
        }
    }

    /// A run is over.
    pub(super) fn unlist(&mut self, index: u32) {
        let Some(run) = self.runs.get_mut(index).filter(|run| run.notes.is_listed) else {
            return;
        };
        run.notes.is_listed = false;
        let (connection, older, newer) = (run.connection, run.older, run.newer);
        if let Some(older) = self.runs.get_mut(older) {
            older.newer = newer;
        }
        match self.runs.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => {
                if let Some(connection) = self.connections.get_mut(connection) {
                    connection.newest = older;
                }
            }
        }
    }

    /// The runs that wait for an answer on a connection, those that began last first.
    pub(super) fn waiting_on(&self, connection: ConnectionId) -> Vec<u32> {
        let mut waiting = Vec::new();
        let mut next = self
            .connections
            .get(connection)
            .map_or(NOBODY, |connection| connection.newest);
        while let Some(run) = self.runs.get(next) {
            if run.invite.is_pending() || run.other.is_pending() {
                waiting.push(next);
            }
            next = run.older;
        }
        waiting
    }
}
