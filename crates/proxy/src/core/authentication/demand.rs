//! Who a request speaks for, and what its sender has to prove.

use sip::digest::Authorization;
use sip::{Host, Message, Name, NameAddr, SipUri};

use super::policy::AuthenticationPolicy;
use crate::core::binding::AddressOfRecord;
use crate::core::identity::Identity;

/// Who is asked for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProofDemand {
    pub(super) realm: String,
    /// Realms that would do as well: somebody who does not say who it is has a password for one of them.
    pub(super) others: Vec<String>,
    pub(super) sender: ClaimedSender,
    pub(super) is_registrar: bool,
}

/// For whom a request speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimedSender {
    /// A user of ours.
    User(AddressOfRecord),
    /// Somebody who does not say (RFC 3323 section 4.1.1.3): it may be any user of ours.
    Anonymous,
    /// Somebody else.
    Stranger,
}

/// How many realms somebody who does not say who it is may choose from, beside the first.
const MAXIMUM_OTHER_REALMS: usize = 7;

/// The domain of those who do not say who they are (RFC 3323 section 4.1.1.3).
const ANONYMOUS: &str = "anonymous.invalid";

impl ClaimedSender {
    /// Whether a user name given with the proof is that of the user for whom the request speaks, or may
    /// speak for it.
    pub(super) fn may_be(&self, username: &str, policy: &AuthenticationPolicy) -> bool {
        let is_own = match self {
            ClaimedSender::User(user) => user.user() == username,
            ClaimedSender::Anonymous => true,
            ClaimedSender::Stranger => false,
        };
        is_own
            || policy
                .may_act_for_others
                .iter()
                .any(|other| other == username)
    }

    /// Whom a request says that it comes from, or for whom a REGISTER speaks.
    pub(crate) fn of(identity: &Identity, named: Option<NameAddr<'_>>) -> ClaimedSender {
        let uri = named.and_then(|named| named.parse_uri().ok());
        let Some(uri) = uri else {
            return ClaimedSender::Stranger;
        };
        let is_anonymous = |uri: &SipUri<'_>| uri.host() == Host::Name(ANONYMOUS);
        match identity.claimed_user(&uri) {
            Some(user) => ClaimedSender::User(user),
            None if uri.as_sip().is_some_and(is_anonymous) => ClaimedSender::Anonymous,
            None => ClaimedSender::Stranger,
        }
    }
}

impl ProofDemand {
    /// What who speaks for a user has to prove by a request. `None` where there is no realm to ask for.
    pub(crate) fn new(
        policy: &AuthenticationPolicy,
        identity: &Identity,
        request: &Message,
        sender: ClaimedSender,
        is_registrar: bool,
    ) -> Option<ProofDemand> {
        let realm = match (&policy.realm, &sender) {
            (Some(realm), _) => realm.clone(),
            (None, ClaimedSender::User(user)) => user.domain().to_owned(),
            (None, _) => identity.first_domain()?.to_string(),
        };
        let mut demand = ProofDemand {
            realm,
            others: Vec::new(),
            sender,
            is_registrar,
        };
        if policy.realm.is_none() && !matches!(demand.sender, ClaimedSender::User(_)) {
            let domains = identity.domain_names().map(ToString::to_string);
            demand.others = domains
                .filter(|domain| *domain != demand.realm)
                .take(MAXIMUM_OTHER_REALMS)
                .collect();
            demand.take_realm_of_answer(request);
        }
        Some(demand)
    }

    /// The field that asks, the field that answers, and the status.
    pub(crate) fn asks(&self) -> (u16, &'static str, Name<'static>) {
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
    pub(crate) fn answered_in(&self) -> Name<'static> {
        if self.is_registrar {
            Name::Authorization
        } else {
            Name::ProxyAuthorization
        }
    }

    /// Where a request answers for another realm that would do, that is the one.
    pub(crate) fn take_realm_of_answer(&mut self, request: &Message) {
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
    pub(crate) fn answer<'a>(&self, request: &'a Message) -> Option<Authorization<'a>> {
        request
            .headers(self.answered_in())
            .filter_map(|value| Authorization::parse(value).ok())
            .find(|authorization| authorization.realm == self.realm)
    }
}
