//! Users that call: register, INVITE, ACK, hold, BYE.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::dialog::Dialog;
use sip::transaction::{ClientId, ServerId, TransactionEvent, TransactionKey, Transactions};
use sip::{Flow, Message, Method, Transmit};

use super::registration::Registrations;
use super::user::{User, address_of_record};
use super::waits::Waits;
use super::{CallPlan, Moment, Pace, Population, Side, Stop, hasher, transaction_config};
use crate::statistics::{CallResults, RegistrationResults};

/// From a failed call to the caller's next one in a closed loop: T1.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// The callers of a run.
#[derive(Debug)]
pub struct Callers {
    users: Vec<User>,
    /// Address of record of each caller's callee.
    callees: Vec<String>,
    plan: CallPlan,
    transactions: Transactions,
    registrations: Registrations,
    calls: HashMap<CallNumber, Call, RandomState>,
    /// The call whose INVITE or BYE a transaction carries.
    by_transaction: HashMap<ClientId, CallNumber, RandomState>,
    calling: Option<Calling>,
    unanswered: Waits<CallNumber>,
    held: Waits<CallNumber>,
    pausing: Waits<usize>,
    results: CallResults,
    repeated_acks: u64,
}

/// Calls are numbered in the order in which they begin.
type CallNumber = u64;

/// The callers call.
#[derive(Clone, Copy, Debug)]
struct Calling {
    since: Instant,
    /// Calls of an open loop that were due so far.
    due: u64,
}

#[derive(Debug)]
struct Call {
    caller: usize,
    invite: Message,
    /// The transaction of the INVITE.
    invitation: ClientId,
    invited: Instant,
    is_provisional_received: bool,
    /// From the INVITE to the first response that says how it stands.
    session_request_delay: Option<Duration>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No final response yet.
    Inviting,
    /// Cancelled and counted as failed; a 2xx that crosses the CANCEL is still acknowledged and ended.
    GivenUp,
    /// The ACK is sent, the BYE is not.
    Held { dialog: Box<Dialog>, ack: Message },
    /// The BYE is sent.
    Ending {
        ack: Message,
        farewell: ClientId,
        sent: Instant,
    },
}

impl Callers {
    /// The callers of a population; each calls the user whose number is higher by their count.
    pub fn new(population: Population, plan: CallPlan, mut rng: ChaCha12Rng) -> Callers {
        let users = population.users(&mut rng);
        Callers {
            callees: users
                .iter()
                .map(|user| user.number() + population.count())
                .map(|number| address_of_record(number, population.proxy))
                .collect(),
            transactions: Transactions::new(transaction_config(), ChaCha12Rng::from_rng(&mut rng)),
            registrations: Registrations::new(&users, population.count(), hasher(&mut rng)),
            calls: HashMap::with_hasher(hasher(&mut rng)),
            by_transaction: HashMap::with_hasher(hasher(&mut rng)),
            calling: None,
            unanswered: Waits::new(plan.answer_within),
            held: Waits::new(plan.hold),
            pausing: Waits::new(PAUSE_AFTER_FAILURE),
            results: CallResults::default(),
            repeated_acks: 0,
            users,
            plan,
        }
    }

    /// Begins to call.
    pub fn start_calls(&mut self, now: Instant) {
        self.calling = Some(Calling { since: now, due: 0 });
        if self.plan.pace == Pace::Closed {
            for caller in 0..self.users.len() {
                self.call_if_planned(now, caller);
            }
        }
    }

    /// Begins no further call and forgets those under way; the results stay.
    pub fn stop_calls(&mut self) {
        self.calling = None;
        self.calls.clear();
        self.by_transaction.clear();
        self.unanswered.clear();
        self.held.clear();
        self.pausing.clear();
    }

    /// When calling ends by the plan, where the plan names a time.
    pub fn end_of_calls(&self) -> Option<Instant> {
        match (self.plan.stop, self.calling) {
            (Stop::After(time), Some(calling)) => Some(calling.since + time),
            _ => None,
        }
    }

