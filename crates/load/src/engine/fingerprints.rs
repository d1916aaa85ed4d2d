//! Keyed hashes of texts from the network: short to keep, and nobody can make them collide on purpose.

use ahash::RandomState;
use sip::{Host, Method};

use super::received::Received;

/// Hashes texts from the network with keys of its own.
#[derive(Debug)]
pub(super) struct Fingerprints(RandomState);

impl Fingerprints {
    pub(super) fn new(keys: RandomState) -> Fingerprints {
        Fingerprints(keys)
    }

    /// The fingerprint of a text.
    pub(super) fn text(&self, text: &[u8]) -> u64 {
        self.0.hash_one(text)
    }

    /// The fingerprint of a tag, which is never 0.
    pub(super) fn tag(&self, tag: &[u8]) -> u64 {
        self.text(tag) | 1
    }

    /// The fingerprint of a request's transaction: of its branch, sent-by and method (RFC 3261 section 17.2.3), which
    /// for ACK and CANCEL is that of the INVITE.
    pub(super) fn transaction(&self, request: &Received<'_>) -> u64 {
        let sent_by = request.top_via.as_ref().map(|via| match via.host() {
            Host::Name(name) => (Some(name), None, via.port()),
            Host::Address(address) => (None, Some(address), via.port()),
        });
        let method = match &request.cseq_method {
            Method::Ack | Method::Cancel => &Method::Invite,
            other => other,
        };
        self.0.hash_one((sent_by, request.branch(), method))
    }

    /// The fingerprint of a call: of its Call-ID and the caller's tag.
    pub(super) fn call(&self, call_id: &[u8], caller: &[u8]) -> u64 {
        self.0.hash_one((call_id, caller))
    }
}
