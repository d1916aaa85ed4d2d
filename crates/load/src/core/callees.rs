//! Users that are called: register, ring, answer at once, and let the caller hang up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Instant;

use ahash::RandomState;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::dialog::{AnswerRetransmitter, Dialog, Retransmission};
use sip::transaction::{
    ServerId, TransactionConfig, TransactionEvent, TransactionKey, Transactions,
};
use sip::{Flow, Message, Method, Transmit, Uri};

use super::registration::Registrations;
use super::user::User;
use super::{Moment, Population, Side, hasher, transaction_config};
use crate::statistics::RegistrationResults;

/// The callees of a run.
#[derive(Debug)]
pub struct Callees {
    users: Vec<User>,
    transactions: Transactions,
    registrations: Registrations,
    sessions: HashMap<SessionNumber, Session, RandomState>,
    /// When an answer may have to be repeated. An entry whose session has its ACK, or has ended, means
    /// nothing any more.
    unacknowledged: BinaryHeap<Reverse<(Instant, SessionNumber)>>,
    rng: ChaCha12Rng,
}

/// Drawn at random and written as our tag, by which the session is found again.
type SessionNumber = u64;

#[derive(Debug)]
struct Session {
    callee: usize,
    dialog: Dialog,
    transaction: ServerId,
    /// The 2xx, and when to repeat it; none once the ACK is here.
    unacknowledged: Option<(Message, AnswerRetransmitter)>,
}

impl Callees {
    /// The callees of a population.
    pub fn new(population: Population, mut rng: ChaCha12Rng) -> Callees {
        let users = population.users(&mut rng);
        Callees {
            registrations: Registrations::new(&users, population.count(), hasher(&mut rng)),
            users,
            transactions: Transactions::new(transaction_config(), ChaCha12Rng::from_rng(&mut rng)),
            sessions: HashMap::with_hasher(hasher(&mut rng)),
            unacknowledged: BinaryHeap::new(),
            rng,
        }
    }

    /// Sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn handle_events(&mut self, moment: Moment) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Request {
                    transaction,
                    request,
                    ..
                } => self.answer(moment.now, transaction, &request),
                TransactionEvent::Ack { request, .. } => {
                    if let Some(number) = self.session_of(&request)
                        && let Some(session) = self.sessions.get_mut(&number)
                    {
                        session.unacknowledged = None;
                    }
                }
                TransactionEvent::Response {
                    transaction,
                    response,
                    ..
                } => {
                    self.registrations
                        .handle_outcome(moment, transaction, Some(&response));
                }
                TransactionEvent::Timeout { transaction }
                | TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(transaction),
                } => {
                    self.registrations.handle_outcome(moment, transaction, None);
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, now: Instant, transaction: ServerId, request: &Message) {
        let is_in_dialog = request.to().is_some_and(|to| to.tag().is_some());
        let response = match (request.method(), self.session_of(request)) {
            (Some(Method::Invite), _) if !is_in_dialog => {
                return self.accept(now, transaction, request);
            }
            (Some(Method::Bye), Some(number)) => {
                self.sessions.remove(&number);
                Message::response_to(request, 200, "OK")
            }
            // Calls are answered at once: a CANCEL comes too late to have an effect (RFC 3261
            // section 9.2).
            (Some(Method::Cancel), _) => {
                let mut response = Message::response_to(request, 200, "OK");
                response.set_to_tag(&tag(self.rng.next_u64()));
                response
            }
            _ => match self.users.first_mut() {
                Some(user) => user.response_to_stranger(request),
                None => return,
            },
        };
        self.transactions.respond(now, transaction, response);
    }

    /// Rings and answers.
    fn accept(&mut self, now: Instant, transaction: ServerId, invite: &Message) {
        let Some(callee) = self.callee_of(invite) else {
            let mut response = Message::response_to(invite, 404, "Not Found");
            response.set_to_tag(&tag(self.rng.next_u64()));
            self.transactions.respond(now, transaction, response);
            return;
        };
        let user = &self.users[callee];
        let number = self.rng.next_u64();
        let tag = tag(number);
        let ringing = user.response(invite, 180, "Ringing", &tag);
        let answer = user.answer(invite, &tag);
        let Some(dialog) = Dialog::uas(invite, &answer) else {
            let refusal = user.response(invite, 400, "No Dialog Possible", &tag);
            self.transactions.respond(now, transaction, refusal);
            return;
        };
        self.transactions.respond(now, transaction, ringing);
        self.transactions.respond(now, transaction, answer.clone());
        let TransactionConfig { t1, t2, .. } = transaction_config();
        let retransmitter = AnswerRetransmitter::new(now, t1, t2);
        self.unacknowledged
            .push(Reverse((retransmitter.next_timeout(), number)));
        let session = Session {
            callee,
            dialog,
            transaction,
            unacknowledged: Some((answer, retransmitter)),
        };
        self.sessions.insert(number, session);
    }

    /// The callee that the Request-URI names: the proxy has put the user's contact there.
    fn callee_of(&self, invite: &Message) -> Option<usize> {
        let uri = Uri::parse(invite.request_uri()?).ok()?;
        let number: u32 = uri.as_sip()?.user()?.strip_prefix("user")?.parse().ok()?;
        self.users.binary_search_by_key(&number, User::number).ok()
    }

    /// The session that a request within a dialog belongs to.
    fn session_of(&self, request: &Message) -> Option<SessionNumber> {
        let number = SessionNumber::from_str_radix(request.to()?.tag()?, 16).ok()?;
        let session = self.sessions.get(&number)?;
        session.dialog.matches(request).then_some(number)
    }

    /// Repeats an answer that has no ACK yet; ends the session when none came in 64·T1 (RFC 3261 section
    /// 13.3.1.4).
    fn repeat_answer(&mut self, now: Instant, number: SessionNumber) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let Some((answer, retransmitter)) = &mut session.unacknowledged else {
            return;
        };
        match retransmitter.handle_timeout(now) {
            Retransmission::Wait => {}
            Retransmission::Send => {
                self.transactions
                    .respond(now, session.transaction, answer.clone());
            }
            Retransmission::GiveUp => {
                let user = &self.users[session.callee];
                let mut bye = session.dialog.request(Method::Bye);
                user.push_via(&mut bye, &self.transactions.new_branch());
                // Best effort: whether the caller hears it or not, the session is over.
                self.transactions.send_request(now, bye, user.target()).ok();
                self.sessions.remove(&number);
                return;
            }
        }
        self.unacknowledged
            .push(Reverse((retransmitter.next_timeout(), number)));
    }
}

fn tag(number: SessionNumber) -> String {
    format!("{number:016x}")
}

impl Side for Callees {
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
        while let Some(Reverse((due, number))) = self.unacknowledged.peek().copied() {
            if due > now {
                break;
            }
            self.unacknowledged.pop();
            self.repeat_answer(now, number);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let answer = self.unacknowledged.peek().map(|Reverse((due, _))| *due);
        [
            self.transactions.next_timeout(),
            self.registrations.next_timeout(),
            answer,
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
        self.transactions.statistics().retransmissions()
    }
}
