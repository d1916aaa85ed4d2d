//! The forwarder: requests on their way to their targets, and the responses on their way back (RFC 3261 section 16).
//!
//! - `classify` takes off what has led a request here and says where it is for; `requests` finds its targets;
//! - `branches` forwards it to one target after the other: the `response_context` knows what has been tried, its
//!   `target_set` what has not, `next_hop` the way to a target; `response_contexts` keeps those that wait;
//! - `responses` is what comes back, `best_response` chooses, `recursion` follows a 3xx;
//! - `late_targets` looks for those who register while a phone rings;
//! - `groups` probes groups of servers and remembers which of them answer;
//! - `stateless` forwards without a transaction (section 16.11).

pub(crate) mod best_response;
mod branch_names;
mod branches;
mod classify;
mod groups;
mod late_targets;
mod next_hop;
mod recursion;
mod redirect;
mod requests;
pub(crate) mod response_context;
mod response_contexts;
mod responses;
mod stateless;
mod target_set;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rand_chacha::ChaCha12Rng;
use sip::transaction::{ClientId, ServerId};
use sip::{ConnectionId, Flow};

use super::branch_name::BranchName;
use super::common::{CommonState, hash_keys};
use super::dialogs::Dialogs;
use super::flow_token::{FORMER_CONNECTION, FlowTokens};
use super::identity::Identity;
use super::keys::Keys;
use super::loop_detection::LoopDetector;
use super::policy::Policy;
use super::route;
use super::route_cache::RouteCache;
use branch_names::BranchNames;
use groups::Groups;
use late_targets::Watches;
use response_contexts::ResponseContexts;

pub(crate) use recursion::Recursion;
pub(crate) use responses::ask_dialog_end;

/// Requests that are being forwarded, and what is known of dialogs and next hops.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) loops: LoopDetector,
    pub(crate) dialogs: Dialogs,
    route_cache: RouteCache,
    pub(crate) groups: Groups,
    contexts: ResponseContexts,
    /// Which branch a transaction of ours belongs to. It outlives the context where further 2xx
    /// responses can come (RFC 6026).
    clients: BranchNames,
    /// The way back for 2xx responses to an INVITE that has got another final response before, of which the server
    /// transaction takes none (RFC 6026 section 7.1). They come for as long as the entry in `clients` is there.
    late_answers: BTreeMap<ClientId, Flow>,
    /// Timer C of each branch, or the end of waiting for what a CANCEL brings.
    timers: BTreeSet<(Instant, BranchName)>,
    watches: Watches,
    /// Connections that are known to be gone. A REGISTER may have come over them to another worker.
    closed: BTreeSet<ConnectionId>,
}

/// How many connections that are gone are remembered. What is sent along one that was forgotten comes
/// back as a failure.
const MAXIMUM_CLOSED: usize = 1 << 18;

impl Forwarder {
    pub(crate) fn new(policy: &Policy, keys: &Keys, rng: &mut ChaCha12Rng) -> Forwarder {
        Forwarder {
            loops: LoopDetector::new(rng),
            dialogs: Dialogs::new(keys),
            route_cache: RouteCache::default(),
            groups: Groups::new(policy, rand::SeedableRng::from_rng(rng)),
            contexts: ResponseContexts::new(hash_keys(rng)),
            clients: BranchNames::default(),
            late_answers: BTreeMap::new(),
            timers: BTreeSet::new(),
            watches: Watches::default(),
            // The highest number of all: it is never forgotten.
            closed: BTreeSet::from([FORMER_CONNECTION]),
        }
    }

    /// Exchanges the settings.
    pub(crate) fn set_policy(&mut self, now: Instant, policy: &Policy) {
        self.groups.set_policy(now, policy);
    }

    /// How many response contexts there are.
    pub(crate) fn contexts(&self) -> usize {
        self.contexts.len()
    }

    /// How many branches have a transaction.
    pub(crate) fn branches(&self) -> usize {
        self.clients.len()
    }

