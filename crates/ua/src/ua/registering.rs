//! Registrations (RFC 3261 section 10, RFC 3327, RFC 3608), each along a flow that is kept alive (RFC 5626), and GRUUs
//! (RFC 5627).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::RngExt;
use sip::{ConnectionId, Contact, Flow, Message, Name, NameAddr, Target, Transmit, Transport, Uri};

use super::sending::{Parked, Purpose};
use super::{RegistrationState, Ua};
use crate::account::{Ask, FlowState, Register};
use crate::call::Stage;
use crate::event::{AccountId, UaEvent};
use crate::keep_alive::{Due, KeepAlive};
use crate::route::Route;

/// After a failure it is tried again between half of this time and all of it, twice as long after each further one (RFC 5626
/// section 4.5): where no other flow is registered, and where one is.
const BASE_TIME: Duration = Duration::from_secs(30);
const BASE_TIME_WITH_ANOTHER: Duration = Duration::from_secs(90);
const MAX_TIME: Duration = Duration::from_secs(1_800);
/// Routes that a registrar may tell, and bindings that are told.
const MAX_SERVICE_ROUTES: usize = 8;
const MAX_BINDINGS: usize = 64;
/// The longest Retry-After that is followed, in seconds.
const MAX_RETRY_AFTER: u64 = 3_600;

