//! Loops told from spirals by what the branch of our Via says (RFC 5393 section 4.2).

use std::hash::{BuildHasher, Hash, Hasher};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::{Host, MAGIC_COOKIE, Message, Name, Via};

use crate::text::{Digits, push_hex};

/// Computes and recognises the second part of our branch parameters.
///
/// The part is a hash, under a key that strangers have not got, of all that decides where a request
/// goes.
#[derive(Clone, Debug)]
pub(crate) struct LoopDetector {
    key: RandomState,
}

impl LoopDetector {
    pub(crate) fn new(rng: &mut ChaCha12Rng) -> LoopDetector {
        LoopDetector {
            key: RandomState::with_seeds(
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            ),
        }
    }

    /// The hash of a request as it was received: Request-URI and Route, which decide where it goes;
    /// and Call-ID, From tag and CSeq number, so that a collision does not repeat itself in the next
    /// call. Neither the method is in it nor anything that a CANCEL or the ACK to a failure has not got
    /// or has otherwise, such as the To tag: they have the branch of their INVITE (RFC 5393 section
    /// 4.2.1).
    pub(crate) fn fingerprint(&self, request: &Message) -> Fingerprint {
        let mut hasher = self.key.build_hasher();
        request.request_uri_bytes().hash(&mut hasher);
        for value in request.values(Name::Route) {
            value.hash(&mut hasher);
        }
        hasher.write_u8(0xff);
        hash_call(&mut hasher, request);
        Fingerprint(hasher.finish())
    }

    /// Appends the first part of the branch of a request that is forwarded without state (RFC 3261 section
    /// 16.11). It follows from what names the client's transaction, and is the same for all requests
    /// of it. The call is in it for clients of RFC 2543, whose branches need not differ.
    pub(crate) fn push_branch(&self, branch: &mut String, request: &Message) {
        let mut hasher = self.key.build_hasher();
        if let Some(via) = request.top_via() {
            via.branch().hash(&mut hasher);
            match via.host() {
                Host::Name(name) => name.hash(&mut hasher),
                Host::Address(address) => address.hash(&mut hasher),
            }
            via.port().hash(&mut hasher);
            via.received().hash(&mut hasher);
        }
        hash_call(&mut hasher, request);
        branch.push_str(MAGIC_COOKIE);
        push_hex(branch, hasher.finish());
    }

    /// Whether a request has been here before with nothing changed that decides where it goes.
    /// `is_own`: a Via is one of ours. Another server may have our key, and sees the same request.
    pub(crate) fn is_loop(
        request: &Message,
        fingerprint: Fingerprint,
        is_own: impl Fn(&Via<'_>) -> bool,
    ) -> bool {
        // Seen without reading the Vias where it stands in none.
        let digits = Digits::hexadecimal(fingerprint.0);
        let digits = digits.as_str().as_bytes();
        let stands_in = |vias: &[u8]| {
            // A branch is a parameter, and addresses come before these.
            let before = memchr::memchr(b';', vias).unwrap_or(vias.len());
            let parameters = &vias[before..];
            memchr::memchr_iter(b'.', parameters)
                .any(|dot| parameters[dot + 1..].starts_with(digits))
        };
        request.headers(Name::Via).any(stands_in)
            && request.vias().filter_map(Result::ok).any(|via| {
                via.branch().and_then(Fingerprint::of_branch) == Some(fingerprint) && is_own(&via)
            })
    }
}

/// What is the same in all requests of a transaction.
fn hash_call(hasher: &mut impl Hasher, request: &Message) {
    request.header_bytes(Name::CallId).hash(hasher);
    request.from_tag_bytes().hash(hasher);
    request.cseq_number().hash(hasher);
}

/// The second part of a branch parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Makes the first part of a branch parameter, which is unique, a whole one.
    pub(crate) fn append_to(self, branch: &mut String) {
        branch.push('.');
        push_hex(branch, self.0);
    }

