//! Nonces that need no memory: when they were given out is written in them, and signed.

use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use rand::Rng;
use sha2::Sha256;

use super::super::hexadecimal;
use super::super::keys::Keys;

/// Gives out nonces and knows them again.
///
/// A nonce is bound to the realm that it was given out for, and to us who gave it out: which counts have
/// been used with it is known here (see `NonceCounts`) and nowhere else. To another worker, or after a
/// restart, it is one of ours but too old, so that the client is asked to repeat its request with a new
/// one. It is not bound to the address of the client: requests of one user come through different proxies
/// (RFC 7616 section 3.3).
pub(crate) struct Nonces {
    signer: Hmac<Sha256>,
    issuer: u32,
    /// When the first was given out.
    epoch: Option<Instant>,
    next_number: u32,
}

/// Names a nonce. Names are in the order in which the nonces were given out, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NonceName {
    /// Since the first nonce was given out.
    pub(super) milliseconds: u64,
    pub(super) number: u32,
}

/// What is known of a nonce that a client has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is good.
    Fresh(NonceName),
    /// We have given it out, but too long ago, or it was another worker or an earlier life of ours.
    Stale,
    /// We have not given it out, or not for this realm.
    Foreign,
}

/// How much of the HMAC a nonce carries, in octets.
const TAG_LENGTH: usize = 12;

impl Nonces {
    pub(super) fn new(keys: &Keys, rng: &mut impl Rng) -> Nonces {
        Nonces {
            signer: keys.signer("nonces"),
            issuer: rng.next_u32(),
            epoch: None,
            next_number: 0,
        }
    }

    /// A nonce that was not given out before.
    pub(super) fn give_out(&mut self, now: Instant, realm: &str) -> String {
        self.epoch.get_or_insert(now);
        let mut octets = Vec::with_capacity(16 + TAG_LENGTH);
        octets.extend_from_slice(&self.issuer.to_be_bytes());
        octets.extend_from_slice(&self.milliseconds(now).to_be_bytes());
        octets.extend_from_slice(&self.next_number.to_be_bytes());
        self.next_number = self.next_number.wrapping_add(1);
        let signature = self.sign(&octets, realm).finalize().into_bytes();
        octets.extend(signature.iter().take(TAG_LENGTH));
        hexadecimal::write(&octets)
    }

    /// Judges the nonce of a request in a realm.
    pub(super) fn check(
        &self,
        now: Instant,
        nonce: &str,
        realm: &str,
        lifetime: Duration,
    ) -> Verdict {
        let Some((issuer, name)) = self.read(nonce, realm) else {
            return Verdict::Foreign;
        };
        let age = self.milliseconds(now).saturating_sub(name.milliseconds);
        if issuer == self.issuer && u128::from(age) <= lifetime.as_millis() {
            Verdict::Fresh(name)
        } else {
            Verdict::Stale
        }
    }

    /// Whether we have given out a nonce for a realm, here or in another worker, now or in an earlier life.
    pub(super) fn is_ours(&self, nonce: &str, realm: &str) -> bool {
        self.read(nonce, realm).is_some()
    }

    /// How long ago the first nonce was given out.
    pub(super) fn milliseconds(&self, now: Instant) -> u64 {
        let since = self.epoch.map(|epoch| now.saturating_duration_since(epoch));
        u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }

    /// Who has given out a nonce, and its name; `None` where it is none of ours.
    fn read(&self, nonce: &str, realm: &str) -> Option<(u32, NonceName)> {
        let octets = hexadecimal::read(nonce)?;
        let (body, signature) = octets.split_at_checked(octets.len().checked_sub(TAG_LENGTH)?)?;
        self.sign(body, realm)
            .verify_truncated_left(signature)
            .ok()?;
        let (issuer, rest) = body.split_first_chunk()?;
        let (milliseconds, rest) = rest.split_first_chunk()?;
        let (number, _) = rest.split_first_chunk()?;
        let name = NonceName {
            milliseconds: u64::from_be_bytes(*milliseconds),
            number: u32::from_be_bytes(*number),
        };
        Some((u32::from_be_bytes(*issuer), name))
    }

    fn sign(&self, body: &[u8], realm: &str) -> Hmac<Sha256> {
        self.signer.clone().chain_update(body).chain_update(realm)
    }
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces")
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);

    fn nonces(keys: u8, seed: u64) -> Nonces {
        let keys = Keys::from_bytes([keys; 32]);
        Nonces::new(&keys, &mut ChaCha12Rng::seed_from_u64(seed))
    }

    #[test]
    fn a_nonce_is_good_in_its_realm_for_its_time() {
        let start = Instant::now();
        let mut nonces = nonces(1, 1);
        let first = nonces.give_out(start, "example.com");
        let second = nonces.give_out(start, "example.com");
        let (one, other) = (
            nonces.check(start, &first, "example.com", LIFETIME),
            nonces.check(start + LIFETIME, &second, "example.com", LIFETIME),
        );
        assert!(
            matches!((one, other), (Verdict::Fresh(one), Verdict::Fresh(other)) if one < other)
        );
        let later = start + LIFETIME + Duration::from_millis(1);
        assert_eq!(
            nonces.check(later, &first, "example.com", LIFETIME),
            Verdict::Stale
        );
        assert_eq!(
            nonces.check(start, &first, "example.org", LIFETIME),
            Verdict::Foreign
        );
    }

    #[test]
    fn another_worker_and_a_later_life_know_it_but_do_not_take_it() {
        let now = Instant::now();
        let nonce = nonces(1, 1).give_out(now, "a");
        assert_eq!(
            nonces(1, 2).check(now, &nonce, "a", LIFETIME),
            Verdict::Stale
        );
        assert_eq!(
            nonces(2, 1).check(now, &nonce, "a", LIFETIME),
            Verdict::Foreign
        );
    }

    #[test]
    fn a_nonce_changed_anywhere_is_none_of_ours() {
        let now = Instant::now();
        let mut nonces = nonces(1, 1);
        let nonce = nonces.give_out(now, "a");
        for at in 0..nonce.len() {
            let mut changed = nonce.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(nonces.check(now, &changed, "a", LIFETIME), Verdict::Foreign);
            assert_eq!(
                nonces.check(now, &nonce[..at], "a", LIFETIME),
                Verdict::Foreign
            );
        }
        assert_eq!(nonces.check(now, "", "a", LIFETIME), Verdict::Foreign);
    }
}
