//! What all parts of the core share: the transaction layer, the queries, who we are and what the settings say, and the
//! counters. Each part is lent it for as long as it works on a message.

#[cfg(test)]
pub(crate) mod testing;
mod unverified;

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::{ServerId, TransactionConfig, Transactions, note_source};
use sip::{ConnectionId, Flow, Message, Method, Name, Peek, Target, Transmit, Violation};

use super::config::Config;
use super::event::Event;
use super::flow_token::FlowTokens;
use super::gruu::Gruus;
use super::held_octets::HeldOctets;
use super::hook::{Hook, Hooks, Parking};
use super::identity::Identity;
use super::keys::Keys;
use super::latency::Latencies;
use super::overload::OverloadControl;
use super::pending::{Parked, ParkedAt, PendingQuery};
use super::policy::Policy;
use super::query::{Answer, Query, QueryId, Questions};
use super::registrar::registration::TOO_MANY_CONTACTS;
use super::rejection::Rejection;
use super::statistics::Statistics;
use super::trust::Trust;
use super::update::UpdateError;
use crate::text::{Digits, decimal};

/// What all parts of the core share.
#[derive(Debug)]
pub(crate) struct CommonState {
    pub(crate) identity: Identity,
    pub(crate) policy: Arc<Policy>,
    pub(crate) trust: Trust,
    pub(crate) overload: OverloadControl,
    pub(crate) hooks: Hooks,
    pub(crate) tokens: FlowTokens,
    pub(crate) gruus: Gruus,
    pub(crate) timings: Timings,
    /// The key of our tags.
    tags: RandomState,

    pub(crate) transactions: Transactions,
    queries: Questions<PendingQuery>,
    /// The length of the requests that are being forwarded or wait for an answer.
    pub(crate) held: HeldOctets,
    /// Connections whose peers are known, until somebody asks.
    known_connections: Vec<ConnectionId>,
    /// What is sent beside the messages of SIP.
    pub(crate) keep_alives: VecDeque<Transmit>,
    events: VecDeque<Event>,
    maximum_events: usize,
    /// Somebody reads of calls and registrations.
    pub(crate) reports_users: bool,
    pub(crate) statistics: Statistics,
    pub(crate) latencies: Box<Latencies>,
}

/// The times and sizes that do not change at run time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    /// T1 (RFC 3261 section 17.1.1.1).
    pub(crate) t1: Duration,
    pub(crate) timer_c: Duration,
    /// The largest request that goes over UDP where TCP is there too.
    pub(crate) maximum_datagram: usize,
    pub(crate) maximum_transactions: usize,
}

/// How long our tags are.
pub(crate) const OUR_TAG: usize = 16;

/// What a request is refused with for which there is no time (RFC 3261 section 21.5.4).
const OVERLOADED: Violation = Violation {
    status: 503,
    reason: "Service Unavailable",
};

impl CommonState {
    pub(crate) fn new(
        config: &Config,
        keys: &Keys,
        hooks: Vec<Box<dyn Hook>>,
        rng: &mut ChaCha12Rng,
    ) -> CommonState {
        let transactions = TransactionConfig {
            // The 100 is sent here, at once.
            trying_after: None,
            ..config.transactions.clone()
        };
        let timings = Timings {
            t1: transactions.t1,
            timer_c: config.timer_c,
            maximum_datagram: config.maximum_datagram,
            maximum_transactions: transactions.max_transactions,
        };
        CommonState {
            identity: Identity::new(
                config.listeners.clone(),
                config.advertise.clone(),
                config.local_addresses.clone(),
                config.domains.clone(),
            )
            .offering_aliases(config.offers_aliases),
            policy: Arc::clone(&config.policy),
            hooks: Hooks::new(hooks, &config.policy),
            trust: Trust::new(&config.policy.trust),
            overload: OverloadControl::new(&config.policy.overload, rng),
            tokens: FlowTokens::new(keys, config.incarnation),
            gruus: Gruus::new(keys, rand::SeedableRng::from_rng(rng)),
            timings,
            tags: hash_keys(rng),
            transactions: Transactions::new(transactions, rand::SeedableRng::from_rng(rng)),
            queries: Questions::new(config.queries.clone(), rng),
            held: HeldOctets::new(config.maximum_held_octets),
            known_connections: Vec::new(),
            keep_alives: VecDeque::new(),
            events: VecDeque::new(),
            maximum_events: config.maximum_events,
            reports_users: true,
            statistics: Statistics::default(),
            latencies: Box::default(),
        }
    }

