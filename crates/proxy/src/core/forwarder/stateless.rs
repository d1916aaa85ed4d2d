//! Forwarding without state (RFC 3261 section 16.11): ACKs to 2xx responses, CANCELs of requests that
//! are not known here (section 16.10), and whatever the policy wants forwarded so.
//!
//! What a stateful proxy remembers is in the message instead. The branch of our Via follows from the
//! request and nothing else, so that a retransmission, a CANCEL or the ACK to a failure has the same
//! one; and the Via has a signed token of the flow that the request came along, which leads the
//! responses back along it. Beside it is a keyed hash of it and of what a response has of its request, which shows that they
//! answer a request that we have forwarded: any other response without a transaction is dropped (RFC 6026 section
//! 7.3). The token alone is in Record-Route URIs, too.

use std::time::Instant;

use sip::transaction::{WrittenRequest, note_source};
use sip::{Flow, Message, Method, Name};

use super::Forwarder;
use super::classify::unavailable;
use super::next_hop::{self, Resolved};
use crate::core::authentication::{Entitlement, entitlement, strip_credentials};
use crate::core::common::CommonState;
use crate::core::dialogs::{Answered, Uac};
use crate::core::forward::{self, Forwarding, is_record_routed, max_breadth};
use crate::core::hook::{ForwardTo, HookOutcome, Points, RequestAction, RoutePoint};
use crate::core::incoming::Addressee;
use crate::core::interface::Interface;
use crate::core::pending::{PendingQuery, StatelessRequest};
use crate::core::policy::Mode;
use crate::core::query::{Answer, Query};
use crate::core::rejection::{NO_TRANSACTION, NOT_FOUND, Rejection};
use crate::core::target::Target;

/// The parameter of our Via that has the way back.
const FLOW: &str = "flow";

/// How many octets the hash has that is behind the token in it.
const PROOF_LENGTH: usize = 16;

/// The way back of a response.
struct WayBack {
    flow: Flow,
    /// The request had a tag in To, which is the one that the response has.
    had_to_tag: bool,
}

impl Forwarder {
    /// Whether a request goes past the transactions: it is to be forwarded without state, and belongs
    /// to none. An ACK does too where the transaction layer does not keep it.
    pub(crate) fn is_stateless(common: &mut CommonState, request: &Message) -> bool {
        let is_wanted = match request.method() {
            None | Some(Method::Ack) => false,
            Some(Method::Cancel) => true,
            Some(_) => common.policy.mode(request) == Mode::Stateless,
        };
        is_wanted && !common.transactions.knows(request)
    }