    /// The second part of a branch parameter that is built like ours.
    fn of_branch(branch: &str) -> Option<Fingerprint> {
        let (_, second) = branch.rsplit_once('.')?;
        let is_ours = second.len() == 16
            && second
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_ours.then(|| u64::from_str_radix(second, 16).ok().map(Fingerprint))?
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use sip::Method;

    use super::*;

    fn is_own(via: &Via<'_>) -> bool {
        via.host().to_string() == "192.0.2.1"
    }

    fn request(uri: &str, method: Method) -> Message {
        let cseq = format!("7 {method}");
        Message::request(method, uri)
            .with(Name::Via, "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1")
            .with(Name::From, "<sip:alice@example.com>;tag=1")
            .with(Name::To, "<sip:bob@example.com>")
            .with(Name::CallId, "a84b4c76e66710")
            .with(Name::CSeq, cseq)
    }

    fn forwarded(mut request: Message, fingerprint: Fingerprint, uri: &str) -> Message {
        let mut branch = "z9hG4bKunique".to_owned();
        fingerprint.append_to(&mut branch);
        request.push_front(Name::Via, format!("SIP/2.0/UDP 192.0.2.1;branch={branch}"));
        request.set_request_uri(uri);
        request
    }

    #[test]
    fn the_same_request_again_is_a_loop_and_a_changed_one_a_spiral() {
        let detector = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        let first = request("sip:bob@example.com", Method::Invite);
        let fingerprint = detector.fingerprint(&first);
        assert!(!LoopDetector::is_loop(&first, fingerprint, is_own));

        let looped = forwarded(first.clone(), fingerprint, "sip:bob@example.com");
        assert!(LoopDetector::is_loop(
            &looped,
            detector.fingerprint(&looped),
            is_own
        ));

        let spiral = forwarded(first.clone(), fingerprint, "sip:robert@example.com");
        assert!(!LoopDetector::is_loop(
            &spiral,
            detector.fingerprint(&spiral),
            is_own
        ));

        let routed = forwarded(first, fingerprint, "sip:bob@example.com")
            .with(Name::Route, "<sip:192.0.2.1;lr>");
        assert!(!LoopDetector::is_loop(
            &routed,
            detector.fingerprint(&routed),
            is_own
        ));
    }

    #[test]
    fn a_loop_that_leads_through_others_is_found_too() {
        let detector = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        let first = request("sip:bob@example.com", Method::Invite);
        let mut looped = forwarded(
            first.clone(),
            detector.fingerprint(&first),
            "sip:bob@example.com",
        );
        looped.push_front(
            Name::Via,
            "SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKother.0123456789abcdef",
        );
        assert!(LoopDetector::is_loop(
            &looped,
            detector.fingerprint(&looped),
            is_own
        ));
    }

    #[test]
    fn what_another_server_with_our_key_has_forwarded_is_no_loop() {
        let detector = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        let mut first = request("sip:bob@example.com", Method::Invite);
        let mut branch = "z9hG4bKunique".to_owned();
        detector.fingerprint(&first).append_to(&mut branch);
        first.push_front(Name::Via, format!("SIP/2.0/UDP 192.0.2.2;branch={branch}"));
        let fingerprint = detector.fingerprint(&first);
        assert!(!LoopDetector::is_loop(&first, fingerprint, is_own));
    }

    #[test]
    fn the_method_does_not_matter() {
        let detector = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        let invite = detector.fingerprint(&request("sip:bob@example.com", Method::Invite));
        let cancel = detector.fingerprint(&request("sip:bob@example.com", Method::Cancel));
        assert_eq!(invite, cancel);
    }

    #[test]
    fn branches_of_others_are_not_taken_for_ours() {
        for branch in [
            "z9hG4bK",
            "z9hG4bK.",
            "z9hG4bK.12",
            "z9hG4bK.+123456789abcdef",
            "z9hG4bK.00000000000000zz",
        ] {
            assert_eq!(Fingerprint::of_branch(branch), None, "{branch}");
        }
    }
}