    /// Whether as many calls have ended as the plan wants.
    pub fn has_finished_calls(&self) -> bool {
        match self.plan.stop {
            Stop::After(_) => false,
            Stop::Calls(calls) => self.results.completed + self.results.failed >= calls,
        }
    }

    /// What became of the calls.
    pub fn results(&self) -> &CallResults {
        &self.results
    }

    /// Begins a call unless the plan is fulfilled.
    fn call_if_planned(&mut self, now: Instant, caller: usize) {
        let is_planned = match self.plan.stop {
            Stop::After(_) => self.end_of_calls().is_some_and(|end| now < end),
            Stop::Calls(calls) => self.calling.is_some() && self.results.attempted < calls,
        };
        if is_planned {
            self.call(now, caller);
        }
    }

    fn call(&mut self, now: Instant, caller: usize) {
        let user = &mut self.users[caller];
        let mut invite = user.invite(&self.callees[caller]);
        user.push_via(&mut invite, &self.transactions.new_branch());
        let number = self.results.attempted;
        self.results.attempted += 1;
        let Ok(invitation) = self
            .transactions
            .send_request(now, invite.clone(), user.target())
        else {
            self.results.failed += 1;
            self.pausing.push(now, caller);
            return;
        };
        self.by_transaction.insert(invitation, number);
        self.unanswered.push(now, number);
        let call = Call {
            caller,
            invite,
            invitation,
            invited: now,
            is_provisional_received: false,
            session_request_delay: None,
            state: State::Inviting,
        };
        self.calls.insert(number, call);
    }

    /// Begins the calls of an open loop that are due.
    fn keep_pace(&mut self, now: Instant) {
        while self.next_arrival().is_some_and(|due| due <= now) {
            let Some(calling) = &mut self.calling else {
                return;
            };
            let caller = (calling.due % self.users.len().max(1) as u64) as usize;
            calling.due += 1;
            let in_flight = self.results.unfinished();
            if in_flight >= self.plan.in_flight as u64 {
                self.results.not_started += 1;
            } else {
                self.call_if_planned(now, caller);
            }
        }
    }

    /// When the next call of an open loop is due.
    fn next_arrival(&self) -> Option<Instant> {
        let (Pace::Open { calls_per_second }, Some(calling)) = (self.plan.pace, self.calling)
        else {
            return None;
        };
        let is_enough = match self.plan.stop {
            Stop::After(time) => calling.due as f64 >= time.as_secs_f64() * calls_per_second,
            Stop::Calls(calls) => self.results.attempted >= calls,
        };
        (!is_enough)
            .then(|| calling.since + Duration::from_secs_f64(calling.due as f64 / calls_per_second))
    }

