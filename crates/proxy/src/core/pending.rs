//! What waits for the answer to a query. Each part of the core keeps here what it needs to go on.

use std::time::{Duration, Instant};

use sip::transaction::ServerId;
use sip::{Flow, Message};

use super::binding::AddressOfRecord;
use super::branch_name::BranchName;
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

impl PendingQuery {
    /// The length of the request that waits. A response context counts its own.
    pub(crate) fn octets(&self) -> usize {
        match self {
            PendingQuery::Authenticate(_, octets) => *octets,
            PendingQuery::Register(register) => register.request.wire_length(),
            PendingQuery::Stateless(stateless) => stateless.request.wire_length(),
            PendingQuery::Lookup(_)
            | PendingQuery::LateTargets(_)
            | PendingQuery::NextHop(_)
            | PendingQuery::Probe(_)
            | PendingQuery::Page => 0,
        }
    }
}
