//! Forwarding: a response context tries its targets, the ways to each, and cancels what is not
//! wanted any more (RFC 3261 sections 16.6, 16.8 to 16.10).

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use sip::transaction::{ServerId, WrittenRequest};
use sip::user_agent::cancel_of;
use sip::{Flow, Message, Name, Peer, Transport, Uri};

use super::best_response::Candidate;
use super::context::{BranchState, Cancel, Context, Forwarded, larger_half};
use super::dialog_mark::{self, MarkText};
use super::event::{EndedBy, HopOutcome};
use super::forward::{self, Copy, Drafts, Forwarding, Side, is_record_routed, needed_flow};
use super::identity::{Origin, Source};
use super::policy::ForwardingPolicy;
use super::proxy::{BranchName, Proxy, Waiting};
use super::query::{Answer, Destination, NextHop, Query};
use super::read_uri::ReadUri;
use super::rejection::Rejection;
use super::responses::Final;
use super::target::{Target, Way, is_sips};
use super::target_set::arranged;
use super::{route, uri};

/// A way that has been looked at.
pub(super) enum Resolved {
    /// The request can go.
    Send {
        to: sip::Target,
        /// Who is expected there.
        peer: Option<Arc<Peer>>,
        side: Side,
    },
    /// This has to be known first.
    Ask(Query),
}

/// Where a request goes.
struct Hop {
    to: sip::Target,
    peer: Option<Arc<Peer>>,
    side: Side,
    /// Over UDP in spite of its size.
    is_last_resort: bool,
}

/// How many addresses of a next hop are tried.
const MAXIMUM_NEXT_HOPS: usize = 8;

impl Proxy {
    /// Brings a response context as far as it can go: begins branches, and answers when none is left.
    /// Keeps it for as long as anything is to come.
    pub(super) fn drive(&mut self, now: Instant, server: ServerId, mut context: Box<Context>) {
        let for_others = context.is_invite() && self.policy.forwarding.ring_time.is_some();
        loop {
            self.try_ready_branches(now, server, &mut context);
            if context.is_answered {
                break;
            }
            if context.may_go_on(now) && context.begin_targets(for_others) {
                continue;
            }
            if context.is_awaited() {
                break;
            }
            self.answer_with_best(now, server, &mut context);
        }
        if context.is_pending() {
            self.contexts.insert(server, context);
        }
    }

    /// Ends a response context without having forwarded anything.
    pub(super) fn abandon(
        &mut self,
        now: Instant,
        server: ServerId,
        context: &Context,
        rejection: &Rejection,
    ) {
        let outcome = (rejection.status, rejection.reason);
        self.report_final(now, context, outcome, Final::Failed(EndedBy::Proxy));
        self.refuse(now, server, &context.request, rejection);
    }

    /// Goes on with a branch when the addresses of its next hop are known, or the bindings of the user
    /// whom it is for: they take its place.
    pub(super) fn complete_resolution(
        &mut self,
        now: Instant,
        (server, index): BranchName,
        answer: Answer,
    ) {
        let Some(mut context) = self.contexts.remove(&server) else {
            return;
        };
        match answer {
            Answer::Bindings(bindings) => {
                let targets = self.targets(now, &context.request, &bindings);
                let mut groups = targets.into_groups();
                for group in &mut groups {
                    group.retain(|target| !context.knows_target(&target.uri));
                }
                let ForwardingPolicy {
                    forking,
                    maximum_targets,
                    ..
                } = self.policy.forwarding;
                let room = maximum_targets.saturating_sub(context.known_targets());
                let groups = arranged(groups, forking, room);
                let nobody = groups.is_empty().then_some(Candidate::Presumed(480));
                self.end_branch((server, index), &mut context, nobody);
                context.targets.insert(groups);
            }
            Answer::Unknown => {
                let nobody = Some(Candidate::Presumed(404));
                self.end_branch((server, index), &mut context, nobody);
            }
            answer => {
                if let Some(branch) = context.branches.get_mut(index) {
                    add_next_hops(&mut branch.target, answer);
                    branch.state = BranchState::Ready;
                }
            }
        }
        self.drive(now, server, context);
    }

