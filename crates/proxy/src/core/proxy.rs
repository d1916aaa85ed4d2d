//! The proxy and registrar as one state machine: what it is fed with, what it is polled for, and what
//! the other files share.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ahash::RandomState;
use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::{
    ClientId, ServerId, TransactionConfig, TransactionEvent, TransactionKey, Transactions,
    note_source,
};
use sip::{ConnectionId, Flow, Message, Target, Transmit, Violation};

use super::authentication::{Authenticating, Authentication, Parked};
use super::branch_names::BranchNames;
use super::clock::Clock;
use super::config::Config;
use super::contexts::Contexts;
use super::dialogs::Dialogs;
use super::dispatch::Dispatch;
use super::event::Event;
use super::flow_token::{FORMER_CONNECTION, FlowTokens};
use super::forward::Drafts;
use super::gruu::Gruus;
use super::identity::Identity;
use super::keep_alive::KeepAlives;
use super::keep_alive_walk::KeepAliveWalk;
use super::keys::Keys;
use super::known_routes::KnownRoutes;
use super::latency::Latencies;
use super::loop_detection::LoopDetector;
use super::newcomers::Watches;
use super::overload::{Admission, Defence};
use super::policy::Policy;
use super::query::{Answer, Query, QueryId, Questions};
use super::refusing::OUR_TAG;
use super::registering::Registering;
use super::registrar::RegistrarConfig;
use super::routing::{Dropped, Probe};
use super::stateless::Passing;
use super::statistics::Statistics;
use super::trust::ProvedNames;
use crate::text::Digits;

/// A proxy and registrar.
#[derive(Debug)]
pub struct Proxy {
    pub(super) identity: Identity,
    pub(super) registrar: RegistrarConfig,
    pub(super) transaction_config: TransactionConfig,
    pub(super) timer_c: Duration,
    pub(super) maximum_datagram: usize,
    maximum_held_octets: usize,
    maximum_events: usize,
    pub(super) policy: Arc<Policy>,
    pub(super) proved_names: ProvedNames,

    pub(super) transactions: Transactions,
    pub(super) questions: Questions<Waiting>,
    pub(super) loops: LoopDetector,
    pub(super) tokens: FlowTokens,
    pub(super) dialogs: Dialogs,
    pub(super) gruus: Gruus,
    pub(super) clock: Clock,
    pub(super) authentication: Authentication,
    pub(super) known_routes: KnownRoutes,
    /// The requests that wait for what is stored of a password.
    pub(super) authenticating: HashMap<ServerId, Parked, RandomState>,
    /// The key of our tags.
    tags: RandomState,

    /// Requests that are being forwarded, by the transaction in which they came.
    pub(super) contexts: Contexts,
    /// The length of the requests that wait for an answer without a context.
    parked_octets: usize,
    /// Which branch a transaction of ours belongs to. It outlives the context where further 2xx
    /// responses can come (RFC 6026).
    pub(super) clients: BranchNames,
    /// The way back for 2xx responses to an INVITE that has got another final response before, of which the server
    /// transaction takes none (RFC 6026 section 7.1). They come for as long as the entry in `clients` is there.
    pub(super) late_answers: BTreeMap<ClientId, Flow>,
    /// Timer C of each branch, or the end of waiting for what a CANCEL brings.
    pub(super) timers: BTreeSet<(Instant, BranchName)>,
    pub(super) watches: Watches,
    /// Connections that are known to be gone. A REGISTER may have come over them to another worker.
    pub(super) closed: BTreeSet<ConnectionId>,
    pub(super) dispatch: Dispatch,
    pub(super) defence: Defence,
    /// Connections whose peers are known, until somebody asks.
    pub(super) known_connections: Vec<ConnectionId>,
    pub(super) keep_alives: KeepAlives,
    pub(super) keep_alive_walk: KeepAliveWalk,
    pub(super) drafts: Drafts,
    /// What is sent beside the messages of SIP.
    pub(super) outgoing: VecDeque<Transmit>,
    events: VecDeque<Event>,
    /// Somebody reads of calls and registrations.
    pub(super) tells_of_users: bool,
    pub(super) statistics: Statistics,
    pub(super) latencies: Box<Latencies>,
}

/// How many connections that are gone are remembered. What is sent along one that was forgotten comes
/// back as a failure.
const MAXIMUM_CLOSED: usize = 1 << 18;

/// Names a branch of a response context.
pub(super) type BranchName = (ServerId, usize);

