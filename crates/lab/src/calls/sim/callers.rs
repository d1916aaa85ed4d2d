//! The callers: one host that begins calls at a steady rate, holds each for a while and ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;
use sip::dialog::Dialog;
use sip::transaction::{ClientId, TransactionEvent, TransactionKey};
use sip::{Message, Method, Name, Target, Transport, Uri};

use super::SiteAddresses;
use super::user::{Behaviour, User};
use crate::calls::{Call, CallOutcome, HOLD, Scenario};
use crate::sip_carrier::SIP_PORT;

pub(super) struct Callers {
    user: User,
    /// To whom the callers send.
    proxy: SocketAddr,
    /// The proxies on the way to the callee, nearest first.
    routes: [String; 2],
    callee: String,
    interval: Duration,
    next_call: Option<Instant>,
    until: Instant,
    calls: Vec<Call>,
    state: BTreeMap<usize, State>,
    by_transaction: BTreeMap<ClientId, usize>,
    by_call_id: BTreeMap<String, usize>,
}

enum State {
    Inviting(Message),
    Up {
        dialog: Box<Dialog>,
        ack: Message,
        hang_up: Instant,
    },
    Ending {
        dialog: Box<Dialog>,
        ack: Message,
    },
}

impl Callers {
    pub(super) fn new(
        start: Instant,
        near: &SiteAddresses,
        far: &SiteAddresses,
        scenario: &Scenario,
        rng: ChaCha12Rng,
    ) -> Callers {
        Callers {
            user: User::new("sip:caller@near.example", near.user, rng),
            proxy: near.proxy,
            routes: [
                format!("<sip:{};lr>", near.proxy),
                format!(
                    "<sip:{};transport={};lr>",
                    far.trunk_listener(),
                    scenario.trunk
                ),
            ],
            callee: format!("sip:callee@{}", far.user),
            interval: Duration::from_secs_f64(1.0 / scenario.rate),
            next_call: Some(start),
            until: start + scenario.lasts,
            calls: Vec::new(),
            state: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            by_call_id: BTreeMap::new(),
        }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.clone()
    }

    fn call(&mut self, now: Instant) {
        let mut invite = self.user.agent.invite(&self.callee);
        for route in &self.routes {
            invite.push_back(Name::Route, route);
        }
        let branch = self.user.transactions.new_branch();
        self.user.agent.push_via(&mut invite, &branch);
        let index = self.calls.len();
        self.calls.push(Call {
            began: now,
            answered: None,
            outcome: CallOutcome::UnderWay,
        });
        let target = Target::Address(Transport::Udp, self.proxy);
        let transactions = &mut self.user.transactions;
        match transactions.send_request(now, invite.clone(), target) {
            Ok(client) => {
                self.by_transaction.insert(client, index);
                let call_id = invite.call_id().unwrap_or_default().to_owned();
                self.by_call_id.insert(call_id, index);
                self.state.insert(index, State::Inviting(invite));
            }
            Err(_) => self.calls[index].outcome = CallOutcome::NotAnswered,
        }
    }

    fn handle_response(&mut self, now: Instant, index: usize, response: &Message) {
        let status = response.status().unwrap_or_default();
        let is_invite = response
            .cseq()
            .is_some_and(|(_, method)| method == Method::Invite);
        match self.state.remove(&index) {
            Some(State::Inviting(invite)) if (200..300).contains(&status) => {
                let Some(dialog) = Dialog::uac(&invite, response) else {
                    self.state.insert(index, State::Inviting(invite));
                    return self.fail(index);
                };
                self.calls[index].answered = Some(now);
                let mut ack = dialog.ack(&invite);
                let branch = self.user.transactions.new_branch();
                self.user.agent.push_via(&mut ack, &branch);
                self.send_ack(now, &ack);
                let up = State::Up {
                    dialog: Box::new(dialog),
                    ack,
                    hang_up: now + HOLD,
                };
                self.state.insert(index, up);
            }
            Some(State::Inviting(_)) if status >= 300 => {
                self.calls[index].outcome = CallOutcome::of_failure(Some(status));
            }
            Some(State::Ending { .. }) if !is_invite && status >= 200 => {
                self.calls[index].outcome = match status {
                    200..300 => CallOutcome::Completed,
                    _ => CallOutcome::NotEnded,
                };
            }
            Some(state) => {
                if let State::Up { ack, .. } | State::Ending { ack, .. } = &state
                    && is_invite
                    && (200..300).contains(&status)
                {
                    let ack = ack.clone();
                    self.send_ack(now, &ack);
                }
                self.state.insert(index, state);
            }
            None => {}
        }
    }

