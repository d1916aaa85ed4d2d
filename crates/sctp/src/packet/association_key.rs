//! Association shared keys, and the HMACs that they make (RFC 4895, sections 6.2 and 6.3).

use super::{Auth, HmacIdentifier};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::fmt;

/// An association shared key, prepared for each of the algorithms. It is zeroed when it is dropped.
pub(crate) struct AssociationKey {
    sha_1: Hmac<Sha1>,
    sha_256: Hmac<Sha256>,
}

/// Where the HMAC begins in an AUTH chunk.
const HMAC_AT: usize = Auth::OVERHEAD;

impl HmacIdentifier {
    /// Bytes of the HMAC; `None` for an algorithm that is not known here.
    pub fn hmac_length(self) -> Option<usize> {
        match self {
            HmacIdentifier::SHA_1 => Some(20),
            HmacIdentifier::SHA_256 => Some(32),
            _ => None,
        }
    }
}

impl AssociationKey {
    /// Prepares a key.
    pub(crate) fn new(key: &[u8]) -> Option<AssociationKey> {
        // Every length is a key for an HMAC: it is hashed or filled up (RFC 2104, section 2).
        Some(AssociationKey {
            sha_1: Hmac::new_from_slice(key).ok()?,
            sha_256: Hmac::new_from_slice(key).ok()?,
        })
    }

    /// Fills the HMAC in. `chunks` begin with an AUTH chunk whose HMAC is zero, and go on to the
    /// end of the packet.
    pub(super) fn sign(&self, algorithm: HmacIdentifier, chunks: &mut [u8]) {
        match algorithm {
            HmacIdentifier::SHA_1 => fill(chunks, &over(&self.sha_1, [chunks, &[], &[]])),
            HmacIdentifier::SHA_256 => fill(chunks, &over(&self.sha_256, [chunks, &[], &[]])),
            _ => {}
        }
    }

    /// Whether `hmac` is right, which lies in the AUTH chunk at the beginning of `chunks`. It takes
    /// the same time wherever the difference is.
    pub(super) fn verify(&self, algorithm: HmacIdentifier, hmac: &[u8], chunks: &[u8]) -> bool {
        const ZEROS: [u8; 32] = [0; 32];
        let pieces = algorithm.hmac_length().and_then(|length| {
            let (head, rest) = chunks.split_at_checked(HMAC_AT)?;
            Some([head, ZEROS.get(..length)?, rest.get(length..)?])
        });
        let Some(pieces) = pieces else {
            return false;
        };
        match algorithm {
            HmacIdentifier::SHA_1 => over(&self.sha_1, pieces).verify_slice(hmac).is_ok(),
            HmacIdentifier::SHA_256 => over(&self.sha_256, pieces).verify_slice(hmac).is_ok(),
            _ => false,
        }
    }
}

/// The HMAC over some pieces, one after another.
fn over<M: Mac + Clone>(keyed: &M, pieces: [&[u8]; 3]) -> M {
    let mut mac = keyed.clone();
    for piece in pieces {
        mac.update(piece);
    }
    mac
}

fn fill<M: Mac + Clone>(chunks: &mut [u8], mac: &M) {
    let hmac = mac.clone().finalize().into_bytes();
    if let Some(field) = chunks.get_mut(HMAC_AT..HMAC_AT + hmac.len()) {
        field.copy_from_slice(&hmac);
    }
}

impl fmt::Debug for AssociationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AssociationKey")
    }
}