/// What waits for the answer to a question.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A request, for what is stored of its sender's password.
    Authenticate(Box<Authenticating>),
    /// A REGISTER, for the bindings.
    Register(Box<Registering>),
    /// A response context, for the bindings of its target.
    Lookup(ServerId),
    /// A response context, for bindings that have come since.
    Newcomers(ServerId),
    /// A branch, for the addresses of its next hop.
    Resolve(BranchName),
    /// A request that is forwarded without state, for bindings or addresses.
    Passing(Box<Passing>),
    /// A probe, for the addresses of the member of a group.
    Probe(Box<Probe>),
    /// The walk through the store for flows to keep open.
    Page,
}

impl Waiting {
    /// The length of the request that it holds itself. A context counts its own.
    fn octets(&self) -> usize {
        match self {
            Waiting::Authenticate(authenticating) => authenticating.octets(),
            Waiting::Register(registering) => registering.octets(),
            Waiting::Passing(passing) => passing.octets(),
            Waiting::Lookup(_)
            | Waiting::Newcomers(_)
            | Waiting::Resolve(_)
            | Waiting::Probe(_)
            | Waiting::Page => 0,
        }
    }
}

impl Proxy {
    /// A proxy that listens where the configuration says. The generator gives branches, tags and the
    /// keys of hash tables and flow tokens.
    pub fn new(mut config: Config, mut rng: ChaCha12Rng) -> Proxy {
        // The 100 is sent here, at once.
        config.transactions.trying_after = None;
        let mut state = || {
            RandomState::with_seeds(
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            )
        };
        let contexts = Contexts::new(state());
        let authenticating = HashMap::with_hasher(state());
        let tags = state();
        let loops = LoopDetector::new(&mut rng);
        let keys = config.keys.unwrap_or_else(|| Keys::draw(&mut rng));
        let tokens = FlowTokens::new(&keys, config.incarnation);
        let dialogs = Dialogs::new(&keys);
        let authentication = Authentication::new(&keys, &mut rng);
        let keep_alive_walk = KeepAliveWalk::new(&keys);
        let gruus = Gruus::new(&keys, rand::SeedableRng::from_rng(&mut rng));
        let questions = Questions::new(config.queries, &mut rng);
        let defence = Defence::new(&config.policy.overload, &mut rng);
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let dispatch = Dispatch::new(&config.policy, rand::SeedableRng::from_seed(seed));
        rng.fill_bytes(&mut seed);
        let transactions = Transactions::new(
            config.transactions.clone(),
            rand::SeedableRng::from_seed(seed),
        );
        Proxy {
            identity: Identity::new(
                config.listeners,
                config.advertise,
                config.local_addresses,
                config.domains,
            )
            .offering_aliases(config.offers_aliases),
            registrar: config.registrar,
            transaction_config: config.transactions,
            timer_c: config.timer_c,
            maximum_datagram: config.maximum_datagram,
            maximum_held_octets: config.maximum_held_octets,
            maximum_events: config.maximum_events,
            policy: config.policy,
            proved_names: ProvedNames::default(),
            transactions,
            questions,
            loops,
            tokens,
            dialogs,
            gruus,
            clock: Clock::default(),
            authentication,
            known_routes: KnownRoutes::default(),
            authenticating,
            tags,
            contexts,
            parked_octets: 0,
            clients: BranchNames::default(),
            late_answers: BTreeMap::new(),
            timers: BTreeSet::new(),
            watches: Watches::default(),
            // The highest number of all: it is never forgotten.
            closed: BTreeSet::from([FORMER_CONNECTION]),
            dispatch,
            defence,
            known_connections: Vec::new(),
            keep_alives: KeepAlives::default(),
            keep_alive_walk,
            drafts: Drafts::default(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            tells_of_users: true,
            statistics: Statistics::default(),
            latencies: Box::default(),
        }
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

    /// [`handle_message_after`](Proxy::handle_message_after) as far as the message's transaction: what that has to
    /// tell waits for [`process_accepted`](Proxy::process_accepted).
    ///
    /// A message leads through more code than the processor keeps at hand. Of many that have come together, each part of
    /// the way is best gone by all before the next.
    pub fn accept_message(&mut self, now: Instant, waited: Duration, flow: Flow, message: Message) {
        match self.policy.routing.drop.check(flow.remote.ip(), &message) {
            Some(Dropped::Address) => {
                self.statistics.dropped_addresses += 1;
                return;
            }
            Some(Dropped::UserAgent) => {
                self.statistics.dropped_user_agents += 1;
                return;
            }
            None => {}
        }
        self.defence.note_waited(now, waited);
        let admission = match message.is_request() {
            true => {
                let whole = || Some(Cow::Borrowed(&message));
                self.judge(now, waited, &flow, (&message, &whole))
            }
            false => Admission::Admit,
        };
        self.accept_judged(now, flow, message, admission);
    }

    /// [`accept_message`](Proxy::accept_message) for one of which it is decided whether it is taken at all.
    pub(super) fn accept_judged(
        &mut self,
        now: Instant,
        flow: Flow,
        message: Message,
        admission: Admission,
    ) {
        // A refusal has to cost little, or there would be no time for what is not refused: nothing is
        // looked at that need not be.
        match admission {
            Admission::Ignore => return,
            Admission::Refuse if !self.transactions.knows(&message) => {
                self.refuse_statelessly(now, flow, message);
                return;
            }
            Admission::Refuse | Admission::Admit => {}
        }
        if self.acknowledges_refusal(now, &message) {
            return;
        }
        if let Err(violation) = message.validate() {
            self.reject(now, &flow, &message, &violation);
            return;
        }
        if !message.is_request() {
            let is_ours = message
                .top_via()
                .is_some_and(|via| self.identity.is_own_sent_by(via.host(), via.port()));
            if !is_ours {
                self.statistics.foreign_responses += 1;
                return;
            }
        }
        if self.is_stateless(&message) {
            // It overtakes none of those before it.
            self.process_accepted(now);
            self.handle_stateless(now, flow, message);
        } else {
            self.transactions.handle_message(now, flow, message);
        }
    }

    /// Goes on with the messages that were [accepted](Proxy::accept_message), in their order.
    pub fn process_accepted(&mut self, now: Instant) {
        self.process_transaction_events(now);
    }

    /// Takes octets that are no whole message: answered 400 where they are enough of a request for
    /// that, dropped otherwise.
    pub fn handle_malformed(&mut self, now: Instant, flow: Flow, octets: Bytes) {
        if self.policy.routing.drop.has_address(flow.remote.ip()) {
            self.statistics.dropped_addresses += 1;
            return;
        }
        let violation = Violation {
            status: 400,
            reason: "Bad Request",
        };
        match Message::read(octets) {
            Ok(message) => self.reject(now, &flow, &message, &violation),
            Err(_) => self.statistics.malformed += 1,
        }
    }

    /// Takes notice that a message of this transaction could not be sent (RFC 3261 section 18.4).
    pub fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) {
        self.transactions.handle_send_failure(now, transaction);
        self.process_transaction_events(now);
    }

    /// Takes notice that the network says of a datagram to this address that it did not get there: of one that began so
    /// (RFC 3261 section 18.4).
    pub fn handle_undelivered(&mut self, now: Instant, remote: SocketAddr, beginning: &Message) {
        self.transactions.handle_undelivered(now, remote, beginning);
        self.process_transaction_events(now);
    }

    /// Takes notice that a message of this transaction could not be sent because the connection for it
    /// was refused: the far end knows the transport not at all, or not now (RFC 3261 section 18.1.1).
    pub fn handle_connection_refused(&mut self, now: Instant, transaction: TransactionKey) {
        if let TransactionKey::Client(client) = transaction
            && let Some((server, index)) = self.clients.get(client)
            && let Some(context) = self.contexts.get_mut(&server)
            && let Some(forwarded) = context.forwarded_mut(index)
        {
            forwarded.is_refused = true;
        }
        self.handle_send_failure(now, transaction);
    }

    /// Takes notice that a connection or association is gone. Bindings that came over it stay until
    /// they expire, since the Contact may be reachable without it (see `target`), but requests do not
    /// go along it any more.
    pub fn handle_connection_closed(&mut self, connection: ConnectionId) {
        self.proved_names.remove(connection);
        self.closed.insert(connection);
        if self.closed.len() > MAXIMUM_CLOSED {
            self.closed.pop_first();
        }
    }

    /// Takes the answer to a question. One that nobody waits for any more is ignored.
    pub fn handle_answer(&mut self, now: Instant, id: QueryId, answer: Answer) {
        if let Some(waiting) = self.questions.take(id) {
            self.resume(now, waiting, answer, false);
        }
        self.process_transaction_events(now);
    }

    /// Exchanges what can be changed at run time. Requests that are being forwarded go on by the
    /// decisions that were made for them.
    pub fn set_policy(&mut self, now: Instant, policy: Arc<Policy>) {
        self.dispatch.set_policy(now, &policy);
        self.defence.set_policy(&policy.overload);
        let had_keep_alives = self.policy.keep_alive.method.is_some();
        self.policy = policy;
        match self.policy.keep_alive.method {
            // Who registers meanwhile is not noted.
            None => {
                self.stop_walk();
                self.keep_alives = KeepAlives::default();
            }
            Some(_) if !had_keep_alives => self.walk_through_store(now),
            Some(_) => {}
        }
    }

    /// Takes notice of the time of day, for those who are to be told it (Date, RFC 3261 section 20.17).
    pub fn set_wall_clock(&mut self, now: Instant, time: SystemTime) {
        self.clock.set(now, time);
        self.dialogs.set_time(time);
    }

    /// Refuses what would begin a dialog from now on. What has begun goes on.
    pub fn drain(&mut self) {
        self.defence.drain();
    }

    /// How many transactions have not ended, those included that only wait for retransmissions.
    pub fn transactions(&self) -> usize {
        self.transactions.client_transactions() + self.transactions.server_transactions()
    }

    /// Whether events are made of calls and registrations that go well or not; where nobody reads them they need not
    /// be. At first they are.
    pub fn tell_of_users(&mut self, is_wanted: bool) {
        self.tells_of_users = is_wanted;
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        self.process_transaction_events(now);
        while let Some(waiting) = self.questions.take_expired(now) {
            self.statistics.questions_timed_out += 1;
            self.resume(now, waiting, Answer::Failed, true);
        }
        while let Some(&(due, branch)) = self.timers.first() {
            if due > now {
                break;
            }
            self.timers.remove(&(due, branch));
            self.handle_branch_timeout(now, branch);
        }
        self.look_again(now);
        self.handle_probe_timeouts(now);
        self.continue_walk(now);
        self.send_keep_alives(now);
        self.process_transaction_events(now);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transactions
            .poll_transmit()
            .or_else(|| self.outgoing.pop_front())
    }

    /// The next question to the location store or the resolver.
    pub fn poll_query(&mut self) -> Option<(QueryId, Query)> {
        self.questions.poll()
    }

    /// The next event for the log.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Proxy::handle_timeout) is due next.
    pub fn next_timeout(&self) -> Option<Instant> {
        [
            self.transactions.next_timeout(),
            self.questions.next_timeout(),
            self.timers.first().map(|(due, _)| *due),
            self.watches.next_timeout(),
            self.dispatch.next_timeout(),
            self.keep_alives.next_timeout(),
            self.keep_alive_walk.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How long clients have waited.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            transactions: *self.transactions.statistics(),
            overload: self.defence.statistics(),
            response_contexts: self.contexts.len() as u64,
            branches: self.clients.len() as u64,
            questions: self.questions.len() as u64,
            nonces: self.authentication.nonces() as u64,
            keep_alives: self.keep_alives.len() as u64,
            held_octets: (self.contexts.octets() + self.parked_octets) as u64,
            ..self.statistics
        }
    }

    /// Adds an event for the log.
    pub(super) fn report(&mut self, event: Event) {
        if self.events.len() < self.maximum_events {
            self.events.push_back(event);
        } else {
            self.statistics.events_dropped += 1;
        }
    }

    /// Answers a request in its transaction, with a tag in To if there is none.
    pub(super) fn respond(&mut self, now: Instant, server: ServerId, response: Message) {
        let response = match response.status() {
            Some(100) => response,
            _ => self.tagged(response),
        };
        if !self.may_respond(now, server, &response) {
            self.transactions.forget(server);
            return;
        }
        self.transactions.respond(now, server, response);
    }

    /// Our tag in To of the responses to a request. It follows from the request, so that an INVITE and
    /// its CANCEL get the same (RFC 3261 section 9.2), and an ACK to what was answered without a
    /// transaction is known again; and from a key, so that nobody else can tell.
    pub(super) fn tag_for(&self, message: &Message) -> Digits {
        self.tag_of(message.call_id(), message.cseq_number())
    }

    /// [`tag_for`](Proxy::tag_for) a request of which only this is known.
    pub(super) fn tag_of(&self, call_id: Option<&str>, number: Option<u32>) -> Digits {
        Digits::hexadecimal(self.hash(&(call_id, number)))
    }

    /// Whether the tag in To of a message is ours.
    pub(super) fn has_our_tag(&self, message: &Message) -> bool {
        // Those of others have another length, mostly.
        let tag = message.to_tag().filter(|tag| tag.len() == OUR_TAG);
        tag.is_some_and(|tag| tag == self.tag_for(message).as_str())
    }

    /// A number that follows from a value and from our key.
    pub(super) fn hash(&self, value: &impl Hash) -> u64 {
        self.tags.hash_one(value)
    }

    /// Whether messages of this length may be held besides those that are. What is not is counted.
    pub(super) fn has_room(&mut self, octets: usize) -> bool {
        let held = self.contexts.octets() + self.parked_octets;
        let has_room = held.saturating_add(octets) <= self.maximum_held_octets;
        if !has_room {
            self.statistics.octets_refused += 1;
        }
        has_room
    }

    /// Parks something until a question is answered. Where too much is parked, it comes back.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        query: Query,
        waiting: Waiting,
    ) -> Result<QueryId, Waiting> {
        let octets = waiting.octets();
        if octets > 0 && !self.has_room(octets) {
            return Err(waiting);
        }
        let asked = self.questions.ask(now, query, waiting);
        match &asked {
            Ok(_) => self.parked_octets += octets,
            Err(_) => self.statistics.questions_refused += 1,
        }
        asked
    }

