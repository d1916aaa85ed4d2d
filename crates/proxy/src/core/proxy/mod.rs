//! The proxy and registrar as one state machine: what it is fed with, what it is polled for, and the way of a message
//! through its parts.
//!
//! `admission` decides which messages are taken at all. A request that has begun a transaction is classified by the
//! [`Forwarder`], let on its way by the [`Authenticator`], and served by the [`Registrar`] or the [`Forwarder`].

mod admission;

use std::collections::HashMap;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ahash::RandomState;
use rand_chacha::ChaCha12Rng;
use sip::transaction::{ServerId, TransactionEvent, TransactionKey};
use sip::{ConnectionId, Flow, Message, Method, Target, Transmit};

use super::authentication::{Authenticator, strip_credentials};
use super::common::{CommonState, hash_keys};
use super::config::Config;
use super::event::Event;
use super::forwarder::{Forwarder, Recursion, ask_dialog_end};
use super::hook::{
    DropLists, Hook, HookOutcome, Points, RequestAction, RequestPoint, Resumed, StaticRoutes,
};
use super::incoming::{Addressee, IncomingRequest};
use super::interface::Interface;
use super::keep_alive::policy::KeepAliveMethod;
use super::keep_alive::{KeepAliveAction, KeepAlives, LINE_ENDS, options};
use super::keys::Keys;
use super::latency::Latencies;
use super::pending::{Parked, ParkedAt, PendingQuery};
use super::policy::Policy;
use super::query::{Answer, Query, QueryId};
use super::registrar::Registrar;
use super::rejection::{NO_TRANSACTION, Rejection};
use super::routing::{MemberHealth, MemberState};
use super::statistics::Statistics;

/// A proxy and registrar.
#[derive(Debug)]
pub struct Proxy {
    common: CommonState,
    authenticator: Authenticator,
    registrar: Registrar,
    forwarder: Forwarder,
    keep_alives: KeepAlives,
    /// The INVITEs that a hook has parked before they were forwarded: they may be cancelled.
    parked_invites: HashMap<ServerId, QueryId, RandomState>,
}

impl Proxy {
    /// A proxy that listens where the configuration says. The generator gives branches, tags and the
    /// keys of hash tables and flow tokens.
    pub fn new(config: Config, mut rng: ChaCha12Rng) -> Proxy {
        let rng = &mut rng;
        let keys = config.keys.clone().unwrap_or_else(|| Keys::draw(rng));
        Proxy {
            common: CommonState::new(&config, &keys, built_in_hooks(), rng),
            authenticator: Authenticator::new(&keys, rng),
            registrar: Registrar::new(&config.registrar),
            forwarder: Forwarder::new(&config.policy, &keys, rng),
            keep_alives: KeepAlives::new(&keys, &config.policy.keep_alive),
            parked_invites: HashMap::with_hasher(hash_keys(rng)),
        }
    }

    /// Adds a hook behind those that there are.
    pub fn add_hook(&mut self, hook: Box<dyn Hook>) {
        self.common.hooks.add(hook, &self.common.policy);
    }

    /// Adds a hook before those that there are.
    pub fn add_first_hook(&mut self, hook: Box<dyn Hook>) {
        self.common.hooks.add_first(hook, &self.common.policy);
    }

