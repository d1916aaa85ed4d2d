//! Who a request comes from: digest authentication by a registrar (401) and a proxy (407), RFC 3261
//! section 22, RFC 7616, RFC 8760.
//!
//! `nonce` makes nonces that need no memory; `nonce_counts` remembers how often those in use were used.
//! The hashes of passwords are asked for where users are kept; a request waits for them.

mod demand;
mod entitlement;
mod nonce;
mod nonce_counts;
pub(crate) mod policy;

use std::collections::HashMap;
use std::time::Instant;

use ahash::RandomState;
use rand_chacha::ChaCha12Rng;
use sip::digest::{Algorithm, Authorization, Challenge, Credentials};
use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name, Uri};

use super::amplification::add_within;
use super::common::{CommonState, hash_keys};
use super::event::Event;
use super::incoming::IncomingRequest;
use super::keys::Keys;
use super::pending::PendingQuery;
use super::query::{Answer, Query, QueryId};
use super::rejection::Rejection;
use demand::ProofDemand;
use nonce::{Nonces, Verdict};
use nonce_counts::NonceCounts;

pub(crate) use entitlement::{Entitlement, entitlement};

/// Finds out who has sent a request.
#[derive(Debug)]
pub(crate) struct Authenticator {
    nonces: Nonces,
    counts: NonceCounts,
    /// The requests that wait for what is stored of their senders' passwords.
    pending: HashMap<ServerId, PendingRequest, RandomState>,
}

/// Of so many credentials one has to be for us where there is hardly time to look.
const MAXIMUM_CREDENTIALS: usize = 8;

/// A request that waits for what is stored of its sender's password.
#[derive(Debug)]
struct PendingRequest {
    query: QueryId,
    incoming: IncomingRequest,
    demand: ProofDemand,
}

/// What is found out without what is stored.
enum CredentialCheck {
    /// The sender has to prove who it is.
    Challenge {
        is_stale: bool,
    },
    Refuse(Rejection),
    /// This is who it says it is.
    Claim {
        username: Box<str>,
    },
}

impl Authenticator {
    pub(crate) fn new(keys: &Keys, rng: &mut ChaCha12Rng) -> Authenticator {
        Authenticator {
            nonces: Nonces::new(keys, rng),
            counts: NonceCounts::default(),
            pending: HashMap::with_hasher(hash_keys(rng)),
        }
    }

    /// Whether a request has credentials for a nonce that we have given out, be it too old.
    pub(crate) fn has_nonce_of_ours(&self, request: &Message) -> bool {
        [Name::Authorization, Name::ProxyAuthorization]
            .into_iter()
            .flat_map(|name| request.headers(name))
            .take(MAXIMUM_CREDENTIALS)
            .filter_map(|value| Authorization::parse(value).ok())
            .any(|given| self.nonces.is_ours(&given.nonce, &given.realm))
    }

    /// How many nonces are remembered.
    pub(crate) fn nonces(&self) -> usize {
        self.counts.len()
    }

    /// Lets a request on its way, or first finds out who has sent it.
    pub(crate) fn authenticate(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: IncomingRequest,
    ) -> Option<IncomingRequest> {
        let demand = match entitlement(
            common,
            &incoming.request,
            &incoming.arrival,
            &incoming.class,
        ) {
            Entitlement::Free => {
                return Some(incoming);
            }
            Entitlement::None => {
                let rejection = common.deny_relay();
                common.refuse(now, incoming.server, &incoming.request, &rejection);
                return None;
            }
            Entitlement::ByProof(demand) => demand,
        };
        match self.finding(common, now, &incoming, &demand) {
            CredentialCheck::Challenge { is_stale } => {
                self.challenge(common, now, &incoming, &demand, is_stale, |_| true);
            }
            CredentialCheck::Refuse(rejection) => {
                common.refuse(now, incoming.server, &incoming.request, &rejection);
            }
            CredentialCheck::Claim { username } => {
                self.ask_credentials(common, now, incoming, demand, username)
            }
        }
        None
    }