    /// Takes a question back, with what waits for its answer.
    pub(super) fn withdraw(&mut self, query: QueryId) -> Option<Waiting> {
        let waiting = self.questions.take(query)?;
        self.parked_octets -= waiting.octets();
        Some(waiting)
    }

    /// Does what the transaction layer has to tell.
    pub(super) fn process_transaction_events(&mut self, now: Instant) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Request {
                    transaction,
                    flow,
                    request,
                    cancels,
                } => {
                    self.handle_request(now, transaction, flow, request, cancels);
                }
                TransactionEvent::Overloaded { flow, request } => {
                    self.answer_overloaded(now, flow, &request);
                }
                TransactionEvent::Ack { flow, request } => {
                    self.handle_acknowledgement(now, flow, request);
                }
                TransactionEvent::Response {
                    transaction,
                    flow,
                    mut response,
                } => {
                    if self.handle_probe_response(now, transaction, &response) {
                        continue;
                    }
                    self.remove_claims(&mut response, &flow);
                    self.handle_response(now, transaction, response);
                }
                TransactionEvent::StrayResponse { flow, response } => {
                    self.handle_stray_response(now, flow, response);
                }
                TransactionEvent::Timeout { transaction } => {
                    self.handle_unanswered(now, transaction, 408);
                }
                TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(client),
                } => {
                    self.handle_unanswered(now, client, 503);
                }
                TransactionEvent::Terminated {
                    transaction: TransactionKey::Client(client),
                } => {
                    self.clients.remove(client);
                    self.late_answers.remove(&client);
                    self.dialogs.forget_transaction(client);
                }
                // Responses that cannot be sent are dropped (RFC 3261 section 16.9), and a missing ACK
                // is the endpoints' business.
                _ => {}
            }
        }
    }

    /// Takes notice that a transaction of ours has brought no response.
    fn handle_unanswered(&mut self, now: Instant, client: ClientId, status: u16) {
        if !self.handle_probe_failure(now, client) {
            self.handle_no_response(now, client, status);
        }
    }

    /// Hands an answer to what waited for it.
    fn resume(&mut self, now: Instant, waiting: Waiting, answer: Answer, is_timeout: bool) {
        self.parked_octets -= waiting.octets();
        match waiting {
            Waiting::Authenticate(authenticating) => {
                self.complete_authentication(now, *authenticating, answer);
            }
            Waiting::Register(registering) => self.complete_registration(now, *registering, answer),
            Waiting::Lookup(server) => self.complete_lookup(now, server, answer, is_timeout),
            Waiting::Newcomers(server) => self.complete_watch(now, server, answer),
            Waiting::Resolve(branch) => self.complete_resolution(now, branch, answer),
            Waiting::Passing(passing) => self.resume_passing(now, *passing, answer, is_timeout),
            Waiting::Probe(probe) => self.resume_probe(now, *probe, answer),
            Waiting::Page => self.complete_page(now, answer),
        }
    }

    /// Answers a request that breaks a rule, without a transaction: its parts may not be fit for one.
    fn reject(&mut self, now: Instant, flow: &Flow, message: &Message, violation: &Violation) {
        self.statistics.malformed += 1;
        if !message.is_request() || !self.may_refuse_stateless(now, flow, message) {
            return;
        }
        let Some(mut response) = Message::rejection(message, violation) else {
            return;
        };
        note_source(&mut response, flow);
        let response = self.tagged(response);
        self.transactions
            .send_stateless(now, response, Target::Flow(*flow));
    }

    /// A response of ours with a tag in To, unless it has one (RFC 3261 section 8.2.6.2).
    pub(super) fn tagged(&self, mut response: Message) -> Message {
        let tag = self.tag_for(&response);
        response.set_to_tag(tag.as_str());
        response
    }
}
