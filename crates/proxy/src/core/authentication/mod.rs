//! Who a request comes from: digest authentication by a registrar (401) and a proxy (407), RFC 3261
//! section 22, RFC 7616, RFC 8760.
//!
//! `nonce` makes nonces that need no memory; `nonce_counts` remembers how often those in use were used.
//! The hashes of passwords are asked for where users are kept; a request waits for them.

mod nonce;
mod nonce_counts;
mod policy;

use std::time::Instant;

use rand::Rng;
use sip::digest::{Algorithm, Authorization, Challenge, Credentials};
use sip::transaction::ServerId;
use sip::{Flow, Host, Message, Method, Name, NameAddr, SipUri, Uri};

use super::binding::AddressOfRecord;
use super::event::Event;
use super::keys::Keys;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query, QueryId};
use super::rejection::Rejection;
use super::relay::Entitlement;
use super::requests::Taken;
use super::unproved::add_within;
use nonce::{Nonces, Verdict};
use nonce_counts::NonceCounts;

pub use policy::AuthenticationPolicy;

/// What authentication remembers.
#[derive(Debug)]
pub(crate) struct Authentication {
    nonces: Nonces,
    counts: NonceCounts,
}

/// Who is asked for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    realm: String,
    /// Realms that would do as well: somebody who does not say who it is has a password for one of them.
    others: Vec<String>,
    speaker: Speaker,
    is_registrar: bool,
}

/// How many realms somebody who does not say who it is may choose from, beside the first.
const MAXIMUM_OTHER_REALMS: usize = 7;

/// Of so many credentials one has to be for us where there is hardly time to look.
const MAXIMUM_CREDENTIALS: usize = 8;

/// For whom a request speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A user of ours.
    User(AddressOfRecord),
    /// Somebody who does not say (RFC 3323 section 4.1.1.3): it may be any user of ours.
    Anonymous,
    /// Somebody else.
    Stranger,
}

/// A request that waits for what is stored of its sender's password.
#[derive(Debug)]
pub(crate) struct Authenticating {
    pub(super) taken: Taken,
    demand: Demand,
}

/// What is found out without that.
enum Finding {
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

impl Authentication {
    pub(crate) fn new(keys: &Keys, rng: &mut impl Rng) -> Authentication {
        Authentication {
            nonces: Nonces::new(keys, rng),
            counts: NonceCounts::default(),
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
}

impl Authenticating {
    /// The length of the request.
    pub(crate) fn octets(&self) -> usize {
        self.taken.request.wire_length()
    }
}

impl Demand {
    /// The field that asks, the field that answers, and the status.
    fn asks(&self) -> (u16, &'static str, Name<'static>) {
        if self.is_registrar {
            (401, "Unauthorized", Name::WwwAuthenticate)
        } else {
            (
                407,
                "Proxy Authentication Required",
                Name::ProxyAuthenticate,
            )
        }
    }

    /// The field that the answer stands in.
    fn answered_in(&self) -> Name<'static> {
        if self.is_registrar {
            Name::Authorization
        } else {
            Name::ProxyAuthorization
        }
    }

    /// Where a request answers for another realm that would do, that is the one.
    fn take_realm_of_answer(&mut self, request: &Message) {
        if self.answer(request).is_some() {
            return;
        }
        let answered = request.headers(self.answered_in()).find_map(|value| {
            let given = Authorization::parse(value).ok()?;
            let is_given = |realm: &String| *realm == given.realm;
            self.others.iter().position(is_given)
        });
        if let Some(answered) = answered.and_then(|at| self.others.get_mut(at)) {
            std::mem::swap(answered, &mut self.realm);
        }
    }

    /// What a request answers.
    fn answer<'a>(&self, request: &'a Message) -> Option<Authorization<'a>> {
        request
            .headers(self.answered_in())
            .filter_map(|value| Authorization::parse(value).ok())
            .find(|authorization| authorization.realm == self.realm)
    }
}

impl Proxy {
    /// Lets a request on its way, or first finds out who has sent it.
    pub(super) fn authenticate(&mut self, now: Instant, taken: Taken) {
        let demand = match self.entitlement(&taken.request, &taken.arrival, &taken.bound) {
            Entitlement::Free => {
                self.proceed(now, taken, None);
                return;
            }
            Entitlement::None => {
                let rejection = self.deny_relay();
                self.refuse(now, taken.server, &taken.request, &rejection);
                return;
            }
            Entitlement::ByProof(demand) => demand,
        };
        match self.finding(now, &taken, &demand) {
            Finding::Challenge { is_stale } => {
                self.challenge(now, &taken, &demand, is_stale, |_| true);
            }
            Finding::Refuse(rejection) => {
                self.refuse(now, taken.server, &taken.request, &rejection);
            }
            Finding::Claim { username } => self.ask_credentials(now, taken, demand, username),
        }
    }

