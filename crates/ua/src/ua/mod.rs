//! The user agent: what comes in, what goes out, and whose business it is.

mod called;
mod calling;
mod in_dialog;
mod registering;
mod sending;
mod text;
mod transferring;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::dialog::Retransmission;
use sip::transaction::{ClientId, ServerId, TransactionEvent, TransactionKey, Transactions};
use sip::{ConnectionId, Flow, Message, Method, Name, Transmit, Uri};

pub use calling::FirstHop;

use crate::account::Account;
use crate::call::{Call, Offer, Stage};
use crate::config::{AccountConfig, UaConfig};
use crate::event::{AccountId, CallNumber, EndReason, RegistrationState, UaEvent, UnknownCall};
use crate::route::{Query, QueryId, Route};
use sending::{Parked, Sent};

/// The methods that are understood, as Allow lists them.
const ALLOW: &str =
    "INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, REFER, NOTIFY, INFO, MESSAGE";
/// The extensions that are understood, as Supported lists them.
const SUPPORTED: &str = "100rel, timer, replaces, path, outbound, gruu";
/// The same, as Require may name them.
const EXTENSIONS: [&str; 3] = ["100rel", "timer", "replaces"];
/// The kind of a session description.
const SDP: &str = "application/sdp";

/// A user agent with any number of accounts.
#[derive(Debug)]
pub struct Ua {
    config: UaConfig,
    transactions: Transactions,
    accounts: BTreeMap<AccountId, Account>,
    calls: BTreeMap<CallNumber, Call>,
    /// Requests of ours that are under way.
    sent: HashMap<ClientId, Sent>,
    /// What waits for the way to a URI, in order.
    parked: BTreeMap<QueryId, (String, Vec<Parked>)>,
    queries: VecDeque<Query>,
    /// Keep-alives that are to be sent.
    pings: VecDeque<Transmit>,
    /// Connections that are to be closed.
    closing: VecDeque<ConnectionId>,
    events: VecDeque<UaEvent>,
    next_number: u64,
    rng: ChaCha12Rng,
}

impl Ua {
    /// A user agent without accounts. The same seed gives the same tags and Call-IDs.
    pub fn new(config: UaConfig, seed: [u8; 32]) -> Ua {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let transactions = Transactions::new(
            config.transactions.clone(),
            ChaCha12Rng::from_seed(rng.random()),
        );
        Ua {
            config,
            transactions,
            accounts: BTreeMap::new(),
            calls: BTreeMap::new(),
            sent: HashMap::new(),
            parked: BTreeMap::new(),
            queries: VecDeque::new(),
            pings: VecDeque::new(),
            closing: VecDeque::new(),
            events: VecDeque::new(),
            next_number: 1,
            rng,
        }
    }

    /// Adds an account; it is not registered before [`register`](Ua::register) asks for that.
    pub fn add_account(&mut self, config: AccountConfig) -> AccountId {
        let id = AccountId(self.number() as u32);
        let has_instance = self.config.instance.is_some();
        self.accounts.insert(id, Account::new(config, has_instance));
        id
    }