    /// Timer C, the end of the time that a CANCEL may take to have its effect (RFC 3261 sections 9.1
    /// and 16.8), or of that which a hop has for any response while others wait. Where none has come, Timer
    /// B or F ends the branch, before Timer C would.
    pub(super) fn handle_branch_timeout(&mut self, now: Instant, (server, index): BranchName) {
        let Some(mut context) = self.contexts.remove(&server) else {
            return;
        };
        if let Some(branch) = context.forwarded_mut(index) {
            branch.deadline = None;
            let name = (server, index);
            if branch.cancel == Cancel::Sent {
                self.transactions.abandon(now, branch.client);
                self.fail_branch(now, name, &mut context, Candidate::Presumed(408));
            } else if branch.is_proceeding {
                self.cancel_branch(now, name, &mut context);
            } else if context.may_go_on(now) && context.pass_over(index) {
                self.statistics.failovers += 1;
                if let Some((member, forwarded)) = context.hop(index) {
                    self.note_outcome(now, member, forwarded, HopOutcome::Silent);
                }
            } else if context.is_invite()
                && let Some(branch) = context.forwarded_mut(index)
            {
                self.arm(name, branch, Some(now + self.timer_c));
            }
        }
        self.drive(now, server, context);
    }

    /// Cancels all branches that have no final response (RFC 3261 section 16.7 step 10).
    pub(super) fn cancel_branches(
        &mut self,
        now: Instant,
        server: ServerId,
        context: &mut Context,
    ) {
        for index in 0..context.branches.len() {
            self.cancel_branch(now, (server, index), context);
        }
    }

    /// Takes a branch out of service, with the response that it has brought, if it has.
    pub(super) fn end_branch(
        &mut self,
        (server, index): BranchName,
        context: &mut Context,
        candidate: Option<Candidate>,
    ) {
        let Some(branch) = context.branches.get_mut(index) else {
            return;
        };
        let is_answered = candidate
            .as_ref()
            .is_none_or(|candidate| !candidate.is_of_flow());
        match mem::replace(&mut branch.state, BranchState::Ended { is_answered }) {
            BranchState::Forwarded(mut forwarded) => {
                self.clients.remove(forwarded.client);
                self.arm((server, index), &mut forwarded, None);
            }
            BranchState::Resolving(id) => {
                self.questions.take(id);
            }
            BranchState::Ready | BranchState::Ended { .. } => {}
        }
        if let Some(candidate) = candidate {
            context.finals.add(candidate);
        }
    }

    /// Sets the time at which a branch is looked at again.
    pub(super) fn arm(
        &mut self,
        name: BranchName,
        forwarded: &mut Forwarded,
        deadline: Option<Instant>,
    ) {
        if let Some(old) = mem::replace(&mut forwarded.deadline, deadline) {
            self.timers.remove(&(old, name));
        }
        if let Some(new) = deadline {
            self.timers.insert((new, name));
        }
    }

    /// What a way means for a request. `None`: it leads nowhere, or a SIPS URI to where there is no
    /// TLS (RFC 3261 section 26.2.2, RFC 5630 section 5.3).
    pub(super) fn resolve(
        &self,
        request: &Message,
        target: &Target,
        way: &Way,
    ) -> Option<Resolved> {
        let transport = match way {
            Way::Flow { flow, .. } => Some(flow.transport),
            Way::Address { transport, .. } | Way::Host { transport, .. } => Some(*transport),
            Way::Datagram { .. } => Some(Transport::Udp),
            Way::NextHop { .. } | Way::Toward(_) | Way::User(_) => None,
        };
        let is_secure = is_sips(&target.uri);
        if is_secure && transport.is_some_and(|transport| !transport.is_secure()) {
            return None;
        }
        match way {
            Way::Flow {
                flow,
                address,
                peer,
                is_needed,
            } => {
                let source = self.source(flow.transport, flow.remote.ip(), Some(flow.local))?;
                let to = match address {
                    Some(address) => sip::Target::FlowOrAddress(*flow, *address),
                    None => sip::Target::Flow(*flow),
                };
                let side = Side {
                    transport: flow.transport,
                    source,
                    flow: is_needed.then_some(*flow),
                };
                Some(Resolved::Send {
                    to,
                    peer: peer.clone(),
                    side,
                })
            }
            Way::Address {
                transport,
                remote,
                local,
                peer,
            } => {
                let source = match self.identity.source(*transport, remote.ip(), None)? {
                    Source::Known(source) => source,
                    Source::Ask(_) => Arc::new(Origin::from(*local)),
                };
                Some(send_to(*transport, *remote, peer.clone(), source))
            }
            Way::User(address) => Some(Resolved::Ask(Query::Lookup(address.clone()))),
            Way::NextHop { address } => {
                if let Some((transport, remote)) = *address
                    && remote.port() != 0
                    && !route::has_route(request, target)
                    && let Source::Known(source) =
                        self.identity.source(transport, remote.ip(), None)?
                {
                    return Some(send_to(transport, remote, None, source));
                }
                let next_hop = route::next_hop(request, target)?;
                self.resolve_uri(request, &(*next_hop.as_sip()?).into(), is_secure)
            }
            Way::Host { transport, peer } => self.resolve_host(*transport, peer),
            Way::Toward(hop) => match Uri::parse(&hop.uri) {
                Ok(Uri::Sip(uri)) => {
                    let uri = uri.into();
                    match hop.several_addresses(&uri, is_secure) {
                        Some((transport, peer)) => self.resolve_host(transport, &peer),
                        None => self.resolve_uri(request, &uri, is_secure),
                    }
                }
                _ => None,
            },
            Way::Datagram {
                remote,
                source,
                peer,
            } => Some(send_to(
                Transport::Udp,
                *remote,
                peer.clone(),
                source.clone(),
            )),
        }
    }

