//! Snapshots of the associations that are up, for metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    /// Whether several addresses of the peer have been proved to be its own.
    has_several_paths: Arc<AtomicBool>,
    association: Association,
}

/// Which associations tell the most: those that we have opened lead to next hops, and those of several paths are there to
/// survive something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Ours,
    OfSeveralPaths,
    Other,
}

impl Up {
    fn rank(&self) -> Rank {
        if !self.accepted {
            Rank::Ours
        } else if self.has_several_paths.load(Relaxed) {
            Rank::OfSeveralPaths
        } else {
            Rank::Other
        }
    }
}

/// An association is shown for as long as this lives.
#[derive(Debug)]
pub(super) struct Shown {
    connection: ConnectionId,
    has_several_paths: Arc<AtomicBool>,
    up: Arc<Mutex<BTreeMap<ConnectionId, Up>>>,
}

impl Shown {
    /// So many addresses of the peer have been proved to be its own.
    pub(super) fn has_paths(&self, count: usize) {
        self.has_several_paths.store(count > 1, Relaxed);
    }
}

impl Associations {
    /// Adds an association, for as long as the result lives.
    pub(super) fn show(&self, connection: &Connection, association: &Association) -> Shown {
        let has_several_paths = Arc::new(AtomicBool::new(false));
        let up = Up {
            transport: connection.transport,
            remote: connection.remote,
            accepted: connection.opened_by == OpenedBy::Peer,
            has_several_paths: Arc::clone(&has_several_paths),
            association: association.clone(),
        };
        lock(&self.up).insert(connection.id, up);
        Shown {
            connection: connection.id,
            has_several_paths,
            up: Arc::clone(&self.up),
        }
    }

    /// The association that flows along it name so.
    pub(super) fn association(&self, connection: ConnectionId) -> Option<Association> {
        let up = lock(&self.up);
        up.get(&connection).map(|up| up.association.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.up).len()
    }

    /// Snapshots of as many associations: first those that we have opened, then those of several paths, then all others, of
    /// each those that came up first.
    pub(crate) async fn snapshot(&self, at_most: usize) -> Vec<SctpAssociation> {
        let up: Vec<(ConnectionId, Up)> = {
            let all = lock(&self.up);
            let ranked = all.iter().map(|(connection, up)| (up.rank(), *connection));
            let chosen = first(ranked.collect(), at_most).into_iter();
            chosen
                .filter_map(|connection| Some((connection, all.get(&connection)?.clone())))
                .collect()
        };
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

/// As many of these, by rank and then by age.
fn first(mut all: Vec<(Rank, ConnectionId)>, at_most: usize) -> Vec<ConnectionId> {
    all.sort_unstable();
    let first = all.into_iter().take(at_most);
    first.map(|(_, connection)| connection).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_the_most_comes_first() {
        let all = [
            Rank::Other,
            Rank::Other,
            Rank::OfSeveralPaths,
            Rank::Ours,
            Rank::OfSeveralPaths,
            Rank::Ours,
            Rank::Other,
        ];
        let all: Vec<(Rank, ConnectionId)> = (all.into_iter().zip(10..))
            .map(|(rank, number)| (rank, ConnectionId(number)))
            .collect();
        let chosen = |at_most| {
            let chosen = first(all.clone(), at_most).into_iter();
            chosen.map(|connection| connection.0).collect::<Vec<u64>>()
        };
        assert_eq!(chosen(0), []);
        assert_eq!(chosen(1), [13]);
        assert_eq!(chosen(3), [13, 15, 12]);
        assert_eq!(chosen(6), [13, 15, 12, 14, 10, 11]);
        assert_eq!(chosen(100), [13, 15, 12, 14, 10, 11, 16]);
    }
}
