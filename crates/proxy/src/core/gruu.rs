//! Globally routable URIs of one user agent among those of a user (RFC 5627).
//!
//! A public GRUU is the address of record with the instance in its `gr` parameter, so nothing has to be
//! kept for it. A temporary one hides the user: its user part is the address of record and a number that
//! the bindings of the instance have, sealed. When the number changes, all GRUUs with the old one are
//! void, and again nothing has to be kept.

use std::fmt::Write;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::SipUri;

use super::binding::{AddressOfRecord, Binding, is_same_instance};
use super::hexadecimal;
use super::keys::Keys;
use crate::HostPort;

/// Makes GRUUs and knows them again.
pub(crate) struct Gruus {
    cipher: ChaCha20Poly1305,
    rng: ChaCha12Rng,
}

/// Whom a GRUU leads to, among the bindings of an address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gruu {
    /// To this instance.
    Public(String),
    /// To the instance whose bindings have this number.
    Temporary(u64),
}

/// What the user part of a temporary GRUU begins with.
const TEMPORARY: &str = "tgruu.";

/// How many octets the nonce of the cipher has.
const NONCE_LENGTH: usize = 12;

/// What is sealed is filled up to a multiple of so many octets: the length of the name, which otherwise
/// could be read off the GRUU, tells little then.
const BLOCK_LENGTH: usize = 16;

impl Gruus {
    pub(crate) fn new(keys: &Keys, rng: ChaCha12Rng) -> Gruus {
        Gruus {
            cipher: ChaCha20Poly1305::new(&keys.derive("temporary GRUUs").into()),
            rng,
        }
    }

    /// A number for the temporary GRUUs of an instance, which no other has.
    pub(crate) fn draw(&mut self) -> u64 {
        self.rng.next_u64().max(1)
    }

    /// The public GRUU of an instance: its address of record as it was registered, under the canonical
    /// name of the domain.
    pub(crate) fn public(
        scheme: &str,
        user: &str,
        address: &AddressOfRecord,
        instance: &str,
    ) -> String {
        let mut text = format!("{scheme}:{user}@{};gr=", address.domain());
        for octet in instance.bytes() {
            // What may stand in a parameter's value without an escape (RFC 3261 section 25.1).
            if octet.is_ascii_alphanumeric() || b"-_.!~*'()[]/:&+$".contains(&octet) {
                text.push(octet.into());
            } else {
                // Writing into a String cannot fail.
                let _ = write!(text, "%{octet:02X}");
            }
        }
        text
    }

    /// A temporary GRUU that was not given out before; `None` where the address of record is none that
    /// could be sealed.
    pub(crate) fn temporary(
        &mut self,
        scheme: &str,
        address: &AddressOfRecord,
        number: u64,
    ) -> Option<String> {
        let domain = address.domain();
        let mut open = number.to_be_bytes().to_vec();
        open.extend_from_slice(address.user().as_bytes());
        // No user has such an octet: see `AddressOfRecord`.
        open.resize(open.len().next_multiple_of(BLOCK_LENGTH), 0);
        let mut nonce = [0; NONCE_LENGTH];
        self.rng.fill_bytes(&mut nonce);
        let payload = Payload {
            msg: &open,
            aad: domain.as_bytes(),
        };
        let sealed = self.cipher.encrypt(&Nonce::from(nonce), payload).ok()?;
        let octets = [&nonce[..], &sealed].concat();
        let text = hexadecimal::write(&octets);
        Some(format!("{scheme}:{TEMPORARY}{text}@{domain};gr"))
    }

    /// The address of record and the instance that a GRUU in a domain of ours leads to. `None` where it
    /// is none that we have made.
    pub(crate) fn read(
        &self,
        uri: &SipUri<'_>,
        domain: &HostPort,
    ) -> Option<(AddressOfRecord, Gruu)> {
        let instance = uri.parameter("gr")?;
        if !instance.is_empty() {
            let address = AddressOfRecord::new(uri, domain)?;
            return Some((address, Gruu::Public(unescaped(instance)?)));
        }
        let octets = hexadecimal::read(uri.user()?.strip_prefix(TEMPORARY)?)?;
        let (nonce, sealed) = octets.split_first_chunk::<NONCE_LENGTH>()?;
        let domain = domain.to_string();
        let payload = Payload {
            msg: sealed,
            aad: domain.as_bytes(),
        };
        let open = self.cipher.decrypt(&Nonce::from(*nonce), payload).ok()?;
        let (number, user) = open.split_first_chunk()?;
        let user = std::str::from_utf8(user).ok()?.trim_end_matches('\0');
        let address = AddressOfRecord::from_stored(&format!("{user}@{domain}"))?;
        Some((address, Gruu::Temporary(u64::from_be_bytes(*number))))
    }
}