    /// Takes a request that goes past the transactions. What is for the registrar or for this element
    /// gets one nonetheless, since it is answered here, and so does what has to prove who has sent it.
    pub(crate) fn handle_stateless(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        arrival: Flow,
        received: Message,
    ) {
        let mut request = received.clone();
        note_source(&mut request, &arrival);
        common.trust.remove_claims(&mut request, &arrival);
        let fingerprint = self.loops.fingerprint(&request);
        let is_cancel = request.method() == Some(&Method::Cancel);
        let bound = self.classify(common, &mut request, &arrival, fingerprint);
        let (is_answered_here, is_denied) = match &bound {
            Ok(bound) => match entitlement(common, &request, &arrival, bound) {
                Entitlement::Free => {
                    let addressee = &bound.addressee;
                    let is_here = matches!(addressee, Addressee::Registrar | Addressee::Element);
                    (is_here, false)
                }
                Entitlement::ByProof(_) => (true, false),
                Entitlement::None => (false, true),
            },
            Err(_) => (false, false),
        };
        if !is_cancel && is_answered_here {
            common.transactions.handle_message(now, arrival, received);
            return;
        }
        common.statistics.requests += 1;
        let stateless = StatelessRequest {
            request,
            received: (!is_cancel).then_some(received),
            arrival,
            fingerprint,
            is_in_dialog: bound.as_ref().is_ok_and(|bound| bound.is_in_dialog),
            target: None,
        };
        match bound.map(|bound| bound.addressee) {
            Ok(_) if is_denied => {
                let rejection = common.deny_relay();
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection);
            }
            // What such a CANCEL could end was answered by us, and is over.
            Ok(Addressee::Registrar | Addressee::Element) => {
                common.refuse_stateless(
                    now,
                    &stateless.arrival,
                    &stateless.request,
                    &NO_TRANSACTION,
                );
            }
            Ok(addressee) => self.route_stateless(common, now, stateless, addressee),
            Err(rejection) => {
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection)
            }
        }
    }

    /// Takes an ACK that is no transaction's: to a 2xx, to what another element has answered, or to a
    /// response that we gave without a transaction, which ends here.
    pub(crate) fn handle_acknowledgement(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        arrival: Flow,
        mut request: Message,
    ) {
        if common.has_our_tag(&request) {
            return;
        }
        common.trust.remove_claims(&mut request, &arrival);
        let fingerprint = self.loops.fingerprint(&request);
        let bound = self.classify(common, &mut request, &arrival, fingerprint);
        let is_denied = bound.as_ref().is_ok_and(|bound| {
            let entitlement = entitlement(common, &request, &arrival, bound);
            matches!(entitlement, Entitlement::None)
        });
        let stateless = StatelessRequest {
            request,
            received: None,
            arrival,
            fingerprint,
            is_in_dialog: bound.as_ref().is_ok_and(|bound| bound.is_in_dialog),
            target: None,
        };
        match bound {
            Ok(_) if is_denied => {
                let rejection = common.deny_relay();
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection);
            }
            Ok(bound) => self.route_stateless(common, now, stateless, bound.addressee),
            Err(rejection) => {
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection)
            }
        }
    }

    /// Goes on with a request when it is known where to.
    pub(crate) fn resume_stateless(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        mut stateless: StatelessRequest,
        answer: Answer,
        is_timeout: bool,
    ) {
        if let Some(target) = &mut stateless.target {
            next_hop::add_next_hops(target, answer);
            self.forward_stateless(common, now, stateless);
            return;
        }
        let rejection = match answer {
            Answer::Bindings(bindings) => {
                let StatelessRequest {
                    request, arrival, ..
                } = &stateless;
                let Some(bindings) = self.bindings_meant(common, now, request, arrival, bindings)
                else {
                    common.refuse_stateless(
                        now,
                        &stateless.arrival,
                        &stateless.request,
                        &NOT_FOUND,
                    );
                    return;
                };
                // The most preferred, of equal ones that which was registered first: the choice is
                // the same for a retransmission.
                let targets = self.targets(now, &stateless.request, &bindings);
                if let Some(target) = targets.into_first() {
                    stateless.target = Some(target);
                    self.forward_stateless(common, now, stateless);
                    return;
                }
                unavailable(now, &stateless.request, &bindings)
            }
            Answer::Unknown => NOT_FOUND,
            _ if is_timeout => Rejection::new(504, "Server Time-out"),
            other => common.store_error(&other),
        };
        common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection);
    }

    /// Takes a response that belongs to no transaction. One to a request that we have forwarded
    /// without state goes back along the flow that our Via names; any other ends here.
    pub(crate) fn handle_stray_response(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        arrival: Flow,
        mut response: Message,
    ) {
        let Some(WayBack {
            flow: back,
            had_to_tag,
        }) = self.way_back(common, &response)
        else {
            return;
        };
        response.remove_first_value(Name::Via);
        common.trust.remove_claims(&mut response, &arrival);
        let identity = &common.identity;
        let answered = self.dialogs.answer(&mut response, identity, Uac::Response);
        if had_to_tag && answered == (Answered::Marked { is_within: true }) {
            // What the request would say of its dialog, the response says.
            self.dialogs.note_response(&response, &response);
        }
        common
            .trust
            .withhold_identity(&mut response, &sip::Target::Flow(back), None);
        common.statistics.responses_passed_on += 1;
        common.transactions.respond_stateless(now, back, response);
    }

    /// The way back that our Via names, where it was given out for the request that is answered.
    fn way_back(&self, common: &CommonState, response: &Message) -> Option<WayBack> {
        let via = response.top_via()?;
        let written = via.parameter(FLOW)?;
        let (token, proof) = written.split_at_checked(written.len().checked_sub(PROOF_LENGTH)?)?;
        let flow = common.tokens.decode(token)?;
        let is_of_request_with = |to_tag: &[u8]| {
            let expected = self
                .dialogs
                .way_back(token, response, to_tag, &common.identity);
            expected.as_str() == proof
        };
        let to_tag = response.to_tag_bytes().unwrap_or_default();
        let had_to_tag = !to_tag.is_empty() && is_of_request_with(to_tag);
        (had_to_tag || is_of_request_with(b"")).then_some(WayBack { flow, had_to_tag })
    }

    /// Writes the way back for the responses to a request.
    fn push_way_back(
        &self,
        common: &CommonState,
        text: &mut String,
        request: &Message,
        arrival: &Flow,
    ) {
        common.tokens.push_to(text, arrival);
        let to_tag = request.to_tag_bytes().unwrap_or_default();
        let proof = self
            .dialogs
            .way_back(text, request, to_tag, &common.identity);
        text.push_str(proof.as_str());
    }

    /// Asks the hooks where a request goes.
    fn ask_stateless_route(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        stateless: &mut StatelessRequest,
        addressee: &Addressee,
    ) -> HookOutcome<RequestAction> {
        if !common.hooks.are_at(Points::ROUTE) {
            return HookOutcome::Continue;
        }
        let choice = next_hop::choice(common, &stateless.request);
        let mut point = RoutePoint {
            request: &mut stateless.request,
            arrival: &stateless.arrival,
            user: None,
            now,
            is_routable: matches!(addressee, Addressee::Routed),
            choice,
            dispatcher: &mut self.groups.dispatcher,
        };
        common.hooks.ask(Points::ROUTE, None, |hook, answer| {
            hook.on_route(&mut point, answer)
        })
    }

    /// Sends a request to where it is for, or finds out where that is.
    fn route_stateless(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        mut stateless: StatelessRequest,
        addressee: Addressee,
    ) {
        strip_credentials(common, &mut stateless.request);
        match self.ask_stateless_route(common, now, &mut stateless, &addressee) {
            // It belongs to no transaction that could wait.
            HookOutcome::Continue | HookOutcome::Park(_) => {}
            HookOutcome::Act(RequestAction::Drop) => return,
            HookOutcome::Act(RequestAction::Refuse(refusal)) => {
                let rejection = refusal.into_rejection();
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection);
                return;
            }
            HookOutcome::Act(RequestAction::Forward(to)) => {
                let uri = stateless.request.request_uri().unwrap_or_default();
                stateless.target = match to {
                    ForwardTo::NextHops(routed) => Some(Target::by_route(uri, routed.next_hops)),
                    // The first: nobody would see it fail.
                    ForwardTo::Targets(groups) => {
                        let first = groups.into_iter().flatten().next();
                        first.map(|uri| Target::as_requested(&uri, None))
                    }
                };
                if stateless.target.is_some() {
                    self.forward_stateless(common, now, stateless);
                    return;
                }
            }
        }
        match addressee {
            Addressee::Requested(target) => {
                stateless.target = Some(target);
                self.forward_stateless(common, now, stateless);
            }
            Addressee::User(address) => {
                let pending = PendingQuery::Stateless(Box::new(stateless));
                if let Err(pending) = common.ask(now, Query::Lookup(address), pending) {
                    self.refuse_pending(common, now, pending);
                }
            }
            Addressee::Registrar | Addressee::Element | Addressee::Routed => {
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &NOT_FOUND);
            }
        }
    }

    /// Sends a request on to its target by the first hop that there is.
    fn forward_stateless(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        mut stateless: StatelessRequest,
    ) {
        let StatelessRequest {
            request,
            received,
            arrival,
            fingerprint,
            is_in_dialog,
            target,
        } = &mut stateless;
        let hop = target
            .as_mut()
            .and_then(|target| target.next_hop().zip(Some(target)));
        let resolved = hop.and_then(|(hop, target)| {
            let resolved = next_hop::resolve(common, request, target, &hop)?;
            Some((resolved, &*target))
        });
        match resolved {
            Some((
                Resolved::Send {
                    to,
                    peer,
                    interface,
                },
                target,
            )) => {
                let (mut branch, mut back) = (String::new(), String::new());
                self.loops.push_branch(&mut branch, request);
                fingerprint.append_to(&mut branch);
                let method = request.method();
                let is_answered = method.is_some_and(|method| *method != Method::Ack);
                if is_answered {
                    self.push_way_back(common, &mut back, request, arrival);
                }
                let from = method
                    .is_some_and(is_record_routed)
                    .then(|| next_hop::arrival_interface(common, request, arrival))
                    .flatten();
                let from = from.as_ref().map(|from| {
                    let mark = self.mark_of_uas(common, request, from, *is_in_dialog);
                    (from, mark)
                });
                let has_breadth =
                    method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel));
                let make = |interface: &Interface| {
                    let how = Forwarding {
                        request_uri: &target.uri,
                        path: &target.path,
                        branch: &branch,
                        offers_alias: common.identity.offers_alias(interface.transport),
                        back: is_answered.then_some((FLOW, &back)),
                        record_route: from,
                        to: interface,
                        max_breadth: max_breadth(request).filter(|_| has_breadth),
                    };
                    forward::copy(request, &how, &common.tokens)
                };
                let mut copy = make(&interface);
                let stream = next_hop::stream_instead(common, copy.wire_length(), &to, &interface);
                // Somebody has to retransmit where only one of the two sides is reliable (section 16.1),
                // and to go back to UDP where TCP is refused (section 18.1.1).
                let needs_state = stream.is_some()
                    || to.transport().is_reliable() != arrival.transport.is_reliable();
                if needs_state && let Some(received) = received.take() {
                    common.statistics.requests -= 1;
                    common.transactions.handle_message(now, *arrival, received);
                    return;
                }
                let to = match stream {
                    Some((to, interface)) => {
                        copy = make(&interface);
                        common.statistics.switched_to_stream += 1;
                        to
                    }
                    None => to,
                };
                common
                    .trust
                    .withhold_identity(&mut copy, &to, peer.as_deref());
                if is_answered {
                    common.statistics.passed_on += 1;
                } else {
                    common.statistics.acknowledgements_forwarded += 1;
                }
                if let Some(method) = method {
                    let written = WrittenRequest {
                        method,
                        branch: &branch,
                        call_id: request.header_bytes(Name::CallId).unwrap_or_default(),
                        octets: copy.to_bytes(),
                    };
                    common
                        .transactions
                        .send_written_stateless(written, to, peer);
                }
            }
            Some((Resolved::Ask(query), _)) => {
                let pending = PendingQuery::Stateless(Box::new(stateless));
                if let Err(pending) = common.ask(now, query, pending) {
                    self.refuse_pending(common, now, pending);
                }
            }
            None => {
                let rejection = Rejection::new(500, "Next Hop Unavailable");
                common.refuse_stateless(now, &stateless.arrival, &stateless.request, &rejection);
            }
        }
    }

    /// Refuses a request that could not be parked.
    fn refuse_pending(&mut self, common: &mut CommonState, now: Instant, pending: PendingQuery) {
        if let PendingQuery::Stateless(stateless) = pending {
            common.refuse_stateless(
                now,
                &stateless.arrival,
                &stateless.request,
                &common.overloaded(),
            );
        }
    }
}