    /// A message came from a transport.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        if let Err(violation) = message.validate() {
            // A response that breaks the rules is thrown away (RFC 3261 section 18.1.2).
            if let Some(response) = Message::rejection(&message, &violation) {
                self.transactions.respond_stateless(now, flow, response);
            }
            return;
        }
        self.transactions.handle_message(now, flow, message);
        self.take_events(now);
    }

    /// A message of a transaction could not be sent.
    pub fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) {
        self.transactions.handle_send_failure(now, transaction);
        self.take_events(now);
    }

    /// The answer to a [`Query`]; `None` when the URI leads nowhere.
    pub fn handle_route(&mut self, now: Instant, query: QueryId, route: Option<Route>) {
        let Some((_, waiting)) = self.parked.remove(&query) else {
            return;
        };
        for parked in waiting {
            match &route {
                Some(route) => self.unpark(now, parked, route.clone()),
                None => self.unreachable(now, parked),
            }
        }
        self.take_events(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        self.take_events(now);
        let due: Vec<AccountId> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.due().is_some_and(|due| due <= now))
            .map(|(id, _)| *id)
            .collect();
        for account in due {
            self.registration_timeout(now, account);
        }
        let due: Vec<CallNumber> = self
            .calls
            .values()
            .filter(|call| call.next_timeout().is_some_and(|due| due <= now))
            .map(|call| call.number)
            .collect();
        for number in due {
            self.handle_call_timeout(now, number);
        }
    }

    /// When [`handle_timeout`](Ua::handle_timeout) is to be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(Call::next_timeout).min();
        let accounts = self.accounts.values().filter_map(Account::due).min();
        [self.transactions.next_timeout(), calls, accounts]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let ping = self.pings.pop_front();
        ping.or_else(|| self.transactions.poll_transmit())
    }

    /// The next question.
    pub fn poll_query(&mut self) -> Option<Query> {
        self.queries.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<UaEvent> {
        self.events.pop_front()
    }

    /// The calls that are not over.
    pub fn calls(&self) -> impl Iterator<Item = CallNumber> {
        self.calls.keys().copied()
    }

    /// Whether nothing is under way any more: no call, no request that waits for its response.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.sent.is_empty() && self.parked.is_empty()
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    fn call(&mut self, number: CallNumber) -> Result<&mut Call, UnknownCall> {
        self.calls.get_mut(&number).ok_or(UnknownCall)
    }

    fn emit(&mut self, event: UaEvent) {
        self.events.push_back(event);
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Request {
                    transaction,
                    flow,
                    request,
                    cancels,
                } => self.handle_request(now, transaction, flow, request, cancels),
                TransactionEvent::Overloaded { flow, request } => {
                    if request.method() != Some(&Method::Ack) {
                        let response = Message::response_to(&request, 503, "Service Unavailable");
                        self.transactions.respond_stateless(now, flow, response);
                    }
                }
                TransactionEvent::Ack { request, .. } => self.handle_ack(now, &request),
                TransactionEvent::Response {
                    transaction,
                    response,
                    ..
                } => self.handle_response(now, transaction, &response),
                TransactionEvent::StrayResponse { response, .. } => {
                    self.handle_stray_response(now, &response);
                }
                TransactionEvent::Timeout { transaction } => {
                    self.handle_failure(now, transaction, 408, "Request Timeout");
                }
                TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(transaction),
                } => self.handle_failure(now, transaction, 503, "Service Unavailable"),
                TransactionEvent::AckTimeout { .. }
                | TransactionEvent::SendFailed { .. }
                | TransactionEvent::Terminated { .. } => {}
            }
        }
    }

    /// A request that has a server transaction.
    fn handle_request(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: Flow,
        request: Message,
        cancels: Option<ServerId>,
    ) {
        let Some(method) = request.method().cloned() else {
            return;
        };
        if method == Method::Cancel {
            let (status, reason) = match cancels {
                Some(_) => (200, "OK"),
                None => (481, "Call/Transaction Does Not Exist"),
            };
            // With the tag of the response to the INVITE (RFC 3261 section 9.2).
            let tag = cancels.and_then(|invite| self.ringing_tag(invite));
            let tag = tag.unwrap_or_else(|| self.new_tag());
            let mut response = Message::response_to(&request, status, reason);
            response.set_to_tag(&tag);
            self.finish_response(&mut response, &flow, &request);
            self.transactions.respond(now, transaction, response);
            if let Some(invite) = cancels {
                self.handle_cancel(now, invite);
            }
            return;
        }
        if let Some(refusal) = refusal(&request) {
            let tag = self.new_tag();
            let mut response = Message::response_to(&request, refusal.status, refusal.reason);
            response.set_to_tag(&tag);
            for (name, value) in refusal.fields {
                response.push_back(name, value);
            }
            self.transactions.respond(now, transaction, response);
            return;
        }
        if request.to_tag().is_some() {
            return self.handle_request_in_dialog(now, transaction, flow, request);
        }
        match method {
            Method::Invite => self.handle_invite(now, transaction, flow, request),
            Method::Message => self.handle_text(now, transaction, flow, &request),
            Method::Notify => self.handle_mailbox(now, transaction, flow, &request),
            Method::Options => {
                let mut response = Message::response_to(&request, 200, "OK");
                response.push_back(Name::Accept, SDP);
                self.finish_response(&mut response, &flow, &request);
                self.transactions.respond(now, transaction, response);
            }
            Method::Refer => {
                // Outside of a call nobody is there to ask (RFC 3515 section 2.4.2).
                self.respond(now, transaction, &flow, &request, 603, "Decline");
            }
            _ => {
                let reason = "Call/Transaction Does Not Exist";
                self.respond(now, transaction, &flow, &request, 481, reason);
            }
        }
    }

    /// Answers a request with a tag of its own, outside of a dialog.
    fn respond(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: &Flow,
        request: &Message,
        status: u16,
        reason: &str,
    ) {
        let mut response = Message::response_to(request, status, reason);
        self.finish_response(&mut response, flow, request);
        self.transactions.respond(now, transaction, response);
    }

    /// What all our final responses have, and those that make a dialog.
    fn finish_response(&mut self, response: &mut Message, flow: &Flow, request: &Message) {
        let tag = self.new_tag();
        response.set_to_tag(&tag);
        let status = response.status().unwrap_or(0);
        if (200..300).contains(&status) {
            response.push_back(Name::Allow, ALLOW);
            response.push_back(Name::Supported, SUPPORTED);
        }
        if request.method() == Some(&Method::Options) {
            let contact = self.contact(self.account_of(request), request, flow);
            response.push_back(Name::Contact, contact);
        }
        response.push_back(Name::Server, &self.config.product);
    }

    /// The Contact of our responses to a request that came along `flow`.
    fn contact(&self, account: Option<AccountId>, request: &Message, flow: &Flow) -> String {
        let uri = contact_uri(request.request_uri(), flow);
        let account = account.and_then(|account| self.accounts.get(&account));
        account.map_or_else(|| format!("<{uri}>"), |account| account.contact(&uri))
    }

    /// A tag for a response (RFC 3261 section 19.3).
    fn new_tag(&mut self) -> String {
        format!("{:016x}", self.rng.random::<u64>())
    }

    /// The account that a request is for: the user of its Request-URI or else of its To.
    fn account_of(&self, request: &Message) -> Option<AccountId> {
        let to = request.to().map(|to| to.uri().to_owned());
        [request.request_uri().map(str::to_owned), to]
            .into_iter()
            .flatten()
            .find_map(|uri| {
                let wanted = user(&uri)?;
                let is_it = |account: &&AccountId| {
                    let config = self.accounts.get(account).map(|account| &account.config);
                    config
                        .and_then(|config| user(&config.address_of_record))
                        .as_ref()
                        == Some(&wanted)
                };
                self.accounts.keys().find(is_it).copied()
            })
    }

    /// Lets the timers of a call fire.
    fn handle_call_timeout(&mut self, now: Instant, number: CallNumber) {
        self.give_up_cancelled(now, number);
        self.stop_ringing(now, number);
        self.retransmit_provisional(now, number);
        self.retransmit_answer(now, number);
        self.postponed_offer(now, number);
        self.transfer_timeout(now, number);
        self.session_timeout(now, number);
    }

    /// Sends our 2xx again until its ACK comes (RFC 3261 section 13.3.1.4).
    fn retransmit_answer(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Some(answer) = &mut call.answer else {
            return;
        };
        if answer.retransmitter.next_timeout() > now {
            return;
        }
        match answer.retransmitter.handle_timeout(now) {
            Retransmission::Wait => {}
            Retransmission::Send => {
                let (transaction, response) = (answer.transaction, answer.response.clone());
                self.transactions.respond(now, transaction, response);
            }
            Retransmission::GiveUp => {
                call.answer = None;
                self.send_bye(now, number);
                self.end(now, number, EndReason::Timeout);
            }
        }
    }

    /// Refreshes the session, or ends it when the other side has not (RFC 4028 section 10).
    fn session_timeout(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Some(timer) = call.timer.filter(|timer| timer.due() <= now) else {
            return;
        };
        // A refresh that is there since the timer was due last has not been accepted until the session expires.
        let has_expired = matches!(
            call.offer,
            Offer::Sent {
                is_refresh: true,
                ..
            } | Offer::Postponed {
                is_refresh: true,
                ..
            }
        );
        if !timer.is_ours || has_expired {
            self.send_bye(now, number);
            return self.end(now, number, EndReason::Timeout);
        }
        // From the refresh to the end of the session it is half of the interval, too.
        call.timer = call.timer.map(|mut timer| {
            timer.refresh(now);
            timer
        });
        // An offer that is under way refreshes it, too.
        if matches!(call.offer, Offer::None) {
            let description = call.description.clone();
            self.send_offer(now, number, description, true);
        }
    }

    /// A call is over.
    fn end(&mut self, now: Instant, number: CallNumber, reason: EndReason) {
        if let Some(call) = self.calls.remove(&number) {
            // Requests of the other side that nobody will answer any more (RFC 3261 section 15.1.2).
            let offered = call.offered.as_ref();
            let offered = offered.map(|offered| (offered.transaction, &offered.request));
            let referred = call.referred.as_ref();
            let referred =
                referred.and_then(|referred| Some((referred.transaction?, &referred.request)));
            for (transaction, request) in offered.into_iter().chain(referred) {
                let response = Message::response_to(request, 487, "Request Terminated");
                self.transactions.respond(now, transaction, response);
            }
            let status = match (&call.stage, &reason) {
                (Stage::Up, _) => None,
                (_, EndReason::Refused { status, .. }) => Some(*status),
                _ => Some(487),
            };
            if let (Some(reports_to), Some(status)) = (call.reports_to, status) {
                self.report_transfer(now, reports_to, status);
            }
            self.emit(UaEvent::Ended {
                call: number,
                reason,
            });
        }
    }
}

