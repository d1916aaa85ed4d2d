//! The keys of associations, and the chunks that are authenticated (RFC 6458 sections 8.1.18, 8.2.3,
//! 8.2.4 and 8.3.3 to 8.3.5).

use std::time::Instant;

use super::Endpoint;
use crate::association::authentication::{Authentication, SharedKeys};
use crate::packet::ChunkType;
use crate::{AssociationId, KeyError};

/// The longest shared key: its length is a 16-bit number in RFC 6458.
const MAX_KEY_LENGTH: usize = u16::MAX as usize;

impl Endpoint {
    /// Sets an endpoint pair shared key of an association, or, with `None`, of all that begin from
    /// now on (RFC 6458 section 8.3.3, `SCTP_AUTH_KEY`). It replaces one with the same identifier.
    /// Both sides need the same secret under the same identifier. At first there is the null key,
    /// an empty one, under the identifier 0.
    ///
    /// # Errors
    ///
    /// When there is no such association, or it does not authenticate, or the key is too long.
    pub fn set_shared_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        key: u16,
        secret: &[u8],
    ) -> Result<(), KeyError> {
        if secret.len() > MAX_KEY_LENGTH {
            return Err(KeyError::TooLong);
        }
        self.change_keys(now, id, |keys| {
            keys.set(key, secret);
            Ok(())
        })
    }

    /// Makes a key the active one (RFC 6458 section 8.1.18, `SCTP_AUTH_ACTIVE_KEY`): messages that
    /// are given to [`send`](Self::send) from now on are authenticated with it, if
    /// [`SendInfo::shared_key`](crate::SendInfo::shared_key) names no other one. At first it is
    /// key 0.
    ///
    /// # Errors
    ///
    /// When there is no such association or key.
    pub fn set_active_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        key: u16,
    ) -> Result<(), KeyError> {
        self.change_keys(now, id, |keys| keys.activate(key))
    }

    /// The active key of an association, or of those to come. `None` when there is no such
    /// association, or it does not authenticate.
    pub fn active_key(&self, id: Option<AssociationId>) -> Option<u16> {
        let keys = match id {
            None => &self.shared_keys,
            Some(id) => self.authentication(id)?.shared_keys(),
        };
        Some(keys.active())
    }

    /// Sends no more messages with a key than those that are queued with it already (RFC 6458
    /// section 8.3.4, `SCTP_AUTH_DEACTIVATE_KEY`). `AuthenticationIndication::FreeKey` tells when
    /// all of these are acknowledged. What the peer authenticates with it is still taken.
    ///
    /// # Errors
    ///
    /// When there is no such association or key, or it is the active one.
    pub fn deactivate_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        key: u16,
    ) -> Result<(), KeyError> {
        self.change_keys(now, id, |keys| keys.deactivate(key))
    }

    /// Deletes a key that was deactivated and that no message needs any more (RFC 6458
    /// section 8.3.5, `SCTP_AUTH_DELETE_KEY`). What the peer authenticates with it is dropped from
    /// now on.
    ///
    /// # Errors
    ///
    /// When there is no such association or key, or it is in use.
    pub fn delete_key(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        key: u16,
    ) -> Result<(), KeyError> {
        match id {
            None => self.shared_keys.delete(key, || false),
            Some(id) => self
                .with_id(now, id, |association, context| {
                    association.delete_key(key, context)
                })
                .unwrap_or(Err(KeyError::UnknownAssociation)),
        }
    }

    /// The chunk types that the peer takes only when they are authenticated (RFC 6458
    /// section 8.2.3, `SCTP_PEER_AUTH_CHUNKS`), ascending. `None` when there is no such association;
    /// none of them when it does not authenticate.
    pub fn peer_auth_chunks(&self, id: AssociationId) -> Option<Vec<ChunkType>> {
        let index = self.associations.index_of(id)?;
        let signer = self
            .associations
            .get(index)?
            .authentication()
            .and_then(Authentication::signer);
        Some(signer.map_or_else(Vec::new, |signer| signer.requested().iter().collect()))
    }

    /// The chunk types that an association takes only when they are authenticated (RFC 6458
    /// section 8.2.4, `SCTP_LOCAL_AUTH_CHUNKS`), ascending. `None` when there is no such
    /// association; none of them when it does not authenticate.
    pub fn local_auth_chunks(&self, id: AssociationId) -> Option<Vec<ChunkType>> {
        let index = self.associations.index_of(id)?;
        let authentication = self
            .associations
            .get(index)?
            .authentication()
            .filter(|authentication| authentication.is_agreed());
        Some(authentication.map_or_else(Vec::new, |authentication| {
            authentication.required().iter().collect()
        }))
    }

    fn authentication(&self, id: AssociationId) -> Option<&Authentication> {
        let index = self.associations.index_of(id)?;
        self.associations.get(index)?.authentication()
    }

    fn change_keys(
        &mut self,
        now: Instant,
        id: Option<AssociationId>,
        change: impl FnOnce(&mut SharedKeys) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        match id {
            None => change(&mut self.shared_keys),
            Some(id) => self
                .with_id(now, id, |association, context| {
                    association.change_keys(change, context)
                })
                .unwrap_or(Err(KeyError::UnknownAssociation)),
        }
    }
}
