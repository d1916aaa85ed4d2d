//! A phone whose user registers, calls, answers, refuses, gives up and hangs up as chance has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::dialog::{AnswerRetransmitter, Dialog, Retransmission};
use sip::transaction::{
    ClientId, ServerId, TransactionConfig, TransactionEvent, TransactionKey, Transactions,
};
use sip::user_agent::{Registration, UserAgent, cancel_of};
use sip::{Flow, Message, Method, Target, Transmit, Transport, Uri};

use crate::world::calls::{Call, Outcome, Role};

/// The interval of a registration, in seconds.
const EXPIRES: u32 = 120;

/// From a registration that failed to the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a cancelled call may take to end (RFC 3261 section 9.1).
const AFTER_CANCEL: Duration = Duration::from_secs(32);

/// How long a phone rings.
const RINGING: Duration = Duration::from_secs(240);

/// A phone.
#[derive(Debug)]
pub(crate) struct Phone {
    address: SocketAddr,
    /// To which everything goes that has no other way.
    proxy: SocketAddr,
    domain: String,
    agent: UserAgent,
    transactions: Transactions,
    registration: Registration,
    /// When the next REGISTER is due; none when the user has gone home.
    register_at: Option<Instant>,
    registering: Option<ClientId>,
    /// By Call-ID; the second part tells the dialogs of one call apart.
    calls: BTreeMap<Name, Call>,
    /// The call whose INVITE or BYE a transaction carries.
    by_transaction: BTreeMap<ClientId, Name>,
    outcomes: BTreeMap<Name, Outcome>,
    /// The calls that this phone began.
    begun: BTreeSet<Name>,
    /// Dialogs that were ended at once, with the tag of the other side.
    declined: BTreeSet<Name>,
    rng: ChaCha12Rng,
}

/// A call: its Call-ID and our tag in it.
pub(crate) type Name = (String, String);

