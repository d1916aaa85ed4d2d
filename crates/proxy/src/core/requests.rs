//! What becomes of a request: refused, answered here, or forwarded (RFC 3261 sections 10.3, 16.3 to
//! 16.5, 16.10).

use std::time::Instant;

use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name, Uri};

use super::binding::{AddressOfRecord, Binding, Bindings};
use super::context::Context;
use super::event::{EndedBy, Event};
use super::gruu::Gruu;
use super::loop_detection::Fingerprint;
use super::policy::{Forking, Mode};
use super::proxy::{Proxy, Waiting};
use super::query::{Answer, Query};
use super::read_uri::ReadUri;
use super::registrar;
use super::rejection::{ALLOWED_METHODS, Rejection};
use super::responses::Final;
use super::stateless::NO_TRANSACTION;
use super::target::{self, Target, Targets};
use super::unproved::add_within;
use super::update::UpdateError;
use super::validation::{self, Verdict};
use super::{redirect, route};
use crate::HostPort;

/// A request that has begun a server transaction, and of which is known where it is for.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) server: ServerId,
    pub(super) arrival: Flow,
    pub(super) received: Instant,
    /// Without the Route values that led it here.
    pub(super) request: Message,
    pub(super) fingerprint: Fingerprint,
    pub(super) bound: Bound,
}

/// Where a request is for, and what is known of it by the way that it came.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) addressee: Addressee,
    /// It belongs to a dialog that has begun through us: it has a tag in To, and the mark of its side in a Route.
    pub(super) is_in_dialog: bool,
}

/// Where a request is for.
#[derive(Debug)]
pub(super) enum Addressee {
    Registrar,
    /// This element itself.
    Element,
    /// A user in a domain of ours.
    User(AddressOfRecord),
    /// Whoever the Route or the Request-URI says.
    Requested(Target),
    /// Whoever a static route says.
    Routed,
}

