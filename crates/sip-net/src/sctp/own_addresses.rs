//! Changes of our own addresses in associations that are up (RFC 5061).

use std::net::IpAddr;

use sctp_net::AddressChange;
use sip::ConnectionId;

use super::snapshot::Associations;

impl Associations {
    /// Asks the peer of an association to send to this address of ours from now on, and no more to the one that we have lost.
    /// `false` when it cannot be asked: there is no such association, or it does not change addresses.
    pub(crate) async fn change_address(
        &self,
        connection: ConnectionId,
        new: IpAddr,
        lost: Option<IpAddr>,
    ) -> bool {
        let Some(association) = self.association(connection) else {
            return false;
        };
        let Some(status) = association.status().await else {
            return false;
        };
        // What we did not list the peer has from our packets.
        let of_paths = status.paths.iter().filter_map(|path| path.address.local);
        let known: Vec<IpAddr> = status
            .local_addresses
            .iter()
            .copied()
            .chain(of_paths)
            .collect();
        let mut changes = Vec::new();
        if !known.contains(&new) {
            changes.push(AddressChange::Add(new));
        }
        // The last one can be deleted by the ASCONF that adds another one (section 5.3, rule F5).
        match lost.filter(|lost| known.contains(lost)) {
            Some(lost) => changes.push(AddressChange::Delete(lost)),
            None => changes.push(AddressChange::SetPeerPrimary(new)),
        }
        association.change_addresses(changes).await.is_ok()
    }
}
