//! One server transaction: its machine, and what it keeps.

use std::num::NonZeroU64;

use ahash::RandomState;
use bytes::Bytes;

use super::action::{Actions, Timer};
use super::common::Common;
use super::matching::Rules;
use super::routing::{ResponseRoute, note_source};
use super::server_invite::ServerInvite;
use super::server_non_invite::ServerNonInvite;
use super::table::Entry;
use super::{ServerId, TransactionEvent, TransactionKey};
use crate::{Flow, Message, Method, Transmit};

/// One server transaction. What is looked at when it is found, and when it ends, comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Server {
    pub(super) machine: Machine,
    rules: Rules,
    /// Whether `unusual` is there.
    is_unusual: bool,
    /// It is not known who has sent the request, and it is nobody else's yet: a refusal is sent once.
    pub(super) is_unproved: bool,
    /// How many octets may be sent to where the request came from before responses are not repeated any more.
    pub(super) credit: u32,
    /// The request as it came, where a 100 may have to be built from it, until a response is sent; then the last
    /// response, for as long as it can be sent again.
    pub(super) message: Bytes,
    pub(super) route: ResponseRoute,
    call: u32,
    /// The hash of the To tag of the first 2xx response that was sent: what is sent for another fork is no
    /// retransmission.
    answered: Option<NonZeroU64>,
    unusual: Option<Box<Unusual>>,
}

/// Responses are repeated whatever came.
pub(super) const NO_LIMIT: u32 = u32::MAX;

/// How many octets may be sent for so many that have come from a source that is not proved. Whoever forges it draws no
/// more than that on somebody else, as in QUIC (RFC 9000 section 8).
pub(super) fn credit(length: usize) -> u32 {
    const TIMES: usize = 3;
    u32::try_from(length.saturating_mul(TIMES)).unwrap_or(NO_LIMIT)
}

/// What most have not got.
#[derive(Debug, Default)]
struct Unusual {
    /// By the rules of RFC 2543: the To tag of the last response.
    response_tag: Option<Box<str>>,
    /// As `answered`, of other forks.
    answered: Vec<NonZeroU64>,
}

impl Entry for Server {
    fn vacate(&mut self) {
        self.message = Bytes::new();
        if self.is_unusual {
            self.unusual = None;
        }
    }
}

#[derive(Debug)]
pub(super) enum Machine {
    Invite(ServerInvite),
    NonInvite(ServerNonInvite),
}

/// A message that has something to do with an action.
pub(super) enum Subject {
    None,
    /// The request that came.
    Request {
        flow: Flow,
        request: Message,
        cancels: Option<ServerId>,
    },
    /// The response that the user sends.
    Response(Message),
}
impl Server {
    /// The most 2xx responses to one INVITE that are told apart.
    const MAXIMUM_FORKS: usize = 16;

    pub(super) fn new(
        machine: Machine,
        rules: Rules,
        route: ResponseRoute,
        call: u32,
        message: Bytes,
    ) -> Server {
        Server {
            machine,
            rules,
            is_unusual: false,
            is_unproved: false,
            credit: NO_LIMIT,
            message,
            route,
            call,
            answered: None,
            unusual: None,
        }
    }

    fn unusual(&mut self) -> &mut Unusual {
        self.is_unusual = true;
        self.unusual.get_or_insert_default()
    }

    /// Whether an ACK with the right key is for this transaction. By the rules of RFC 2543 the ACK
    /// to a 2xx has that key too, or that to the response of another fork.
    pub(super) fn is_acknowledged_by(&self, ack: &Message) -> bool {
        if self.rules == Rules::Rfc3261 {
            return true;
        }
        let unusual = self.unusual.as_deref();
        ack.to_tag() == unusual.and_then(|unusual| unusual.response_tag.as_deref())
    }

    /// Writes a response, and keeps it where it may have to be sent again.
    pub(super) fn keep(&mut self, common: &mut Common, response: &Message) -> Bytes {
        let payload = match self.machine.is_completed() {
            true => common.write_in_turn(response),
            false => response.to_bytes(),
        };
        if self.machine.needs_message() {
            common.keep(&mut self.message, payload.clone());
        }
        if self.rules == Rules::Rfc2543 {
            let tag = response.to_tag();
            self.unusual().response_tag = tag.map(Box::from);
        }
        payload
    }