    fn handle_events(&mut self, moment: Moment) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Response {
                    transaction,
                    response,
                    ..
                } => {
                    self.handle_response(moment, transaction, &response);
                }
                TransactionEvent::Timeout { transaction } => {
                    self.handle_no_answer(moment.now, transaction)
                }
                TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(transaction),
                } => {
                    self.handle_no_answer(moment.now, transaction);
                }
                TransactionEvent::Request {
                    transaction,
                    request,
                    ..
                } => {
                    self.answer(moment.now, transaction, &request);
                }
                TransactionEvent::Terminated {
                    transaction: TransactionKey::Client(transaction),
                } => {
                    self.forget_given_up(transaction);
                }
                _ => {}
            }
        }
    }

    fn handle_response(&mut self, moment: Moment, transaction: ClientId, response: &Message) {
        if self
            .registrations
            .handle_outcome(moment, transaction, Some(response))
        {
            return;
        }
        let Some(&number) = self.by_transaction.get(&transaction) else {
            return;
        };
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let status = response.status().unwrap_or(0);
        if transaction != call.invitation {
            self.handle_farewell_response(moment, number, status);
            return;
        }
        match status {
            100..200 => {
                call.is_provisional_received = true;
                if status > 100 {
                    let delay = moment.since(call.invited);
                    call.session_request_delay.get_or_insert(delay);
                }
            }
            200..300 => self.handle_answer(moment, number, response),
            _ => {
                let delay = moment.since(call.invited);
                call.session_request_delay.get_or_insert(delay);
                self.fail(moment.now, number);
            }
        }
    }

    /// A 2xx to the INVITE, the first or a repeated one.
    fn handle_answer(&mut self, moment: Moment, number: CallNumber, response: &Message) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let user = &self.users[call.caller];
        match &call.state {
            State::Held { ack, .. } | State::Ending { ack, .. } => {
                // The ACK was lost, or is late (RFC 3261 section 13.2.2.4).
                self.repeated_acks += 1;
                self.transactions
                    .send_stateless(moment.now, ack.clone(), user.target());
            }
            State::Inviting | State::GivenUp => {
                let Some(mut dialog) = Dialog::uac(&call.invite, response) else {
                    self.fail(moment.now, number);
                    return;
                };
                let mut ack = dialog.ack(&call.invite);
                user.push_via(&mut ack, &self.transactions.new_branch());
                self.transactions
                    .send_stateless(moment.now, ack.clone(), user.target());
                if matches!(call.state, State::GivenUp) {
                    let mut bye = dialog.request(Method::Bye);
                    user.push_via(&mut bye, &self.transactions.new_branch());
                    // The call has failed already, whatever becomes of this.
                    self.transactions
                        .send_request(moment.now, bye, user.target())
                        .ok();
                    self.remove(number);
                    return;
                }
                let delay = moment.since(call.invited);
                self.results
                    .session_request_delay
                    .record(*call.session_request_delay.get_or_insert(delay));
                call.state = State::Held {
                    dialog: Box::new(dialog),
                    ack,
                };
                if self.plan.hold.is_zero() {
                    self.hang_up(moment.now, number);
                } else {
                    self.held.push(moment.now, number);
                }
            }
        }
    }

    fn hang_up(&mut self, now: Instant, number: CallNumber) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let State::Held { dialog, ack } = &mut call.state else {
            return;
        };
        let user = &self.users[call.caller];
        let mut bye = dialog.request(Method::Bye);
        user.push_via(&mut bye, &self.transactions.new_branch());
        match self.transactions.send_request(now, bye, user.target()) {
            Ok(farewell) => {
                call.state = State::Ending {
                    ack: ack.clone(),
                    farewell,
                    sent: now,
                };
                self.by_transaction.insert(farewell, number);
            }
            Err(_) => self.end(now, number, false),
        }
    }

    fn handle_farewell_response(&mut self, moment: Moment, number: CallNumber, status: u16) {
        let Some(Call {
            state: State::Ending { sent, .. },
            ..
        }) = self.calls.get(&number)
        else {
            return;
        };
        match status {
            0..200 => {}
            200..300 => {
                self.results
                    .session_disconnect_delay
                    .record(moment.since(*sent));
                self.end(moment.now, number, true);
            }
            _ => self.end(moment.now, number, false),
        }
    }

    /// A transaction timed out or its request could not be sent.
    fn handle_no_answer(&mut self, now: Instant, transaction: ClientId) {
        if self
            .registrations
            .handle_outcome(Moment::at(now), transaction, None)
        {
            return;
        }
        let Some(&number) = self.by_transaction.get(&transaction) else {
            return;
        };
        match self.calls.get(&number).map(|call| &call.state) {
            Some(State::Inviting | State::GivenUp) => self.fail(now, number),
            Some(State::Ending { farewell, .. }) if *farewell == transaction => {
                self.end(now, number, false)
            }
            _ => {}
        }
    }

    /// Cancels a call that was not answered in time (RFC 3261 section 9.1). Without any response there
    /// is nothing to cancel yet, and the transaction's own Timer B is about to end it.
    fn give_up(&mut self, now: Instant, number: CallNumber) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if !matches!(call.state, State::Inviting) || !call.is_provisional_received {
            return;
        }
        let target = self.users[call.caller].target();
        let cancel = sip::user_agent::cancel_of(&call.invite);
        self.transactions.send_request(now, cancel, target).ok();
        call.state = State::GivenUp;
        self.count_failure(now, number);
    }

    /// A call was refused or nobody answered.
    fn fail(&mut self, now: Instant, number: CallNumber) {
        if matches!(
            self.calls.get(&number),
            Some(Call {
                state: State::Inviting,
                ..
            })
        ) {
            self.count_failure(now, number);
        }
        self.remove(number);
    }

    /// Counts a call that was not set up, and lets its caller go on.
    fn count_failure(&mut self, now: Instant, number: CallNumber) {
        let Some(call) = self.calls.get(&number) else {
            return;
        };
        if let Some(delay) = call.session_request_delay {
            self.results.failed_session_request_delay.record(delay);
        }
        self.results.failed += 1;
        self.pausing.push(now, call.caller);
    }

    /// A call that was set up has ended, as it should or not.
    fn end(&mut self, now: Instant, number: CallNumber, is_complete: bool) {
        let Some(caller) = self.remove(number) else {
            return;
        };
        if is_complete {
            self.results.completed += 1;
            if self.plan.pace == Pace::Closed {
                self.call_if_planned(now, caller);
            }
        } else {
            self.results.failed += 1;
            self.pausing.push(now, caller);
        }
    }

    fn remove(&mut self, number: CallNumber) -> Option<usize> {
        let call = self.calls.remove(&number)?;
        self.by_transaction.remove(&call.invitation);
        if let State::Ending { farewell, .. } = call.state {
            self.by_transaction.remove(&farewell);
        }
        Some(call.caller)
    }

    fn forget_given_up(&mut self, transaction: ClientId) {
        let Some(&number) = self.by_transaction.get(&transaction) else {
            return;
        };
        if matches!(
            self.calls.get(&number),
            Some(Call {
                state: State::GivenUp,
                ..
            })
        ) {
            self.remove(number);
        }
    }

    /// Answers a request: callers expect none but a callee's BYE after it missed the ACK.
    fn answer(&mut self, now: Instant, transaction: ServerId, request: &Message) {
        if let Some(user) = self.users.first_mut() {
            let response = user.response_to_stranger(request);
            self.transactions.respond(now, transaction, response);
        }
    }
}