    /// Where the URI that decides about the next hop leads (RFC 3261 section 16.6 step 7).
    fn resolve_uri(
        &self,
        request: &Message,
        uri: &ReadUri<'_>,
        is_secure: bool,
    ) -> Option<Resolved> {
        if uri.port() == Some(0) {
            return None;
        }
        if let Some((transport, remote)) = uri::address(uri, is_secure)
            && let Source::Known(source) = self.identity.source(transport, remote.ip(), None)?
        {
            return Some(send_to(transport, remote, None, source));
        }
        let destination = uri::destination(uri, is_secure)?;
        Some(Resolved::Ask(Query::Resolve(Destination {
            // Our Via and Record-Route will make it larger.
            is_large: request.wire_length() > self.maximum_datagram,
            choice: self.choice(request),
            ..destination
        })))
    }

    /// Where a host of several addresses is reached.
    fn resolve_host(&self, transport: Transport, peer: &Arc<Peer>) -> Option<Resolved> {
        let source = |remote: &SocketAddr| {
            let source = self.identity.source(transport, remote.ip(), None)?;
            Some((*remote, source))
        };
        let (remote, source) = peer.addresses.iter().find_map(source)?;
        let all = peer.addresses.iter().map(SocketAddr::ip);
        Some(match source {
            Source::Known(source) => send_to(transport, remote, Some(Arc::clone(peer)), source),
            Source::Ask(_) => Resolved::Ask(Query::Resolve(Destination {
                host: remote.ip().to_string(),
                port: Some(remote.port()),
                transport: Some(transport),
                is_secure: transport.is_secure(),
                is_large: false,
                choice: None,
                addresses: all.filter(|ip| *ip != remote.ip()).collect(),
            })),
        })
    }

    /// Our address toward a neighbour, where it needs no asking.
    fn source(
        &self,
        transport: Transport,
        remote: IpAddr,
        local: Option<SocketAddr>,
    ) -> Option<Arc<Origin>> {
        match self.identity.source(transport, remote, local)? {
            Source::Known(source) => Some(source),
            Source::Ask(_) => None,
        }
    }

    /// Our side toward the far end of a flow, which can be reached only along it.
    pub(super) fn side_toward(&self, flow: &Flow) -> Option<Side> {
        let source = self.source(flow.transport, flow.remote.ip(), Some(flow.local))?;
        Some(Side {
            transport: flow.transport,
            source,
            flow: Some(*flow),
        })
    }

    /// Our side toward where a request came from.
    pub(super) fn arrival_side(&self, request: &Message, arrival: &Flow) -> Option<Side> {
        let source = self.source(arrival.transport, arrival.remote.ip(), Some(arrival.local))?;
        Some(Side {
            transport: arrival.transport,
            source,
            flow: needed_flow(request, arrival),
        })
    }

    /// The mark for the UAS of a request that came from this side.
    pub(super) fn mark_of_uas(&self, request: &Message, from: &Side, is_within: bool) -> MarkText {
        let along = from
            .flow
            .as_ref()
            .map_or(dialog_mark::NextHop::RequestUri, |flow| {
                let mut token = String::new();
                self.tokens.push_to(&mut token, flow);
                self.dialogs.marks.along_flow(token.as_bytes())
            });
        let identity = &self.identity;
        self.dialogs
            .mark_of_uas(request, along, identity, is_within)
    }

