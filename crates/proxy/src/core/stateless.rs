//! Forwarding without state (RFC 3261 section 16.11): ACKs to 2xx responses, CANCELs of requests that
//! are not known here (section 16.10), and whatever the policy wants forwarded so.
//!
//! What a stateful proxy remembers is in the message instead. The branch of our Via follows from the
//! request and nothing else, so that a retransmission, a CANCEL or the ACK to a failure has the same
//! one; and the Via has a signed token of the flow that the request came along, which leads the
//! responses back along it. Beside it is a keyed hash of it and of what a response has of its request, which shows that they
//! answer a request that we have forwarded: any other response without a transaction is dropped (RFC 6026 section
//! 7.3). The token alone is in Record-Route URIs, too.

use std::mem;
use std::time::Instant;

use sip::transaction::{WrittenRequest, note_source};
use sip::{Flow, Message, Method, Name};

use super::branches::{self, Resolved};
use super::dialogs::{Answered, Uac};
use super::forward::{self, Copy, Drafts, Forwarding, Side, is_record_routed, max_breadth};
use super::loop_detection::Fingerprint;
use super::policy::Mode;
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query};
use super::rejection::Rejection;
use super::relay::Entitlement;
use super::requests::{Addressee, NOT_FOUND, unavailable};
use super::target::Target;

/// A request that is on its way without state, and waits for an answer to a question.
#[derive(Debug)]
pub(super) struct Passing {
    /// The request, without the Route values that led it here.
    request: Message,
    /// As it came, where it may turn out that it has to be forwarded with state.
    received: Option<Message>,
    arrival: Flow,
    fingerprint: Fingerprint,
    is_in_dialog: bool,
    target: Option<Target>,
}

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

impl Passing {
    /// The length of what is held.
    pub(super) fn octets(&self) -> usize {
        self.request.wire_length()
    }
}

impl Proxy {
    /// Whether a request goes past the transactions: it is to be forwarded without state, and belongs
    /// to none. An ACK does too where the transaction layer does not keep it.
    pub(super) fn is_stateless(&mut self, request: &Message) -> bool {
        let is_wanted = match request.method() {
            None | Some(Method::Ack) => false,
            Some(Method::Cancel) => true,
            Some(_) => self.mode(request) == Mode::Stateless,
        };
        is_wanted && !self.transactions.knows(request)
    }