    /// What tells Routes of ours from those of others.
    pub(crate) fn own_routes<'a>(
        &'a self,
        identity: &'a Identity,
        tokens: &'a FlowTokens,
    ) -> route::OwnRoutes<'a> {
        route::OwnRoutes {
            identity,
            tokens,
            known: &self.route_cache,
            marks: &self.dialogs.marks,
        }
    }

    /// Takes notice that a transaction has ended.
    pub(crate) fn handle_terminated(&mut self, client: ClientId) {
        self.clients.remove(client);
        self.late_answers.remove(&client);
        self.dialogs.forget_transaction(client);
    }

    /// Takes notice that the connection for the message of a transaction was refused.
    pub(crate) fn handle_connection_refused(&mut self, client: ClientId) {
        if let Some((server, index)) = self.clients.get(client)
            && let Some(context) = self.contexts.get_mut(&server)
            && let Some(forwarded) = context.forwarded_mut(index)
        {
            forwarded.is_refused = true;
        }
    }

    /// Takes notice that a connection is gone: requests do not go along it any more.
    pub(crate) fn handle_connection_closed(&mut self, connection: ConnectionId) {
        self.closed.insert(connection);
        if self.closed.len() > MAXIMUM_CLOSED {
            self.closed.pop_first();
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, common: &mut CommonState, now: Instant) {
        while let Some(&(due, branch)) = self.timers.first() {
            if due > now {
                break;
            }
            self.timers.remove(&(due, branch));
            self.handle_branch_timeout(common, now, branch);
        }
        self.look_again(common, now);
        self.handle_probe_timeouts(common, now);
    }

    /// When [`handle_timeout`](Forwarder::handle_timeout) is due next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        [
            self.timers.first().map(|(due, _)| *due),
            self.watches.next_timeout(),
            self.groups.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes notice that a transaction of ours has brought no response: it counts as answered with this status.
    pub(crate) fn handle_unanswered(
        &mut self,
        common: &mut CommonState,
        now: Instant,
        client: ClientId,
        status: u16,
    ) {
        if !self.handle_probe_failure(common, now, client) {
            self.handle_no_response(common, now, client, status);
        }
    }

    /// Ends a request that its client has cancelled (RFC 3261 section 16.10).
    pub(crate) fn cancel(&mut self, common: &mut CommonState, now: Instant, cancelled: ServerId) {
        let Some(mut context) = self.contexts.remove(&mut common.held, &cancelled) else {
            return;
        };
        if context.is_invite() {
            context.is_cancelled = true;
            if let Some(lookup) = context.lookup.take() {
                common.take_pending(lookup);
            }
            self.cancel_branches(common, now, cancelled, &mut context);
        }
        self.drive(common, now, cancelled, context);
    }
}

#[cfg(test)]
mod tests {
    use sip::Method;
    use sip::transaction::TransactionEvent;

    use super::*;
    use crate::core::common::testing::{flow, request};
    use crate::core::incoming::Addressee;
    use crate::core::target::Target;

    fn parts() -> (CommonState, Forwarder) {
        let (common, keys, mut rng) = CommonState::for_tests(|_| {});
        let forwarder = Forwarder::new(&common.policy, &keys, &mut rng);
        (common, forwarder)
    }

    /// Has an INVITE forwarded. Returns its server transaction.
    fn forward(common: &mut CommonState, forwarder: &mut Forwarder, now: Instant) -> ServerId {
        let target = Target::as_requested("sip:bob@192.0.2.7", None);
        let invite = request(Method::Invite, "sip:bob@192.0.2.7");
        let incoming = common.begin_request(now, invite, Addressee::Requested(target));
        let server = incoming.server;
        forwarder.handle_request(common, now, incoming);
        server
    }

    #[test]
    fn a_response_goes_back_and_nothing_is_left() {
        let now = Instant::now();
        let (mut common, mut forwarder) = parts();
        forward(&mut common, &mut forwarder, now);
        let sent = common.sent();
        assert_eq!(sent[0].status(), Some(100));
        assert_eq!(sent[1].method(), Some(&Method::Invite));
        assert_eq!((forwarder.contexts(), forwarder.branches()), (1, 1));
        let busy = sip::Message::response_to(&sent[1], 486, "Busy Here");
        let from = flow();
        common.transactions.handle_message(now, from, busy);
        while let Some(event) = common.transactions.poll_event() {
            if let TransactionEvent::Response {
                transaction,
                flow,
                response,
            } = event
            {
                forwarder.handle_response(&mut common, now, transaction, &flow, response);
            }
        }
        let statuses: Vec<_> = common
            .sent()
            .iter()
            .filter_map(sip::Message::status)
            .collect();
        assert_eq!(statuses, [486]);
        assert_eq!((forwarder.contexts(), forwarder.branches()), (0, 0));
        assert_eq!((common.held.octets(), forwarder.next_timeout()), (0, None));
    }

    #[test]
    fn a_target_without_a_response_is_cancelled_when_timer_c_fires() {
        let now = Instant::now();
        let (mut common, mut forwarder) = parts();
        let server = forward(&mut common, &mut forwarder, now);
        common.sent();
        let timer_c = now + common.timings.timer_c;
        assert_eq!(forwarder.next_timeout(), Some(timer_c));
        forwarder.cancel(&mut common, now, server);
        // As soon as it says that it is there.
        assert!(common.sent().is_empty());
        forwarder.handle_timeout(&mut common, timer_c);
        assert_eq!(forwarder.contexts(), 1);
    }
}