    fn try_ready_branches(&mut self, now: Instant, server: ServerId, context: &mut Context) {
        for index in 0..context.branches.len() {
            while context.is_ready(index) {
                if context.may_go_on(now) {
                    self.try_next_way(now, (server, index), context);
                } else {
                    self.end_branch((server, index), context, None);
                }
            }
        }
    }

    /// Tries the next way to a branch's target; the branch ends where there is none.
    fn try_next_way(&mut self, now: Instant, name: BranchName, context: &mut Context) {
        let Some(branch) = context.branches.get_mut(name.1) else {
            return;
        };
        let Some(way) = branch.target.next_way() else {
            if branch.target.fall_back() {
                return;
            }
            self.end_branch(name, context, Some(Candidate::Presumed(503)));
            return;
        };
        match self.resolve(&context.request, &branch.target, &way) {
            Some(Resolved::Send { to, peer, side }) => {
                let is_last_resort = matches!(way, Way::Datagram { .. });
                self.statistics.fell_back_to_datagram += u64::from(is_last_resort);
                let hop = Hop {
                    to,
                    peer,
                    side,
                    is_last_resort,
                };
                self.forward(now, name, context, hop);
            }
            Some(Resolved::Ask(query)) => match self.ask(now, query, Waiting::Resolve(name)) {
                Ok(id) => branch.state = BranchState::Resolving(id),
                Err(_) => {
                    context.is_overloaded = true;
                    self.end_branch(name, context, Some(Candidate::Presumed(503)));
                }
            },
            // The next one, if there is one.
            None => {}
        }
    }

    /// Forwards the request (RFC 3261 section 16.6 steps 8 to 11).
    fn forward(&mut self, now: Instant, name: BranchName, context: &mut Context, hop: Hop) {
        let is_routed = context.request.method().is_some_and(is_record_routed);
        let from = match is_routed {
            true => self.arrival_side(&context.request, &context.arrival),
            false => None,
        };
        let from = from.as_ref().map(|from| {
            let mark = self.mark_of_uas(&context.request, from, context.is_in_dialog);
            (from, mark)
        });
        let is_invite = context.is_invite();
        let held = context.octets();
        let free = context.free_breadth();
        let rings_until = match self.policy.forwarding.ring_time {
            Some(time) if !context.targets.is_empty() => Some(now + time),
            _ => None,
        };
        let Some(branch) = context.branches.get_mut(name.1) else {
            return;
        };
        let hurry = self
            .response_timeout(branch.target.member.as_ref())
            .filter(|_| !branch.target.ways.is_empty() && branch.max_breadth + free > 1);
        // What is tried while it is silent needs some, too.
        let max_breadth = match hurry {
            Some(_) => larger_half(branch.max_breadth),
            None => branch.max_breadth,
        };
        let Drafts {
            mut lines,
            branch: mut id,
            back,
        } = mem::take(&mut self.drafts);
        id.clear();
        self.transactions.push_new_branch(&mut id);
        context.fingerprint.append_to(&mut id);
        let mut make = |side: &Side| {
            let how = Forwarding {
                request_uri: &branch.target.uri,
                path: &branch.target.path,
                branch: &id,
                offers_alias: self.identity.offers_alias(side.transport),
                back: None,
                record_route: from,
                to: side,
                max_breadth: Some(max_breadth),
            };
            forward::copy(&context.request, &how, &self.tokens, &mut lines)
        };
        let mut copy = make(&hop.side);
        let mut to = hop.to;
        let stream = match hop.is_last_resort {
            true => None,
            false => self.stream_instead(copy.wire_length(), &to, &hop.side),
        };
        if let (sip::Target::Address(_, remote), Some((stream, side))) = (to, stream) {
            copy = make(&side);
            to = stream;
            self.statistics.switched_to_stream += 1;
            branch.target.ways.push_front(Way::Datagram {
                remote,
                source: hop.side.source,
                peer: hop.peer.clone(),
            });
        }
        let peer = hop.peer;
        if let Copy::Message(message) = &mut copy {
            self.withhold_identity(message, &to, peer.as_deref());
        }
        let octets = copy.wire_length();
        let sent = match context.request.method() {
            Some(method) if self.has_room(held + octets) => {
                let written = WrittenRequest {
                    method,
                    branch: &id,
                    call_id: context
                        .request
                        .header_bytes(Name::CallId)
                        .unwrap_or_default(),
                    octets: copy.into_octets(),
                };
                let transactions = &mut self.transactions;
                Some(transactions.send_written(now, written, to, peer.clone()))
            }
            _ => None,
        };
        self.drafts = Drafts {
            lines,
            branch: id,
            back,
        };
        match sent {
            Some(Ok(client)) => {
                self.statistics.forwarded += 1;
                self.clients.insert(client, name);
                // Of what is sent once its transaction keeps nothing.
                let is_kept = is_invite || !to.transport().is_reliable();
                let mut forwarded = Forwarded {
                    client,
                    octets: if is_kept { octets } else { 0 },
                    max_breadth,
                    sent_to: to,
                    peer,
                    is_proceeding: false,
                    is_hurried: false,
                    is_refused: false,
                    is_passed_over: false,
                    is_settled: false,
                    cancel: Cancel::No,
                    rings_until,
                    deadline: None,
                };
                if let Some(timeout) = hurry {
                    forwarded.is_hurried = true;
                    self.arm(name, &mut forwarded, Some(now + timeout));
                } else if is_invite {
                    let deadline = forwarded.deadline_from(now + self.timer_c);
                    self.arm(name, &mut forwarded, Some(deadline));
                }
                branch.state = BranchState::Forwarded(forwarded);
            }
            Some(Err(_)) | None => {
                context.is_overloaded = true;
                self.end_branch(name, context, Some(Candidate::Presumed(503)));
            }
        }
    }

