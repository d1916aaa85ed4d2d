//! What the associations are doing, for those who watch.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp_net::{Association, AssociationStatistics, AssociationStatus};
use sip::{ConnectionId, Transport};

use crate::connections::{Connection, OpenedBy};

/// A snapshot of one association.
#[derive(Clone, Debug, PartialEq)]
pub struct SctpAssociation {
    /// SCTP, or TLS over SCTP.
    pub transport: Transport,
    /// What flows along it name.
    pub connection: ConnectionId,
    /// Our address and SCTP port.
    pub local: SocketAddr,
    /// The peer's address when the association came up, and its SCTP port.
    pub remote: SocketAddr,
    /// Whether the peer began it.
    pub accepted: bool,
    /// Its state, and those of its paths: round-trip time, congestion window, bytes outstanding.
    pub status: AssociationStatus,
    /// Its counters: packets, chunks, retransmissions.
    pub statistics: AssociationStatistics,
}

/// The associations that are up.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    up: Arc<Mutex<BTreeMap<ConnectionId, Up>>>,
}

#[derive(Clone, Debug)]
struct Up {
    transport: Transport,
    remote: SocketAddr,
    accepted: bool,
    association: Association,
}

/// An association is shown for as long as this lives.
#[derive(Debug)]
pub(super) struct Shown {
    connection: ConnectionId,
    up: Arc<Mutex<BTreeMap<ConnectionId, Up>>>,
}

impl Associations {
    /// Shows an association to whoever asks.
    pub(super) fn show(&self, connection: &Connection, association: &Association) -> Shown {
        let up = Up {
            transport: connection.transport,
            remote: connection.remote,
            accepted: connection.opened_by == OpenedBy::Peer,
            association: association.clone(),
        };
        lock(&self.up).insert(connection.id, up);
        Shown {
            connection: connection.id,
            up: Arc::clone(&self.up),
        }
    }

    /// Snapshots of as many associations, those that came up first.
    pub(crate) async fn snapshot(&self, at_most: usize) -> Vec<SctpAssociation> {
        let up: Vec<(ConnectionId, Up)> = lock(&self.up)
            .iter()
            .take(at_most)
            .map(|(connection, up)| (*connection, up.clone()))
            .collect();
        let mut snapshots = Vec::with_capacity(up.len());
        for (connection, up) in up {
            let association = &up.association;
            // One that has ended meanwhile has nothing to tell.
            if let (Some(status), Some(statistics)) =
                (association.status().await, association.statistics().await)
            {
                snapshots.push(SctpAssociation {
                    transport: up.transport,
                    connection,
                    local: association.local(),
                    remote: up.remote,
                    accepted: up.accepted,
                    status,
                    statistics,
                });
            }
        }
        snapshots
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        lock(&self.up).remove(&self.connection);
    }
}

fn lock(up: &Mutex<BTreeMap<ConnectionId, Up>>) -> MutexGuard<'_, BTreeMap<ConnectionId, Up>> {
    // No panic can happen while the lock is held that would leave the table in disorder.
    up.lock().unwrap_or_else(PoisonError::into_inner)
}
