//! Response contexts: a request that is being forwarded, and its branches (RFC 3261 sections 16.6
//! and 16.7).

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip::transaction::ClientId;
use sip::{ConnectionId, Flow, Message, Method, Peer};
use smallvec::SmallVec;

use super::best_response::FinalResponses;
use super::target_set::TargetSet;
use crate::core::event::Call;
use crate::core::forward::max_breadth;
use crate::core::loop_detection::Fingerprint;
use crate::core::policy::Forking;
use crate::core::query::QueryId;
use crate::core::routing::MemberName;
use crate::core::target::{Target, Targets};
use crate::core::uri::is_equivalent;

/// A request that has been taken on and has no final response yet, or has branches that have none.
#[derive(Debug)]
pub(crate) struct ResponseContext {
    /// The request, without the Route values that led it here.
    pub(crate) request: Message,
    /// The length of the request.
    request_octets: usize,
    pub(crate) arrival: Flow,
    pub(crate) fingerprint: Fingerprint,
    /// The branches that may run side by side (RFC 5393 section 5.3.3).
    pub(crate) max_breadth: u32,
    is_invite: bool,
    /// It begins a call.
    pub(crate) begins_call: bool,
    /// It belongs to a dialog that has begun through us.
    pub(crate) is_in_dialog: bool,
    /// Its client has got the mark of an early dialog.
    pub(crate) has_early_dialogs: bool,
    /// When the request came.
    pub(crate) received: Instant,
    /// When its client gives up, where that is known: that of an INVITE waits for as long as it likes.
    given_up_at: Option<Instant>,
    /// A 100 has gone upstream.
    pub(crate) is_trying: bool,
    /// A response other than 100 has gone upstream.
    pub(crate) is_responded: bool,
    /// The location look-up that it waits for.
    pub(crate) lookup: Option<QueryId>,
    /// Whether its Request-URI is one that we are responsible for, so that more targets may be found for it (RFC 3261
    /// section 16.5).
    pub(crate) is_responsible: bool,
    /// Whether breadth is kept for targets that come while it is forwarded (RFC 3261 section 16.5), and may run beside others.
    pub(crate) keeps_breadth: bool,
    /// Whether a static route has led it on.
    pub(crate) is_routed: bool,
    /// Targets that have not been tried.
    pub(crate) targets: TargetSet,
    /// Most requests have one: it is beside what else is read for each response.
    pub(crate) branches: SmallVec<[Branch; 1]>,
    pub(crate) finals: FinalResponses,
    /// The client has cancelled the request.
    pub(crate) is_cancelled: bool,
    /// A 6xx has come: no further branch begins.
    pub(crate) is_stopped: bool,
    /// A final response has gone upstream.
    pub(crate) is_answered: bool,
    /// It was none of success.
    pub(crate) has_failed: bool,
    /// A branch could not begin because there is no room for its transaction.
    pub(crate) is_overloaded: bool,
}

/// One target that is being tried.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) target: Target,
    pub(crate) max_breadth: u32,
    pub(crate) state: BranchState,
    /// The hooks have let it begin.
    pub(crate) may_begin: bool,
    /// The request as hooks have changed it for this branch.
    pub(crate) request: Option<Box<Message>>,
}

/// How far a branch has come.
#[derive(Debug)]
pub(crate) enum BranchState {
    /// The next hop to the target is to be tried.
    Ready,
    /// It waits for the addresses of its next hop, or for a hook.
    Resolving(QueryId),
    /// It is being forwarded.
    Forwarded(Forwarded),
    /// It has had its final response or was given up.
    Ended {
        /// Whether the user agent itself has answered, so that no other flow of its instance is tried (RFC 5626 section 7).
        is_answered: bool,
    },
}

/// A request that was forwarded and has no final response.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) client: ClientId,
    /// The length of the request as it was sent, where its transaction keeps it.
    pub(crate) octets: usize,
    /// The part of the branch's breadth that it has taken along.
    pub(crate) max_breadth: u32,
    pub(crate) sent_to: sip::Target,
    /// Who is expected there.
    pub(crate) peer: Option<Arc<Peer>>,
    /// A provisional response has come.
    pub(crate) is_proceeding: bool,
    /// Until it does, the deadline is that for any response.
    pub(crate) is_hurried: bool,
    /// The connection that it was to go over was refused.
    pub(crate) is_refused: bool,
    /// It has been silent for so long that something else is tried. It may have arrived all the same.
    pub(crate) is_passed_over: bool,
    /// Its instance has answered along another flow: what it says is no answer any more, unless it has taken the call.
    pub(crate) is_settled: bool,
    pub(crate) cancel: Cancel,
    /// Its final response has come, or it counts as answered; a hook may have parked that.
    pub(crate) has_final: bool,
    /// A hook has parked its failure.
    pub(crate) parked: Option<QueryId>,
    /// Until when it may ring: others wait for their turn.
    pub(crate) rings_until: Option<Instant>,
    /// Timer C, or after a CANCEL the time that its effect may take.
    pub(crate) deadline: Option<Instant>,
}

