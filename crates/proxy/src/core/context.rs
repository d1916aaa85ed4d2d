//! Response contexts: a request that is being forwarded, and its branches (RFC 3261 sections 16.6
//! and 16.7).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use sip::transaction::ClientId;
use sip::{Flow, Message, Method, Peer};

use super::best_response::FinalResponses;
use super::event::Call;
use super::forward::max_breadth;
use super::loop_detection::Fingerprint;
use super::query::QueryId;
use super::target::Target;

/// A request that has been taken on and has no final response yet, or has branches that have none.
#[derive(Debug)]
pub(crate) struct Context {
    /// The request, without the Route values that led it here.
    pub(crate) request: Message,
    /// The length of the request.
    request_octets: usize,
    pub(crate) arrival: Flow,
    pub(crate) fingerprint: Fingerprint,
    /// The branches that may run side by side (RFC 5393 section 5.3.3).
    pub(crate) max_breadth: u32,
    /// The call that it begins, for the log.
    pub(crate) call: Option<Call>,
    /// The location look-up that it waits for.
    pub(crate) lookup: Option<QueryId>,
    /// Targets that have not been tried, in the order in which they will be.
    pub(crate) groups: VecDeque<Vec<Target>>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) finals: FinalResponses,
    /// The client has cancelled the request.
    pub(crate) is_cancelled: bool,
    /// A 6xx has come: no further branch begins.
    pub(crate) is_stopped: bool,
    /// A final response has gone upstream.
    pub(crate) is_answered: bool,
    /// A branch could not begin because there is no room for its transaction.
    pub(crate) is_overloaded: bool,
}

/// One target that is being tried.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) target: Target,
    pub(crate) max_breadth: u32,
    pub(crate) state: BranchState,
}

/// How far a branch has come.
#[derive(Debug)]
pub(crate) enum BranchState {
    /// The next way to the target is to be tried.
    Ready,
    /// It waits for the addresses of its next hop.
    Resolving(QueryId),
    /// It is being forwarded.
    Forwarded(Box<Forwarded>),
    /// It has had its final response or was given up.
    Ended,
}

/// A request that was forwarded and has no final response.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) client: ClientId,
    /// As it was sent: what a CANCEL is made from.
    pub(crate) request: Message,
    /// The length of that.
    pub(crate) octets: usize,
    pub(crate) sent_to: sip::Target,
    /// Who is expected there.
    pub(crate) peer: Option<Arc<Peer>>,
    /// A provisional response has come.
    pub(crate) is_proceeding: bool,
    pub(crate) cancel: Cancel,
    /// Timer C, or after a CANCEL the time that its effect may take.
    pub(crate) deadline: Option<Instant>,
}

/// Whether a branch is being cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    No,
    /// As soon as a provisional response comes (RFC 3261 section 9.1).
    Wanted,
    Sent,
}

impl Context {
    /// The context of a request that has no target yet.
    pub(crate) fn new(request: Message, arrival: Flow, fingerprint: Fingerprint) -> Context {
        let is_invite = request.method() == Some(&Method::Invite);
        Context {
            call: is_invite.then(|| Call::of(&request)).flatten(),
            request_octets: request.wire_length(),
            max_breadth: max_breadth(&request),
            request,
            arrival,
            fingerprint,
            lookup: None,
            groups: VecDeque::new(),
            branches: Vec::new(),
            finals: FinalResponses::default(),
            is_cancelled: false,
            is_stopped: false,
            is_answered: false,
            is_overloaded: false,
        }
    }

    pub(crate) fn is_invite(&self) -> bool {
        self.request.method() == Some(&Method::Invite)
    }

    /// The length of all messages that are held: the request, its copies that have no final response,
    /// and the best response.
    pub(crate) fn octets(&self) -> usize {
        let copies: usize = self
            .branches
            .iter()
            .map(|branch| match &branch.state {
                BranchState::Forwarded(forwarded) => forwarded.octets,
                _ => 0,
            })
            .sum();
        self.request_octets + copies + self.finals.octets()
    }

    /// Whether further targets and ways may be tried.
    pub(crate) fn may_go_on(&self) -> bool {
        !(self.is_cancelled || self.is_stopped || self.is_answered)
    }

    /// Whether a branch is to be tried by its next way.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.branches
            .get(index)
            .is_some_and(|branch| matches!(branch.state, BranchState::Ready))
    }

    /// Whether there is a way to a branch's target that has not been tried.
    pub(crate) fn has_other_way(&self, index: usize) -> bool {
        self.branches
            .get(index)
            .is_some_and(|branch| !branch.target.ways.is_empty())
    }

    /// Lets a branch try the next way to its target.
    pub(crate) fn retry(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            branch.state = BranchState::Ready;
        }
    }

    /// Whether anything can still bring a final response.
    pub(crate) fn is_pending(&self) -> bool {
        self.lookup.is_some()
            || self
                .branches
                .iter()
                .any(|branch| !matches!(branch.state, BranchState::Ended))
    }

    /// A branch that is being forwarded.
    pub(crate) fn forwarded_mut(&mut self, index: usize) -> Option<&mut Forwarded> {
        match &mut self.branches.get_mut(index)?.state {
            BranchState::Forwarded(forwarded) => Some(forwarded),
            _ => None,
        }
    }

    /// Makes branches of the next targets that are tried side by side. Returns whether there were
    /// any.
    pub(crate) fn begin_next_group(&mut self) -> bool {
        let Some(mut group) = self.groups.pop_front() else {
            return false;
        };
        let breadth = usize::try_from(self.max_breadth).unwrap_or(usize::MAX);
        if group.len() > breadth {
            let later = group.split_off(breadth);
            self.groups.push_front(later);
        }
        let share = self.max_breadth / u32::try_from(group.len()).unwrap_or(u32::MAX).max(1);
        self.branches.extend(group.into_iter().map(|target| Branch {
            target,
            max_breadth: share.max(1),
            state: BranchState::Ready,
        }));
        true
    }
}