    /// Builds a 100 (RFC 3261 section 8.2.6.1).
    pub(super) fn trying(&self, subject: &Subject) -> Option<Bytes> {
        if let Subject::Request { request, .. } = subject {
            return Some(trying(request));
        }
        // It is rare enough to read again what came.
        let mut request = Message::read(self.message.clone()).ok()?;
        note_source(&mut request, self.route.flow());
        Some(trying(&request))
    }

    /// Whether a 2xx from the same callee was sent before; it is remembered for the next time.
    pub(super) fn is_repeated_answer(&mut self, answer: &Message, hasher: &RandomState) -> bool {
        let tag = answer.to_tag();
        let hash = hasher.hash_one(tag.unwrap_or_default());
        let hash = NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX);
        let Some(first) = self.answered else {
            self.answered = Some(hash);
            return false;
        };
        if first == hash {
            return true;
        }
        let others = &mut self.unusual().answered;
        let is_known = others.contains(&hash);
        if !is_known && others.len() + 1 < Server::MAXIMUM_FORKS {
            others.push(hash);
        }
        is_known
    }

    pub(super) fn transmit(&mut self, id: ServerId, payload: Bytes) -> Transmit {
        if self.credit != NO_LIMIT {
            let length = u32::try_from(payload.len()).unwrap_or(NO_LIMIT);
            self.credit = self.credit.saturating_sub(length);
        }
        Transmit {
            target: self.route.target(),
            peer: None,
            payload,
            call: self.call,
            transaction: Some(TransactionKey::Server(id)),
        }
    }
}

/// The 100 to a request as it goes on the wire.
fn trying(request: &Message) -> Bytes {
    Message::response_to(request, 100, "Trying").to_bytes()
}

impl Subject {
    /// The request that came, as the user gets it.
    pub(super) fn take_event(&mut self, id: ServerId) -> Option<TransactionEvent> {
        match std::mem::replace(self, Subject::None) {
            Subject::Request {
                flow, mut request, ..
            } if request.method() == Some(&Method::Ack) => {
                note_source(&mut request, &flow);
                Some(TransactionEvent::Ack { flow, request })
            }
            Subject::Request {
                flow,
                request,
                cancels,
            } => Some(TransactionEvent::Request {
                transaction: id,
                flow,
                request,
                cancels,
            }),
            Subject::None | Subject::Response(_) => None,
        }
    }
}

impl Machine {
    pub(super) fn start(method: &Method, common: &Common, is_reliable: bool) -> (Machine, Actions) {
        if *method == Method::Invite {
            let (machine, actions) = ServerInvite::start(&common.config, is_reliable);
            (Machine::Invite(machine), actions)
        } else {
            let (machine, actions) = ServerNonInvite::start(&common.config, is_reliable);
            (Machine::NonInvite(machine), actions)
        }
    }

    /// Whether a 100 may have to be made of the request later.
    pub(super) fn may_send_trying(&self, common: &Common) -> bool {
        match self {
            Machine::Invite(_) => {
                let trying_after = common.config.trying_after;
                trying_after.is_some_and(|delay| !delay.is_zero())
            }
            Machine::NonInvite(_) => true,
        }
    }

    pub(super) fn handle_retransmission(&mut self) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_retransmission(),
            Machine::NonInvite(machine) => machine.handle_retransmission(),
        }
    }

    pub(super) fn handle_ack(&mut self, common: &Common) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_ack(&common.config),
            Machine::NonInvite(_) => Actions::none(),
        }
    }

    pub(super) fn respond(&mut self, status: u16, common: &Common) -> Actions {
        match self {
            Machine::Invite(machine) => machine.respond(status, &common.config),
            Machine::NonInvite(machine) => machine.respond(status, &common.config),
        }
    }

    pub(super) fn handle_timer(&mut self, timer: Timer, common: &Common) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_timer(timer, &common.config),
            Machine::NonInvite(machine) => machine.handle_timer(timer, &common.config),
        }
    }

    pub(super) fn handle_send_failure(&self) -> Actions {
        match self {
            Machine::Invite(machine) => machine.handle_send_failure(),
            Machine::NonInvite(machine) => machine.handle_send_failure(),
        }
    }

    /// Whether what is kept stays for the time of Timer J, and nothing takes its place.
    pub(super) fn is_completed(&self) -> bool {
        match self {
            Machine::Invite(_) => false,
            Machine::NonInvite(machine) => machine.is_completed(),
        }
    }

    pub(super) fn needs_message(&self) -> bool {
        match self {
            Machine::Invite(machine) => machine.needs_message(),
            Machine::NonInvite(machine) => machine.needs_message(),
        }
    }
}