impl Branch {
    /// Whether nothing has come back yet.
    fn is_silent(&self) -> bool {
        let is_silent = |forwarded: &Forwarded| !forwarded.is_proceeding && !forwarded.has_final;
        matches!(&self.state, BranchState::Forwarded(forwarded) if is_silent(forwarded))
    }

    /// Whether it went along a connection that is closed, while its instance has another flow.
    fn is_along_closed(&self, is_closed: impl Fn(ConnectionId) -> bool) -> bool {
        let BranchState::Forwarded(forwarded) = &self.state else {
            return false;
        };
        let is_closed = match forwarded.sent_to {
            sip::Target::Flow(flow) | sip::Target::FlowOrAddress(flow, _) => {
                // Datagrams know no connection, and flows of a former process have none that is known.
                flow.transport.is_reliable() && is_closed(flow.connection)
            }
            sip::Target::Address(..) => false,
        };
        is_closed
            && !forwarded.is_passed_over
            && !forwarded.has_final
            && forwarded.cancel == Cancel::No
            && !self.target.alternates.is_empty()
    }
}

/// Whether a branch is being cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    No,
    /// As soon as a provisional response comes (RFC 3261 section 9.1).
    Wanted,
    Sent,
}

impl Forwarded {
    /// When it is to be looked at again, where Timer C fires at that time.
    pub(crate) fn deadline_from(&self, timer_c: Instant) -> Instant {
        self.rings_until.map_or(timer_c, |end| end.min(timer_c))
    }
}

impl ResponseContext {
    /// The context of a request that has no target yet. `timeout`: how long the client of a request
    /// other than INVITE waits (Timer F, RFC 3261 section 17.1.2.2).
    pub(crate) fn new(
        now: Instant,
        timeout: Duration,
        mut request: Message,
        arrival: Flow,
        fingerprint: Fingerprint,
    ) -> ResponseContext {
        let is_invite = request.method() == Some(&Method::Invite);
        if is_invite {
            // It may ring for minutes.
            request.shrink_to_fit();
        }
        ResponseContext {
            is_invite,
            begins_call: is_invite && request.to_tag().is_none(),
            is_in_dialog: false,
            has_early_dialogs: false,
            received: now,
            given_up_at: (!is_invite).then(|| now + timeout),
            is_trying: false,
            is_responded: false,
            request_octets: request.wire_length(),
            // It has been found to be there.
            max_breadth: max_breadth(&request).unwrap_or(1),
            request,
            arrival,
            fingerprint,
            lookup: None,
            is_responsible: false,
            keeps_breadth: false,
            is_routed: false,
            targets: TargetSet::default(),
            branches: SmallVec::new(),
            finals: FinalResponses::default(),
            is_cancelled: false,
            is_stopped: false,
            is_answered: false,
            has_failed: false,
            is_overloaded: false,
        }
    }

    pub(crate) fn is_invite(&self) -> bool {
        self.is_invite
    }

    /// The call that it begins, for the log. It is made each time: a call may ring for minutes.
    pub(crate) fn call(&self) -> Option<Arc<Call>> {
        if !self.begins_call {
            return None;
        }
        Call::of(&self.request, self.arrival).map(Arc::new)
    }

    /// The length of all messages that are held: the request, its copies that have no final response,
    /// and the best response.
    pub(crate) fn octets(&self) -> usize {
        let copies: usize = self
            .branches
            .iter()
            .map(|branch| {
                let changed = branch.request.as_ref();
                let changed = changed.map_or(0, |request| request.wire_length());
                match &branch.state {
                    BranchState::Forwarded(forwarded) => forwarded.octets + changed,
                    _ => changed,
                }
            })
            .sum();
        self.request_octets + copies + self.finals.octets()
    }

