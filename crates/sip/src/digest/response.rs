//! The hash that proves the knowledge of a password (RFC 7616 section 3.4.1).

use super::algorithm::{Algorithm, Hash};

/// What the quality of protection `auth` adds to the hash.
#[derive(Clone, Copy)]
pub(super) struct Protected<'a> {
    pub(super) nonce_count: &'a str,
    pub(super) cnonce: &'a str,
    pub(super) qop: &'a str,
}

/// The hash of a request, or of a response where the method is empty (RFC 7616 section 3.5). Without
/// protection it is that of RFC 2069.
pub(super) fn response(
    algorithm: Algorithm,
    a1: Hash,
    nonce: &str,
    protected: Option<Protected<'_>>,
    method: &str,
    uri: &str,
) -> Hash {
    let a1 = a1.to_hexadecimal();
    let a2 = algorithm
        .hash(&[method.as_bytes(), uri.as_bytes()])
        .to_hexadecimal();
    match protected {
        Some(protected) => algorithm.hash(&[
            a1.as_bytes(),
            nonce.as_bytes(),
            protected.nonce_count.as_bytes(),
            protected.cnonce.as_bytes(),
            protected.qop.as_bytes(),
            a2.as_bytes(),
        ]),
        None => algorithm.hash(&[a1.as_bytes(), nonce.as_bytes(), a2.as_bytes()]),
    }
}