impl Ua {
    /// Registers an account and keeps it registered; also one that is registered already.
    pub fn register(&mut self, now: Instant, account: AccountId) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        known.is_wanted = true;
        // A further flow is formed when the registrar has said that it keeps flows apart, or when the one before has failed.
        let begun = |flow: &usize| {
            let state = known.flows.get(*flow).map(|flow| flow.state);
            *flow == 0 || state != Some(FlowState::Idle)
        };
        let flows: Vec<usize> = (0..known.flows.len()).filter(begun).collect();
        for flow in flows {
            self.ask_registrar(now, account, flow, Ask::Bind);
        }
    }

    /// Takes the registration of an account back.
    pub fn unregister(&mut self, now: Instant, account: AccountId) {
        for flow in self.stop_registering(account) {
            self.ask_registrar(now, account, flow, Ask::Unbind);
        }
    }

    /// Takes all registrations of the user back, those of other devices, too.
    pub fn unregister_all(&mut self, now: Instant, account: AccountId) {
        let flow = self.stop_registering(account).into_iter().next();
        self.ask_registrar(now, account, flow.unwrap_or(0), Ask::UnbindAll);
    }

    /// Asks where a user is registered; the answer is [`UaEvent::Bindings`].
    pub fn fetch_bindings(&mut self, now: Instant, account: AccountId) {
        let flow = self.accounts.get(&account).map(|it| it.working_flow());
        self.ask_registrar(now, account, flow.unwrap_or(0), Ask::Fetch);
    }

    /// A pong came, or a datagram that may be a STUN response (RFC 5626 section 4.4).
    pub fn handle_keep_alive(&mut self, now: Instant, flow: &Flow, payload: &[u8]) {
        let mut failed = Vec::new();
        for (id, account) in &mut self.accounts {
            for (place, known) in account.flows.iter_mut().enumerate() {
                if !known.is_along(flow) {
                    continue;
                }
                let Some(keep_alive) = &mut known.keep_alive else {
                    continue;
                };
                if flow.transport != Transport::Udp {
                    keep_alive.handle_pong(now, &mut self.rng);
                } else if keep_alive.handle_stun(now, payload, &mut self.rng).is_err() {
                    failed.push((*id, place));
                }
            }
        }
        for (account, flow) in failed {
            self.flow_failed(now, account, flow);
        }
    }

    /// A connection or association is gone: the flow along it has failed.
    pub fn handle_connection_closed(&mut self, now: Instant, connection: ConnectionId) {
        let mut failed = Vec::new();
        for (id, account) in &self.accounts {
            for (place, flow) in account.flows.iter().enumerate() {
                if flow.connection() == Some(connection) && flow.keep_alive.is_some() {
                    failed.push((*id, place));
                }
            }
        }
        for (account, flow) in failed {
            self.flow_failed(now, account, flow);
        }
    }

    /// Packets to this address leave from another address of ours than before, since the host was given one or lost one: what
    /// is registered along that way is bound anew, and what has failed is tried at once, since the network may have been the
    /// reason. A call of ours to which nobody has responded is made once more if it is lost with its connection. Calls that are
    /// answered need an [offer](Ua::offer), which tells the new address, too.
    pub fn handle_address_change(&mut self, now: Instant, remote: SocketAddr) {
        let mut moved = Vec::new();
        for (id, account) in &mut self.accounts {
            let is_wanted = account.is_wanted;
            for (place, flow) in account.flows.iter_mut().enumerate() {
                let goes_there = |route: &Route| route.target.remote() == remote;
                let has_moved = flow.route.as_ref().is_some_and(goes_there);
                let has_failed = flow.state == FlowState::Failed && flow.due.is_some();
                if is_wanted && (has_moved || has_failed) {
                    // Another way is asked for, and that one is kept alive.
                    (flow.route, flow.keep_alive, flow.due) = (None, None, None);
                    flow.was_too_brief = false;
                    moved.push((*id, place));
                }
            }
        }
        for sent in self.sent.values() {
            if let Purpose::Invite(number) = sent.purpose
                && sent.route.target.remote() == remote
                && let Some(call) = self.calls.get_mut(&number)
                && let Stage::Calling(outgoing) = &mut call.stage
            {
                outgoing.has_moved = true;
            }
        }
        for (account, flow) in moved {
            let register = Register {
                account,
                flow,
                ask: Ask::Bind,
            };
            // What left from the address before may never be answered, and says nothing any more.
            self.sent
                .retain(|_, sent| sent.purpose != Purpose::Register(register));
            self.ask_registrar(now, account, flow, Ask::Bind);
        }
    }

    /// A connection whose flow has failed: it is to be closed, so that a new one is opened.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        self.closing.pop_front()
    }

    /// Keep-alives, renewals and attempts that are due.
    pub(super) fn registration_timeout(&mut self, now: Instant, account: AccountId) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        known.expire(now);
        let (mut failed, mut due) = (Vec::new(), Vec::new());
        for (place, flow) in known.flows.iter_mut().enumerate() {
            let keep_alive = flow.keep_alive.as_mut();
            match keep_alive.map_or(Due::Nothing, |it| it.handle_timeout(now, &mut self.rng)) {
                Due::Nothing => {}
                Due::Failed => failed.push(place),
                Due::Ping(payload) => {
                    if let Some(route) = &flow.route {
                        self.pings.push_back(ping(route, payload));
                    }
                }
            }
            if flow.due.is_some_and(|at| at <= now) {
                flow.due = None;
                due.push(place);
            }
        }
        let is_wanted = known.is_wanted;
        for flow in failed {
            self.flow_failed(now, account, flow);
        }
        for flow in due.into_iter().filter(|_| is_wanted) {
            self.ask_registrar(now, account, flow, Ask::Bind);
        }
    }

    pub(super) fn send_register(&mut self, now: Instant, register: Register, route: Route) {
        let Register { account, flow, ask } = register;
        let mut writer = self.writer(account, &route);
        let cnonce = self.new_tag();
        let instance = self.config.instance.clone();
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let Some(registrar) = registrar(&known.config.address_of_record) else {
            return self.registration_failed(now, register, 416, "Unsupported URI Scheme", None);
        };
        let expires = match ask {
            Ask::Bind => known.config.expires.max(known.least_expires),
            Ask::Unbind | Ask::UnbindAll | Ask::Fetch => 0,
        };
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        let series = its
            .series
            .get_or_insert_with(|| writer.registration(registrar));
        let mut request = writer.register(series, expires);
        let has_moved = its.contact.as_deref() != Some(writer.contact());
        match (ask, instance) {
            (Ask::Fetch, _) => {
                request.remove_all(Name::Contact);
                request.remove_all(Name::Expires);
            }
            (Ask::UnbindAll, _) => request.replace(Name::Contact, "*"),
            (Ask::Bind | Ask::Unbind, None) => {}
            (Ask::Bind | Ask::Unbind, Some(instance)) => {
                let mut contact = format!("<{}>;+sip.instance=\"<{instance}>\"", writer.contact());
                if !known.lacks_outbound {
                    contact += &format!(";reg-id={}", flow + 1);
                }
                request.replace(Name::Contact, contact);
            }
        }
        // A registrar that keeps flows apart puts the new URI in the place of the old one (RFC 5626 section 6); others bind
        // both, unless they are told (RFC 3261 section 10.2.2). Who takes the registration back before the new URI is known to
        // be bound takes both back.
        if let (Ask::Bind | Ask::Unbind, false, Some(before)) =
            (ask, known.is_outbound, &its.contact)
            && has_moved
        {
            request.push_back(Name::Contact, format!("<{before}>;expires=0"));
        }
        if let Some(credentials) = &known.config.credentials {
            its.proofs.write(&mut request, credentials, &cnonce);
        }
        if ask == Ask::Bind {
            its.route = Some(route.clone());
            if its.state != FlowState::Registered {
                its.state = FlowState::Asked;
            }
        }
        self.finish_request(account, &mut request);
        self.send(now, Purpose::Register(register), account, request, route, 0);
    }

    pub(super) fn handle_registered(
        &mut self,
        now: Instant,
        register: Register,
        sent: &Message,
        response: &Message,
    ) {
        let Register { account, flow, ask } = register;
        let status = response.status().unwrap_or(0);
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        if ask == Ask::Bind && known.is_wanted {
            let number = |name| response.header(name)?.trim().parse::<u32>().ok();
            let least = number(Name::MinExpires).filter(|least| *least > known.least_expires);
            match (status, least) {
                // Interval Too Brief. A registrar that asks for more each time does not keep us busy.
                (423, Some(least)) if !std::mem::replace(&mut its.was_too_brief, true) => {
                    known.least_expires = least;
                    return self.ask_registrar(now, account, flow, Ask::Bind);
                }
                // First Hop Lacks Outbound Support.
                (439, _) if !std::mem::replace(&mut known.lacks_outbound, true) => {
                    return self.ask_registrar(now, account, flow, Ask::Bind);
                }
                _ => {}
            }
        }
        if !(200..300).contains(&status) {
            let reason = response.reason().unwrap_or_default().to_owned();
            let retry_after = retry_after(response);
            return self.registration_failed(now, register, status, &reason, retry_after);
        }
        match ask {
            Ask::Bind if known.is_wanted => self.bound(now, account, flow, sent, response),
            // It was taken back meanwhile: once more, if the registrar heard of that first.
            Ask::Bind => {
                if its.state == FlowState::Idle {
                    self.ask_registrar(now, account, flow, Ask::Unbind);
                }
            }
            Ask::Unbind | Ask::UnbindAll => {
                if !known.is_wanted {
                    let flows = known.flows.iter_mut().enumerate();
                    for (place, its) in flows {
                        if place == flow || ask == Ask::UnbindAll {
                            (its.state, its.bound_until) = (FlowState::Idle, None);
                            (its.keep_alive, its.contact) = (None, None);
                        }
                    }
                }
                known.expire(now);
                if !known.is_wanted && !known.is_bound() {
                    let state = RegistrationState::Unregistered;
                    self.emit(UaEvent::Registration { account, state });
                }
            }
            Ask::Fetch => {
                let contacts = response.contacts().flatten().take(MAX_BINDINGS);
                let contacts = contacts.filter_map(|contact| match contact {
                    Contact::Address(address) => Some(address.uri().to_owned()),
                    Contact::All => None,
                });
                let contacts = contacts.collect();
                self.emit(UaEvent::Bindings { account, contacts });
            }
        }
    }

    /// The registrar has bound our contact.
    fn bound(
        &mut self,
        now: Instant,
        account: AccountId,
        flow: usize,
        sent: &Message,
        response: &Message,
    ) {
        let instance = self.config.instance.as_deref();
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        (its.failures, its.was_too_brief) = (0, false);
        its.state = FlowState::Registered;
        its.contact = first_contact(sent).map(|contact| contact.uri().to_owned());
        its.service_route = response
            .text_values(Name::ServiceRoute)
            .take(MAX_SERVICE_ROUTES)
            .map(str::to_owned)
            .collect();
        let ours = our_binding(sent, response, instance, flow);
        let asked = sent.expires().unwrap_or(0);
        let expires = ours.as_ref().and_then(NameAddr::expires);
        let expires = expires.or_else(|| response.expires()).unwrap_or(asked);
        let expires = expires.max(1);
        // The renewal is over before the binding ends (RFC 5627 section 4.2).
        let early = if expires > 64 { 32 } else { expires / 2 };
        its.due = Some(now + Duration::from_secs(u64::from(expires - early)));
        its.bound_until = Some(now + Duration::from_secs(u64::from(expires)));
        let is_outbound = instance.is_some() && names(response, Name::Require, "outbound");
        let timer = response.header(Name::FlowTimer);
        let timer = timer.and_then(|value| value.trim().parse().ok());
        its.keep_alive = match (is_outbound, &its.route, its.keep_alive.take()) {
            (false, ..) | (_, None, _) => None,
            (true, Some(_), Some(mut running)) => {
                running.renewed(now, timer, &mut self.rng);
                Some(running)
            }
            (true, Some(route), None) => {
                let transport = route.target.transport();
                Some(KeepAlive::new(now, transport, timer, &mut self.rng))
            }
        };
        known.is_outbound = is_outbound;
        if let Some(ours) = ours {
            known.public_gruu = gruu(&ours, "pub-gruu");
            // The latest one; earlier ones stay valid (RFC 5627 section 4.2).
            known.temporary_gruu = gruu(&ours, "temp-gruu").or(known.temporary_gruu.take());
        }
        let flows = known.registered_flows();
        let state = RegistrationState::Registered { expires, flows };
        self.emit(UaEvent::Registration { account, state });
        if is_outbound {
            self.form_next_flow(now, account, flow);
        }
    }

    /// A REGISTER was refused, or nobody answered it.
    pub(super) fn registration_failed(
        &mut self,
        now: Instant,
        register: Register,
        status: u16,
        reason: &str,
        retry_after: Option<Duration>,
    ) {
        let Register { account, flow, ask } = register;
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let reason = reason.to_owned();
        if ask == Ask::Fetch {
            // That says nothing of the registration.
            return self.emit(UaEvent::BindingsFailed {
                account,
                status,
                reason,
            });
        }
        if ask != Ask::Bind || !known.is_wanted {
            if let Some(its) = known.flows.get_mut(flow) {
                its.state = FlowState::Idle;
                if !known.is_wanted {
                    its.keep_alive = None;
                }
            }
            let state = RegistrationState::Failed { status, reason };
            return self.emit(UaEvent::Registration { account, state });
        }
        let has_another = known.flows.iter().enumerate();
        let has_another = has_another
            .filter(|(place, _)| *place != flow)
            .any(|(_, other)| other.state == FlowState::Registered);
        let base = match has_another {
            true => BASE_TIME_WITH_ANOTHER,
            false => BASE_TIME,
        };
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        its.state = FlowState::Failed;
        its.was_too_brief = false;
        its.failures = its.failures.saturating_add(1);
        (its.keep_alive, its.route) = (None, None);
        let upper = base.saturating_mul(1 << its.failures.min(10)).min(MAX_TIME);
        let wait = upper.mul_f64(self.rng.random_range(0.5..=1.0));
        its.due = Some(now + wait.max(retry_after.unwrap_or_default()));
        let is_over = known
            .flows
            .iter()
            .all(|flow| flow.state == FlowState::Failed);
        let state = match is_over {
            true => RegistrationState::Failed { status, reason },
            false => RegistrationState::FlowFailed {
                flow,
                flows: known.registered_flows(),
            },
        };
        self.emit(UaEvent::Registration { account, state });
        self.form_next_flow(now, account, flow);
    }

    /// A flow that was registered does not work any more: a new one takes its place (RFC 5626 section 4.5).
    fn flow_failed(&mut self, now: Instant, account: AccountId, flow: usize) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        let Some(keep_alive) = its.keep_alive.take() else {
            return;
        };
        if let Some(route) = &its.route
            && route.target.transport() != Transport::Udp
        {
            self.closing.extend(its.connection());
        }
        if !known.is_wanted {
            // It is being taken back.
            return;
        }
        if !keep_alive.was_answered() {
            // It has never been of use: that is one more failure.
            let register = Register {
                account,
                flow,
                ask: Ask::Bind,
            };
            return self.registration_failed(now, register, 408, "Request Timeout", None);
        }
        (its.state, its.route, its.due) = (FlowState::Asked, None, None);
        let flows = known.registered_flows();
        let state = RegistrationState::FlowFailed { flow, flows };
        self.emit(UaEvent::Registration { account, state });
        self.ask_registrar(now, account, flow, Ask::Bind);
    }

    fn form_next_flow(&mut self, now: Instant, account: AccountId, flow: usize) {
        let next = flow + 1;
        let known = self.accounts.get(&account);
        let next_flow = known.and_then(|account| account.flows.get(next));
        if next_flow.is_some_and(|next| next.state == FlowState::Idle) {
            self.ask_registrar(now, account, next, Ask::Bind);
        }
    }

    fn ask_registrar(&mut self, now: Instant, account: AccountId, flow: usize, ask: Ask) {
        let Some(known) = self.accounts.get_mut(&account) else {
            return;
        };
        let register = Register { account, flow, ask };
        let proxy = known.config.outbound_proxies.get(flow).cloned();
        let uri = proxy.or_else(|| registrar(&known.config.address_of_record));
        let Some(its) = known.flows.get_mut(flow) else {
            return;
        };
        if ask == Ask::Bind && its.state == FlowState::Idle {
            its.state = FlowState::Asked;
        }
        // A binding is renewed along its flow (RFC 5626 section 4.2.2).
        let kept = its.keep_alive.as_ref().and(its.route.clone());
        match (kept, uri) {
            (Some(route), _) => self.send_register(now, register, route),
            (None, Some(uri)) => self.park(now, &uri, Parked::Register(register)),
            (None, None) => {
                self.registration_failed(now, register, 416, "Unsupported URI Scheme", None);
            }
        }
    }

    /// Nothing is renewed any more; which flows have to be taken back.
    fn stop_registering(&mut self, account: AccountId) -> Vec<usize> {
        let Some(known) = self.accounts.get_mut(&account) else {
            return Vec::new();
        };
        known.is_wanted = false;
        let mut begun = Vec::new();
        for (place, flow) in known.flows.iter_mut().enumerate() {
            flow.due = None;
            if place == 0 || flow.state != FlowState::Idle {
                begun.push(place);
            }
        }
        begun
    }
}