    /// Goes on with a request when it is known what is stored of its sender's password.
    pub(crate) fn complete(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        answer: Answer,
    ) -> Option<IncomingRequest> {
        let PendingRequest {
            mut incoming,
            demand,
            ..
        } = self.pending.remove(&server)?;
        // Wrong credentials are counted by themselves.
        common.transactions.set_taken_on(incoming.server);
        let stored = match answer {
            Answer::Credentials(stored) => stored,
            _ => {
                let rejection = Rejection::new(500, "Server Internal Error");
                common.refuse(now, incoming.server, &incoming.request, &rejection);
                return None;
            }
        };
        let given = demand.answer(&incoming.request)?;
        let method = incoming.request.method().map_or("", Method::as_str);
        // Whether there is such a user is not to be seen from the time that this takes.
        let credentials = stored.as_deref().copied().unwrap_or_else(nobody);
        let is_proved = given.is_proved_by(&credentials, method);
        let has_hash = |algorithm: &Algorithm| credentials.get(*algorithm).is_some();
        if stored.is_some() && !given.algorithm.as_ref().is_some_and(has_hash) {
            let algorithms = &common.policy.authentication.algorithms;
            if algorithms.iter().any(has_hash) {
                self.challenge(common, now, &incoming, &demand, false, has_hash);
                return None;
            }
        }
        if stored.is_none() || !is_proved {
            common.statistics.authentication_failures += 1;
            let event = Event::AuthenticationFailed {
                realm: demand.realm.clone(),
                username: given.username.into_owned(),
                flow: incoming.arrival,
            };
            common.report(event);
            self.note_credentials(common, now, &incoming, false);
            // Not stale, which tells that the password is wrong (RFC 7616 section 3.3); the client must not try
            // it again (RFC 3261 section 22.1).
            self.challenge(common, now, &incoming, &demand, false, |_| true);
            return None;
        }
        if !self.take_count(common, now, &given) {
            self.challenge(common, now, &incoming, &demand, true, |_| true);
            return None;
        }
        common.statistics.authenticated += 1;
        common.transactions.set_proved(incoming.server);
        common.note_known(&incoming.arrival);
        self.note_credentials(common, now, &incoming, true);
        incoming.user = Some(given.username.as_ref().into());
        incoming.confirmation = (common.policy.authentication.confirm && demand.is_registrar)
            .then(|| given.confirmation(&credentials))
            .flatten()
            .map(|confirmation| confirmation.to_string());
        Some(incoming)
    }

    /// Tells overload control whether a request has brought the right credentials.
    fn note_credentials(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: &IncomingRequest,
        are_right: bool,
    ) {
        if let Some(method) = incoming.request.method()
            && !common.trust.is_trusted(&incoming.arrival)
        {
            let from = incoming.arrival.remote.ip();
            let is_in_dialog = incoming.class.is_in_dialog;
            common
                .overload
                .note_credentials(now, from, method, is_in_dialog, are_right);
        }
    }

    /// Ends the waiting of an INVITE that is cancelled. Returns whether it did wait.
    pub(crate) fn cancel(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        cancelled: ServerId,
    ) -> bool {
        let is_invite =
            |pending: &PendingRequest| pending.incoming.request.method() == Some(&Method::Invite);
        if !self.pending.get(&cancelled).is_some_and(is_invite) {
            return false;
        }
        if let Some(pending) = self.pending.remove(&cancelled) {
            common.take_pending(pending.query);
            let rejection = Rejection::new(487, "Request Terminated");
            common.refuse(now, cancelled, &pending.incoming.request, &rejection);
        }
        true
    }

    /// What can be said of a request without knowing the password.
    fn finding(
        &self,
        common: &CommonState,
        now: Instant,
        incoming: &IncomingRequest,
        demand: &ProofDemand,
    ) -> CredentialCheck {
        let policy = &common.policy.authentication;
        let Some(given) = demand.answer(&incoming.request) else {
            return CredentialCheck::Challenge { is_stale: false };
        };
        let is_acceptable = !given.is_username_hashed
            && given
                .algorithm
                .is_some_and(|algorithm| policy.algorithms.contains(&algorithm))
            && (given.protection.is_some() || policy.allow_without_qop);
        if !is_acceptable {
            return CredentialCheck::Challenge { is_stale: false };
        }
        let lifetime = policy.nonce_lifetime;
        let nonces = &self.nonces;
        match nonces.check(now, &given.nonce, &demand.realm, lifetime) {
            Verdict::Fresh(_) => {}
            Verdict::Stale => return CredentialCheck::Challenge { is_stale: true },
            Verdict::Foreign => return CredentialCheck::Challenge { is_stale: false },
        }
        if !demand.sender.may_be(&given.username, policy) {
            return CredentialCheck::Refuse(FORBIDDEN);
        }
        if !self.is_meant(common, &given.uri, &incoming.request, &incoming.arrival) {
            return CredentialCheck::Refuse(Rejection::new(400, "Digest URI Mismatch"));
        }
        CredentialCheck::Claim {
            username: given.username.as_ref().into(),
        }
    }