    /// Exchanges the settings.
    pub(crate) fn set_policy(&mut self, policy: &Arc<Policy>) {
        self.overload.set_policy(&policy.overload);
        self.trust.set_policy(&policy.trust);
        self.hooks.set_policy(policy);
        self.policy = Arc::clone(policy);
    }

    /// Adds an event for the log.
    pub(crate) fn report(&mut self, event: Event) {
        if self.events.len() < self.maximum_events {
            self.events.push_back(event);
        } else {
            self.statistics.events_dropped += 1;
        }
    }

    /// The next event for the log.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Answers a request in its transaction, with a tag in To if there is none.
    pub(crate) fn respond(&mut self, now: Instant, server: ServerId, response: Message) {
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

    /// Refuses a request, whether or not it is being forwarded.
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        server: ServerId,
        request: &Message,
        rejection: &Rejection,
    ) {
        self.statistics.refused += 1;
        self.respond(now, server, rejection.response(request));
    }

    /// Answers a request as a user agent server without state does (RFC 3261 section 8.2.7): the same answer to
    /// each retransmission, none to an ACK.
    pub(crate) fn refuse_stateless(
        &mut self,
        now: Instant,
        arrival: &Flow,
        request: &Message,
        rejection: &Rejection,
    ) {
        if request.method() == Some(&Method::Ack) {
            self.statistics.acknowledgements_dropped += 1;
            return;
        }
        self.statistics.refused += 1;
        if !self.may_refuse_stateless(now, arrival, request) {
            return;
        }
        let response = self.tagged(rejection.response(request));
        self.transactions.respond_stateless(now, *arrival, response);
    }