/// A keep-alive along the way of a registration, and no other way.
fn ping(route: &Route, payload: bytes::Bytes) -> Transmit {
    let target = match route.target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => Target::Flow(flow),
        address @ Target::Address(..) => address,
    };
    Transmit {
        target,
        peer: None,
        payload,
        call: 0,
        transaction: None,
    }
}

/// The registrar of an address of record: its URI without user (RFC 3261 section 10.2).
fn registrar(address_of_record: &str) -> Option<String> {
    let uri = Uri::parse(address_of_record).ok()?;
    let uri = uri.as_sip()?;
    let scheme = if uri.is_secure() { "sips" } else { "sip" };
    let text = uri.without_headers();
    let rest = match text.split_once('@') {
        Some((_, rest)) => rest,
        None => text.split_once(':')?.1,
    };
    Some(format!("{scheme}:{rest}"))
}

/// The binding of this flow in the response to a REGISTER: by its instance and flow, or by its URI.
fn our_binding<'a>(
    sent: &Message,
    response: &'a Message,
    instance: Option<&str>,
    flow: usize,
) -> Option<NameAddr<'a>> {
    let addresses = |message: &'a Message| {
        let contacts = message.contacts().flatten();
        contacts.filter_map(|contact| match contact {
            Contact::Address(address) => Some(address),
            Contact::All => None,
        })
    };
    let by_instance = instance.and_then(|instance| {
        addresses(response).find(|address| {
            let named = address.parameter("+sip.instance").map(unquoted);
            let is_ours = named.is_some_and(|named| {
                named
                    .trim_matches(['<', '>'])
                    .eq_ignore_ascii_case(instance)
            });
            let number = address.parameter("reg-id");
            is_ours && number.is_none_or(|number| number.parse() == Ok(flow + 1))
        })
    });
    let Some(sent) = first_contact(sent) else {
        return by_instance;
    };
    by_instance.or_else(|| addresses(response).find(|address| address.uri() == sent.uri()))
}