    /// Takes a request that goes past the transactions. What is for the registrar or for this element
    /// gets one nonetheless, since it is answered here, and so does what has to prove who has sent it.
    pub(super) fn handle_stateless(&mut self, now: Instant, arrival: Flow, received: Message) {
        let mut request = received.clone();
        note_source(&mut request, &arrival);
        self.remove_claims(&mut request, &arrival);
        let fingerprint = self.loops.fingerprint(&request);
        let is_cancel = request.method() == Some(&Method::Cancel);
        let bound = self.bound(&mut request, &arrival, fingerprint);
        let (is_answered_here, is_denied) = match &bound {
            Ok(bound) => match self.entitlement(&request, &arrival, bound) {
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
            self.transactions.handle_message(now, arrival, received);
            self.process_transaction_events(now);
            return;
        }
        self.statistics.requests += 1;
        let passing = Passing {
            request,
            received: (!is_cancel).then_some(received),
            arrival,
            fingerprint,
            is_in_dialog: bound.as_ref().is_ok_and(|bound| bound.is_in_dialog),
            target: None,
        };
        match bound.map(|bound| bound.addressee) {
            Ok(_) if is_denied => {
                let rejection = self.deny_relay();
                self.refuse_passing(now, &passing, &rejection);
            }
            // What such a CANCEL could end was answered by us, and is over.
            Ok(Addressee::Registrar | Addressee::Element) => {
                self.refuse_passing(now, &passing, &NO_TRANSACTION);
            }
            Ok(addressee) => self.pass_on(now, passing, addressee),
            Err(rejection) => self.refuse_passing(now, &passing, &rejection),
        }
    }

    /// Takes an ACK that is no transaction's: to a 2xx, to what another element has answered, or to a
    /// response that we gave without a transaction, which ends here.
    pub(super) fn handle_acknowledgement(
        &mut self,
        now: Instant,
        arrival: Flow,
        mut request: Message,
    ) {
        if self.has_our_tag(&request) {
            return;
        }
        self.remove_claims(&mut request, &arrival);
        let fingerprint = self.loops.fingerprint(&request);
        let bound = self.bound(&mut request, &arrival, fingerprint);
        let is_denied = bound.as_ref().is_ok_and(|bound| {
            let entitlement = self.entitlement(&request, &arrival, bound);
            matches!(entitlement, Entitlement::None)
        });
        let passing = Passing {
            request,
            received: None,
            arrival,
            fingerprint,
            is_in_dialog: bound.as_ref().is_ok_and(|bound| bound.is_in_dialog),
            target: None,
        };
        match bound {
            Ok(_) if is_denied => {
                let rejection = self.deny_relay();
                self.refuse_passing(now, &passing, &rejection);
            }
            Ok(bound) => self.pass_on(now, passing, bound.addressee),
            Err(rejection) => self.refuse_passing(now, &passing, &rejection),
        }
    }

    /// Goes on with a request when it is known where to.
    pub(super) fn resume_passing(
        &mut self,
        now: Instant,
        mut passing: Passing,
        answer: Answer,
        is_timeout: bool,
    ) {
        if let Some(target) = &mut passing.target {
            branches::add_next_hops(target, answer);
            self.forward_passing(now, passing);
            return;
        }
        let rejection = match answer {
            Answer::Bindings(bindings) => {
                let Passing {
                    request, arrival, ..
                } = &passing;
                let Some(bindings) = self.bindings_meant(now, request, arrival, bindings) else {
                    self.refuse_passing(now, &passing, &NOT_FOUND);
                    return;
                };
                // The most preferred, of equal ones that which was registered first: the choice is
                // the same for a retransmission.
                let targets = self.targets(now, &passing.request, &bindings);
                if let Some(target) = targets.into_first() {
                    passing.target = Some(target);
                    self.forward_passing(now, passing);
                    return;
                }
                unavailable(now, &passing.request, &bindings)
            }
            Answer::Unknown => NOT_FOUND,
            _ if is_timeout => Rejection::new(504, "Server Time-out"),
            other => self.store_error(&other),
        };
        self.refuse_passing(now, &passing, &rejection);
    }

    /// Takes a response that belongs to no transaction. One to a request that we have forwarded
    /// without state goes back along the flow that our Via names; any other ends here.
    pub(super) fn handle_stray_response(
        &mut self,
        now: Instant,
        arrival: Flow,
        mut response: Message,
    ) {
        let Some(WayBack {
            flow: back,
            had_to_tag,
        }) = self.way_back(&response)
        else {
            return;
        };
        response.remove_first_value(Name::Via);
        self.remove_claims(&mut response, &arrival);
        let identity = &self.identity;
        let answered = self.dialogs.answer(&mut response, identity, Uac::Response);
        if had_to_tag && answered == (Answered::Marked { is_within: true }) {
            // What the request would say of its dialog, the response says.
            self.dialogs.note_response(&response, &response);
        }
        self.withhold_identity(&mut response, &sip::Target::Flow(back), None);
        self.statistics.responses_passed_on += 1;
        self.transactions.respond_stateless(now, back, response);
    }

    /// The way back that our Via names, where it was given out for the request that is answered.
    fn way_back(&self, response: &Message) -> Option<WayBack> {
        let via = response.top_via()?;
        let written = via.parameter(FLOW)?;
        let (token, proof) = written.split_at_checked(written.len().checked_sub(PROOF_LENGTH)?)?;
        let flow = self.tokens.decode(token)?;
        let is_of_request_with = |to_tag: &[u8]| {
            let expected = self
                .dialogs
                .way_back(token, response, to_tag, &self.identity);
            expected.as_str() == proof
        };
        let to_tag = response.to_tag_bytes().unwrap_or_default();
        let had_to_tag = !to_tag.is_empty() && is_of_request_with(to_tag);
        (had_to_tag || is_of_request_with(b"")).then_some(WayBack { flow, had_to_tag })
    }

    /// Writes the way back for the responses to a request.
    fn push_way_back(&self, text: &mut String, request: &Message, arrival: &Flow) {
        self.tokens.push_to(text, arrival);
        let to_tag = request.to_tag_bytes().unwrap_or_default();
        let proof = self.dialogs.way_back(text, request, to_tag, &self.identity);
        text.push_str(proof.as_str());
    }

    /// Sends a request to where it is for, or finds out where that is.
    fn pass_on(&mut self, now: Instant, mut passing: Passing, addressee: Addressee) {
        self.strip_credentials(&mut passing.request);
        match addressee {
            Addressee::Requested(target) => {
                passing.target = Some(target);
                self.forward_passing(now, passing);
            }
            Addressee::User(address) => {
                let waiting = Waiting::Passing(Box::new(passing));
                if let Err(waiting) = self.ask(now, Query::Lookup(address), waiting) {
                    self.refuse_waiting(now, waiting);
                }
            }
            Addressee::Routed => {
                let choice = self.choice(&passing.request);
                let Some(routed) = self.static_route(now, &passing.request, choice) else {
                    self.refuse_passing(now, &passing, &NOT_FOUND);
                    return;
                };
                let uri = passing.request.request_uri().unwrap_or_default();
                passing.target = Some(Target::by_route(uri, routed.next_hops));
                self.forward_passing(now, passing);
            }
            Addressee::Registrar | Addressee::Element => {
                self.refuse_passing(now, &passing, &NOT_FOUND);
            }
        }
    }

    /// Sends a request on to its target by the first way that there is.
    fn forward_passing(&mut self, now: Instant, mut passing: Passing) {
        let Passing {
            request,
            received,
            arrival,
            fingerprint,
            is_in_dialog,
            target,
        } = &mut passing;
        let way = target
            .as_mut()
            .and_then(|target| target.next_way().zip(Some(target)));
        let resolved = way.and_then(|(way, target)| {
            let resolved = self.resolve(request, target, &way)?;
            Some((resolved, &*target))
        });
        match resolved {
            Some((Resolved::Send { to, peer, side }, target)) => {
                let Drafts {
                    mut lines,
                    mut branch,
                    mut back,
                } = mem::take(&mut self.drafts);
                back.clear();
                branch.clear();
                self.loops.push_branch(&mut branch, request);
                fingerprint.append_to(&mut branch);
                let method = request.method();
                let is_answered = method.is_some_and(|method| *method != Method::Ack);
                if is_answered {
                    self.push_way_back(&mut back, request, arrival);
                }
                let from = method
                    .is_some_and(is_record_routed)
                    .then(|| self.arrival_side(request, arrival))
                    .flatten();
                let from = from.as_ref().map(|from| {
                    let mark = self.mark_of_uas(request, from, *is_in_dialog);
                    (from, mark)
                });
                let has_breadth =
                    method.is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel));
                let mut make = |side: &Side| {
                    let how = Forwarding {
                        request_uri: &target.uri,
                        path: &target.path,
                        branch: &branch,
                        offers_alias: self.identity.offers_alias(side.transport),
                        back: is_answered.then_some((FLOW, &back)),
                        record_route: from,
                        to: side,
                        max_breadth: max_breadth(request).filter(|_| has_breadth),
                    };
                    forward::copy(request, &how, &self.tokens, &mut lines)
                };
                let mut copy = make(&side);
                let stream = self.stream_instead(copy.wire_length(), &to, &side);
                // Somebody has to retransmit where only one of the two sides is reliable (section 16.1),
                // and to go back to UDP where TCP is refused (section 18.1.1).
                let needs_state = stream.is_some()
                    || to.transport().is_reliable() != arrival.transport.is_reliable();
                if needs_state && let Some(received) = received.take() {
                    self.drafts = Drafts {
                        lines,
                        branch,
                        back,
                    };
                    self.statistics.requests -= 1;
                    self.transactions.handle_message(now, *arrival, received);
                    self.process_transaction_events(now);
                    return;
                }
                let to = match stream {
                    Some((to, side)) => {
                        copy = make(&side);
                        self.statistics.switched_to_stream += 1;
                        to
                    }
                    None => to,
                };
                if let Copy::Message(message) = &mut copy {
                    self.withhold_identity(message, &to, peer.as_deref());
                }
                if is_answered {
                    self.statistics.passed_on += 1;
                } else {
                    self.statistics.acknowledgements_forwarded += 1;
                }
                if let Some(method) = method {
                    let written = WrittenRequest {
                        method,
                        branch: &branch,
                        call_id: request.header_bytes(Name::CallId).unwrap_or_default(),
                        octets: copy.into_octets(),
                    };
                    self.transactions.send_written_stateless(written, to, peer);
                }
                self.drafts = Drafts {
                    lines,
                    branch,
                    back,
                };
            }
            Some((Resolved::Ask(query), _)) => {
                let waiting = Waiting::Passing(Box::new(passing));
                if let Err(waiting) = self.ask(now, query, waiting) {
                    self.refuse_waiting(now, waiting);
                }
            }
            None => {
                let rejection = Rejection::new(500, "Next Hop Unavailable");
                self.refuse_passing(now, &passing, &rejection);
            }
        }
    }

    /// Refuses a request that could not be parked.
    fn refuse_waiting(&mut self, now: Instant, waiting: Waiting) {
        if let Waiting::Passing(passing) = waiting {
            self.refuse_passing(now, &passing, &self.overloaded());
        }
    }

    /// Answers a request as a user agent server without state does (section 8.2.7): the same answer to
    /// each retransmission, none to an ACK.
    fn refuse_passing(&mut self, now: Instant, passing: &Passing, rejection: &Rejection) {
        if passing.request.method() == Some(&Method::Ack) {
            self.statistics.acknowledgements_dropped += 1;
            return;
        }
        self.statistics.refused += 1;
        if !self.may_refuse_stateless(now, &passing.arrival, &passing.request) {
            return;
        }
        let response = self.tagged(rejection.response(&passing.request));
        self.transactions
            .respond_stateless(now, passing.arrival, response);
    }
}

/// For a CANCEL of what is not there (RFC 3261 section 9.2).
pub(super) const NO_TRANSACTION: Rejection = Rejection::new(481, "Call/Transaction Does Not Exist");