    /// Answers a request that breaks a rule, without a transaction: its parts may not be fit for one.
    pub(crate) fn reject(
        &mut self,
        now: Instant,
        flow: &Flow,
        message: &Message,
        violation: &Violation,
    ) {
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

    /// Answers 503 to a request for which nothing is to be done, and makes no transaction of it. It may break
    /// any rule: nobody has looked.
    pub(crate) fn refuse_overloaded(&mut self, now: Instant, flow: Flow, mut request: Message) {
        self.statistics.refused += 1;
        note_source(&mut request, &flow);
        if let Some(response) = Message::rejection(&request, &OVERLOADED) {
            self.send_refusal(now, flow, response);
        }
    }

    /// [`refuse_overloaded`](CommonState::refuse_overloaded) for a request that was only peeked at, and is no ACK.
    pub(crate) fn refuse_peeked(&mut self, now: Instant, flow: Flow, request: &Peek<'_>) {
        self.statistics.refused += 1;
        let response = request.response(flow.remote, OVERLOADED.status, OVERLOADED.reason);
        self.send_refusal(now, flow, response);
    }

    fn send_refusal(&mut self, now: Instant, flow: Flow, mut response: Message) {
        response.push_back(Name::RetryAfter, self.retry_after());
        let response = self.tagged(response);
        self.transactions.respond_stateless(now, flow, response);
    }

    /// Answers a request for which there was no room among the transactions.
    pub(crate) fn answer_overloaded(&mut self, now: Instant, flow: Flow, request: &Message) {
        self.statistics.refused += 1;
        self.overload.note_refused(now);
        let response = self.tagged(self.overloaded().response(request));
        self.transactions.respond_stateless(now, flow, response);
    }

    /// Why a request is refused for which there is no room now.
    pub(crate) fn overloaded(&self) -> Rejection {
        Rejection::overloaded(self.retry_after())
    }

    /// After how many seconds a client that is refused may come back (RFC 3261 section 20.33).
    pub(crate) fn retry_after(&self) -> String {
        let seconds = self.policy.overload.retry_after.as_secs().max(1);
        decimal(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    /// Why a request is refused whose sender may not use us, which is counted.
    pub(crate) fn deny_relay(&mut self) -> Rejection {
        self.statistics.relays_denied += 1;
        Rejection::new(403, "Relaying Denied")
    }

    /// What a client is told when the store has not done what it was asked.
    pub(crate) fn store_error(&self, answer: &Answer) -> Rejection {
        match answer {
            Answer::Refused(UpdateError::TooManyBindings) => TOO_MANY_CONTACTS,
            Answer::Refused(UpdateError::OutOfOrder) => Rejection::new(500, "CSeq Out Of Order"),
            Answer::Full => self.overloaded(),
            // A change that is not known to be safe has failed (RFC 3261 section 10.3 step 7).
            _ => Rejection::new(500, "Server Internal Error"),
        }
    }

    /// Our tag in To of the responses to a request. It follows from the request, so that an INVITE and
    /// its CANCEL get the same (RFC 3261 section 9.2), and an ACK to what was answered without a
    /// transaction is known again; and from a key, so that nobody else can tell.
    pub(crate) fn tag_for(&self, message: &Message) -> Digits {
        self.tag_of(message.call_id(), message.cseq_number())
    }

    /// [`tag_for`](CommonState::tag_for) a request of which only this is known.
    pub(crate) fn tag_of(&self, call_id: Option<&str>, number: Option<u32>) -> Digits {
        Digits::hexadecimal(self.hash(&(call_id, number)))
    }

    /// Whether the tag in To of a message is ours.
    pub(crate) fn has_our_tag(&self, message: &Message) -> bool {
        // Those of others have another length, mostly.
        let tag = message.to_tag().filter(|tag| tag.len() == OUR_TAG);
        tag.is_some_and(|tag| tag == self.tag_for(message).as_str())
    }

    /// A response of ours with a tag in To, unless it has one (RFC 3261 section 8.2.6.2).
    pub(crate) fn tagged(&self, mut response: Message) -> Message {
        let tag = self.tag_for(&response);
        response.set_to_tag(tag.as_str());
        response
    }

    /// A number that follows from a value and from our key.
    pub(crate) fn hash(&self, value: &impl Hash) -> u64 {
        self.tags.hash_one(value)
    }

    /// Whether messages of this length may be held besides those that are. One that may not is counted.
    pub(crate) fn has_room(&mut self, octets: usize) -> bool {
        let has_room = self.held.has_room(octets);
        self.statistics.octets_refused += u64::from(!has_room);
        has_room
    }

    /// Asks, and parks what waits for the answer. Where too much is parked, it comes back.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        query: Query,
        pending: PendingQuery,
    ) -> Result<QueryId, PendingQuery> {
        let octets = pending.octets();
        if octets > 0 && !self.has_room(octets) {
            return Err(pending);
        }
        let asked = self.queries.ask(now, query, pending);
        match &asked {
            Ok(_) => self.held.add(octets),
            Err(_) => self.statistics.questions_refused += 1,
        }
        asked
    }

    /// Parks what a hook cannot decide yet. Where too much is parked, it comes back.
    pub(crate) fn park(
        &mut self,
        now: Instant,
        parking: Parking,
        what: ParkedAt,
    ) -> Result<QueryId, Option<Box<Parked>>> {
        let Parking { hook, query, state } = parking;
        let pending = PendingQuery::Hook(Box::new(Parked { hook, state, what }));
        match self.ask(now, query, pending) {
            Ok(id) => Ok(id),
            Err(PendingQuery::Hook(parked)) => Err(Some(parked)),
            Err(_) => Err(None),
        }
    }

    /// Takes what waits for an answer, because it is there or is not wanted any more; `None` where it is not known.
    pub(crate) fn take_pending(&mut self, id: QueryId) -> Option<PendingQuery> {
        let pending = self.queries.take(id)?;
        self.held.remove(pending.octets());
        Some(pending)
    }

    /// Takes what has waited for an answer for too long.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<PendingQuery> {
        let pending = self.queries.take_expired(now)?;
        self.statistics.questions_timed_out += 1;
        self.held.remove(pending.octets());
        Some(pending)
    }

    /// The next question to the location store or the resolver.
    pub(crate) fn poll_query(&mut self) -> Option<(QueryId, Query)> {
        self.queries.poll()
    }

    /// How many questions wait.
    pub(crate) fn pending_queries(&self) -> usize {
        self.queries.len()
    }

    /// Whether so many questions wait for the store that those who do not have to ask it had better not.
    pub(crate) fn are_queries_half_full(&self) -> bool {
        self.queries.is_half_full()
    }

    /// When the next question's time is over, or a transaction has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.transactions.next_timeout(),
            self.queries.next_timeout(),
            self.hooks.next_timeout(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// The next message to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transactions
            .poll_transmit()
            .or_else(|| self.keep_alives.pop_front())
    }
}

/// Keys of a hash table.
pub(crate) fn hash_keys(rng: &mut ChaCha12Rng) -> RandomState {
    let mut next = || rng.next_u64();
    RandomState::with_seeds(next(), next(), next(), next())
}
