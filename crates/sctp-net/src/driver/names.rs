//! The names under which a port's associations are in the directory that the workers share.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sctp::AssociationId;

use super::Surroundings;
use crate::directory::{Directory, PeerName};

/// What this worker has put into the directory for one port.
pub(super) struct Names {
    local_port: u16,
    worker: usize,
    /// Missing where there is only one worker.
    directory: Option<Directory>,
    claimed: BTreeMap<AssociationId, Vec<PeerName>>,
}

impl Names {
    pub(super) fn new(local_port: u16, surroundings: &Surroundings) -> Self {
        Self {
            local_port,
            worker: surroundings.worker,
            directory: (surroundings.workers > 1).then(|| surroundings.directory.clone()),
            claimed: BTreeMap::new(),
        }
    }

    /// Whether there is a directory at all.
    pub(super) fn are_needed(&self) -> bool {
        self.directory.is_some()
    }

    /// Puts a peer's addresses into the directory; false when another worker has one of them.
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
                self.release(id);
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