impl Proxy {
    /// Takes a request that has begun a server transaction.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        server: ServerId,
        arrival: Flow,
        mut request: Message,
        cancels: Option<ServerId>,
    ) {
        self.statistics.requests += 1;
        if request.method() == Some(&Method::Cancel) {
            self.cancel(now, server, &request, cancels);
            return;
        }
        self.note_source(server, &request, &arrival);
        self.remove_claims(&mut request, &arrival);
        let fingerprint = self.loops.fingerprint(&request);
        match self.bound(&mut request, &arrival, fingerprint) {
            Ok(bound) => {
                let taken = Taken {
                    server,
                    arrival,
                    received: now,
                    request,
                    fingerprint,
                    bound,
                };
                self.authenticate(now, taken);
            }
            Err(rejection) => self.refuse(now, server, &request, &rejection),
        }
    }

    /// Brings a request to whom it is for. `confirmation`: what shows its sender that we know the password
    /// too.
    pub(super) fn proceed(&mut self, now: Instant, taken: Taken, confirmation: Option<String>) {
        let Taken {
            server,
            arrival,
            received,
            mut request,
            fingerprint,
            bound,
        } = taken;
        let Bound {
            addressee,
            is_in_dialog,
        } = bound;
        let timeout = self.transaction_config.t1 * 64;
        let context = |request| {
            let mut context = Context::new(received, timeout, request, arrival, fingerprint);
            context.is_in_dialog = is_in_dialog;
            Box::new(context)
        };
        match addressee {
            Addressee::Registrar => {
                self.register(now, received, server, arrival, request, confirmation);
                return;
            }
            Addressee::Element => {
                self.answer(now, server, &request);
                return;
            }
            _ if !self.has_room(request.wire_length()) => {
                self.refuse(now, server, &request, &self.overloaded());
                return;
            }
            _ => self.strip_credentials(&mut request),
        }
        if request.method() == Some(&Method::Register) {
            self.add_path(&mut request, &arrival);
        }
        match addressee {
            Addressee::Registrar | Addressee::Element => {}
            Addressee::User(address) => self.look_up(now, server, context(request), address),
            Addressee::Requested(target) => {
                let mut context = context(request);
                context.begin_only(target);
                self.transactions.set_taken_on(server);
                self.begin(now, server, &context);
                self.drive(now, server, context);
            }
            Addressee::Routed => self.follow_route(now, server, context(request)),
        }
    }

    /// Forwards a request as a static route says, or sends the client there.
    fn follow_route(&mut self, now: Instant, server: ServerId, mut context: Box<Context>) {
        let is_redirected = self.mode(&context.request) == Mode::Redirect;
        let uri = context.request.request_uri().unwrap_or_default();
        let choice = self.choice(&context.request);
        let Some(routed) = self.static_route(now, &context.request, choice) else {
            self.abandon(now, server, &context, &NOT_FOUND);
            return;
        };
        self.begin(now, server, &context);
        if !is_redirected {
            self.transactions.set_taken_on(server);
            let target = Target::by_route(uri, routed.next_hops);
            context.is_responsible = self.is_responsible(&context.request, &context.arrival);
            context.is_routed = true;
            context.begin_only(target);
            self.drive(now, server, context);
            return;
        }
        let Some(contacts) = routed.contacts(uri) else {
            self.abandon(now, server, &context, &NOT_FOUND);
            return;
        };
        let longest = self.longest_answer(&context.request, &context.arrival);
        let mut response = Message::response_to(&context.request, MOVED.0, MOVED.1);
        for (place, contact) in contacts.iter().enumerate() {
            // Each less preferred than the one before (RFC 3261 section 20.10).
            let thousandths = 999 / (place + 1);
            let value = format!("<{contact}>;q=0.{thousandths:03}");
            if !add_within(&mut response, Name::Contact, value, longest) {
                break;
            }
        }
        self.report_final(now, &context, MOVED, Final::Failed(EndedBy::Proxy));
        self.statistics.redirected += 1;
        self.respond(now, server, response);
    }

    /// Goes on with a request for a user when the store has answered.
    pub(super) fn complete_lookup(
        &mut self,
        now: Instant,
        server: ServerId,
        answer: Answer,
        is_timeout: bool,
    ) {
        let Some(mut context) = self.contexts.remove(&server) else {
            return;
        };
        context.lookup = None;
        let rejection = match answer {
            Answer::Bindings(bindings) if self.is_redirected(&context.request) => {
                self.redirect(now, server, &context, &bindings);
                return;
            }
            Answer::Bindings(bindings) => {
                let (request, arrival) = (&context.request, &context.arrival);
                let Some(bindings) = self.bindings_meant(now, request, arrival, bindings) else {
                    self.abandon(now, server, &context, &NOT_FOUND);
                    return;
                };
                let targets = self.targets(now, &context.request, &bindings);
                self.transactions.set_taken_on(server);
                let policy = &self.policy.forwarding;
                let is_watched = context.is_invite() && self.watch_interval().is_some();
                // Where one is tried after the other, nobody runs beside another.
                context.keeps_breadth = is_watched && policy.forking != Forking::Sequential;
                if context.set_targets(targets, policy.forking, policy.maximum_targets) {
                    if is_watched {
                        self.watch(now, server);
                    }
                    self.drive(now, server, context);
                    return;
                }
                unavailable(now, &context.request, &bindings)
            }
            Answer::Unknown => NOT_FOUND,
            _ if is_timeout => Rejection::new(504, "Server Time-out"),
            other => self.store_error(&other),
        };
        self.abandon(now, server, &context, &rejection);
    }

    /// Tells a client where the user is that it has asked for (RFC 3261 section 8.3).
    fn redirect(
        &mut self,
        now: Instant,
        server: ServerId,
        context: &Context,
        bindings: &[Binding],
    ) {
        let longest = self.longest_answer(&context.request, &context.arrival);
        let moved = redirect::moved(now, &context.request, bindings, longest);
        let Some(response) = moved else {
            let is_known = bindings.iter().any(|binding| binding.expires() > now);
            // The only places are the one that was asked for.
            let rejection = match is_known {
                true => NOT_FOUND,
                false => unavailable(now, &context.request, bindings),
            };
            self.abandon(now, server, context, &rejection);
            return;
        };
        self.report_final(now, context, MOVED, Final::Failed(EndedBy::Proxy));
        self.statistics.redirected += 1;
        self.respond(now, server, response);
    }

    /// Refuses a request, whether or not it is being forwarded.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        server: ServerId,
        request: &Message,
        rejection: &Rejection,
    ) {
        self.statistics.refused += 1;
        self.respond(now, server, rejection.response(request));
    }

    /// Checks a request, takes off what led it here, and finds out where it is for.
    pub(super) fn bound(
        &mut self,
        request: &mut Message,
        arrival: &Flow,
        fingerprint: Fingerprint,
    ) -> Result<Bound, Rejection> {
        let mut bound = Bound {
            addressee: Addressee::Element,
            is_in_dialog: false,
        };
        let uri = request.parse_request_uri();
        match validation::check(request, uri.as_ref(), fingerprint, &self.identity)? {
            Verdict::Process => {}
            Verdict::AnswerOptions => return Ok(bound),
        }
        let had_route = request.contains(Name::Route);
        let mut sip_uri = uri.as_ref().and_then(read);
        let is_loose = sip_uri.as_ref().is_some_and(|uri| uri.is_loose);
        let has_maddr = sip_uri.as_ref().is_some_and(|uri| uri.maddr.is_some());
        if !had_route && !is_loose && !has_maddr {
            // Nothing has led it here.
            bound.addressee =
                self.addressee(request, sip_uri.as_ref(), arrival, None, false, true)?;
            return Ok(bound);
        }
        let mut is_readable = true;
        let has_tag = request.to_tag().is_some();
        let own = route::Own {
            identity: &self.identity,
            tokens: &self.tokens,
            known: &self.known_routes,
            marks: &self.dialogs.marks,
        };
        let mut led = route::Led::default();
        if is_loose || has_maddr {
            led = route::preprocess(request, arrival, own, is_loose)?;
            let uri = request.parse_request_uri();
            is_readable = uri.is_some();
            sip_uri = uri.as_ref().and_then(read);
        }
        let led = route::led_by_routes(request, arrival, own, led)?;
        if !is_readable {
            return Err(validation::UNSUPPORTED_SCHEME);
        }
        let lifetime = self.policy.forwarding.dialog_lifetime;
        bound.is_in_dialog =
            had_route && has_tag && self.dialogs.have(request, &led, &self.identity, lifetime);
        // Within a dialog the Routes have led here, and the Request-URI leads on.
        let may_be_routed = !(had_route && has_tag);
        bound.addressee = self.addressee(
            request,
            sip_uri.as_ref(),
            arrival,
            led.along,
            led.has_others,
            may_be_routed,
        )?;
        if bound.is_in_dialog {
            self.dialogs.note_request(request);
        }
        if bound.is_in_dialog && !led.are_known {
            for route in request.values(Name::Route).take(led.routes) {
                self.known_routes.note(route, arrival.local, &self.tokens);
            }
        }
        for _ in 0..led.routes {
            request.remove_first_value(Name::Route);
        }
        Ok(bound)
    }

    /// Where a request is for, beside what has led it here, which is perhaps along a flow. `uri`: its Request-URI, where
    /// that is a SIP URI; `has_route`: a Route leads on; `may_be_routed`: static routes are for it.
    fn addressee(
        &self,
        request: &Message,
        uri: Option<&ReadUri<'_>>,
        arrival: &Flow,
        along: Option<route::Along>,
        has_route: bool,
        may_be_routed: bool,
    ) -> Result<Addressee, Rejection> {
        let text = || request.request_uri().unwrap_or_default();
        if let Some(along) = along
            && !has_route
        {
            let mut target = Target::as_requested(text(), Some(along.flow));
            target.is_edge = along.is_edge;
            return Ok(Addressee::Requested(target));
        }
        if !has_route && may_be_routed && self.has_route_for(request) {
            return Ok(Addressee::Routed);
        }
        let uri = match uri {
            Some(uri) => uri,
            None if has_route => {
                return Ok(Addressee::Requested(Target::as_requested(text(), None)));
            }
            // Nobody here has a telephone number of that kind: the client may try a SIP URI (RFC
            // 3261 section 8.1.3.5).
            None => return Err(validation::UNSUPPORTED_SCHEME),
        };
        let requested = || Ok(Addressee::Requested(Target::at(uri)));
        if uri.maddr.is_some() {
            return requested();
        }
        let has_user = uri.user().is_some_and(|user| !user.is_empty());
        let is_register = request.method() == Some(&Method::Register);
        match self.identity.domain(uri, arrival.local) {
            Some(_) if is_register && has_route => requested(),
            Some(_) if is_register => Ok(Addressee::Registrar),
            Some(domain) if uri.is_gruu || has_user => self
                .user_at(uri, domain)
                .map(Addressee::User)
                .ok_or(NOT_FOUND),
            Some(_) => Ok(Addressee::Element),
            None if !self.identity.is_own_address(uri, arrival.local) => requested(),
            // Our own address, but no domain of ours: there are no users.
            None if has_user || is_register => Err(NOT_FOUND),
            None => Ok(Addressee::Element),
        }
    }

    /// Whom of our users a request is for, by its Request-URI.
    pub(super) fn user_asked_for(
        &self,
        request: &Message,
        arrival: &Flow,
    ) -> Option<AddressOfRecord> {
        let uri = request.parse_request_uri();
        let uri = uri.as_ref().and_then(read)?;
        self.user_at(&uri, self.identity.domain(&uri, arrival.local)?)
    }

    /// The user whom a URI in a domain of ours names.
    fn user_at(&self, uri: &ReadUri<'_>, domain: &HostPort) -> Option<AddressOfRecord> {
        match uri.is_gruu {
            true => self.gruus.read(uri, domain).map(|(address, _)| address),
            false => AddressOfRecord::new(uri, domain),
        }
    }

    /// Whether the Request-URI names somebody here: in a domain of ours, or at an address of ours. Where it has a
    /// `maddr` it is its only target (RFC 3261 section 16.5).
    fn is_responsible(&self, request: &Message, arrival: &Flow) -> bool {
        let uri = request.parse_request_uri();
        uri.as_ref().and_then(read).is_some_and(|uri| {
            uri.maddr.is_none()
                && (self.identity.domain(&uri, arrival.local).is_some()
                    || self.identity.is_own_address(&uri, arrival.local))
        })
    }

    /// Answers a request to this element itself (RFC 3261 sections 8.2.1, 8.2.2.3 and 11.2).
    fn answer(&mut self, now: Instant, server: ServerId, request: &Message) {
        if request.method() != Some(&Method::Options) {
            self.refuse(now, server, request, &Rejection::method_not_allowed());
            return;
        }
        if let Err(rejection) = self.registrar.check_extensions(request) {
            self.refuse(now, server, request, &rejection);
            return;
        }
        // No body that we would read, no encoding, no language to choose.
        let response = Message::response_to(request, 200, "OK")
            .with(Name::Allow, ALLOWED_METHODS)
            .with(Name::Accept, "")
            .with(Name::AcceptEncoding, "identity")
            .with(Name::AcceptLanguage, "en")
            .with(Name::Supported, self.registrar.extensions().join(", "));
        self.respond(now, server, response);
    }

    /// Takes a CANCEL for a request that is known (RFC 3261 sections 9.2 and 16.10). Any other one has
    /// been forwarded without state.
    fn cancel(
        &mut self,
        now: Instant,
        server: ServerId,
        request: &Message,
        cancels: Option<ServerId>,
    ) {
        let Some(cancelled) = cancels else {
            self.refuse(now, server, request, &NO_TRANSACTION);
            return;
        };
        self.respond(now, server, Message::response_to(request, 200, "OK"));
        if self.cancel_authentication(now, cancelled) {
            return;
        }
        let Some(mut context) = self.contexts.remove(&cancelled) else {
            return;
        };
        if context.is_invite() {
            context.is_cancelled = true;
            if let Some(lookup) = context.lookup.take() {
                self.questions.take(lookup);
            }
            self.cancel_branches(now, cancelled, &mut context);
        }
        self.drive(now, cancelled, context);
    }

    /// Asks for the bindings of a user.
    fn look_up(
        &mut self,
        now: Instant,
        server: ServerId,
        mut context: Box<Context>,
        address: AddressOfRecord,
    ) {
        context.is_responsible = true;
        match self.ask(now, Query::Lookup(address), Waiting::Lookup(server)) {
            Ok(id) => {
                context.lookup = Some(id);
                self.begin(now, server, &context);
                self.contexts.insert(server, context);
            }
            Err(_) => self.refuse(now, server, &context.request, &self.overloaded()),
        }
    }

    /// Tells the client of an INVITE that its request is being worked on, and the log that a call
    /// has begun (RFC 3261 section 16.2).
    fn begin(&mut self, now: Instant, server: ServerId, context: &Context) {
        let is_redirected = context.lookup.is_some() && self.is_redirected(&context.request);
        if context.is_invite() && !is_redirected {
            let trying = context.request.trying();
            let transactions = &mut self.transactions;
            transactions.respond_provisionally(now, server, 100, trying);
        }
        if context.begins_call {
            self.statistics.calls_started += 1;
            if self.tells_of_users
                && let Some(call) = context.call()
            {
                self.report(Event::CallStarted(call));
            }
        }
    }

    /// Whether the client is told where a user of ours is. One who asks for an instance is not: the GRUU
    /// may be there to hide that (RFC 5627 section 6.1).
    fn is_redirected(&self, request: &Message) -> bool {
        self.mode(request) == Mode::Redirect && gruu(request).is_none()
    }

    /// The targets of a user's bindings.
    pub(super) fn targets(&self, now: Instant, request: &Message, bindings: &[Binding]) -> Targets {
        let asked = target::Asked {
            is_secure: target::is_for_sips(request),
            has_route: request.contains(Name::Route),
            is_for_instance: gruu(request).is_some(),
        };
        target::targets(bindings, now, asked, |connection| {
            !self.closed.contains(&connection)
        })
    }

    /// Those of a user's bindings that a request is for: all, or where the Request-URI is a GRUU those of
    /// its instance. `None` where it is one that is void (RFC 5627 section 6.1).
    pub(super) fn bindings_meant(
        &self,
        now: Instant,
        request: &Message,
        arrival: &Flow,
        bindings: Bindings,
    ) -> Option<Bindings> {
        let Some(uri) = gruu(request) else {
            return Some(bindings);
        };
        let Some(domain) = self.identity.domain(&uri, arrival.local) else {
            return Some(bindings);
        };
        let (_, gruu) = self.gruus.read(&uri, domain)?;
        let meant: Bindings = bindings
            .iter()
            .filter(|binding| binding.expires() > now && gruu.is_of(binding))
            .cloned()
            .collect();
        let is_void = meant.is_empty() && matches!(gruu, Gruu::Temporary(_));
        (!is_void).then_some(meant)
    }

    /// What a client is told when the store has not done what it was asked.
    pub(super) fn store_error(&self, answer: &Answer) -> Rejection {
        match answer {
            Answer::Refused(UpdateError::TooManyBindings) => registrar::TOO_MANY_CONTACTS,
            Answer::Refused(UpdateError::OutOfOrder) => Rejection::new(500, "CSeq Out Of Order"),
            Answer::Full => self.overloaded(),
            // A change that is not known to be safe has failed (RFC 3261 section 10.3 step 7).
            _ => Rejection::new(500, "Server Internal Error"),
        }
    }
}