    /// Asks for what is stored of a password, and parks the request.
    fn ask_credentials(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: IncomingRequest,
        demand: ProofDemand,
        username: Box<str>,
    ) {
        let server = incoming.server;
        let query = Query::Credentials {
            realm: demand.realm.as_str().into(),
            username,
        };
        let octets = incoming.request.wire_length();
        match common.ask(now, query, PendingQuery::Authenticate(server, octets)) {
            Ok(query) => {
                let pending = PendingRequest {
                    query,
                    incoming,
                    demand,
                };
                self.pending.insert(server, pending);
            }
            Err(_) => common.refuse(now, server, &incoming.request, &common.overloaded()),
        }
    }

    /// Answers 401 or 407 with a challenge for each algorithm that will do, all with one nonce.
    fn challenge(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: &IncomingRequest,
        demand: &ProofDemand,
        is_stale: bool,
        will_do: impl Fn(&Algorithm) -> bool,
    ) {
        common.statistics.challenged += 1;
        let (status, reason, field) = demand.asks();
        let mut response = Message::response_to(&incoming.request, status, reason);
        let longest = common.longest_answer(&incoming.request, &incoming.arrival);
        let algorithms = &common.policy.authentication.algorithms;
        for realm in std::iter::once(&demand.realm).chain(&demand.others) {
            let nonce = self.nonces.give_out(now, realm);
            for &algorithm in algorithms.iter().filter(|algorithm| will_do(algorithm)) {
                let challenge = Challenge {
                    realm: realm.as_str().into(),
                    nonce: nonce.as_str().into(),
                    algorithm,
                    opaque: None,
                    is_stale,
                    offers_auth: true,
                };
                // The first ones are the best.
                add_within(&mut response, field, challenge.to_string(), longest);
            }
        }
        common.respond(now, incoming.server, response);
    }

    /// Uses up the count of a request that is proved. Returns whether it was not used before.
    fn take_count(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        given: &Authorization<'_>,
    ) -> bool {
        let policy = &common.policy.authentication;
        let Authenticator { nonces, counts, .. } = self;
        let Verdict::Fresh(name) =
            nonces.check(now, &given.nonce, &given.realm, policy.nonce_lifetime)
        else {
            return false;
        };
        let lifetime = u64::try_from(policy.nonce_lifetime.as_millis()).unwrap_or(u64::MAX);
        counts.expire(nonces.milliseconds(now).saturating_sub(lifetime));
        // Without a count the nonce is good once.
        let count = given
            .protection
            .as_ref()
            .map_or(1, |protection| protection.count());
        match counts.take(name, count, policy.maximum_nonces) {
            nonce_counts::Taken::First => true,
            nonce_counts::Taken::FirstWithoutRoom => {
                common.statistics.nonces_forgotten += 1;
                true
            }
            nonce_counts::Taken::Again => {
                common.statistics.nonces_replayed += 1;
                false
            }
        }
    }

    /// Whether the URI that a client has hashed can be that of its request: that which it has now, or one
    /// that leads here, since others may have rewritten it on its way (RFC 8760 section 2.6 item 6).
    fn is_meant(
        &self,
        common: &CommonState,
        hashed: &str,
        request: &Message,
        arrival: &Flow,
    ) -> bool {
        let requested = request.request_uri().unwrap_or_default();
        if hashed == requested {
            return true;
        }
        let Ok(uri) = Uri::parse(hashed) else {
            return false;
        };
        uri.as_sip()
            .is_some_and(|uri| common.identity.is_own(&(*uri).into(), arrival.local))
            || Uri::parse(requested).is_ok_and(|requested| requested.is_equivalent(&uri))
    }
}

