//! Which worker has which peer.
//!
//! A packet of an association names its owner in its verification tag. A packet that does not (INIT,
//! what reflects the peer's own tag, an ICMP error) finds it here by its addresses and ports.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One address of a peer, and the two SCTP ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PeerName {
    pub(crate) local_port: u16,
    pub(crate) remote: IpAddr,
    pub(crate) remote_port: u16,
}

/// The directory, shared by the workers of a stack. It holds what the engines hold: the addresses of
/// associations, each bounded by the engine's own settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    owners: Arc<Mutex<HashMap<PeerName, usize>>>,
}

impl Directory {
    /// The worker that has this peer.
    pub(crate) fn owner(&self, peer: PeerName) -> Option<usize> {
        self.lock().get(&peer).copied()
    }

    /// Notes that `worker` has this peer, unless another has it already: then that one's number comes
    /// back.
    pub(crate) fn claim(&self, peer: PeerName, worker: usize) -> Result<(), usize> {
        match self.lock().entry(peer) {
            Entry::Occupied(entry) if *entry.get() != worker => Err(*entry.get()),
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(entry) => {
                entry.insert(worker);
                Ok(())
            }
        }
    }

    /// Forgets that `worker` has this peer.
    pub(crate) fn release(&self, peer: PeerName, worker: usize) {
        let mut owners = self.lock();
        if owners.get(&peer) == Some(&worker) {
            owners.remove(&peer);
        }
    }

    /// No panic can happen while the lock is held that would leave the table in disorder.
    fn lock(&self) -> MutexGuard<'_, HashMap<PeerName, usize>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_one_owner_who_alone_can_give_it_up() {
        let directory = Directory::default();
        let peer = PeerName {
            local_port: 5060,
            remote: "192.0.2.1".parse().unwrap(),
            remote_port: 5061,
        };
        assert_eq!(directory.claim(peer, 1), Ok(()));
        assert_eq!(directory.claim(peer, 1), Ok(()));
        assert_eq!(directory.claim(peer, 0), Err(1));
        directory.release(peer, 0);
        assert_eq!(directory.owner(peer), Some(1));
        directory.release(peer, 1);
        assert_eq!(directory.claim(peer, 0), Ok(()));
    }
}