/// Why a request is refused before anybody looks at what it is for (RFC 3261 section 8.2).
struct Refusal {
    status: u16,
    reason: &'static str,
    fields: Vec<(Name<'static>, String)>,
}

fn refusal(request: &Message) -> Option<Refusal> {
    let refuse = |status, reason, fields| {
        Some(Refusal {
            status,
            reason,
            fields,
        })
    };
    let method = request.method()?;
    if !ALLOW.split(", ").any(|known| known == method.as_str()) {
        let allow = vec![(Name::Allow, ALLOW.to_owned())];
        return refuse(405, "Method Not Allowed", allow);
    }
    let uri = request.request_uri().map(Uri::parse);
    if !matches!(uri, Some(Ok(Uri::Sip(_)))) {
        return refuse(416, "Unsupported URI Scheme", Vec::new());
    }
    if *method != Method::Ack {
        let unknown: Vec<_> = request
            .text_values(Name::Require)
            .filter(|option| {
                !EXTENSIONS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(option))
            })
            .map(|option| (Name::Unsupported, option.to_owned()))
            .collect();
        if !unknown.is_empty() {
            return refuse(420, "Bad Extension", unknown);
        }
    }
    let takes_sdp = matches!(method, Method::Invite | Method::Update | Method::Prack);
    if takes_sdp && !request.body().is_empty() && !has_type(request, SDP) {
        let accept = vec![(Name::Accept, SDP.to_owned())];
        return refuse(415, "Unsupported Media Type", accept);
    }
    None
}

