//! Recursion: what a 3xx response names is tried here, in place of the target that has answered so
//! (RFC 3261 sections 16.5 and 16.7 step 4).

use std::cmp::Reverse;
use std::time::Instant;

use sip::{Message, Name, NameAddr, Uri};

use super::Forwarder;
use super::best_response::Candidate;
use super::context::Context;
use super::target_set::arranged;
use crate::core::binding::AddressOfRecord;
use crate::core::branch_name::BranchName;
use crate::core::common::CommonState;
use crate::core::target::{Target, Way, is_for_sips};
use crate::core::uri;

/// A contact of a 3xx response, and its preference.
struct Place {
    uri: String,
    q: u16,
}

impl Forwarder {
    /// Follows a 3xx response, where that is wanted and allowed. Returns the response where it is not
    /// followed; what of one that is cannot be remains a candidate for the best response.
    pub(crate) fn recurse(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        name: BranchName,
        context: &mut Context,
        mut response: Message,
    ) -> Option<Message> {
        let policy = &common.policy.forwarding;
        let is_wanted = policy.recursion && context.is_responsible && context.may_go_on(now);
        // A 305 names a proxy instead of a place, and a 380 explains itself in its body.
        if !is_wanted || !matches!(response.status(), Some(300..=302)) {
            return Some(response);
        }
        let room = policy
            .maximum_targets
            .saturating_sub(context.known_targets());
        let forking = policy.forking;
        let Some(places) = take_places(&mut response, context, room) else {
            return Some(response);
        };
        let groups = places
            .chunk_by(|one, other| one.q == other.q)
            .map(|group| {
                let targets = group.iter();
                let targets = targets.map(|place| self.target_at(common, now, place, context));
                targets.collect()
            })
            .collect::<Vec<Vec<Target>>>();
        let candidate = if response.contains(Name::Contact) {
            Some(Candidate::Received(response))
        } else if groups.is_empty() {
            // All of it has been tried.
            Some(Candidate::Presumed(480))
        } else {
            None
        };
        self.end_branch(common, name, context, candidate);
        context.targets.insert(arranged(groups, forking, room));
        None
    }

    /// The target that a place stands for. Where a static route has led the request on, those routes are for the place
    /// as well: the client would come back and be routed so. Who has called a user is not brought along a
    /// static route by that user's phone: such routes may ask more of a caller than users do. A user of
    /// ours is looked up here.
    fn target_at(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        place: &Place,
        context: &Context,
    ) -> Target {
        if context.is_routed
            && let Some(method) = context.request.method()
        {
            let request = Message::request(method.clone(), &place.uri);
            if let Some(routed) = self.static_route(common, now, &request, None) {
                return Target::by_route(&place.uri, routed.next_hops);
            }
        }
        let mut target = Target::as_requested(&place.uri, None);
        if let Ok(Uri::Sip(uri)) = Uri::parse(&place.uri)
            && let Some(domain) = common.identity.domain(&uri.into(), context.arrival.local)
            && let Some(address) = AddressOfRecord::new(&uri, domain)
        {
            target.ways = [Way::User(address)].into();
        }
        target
    }
}

/// Takes the contacts out of a 3xx response that are to be tried, the most preferred first; `None`
/// where none may be. Each is tried once: those that are known already are taken out as well. Beyond
/// `room`, and of other schemes, they stay where they are.
///
/// A SIPS URI is not followed for a SIP one, nor the other way about: then the client has to decide
/// (RFC 5630 section 5.3).
fn take_places(response: &mut Message, context: &Context, room: usize) -> Option<Vec<Place>> {
    let is_secure = is_for_sips(&context.request);
    let mut places: Vec<Place> = Vec::new();
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
            places.push(Place {
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
