//! Recursion: what a 3xx response names is tried here, in place of the target that has answered so
//! (RFC 3261 sections 16.5 and 16.7 step 4).

use std::cmp::Reverse;
use std::sync::Arc;

use sip::{Message, Name, NameAddr, Uri};

use super::best_response::Candidate;
use super::response_context::ResponseContext;
use crate::core::binding::AddressOfRecord;
use crate::core::hook::{
    Decision, FailurePoint, Hook, NewTargets, Points, Resumption, static_route,
};
use crate::core::policy::Policy;
use crate::core::target::{Hop, Target, is_for_sips};
use crate::core::uri;

/// A contact of a 3xx response, and its preference.
struct RedirectTarget {
    uri: String,
    q: u16,
}

/// Follows 3xx responses, where that is wanted and allowed; what of one cannot be followed remains a candidate for the best
/// response.
#[derive(Debug, Default)]
pub(crate) struct Recursion {
    is_wanted: bool,
}

impl Hook for Recursion {
    fn points(&self) -> Points {
        match self.is_wanted {
            true => Points::FAILURE,
            false => Points::default(),
        }
    }

    fn set_policy(&mut self, policy: &Arc<Policy>) {
        self.is_wanted = policy.forwarding.recursion;
    }

    fn on_failure(
        &mut self,
        point: &mut FailurePoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<NewTargets> {
        let context = point.context;
        let Candidate::Received(response) = &mut *point.candidate else {
            return Decision::Continue;
        };
        let may_recurse = context.is_responsible && context.may_go_on(point.now);
        // A 305 names a proxy instead of a place, and a 380 explains itself in its body.
        if !may_recurse || !matches!(response.status(), Some(300..=302)) {
            return Decision::Continue;
        }
        let maximum = point.policy.forwarding.maximum_targets;
        let room = maximum.saturating_sub(context.known_targets());
        let Some(places) = take_places(response, context, room) else {
            return Decision::Continue;
        };
        let candidate = if response.contains(Name::Contact) {
            Some(Candidate::Received(response.clone()))
        } else if places.is_empty() {
            // All of it has been tried.
            Some(Candidate::Presumed(480))
        } else {
            None
        };
        let mut groups: Vec<Vec<Target>> = Vec::new();
        for group in places.chunk_by(|one, other| one.q == other.q) {
            groups.push(group.iter().map(|place| target_at(point, place)).collect());
        }
        Decision::Act(NewTargets { groups, candidate })
    }
}

/// The target that a place stands for. Where a static route has led the request on, those routes are for the place
/// as well: the client would come back and be routed so. Who has called a user is not brought along a
/// static route by that user's phone: such routes may ask more of a caller than users do. A user of
/// ours is looked up here.
fn target_at(point: &mut FailurePoint<'_>, place: &RedirectTarget) -> Target {
    let context = point.context;
    if context.is_routed
        && let Some(method) = context.request.method()
    {
        let request = Message::request(method.clone(), &place.uri);
        let dispatcher = &mut *point.dispatcher;
        if let Some(routed) = static_route(point.policy, dispatcher, point.now, &request, None) {
            return Target::by_route(&place.uri, routed.next_hops);
        }
    }
    let mut target = Target::as_requested(&place.uri, None);
    if let Ok(Uri::Sip(uri)) = Uri::parse(&place.uri)
        && let Some(domain) = point.identity.domain(&uri.into(), context.arrival.local)
        && let Some(address) = AddressOfRecord::new(&uri, domain)
    {
        target.hops = [Hop::User(address)].into();
    }
    target
}

/// Takes the contacts out of a 3xx response that are to be tried, the most preferred first; `None`
/// where none may be. Each is tried once: those that are known already are taken out as well. Beyond
/// `room`, and of other schemes, they stay where they are.
///
/// A SIPS URI is not followed for a SIP one, nor the other way about: then the client has to decide
/// (RFC 5630 section 5.3).
fn take_places(
    response: &mut Message,
    context: &ResponseContext,
    room: usize,
) -> Option<Vec<RedirectTarget>> {
    let is_secure = is_for_sips(&context.request);
    let mut places: Vec<RedirectTarget> = Vec::new();
    let mut rest: Vec<Vec<u8>> = Vec::new();
    let mut is_taken = false;
    for value in response.values(Name::Contact) {
        let contact = NameAddr::parse(value).ok();
        let found = contact.and_then(|contact| Some((contact, contact.parse_uri().ok()?)));
        let Some((contact, Uri::Sip(found))) = found else {
            rest.push(value.to_vec());
            continue;
        };
        if found.is_secure() != is_secure {
            return None;
        }
        let place = uri::request_uri(contact.uri());
        let is_known = context.knows_target(&place)
            || places
                .iter()
                .any(|known| uri::is_equivalent(&known.uri, &place));
        if !is_known && places.len() == room {
            rest.push(value.to_vec());
            continue;
        }
        is_taken = true;
        if !is_known {
            places.push(RedirectTarget {
                uri: place.into_owned(),
                q: contact.q(),
            });
        }
    }
    if !is_taken {
        return None;
    }
    response.remove_all(Name::Contact);
    for value in rest {
        response.push_back(Name::Contact, value);
    }
    // A stable sort: equal ones stay in their order.
    places.sort_by_key(|place| Reverse(place.q));
    Some(places)
}
