//! What becomes of a request: refused, answered here, or forwarded (RFC 3261 sections 10.3, 16.3 to
//! 16.5, 16.10).

use std::time::Instant;

use sip::transaction::ServerId;
use sip::{Contact, Flow, Message, Method, Name};

use super::Forwarder;
use super::classify::{gruu, unavailable};
use super::next_hop;
use super::redirect;
use super::response_context::ResponseContext;
use super::responses::Final;
use crate::core::amplification::add_within;
use crate::core::binding::{AddressOfRecord, Binding};
use crate::core::common::CommonState;
use crate::core::event::{EndedBy, Event};
use crate::core::forward::path_value;
use crate::core::hook::{ForwardTo, HookOutcome, Points, RequestAction, Resumed, RoutePoint};
use crate::core::incoming::{Addressee, IncomingRequest};
use crate::core::interface::Interface;
use crate::core::pending::PendingQuery;
use crate::core::policy::{Forking, Mode};
use crate::core::query::{Answer, Query};
use crate::core::registrar::registration::{is_first_hop, supports};
use crate::core::rejection::{NOT_FOUND, Rejection};
use crate::core::routing::Routed;
use crate::core::target::{Target, Targets};

impl Forwarder {
    /// Asks the hooks where a request goes.
    pub(crate) fn ask_route(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: &mut IncomingRequest,
        resumed: Option<Resumed>,
    ) -> HookOutcome<RequestAction> {
        if !common.hooks.are_at(Points::ROUTE) {
            return HookOutcome::Continue;
        }
        let choice = next_hop::choice(common, &incoming.request);
        let mut point = RoutePoint {
            request: &mut incoming.request,
            arrival: &incoming.arrival,
            user: incoming.user.as_deref(),
            now,
            is_routable: matches!(incoming.class.addressee, Addressee::Routed),
            choice,
            dispatcher: &mut self.groups.dispatcher,
        };
        common.hooks.ask(Points::ROUTE, resumed, |hook, answer| {
            hook.on_route(&mut point, answer)
        })
    }

    /// Brings a request to whom it is for, who is neither the registrar nor this element.
    pub(crate) fn handle_request(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        incoming: IncomingRequest,
    ) {
        let IncomingRequest {
            server,
            arrival,
            received,
            mut request,
            fingerprint,
            class,
            is_trying,
            forward_to,
            ..
        } = incoming;
        if !common.has_room(request.wire_length()) {
            common.refuse(now, server, &request, &common.overloaded());
            return;
        }
        if request.method() == Some(&Method::Register) {
            add_path(common, &mut request, &arrival);
        }
        let timeout = common.timings.t1 * 64;
        let mut context = Box::new(ResponseContext::new(
            received,
            timeout,
            request,
            arrival,
            fingerprint,
        ));
        context.is_in_dialog = class.is_in_dialog;
        context.is_trying = is_trying;
        match forward_to {
            Some(ForwardTo::NextHops(routed)) => {
                self.follow_route(common, now, server, context, routed);
                return;
            }
            Some(ForwardTo::Targets(groups)) => {
                self.try_targets(common, now, server, context, groups);
                return;
            }
            None => {}
        }
        match class.addressee {
            Addressee::Registrar | Addressee::Element => {}
            Addressee::User(address) => self.look_up(common, now, server, context, address),
            Addressee::Requested(target) => {
                context.begin_only(target);
                common.transactions.set_taken_on(server);
                self.begin(common, now, server, &context);
                self.drive(common, now, server, context);
            }
            Addressee::Routed => self.abandon(common, now, server, &context, &NOT_FOUND),
        }
    }

    /// Forwards a request as a static route says, or sends the client there.
    fn follow_route(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        mut context: Box<ResponseContext>,
        routed: Routed,
    ) {
        let is_redirected = common.policy.mode(&context.request) == Mode::Redirect;
        let uri = context.request.request_uri().unwrap_or_default();
        self.begin(common, now, server, &context);
        if !is_redirected {
            common.transactions.set_taken_on(server);
            let target = Target::by_route(uri, routed.next_hops);
            context.is_responsible =
                self.is_responsible(common, &context.request, &context.arrival);
            context.is_routed = true;
            context.begin_only(target);
            self.drive(common, now, server, context);
            return;
        }
        let Some(contacts) = routed.contacts(uri) else {
            self.abandon(common, now, server, &context, &NOT_FOUND);
            return;
        };
        let longest = common.longest_answer(&context.request, &context.arrival);
        let mut response = Message::response_to(&context.request, MOVED.0, MOVED.1);
        for (place, contact) in contacts.iter().enumerate() {
            // Each less preferred than the one before (RFC 3261 section 20.10).
            let thousandths = 999 / (place + 1);
            let value = format!("<{contact}>;q=0.{thousandths:03}");
            if !add_within(&mut response, Name::Contact, value, longest) {
                break;
            }
        }
        self.report_final(common, now, &context, MOVED, Final::Failed(EndedBy::Proxy));
        common.statistics.redirected += 1;
        common.respond(now, server, response);
    }