/// The binding that a REGISTER asks for: one that it removes comes behind it.
fn first_contact(request: &Message) -> Option<NameAddr<'_>> {
    match request.contacts().flatten().next()? {
        Contact::Address(address) => Some(address),
        Contact::All => None,
    }
}

/// A GRUU that a registrar has given, if it is one (RFC 5627 section 4.2).
fn gruu(binding: &NameAddr<'_>, name: &str) -> Option<String> {
    let value = unquoted(binding.parameter(name)?);
    let uri = Uri::parse(value).ok()?;
    let uri = uri.as_sip()?;
    // It goes into angle brackets.
    let is_good = uri.headers().is_none() && !value.contains(['<', '>', '"']);
    is_good.then(|| value.to_owned())
}

fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// How long a server wants to be left alone (RFC 3261 section 20.33).
fn retry_after(response: &Message) -> Option<Duration> {
    let value = response.header(Name::RetryAfter)?;
    let digits = value.trim().split(|sign: char| !sign.is_ascii_digit());
    let seconds: u64 = digits.into_iter().next()?.parse().ok()?;
    Some(Duration::from_secs(seconds.min(MAX_RETRY_AFTER)))
}

/// Whether a list of option tags names one.
fn names(message: &Message, name: Name<'_>, option: &str) -> bool {
    message
        .text_values(name)
        .any(|value| value.eq_ignore_ascii_case(option))
}
