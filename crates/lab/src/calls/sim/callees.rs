//! The callees: one host that answers every call after it has rung for a while.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use rand_chacha::ChaCha12Rng;
use sip::dialog::{AnswerRetransmitter, Retransmission};
use sip::transaction::{ServerId, TransactionConfig, TransactionEvent};
use sip::{Message, Method};

use super::user::{Behaviour, User};
use crate::calls::RINGING;

pub(super) struct Callees {
    user: User,
    calls: BTreeMap<String, State>,
}

enum State {
    Ringing {
        invite: Message,
        transaction: ServerId,
        tag: String,
        answer_at: Instant,
    },
    /// Answered, and no ACK yet.
    Answered {
        answer: Message,
        transaction: ServerId,
        retransmitter: AnswerRetransmitter,
    },
    Up,
}

impl Callees {
    pub(super) fn new(address: SocketAddr, rng: ChaCha12Rng) -> Callees {
        Callees {
            user: User::new("sip:callee@far.example", address, rng),
            calls: BTreeMap::new(),
        }
    }

    fn handle_request(&mut self, now: Instant, transaction: ServerId, request: Message) {
        let call = request.call_id().unwrap_or_default().to_owned();
        let tag = self.user.agent.new_tag();
        let (status, reason) = match request.method() {
            Some(Method::Invite) if !self.calls.contains_key(&call) => {
                let ringing = self.user.agent.response(&request, 180, "Ringing", &tag);
                self.user.transactions.respond(now, transaction, ringing);
                let state = State::Ringing {
                    invite: request,
                    transaction,
                    tag,
                    answer_at: now + RINGING,
                };
                self.calls.insert(call, state);
                return;
            }
            Some(Method::Bye) if self.calls.remove(&call).is_some() => (200, "OK"),
            _ => (481, "Call/Transaction Does Not Exist"),
        };
        let response = self.user.agent.response(&request, status, reason, &tag);
        self.user.transactions.respond(now, transaction, response);
    }

    fn handle_call_timeout(&mut self, now: Instant, call: String) {
        let TransactionConfig { t1, t2, .. } = TransactionConfig::default();
        let next = match self.calls.remove(&call) {
            Some(State::Ringing {
                invite,
                transaction,
                tag,
                ..
            }) => {
                let answer = self.user.agent.response(&invite, 200, "OK", &tag);
                self.user
                    .transactions
                    .respond(now, transaction, answer.clone());
                State::Answered {
                    answer,
                    transaction,
                    retransmitter: AnswerRetransmitter::new(now, t1, t2),
                }
            }
            Some(State::Answered {
                answer,
                transaction,
                mut retransmitter,
            }) => {
                match retransmitter.handle_timeout(now) {
                    Retransmission::Wait => {}
                    Retransmission::Send => {
                        self.user
                            .transactions
                            .respond(now, transaction, answer.clone())
                    }
                    // Nobody acknowledged: the caller knows of no call.
                    Retransmission::GiveUp => return,
                }
                State::Answered {
                    answer,
                    transaction,
                    retransmitter,
                }
            }
            Some(State::Up) => State::Up,
            None => return,
        };
        self.calls.insert(call, next);
    }
}

impl Behaviour for Callees {
    fn user(&self) -> &User {
        &self.user
    }

    fn user_mut(&mut self) -> &mut User {
        &mut self.user
    }

    fn handle_event(&mut self, now: Instant, event: TransactionEvent) {
        match event {
            TransactionEvent::Request {
                transaction,
                request,
                ..
            } => self.handle_request(now, transaction, request),
            TransactionEvent::Ack { request, .. } => {
                if let Some(state) = request.call_id().and_then(|call| self.calls.get_mut(call)) {
                    *state = State::Up;
                }
            }
            _ => {}
        }
    }

    fn handle_own_timeout(&mut self, now: Instant) {
        let due = |state: &State| timeout(state).is_some_and(|at| at <= now);
        let due: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, state)| due(state))
            .map(|(call, _)| call.clone())
            .collect();
        for call in due {
            self.handle_call_timeout(now, call);
        }
    }

    fn next_own_timeout(&self) -> Option<Instant> {
        self.calls.values().filter_map(timeout).min()
    }
}

fn timeout(state: &State) -> Option<Instant> {
    match state {
        State::Ringing { answer_at, .. } => Some(*answer_at),
        State::Answered { retransmitter, .. } => Some(retransmitter.next_timeout()),
        State::Up => None,
    }
}
