//! The client transactions of a layer: finding them, and doing what their machines ask for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::action::{Action, Actions, Timer};
use super::client_invite::ClientInvite;
use super::client_non_invite::ClientNonInvite;
use super::common::Common;
use super::keyed::Keyed;
use super::matching::write_client_key;
use super::routing::is_same_place;
use super::table::Entry;
use super::{
    ClientId, SendRequestError, TransactionEvent, TransactionKey, WrittenRequest, call_hash,
};
use crate::hop_by_hop::ack_to_failure;
use crate::{Flow, Message, Method, Peer, Target, Transmit};

/// All client transactions.
#[derive(Debug)]
pub(super) struct Clients {
    table: Keyed<Client>,
}

/// One client transaction.
#[derive(Debug)]
#[repr(C)]
struct Client {
    machine: Machine,
    /// Until nothing more can be sent.
    sending: Option<Box<Sending>>,
}

/// What a client transaction may send, and where.
#[derive(Clone, Debug)]
struct Sending {
    target: Target,
    peer: Option<Arc<Peer>>,
    call: u32,
    /// What can still be sent: the request, then its ACK; in between what its CANCEL or ACK is made of.
    message: Bytes,
}

impl Entry for Client {
    fn vacate(&mut self) {
        self.sending = None;
    }
}

#[derive(Debug)]
enum Machine {
    Invite(ClientInvite),
    NonInvite(ClientNonInvite),
}

impl Clients {
    pub(super) fn new(secret: [u64; 2]) -> Clients {
        Clients {
            table: Keyed::new(secret),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.table.contains(number)
    }

    /// Has a transaction at hand that has not been of use for long. What it returns has no meaning.
    pub(super) fn prefetch(&self, number: u64) -> u64 {
        self.table.prefetch(number)
    }

    /// Begins a transaction (RFC 3261 section 17.1).
    pub(super) fn send(
        &mut self,
        common: &mut Common,
        now: Instant,
        request: WrittenRequest<'_>,
        target: Target,
        peer: Option<Arc<Peer>>,
    ) -> Result<ClientId, SendRequestError> {
        let kept = kept_octets(&request, &target);
        let WrittenRequest {
            method,
            branch,
            call_id,
            octets,
        } = request;
        if branch.is_empty() || *method == Method::Ack {
            return Err(SendRequestError::NoTransaction);
        }
        let is_reliable = target.transport().is_reliable();
        let is_sent_once = is_sent_once(method, &target);
        if !common.has_room(self.table.len(), kept) {
            common.statistics.overloaded += 1;
            return Err(SendRequestError::Overloaded);
        }
        write_client_key(self.table.sought(), branch, method.as_str());
        if self.table.find().is_some() {
            return Err(SendRequestError::BranchInUse);
        }
        let (machine, actions) = Machine::start(method, common, is_reliable);
        let mut sending = Sending {
            target,
            peer,
            call: call_hash(call_id),
            message: Bytes::new(),
        };
        let number = if is_sent_once {
            let number = self.table.insert(Client {
                machine,
                sending: None,
            });
            sending.message = octets;
            sending.transmit(common, ClientId(number));
            number
        } else {
            common.keep(&mut sending.message, octets);
            let sending = Some(Box::new(sending));
            self.table.insert(Client { machine, sending })
        };
        self.perform(common, now, number, actions, None);
        Ok(ClientId(number))
    }

    /// The request, where it is kept, or what matters of it for a CANCEL.
    pub(super) fn sent_request(&self, id: ClientId) -> Option<Message> {
        let sending = self.table.get(id.0)?.sending.as_deref()?;
        let kept = Message::read(sending.message.clone()).ok()?;
        // An INVITE's ACK takes its place.
        (kept.method() != Some(&Method::Ack)).then_some(kept)
    }

    /// A response came (section 17.1.3).
    pub(super) fn handle_response(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        response: Message,
    ) {
        common.statistics.responses_received += 1;
        let branch = response.top_via().and_then(|via| via.branch());
        let (Some(status @ 100..700), Some(branch), Some(cseq)) =
            (response.status(), branch, response.parse_cseq())
        else {
            common.statistics.malformed += 1;
            return;
        };
        write_client_key(self.table.sought(), branch, cseq.method_name());
        let Some((number, client)) = self.table.find() else {
            common.statistics.stray_responses += 1;
            let event = TransactionEvent::StrayResponse { flow, response };
            common.events.push_back(event);
            return;
        };
        let actions = client.machine.handle_response(status, common);
        self.perform(common, now, number, actions, Some((flow, response)));
    }

    pub(super) fn handle_timer(
        &mut self,
        common: &mut Common,
        now: Instant,
        number: u64,
        timer: Timer,
    ) {
        if let Some(client) = self.table.get_mut(number) {
            let actions = client.machine.handle_timer(timer, common);
            self.perform(common, now, number, actions, None);
        }
    }

    /// The transaction of a request or ACK that was sent to this address.
    pub(super) fn find_sent(&mut self, request: &Message, remote: SocketAddr) -> Option<ClientId> {
        let method = match request.method()? {
            Method::Ack => &Method::Invite,
            method => method,
        };
        let branch = request.top_via()?.branch()?;
        write_client_key(self.table.sought(), branch, method.as_str());
        let (number, client) = self.table.find()?;
        // What has its answer, or went along a stream, is none of the datagrams that are reported so.
        let sending = client.sending.as_deref()?;
        is_same_place(sending.target.remote(), remote).then_some(ClientId(number))
    }

    pub(super) fn handle_send_failure(&mut self, common: &mut Common, now: Instant, id: ClientId) {
        if let Some(client) = self.table.get_mut(id.0) {
            let actions = client.machine.handle_send_failure();
            self.perform(common, now, id.0, actions, None);
        }
    }

    /// Destroys a transaction at the user's wish.
    pub(super) fn abandon(&mut self, common: &mut Common, now: Instant, id: ClientId) {
        if self.table.contains(id.0) {
            self.perform(common, now, id.0, [Action::Terminate].into(), None);
        }
    }

    /// Does what a machine asks for.
    fn perform(
        &mut self,
        common: &mut Common,
        now: Instant,
        number: u64,
        actions: Actions,
        mut response: Option<(Flow, Message)>,
    ) {
        let id = ClientId(number);
        for action in actions.iter() {
            let Some(client) = self.table.get_mut(number) else {
                return;
            };
            match action {
                Action::SendRequest => {
                    common.statistics.requests_sent += 1;
                    client.transmit(common, id);
                }
                Action::RetransmitRequest | Action::RetransmitAck => {
                    common.statistics.request_retransmissions += 1;
                    client.transmit(common, id);
                }
                Action::SendAck => {
                    if let Some(sending) = &mut client.sending
                        // It is rare enough to read again what was written.
                        && let Ok(invite) = Message::read(sending.message.clone())
                        && let Some((_, response)) = &response
                    {
                        let ack = ack_to_failure(&invite, response).to_bytes();
                        common.keep(&mut sending.message, ack);
                        common.statistics.requests_sent += 1;
                        client.transmit(common, id);
                    }
                }
                Action::KeepFollowerFields => {
                    if let Some(sending) = &mut client.sending
                        && let Some(kept) = common.follower_fields(&sending.message)
                    {
                        common.keep(&mut sending.message, kept);
                    }
                }
                Action::PassUp => {
                    if let Some((flow, response)) = response.take() {
                        common.events.push_back(TransactionEvent::Response {
                            transaction: id,
                            flow,
                            response,
                        });
                    }
                }
                Action::Absorb => common.statistics.responses_absorbed += 1,
                Action::InformTimeout => {
                    common.statistics.timeouts += 1;
                    let event = TransactionEvent::Timeout { transaction: id };
                    common.events.push_back(event);
                }
                Action::InformFailure => {
                    common.statistics.send_failures += 1;
                    let transaction = TransactionKey::Client(id);
                    let event = TransactionEvent::SendFailed { transaction };
                    common.events.push_back(event);
                }
                Action::Start(timer, duration) => {
                    common.timers.start(now, duration, number, timer);
                }
                Action::Follow(timer, duration) => {
                    common.timers.follow(duration, number, timer);
                }
                Action::Terminate => {
                    client.forget_message(common);
                    self.table.remove(number);
                    let transaction = TransactionKey::Client(id);
                    let event = TransactionEvent::Terminated { transaction };
                    common.events.push_back(event);
                    return;
                }
                // Asked for by server transactions.
                Action::SendTrying
                | Action::SendResponse
                | Action::SendAnswer
                | Action::RetransmitResponse
                | Action::InformAckTimeout => {}
            }
        }
        if let Some(client) = self.table.get_mut(number)
            && !client.machine.needs_message()
        {
            client.forget_message(common);
        }
    }
}

/// How many octets the transaction of a request keeps at first.
pub(super) fn kept_octets(request: &WrittenRequest<'_>, target: &Target) -> usize {
    match is_sent_once(request.method, target) {
        true => 0,
        false => request.octets.len(),
    }
}

/// Whether a request cannot be lost, and is not acknowledged or cancelled: nothing is sent after it, so nothing is kept.
fn is_sent_once(method: &Method, target: &Target) -> bool {
    target.transport().is_reliable() && *method != Method::Invite
}

impl Client {
    fn transmit(&self, common: &mut Common, id: ClientId) {
        if let Some(sending) = &self.sending {
            sending.clone().transmit(common, id);
        }
    }