    /// Takes a message that has arrived. A request that breaks a rule is answered, a response that
    /// does is dropped.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.handle_message_after(now, Duration::ZERO, flow, message);
    }

    /// Takes a message that has arrived and has waited for so long since it was read from the socket.
    /// When all have to wait, new calls are refused (see [`OverloadPolicy`](super::OverloadPolicy)).
    pub fn handle_message_after(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: Flow,
        message: Message,
    ) {
        self.accept_message(now, waited, flow, message);
        self.process_accepted(now);
    }

    /// Goes on with the messages that were [accepted](Proxy::accept_message), in their order.
    pub fn process_accepted(&mut self, now: Instant) {
        self.process_transaction_events(now);
    }

    /// Takes notice that a message of this transaction could not be sent (RFC 3261 section 18.4).
    pub fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) {
        self.common
            .transactions
            .handle_send_failure(now, transaction);
        self.process_transaction_events(now);
    }

    /// Takes notice that the network says of a datagram to this address that it did not get there: of one that began so
    /// (RFC 3261 section 18.4).
    pub fn handle_undelivered(&mut self, now: Instant, remote: SocketAddr, beginning: &Message) {
        self.common
            .transactions
            .handle_undelivered(now, remote, beginning);
        self.process_transaction_events(now);
    }

    /// Takes notice that a message of this transaction could not be sent because the connection for it
    /// was refused: the far end knows the transport not at all, or not now (RFC 3261 section 18.1.1).
    pub fn handle_connection_refused(&mut self, now: Instant, transaction: TransactionKey) {
        if let TransactionKey::Client(client) = transaction {
            self.forwarder.handle_connection_refused(client);
        }
        self.handle_send_failure(now, transaction);
    }

    /// Takes notice of the names that the certificate of a connection's far end has shown, and that
    /// TLS has verified. They hold until others take their place, or the connection is closed.
    pub fn handle_connection_identified(
        &mut self,
        connection: ConnectionId,
        names: Arc<[Box<str>]>,
    ) {
        self.common
            .trust
            .handle_connection_identified(connection, names);
    }

    /// Takes notice that a connection or association is gone. Bindings that came over it stay until
    /// they expire, since the Contact may be reachable without it (see `target`), but requests do not
    /// go along it any more.
    pub fn handle_connection_closed(&mut self, connection: ConnectionId) {
        self.common.trust.handle_connection_closed(connection);
        self.forwarder.handle_connection_closed(connection);
    }

    /// Takes the answer to a question. One that nobody waits for any more is ignored.
    pub fn handle_answer(&mut self, now: Instant, id: QueryId, answer: Answer) {
        if let Some(pending) = self.common.take_pending(id) {
            self.resume(now, pending, answer, false);
        }
        self.process_transaction_events(now);
    }

    /// Exchanges what can be changed at run time. Requests that are being forwarded go on by the
    /// decisions that were made for them.
    pub fn set_policy(&mut self, now: Instant, policy: Arc<Policy>) {
        self.common.set_policy(&policy);
        self.forwarder.set_policy(now, &policy);
        self.keep_alives.set_policy(now, &policy.keep_alive);
        self.send_keep_alives(now);
    }

    /// Begins to send keep-alives to the user agents whose bindings are in the store already, where settings want any.
    /// Of so many `workers` with one store each has a `number`, the first 0, and sees to its share of the flows. Those
    /// who register from now on are seen to by whoever takes their REGISTER.
    pub fn start_keep_alives(&mut self, now: Instant, number: usize, workers: usize) {
        self.keep_alives.start(now, number, workers);
        self.send_keep_alives(now);
    }

    /// Begins to probe the groups whose settings say so. Of several cores with the same groups one
    /// does, and the others are [told](Proxy::set_member_state). `call_id` is that of all probes: one
    /// whose responses come to this core.
    pub fn start_probing(&mut self, now: Instant, call_id: &str) {
        self.forwarder.groups.start_probing(now, call_id);
    }

    /// Takes over what another core has found out about a member of a group, as its
    /// [`Event::Member`] says.
    pub fn set_member_state(&mut self, group: &str, uri: &str, state: MemberState) {
        self.forwarder.groups.set_member_state(group, uri, state);
    }

    /// What is known of the members of all groups.
    pub fn member_health(&self) -> Vec<MemberHealth> {
        self.forwarder.groups.member_health().collect()
    }

    /// Takes notice of the time of day, for those who are to be told it (Date, RFC 3261 section 20.17).
    pub fn set_wall_clock(&mut self, now: Instant, time: SystemTime) {
        self.registrar.set_wall_clock(now, time);
        self.forwarder.dialogs.set_time(time);
        self.common.hooks.set_wall_clock(now, time);
    }

    /// Refuses what would begin a dialog from now on. What has begun goes on.
    pub fn drain(&mut self) {
        self.common.overload.drain();
    }

    /// How many transactions have not ended, those included that only wait for retransmissions.
    pub fn transactions(&self) -> usize {
        let transactions = &self.common.transactions;
        transactions.client_transactions() + transactions.server_transactions()
    }

    /// Whether events are made of calls and registrations that go well or not; where nobody reads them they need not
    /// be. At first they are.
    pub fn tell_of_users(&mut self, is_wanted: bool) {
        self.common.reports_users = is_wanted;
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.common.transactions.handle_timeout(now);
        self.process_transaction_events(now);
        while let Some(pending) = self.common.take_expired(now) {
            self.resume(now, pending, Answer::Failed, true);
        }
        self.forwarder.handle_timeout(&mut self.common, now);
        self.keep_alives.handle_timeout(now);
        self.send_keep_alives(now);
        while self
            .common
            .hooks
            .next_timeout()
            .is_some_and(|due| due <= now)
        {
            self.ask_timer(now, None);
        }
        self.process_transaction_events(now);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.common.poll_transmit()
    }

    /// The next question to the location store or the resolver.
    pub fn poll_query(&mut self) -> Option<(QueryId, Query)> {
        self.common.poll_query()
    }

    /// The next event for the log.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.common.poll_event();
        event.or_else(|| self.common.hooks.poll_event())
    }

    /// A connection whose peer has registered or authenticated by it, or is trusted: one that is not to give way to others.
    /// It may be told more than once.
    pub fn poll_known_connection(&mut self) -> Option<ConnectionId> {
        self.common.poll_known_connection()
    }

    /// When [`handle_timeout`](Proxy::handle_timeout) is due next.
    pub fn next_timeout(&self) -> Option<Instant> {
        [
            self.common.next_timeout(),
            self.forwarder.next_timeout(),
            self.keep_alives.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How long clients have waited.
    pub fn latencies(&self) -> &Latencies {
        &self.common.latencies
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            transactions: *self.common.transactions.statistics(),
            overload: self.common.overload.statistics(),
            response_contexts: self.forwarder.contexts() as u64,
            branches: self.forwarder.branches() as u64,
            questions: self.common.pending_queries() as u64,
            nonces: self.authenticator.nonces() as u64,
            keep_alives: self.keep_alives.len() as u64,
            keep_alives_sent: self.keep_alives.sent,
            keep_alives_refused: self.keep_alives.refused,
            held_octets: self.common.held.octets() as u64,
            ..self.common.statistics
        }
    }

    /// Does what the transaction layer has to tell.
    fn process_transaction_events(&mut self, now: Instant) {
        while let Some(event) = self.common.transactions.poll_event() {
            let (common, forwarder) = (&mut self.common, &mut self.forwarder);
            match event {
                TransactionEvent::Request {
                    transaction,
                    flow,
                    request,
                    cancels,
                } => self.handle_request(now, transaction, flow, request, cancels),
                TransactionEvent::Overloaded { flow, request } => {
                    common.answer_overloaded(now, flow, &request);
                }
                TransactionEvent::Ack { flow, request } => {
                    forwarder.handle_acknowledgement(common, now, flow, request);
                }
                TransactionEvent::Response {
                    transaction,
                    flow,
                    response,
                } => forwarder.handle_response(common, now, transaction, &flow, response),
                TransactionEvent::StrayResponse { flow, response } => {
                    forwarder.handle_stray_response(common, now, flow, response);
                }
                TransactionEvent::Timeout { transaction } => {
                    forwarder.handle_unanswered(common, now, transaction, 408);
                }
                TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(client),
                } => forwarder.handle_unanswered(common, now, client, 503),
                TransactionEvent::Terminated {
                    transaction: TransactionKey::Client(client),
                } => forwarder.handle_terminated(client),
                // Responses that cannot be sent are dropped (RFC 3261 section 16.9), and a missing ACK
                // is the endpoints' business.
                _ => {}
            }
        }
    }

    /// Takes a request that has begun a server transaction.
    fn handle_request(
        &mut self,
        now: Instant,
        server: ServerId,
        arrival: Flow,
        mut request: Message,
        cancels: Option<ServerId>,
    ) {
        let common = &mut self.common;
        common.statistics.requests += 1;
        if request.method() == Some(&Method::Cancel) {
            self.cancel(now, server, &request, cancels);
            return;
        }
        common.note_source(server, &request, &arrival);
        common.trust.remove_claims(&mut request, &arrival);
        let fingerprint = self.forwarder.loops.fingerprint(&request);
        let class = self
            .forwarder
            .classify(common, &mut request, &arrival, fingerprint);
        let class = match class {
            Ok(class) => class,
            Err(rejection) => {
                common.refuse(now, server, &request, &rejection);
                return;
            }
        };
        let incoming = IncomingRequest {
            server,
            arrival,
            received: now,
            request,
            fingerprint,
            class,
            is_trying: false,
            confirmation: None,
            user: None,
            is_retargeted: false,
            forward_to: None,
        };
        self.take_request(now, incoming, None);
    }

    /// Asks the hooks about a request, and finds out who has sent it.
    fn take_request(
        &mut self,
        now: Instant,
        mut incoming: IncomingRequest,
        resumed: Option<Resumed>,
    ) {
        let common = &mut self.common;
        let asked = common.hooks.ask(Points::REQUEST, resumed, |hook, resumed| {
            hook.on_request(&mut request_point(now, &mut incoming), resumed)
        });
        let Some(mut incoming) = self.go_on(now, asked, incoming, ParkedAt::Request) else {
            return;
        };
        if mem::take(&mut incoming.is_retargeted) && incoming.forward_to.is_none() {
            let common = &mut self.common;
            let (request, arrival) = (&mut incoming.request, &incoming.arrival);
            let class = self
                .forwarder
                .classify(common, request, arrival, incoming.fingerprint);
            match class {
                Ok(class) => incoming.class = class,
                Err(rejection) => {
                    common.refuse(now, incoming.server, &incoming.request, &rejection);
                    return;
                }
            }
        }
        let authenticated = self
            .authenticator
            .authenticate(&mut self.common, now, incoming);
        if let Some(incoming) = authenticated {
            self.serve(now, incoming);
        }
    }

    /// Brings a request to whom it is for.
    fn serve(&mut self, now: Instant, mut incoming: IncomingRequest) {
        let common = &mut self.common;
        match incoming.class.addressee {
            Addressee::Registrar => self.register(now, incoming, None),
            Addressee::Element => {
                self.registrar
                    .answer(common, now, incoming.server, &incoming.request);
            }
            Addressee::User(_) | Addressee::Requested(_) | Addressee::Routed => {
                strip_credentials(common, &mut incoming.request);
                self.route(now, incoming, None);
            }
        }
    }

    /// Asks the hooks about a REGISTER, and carries it out.
    fn register(&mut self, now: Instant, mut incoming: IncomingRequest, resumed: Option<Resumed>) {
        let common = &mut self.common;
        let asked = common
            .hooks
            .ask(Points::REGISTER, resumed, |hook, resumed| {
                hook.on_register(&mut request_point(now, &mut incoming), resumed)
            });
        match self.go_on(now, asked, incoming, ParkedAt::Register) {
            Some(incoming) if incoming.forward_to.is_some() => self.route(now, incoming, None),
            Some(incoming) => self.registrar.register(&mut self.common, now, incoming),
            None => {}
        }
    }

    /// Asks the hooks where a request goes, and forwards it.
    fn route(&mut self, now: Instant, mut incoming: IncomingRequest, resumed: Option<Resumed>) {
        let common = &mut self.common;
        let asked = match incoming.forward_to {
            // That is known already.
            Some(_) => HookOutcome::Continue,
            None => self
                .forwarder
                .ask_route(common, now, &mut incoming, resumed),
        };
        if let Some(incoming) = self.go_on(now, asked, incoming, ParkedAt::Route) {
            self.forwarder
                .handle_request(&mut self.common, now, incoming);
        }
    }

    /// Does with a request what the hooks have decided. Returns it where it goes on.
    fn go_on(
        &mut self,
        now: Instant,
        asked: HookOutcome<RequestAction>,
        mut incoming: IncomingRequest,
        at: impl Fn(IncomingRequest) -> ParkedAt,
    ) -> Option<IncomingRequest> {
        let common = &mut self.common;
        let parking = match asked {
            HookOutcome::Continue => return Some(incoming),
            HookOutcome::Act(RequestAction::Refuse(refusal)) => {
                let rejection = refusal.into_rejection();
                match rejection.status {
                    ..300 => {
                        let response = rejection.response(&incoming.request);
                        common.respond(now, incoming.server, response);
                    }
                    _ => common.refuse(now, incoming.server, &incoming.request, &rejection),
                }
                return None;
            }
            HookOutcome::Act(RequestAction::Drop) => {
                common.transactions.forget(incoming.server);
                return None;
            }
            HookOutcome::Act(RequestAction::Forward(to)) => {
                incoming.forward_to = Some(to);
                incoming.class.addressee = Addressee::Routed;
                return Some(incoming);
            }
            HookOutcome::Park(parking) => parking,
        };
        let server = incoming.server;
        let is_invite = incoming.request.method() == Some(&Method::Invite);
        let has_news = is_invite && !incoming.is_trying;
        let trying = has_news.then(|| Message::response_to(&incoming.request, 100, "Trying"));
        incoming.is_trying = is_invite;
        match common.park(now, parking, at(incoming)) {
            Ok(id) => {
                if is_invite {
                    self.parked_invites.insert(server, id);
                }
                if let Some(trying) = trying {
                    common.transactions.respond(now, server, trying);
                }
            }
            Err(parked) => {
                if let Some(incoming) = parked.and_then(|parked| parked.what.into_request()) {
                    let rejection = common.overloaded();
                    common.refuse(now, server, &incoming.request, &rejection);
                }
            }
        }
        None
    }

    /// Ends the waiting of an INVITE that is cancelled while a hook has parked it. Returns whether it did wait.
    fn cancel_parked(&mut self, now: Instant, cancelled: ServerId) -> bool {
        let common = &mut self.common;
        let id = self.parked_invites.remove(&cancelled);
        let pending = id.and_then(|id| common.take_pending(id));
        let Some(PendingQuery::Hook(parked)) = pending else {
            return false;
        };
        if let Some(incoming) = parked.what.into_request() {
            let rejection = Rejection::new(487, "Request Terminated");
            common.refuse(now, cancelled, &incoming.request, &rejection);
        }
        true
    }

    /// Goes on with what a hook has parked.
    fn resume_parked(&mut self, now: Instant, parked: Parked, answer: Answer) {
        let resumed = Some(Resumed {
            hook: parked.hook,
            answer,
            state: parked.state,
        });
        let (common, forwarder) = (&mut self.common, &mut self.forwarder);
        match parked.what {
            ParkedAt::Request(incoming) => {
                self.parked_invites.remove(&incoming.server);
                self.take_request(now, incoming, resumed);
            }
            ParkedAt::Register(incoming) => self.register(now, incoming, resumed),
            ParkedAt::Route(incoming) => {
                self.parked_invites.remove(&incoming.server);
                self.route(now, incoming, resumed);
            }
            ParkedAt::Branch(name) => forwarder.resume_branch(common, now, name, resumed),
            ParkedAt::Reply(client, name, response) => {
                forwarder.take_response(common, now, (client, name), response, resumed);
            }
            ParkedAt::Failure(client, name, candidate) => {
                forwarder.resume_failure(common, now, (client, name), candidate, resumed);
            }
            ParkedAt::DialogEnd(dialog) => ask_dialog_end(common, now, dialog, resumed),
            ParkedAt::Timer => self.ask_timer(now, resumed),
        }
    }

    /// Lets the hooks do what is due by a timer of theirs.
    fn ask_timer(&mut self, now: Instant, resumed: Option<Resumed>) {
        let common = &mut self.common;
        let asked = common.hooks.ask(Points::TIMER, resumed, |hook, resumed| {
            hook.on_timer(now, resumed)
        });
        if let HookOutcome::Park(parking) = asked {
            // Where there is no room, it has waited in vain.
            let _ = common.park(now, parking, ParkedAt::Timer);
        }
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
        let common = &mut self.common;
        let Some(cancelled) = cancels else {
            common.refuse(now, server, request, &NO_TRANSACTION);
            return;
        };
        common.respond(now, server, Message::response_to(request, 200, "OK"));
        if !self.authenticator.cancel(common, now, cancelled) && !self.cancel_parked(now, cancelled)
        {
            self.forwarder.cancel(&mut self.common, now, cancelled);
        }
    }

    /// Hands an answer to what waited for it.
    fn resume(&mut self, now: Instant, pending: PendingQuery, answer: Answer, is_timeout: bool) {
        let (common, forwarder) = (&mut self.common, &mut self.forwarder);
        match pending {
            PendingQuery::Authenticate(server, _) => {
                let authenticated = self.authenticator.complete(common, now, server, answer);
                if let Some(incoming) = authenticated {
                    self.serve(now, incoming);
                }
            }
            PendingQuery::Register(pending) => {
                if let Some(registered) = self.registrar.complete(common, now, *pending, answer) {
                    self.keep_alives.handle_registered(
                        now,
                        &registered.flow,
                        &registered.address,
                        &registered.bindings,
                    );
                }
            }
            PendingQuery::Lookup(server) => {
                forwarder.complete_lookup(common, now, server, answer, is_timeout);
            }
            PendingQuery::LateTargets(server) => {
                forwarder.complete_watch(common, now, server, answer);
            }
            PendingQuery::NextHop(branch) => {
                forwarder.complete_resolution(common, now, branch, answer);
            }
            PendingQuery::Stateless(stateless) => {
                forwarder.resume_stateless(common, now, *stateless, answer, is_timeout);
            }
            PendingQuery::Probe(probe) => forwarder.resume_probe(common, now, *probe, answer),
            PendingQuery::Page => self.keep_alives.handle_page(now, answer),
            PendingQuery::Hook(parked) => self.resume_parked(now, *parked, answer),
        }
    }

    /// Does what keep-alives want done.
    fn send_keep_alives(&mut self, now: Instant) {
        let common = &mut self.common;
        while let Some(action) = self.keep_alives.poll() {
            match action {
                KeepAliveAction::Send(flow, KeepAliveMethod::LineEnds) => {
                    common.keep_alives.push_back(Transmit {
                        target: Target::Flow(flow),
                        peer: None,
                        payload: LINE_ENDS.into(),
                        call: 0,
                        transaction: None,
                    });
                }
                KeepAliveAction::Send(flow, KeepAliveMethod::Options) => {
                    let branch = common.transactions.new_branch();
                    if let Some(interface) = Interface::toward(&common.identity, &flow) {
                        let source = interface.source.as_str();
                        let request = options(flow.remote, source, &branch);
                        let target = Target::Flow(flow);
                        common.transactions.send_stateless(now, request, target);
                    }
                }
                KeepAliveAction::Ask(query) => match common.ask(now, query, PendingQuery::Page) {
                    Ok(id) => self.keep_alives.note_asked(id),
                    Err(_) => self.keep_alives.handle_page(now, Answer::Failed),
                },
                KeepAliveAction::Withdraw(id) => {
                    common.take_pending(id);
                }
            }
        }
    }
}

/// The steps that settings ask for.
fn built_in_hooks() -> Vec<Box<dyn Hook>> {
    vec![
        Box::new(DropLists::default()),
        Box::new(StaticRoutes::default()),
        Box::new(Recursion::default()),
    ]
}

fn request_point(now: Instant, incoming: &mut IncomingRequest) -> RequestPoint<'_> {
    RequestPoint {
        request: &mut incoming.request,
        arrival: &incoming.arrival,
        user: incoming.user.as_deref(),
        now,
        is_retargeted: &mut incoming.is_retargeted,
    }
}
