//! Authentication of chunks (RFC 4895): what an association knows of it.

mod declaration;
mod shared_keys;

use std::sync::Arc;

pub(crate) use declaration::{Declaration, DeclarationFault, DeclarationReader, association_key};
pub(crate) use shared_keys::SharedKeys;

use crate::KeyError;
use crate::packet::{AuthenticatedPart, ChunkType, ChunkTypes, HmacIdentifier, PacketSigner};

/// The authentication of one association.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// What our INIT or INIT ACK said.
    local: Declaration,
    /// The chunk types in it.
    required: ChunkTypes,
    /// What the peer's INIT or INIT ACK said; `None` until it came, and when the peer does without.
    peer: Option<Declaration>,
    shared_keys: SharedKeys,
    /// Once the peer's declaration is known.
    signer: Option<Arc<PacketSigner>>,
    /// The key of the last AUTH that was right.
    received_key: u16,
    /// It has changed, and the user has not been told.
    has_new_key: bool,
}

/// What both sides have declared, as the State Cookie carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declarations {
    pub(crate) local: Declaration,
    pub(crate) peer: Declaration,
}

/// What is wrong with an AUTH chunk (section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthFault {
    /// It is malformed, there are several, there is no such key, or the HMAC is wrong.
    NotAuthentic,
    /// We did not list the algorithm.
    UnsupportedHmac(HmacIdentifier),
}

impl Authentication {
    /// That of an association whose peer has not declared anything yet.
    pub(crate) fn new(local: Declaration, shared_keys: SharedKeys) -> Authentication {
        Authentication {
            required: local.chunks(),
            local,
            peer: None,
            received_key: 0,
            has_new_key: false,
            signer: None,
            shared_keys,
        }
    }

    /// That of an association that a cookie makes.
    pub(crate) fn of(declarations: &Declarations, shared_keys: SharedKeys) -> Authentication {
        let local = declarations.local.clone();
        let mut authentication = Authentication::new(local, shared_keys);
        authentication.agree(Some(declarations.peer.clone()));
        authentication
    }

    /// The peer has declared this; nothing when it does without authentication.
    pub(crate) fn agree(&mut self, peer: Option<Declaration>) {
        self.peer = peer;
        self.derive_keys();
    }

    /// What our INIT or INIT ACK said.
    pub(crate) fn local(&self) -> &Declaration {
        &self.local
    }

    /// Signs our packets, once the peer has declared that it authenticates, too.
    pub(crate) fn signer(&self) -> Option<&Arc<PacketSigner>> {
        self.signer.as_ref()
    }

    /// Whether both sides authenticate.
    pub(crate) fn is_agreed(&self) -> bool {
        self.signer.is_some()
    }

    /// The chunk types that we take only when they are authenticated.
    pub(crate) fn required(&self) -> &ChunkTypes {
        &self.required
    }

    /// Whether chunks of this type are to be dropped when they are not authenticated.
    pub(crate) fn requires(&self, chunk_type: ChunkType) -> bool {
        self.is_agreed() && self.required.contains(chunk_type)
    }

    /// Looks whether the AUTH chunk of a packet is right (section 6.3).
    pub(crate) fn verify(&mut self, part: &AuthenticatedPart<'_>) -> Result<(), AuthFault> {
        let auth = part.auth.as_ref().ok_or(AuthFault::NotAuthentic)?;
        let is_listed = |identifier| self.local.hmac_identifiers().any(|own| own == identifier);
        if !is_listed(auth.hmac_identifier) {
            return Err(AuthFault::UnsupportedHmac(auth.hmac_identifier));
        }
        let is_right = self
            .signer
            .as_ref()
            .is_some_and(|signer| signer.verify(auth, part));
        if !is_right {
            return Err(AuthFault::NotAuthentic);
        }
        let key = auth.shared_key_identifier;
        let before = std::mem::replace(&mut self.received_key, key);
        self.has_new_key |= before != key;
        Ok(())
    }

    // --- Keys ---

    /// The key that the peer has begun to use; said once.
    pub(crate) fn take_new_key(&mut self) -> Option<u16> {
        std::mem::take(&mut self.has_new_key).then_some(self.received_key)
    }

    /// The endpoint pair shared keys alone: the association begins anew.
    pub(crate) fn into_shared_keys(self) -> SharedKeys {
        self.shared_keys
    }

    /// The endpoint pair shared keys.
    pub(crate) fn shared_keys(&self) -> &SharedKeys {
        &self.shared_keys
    }

    /// Changes the endpoint pair shared keys.
    pub(crate) fn change_keys(
        &mut self,
        change: impl FnOnce(&mut SharedKeys) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        change(&mut self.shared_keys)?;
        self.derive_keys();
        Ok(())
    }

    /// The keys that were deactivated and that nothing is sent with any more; each is given once.
    pub(crate) fn take_freed(&mut self, is_used: impl Fn(u16) -> bool) -> Vec<u16> {
        self.shared_keys.take_freed(is_used)
    }

    fn derive_keys(&mut self) {
        self.signer = self.peer.as_ref().and_then(|peer| {
            let keys = self.shared_keys.iter().filter_map(|(identifier, secret)| {
                Some((identifier, association_key(secret, &self.local, peer)?))
            });
            // Section 6.1: the first one listed that we support.
            let algorithm = peer
                .hmac_identifiers()
                .find(|identifier| identifier.hmac_length().is_some())?;
            PacketSigner::new(
                peer.chunks(),
                algorithm,
                self.shared_keys.active(),
                keys.collect(),
            )
            .map(Arc::new)
        });
    }
}
