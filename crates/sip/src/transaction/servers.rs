//! The server transactions of a layer: finding them, and doing what their machines ask for.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ahash::RandomState;
use bytes::Bytes;

use super::action::{Action, Actions, Timer};
use super::common::Common;
use super::keyed::Keyed;
use super::matching::{Rules, write_server_key, write_via_key};
use super::routing::{ResponseRoute, is_same_place, note_source};
use super::server::{Machine, NO_LIMIT, Server, Subject, credit};
use super::{ServerId, TransactionEvent, TransactionKey, call_hash};
use crate::{Flow, Message, Method, Name, Peek};

/// All server transactions.
#[derive(Debug)]
pub(super) struct Servers {
    table: Keyed<Server>,
    /// Transactions other than INVITE that only wait for Timer J, the oldest first.
    completed: VecDeque<u64>,
    /// For the tags of responses.
    hasher: RandomState,
}

impl Servers {
    pub(super) fn new(secret: [u64; 2], hasher: RandomState) -> Servers {
        Servers {
            table: Keyed::new(secret),
            completed: VecDeque::new(),
            hasher,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many have more to do than to wait for Timer J: the others make room.
    pub(super) fn in_progress(&self) -> usize {
        self.table.len().saturating_sub(self.completed.len())
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.table.contains(number)
    }

    /// Has a transaction at hand that has not been of use for long. What it returns has no meaning.
    pub(super) fn prefetch(&self, number: u64) -> u64 {
        self.table.prefetch(number)
    }

    /// A request came (RFC 3261 section 17.2.3).
    pub(super) fn handle_request(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        request: Message,
    ) {
        common.statistics.requests_received += 1;
        match request.method() {
            Some(Method::Ack) => self.handle_ack(common, now, flow, request),
            Some(Method::Cancel) => {
                let cancels = self.find(&request, &Method::Invite);
                let cancels = cancels.map(|(number, _)| ServerId(number));
                self.handle_other(common, now, flow, request, cancels);
            }
            _ => self.handle_other(common, now, flow, request, None),
        }
    }

    fn handle_ack(&mut self, common: &mut Common, now: Instant, flow: Flow, mut ack: Message) {
        if let Some((number, server)) = self.find(&ack, &Method::Invite)
            && server.is_acknowledged_by(&ack)
        {
            let actions = server.machine.handle_ack(common);
            let subject = Subject::Request {
                flow,
                request: ack,
                cancels: None,
            };
            self.perform(common, now, number, actions, subject);
        } else {
            note_source(&mut ack, &flow);
            let event = TransactionEvent::Ack { flow, request: ack };
            common.events.push_back(event);
        }
    }

    /// A request other than ACK came: a retransmission, or the first of a transaction.
    fn handle_other(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        mut request: Message,
        cancels: Option<ServerId>,
    ) {
        let Some(method) = request.method() else {
            return;
        };
        let Some(rules) = write_server_key(self.table.sought(), &request, method) else {
            common.statistics.malformed += 1;
            return;
        };
        if let Some((number, server)) = self.table.find() {
            if server.credit != NO_LIMIT {
                server.credit = server.credit.saturating_add(credit(request.wire_length()));
            }
            let actions = server.machine.handle_retransmission();
            self.perform(common, now, number, actions, Subject::None);
            return;
        }
        // A CANCEL makes room, and there is one of them for each INVITE at the most.
        if cancels.is_none() && !self.make_room(common, request.wire_length()) {
            note_source(&mut request, &flow);
            let event = TransactionEvent::Overloaded { flow, request };
            common.events.push_back(event);
            return;
        }
        self.begin(common, now, flow, request, rules, cancels);
    }

    /// Makes room for one more transaction that keeps a message of this length; returns whether there is any.
    ///
    /// The oldest of those that only wait for Timer J end early: a request that comes again so late is treated as a new one,
    /// which costs less than refusing new ones for the rest of 64*T1 (RFC 3261 section 17.2.2).
    fn make_room(&mut self, common: &mut Common, octets: usize) -> bool {
        while !common.has_room(self.table.len(), octets) {
            if !self.end_oldest_completed(common) {
                common.statistics.overloaded += 1;
                return false;
            }
        }
        true
    }

    /// [`make_room`](Servers::make_room) for a client transaction: both sides count together what they keep.
    pub(super) fn make_room_for_octets(&mut self, common: &mut Common, octets: usize) {
        while !common.has_octets(octets) && self.end_oldest_completed(common) {}
    }

    /// Ends the oldest transaction that only waits for Timer J; `false` where there is none.
    fn end_oldest_completed(&mut self, common: &mut Common) -> bool {
        let Some(oldest) = self.completed.pop_front() else {
            return false;
        };
        if self.table.contains(oldest) {
            common.statistics.ended_early += 1;
            self.end(common, ServerId(oldest));
        }
        true
    }

    /// Begins a transaction, whose key has been written.
    fn begin(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        mut request: Message,
        rules: Rules,
        cancels: Option<ServerId>,
    ) {
        let (Some(method), Some(via)) = (request.method(), request.top_via()) else {
            return;
        };
        let route = ResponseRoute::new(&flow, &via);
        let (machine, actions) = Machine::start(method, common, flow.transport.is_reliable());
        let mut message = Bytes::new();
        if machine.may_send_trying(common) {
            common.keep(&mut message, request.to_bytes());
        }
        let call = call_hash(request.header_bytes(Name::CallId).unwrap_or_default());
        let server = Server::new(machine, rules, route, call, message);
        let number = self.table.insert(server);
        note_source(&mut request, &flow);
        let subject = Subject::Request {
            flow,
            request,
            cancels,
        };
        self.perform(common, now, number, actions, subject);
    }

    /// The user answers.
    pub(super) fn respond(
        &mut self,
        common: &mut Common,
        now: Instant,
        id: ServerId,
        response: Message,
    ) {
        if let Some(server) = self.table.get_mut(id.0)
            && let Some(status) = response.status()
        {
            let actions = match &mut server.machine {
                Machine::Invite(invite) if server.is_unproved => {
                    invite.refuse_once(status, &common.config)
                }
                machine => machine.respond(status, common),
            };
            let subject = Subject::Response(response);
            self.perform(common, now, id.0, actions, subject);
        }
    }

    /// Notes that it is not known who has sent a request.
    pub(super) fn set_unproved(&mut self, id: ServerId, length: usize) {
        if let Some(server) = self.table.get_mut(id.0) {
            server.is_unproved = true;
            server.credit = credit(length);
        }
    }

    /// Notes that it is known who has sent a request.
    pub(super) fn set_proved(&mut self, id: ServerId) {
        if let Some(server) = self.table.get_mut(id.0) {
            server.is_unproved = false;
            server.credit = NO_LIMIT;
        }
    }

    /// Notes that a request is taken on.
    pub(super) fn set_taken_on(&mut self, id: ServerId) {
        if let Some(server) = self.table.get_mut(id.0) {
            server.is_unproved = false;
        }
    }

    /// Where the answer to a request goes of which it was noted that it is not known who has sent it.
    pub(super) fn unproved(&self, id: ServerId) -> Option<IpAddr> {
        let server = self.table.get(id.0).filter(|server| server.is_unproved)?;
        Some(server.route.target().remote().ip())
    }

    pub(super) fn handle_timer(
        &mut self,
        common: &mut Common,
        now: Instant,
        number: u64,
        timer: Timer,
    ) {
        if let Some(server) = self.table.get_mut(number) {
            let actions = server.machine.handle_timer(timer, common);
            self.perform(common, now, number, actions, Subject::None);
        }
    }

    pub(super) fn handle_send_failure(&mut self, common: &mut Common, now: Instant, id: ServerId) {
        if let Some(server) = self.table.get_mut(id.0) {
            let actions = server.machine.handle_send_failure();
            self.perform(common, now, id.0, actions, Subject::None);
        }
    }

    /// The transaction of a response that was sent to this address.
    pub(super) fn find_answered(
        &mut self,
        response: &Message,
        remote: SocketAddr,
    ) -> Option<ServerId> {
        let (_, method) = response.cseq()?;
        let (number, server) = self.find(response, &method)?;
        is_same_place(server.route.target().remote(), remote).then_some(ServerId(number))
    }

    /// Whether a request belongs to a transaction: its own, or that of the INVITE which it cancels or
    /// acknowledges.
    pub(super) fn knows(&mut self, request: &Message) -> bool {
        let Some(method) = request.method() else {
            return false;
        };
        let is_about_invite = matches!(method, Method::Ack | Method::Cancel);
        // An ACK has no transaction of its own.
        *method != Method::Ack && self.find(request, method).is_some()
            || is_about_invite && self.find(request, &Method::Invite).is_some()
    }

    /// [`knows`](Servers::knows) for a request that was peeked at.
    pub(super) fn knows_peeked(&mut self, request: &Peek<'_>) -> bool {
        let method = request.method();
        let mut is_there = |method: &Method| {
            write_via_key(self.table.sought(), request.top_via(), method).is_some()
                && self.table.find().is_some()
        };
        let is_about_invite = matches!(method, Method::Ack | Method::Cancel);
        *method != Method::Ack && is_there(method) || is_about_invite && is_there(&Method::Invite)
    }

    /// The transaction that a request would match, were it of this method.
    fn find(&mut self, request: &Message, method: &Method) -> Option<(u64, &mut Server)> {
        write_server_key(self.table.sought(), request, method)?;
        self.table.find()
    }

    /// Ends a transaction.
    pub(super) fn end(&mut self, common: &mut Common, id: ServerId) {
        if let Some(server) = self.table.get_mut(id.0) {
            common.keep(&mut server.message, Bytes::new());
            self.table.remove(id.0);
            while let Some(&oldest) = self.completed.front()
                && !self.table.contains(oldest)
            {
                self.completed.pop_front();
            }
            let transaction = TransactionKey::Server(id);
            let event = TransactionEvent::Terminated { transaction };
            common.events.push_back(event);
        }
    }

    /// Does what a machine asks for.
    fn perform(
        &mut self,
        common: &mut Common,
        now: Instant,
        number: u64,
        actions: Actions,
        mut subject: Subject,
    ) {
        let id = ServerId(number);
        for action in actions.iter() {
            let Some(server) = self.table.get_mut(number) else {
                return;
            };
            match action {
                Action::SendTrying => {
                    if let Some(trying) = server.trying(&subject) {
                        common.keep(&mut server.message, trying.clone());
                        common.statistics.responses_sent += 1;
                        common.transmits.push_back(server.transmit(id, trying));
                    }
                }
                Action::SendResponse => {
                    let Subject::Response(response) = &subject else {
                        continue;
                    };
                    let payload = server.keep(common, response);
                    common.statistics.responses_sent += 1;
                    common.transmits.push_back(server.transmit(id, payload));
                }
                Action::SendAnswer => {
                    if let Subject::Response(response) = &subject {
                        let payload = server.keep(common, response);
                        if server.is_repeated_answer(response, &self.hasher) {
                            common.statistics.response_retransmissions += 1;
                        } else {
                            common.statistics.responses_sent += 1;
                        }
                        common.transmits.push_back(server.transmit(id, payload));
                    }
                }
                Action::RetransmitResponse => {
                    let payload = server.message.clone();
                    if payload.len() > server.credit as usize {
                        continue;
                    }
                    common.statistics.response_retransmissions += 1;
                    common.transmits.push_back(server.transmit(id, payload));
                }
                Action::PassUp => {
                    if let Some(event) = subject.take_event(id) {
                        common.events.push_back(event);
                    }
                }
                Action::Absorb => common.statistics.requests_absorbed += 1,
                Action::InformAckTimeout => {
                    common.statistics.ack_timeouts += 1;
                    let event = TransactionEvent::AckTimeout { transaction: id };
                    common.events.push_back(event);
                }
                Action::InformFailure => {
                    common.statistics.send_failures += 1;
                    let transaction = TransactionKey::Server(id);
                    let event = TransactionEvent::SendFailed { transaction };
                    common.events.push_back(event);
                }
                Action::Start(timer, duration) => {
                    if timer == Timer::J {
                        self.completed.push_back(number);
                    }
                    common.timers.start(now, duration, number, timer);
                }
                Action::Follow(timer, duration) => {
                    common.timers.follow(duration, number, timer);
                }
                Action::Terminate => {
                    self.end(common, id);
                    return;
                }
                // Asked for by client transactions.
                Action::SendRequest
                | Action::RetransmitRequest
                | Action::SendAck
                | Action::RetransmitAck
                | Action::KeepFollowerFields
                | Action::InformTimeout => {}
            }
        }
        if let Some(server) = self.table.get_mut(number)
            && !server.machine.needs_message()
        {
            common.keep(&mut server.message, Bytes::new());
        }
    }
}