    fn forget_message(&mut self, common: &mut Common) {
        if let Some(mut sending) = self.sending.take() {
            common.keep(&mut sending.message, Bytes::new());
        }
    }
}

impl Sending {
    fn transmit(self, common: &mut Common, id: ClientId) {
        common.transmits.push_back(Transmit {
            target: self.target,
            peer: self.peer,
            payload: self.message,
            call: self.call,
            transaction: Some(TransactionKey::Client(id)),
        });
    }
}

impl Machine {
    fn start(method: &Method, common: &Common, is_reliable: bool) -> (Machine, Actions) {
        if *method == Method::Invite {
            let (machine, actions) = ClientInvite::start(&common.config, is_reliable);
            (Machine::Invite(machine), actions)
        } else {
            let (machine, actions) = ClientNonInvite::start(&common.config, is_reliable);
            (Machine::NonInvite(machine), actions)
        }
    }

    fn handle_response(&mut self, status: u16, common: &Common) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_response(status, &common.config),
            Machine::NonInvite(machine) => machine.handle_response(status, &common.config),
        }
    }

    fn handle_timer(&mut self, timer: Timer, common: &Common) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_timer(timer, &common.config),
            Machine::NonInvite(machine) => machine.handle_timer(timer, &common.config),
        }
    }

    fn handle_send_failure(&mut self) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_send_failure(),
            Machine::NonInvite(machine) => machine.handle_send_failure(),
        }
    }

    fn needs_message(&self) -> bool {
        match self {
            Machine::Invite(machine) => machine.needs_message(),
            Machine::NonInvite(machine) => machine.needs_message(),
        }
    }
}