/// Whether the body of a message is of this kind.
fn has_type(message: &Message, wanted: &str) -> bool {
    let value = message.header(Name::ContentType).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

/// The session description in a message; empty when there is none.
fn description(message: &Message) -> Bytes {
    if has_type(message, SDP) {
        message.body_bytes()
    } else {
        Bytes::new()
    }
}

/// The user part of a URI.
fn user(uri: &str) -> Option<String> {
    let parsed = Uri::parse(uri).ok()?;
    parsed.as_sip()?.user().map(str::to_owned)
}

/// The user of a URI at the address where a message arrived.
fn contact_uri(uri: Option<&str>, flow: &Flow) -> String {
    let user = uri
        .and_then(user)
        .map_or(String::new(), |user| format!("{user}@"));
    let scheme = match uri.map(Uri::parse) {
        Some(Ok(Uri::Sip(uri))) if uri.is_secure() => "sips",
        _ => "sip",
    };
    let transport = flow.transport.uri_parameter();
    format!("{scheme}:{user}{};transport={transport}", flow.local)
}

/// How long after both sides have made an offer at the same time each makes it again: between 2.1 and 4 seconds where the
/// call is ours, up to 2 seconds where it is not (RFC 3261 section 14.1).
fn glare_pause(is_ours: bool, random: u32) -> Duration {
    let part = u64::from(random % 200);
    Duration::from_millis(if is_ours { 2_100 + part * 9 } else { part * 10 })
}