/// Whether a URI has a parameter that may be `gr`, be it written with escapes. Most have none, which is seen
/// without reading them.
fn may_be_gruu(uri: &[u8]) -> bool {
    memchr::memchr_iter(b';', uri).any(|at| matches!(uri.get(at + 1), Some(b'g' | b'G' | b'%')))
}

/// The Request-URI, where it names one user agent of a user (RFC 5627 section 3.1).
fn gruu(request: &Message) -> Option<ReadUri<'_>> {
    if !may_be_gruu(request.request_uri_bytes()?) {
        return None;
    }
    let uri = Uri::parse(request.request_uri()?).ok()?;
    read(&uri).filter(|uri| uri.is_gruu)
}

/// A SIP URI, read.
fn read<'a>(uri: &Uri<'a>) -> Option<ReadUri<'a>> {
    uri.as_sip().map(|uri| ReadUri::from(*uri))
}

/// Why a user with these bindings cannot be reached. Where it is for the scheme of the Contacts, a
/// Warning says so (RFC 5630 section 5.3).
pub(super) fn unavailable(now: Instant, request: &Message, bindings: &[Binding]) -> Rejection {
    let rejection = Rejection::new(480, "Temporarily Unavailable");
    let is_secure = target::is_for_sips(request);
    let mut current = bindings
        .iter()
        .filter(|binding| binding.expires() > now)
        .peekable();
    if current.peek().is_none()
        || current.any(|binding| target::is_sips(binding.contact()) == is_secure)
    {
        return rejection;
    }
    rejection.with(
        Name::Warning,
        if is_secure {
            "380 proxy \"SIPS Not Allowed\""
        } else {
            "381 proxy \"SIPS Required\""
        },
    )
}

/// The client is told where else to ask.
const MOVED: (u16, &str) = (302, "Moved Temporarily");

/// Nobody is known by this name here.
pub(super) const NOT_FOUND: Rejection = Rejection::new(404, "Not Found");
