//! How the packets of an association are protected against forgery and errors: by AUTH chunks
//! (RFC 4895), and by the checksum, or something else in its place (RFC 9653).

use super::association_key::AssociationKey;
use super::authenticated_part::AuthenticatedPart;
use super::chunk_types::ChunkTypes;
use super::{Auth, ChunkType, HmacIdentifier};
use std::sync::Arc;

/// The protection that a packet gets when it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protection {
    /// What puts in the AUTH chunk; `None` without authentication.
    pub(crate) signer: Option<Arc<PacketSigner>>,
    /// The checksum is left zero where that is allowed (RFC 9653, section 5.2).
    pub(crate) zero_checksum: bool,
}

/// Signs the packets of one association, and verifies those of its peer.
#[derive(Debug)]
pub(crate) struct PacketSigner {
    requested: ChunkTypes,
    algorithm: HmacIdentifier,
    hmac_length: usize,
    active: u16,
    keys: Vec<(u16, AssociationKey)>,
}

impl Protection {
    /// Bytes of the AUTH chunk that a chunk needs in front of it, if it is the first in its packet.
    pub(crate) fn overhead(&self, chunk_type: ChunkType) -> usize {
        self.signer
            .as_ref()
            .filter(|signer| signer.requests(chunk_type))
            .map_or(0, |signer| signer.auth_length())
    }
}

impl ChunkType {
    /// Whether chunks of this type may be authenticated (RFC 4895, section 3.2).
    pub fn can_be_authenticated(self) -> bool {
        !matches!(
            self,
            ChunkType::INIT | ChunkType::INIT_ACK | ChunkType::SHUTDOWN_COMPLETE | ChunkType::AUTH
        )
    }

    /// Whether the checksum of a packet with such a chunk may be left out (RFC 9653, section 5.2). A SHUTDOWN
    /// ACK keeps it: to a peer that has ended already, and whose SHUTDOWN COMPLETE was lost, it is out of
    /// the blue, and without a checksum it would not be answered.
    pub(super) fn may_go_without_checksum(self) -> bool {
        !matches!(
            self,
            ChunkType::INIT | ChunkType::COOKIE_ECHO | ChunkType::ASCONF | ChunkType::SHUTDOWN_ACK
        )
    }
}

impl PacketSigner {
    /// A signer of the chunk types `requested` by the peer. `None` when the algorithm is not known.
    pub(crate) fn new(
        requested: ChunkTypes,
        algorithm: HmacIdentifier,
        active: u16,
        keys: Vec<(u16, AssociationKey)>,
    ) -> Option<PacketSigner> {
        Some(PacketSigner {
            requested,
            algorithm,
            hmac_length: algorithm.hmac_length()?,
            active,
            keys,
        })
    }

    /// Whether the peer takes chunks of this type only when they are authenticated.
    pub(crate) fn requests(&self, chunk_type: ChunkType) -> bool {
        self.requested.contains(chunk_type)
    }

    /// The types that the peer takes only so.
    pub(crate) fn requested(&self) -> &ChunkTypes {
        &self.requested
    }

    /// Whether there is such a key.
    pub(crate) fn has_key(&self, identifier: u16) -> bool {
        self.key(identifier).is_some()
    }

    /// Whether the AUTH chunk of a packet is right.
    pub(crate) fn verify(&self, auth: &Auth<'_>, part: &AuthenticatedPart<'_>) -> bool {
        self.key(auth.shared_key_identifier)
            .is_some_and(|key| key.verify(auth.hmac_identifier, auth.hmac, part.bytes))
    }

    /// Bytes of our AUTH chunks.
    pub(crate) fn auth_length(&self) -> usize {
        Auth::OVERHEAD + self.hmac_length
    }

    /// The AUTH chunk with zeros in the place of what [`Self::sign`] fills in.
    pub(super) fn unsigned(&self) -> Auth<'static> {
        const ZEROS: &[u8] = &[0; 32];
        Auth {
            shared_key_identifier: 0,
            hmac_identifier: self.algorithm,
            hmac: ZEROS.get(..self.hmac_length).unwrap_or_default(),
        }
    }

    /// Fills in shared key identifier and HMAC. `chunks` begin with the AUTH chunk and go on to the
    /// end of the packet. Without `key`, the active one is taken.
    pub(super) fn sign(&self, key: Option<u16>, chunks: &mut [u8]) {
        let identifier = key.filter(|key| self.has_key(*key)).unwrap_or(self.active);
        if let Some(field) = chunks.get_mut(4..6) {
            field.copy_from_slice(&identifier.to_be_bytes());
        }
        if let Some(key) = self.key(identifier) {
            key.sign(self.algorithm, chunks);
        }
    }

    fn key(&self, identifier: u16) -> Option<&AssociationKey> {
        let (_, key) = self.keys.iter().find(|(other, _)| *other == identifier)?;
        Some(key)
    }
}