impl Gruu {
    /// Whether a binding is one of those that it leads to.
    pub(crate) fn is_of(&self, binding: &Binding) -> bool {
        match self {
            Gruu::Public(instance) => binding
                .instance()
                .is_some_and(|its| is_same_instance(its, instance)),
            Gruu::Temporary(number) => binding.gruus() == *number,
        }
    }
}

impl std::fmt::Debug for Gruus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gruus")
    }
}

/// The value of a URI parameter without its escapes.
fn unescaped(value: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [octet, tail @ ..] = rest {
        rest = tail;
        octets.push(match (octet, tail) {
            (b'%', [high, low, tail @ ..]) => {
                rest = tail;
                *hexadecimal::read(std::str::from_utf8(&[*high, *low]).ok()?)?.first()?
            }
            _ => *octet,
        });
    }
    String::from_utf8(octets).ok()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use sip::Uri;

    use super::*;

    fn gruus(keys: u8) -> Gruus {
        let keys = Keys::from_bytes([keys; 32]);
        Gruus::new(&keys, ChaCha12Rng::seed_from_u64(1))
    }

    fn read(gruus: &Gruus, text: &str) -> Option<(AddressOfRecord, Gruu)> {
        let domain = "example.com".parse().expect("a host");
        match Uri::parse(text) {
            Ok(Uri::Sip(uri)) => gruus.read(&uri, &domain),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn address(text: &str) -> AddressOfRecord {
        AddressOfRecord::from_stored(text).expect("an address of record")
    }

    #[test]
    fn a_public_gruu_names_the_instance() {
        let bob = address("bob@example.com");
        for instance in [
            "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "urn:x:a;b=%20?",
        ] {
            let gruu = Gruus::public("sip", "bob", &bob, instance);
            assert_eq!(
                read(&gruus(1), &gruu),
                Some((bob.clone(), Gruu::Public(instance.to_owned()))),
                "{gruu}"
            );
        }
        assert_eq!(
            Gruus::public("sips", "b%20b", &bob, "urn:uuid:1"),
            "sips:b%20b@example.com;gr=urn:uuid:1"
        );
    }

    #[test]
    fn a_temporary_gruu_hides_the_user_and_leads_to_them() {
        let mut gruus = gruus(1);
        for user in ["q", "bob.with.a.long.name", "b\u{f6}b"] {
            let address = address(&format!("{user}@example.com"));
            let one = gruus.temporary("sip", &address, 7).expect("a GRUU");
            let other = gruus.temporary("sip", &address, 7).expect("a GRUU");
            assert_ne!(one, other);
            assert!(!one.contains(user), "{one}");
            for gruu in [&one, &other] {
                assert_eq!(
                    read(&gruus, gruu),
                    Some((address.clone(), Gruu::Temporary(7)))
                );
            }
        }
    }

    #[test]
    fn what_we_have_not_made_is_no_gruu() {
        let mut gruus = gruus(1);
        let gruu = gruus
            .temporary("sip", &address("bob@example.com"), 7)
            .expect("a GRUU");
        assert_eq!(read(&self::gruus(2), &gruu), None);
        for at in 0..gruu.find('@').expect("a host") {
            let mut changed = gruu.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            if let Ok(Uri::Sip(uri)) = Uri::parse(&changed) {
                let domain = "example.com".parse().expect("a host");
                assert_eq!(gruus.read(&uri, &domain), None, "{changed}");
            }
        }
        for text in [
            "sip:bob@example.com;gr",
            "sip:tgruu.@example.com;gr",
            "sip:tgruu.00@example.com;gr",
            "sip:example.com;gr",
            "sip:bob@example.com",
        ] {
            assert_eq!(read(&gruus, text), None, "{text}");
        }
        // That of another domain, with the same user.
        let elsewhere = gruus
            .temporary("sip", &address("bob@example.org"), 7)
            .expect("a GRUU");
        let here = elsewhere.replace("example.org", "example.com");
        assert_eq!(read(&gruus, &here), None);
    }
}