impl Phone {
    /// A phone of a user of a domain, which begins to register at `now`.
    pub(crate) fn new(
        now: Instant,
        address: SocketAddr,
        proxy: SocketAddr,
        user: &str,
        domain: &str,
        mut rng: ChaCha12Rng,
    ) -> Phone {
        let mut agent = UserAgent::new(
            format!("sip:{user}@{domain}"),
            Transport::Udp,
            address,
            ChaCha12Rng::from_rng(&mut rng),
        );
        let registration = agent.registration(format!("sip:{domain}"));
        Phone {
            address,
            proxy,
            domain: domain.to_owned(),
            transactions: Transactions::new(
                TransactionConfig::default(),
                ChaCha12Rng::from_rng(&mut rng),
            ),
            agent,
            registration,
            register_at: Some(now),
            registering: None,
            calls: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            begun: BTreeSet::new(),
            declined: BTreeSet::new(),
            rng,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What became of each call, by Call-ID.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&str, Role, Outcome)> {
        let declined = self.declined.iter();
        let declined = declined.map(|name| (name.0.as_str(), Role::Caller, Outcome::Declined));
        let others = self.outcomes.iter().map(|(name, outcome)| {
            let role = if self.begun.contains(name) {
                Role::Caller
            } else {
                Role::Callee
            };
            (name.0.as_str(), role, *outcome)
        });
        others.chain(declined)
    }

    /// Fails when a call or a transaction is left.
    pub(crate) fn assert_idle(&self) {
        assert!(self.calls.is_empty(), "calls are left: {:#?}", self.calls);
        assert_eq!(self.transactions.client_transactions(), 0);
        assert_eq!(self.transactions.server_transactions(), 0);
    }

    /// Calls somebody.
    pub(crate) fn call(&mut self, now: Instant, callee: &str) {
        let mut invite = self.agent.invite(callee);
        let branch = self.transactions.new_branch();
        self.agent.push_via(&mut invite, &branch);
        let target = Target::Address(Transport::Udp, self.proxy);
        let client = self
            .transactions
            .send_request(now, invite.clone(), target)
            .expect("there is room");
        let name = (
            invite.call_id().expect("it is there").to_owned(),
            invite
                .from()
                .and_then(|from| from.tag().map(str::to_owned))
                .expect("it is there"),
        );
        self.begun.insert(name.clone());
        let patience = now + Duration::from_millis(self.rng.random_range(2_000..40_000));
        self.by_transaction.insert(client, name.clone());
        self.calls.insert(
            name,
            Call::Inviting {
                invite,
                transaction: client,
                is_proceeding: false,
                patience,
                is_cancelled: false,
            },
        );
    }

    /// The phone is switched off and on.
    pub(crate) fn restart(&mut self, now: Instant) {
        let forgotten = std::mem::take(&mut self.calls).into_keys();
        self.outcomes
            .extend(forgotten.map(|name| (name, Outcome::Forgotten)));
        self.by_transaction.clear();
        let rng = ChaCha12Rng::from_rng(&mut self.rng);
        self.transactions = Transactions::new(TransactionConfig::default(), rng);
        self.registration = self.agent.registration(format!("sip:{}", self.domain));
        self.registering = None;
        if self.register_at.is_some() {
            self.register_at = Some(now);
        }
    }

    /// The user goes home: no registration any more.
    pub(crate) fn go_home(&mut self) {
        self.register_at = None;
    }

    pub(crate) fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        message
            .validate()
            .expect("proxies send what keeps the rules");
        self.transactions.handle_message(now, flow, message);
        self.handle_events(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        self.handle_events(now);
        if self.register_at.is_some_and(|due| due <= now) {
            self.register(now);
        }
        let due: Vec<Name> = self
            .calls
            .iter()
            .filter(|(_, call)| call_timeout(call).is_some_and(|due| due <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.handle_call_timeout(now, &name);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let calls = self.calls.values().filter_map(call_timeout).min();
        [self.transactions.next_timeout(), self.register_at, calls]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transactions.poll_transmit()
    }

    fn register(&mut self, now: Instant) {
        let mut request = self.agent.register(&mut self.registration, EXPIRES);
        let branch = self.transactions.new_branch();
        self.agent.push_via(&mut request, &branch);
        let target = Target::Address(Transport::Udp, self.proxy);
        self.registering = self.transactions.send_request(now, request, target).ok();
        // The outcome sets it anew, and comes before this.
        self.register_at = Some(now + 2 * AFTER_CANCEL);
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                TransactionEvent::Response {
                    transaction,
                    response,
                    ..
                } => self.handle_response(now, transaction, &response),
                TransactionEvent::Timeout { transaction }
                | TransactionEvent::SendFailed {
                    transaction: TransactionKey::Client(transaction),
                } => self.handle_no_response(now, transaction),
                TransactionEvent::Request {
                    transaction,
                    request,
                    cancels,
                    ..
                } => self.handle_request(now, transaction, request, cancels),
                TransactionEvent::Ack { request, .. } => self.handle_ack(&request),
                _ => {}
            }
        }
    }

    fn handle_response(&mut self, now: Instant, transaction: ClientId, response: &Message) {
        let status = response.status().expect("it is a response");
        if self.registering == Some(transaction) {
            if status >= 200 && self.register_at.is_some() {
                let wait = match status {
                    200..300 => Duration::from_secs(u64::from(EXPIRES) / 2),
                    _ => RETRY_AFTER,
                };
                self.register_at = Some(now + wait);
            }
            return;
        }
        let Some(name) = self.by_transaction.get(&transaction).cloned() else {
            return;
        };
        match self.calls.get_mut(&name) {
            Some(Call::Ending(bye)) if *bye == transaction && status >= 200 => {
                self.end(name, Outcome::Established);
            }
            Some(Call::Inviting { is_proceeding, .. }) if status < 200 => *is_proceeding = true,
            Some(Call::Inviting { .. }) if status >= 300 => self.end(name, Outcome::Failed),
            _ if (200..300).contains(&status) && is_to_invite(response) => {
                self.handle_answer(now, name, response);
            }
            _ => {}
        }
    }

    /// A 2xx to an INVITE of ours: the first, a repeated one, or that of a second phone.
    fn handle_answer(&mut self, now: Instant, name: Name, response: &Message) {
        match self.calls.get_mut(&name) {
            Some(Call::Up {
                dialog,
                ack: Some(ack),
                ..
            }) if dialog.matches(response) => {
                let ack = ack.clone();
                self.transactions
                    .send_stateless(now, ack.clone(), target_of(&ack));
            }
            Some(Call::Inviting {
                invite,
                is_cancelled,
                ..
            }) => {
                let (invite, is_cancelled) = (invite.clone(), *is_cancelled);
                let mut dialog =
                    Dialog::uac(&invite, response).expect("a 2xx of a phone makes a dialog");
                let ack = self.acknowledge(now, &dialog, &invite);
                if is_cancelled {
                    self.hang_up(now, name, &mut dialog);
                } else {
                    let hang_up = self.hang_up_time(now);
                    let call = Call::Up {
                        dialog: Box::new(dialog),
                        ack: Some(ack),
                        answer: None,
                        hang_up,
                    };
                    self.calls.insert(name, call);
                }
            }
            // Another phone has answered too, or the call is over: this dialog is ended at once. What
            // names it is all in the answer.
            _ => {
                let invite = Message::request(Method::Invite, &response_target(response))
                    .with(sip::Name::From, text(response, sip::Name::From))
                    .with(sip::Name::To, text(response, sip::Name::To))
                    .with(sip::Name::CallId, text(response, sip::Name::CallId))
                    .with(sip::Name::CSeq, text(response, sip::Name::CSeq));
                let mut dialog =
                    Dialog::uac(&invite, response).expect("a 2xx of a phone makes a dialog");
                self.acknowledge(now, &dialog, &invite);
                let mut bye = dialog.request(Method::Bye);
                let branch = self.transactions.new_branch();
                self.agent.push_via(&mut bye, &branch);
                let target = target_of(&bye);
                self.transactions
                    .send_request(now, bye, target)
                    .expect("there is room");
                let tag = dialog.remote_tag().unwrap_or_default().to_owned();
                self.declined.insert((name.0, tag));
            }
        }
    }

    fn acknowledge(&mut self, now: Instant, dialog: &Dialog, invite: &Message) -> Message {
        let mut ack = dialog.ack(invite);
        let branch = self.transactions.new_branch();
        self.agent.push_via(&mut ack, &branch);
        self.transactions
            .send_stateless(now, ack.clone(), target_of(&ack));
        ack
    }

    fn handle_no_response(&mut self, now: Instant, transaction: ClientId) {
        if self.registering == Some(transaction) && self.register_at.is_some() {
            self.register_at = Some(now + RETRY_AFTER);
        }
        let Some(name) = self.by_transaction.get(&transaction).cloned() else {
            return;
        };
        match self.calls.get(&name) {
            Some(Call::Ending(bye)) if *bye == transaction => self.end(name, Outcome::Established),
            Some(Call::Inviting { .. }) => self.end(name, Outcome::Failed),
            _ => {}
        }
    }

    fn handle_request(
        &mut self,
        now: Instant,
        transaction: ServerId,
        request: Message,
        cancels: Option<ServerId>,
    ) {
        let name = self.name_of(&request);
        let is_in_dialog = request.to().is_some_and(|to| to.tag().is_some());
        let tag = self.agent.new_tag();
        let (status, reason) = match request.method() {
            Some(Method::Invite) if !is_in_dialog => return self.ring(now, transaction, request),
            Some(Method::Cancel) => {
                if let Some(cancelled) = cancels {
                    self.cancelled(now, cancelled);
                    (200, "OK")
                } else {
                    (481, "Call/Transaction Does Not Exist")
                }
            }
            Some(Method::Bye) => match name.as_ref().and_then(|name| self.calls.get(name)) {
                Some(Call::Up { .. } | Call::Ending(_)) => {
                    // A BYE says that the caller has acknowledged, or would have.
                    self.end(name.expect("it was found by it"), Outcome::Established);
                    (200, "OK")
                }
                _ => (481, "Call/Transaction Does Not Exist"),
            },
            _ => (481, "Call/Transaction Does Not Exist"),
        };
        let response = self.agent.response(&request, status, reason, &tag);
        self.transactions.respond(now, transaction, response);
    }

    fn ring(&mut self, now: Instant, transaction: ServerId, invite: Message) {
        let tag = self.agent.new_tag();
        let ringing = self.agent.response(&invite, 180, "Ringing", &tag);
        self.transactions.respond(now, transaction, ringing);
        let after = Duration::from_millis(self.rng.random_range(0..8_000));
        let decision = match self.rng.random_range(0..10) {
            0..6 => (now + after, true),
            6..8 => (now + after, false),
            // Nobody is there. A proxy that is restarted cancels nothing: the phone stops by itself.
            _ => (now + RINGING, false),
        };
        let name = (invite.call_id().expect("it is valid").to_owned(), tag);
        let call = Call::Ringing {
            invite,
            transaction,
            decision,
        };
        self.calls.insert(name, call);
    }

    /// The caller, or a proxy for it, does not want to be answered any more.
    fn cancelled(&mut self, now: Instant, cancelled: ServerId) {
        let found = self.calls.iter().find(|(_, call)| {
            matches!(call, Call::Ringing { transaction, .. } if *transaction == cancelled)
        });
        let Some(name) = found.map(|(name, _)| name.clone()) else {
            return;
        };
        self.refuse(now, name, 487, "Request Terminated");
    }

    fn refuse(&mut self, now: Instant, name: Name, status: u16, reason: &str) {
        if let Some(Call::Ringing {
            invite,
            transaction,
            ..
        }) = self.calls.get(&name)
        {
            let response = self.agent.response(invite, status, reason, &name.1);
            let transaction = *transaction;
            self.transactions.respond(now, transaction, response);
            self.end(name, Outcome::Refused);
        }
    }

    fn answer(&mut self, now: Instant, name: Name) {
        let Some(Call::Ringing {
            invite,
            transaction,
            ..
        }) = self.calls.get(&name)
        else {
            return;
        };
        let answer = self.agent.response(invite, 200, "OK", &name.1);
        let dialog = Dialog::uas(invite, &answer).expect("an INVITE of a phone makes a dialog");
        let transaction = *transaction;
        self.transactions.respond(now, transaction, answer.clone());
        let TransactionConfig { t1, t2, .. } = TransactionConfig::default();
        let hang_up = self.hang_up_time(now);
        let call = Call::Up {
            dialog: Box::new(dialog),
            ack: None,
            answer: Some((answer, transaction, AnswerRetransmitter::new(now, t1, t2))),
            hang_up,
        };
        self.calls.insert(name, call);
    }

    fn handle_ack(&mut self, request: &Message) {
        if let Some(name) = self.name_of(request)
            && let Some(Call::Up { answer, .. }) = self.calls.get_mut(&name)
        {
            *answer = None;
        }
    }

    fn handle_call_timeout(&mut self, now: Instant, name: &Name) {
        match self.calls.get_mut(name) {
            Some(Call::Inviting {
                invite,
                transaction,
                is_proceeding,
                patience,
                is_cancelled,
            }) => {
                if *is_cancelled {
                    // Nothing came of the CANCEL (RFC 3261 section 9.1).
                    self.transactions.abandon(now, *transaction);
                    return self.end(name.clone(), Outcome::Failed);
                }
                *patience = now + AFTER_CANCEL;
                // Without any response there is nothing to cancel; Timer B ends it then.
                if *is_proceeding {
                    *is_cancelled = true;
                    let cancel = cancel_of(invite);
                    let target = Target::Address(Transport::Udp, self.proxy);
                    self.transactions
                        .send_request(now, cancel, target)
                        .expect("there is room");
                }
            }
            Some(Call::Ringing {
                decision: (_, answers),
                ..
            }) => {
                if *answers {
                    self.answer(now, name.clone());
                } else {
                    self.refuse(now, name.clone(), 486, "Busy Here");
                }
            }
            Some(Call::Up {
                dialog,
                answer: Some((answer, transaction, retransmitter)),
                ..
            }) => match retransmitter.handle_timeout(now) {
                Retransmission::Wait => {}
                Retransmission::Send => {
                    let (answer, transaction) = (answer.clone(), *transaction);
                    self.transactions.respond(now, transaction, answer);
                }
                Retransmission::GiveUp => {
                    let mut dialog = dialog.clone();
                    self.send_bye(now, &mut dialog);
                    self.end(name.clone(), Outcome::Unacknowledged);
                }
            },
            Some(Call::Up { dialog, .. }) => {
                let mut dialog = dialog.clone();
                self.hang_up(now, name.clone(), &mut dialog);
            }
            _ => {}
        }
    }

    fn hang_up(&mut self, now: Instant, name: Name, dialog: &mut Dialog) {
        let bye = self.send_bye(now, dialog);
        self.by_transaction.insert(bye, name.clone());
        self.calls.insert(name, Call::Ending(bye));
    }

    fn send_bye(&mut self, now: Instant, dialog: &mut Dialog) -> ClientId {
        let mut bye = dialog.request(Method::Bye);
        let branch = self.transactions.new_branch();
        self.agent.push_via(&mut bye, &branch);
        let target = target_of(&bye);
        self.transactions
            .send_request(now, bye, target)
            .expect("there is room")
    }

    fn hang_up_time(&mut self, now: Instant) -> Instant {
        now + Duration::from_millis(self.rng.random_range(0..60_000))
    }

    fn end(&mut self, name: Name, outcome: Outcome) {
        self.calls.remove(&name);
        self.outcomes.insert(name, outcome);
    }

    /// The call of a request that names our side in To.
    fn name_of(&self, request: &Message) -> Option<Name> {
        let tag = request.to()?.tag()?.to_owned();
        Some((request.call_id()?.to_owned(), tag))
    }
}

/// When something is to be done about a call.
fn call_timeout(call: &Call) -> Option<Instant> {
    match call {
        Call::Inviting { patience, .. } => Some(*patience),
        Call::Ringing { decision, .. } => Some(decision.0),
        Call::Up {
            answer: Some((_, _, retransmitter)),
            ..
        } => Some(retransmitter.next_timeout()),
        Call::Up { hang_up, .. } => Some(*hang_up),
        Call::Ending(_) => None,
    }
}

/// Where a request in a dialog goes: to the first proxy on its route, whose address its URI has.
fn target_of(request: &Message) -> Target {
    let route = request.routes().next();
    let uri = match &route {
        Some(route) => route.as_ref().expect("proxies write good routes").uri(),
        None => request.request_uri().expect("it is a request"),
    };
    let uri = Uri::parse(uri).expect("a URI");
    let uri = uri.as_sip().expect("a SIP URI");
    let address = format!("{}:{}", uri.host(), uri.port().unwrap_or(5060));
    let remote = address
        .parse()
        .unwrap_or_else(|_| panic!("no number: {request:#?}"));
    Target::Address(Transport::Udp, remote)
}

fn is_to_invite(response: &Message) -> bool {
    response
        .cseq()
        .is_some_and(|(_, method)| method == Method::Invite)
}

/// A URI to write into a request line; the dialog takes that of Contact.
fn response_target(response: &Message) -> String {
    response
        .to()
        .map(|to| to.uri().to_owned())
        .expect("it is valid")
}

fn text<'a>(message: &'a Message, name: sip::Name<'_>) -> &'a str {
    message.header(name).expect("it is valid")
}