    /// Where a request of so many octets goes that is too large for UDP: over TCP to the same address and port (RFC 3261
    /// section 18.1.1). `None` where it is not, or we have no TCP.
    pub(super) fn stream_instead(
        &self,
        octets: usize,
        to: &sip::Target,
        side: &Side,
    ) -> Option<(sip::Target, Side)> {
        let remote = match to {
            sip::Target::Address(Transport::Udp, remote) => *remote,
            _ => return None,
        };
        if octets <= self.maximum_datagram {
            return None;
        }
        let source = match self.identity.source(Transport::Tcp, remote.ip(), None)? {
            Source::Known(source) => source,
            Source::Ask(port) => Arc::new(side.source.with_port(port)),
        };
        let side = Side {
            transport: Transport::Tcp,
            source,
            flow: None,
        };
        Some((sip::Target::Address(Transport::Tcp, remote), side))
    }

    /// Cancels one branch: at once if a provisional response has come, else as soon as one does (RFC
    /// 3261 section 9.1). One that has not been sent ends. Requests other than INVITE are not cancelled,
    /// but what they bring is not waited for when another one has been answered.
    pub(super) fn cancel_branch(&mut self, now: Instant, name: BranchName, context: &mut Context) {
        let is_invite = context.is_invite();
        if context.is_unsent(name.1) || !is_invite && context.is_answered {
            self.end_branch(name, context, None);
            return;
        }
        let Some(forwarded) = context.forwarded_mut(name.1).filter(|_| is_invite) else {
            return;
        };
        if forwarded.cancel == Cancel::Sent {
            return;
        }
        forwarded.cancel = Cancel::Wanted;
        if !forwarded.is_proceeding {
            return;
        }
        forwarded.cancel = Cancel::Sent;
        if let Some(invite) = self.transactions.sent_request(forwarded.client) {
            // Without room for its transaction the branch ends by the deadline below.
            let _ = self.transactions.send_request_to(
                now,
                cancel_of(&invite),
                forwarded.sent_to,
                forwarded.peer.clone(),
            );
        }
        let deadline = now + self.transaction_config.t1 * 64;
        self.arm(name, forwarded, Some(deadline));
    }
}

/// Puts the addresses of a next hop before the other ways to a target.
pub(super) fn add_next_hops(target: &mut Target, answer: Answer) {
    let Answer::NextHops(hops) = answer else {
        return;
    };
    for hop in hops.into_iter().take(MAXIMUM_NEXT_HOPS).rev() {
        let NextHop {
            transport,
            remote,
            local,
            peer,
        } = hop;
        target.ways.push_front(Way::Address {
            transport,
            remote,
            local,
            peer,
        });
    }
}

fn send_to(
    transport: Transport,
    remote: SocketAddr,
    peer: Option<Arc<Peer>>,
    source: Arc<Origin>,
) -> Resolved {
    Resolved::Send {
        to: sip::Target::Address(transport, remote),
        peer,
        side: Side {
            transport,
            source,
            flow: None,
        },
    }
}