    /// Whether further targets and hops may be tried. Where the client has given up, no answer reaches it
    /// any more (RFC 4320 section 4.2), and nobody wants the request delivered.
    pub(crate) fn may_go_on(&self, now: Instant) -> bool {
        let is_given_up = self.given_up_at.is_some_and(|time| time <= now);
        !(self.is_cancelled || self.is_stopped || self.is_answered || is_given_up)
    }

    /// Whether a branch is to be tried by its next hop.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.branches
            .get(index)
            .is_some_and(|branch| matches!(branch.state, BranchState::Ready))
    }

    /// Whether a branch's request has not been sent, but may be yet.
    pub(crate) fn is_unsent(&self, index: usize) -> bool {
        self.branches.get(index).is_some_and(|branch| {
            matches!(branch.state, BranchState::Ready | BranchState::Resolving(_))
        })
    }

    /// Whether there is a hop to a branch's target that has not been tried.
    pub(crate) fn has_other_hop(&self, index: usize) -> bool {
        self.branches
            .get(index)
            .is_some_and(|branch| !branch.target.hops.is_empty())
    }

    /// Lets a branch go over to another flow of the instance that it is for. Returns whether there is one.
    pub(crate) fn fall_back(&mut self, index: usize) -> bool {
        self.branches
            .get_mut(index)
            .is_some_and(|branch| branch.target.fall_back())
    }

    /// Whether the request goes along a flow that we have promised another proxy to keep.
    pub(crate) fn is_along_edge_flow(&self) -> bool {
        self.branches.iter().any(|branch| branch.target.is_edge)
    }

    /// Lets a branch try the next hop to its target.
    pub(crate) fn retry(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            branch.state = BranchState::Ready;
        }
    }

    /// Whether the final response of anything is waited for. A hop that was passed over has had its time: without a
    /// provisional response it counts as one that has answered 408 (RFC 3261 section 16.8), for else a caller
    /// would learn of the busy phone behind another hop only when Timer B ends the dead one. One that has sent a
    /// provisional response is there, and is being cancelled: what it says of that is the end of it.
    pub(crate) fn is_awaited(&self) -> bool {
        let is_invite = self.is_invite();
        self.lookup.is_some()
            || self.branches.iter().any(|branch| match &branch.state {
                BranchState::Forwarded(forwarded) => {
                    let is_tried = !forwarded.is_passed_over;
                    !forwarded.is_settled && (is_tried || is_invite && forwarded.is_proceeding)
                }
                BranchState::Ended { .. } => false,
                BranchState::Ready | BranchState::Resolving(_) => true,
            })
    }

    /// Whether anything can still bring a final response that has to be seen to: an INVITE may have reached a hop
    /// that was passed over, which is to be cancelled then, or has answered already.
    pub(crate) fn is_pending(&self) -> bool {
        let is_invite = self.is_invite();
        self.lookup.is_some()
            || self.branches.iter().any(|branch| match &branch.state {
                BranchState::Forwarded(forwarded) => is_invite || !forwarded.is_passed_over,
                BranchState::Ended { .. } => false,
                BranchState::Ready | BranchState::Resolving(_) => true,
            })
    }

    /// Whether those whose turn it is have not all failed or been passed over.
    fn is_trying(&self) -> bool {
        self.lookup.is_some()
            || self.branches.iter().any(|branch| match &branch.state {
                BranchState::Forwarded(forwarded) => !forwarded.is_passed_over,
                BranchState::Ended { .. } => false,
                BranchState::Ready | BranchState::Resolving(_) => true,
            })
    }

    /// Goes on without the answer of a branch that is silent: with the other hops to its target, or with
    /// other targets. Returns whether there is any, and breadth for it (RFC 5393 section 5.3.3).
    ///
    /// It may have arrived all the same. So it stays until its transaction ends; an INVITE to be cancelled
    /// as soon as it is said to be there (RFC 3261 section 9.1).
    pub(crate) fn pass_over(&mut self, index: usize) -> bool {
        self.go_around(index, Cancel::Wanted, 0)
    }

    /// Goes on with another flow of the instance of a branch whose own flow is gone, as it seems. Returns whether there is
    /// any, and breadth for it beside those whose turn it is.
    ///
    /// Its user agent may be there nonetheless, and refuse what reaches it a second time (482, RFC 3261 section 8.2.2.2): so
    /// it is not cancelled until its instance has answered along the other flow.
    pub(crate) fn leave_flow(&mut self, index: usize) -> bool {
        let due = u32::try_from(self.targets.due()).unwrap_or(u32::MAX);
        self.go_around(index, Cancel::No, due)
    }

    /// [`pass_over`](ResponseContext::pass_over), where so much of the breadth that is free is not for what comes now.
    fn go_around(&mut self, index: usize, cancel: Cancel, due: u32) -> bool {
        let free = self.free_breadth().saturating_sub(due);
        let is_last = self.targets.is_empty();
        let Some(branch) = self.branches.get_mut(index) else {
            return false;
        };
        let BranchState::Forwarded(forwarded) = &mut branch.state else {
            return false;
        };
        if forwarded.is_passed_over {
            return false;
        }
        let kept = branch.max_breadth - forwarded.max_breadth;
        // Only one that has refused TCP may be one that does not know it.
        branch.target.leave_out_datagram();
        if is_last && !branch.target.has_rest() || free + kept == 0 {
            return false;
        }
        forwarded.is_passed_over = true;
        forwarded.cancel = cancel;
        branch.max_breadth = forwarded.max_breadth;
        if let Some(rest) = branch.target.take_rest() {
            self.targets.insert(vec![vec![rest]]);
        }
        true
    }

    /// A branch that is being forwarded.
    pub(crate) fn forwarded_mut(&mut self, index: usize) -> Option<&mut Forwarded> {
        match &mut self.branches.get_mut(index)?.state {
            BranchState::Forwarded(forwarded) => Some(forwarded),
            _ => None,
        }
    }

    /// Whether a branch is being forwarded by a transaction.
    pub(crate) fn has_sent(&mut self, index: usize, client: ClientId) -> bool {
        self.forwarded_mut(index)
            .is_some_and(|forwarded| forwarded.client == client)
    }

    /// Whether a branch that is being forwarded has its final response.
    pub(crate) fn has_final(&self, index: usize) -> bool {
        self.hop(index)
            .is_some_and(|(_, forwarded)| forwarded.has_final)
    }

    /// A branch that is being forwarded, and the member of a group that it has gone to.
    pub(crate) fn hop(&self, index: usize) -> Option<(Option<&MemberName>, &Forwarded)> {
        let branch = self.branches.get(index)?;
        match &branch.state {
            BranchState::Forwarded(forwarded) => Some((branch.target.member.as_ref(), forwarded)),
            _ => None,
        }
    }

    /// How many targets have been in the target set.
    pub(crate) fn known_targets(&self) -> usize {
        self.branches.len() + self.targets.len()
    }

    /// All targets that have been in the target set, with all flows of the instances among them.
    fn flows(&self) -> impl Iterator<Item = &Target> {
        let tried = self.branches.iter().map(|branch| &branch.target);
        tried.chain(self.targets.iter()).flat_map(Target::flows)
    }

    /// Whether a URI is that of the request, or of a target that has been in the target set.
    pub(crate) fn knows_target(&self, uri: &str) -> bool {
        let targets = self.flows().map(|target| &*target.uri);
        targets
            .chain(self.request.request_uri())
            .any(|known| is_equivalent(known, uri))
    }

    /// Sets the targets of a request that has had none, so many at the most. Returns whether there are any.
    pub(crate) fn set_targets(
        &mut self,
        targets: Targets,
        forking: Forking,
        maximum: usize,
    ) -> bool {
        match targets {
            Targets::One(target) if maximum > 0 => {
                self.begin_only(target);
                true
            }
            targets => {
                self.targets = TargetSet::new(targets.into_groups(), forking, maximum);
                !self.targets.is_empty()
            }
        }
    }

    /// The other branches of the instance of a branch that have not ended.
    pub(crate) fn others_of_instance(&self, index: usize) -> Vec<usize> {
        let Some(branch) = self.branches.get(index) else {
            return Vec::new();
        };
        let is_other = |(at, other): &(usize, &Branch)| {
            *at != index
                && !matches!(other.state, BranchState::Ended { .. })
                && other.target.has_instance_of(&branch.target)
        };
        let branches = self.branches.iter().enumerate();
        branches.filter(is_other).map(|(at, _)| at).collect()
    }

    /// Takes the branches that were passed over for a branch for those that count: its instance says that it rings along one
    /// of them.
    pub(crate) fn return_to_flow(&mut self, index: usize) {
        for other in self.others_of_instance(index) {
            if let Some(forwarded) = self.forwarded_mut(other)
                && forwarded.cancel == Cancel::No
            {
                forwarded.is_passed_over = false;
            }
        }
    }

    /// The client transaction of a branch along a connection that is closed, while its instance has another flow.
    pub(crate) fn closed_flow(
        &self,
        index: usize,
        is_closed: impl Fn(ConnectionId) -> bool,
    ) -> Option<ClientId> {
        let branch = self.branches.get(index)?;
        match &branch.state {
            BranchState::Forwarded(forwarded) if branch.is_along_closed(is_closed) => {
                Some(forwarded.client)
            }
            _ => None,
        }
    }

    /// Tries no other flow of the instance of a branch.
    pub(crate) fn drop_other_flows(&mut self, index: usize) {
        for other in self.others_of_instance(index) {
            if let Some(branch) = self.branches.get_mut(other) {
                branch.target.alternates.clear();
            }
        }
        if let Some(branch) = self.branches.get(index) {
            while self.targets.take_same_instance(&branch.target).is_some() {}
        }
    }

    /// Adds those of a user's targets that have not been in the target set, so many flows in all at the most. Given are all
    /// of them.
    ///
    /// One that is as preferred as any that has been tried, or more, is tried at once, unless the policy has one tried
    /// after the other. Of an instance there is one target at a time (RFC 5626 section 7): further flows of one that is
    /// being tried are tried next, and none of one that has answered. Returns how many are new, and the branches whose
    /// instances have other flows while their own are silent or closed.
    pub(crate) fn add_late_targets(
        &mut self,
        targets: impl IntoIterator<Item = Target>,
        forking: Forking,
        maximum: usize,
        is_closed: impl Fn(ConnectionId) -> bool,
    ) -> (usize, Vec<usize>) {
        let mut added = 0;
        let mut gone = Vec::new();
        for target in targets {
            let room = maximum.saturating_sub(self.flows().count());
            let Some(mut target) = self.unknown_flows(target, room) else {
                continue;
            };
            let number = 1 + target.alternates.len();
            let has_answered = |branch: &Branch| {
                branch.target.has_instance_of(&target)
                    && matches!(branch.state, BranchState::Ended { is_answered: true })
            };
            if self.branches.iter().any(has_answered) {
                continue;
            }
            added += number;
            let is_tried = |branch: &Branch| {
                branch.target.has_instance_of(&target)
                    && match &branch.state {
                        BranchState::Ended { .. } => false,
                        BranchState::Forwarded(forwarded) => {
                            !forwarded.is_passed_over && forwarded.cancel != Cancel::Sent
                        }
                        BranchState::Ready | BranchState::Resolving(_) => true,
                    }
            };
            if let Some(index) = self.branches.iter().position(is_tried) {
                if let Some(branch) = self.branches.get_mut(index) {
                    branch.target.prepend(target);
                    gone.extend(branch.is_silent().then_some(index));
                }
                continue;
            }
            // Of one that waits what was registered last is tried first.
            if let Some(mut old) = self.targets.take_same_instance(&target) {
                let others = mem::take(&mut old.alternates);
                target.alternates.push_back(old);
                target.alternates.extend(others);
            }
            let tried = self.branches.iter().map(|branch| branch.target.q);
            let is_due = match forking {
                Forking::Parallel => true,
                Forking::ByPreference => tried.min().is_none_or(|least| least <= target.q),
                Forking::Sequential => false,
            };
            if is_due {
                self.targets.add(target);
            } else {
                let joins = forking == Forking::ByPreference;
                self.targets.add_later(target, joins);
            }
        }
        for (index, branch) in self.branches.iter().enumerate() {
            if branch.is_along_closed(&is_closed) && !gone.contains(&index) {
                gone.push(index);
            }
        }
        (added, gone)
    }

    /// Of a target and its alternates those that have not been in the target set, so many at the most, as one target.
    fn unknown_flows(&self, mut target: Target, room: usize) -> Option<Target> {
        let others = mem::take(&mut target.alternates);
        let mut unknown = [target]
            .into_iter()
            .chain(others)
            .filter(|flow| !self.knows_target(&flow.uri))
            .take(room);
        let first = unknown.next()?;
        Some(Target {
            alternates: unknown.collect(),
            ..first
        })
    }

    /// Makes a branch of the only target that a request has had so far: it has all the breadth, but for what is kept
    /// for late targets.
    pub(crate) fn begin_only(&mut self, target: Target) {
        let max_breadth = self.max_breadth - self.kept_for_late_targets(self.max_breadth);
        self.branches.push(Branch {
            target,
            max_breadth,
            state: BranchState::Ready,
            may_begin: false,
            request: None,
        });
    }

    /// Makes branches of the targets whose turn it is, as many as may run side by side: the breadth
    /// of those that have ended is free again (RFC 5393 section 5.3.3.1). Returns whether there were
    /// any. `for_others`: half is kept for those that wait behind them, who may begin before these have ended.
    pub(crate) fn begin_targets(&mut self, for_others: bool) -> bool {
        if self.targets.is_empty() {
            return false;
        }
        let free = self.free_breadth();
        let targets = self.targets.next(self.is_trying(), free as usize);
        let number = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let given = match for_others && !self.targets.is_empty() {
            true => larger_half(free),
            false => free - self.kept_for_late_targets(free),
        };
        let given = number.max(given);
        let Some(share) = given.checked_div(number) else {
            return false;
        };
        // They may ring for minutes.
        self.branches.reserve_exact(targets.len());
        self.branches
            .extend(targets.into_iter().map(|target| Branch {
                target,
                max_breadth: share,
                state: BranchState::Ready,
                may_begin: false,
                request: None,
            }));
        true
    }

    /// What is kept of a breadth for targets that may come yet: less than half, and no more than a few.
    fn kept_for_late_targets(&self, breadth: u32) -> u32 {
        const FEW: u32 = 8;
        match self.keeps_breadth {
            true => FEW.min(breadth / 2),
            false => 0,
        }
    }

    /// The breadth that no branch has.
    pub(crate) fn free_breadth(&self) -> u32 {
        let running = self
            .branches
            .iter()
            .filter(|branch| !matches!(branch.state, BranchState::Ended { .. }));
        let used: u32 = running.map(|branch| branch.max_breadth).sum();
        self.max_breadth.saturating_sub(used)
    }
}

