//! What hooks are shown at each point, and what they can have done there.

use std::borrow::Cow;
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
    pub request: &'a mut Message,
    /// The flow that it came along.
    pub arrival: &'a Flow,
    /// The name in the credentials by which its sender has proved who it is, where that has been asked.
    pub user: Option<&'a str>,
    /// The time.
    pub now: Instant,
    /// To be set where the Request-URI is changed: it is found out anew where the request is for.
    pub is_retargeted: &'a mut bool,
}

/// A final response to a request, that says why it is not forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: u16,
    /// Its reason phrase.
    pub reason: Cow<'static, str>,
    /// Further header fields: names and values.
    pub fields: Vec<(Box<str>, Box<str>)>,
}

impl Refusal {
    /// A refusal with this status: 300 or more, or 200 or more where the request may be served here.
    pub fn new(status: u16, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            status,
            reason: reason.into(),
            fields: Vec::new(),
        }
    }

    /// The same with another header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Refusal {
        self.fields.push((name.into(), value.into()));
        self
    }

    pub(crate) fn into_rejection(self) -> Rejection {
        Rejection::worded(self.status, self.reason, self.fields)
    }
}

/// A request that is to be forwarded.
#[derive(Debug)]
pub struct RoutePoint<'a> {
    /// The request, without the Route values that led it here.
    pub request: &'a mut Message,
    /// The flow that it came along.
    pub arrival: &'a Flow,
    /// The name in the credentials by which its sender has proved who it is.
    pub user: Option<&'a str>,
    /// The time.
    pub now: Instant,
    /// Whether static routes are for it.
    pub(crate) is_routable: bool,
    /// What the choice among equal next hops follows from, if it is not made at random.
    pub(crate) choice: Option<u64>,
    pub(crate) dispatcher: &'a mut Dispatcher,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestAction {
    /// It is answered here.
    Refuse(Refusal),
    /// It is forgotten, without an answer.
    Drop,
    /// It is forwarded.
    Forward(ForwardTo),
}

/// Where a hook sends a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ForwardTo {
    /// To one of these next hops, whatever its Request-URI; where there is none, it is answered as if none could be
    /// reached.
    NextHops(Routed),
    /// To these URIs, each in place of the Request-URI: those of a group together, and a group when all before it have
    /// failed.
    Targets(Vec<Vec<Box<str>>>),
}

impl RequestAction {
    /// To one of the next hops that these SIP URIs name, the most preferred first, whatever its Request-URI.
    pub fn to<'a>(uris: impl IntoIterator<Item = &'a str>) -> RequestAction {
        let hop = |uri: &str| NextHopUri {
            uri: uri.into(),
            member: None,
            addresses: Arc::default(),
        };
        RequestAction::Forward(ForwardTo::NextHops(Routed {
            next_hops: uris.into_iter().map(hop).collect(),
        }))
    }
}

/// A branch that is about to begin.
#[derive(Debug)]
pub struct BranchPoint<'a> {
    /// The request, as it was received: a copy for this branch.
    pub request: &'a mut Message,
    /// The flow that it came along.
    pub arrival: &'a Flow,
    /// The Request-URI of the branch.
    pub target: &'a str,
    /// The time.
    pub now: Instant,
    /// To be set where the copy is changed, which is kept for the branch then.
    pub is_changed: &'a mut bool,
}

/// A response on a branch.
#[derive(Debug)]
pub struct ReplyPoint<'a> {
    /// The response, without the Via that was ours.
    pub response: &'a mut Message,
    /// The time.
    pub now: Instant,
}

/// Has a provisional response go no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropReply;

/// A branch that has failed at a next hop.
#[derive(Debug)]
pub struct FailurePoint<'a> {
    /// The time.
    pub now: Instant,
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

    /// The flow that it came along.
    pub fn arrival(&self) -> &Flow {
        &self.context.arrival
    }

    /// The response, where one has come.
    pub fn response(&self) -> Option<&Message> {
        match &*self.candidate {
            Candidate::Received(response) | Candidate::Terminated(response) => Some(response),
            Candidate::Presumed(_) | Candidate::Refused(_) => None,
        }
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

    /// Tries the URIs of a group together, and a group when all before it have failed.
    pub fn in_turn(groups: Vec<Vec<Box<str>>>) -> NewTargets {
        let target = |uri: Box<str>| Target::as_requested(&uri, None);
        let group = |uris: Vec<Box<str>>| uris.into_iter().map(target).collect();
        NewTargets {
            groups: groups.into_iter().map(group).collect(),
            candidate: None,
        }
    }

    /// Tries nothing else, and lets the branch count as one that was answered so.
    pub fn answer(refusal: Refusal) -> NewTargets {
        NewTargets {
            groups: Vec::new(),
            candidate: Some(Candidate::Refused(Box::new(refusal.into_rejection()))),
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
    /// The time.
    pub now: Instant,
}
