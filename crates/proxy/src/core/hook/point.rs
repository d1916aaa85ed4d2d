//! What hooks are shown at each point, and what they can have done there.

use std::sync::Arc;
use std::time::Instant;

use sip::{Flow, Message};

use crate::core::forwarder::best_response::Candidate;
use crate::core::forwarder::response_context::ResponseContext;
use crate::core::identity::Identity;
use crate::core::policy::Policy;
use crate::core::rejection::Rejection;
use crate::core::routing::{Dispatcher, NextHopUri, Routed};
use crate::core::target::Target;

/// A request that has begun a transaction.
#[derive(Debug)]
pub struct RequestPoint<'a> {
    /// The request, without the Route values that led it here.
    pub request: &'a Message,
    /// The flow that it came along.
    pub arrival: &'a Flow,
}

/// Refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: u16,
    /// Its reason phrase.
    pub reason: &'static str,
}

impl Refusal {
    /// A refusal with this status: 300 or more.
    pub fn new(status: u16, reason: &'static str) -> Refusal {
        Refusal { status, reason }
    }

    pub(crate) fn rejection(&self) -> Rejection {
        Rejection::new(self.status, self.reason)
    }
}

/// A request that is to be forwarded.
#[derive(Debug)]
pub struct RoutePoint<'a> {
    /// The request, without the Route values that led it here.
    pub request: &'a Message,
    pub(crate) now: Instant,
    /// Whether static routes are for it.
    pub(crate) is_routable: bool,
    /// What the choice among equal next hops follows from, if it is not made at random.
    pub(crate) choice: Option<u64>,
    pub(crate) dispatcher: &'a mut Dispatcher,
}

/// What becomes of a request that is to be forwarded.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteAction {
    /// It is refused.
    Refuse(Refusal),
    /// It goes to one of these next hops; where there is none, it is answered as if none could be reached.
    To(Routed),
}

impl RouteAction {
    /// To one of the next hops that these SIP URIs name, the most preferred first, whatever its Request-URI.
    pub fn to<'a>(uris: impl IntoIterator<Item = &'a str>) -> RouteAction {
        let hop = |uri: &str| NextHopUri {
            uri: uri.into(),
            member: None,
            addresses: Arc::default(),
        };
        RouteAction::To(Routed {
            next_hops: uris.into_iter().map(hop).collect(),
        })
    }
}

/// A branch that is about to begin.
#[derive(Debug)]
pub struct BranchPoint<'a> {
    /// The request, as it was received.
    pub request: &'a Message,
    /// The Request-URI of the branch.
    pub target: &'a str,
}

/// A response on a branch.
#[derive(Debug)]
pub struct ReplyPoint<'a> {
    /// The response, without the Via that was ours.
    pub response: &'a Message,
}

/// Has a provisional response go no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropReply;

/// A branch that has failed at a next hop.
#[derive(Debug)]
pub struct FailurePoint<'a> {
    pub(crate) now: Instant,
    pub(crate) policy: &'a Policy,
    pub(crate) identity: &'a Identity,
    pub(crate) dispatcher: &'a mut Dispatcher,
    pub(crate) context: &'a ResponseContext,
    pub(crate) candidate: &'a mut Candidate,
}

impl FailurePoint<'_> {
    /// The request, as it was received.
    pub fn request(&self) -> &Message {
        &self.context.request
    }

    /// The status of the response; without one 408, where none has come, or 503, where the next hop was not reached.
    pub fn status(&self) -> u16 {
        self.candidate.status()
    }
}

/// Tries further targets in place of one that has failed.
#[derive(Clone, Debug)]
pub struct NewTargets {
    /// Those with the same preference together, the most preferred first.
    pub(crate) groups: Vec<Vec<Target>>,
    /// What remains of the failure as a response that may go upstream.
    pub(crate) candidate: Option<Candidate>,
}

impl NewTargets {
    /// Tries these URIs together.
    pub fn new<'a>(uris: impl IntoIterator<Item = &'a str>) -> NewTargets {
        let targets = uris.into_iter();
        NewTargets {
            groups: vec![targets.map(|uri| Target::as_requested(uri, None)).collect()],
            candidate: None,
        }
    }
}

/// A dialog that has ended.
#[derive(Debug)]
pub struct DialogEndPoint<'a> {
    /// Its Call-ID.
    pub call_id: &'a str,
    /// The tag in From of the BYE.
    pub from_tag: &'a str,
    /// The tag in To of the BYE.
    pub to_tag: &'a str,
}