/// What is given of a breadth where the rest is kept: one cannot be divided.
pub(crate) fn larger_half(breadth: u32) -> u32 {
    breadth - breadth / 2
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::{Name, Transport};

    use super::*;
    use crate::core::loop_detection::LoopDetector;

    fn context(max_breadth: u32) -> ResponseContext {
        let request = Message::request(Method::Invite, "sip:bob@example.com")
            .with(Name::CallId, "1")
            .with(Name::MaxBreadth, max_breadth.to_string());
        let address = "192.0.2.1:5060".parse().expect("an address");
        let arrival = Flow {
            transport: Transport::Udp,
            local: address,
            remote: address,
            connection: ConnectionId(7),
            stream: 0,
        };
        let loops = LoopDetector::new(&mut ChaCha12Rng::seed_from_u64(1));
        let fingerprint = loops.fingerprint(&request);
        let timeout = Duration::from_secs(32);
        ResponseContext::new(Instant::now(), timeout, request, arrival, fingerprint)
    }

    /// The only target is tried at once; as one of a set it is tried as soon as anybody asks for the next.
    #[test]
    fn an_only_target_begins_as_one_of_a_set_does() {
        let target = || Target::as_requested("sip:bob@192.0.2.7", None);
        for max_breadth in [1, 2, 60] {
            for (for_others, for_newcomers) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                for maximum in [0, 1, 2] {
                    let mut only = context(max_breadth);
                    only.keeps_breadth = for_newcomers;
                    let forking = Forking::default();
                    let has_any = only.set_targets(Targets::One(target()), forking, maximum);
                    let mut set = context(max_breadth);
                    set.keeps_breadth = for_newcomers;
                    let groups = Targets::Groups([vec![target()]].into());
                    assert_eq!(set.set_targets(groups, forking, maximum), has_any);
                    assert_eq!(has_any, maximum > 0);
                    assert_eq!(set.begin_targets(for_others), has_any);
                    assert!(!only.begin_targets(for_others));
                    let branches = |context: &ResponseContext| -> Vec<(Target, u32)> {
                        let branches = context.branches.iter();
                        branches
                            .inspect(|branch| assert!(matches!(branch.state, BranchState::Ready)))
                            .map(|branch| (branch.target.clone(), branch.max_breadth))
                            .collect()
                    };
                    assert_eq!(branches(&only), branches(&set));
                    assert_eq!(only.known_targets(), set.known_targets());
                    assert_eq!(only.free_breadth(), set.free_breadth());
                }
            }
        }
    }
}