    /// Forwards a request to the URIs that a hook has chosen.
    fn try_targets(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        mut context: Box<ResponseContext>,
        groups: Vec<Vec<Box<str>>>,
    ) {
        let target = |uri: Box<str>| Target::as_requested(&uri, None);
        let groups = groups
            .into_iter()
            .map(|group| group.into_iter().map(target).collect());
        let maximum = common.policy.forwarding.maximum_targets;
        let targets = Targets::Groups(groups.collect());
        self.begin(common, now, server, &context);
        context.is_responsible = self.is_responsible(common, &context.request, &context.arrival);
        if context.set_targets(targets, Forking::ByPreference, maximum) {
            common.transactions.set_taken_on(server);
            self.drive(common, now, server, context);
        } else {
            self.abandon(common, now, server, &context, &NOT_FOUND);
        }
    }

    /// Goes on with a request for a user when the store has answered.
    pub(crate) fn complete_lookup(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        answer: Answer,
        is_timeout: bool,
    ) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &server) else {
            return;
        };
        context.lookup = None;
        let rejection = match answer {
            Answer::Bindings(bindings) if self.is_redirected(common, &context.request) => {
                self.redirect(common, now, server, &context, &bindings);
                return;
            }
            Answer::Bindings(bindings) => {
                let (request, arrival) = (&context.request, &context.arrival);
                let Some(bindings) = self.bindings_meant(common, now, request, arrival, bindings)
                else {
                    self.abandon(common, now, server, &context, &NOT_FOUND);
                    return;
                };
                let targets = self.targets(now, &context.request, &bindings);
                common.transactions.set_taken_on(server);
                let policy = &common.policy.forwarding;
                let is_watched = context.is_invite() && self.watch_interval(common).is_some();
                // Where one is tried after the other, nobody runs beside another.
                context.keeps_breadth = is_watched && policy.forking != Forking::Sequential;
                if context.set_targets(targets, policy.forking, policy.maximum_targets) {
                    if is_watched {
                        self.watch(common, now, server);
                    }
                    self.drive(common, now, server, context);
                    return;
                }
                unavailable(now, &context.request, &bindings)
            }
            Answer::Unknown => NOT_FOUND,
            _ if is_timeout => Rejection::new(504, "Server Time-out"),
            other => common.store_error(&other),
        };
        self.abandon(common, now, server, &context, &rejection);
    }

    /// Tells a client where the user is that it has asked for (RFC 3261 section 8.3).
    fn redirect(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &ResponseContext,
        bindings: &[Binding],
    ) {
        let longest = common.longest_answer(&context.request, &context.arrival);
        let moved = redirect::moved(now, &context.request, bindings, longest);
        let Some(response) = moved else {
            let is_known = bindings.iter().any(|binding| binding.expires() > now);
            // The only places are the one that was asked for.
            let rejection = match is_known {
                true => NOT_FOUND,
                false => unavailable(now, &context.request, bindings),
            };
            self.abandon(common, now, server, context, &rejection);
            return;
        };
        self.report_final(common, now, context, MOVED, Final::Failed(EndedBy::Proxy));
        common.statistics.redirected += 1;
        common.respond(now, server, response);
    }

    /// Asks for the bindings of a user.
    fn look_up(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        mut context: Box<ResponseContext>,
        address: AddressOfRecord,
    ) {
        context.is_responsible = true;
        match common.ask(now, Query::Lookup(address), PendingQuery::Lookup(server)) {
            Ok(id) => {
                context.lookup = Some(id);
                self.begin(common, now, server, &context);
                self.contexts.insert(&mut common.held, server, context);
            }
            Err(_) => common.refuse(now, server, &context.request, &common.overloaded()),
        }
    }

    /// Tells the client of an INVITE that its request is being worked on, and the log that a call
    /// has begun (RFC 3261 section 16.2).
    fn begin(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        server: ServerId,
        context: &ResponseContext,
    ) {
        let is_redirected =
            context.lookup.is_some() && self.is_redirected(common, &context.request);
        if context.is_invite() && !is_redirected && !context.is_trying {
            let trying = Message::response_to(&context.request, 100, "Trying");
            common.transactions.respond(now, server, trying);
        }
        if context.begins_call {
            common.statistics.calls_started += 1;
            if common.reports_users
                && let Some(call) = context.call()
            {
                common.report(Event::CallStarted(call));
            }
        }
    }

    /// Whether the client is told where a user of ours is. One who asks for an instance is not: the GRUU
    /// may be there to hide that (RFC 5627 section 6.1).
    fn is_redirected(&self, common: &CommonState, request: &Message) -> bool {
        common.policy.mode(request) == Mode::Redirect && gruu(request).is_none()
    }
}

/// The client is told where else to ask.
const MOVED: (u16, &str) = (302, "Moved Temporarily");

/// Puts us on the path to a user agent that registers elsewhere through us and wants to be reached
/// along its flow (RFC 5626 section 5.1). Only the first proxy on its way can do that.
fn add_path(common: &CommonState, request: &mut Message, arrival: &Flow) {
    let wants_flow = request
        .contacts()
        .flatten()
        .any(|contact| matches!(contact, Contact::Address(contact) if contact.parameters().contains("reg-id")));
    if !wants_flow || !is_first_hop(request) || !supports(request, "path") {
        return;
    }
    if let Some(interface) = Interface::toward(&common.identity, arrival) {
        request.push_front(Name::Path, path_value(&interface, &common.tokens));
    }
}