    /// Goes on with a request when it is known what is stored of its sender's password.
    pub(super) fn complete_authentication(
        &mut self,
        now: Instant,
        authenticating: Authenticating,
        answer: Answer,
    ) {
        let Authenticating { taken, demand } = authenticating;
        // Wrong credentials are counted by themselves.
        self.transactions.set_taken_on(taken.server);
        self.authenticating.remove(&taken.server);
        let stored = match answer {
            Answer::Credentials(stored) => stored,
            _ => {
                let rejection = Rejection::new(500, "Server Internal Error");
                self.refuse(now, taken.server, &taken.request, &rejection);
                return;
            }
        };
        let Some(given) = demand.answer(&taken.request) else {
            return;
        };
        let method = taken.request.method().map_or("", Method::as_str);
        // Whether there is such a user is not to be seen from the time that this takes.
        let credentials = stored.as_deref().copied().unwrap_or_else(nobody);
        let is_proved = given.is_proved_by(&credentials, method);
        let has_hash = |algorithm: &Algorithm| credentials.get(*algorithm).is_some();
        if stored.is_some() && !given.algorithm.as_ref().is_some_and(has_hash) {
            let algorithms = &self.policy.authentication.algorithms;
            if algorithms.iter().any(has_hash) {
                self.challenge(now, &taken, &demand, false, has_hash);
                return;
            }
        }
        if stored.is_none() || !is_proved {
            self.statistics.authentication_failures += 1;
            let event = Event::AuthenticationFailed {
                realm: demand.realm.clone(),
                username: given.username.into_owned(),
                flow: taken.arrival,
            };
            self.report(event);
            self.note_credentials(now, &taken, false);
            // Not stale, which tells that the password is wrong (RFC 7616 section 3.3); the client must not try
            // it again (RFC 3261 section 22.1).
            self.challenge(now, &taken, &demand, false, |_| true);
            return;
        }
        if !self.take_count(now, &given) {
            self.challenge(now, &taken, &demand, true, |_| true);
            return;
        }
        self.statistics.authenticated += 1;
        self.transactions.set_proved(taken.server);
        self.note_known(&taken.arrival);
        self.note_credentials(now, &taken, true);
        let confirmation = (self.policy.authentication.confirm && demand.is_registrar)
            .then(|| given.confirmation(&credentials))
            .flatten()
            .map(|confirmation| confirmation.to_string());
        self.proceed(now, taken, confirmation);
    }

    /// Tells the defence whether a request has brought the right credentials.
    fn note_credentials(&mut self, now: Instant, taken: &Taken, are_right: bool) {
        if let Some(method) = taken.request.method()
            && !self.is_trusted(&taken.arrival)
        {
            let from = taken.arrival.remote.ip();
            let is_in_dialog = taken.bound.is_in_dialog;
            self.defence
                .note_credentials(now, from, method, is_in_dialog, are_right);
        }
    }

    /// Ends the waiting of an INVITE that is cancelled. Returns whether it did wait.
    pub(super) fn cancel_authentication(&mut self, now: Instant, cancelled: ServerId) -> bool {
        let waiting = self
            .authenticating
            .get(&cancelled)
            .filter(|(_, is_invite)| *is_invite)
            .copied()
            .and_then(|(query, _)| self.withdraw(query));
        let Some(Waiting::Authenticate(authenticating)) = waiting else {
            return false;
        };
        self.authenticating.remove(&cancelled);
        let rejection = Rejection::new(487, "Request Terminated");
        self.refuse(now, cancelled, &authenticating.taken.request, &rejection);
        true
    }

    /// Takes what a client has said to us alone off a request that goes on (RFC 3261 section 22.3): the
    /// credentials for realms of ours, and no others.
    pub(super) fn strip_credentials(&self, request: &mut Message) {
        if !self.policy.authentication.calls || !request.contains(Name::ProxyAuthorization) {
            return;
        }
        request.retain(Name::ProxyAuthorization, |value| {
            !Authorization::parse(value)
                .is_ok_and(|authorization| self.is_own_realm(&authorization.realm))
        });
    }

    /// What who speaks for a user has to prove by a request. `None` where there is no realm to ask for.
    pub(super) fn demand(
        &self,
        request: &Message,
        speaker: Speaker,
        is_registrar: bool,
    ) -> Option<Demand> {
        let realm = match (&self.policy.authentication.realm, &speaker) {
            (Some(realm), _) => realm.clone(),
            (None, Speaker::User(user)) => user.domain().to_owned(),
            (None, _) => self.identity.first_domain()?.to_string(),
        };
        let mut demand = Demand {
            realm,
            others: Vec::new(),
            speaker,
            is_registrar,
        };
        if self.policy.authentication.realm.is_none() && !matches!(demand.speaker, Speaker::User(_))
        {
            let domains = self.identity.domain_names().map(ToString::to_string);
            demand.others = domains
                .filter(|domain| *domain != demand.realm)
                .take(MAXIMUM_OTHER_REALMS)
                .collect();
            demand.take_realm_of_answer(request);
        }
        Some(demand)
    }