impl Side for Callers {
    fn register(&mut self, now: Instant) {
        self.registrations.start(now);
    }

    fn handle_message(&mut self, now: Instant, received: Instant, flow: Flow, message: Message) {
        if message.validate().is_ok() {
            self.transactions.handle_message(now, flow, message);
            self.handle_events(Moment { now, received });
        }
    }

    fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey) {
        self.transactions.handle_send_failure(now, transaction);
        self.handle_events(Moment::at(now));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        self.handle_events(Moment::at(now));
        self.registrations
            .handle_timeout(now, &mut self.users, &mut self.transactions);
        while let Some(number) = self.unanswered.pop_due(now) {
            self.give_up(now, number);
        }
        while let Some(number) = self.held.pop_due(now) {
            self.hang_up(now, number);
        }
        while let Some(caller) = self.pausing.pop_due(now) {
            if self.plan.pace == Pace::Closed {
                self.call_if_planned(now, caller);
            }
        }
        self.keep_pace(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        [
            self.transactions.next_timeout(),
            self.registrations.next_timeout(),
            self.unanswered.next_timeout(),
            self.held.next_timeout(),
            self.pausing.next_timeout(),
            self.next_arrival(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transactions.poll_transmit()
    }

    fn registrations(&self) -> &RegistrationResults {
        self.registrations.results()
    }

    fn registered_users(&self) -> u32 {
        self.registrations.registered()
    }

    fn retransmissions(&self) -> u64 {
        self.transactions.statistics().retransmissions() + self.repeated_acks
    }
}
