//! What waits for the answer to a query. Each part of the core keeps here what it needs to go on.

use std::time::{Duration, Instant};

use sip::transaction::{ClientId, ServerId};
use sip::{Flow, Message};

use super::binding::AddressOfRecord;
use super::branch_name::BranchName;
use super::forwarder::best_response::Candidate;
use super::hook::ParkedState;
use super::incoming::IncomingRequest;
use super::loop_detection::Fingerprint;
use super::routing::Probe;
use super::target::Target;

/// What waits for the answer to a query.
#[derive(Debug)]
pub(crate) enum PendingQuery {
    /// The authenticator, for what is stored of a password. It keeps the request, which has so many octets.
    Authenticate(ServerId, usize),
    /// A REGISTER, for the bindings.
    Register(Box<PendingRegister>),
    /// A response context, for the bindings of its target.
    Lookup(ServerId),
    /// A response context, for bindings that have come since.
    LateTargets(ServerId),
    /// A branch, for the addresses of its next hop.
    NextHop(BranchName),
    /// A request that is forwarded without state, for bindings or addresses.
    Stateless(Box<StatelessRequest>),
    /// A probe, for the addresses of the member of a group.
    Probe(Box<Probe>),
    /// Keep-alives, for a page of the store.
    Page,
    /// A hook, to decide.
    Hook(Box<Parked>),
}

/// A REGISTER whose answer a location store has to give.
#[derive(Debug)]
pub(crate) struct PendingRegister {
    pub(crate) server: ServerId,
    pub(crate) request: Message,
    pub(crate) flow: Flow,
    pub(crate) address: AddressOfRecord,
    /// The contacts that it changes, with the intervals granted, zero for those removed; for the log.
    pub(crate) changes: Vec<(String, Duration)>,
    /// When the request came.
    pub(crate) received: Instant,
    /// The Authentication-Info that shows the user agent that we know the password too.
    pub(crate) confirmation: Option<String>,
    /// Whether the rules of RFC 5626 are applied to it, and its user agent knows them.
    pub(crate) is_outbound: bool,
}

/// A request that is forwarded without state.
#[derive(Debug)]
pub(crate) struct StatelessRequest {
    /// The request, without the Route values that led it here.
    pub(crate) request: Message,
    /// As it came, where it may turn out that it has to be forwarded with state.
    pub(crate) received: Option<Message>,
    pub(crate) arrival: Flow,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) is_in_dialog: bool,
    pub(crate) target: Option<Target>,
}

/// What a hook has parked.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The place of the hook among all.
    pub(crate) hook: usize,
    /// What the hook keeps until it is asked again.
    pub(crate) state: ParkedState,
    pub(crate) what: ParkedAt,
}

/// Where it was parked, and what is needed to go on.
#[derive(Debug)]
pub(crate) enum ParkedAt {
    Request(IncomingRequest),
    Register(IncomingRequest),
    Route(IncomingRequest),
    /// A branch that has not begun.
    Branch(BranchName),
    /// A response of a transaction on a branch.
    Reply(ClientId, BranchName, Message),
    /// The failure of a transaction on a branch.
    Failure(ClientId, BranchName, Candidate),
    DialogEnd(EndedDialog),
    Timer,
}

/// The names of a dialog that has ended.
#[derive(Debug)]
pub(crate) struct EndedDialog {
    pub(crate) call_id: String,
    pub(crate) from_tag: String,
    pub(crate) to_tag: String,
}

impl EndedDialog {
    fn octets(&self) -> usize {
        self.call_id.len() + self.from_tag.len() + self.to_tag.len()
    }
}

impl ParkedAt {
    /// The request that was parked before it was forwarded.
    pub(crate) fn into_request(self) -> Option<IncomingRequest> {
        match self {
            ParkedAt::Request(incoming)
            | ParkedAt::Register(incoming)
            | ParkedAt::Route(incoming) => Some(incoming),
            _ => None,
        }
    }
}

impl ParkedAt {
    /// The failure of a branch that was parked.
    pub(crate) fn into_candidate(self) -> Option<Candidate> {
        match self {
            ParkedAt::Failure(_, _, candidate) => Some(candidate),
            _ => None,
        }
    }
}

impl Parked {
    /// The length of what is held of messages.
    fn octets(&self) -> usize {
        match &self.what {
            ParkedAt::Request(incoming)
            | ParkedAt::Register(incoming)
            | ParkedAt::Route(incoming) => incoming.request.wire_length(),
            ParkedAt::Reply(_, _, response) => response.wire_length(),
            ParkedAt::Failure(_, _, candidate) => candidate.octets(),
            ParkedAt::DialogEnd(dialog) => dialog.octets(),
            ParkedAt::Branch(_) | ParkedAt::Timer => 0,
        }
    }
}

impl PendingQuery {
    /// The length of the request that waits. A response context counts its own.
    pub(crate) fn octets(&self) -> usize {
        match self {
            PendingQuery::Authenticate(_, octets) => *octets,
            PendingQuery::Register(register) => register.request.wire_length(),
            PendingQuery::Stateless(stateless) => stateless.request.wire_length(),
            PendingQuery::Hook(parked) => parked.octets(),
            PendingQuery::Lookup(_)
            | PendingQuery::LateTargets(_)
            | PendingQuery::NextHop(_)
            | PendingQuery::Probe(_)
            | PendingQuery::Page => 0,
        }
    }
}
