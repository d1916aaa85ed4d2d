//! The secret that all keys are derived from by which we know our own writing again.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use sha2::Sha256;

/// What flow tokens, nonces and temporary GRUUs are signed with. All workers of a server have the same,
/// since what one has written may come back to another; and where bindings outlive the process, this has
/// to do so too, or the tokens in dialogs and GRUUs that lead to them would be void.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys([u8; 32]);

impl Keys {
    /// New ones. The generator has to be one that nobody can foresee.
    pub fn draw(rng: &mut impl Rng) -> Keys {
        let mut octets = [0; 32];
        rng.fill_bytes(&mut octets);
        Keys(octets)
    }

    /// Those that were written down. Whoever reads them can forge all that is signed with them.
    pub fn from_bytes(octets: [u8; 32]) -> Keys {
        Keys(octets)
    }

    /// What is to be written down.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What signs for one purpose. Its signatures tell nothing about those for others.
    pub(crate) fn signer(&self, purpose: &str) -> Hmac<Sha256> {
        hmac(&self.derive(purpose))
    }

    /// The key for one purpose, which tells nothing about those for others.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; 32] {
        hmac(&self.0)
            .chain_update(purpose)
            .finalize()
            .into_bytes()
            .into()
    }
}

/// HMAC under a key, which it pads with zeros to the length of a block (RFC 2104 section 2).
fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    for (place, octet) in block.iter_mut().zip(key) {
        *place = *octet;
    }
    Hmac::new(&block.into())
}

impl fmt::Debug for Keys {
    /// They are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}
