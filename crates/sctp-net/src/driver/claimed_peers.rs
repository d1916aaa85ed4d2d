//! The names under which a port's associations are in the directory that the workers share.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sctp::AssociationId;

use super::WorkerContext;
use crate::directory::{Directory, PeerName};

/// What this worker has put into the directory for one port.
pub(super) struct ClaimedPeers {
    local_port: u16,
    worker: usize,
    /// Missing where there is only one worker.
    directory: Option<Directory>,
    claimed: BTreeMap<AssociationId, Vec<PeerName>>,
}

impl ClaimedPeers {
    pub(super) fn new(local_port: u16, context: &WorkerContext) -> Self {
        Self {
            local_port,
            worker: context.worker,
            directory: (context.workers > 1).then(|| context.directory.clone()),
            claimed: BTreeMap::new(),
        }
    }

    /// Whether there is a directory at all.
    pub(super) fn are_needed(&self) -> bool {
        self.directory.is_some()
    }

    /// Puts a peer's addresses into the directory; none of those that are not there yet when another
    /// worker has one of them: then it is false.
    pub(super) fn claim(
        &mut self,
        id: AssociationId,
        remote_port: u16,
        remotes: impl IntoIterator<Item = IpAddr>,
    ) -> bool {
        let Some(directory) = &self.directory else {
            return true;
        };
        let claimed = self.claimed.entry(id).or_default();
        let before = claimed.len();
        for remote in remotes {
            let name = PeerName {
                local_port: self.local_port,
                remote,
                remote_port,
            };
            if claimed.contains(&name) {
                continue;
            }
            if directory.claim(name, self.worker).is_err() {
                for name in claimed.drain(before..) {
                    directory.release(name, self.worker);
                }
                return false;
            }
            claimed.push(name);
        }
        true
    }

    /// Takes the addresses of an association out of the directory.
    pub(super) fn release(&mut self, id: AssociationId) {
        let Some(directory) = &self.directory else {
            return;
        };
        for name in self.claimed.remove(&id).into_iter().flatten() {
            directory.release(name, self.worker);
        }
    }

    /// Takes everything out of the directory.
    pub(super) fn release_all(&mut self) {
        while let Some((&id, _)) = self.claimed.first_key_value() {
            self.release(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_takes_no_name_from_an_association_that_is_up() {
        let directory = Directory::default();
        let names = |worker| ClaimedPeers {
            local_port: 5060,
            worker,
            directory: Some(directory.clone()),
            claimed: BTreeMap::new(),
        };
        let ip = |last| IpAddr::from([192, 0, 2, last]);
        let owner = |last| {
            directory.owner(PeerName {
                local_port: 5060,
                remote: ip(last),
                remote_port: 5061,
            })
        };
        let (mut ours, mut theirs) = (names(0), names(1));
        let id = AssociationId::from_number(1);
        assert!(ours.claim(id, 5061, [ip(1)]));
        assert!(theirs.claim(id, 5061, [ip(3)]));
        // The peer of an association that is up tells of more addresses, one of which is taken.
        assert!(!ours.claim(id, 5061, [ip(1), ip(2), ip(3)]));
        assert_eq!((owner(1), owner(2), owner(3)), (Some(0), None, Some(1)));
        ours.release(id);
        assert_eq!(owner(1), None);
    }
}