    fn send_ack(&mut self, now: Instant, ack: &Message) {
        if let Some(target) = target_of(ack) {
            self.user
                .transactions
                .send_stateless(now, ack.clone(), target);
        }
    }

    fn hang_up(&mut self, now: Instant, index: usize) {
        let Some(State::Up {
            mut dialog, ack, ..
        }) = self.state.remove(&index)
        else {
            return;
        };
        let mut bye = dialog.request(Method::Bye);
        let branch = self.user.transactions.new_branch();
        self.user.agent.push_via(&mut bye, &branch);
        let transactions = &mut self.user.transactions;
        let sent =
            target_of(&bye).and_then(|target| transactions.send_request(now, bye, target).ok());
        match sent {
            Some(client) => {
                self.by_transaction.insert(client, index);
                self.state.insert(index, State::Ending { dialog, ack });
            }
            None => self.calls[index].outcome = CallOutcome::NotEnded,
        }
    }

    fn fail(&mut self, index: usize) {
        let outcome = match self.state.remove(&index) {
            Some(State::Inviting(_)) => CallOutcome::NotAnswered,
            Some(State::Ending { dialog, .. }) => {
                drop(dialog);
                CallOutcome::NotEnded
            }
            Some(state) => {
                self.state.insert(index, state);
                return;
            }
            None => return,
        };
        self.calls[index].outcome = outcome;
    }
}

impl Behaviour for Callers {
    fn user(&self) -> &User {
        &self.user
    }

    fn user_mut(&mut self) -> &mut User {
        &mut self.user
    }

    fn handle_event(&mut self, now: Instant, event: TransactionEvent) {
        match event {
            TransactionEvent::Response {
                transaction,
                response,
                ..
            } => {
                if let Some(&index) = self.by_transaction.get(&transaction) {
                    self.handle_response(now, index, &response);
                }
            }
            // A 2xx that is repeated, because the ACK was lost.
            TransactionEvent::StrayResponse { response, .. } => {
                let call_id = response.call_id().unwrap_or_default();
                if let Some(&index) = self.by_call_id.get(call_id) {
                    self.handle_response(now, index, &response);
                }
            }
            TransactionEvent::Timeout { transaction }
            | TransactionEvent::SendFailed {
                transaction: TransactionKey::Client(transaction),
            } => {
                if let Some(&index) = self.by_transaction.get(&transaction) {
                    self.fail(index);
                }
            }
            _ => {}
        }
    }

    fn handle_own_timeout(&mut self, now: Instant) {
        while let Some(due) = self.next_call.filter(|due| *due <= now) {
            let next = due + self.interval;
            self.next_call = (next < self.until).then_some(next);
            self.call(now);
        }
        let over: Vec<usize> = self
            .state
            .iter()
            .filter(|(_, state)| matches!(state, State::Up { hang_up, .. } if *hang_up <= now))
            .map(|(index, _)| *index)
            .collect();
        for index in over {
            self.hang_up(now, index);
        }
    }

    fn next_own_timeout(&self) -> Option<Instant> {
        let hang_ups = self.state.values().filter_map(|state| match state {
            State::Up { hang_up, .. } => Some(*hang_up),
            _ => None,
        });
        hang_ups.chain(self.next_call).min()
    }
}

/// Where a request in a dialog goes: to the first proxy on its route, whose address its URI has.
fn target_of(request: &Message) -> Option<Target> {
    let route = request.routes().next();
    let uri = match &route {
        Some(route) => route.as_ref().ok()?.uri(),
        None => request.request_uri()?,
    };
    let uri = Uri::parse(uri).ok()?;
    let uri = uri.as_sip()?;
    let address = format!("{}:{}", uri.host(), uri.port().unwrap_or(SIP_PORT));
    Some(Target::Address(Transport::Udp, address.parse().ok()?))
}
