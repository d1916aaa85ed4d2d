//! The user calls that change our addresses in an association (RFC 5061).

use std::net::IpAddr;
use std::time::Instant;

use super::Endpoint;
use crate::{AddressChange, AddressChangeError, AssociationId, LocalAddressState};

impl Endpoint {
    /// Asks the peer for changes of our addresses in an association, all of them in one chunk, one after
    /// another (RFC 5061). [`Event::AddressChangeAnswered`](crate::Event::AddressChangeAnswered) tells for
    /// each what came of it.
    ///
    /// A host whose only address changes adds the new one and deletes the old one with one call. It sends
    /// nothing but this until the peer has answered, for neither address may be the source of anything
    /// else (section 5.3, rules F1 and F4).
    ///
    /// # Errors
    ///
    /// When there is no such association, or it is not up, or has not agreed on address reconfiguration,
    /// or one of the changes is not possible. None of them is asked for then.
    pub fn change_addresses(
        &mut self,
        now: Instant,
        id: AssociationId,
        changes: &[AddressChange],
    ) -> Result<(), AddressChangeError> {
        self.with_id(now, id, |association, context| {
            association.change_addresses(changes, context)
        })
        .unwrap_or(Err(AddressChangeError::UnknownAssociation))
    }

    /// Asks the peer to add one of our addresses to an association (RFC 5061 section 4.2.1; RFC 6458
    /// `SCTP_BINDX_ADD_ADDR`).
    ///
    /// # Errors
    ///
    /// As [`Self::change_addresses`].
    pub fn add_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressChangeError> {
        self.change_addresses(now, id, &[AddressChange::Add(address)])
    }

    /// Asks the peer to delete one of our addresses from an association (RFC 5061 section 4.2.2; RFC 6458
    /// `SCTP_BINDX_REM_ADDR`). From now on no packets come from it.
    ///
    /// # Errors
    ///
    /// As [`Self::change_addresses`].
    pub fn delete_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressChangeError> {
        self.change_addresses(now, id, &[AddressChange::Delete(address)])
    }

    /// Asks the peer to send to that address of ours as long as it can (RFC 5061 section 4.2.4; RFC 6458
    /// `SCTP_SET_PEER_PRIMARY_ADDR`).
    ///
    /// # Errors
    ///
    /// As [`Self::change_addresses`].
    pub fn set_peer_primary(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressChangeError> {
        self.change_addresses(now, id, &[AddressChange::SetPeerPrimary(address)])
    }

    /// Our addresses in an association, and where each stands; `None` when the association is not known
    /// (any more). None are listed when the peer was told none and nothing has changed since.
    pub fn local_addresses(&self, id: AssociationId) -> Option<Vec<(IpAddr, LocalAddressState)>> {
        let index = self.associations.index_of(id)?;
        let association = self.associations.get(index)?;
        Some(association.local_addresses().collect())
    }
}