    /// Whom a request says that it comes from, or for whom a REGISTER speaks.
    pub(super) fn speaker(&self, named: Option<NameAddr<'_>>) -> Speaker {
        let uri = named.and_then(|named| named.parse_uri().ok());
        let Some(uri) = uri else {
            return Speaker::Stranger;
        };
        let is_anonymous = |uri: &SipUri<'_>| uri.host() == Host::Name(ANONYMOUS);
        match self.identity.claimed_user(&uri) {
            Some(user) => Speaker::User(user),
            None if uri.as_sip().is_some_and(is_anonymous) => Speaker::Anonymous,
            None => Speaker::Stranger,
        }
    }

    /// What can be said of a request without knowing the password.
    fn finding(&self, now: Instant, taken: &Taken, demand: &Demand) -> Finding {
        let policy = &self.policy.authentication;
        let Some(given) = demand.answer(&taken.request) else {
            return Finding::Challenge { is_stale: false };
        };
        let is_acceptable = !given.is_username_hashed
            && given
                .algorithm
                .is_some_and(|algorithm| policy.algorithms.contains(&algorithm))
            && (given.protection.is_some() || policy.allow_without_qop);
        if !is_acceptable {
            return Finding::Challenge { is_stale: false };
        }
        let lifetime = policy.nonce_lifetime;
        let nonces = &self.authentication.nonces;
        match nonces.check(now, &given.nonce, &demand.realm, lifetime) {
            Verdict::Fresh(_) => {}
            Verdict::Stale => return Finding::Challenge { is_stale: true },
            Verdict::Foreign => return Finding::Challenge { is_stale: false },
        }
        if !policy.may_act(&given.username, &demand.speaker) {
            return Finding::Refuse(FORBIDDEN);
        }
        if !self.is_meant(&given.uri, &taken.request, &taken.arrival) {
            return Finding::Refuse(Rejection::new(400, "Digest URI Mismatch"));
        }
        Finding::Claim {
            username: given.username.as_ref().into(),
        }
    }

    /// Asks for what is stored of a password, and parks the request.
    fn ask_credentials(&mut self, now: Instant, taken: Taken, demand: Demand, username: Box<str>) {
        let server = taken.server;
        let is_invite = taken.request.method() == Some(&Method::Invite);
        let query = Query::Credentials {
            realm: demand.realm.as_str().into(),
            username,
        };
        let waiting = Waiting::Authenticate(Box::new(Authenticating { taken, demand }));
        match self.ask(now, query, waiting) {
            Ok(id) => {
                self.authenticating.insert(server, (id, is_invite));
            }
            Err(Waiting::Authenticate(waiting)) => {
                let request = &waiting.taken.request;
                self.refuse(now, server, request, &self.overloaded());
            }
            Err(_) => {}
        }
    }

    /// Answers 401 or 407 with a challenge for each algorithm that will do, all with one nonce.
    fn challenge(
        &mut self,
        now: Instant,
        taken: &Taken,
        demand: &Demand,
        is_stale: bool,
        will_do: impl Fn(&Algorithm) -> bool,
    ) {
        self.statistics.challenged += 1;
        let (status, reason, field) = demand.asks();
        let mut response = Message::response_to(&taken.request, status, reason);
        let longest = self.longest_answer(&taken.request, &taken.arrival);
        let algorithms = &self.policy.authentication.algorithms;
        for realm in std::iter::once(&demand.realm).chain(&demand.others) {
            let nonce = self.authentication.nonces.give_out(now, realm);
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
        self.respond(now, taken.server, response);
    }

    /// Uses up the count of a request that is proved. Returns whether it was not used before.
    fn take_count(&mut self, now: Instant, given: &Authorization<'_>) -> bool {
        let policy = &self.policy.authentication;
        let Authentication { nonces, counts } = &mut self.authentication;
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
                self.statistics.nonces_forgotten += 1;
                true
            }
            nonce_counts::Taken::Again => {
                self.statistics.nonces_replayed += 1;
                false
            }
        }
    }

    /// Whether the URI that a client has hashed can be that of its request: that which it has now, or one
    /// that leads here, since others may have rewritten it on its way (RFC 8760 section 2.6 item 6).
    fn is_meant(&self, hashed: &str, request: &Message, arrival: &Flow) -> bool {
        let requested = request.request_uri().unwrap_or_default();
        if hashed == requested {
            return true;
        }
        let Ok(uri) = Uri::parse(hashed) else {
            return false;
        };
        uri.as_sip()
            .is_some_and(|uri| self.identity.is_own(&(*uri).into(), arrival.local))
            || Uri::parse(requested).is_ok_and(|requested| requested.is_equivalent(&uri))
    }

    /// Whether a realm is one that we ask for.
    fn is_own_realm(&self, realm: &str) -> bool {
        match &self.policy.authentication.realm {
            Some(own) => own == realm,
            None => self
                .identity
                .domain_names()
                .any(|name| name.to_string() == realm),
        }
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

/// The domain of those who do not say who they are (RFC 3323 section 4.1.1.3).
const ANONYMOUS: &str = "anonymous.invalid";

/// For who may not do what it wants, with whatever password.
const FORBIDDEN: Rejection = Rejection::new(403, "Forbidden");

/// The parked requests of transactions: their questions, and whether they are INVITEs.
pub(crate) type Parked = (QueryId, bool);