/// Takes what a client has said to us alone off a request that goes on (RFC 3261 section 22.3): the
/// credentials for realms of ours, and no others.
pub(crate) fn strip_credentials(common: &CommonState, request: &mut Message) {
    if !common.policy.authentication.calls || !request.contains(Name::ProxyAuthorization) {
        return;
    }
    request.retain(Name::ProxyAuthorization, |value| {
        !Authorization::parse(value)
            .is_ok_and(|authorization| is_own_realm(common, &authorization.realm))
    });
}

/// Whether a realm is one that we ask for.
fn is_own_realm(common: &CommonState, realm: &str) -> bool {
    match &common.policy.authentication.realm {
        Some(own) => own == realm,
        None => common
            .identity
            .domain_names()
            .any(|name| name.to_string() == realm),
    }
}

/// What is reckoned with where there is no such user: hashes of nothing.
fn nobody() -> Credentials {
    Credentials {
        md5: Some([0; 16]),
        sha256: Some([0; 32]),
        sha512_256: Some([0; 32]),
    }
}

/// For who may not do what it wants, with whatever password.
const FORBIDDEN: Rejection = Rejection::new(403, "Forbidden");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::common::testing::request;
    use crate::core::incoming::Addressee;
    use crate::core::policy::Policy;
    use crate::core::target::Target;

    fn parts(change: impl FnOnce(&mut Policy)) -> (CommonState, Authenticator) {
        let mut policy = Policy::default();
        change(&mut policy);
        let (common, keys, mut rng) =
            CommonState::for_tests(|config| config.policy = Arc::new(policy));
        (common, Authenticator::new(&keys, &mut rng))
    }

    fn invite() -> Message {
        request(Method::Invite, "sip:bob@192.0.2.7")
    }

    fn incoming(common: &mut CommonState, now: Instant, request: Message) -> IncomingRequest {
        let target = Target::as_requested("sip:bob@192.0.2.7", None);
        common.begin_request(now, request, Addressee::Requested(target))
    }

    #[test]
    fn who_is_not_asked_goes_on_at_once() {
        let now = Instant::now();
        let (mut common, mut authenticator) = parts(|_| {});
        let incoming = incoming(&mut common, now, invite());
        let authenticated = authenticator.authenticate(&mut common, now, incoming);
        assert!(authenticated.is_some() && common.sent().is_empty());
    }

    #[test]
    fn whoever_is_asked_waits_for_its_password_and_may_cancel_meanwhile() {
        let now = Instant::now();
        for is_cancelled in [false, true] {
            let (mut common, mut authenticator) =
                parts(|policy| policy.authentication.calls = true);
            let first = incoming(&mut common, now, invite());
            assert!(
                authenticator
                    .authenticate(&mut common, now, first)
                    .is_none()
            );
            let challenge = common.sent().remove(0);
            assert_eq!(challenge.status(), Some(407));
            let field = challenge.header(Name::ProxyAuthenticate).expect("a field");
            let nonce = field.split("nonce=\"").nth(1).expect("a nonce");
            let nonce = nonce.split('"').next().unwrap_or_default();
            let credentials = format!(
                "Digest username=\"alice\", realm=\"example.com\", nonce=\"{nonce}\", \
                 uri=\"sip:bob@192.0.2.7\", response=\"{}\", algorithm=SHA-256, \
                 cnonce=\"1\", nc=00000001, qop=auth",
                "0".repeat(64)
            );
            let mut second = invite().with(Name::ProxyAuthorization, credentials);
            second.remove_all(Name::Via);
            second.push_front(Name::Via, "SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK2");
            let second = incoming(&mut common, now, second);
            let server = second.server;
            assert!(
                authenticator
                    .authenticate(&mut common, now, second)
                    .is_none()
            );
            assert!(common.sent().is_empty() && common.held.octets() > 0);
            let (id, query) = common.poll_query().expect("a question");
            assert!(matches!(query, Query::Credentials { .. }));
            let status = if is_cancelled {
                assert!(authenticator.cancel(&mut common, now, server));
                assert!(common.take_pending(id).is_none());
                487
            } else {
                assert!(common.take_pending(id).is_some());
                let nobody = Answer::Credentials(None);
                let done = authenticator.complete(&mut common, now, server, nobody);
                assert!(done.is_none());
                assert_eq!(common.statistics.authentication_failures, 1);
                407
            };
            assert_eq!(common.sent().remove(0).status(), Some(status));
            assert_eq!(common.held.octets(), 0);
        }
    }
}
