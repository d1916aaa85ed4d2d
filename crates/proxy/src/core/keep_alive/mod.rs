//! Keep-alives from us to user agents behind NATs: over UDP a NAT forgets within half a minute who it
//! lets in (RFC 5626 section 4.4.2), and most phones do not send keep-alives themselves.
//!
//! Only flows over UDP are kept open: a connection needs no keep-alives of ours, and ends with the process.

mod kept_flows;
pub(crate) mod policy;
mod store_walk;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sip::{Flow, Message, Method, Name, Transport, Uri};

use super::binding::{AddressOfRecord, Binding};
use super::keys::Keys;
use super::query::{Answer, Query, QueryId};
use super::target::is_at_contact;
use kept_flows::{Ends, KeptFlows};
use policy::{KeepAliveMethod, KeepAlivePolicy};
use store_walk::StoreWalk;

/// The keep-alives of one core.
#[derive(Debug)]
pub(crate) struct KeepAlives {
    policy: KeepAlivePolicy,
    flows: KeptFlows,
    walk: StoreWalk,
    /// Nothing more is sent until then: a burst has been.
    rests_until: Option<Instant>,
    actions: VecDeque<KeepAliveAction>,
    /// How many were sent.
    pub(crate) sent: u64,
    /// How many flows are not kept open because there are too many.
    pub(crate) refused: u64,
}

/// What keep-alives want done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeepAliveAction {
    /// To send a keep-alive along a flow.
    Send(Flow, KeepAliveMethod),
    /// To ask the location store. The answer goes to [`KeepAlives::handle_page`].
    Ask(Query),
    /// To withdraw a query.
    Withdraw(QueryId),
}

/// How many keep-alives are sent at a time.
const BURST: usize = 64;

/// How long nothing is sent after so many.
const REST: Duration = Duration::from_millis(10);

/// The keep-alive of [`KeepAliveMethod::LineEnds`].
pub(crate) const LINE_ENDS: &[u8] = b"\r\n\r\n";

impl KeepAlives {
    pub(crate) fn new(keys: &Keys, policy: &KeepAlivePolicy) -> KeepAlives {
        KeepAlives {
            policy: policy.clone(),
            flows: KeptFlows::default(),
            walk: StoreWalk::new(keys),
            rests_until: None,
            actions: VecDeque::new(),
            sent: 0,
            refused: 0,
        }
    }

    /// Exchanges the settings.
    pub(crate) fn set_policy(&mut self, now: Instant, policy: &KeepAlivePolicy) {
        let had_method = self.policy.method.is_some();
        self.policy = policy.clone();
        match policy.method {
            // Who registers meanwhile is not noted.
            None => {
                let asked = self.walk.stop();
                self.withdraw(asked);
                self.flows = KeptFlows::default();
                self.rests_until = None;
            }
            Some(_) if !had_method => self.start_walk(now),
            Some(_) => {}
        }
    }

    /// Begins with the user agents whose bindings are in the store already. Of so many `workers` with one store each has
    /// a `number`, and sees to its share of the flows.
    pub(crate) fn start(&mut self, now: Instant, number: usize, workers: usize) {
        self.walk.set_share(number, workers);
        if self.policy.method.is_some() {
            self.start_walk(now);
        }
    }

    /// Keeps the flow of a REGISTER open, if one of the bindings came along it and is behind a NAT: if its
    /// Contact is another address than that which we see. Flows that the user's bindings have left are
    /// given up.
    pub(crate) fn handle_registered(
        &mut self,
        now: Instant,
        flow: &Flow,
        user: &AddressOfRecord,
        bindings: &[Binding],
    ) {
        if self.policy.method.is_none() {
            return;
        }
        let until = |ends: Ends| bound_until(bindings, ends).filter(|until| *until > now);
        self.flows.give_up(user, |ends| until(ends).is_some());
        if flow.transport == Transport::Udp
            && let Some(until) = until((flow.local, flow.remote))
        {
            self.keep(now + self.policy.interval, (user, *flow), until);
        }
    }

    /// Takes a page of the store, or the failure to read it.
    pub(crate) fn handle_page(&mut self, now: Instant, answer: Answer) {
        let page = match answer {
            Answer::Page(page) => Some(page),
            _ => None,
        };
        let Some(page) = self.walk.take(now, page) else {
            return;
        };
        for (user, bindings) in &page.users {
            self.keep_stored(now, user, bindings);
        }
    }

    /// Takes notice of the id of a query that was to be made.
    pub(crate) fn note_asked(&mut self, id: QueryId) {
        self.walk.note_asked(id);
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(query) = self.walk.ask(now) {
            self.actions.push_back(KeepAliveAction::Ask(query));
        }
        let Some(method) = self.policy.method else {
            return;
        };
        if self.rests_until.is_some_and(|rest| rest > now) {
            return;
        }
        for _ in 0..BURST {
            let Some(flow) = self.flows.next(now, self.policy.interval) else {
                self.rests_until = None;
                return;
            };
            self.sent += 1;
            self.actions.push_back(KeepAliveAction::Send(flow, method));
        }
        self.rests_until = Some(now + REST);
    }

    /// The next thing to do.
    pub(crate) fn poll(&mut self) -> Option<KeepAliveAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](KeepAlives::handle_timeout) is due next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let due = self.flows.next_timeout();
        let due = due.map(|due| self.rests_until.map_or(due, |rest| rest.max(due)));
        [due, self.walk.next_timeout()].into_iter().flatten().min()
    }

    /// How many flows are kept open.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Keeps the flows of a user's bindings open that are behind NATs and of our share. The first keep-alive is due at
    /// once: it is not known when something has gone along them last.
    fn keep_stored(&mut self, now: Instant, user: &AddressOfRecord, bindings: &[Binding]) {
        for binding in bindings.iter().filter(|binding| binding.expires() > now) {
            let Some(flow) = binding.flow() else {
                continue;
            };
            let ends = (flow.local, flow.remote);
            if flow.transport == Transport::Udp
                && is_behind_nat(binding)
                && self.walk.is_ours(flow.local, flow.remote)
                // What a REGISTER has said since is newer than what is read here.
                && !self.flows.is_kept_for(user, ends)
            {
                // Of several bindings along one flow the last to end counts.
                let until = bound_until(bindings, ends).unwrap_or(binding.expires());
                self.keep(now, (user, flow), until);
            }
        }
    }

    fn start_walk(&mut self, now: Instant) {
        let asked = self.walk.start(now);
        self.withdraw(asked);
    }

    fn withdraw(&mut self, asked: Option<QueryId>) {
        self.actions.extend(asked.map(KeepAliveAction::Withdraw));
    }

    fn keep(&mut self, due: Instant, user: (&AddressOfRecord, Flow), until: Instant) {
        let is_kept = self.flows.keep(&self.policy, due, user, until);
        self.refused += u64::from(!is_kept);
    }
}

/// The OPTIONS of [`KeepAliveMethod::Options`], from our address as the user agent sees it. Its response is of no interest:
/// that it goes out is enough.
pub(crate) fn options(remote: SocketAddr, source: &str, branch: &str) -> Message {
    let uri = format!("sip:{remote}");
    Message::request(Method::Options, &uri)
        .with(
            Name::Via,
            format!("SIP/2.0/UDP {source};branch={branch};rport"),
        )
        .with(Name::MaxForwards, "1")
        .with(Name::From, format!("<sip:{source}>;tag={branch}"))
        .with(Name::To, format!("<{uri}>"))
        .with(Name::CallId, branch)
        .with(Name::CSeq, "1 OPTIONS")
}

/// When the last binding ends that came along a flow over UDP and is behind a NAT.
fn bound_until(bindings: &[Binding], ends: Ends) -> Option<Instant> {
    let has_ends = |binding: &Binding| {
        binding.flow().is_some_and(|flow| {
            flow.transport == Transport::Udp && (flow.local, flow.remote) == ends
        })
    };
    let along = bindings.iter().filter(|binding| has_ends(binding));
    let behind = along.filter(|binding| is_behind_nat(binding));
    behind.map(Binding::expires).max()
}

/// Whether the Contact of a binding is another address than that which its REGISTER came from.
fn is_behind_nat(binding: &Binding) -> bool {
    binding.flow().is_some_and(|flow| {
        matches!(Uri::parse(binding.contact()), Ok(Uri::Sip(uri)) if !is_at_contact(&flow, &uri.into()))
    })
}

#[cfg(test)]
mod tests {
    use sip::ConnectionId;

    use super::*;
    use crate::core::binding::BindingParts;
    use crate::core::query::Page;

    fn flow(port: u16) -> Flow {
        Flow {
            transport: Transport::Udp,
            local: SocketAddr::from(([192, 0, 2, 1], 5060)),
            remote: SocketAddr::from(([198, 51, 100, 7], port)),
            connection: ConnectionId(0),
            stream: 0,
        }
    }

    fn user(name: &str) -> AddressOfRecord {
        AddressOfRecord::from_stored(&format!("{name}@example.com")).expect("an address of record")
    }

    /// A binding that came along a flow; its Contact is a private address.
    fn binding(now: Instant, port: u16) -> Binding {
        Binding::new(&BindingParts {
            contact: "sip:bob@10.0.0.1:5060",
            parameters: "",
            q: 1000,
            expires: now + Duration::from_secs(60),
            lifetime: Duration::from_secs(60),
            call_id: "1",
            cseq: 1,
            reg_id: None,
            gruus: 0,
            flow: Some(flow(port)),
            path: "",
            user_agent: "",
        })
    }

    fn keep_alives(method: Option<KeepAliveMethod>) -> KeepAlives {
        let policy = KeepAlivePolicy {
            method,
            maximum_flows: 100,
            ..KeepAlivePolicy::default()
        };
        KeepAlives::new(&Keys::from_bytes([1; 32]), &policy)
    }

    fn actions(keep_alives: &mut KeepAlives, now: Instant) -> Vec<KeepAliveAction> {
        keep_alives.handle_timeout(now);
        std::iter::from_fn(|| keep_alives.poll()).collect()
    }

    #[test]
    fn a_flow_is_kept_open_until_its_user_leaves_it() {
        let mut now = Instant::now();
        let method = KeepAliveMethod::LineEnds;
        let mut keep_alives = keep_alives(Some(method));
        keep_alives.handle_registered(now, &flow(1), &user("bob"), &[binding(now, 1)]);
        assert_eq!(actions(&mut keep_alives, now), []);
        now = keep_alives.next_timeout().expect("a keep-alive is due");
        let sent = [KeepAliveAction::Send(flow(1), method)];
        assert_eq!(actions(&mut keep_alives, now), sent);
        keep_alives.handle_registered(now, &flow(2), &user("bob"), &[binding(now, 2)]);
        assert_eq!(keep_alives.len(), 1);
        now += Duration::from_secs(25);
        let sent = [KeepAliveAction::Send(flow(2), method)];
        assert_eq!(actions(&mut keep_alives, now), sent);
        // Nobody has refreshed the binding.
        now += Duration::from_secs(60);
        assert_eq!(actions(&mut keep_alives, now), []);
        assert_eq!((keep_alives.len(), keep_alives.next_timeout()), (0, None));
    }

    #[test]
    fn many_are_sent_in_bursts_and_too_many_flows_are_refused() {
        let mut now = Instant::now();
        let mut keep_alives = keep_alives(Some(KeepAliveMethod::Options));
        for port in 1..=110 {
            let name = format!("user{port}");
            keep_alives.handle_registered(now, &flow(port), &user(&name), &[binding(now, port)]);
        }
        assert_eq!((keep_alives.len(), keep_alives.refused), (100, 10));
        now += Duration::from_secs(25);
        assert_eq!(actions(&mut keep_alives, now).len(), BURST);
        assert_eq!(actions(&mut keep_alives, now), []);
        assert_eq!(keep_alives.next_timeout(), Some(now + REST));
        assert_eq!(actions(&mut keep_alives, now + REST).len(), 100 - BURST);
        assert_eq!(keep_alives.sent, 100);
    }

    #[test]
    fn stored_bindings_are_read_when_settings_want_keep_alives() {
        let now = Instant::now();
        let mut keep_alives = keep_alives(None);
        keep_alives.start(now, 0, 1);
        keep_alives.handle_registered(now, &flow(1), &user("bob"), &[binding(now, 1)]);
        assert_eq!(
            (actions(&mut keep_alives, now), keep_alives.len()),
            (vec![], 0)
        );
        let policy = KeepAlivePolicy {
            method: Some(KeepAliveMethod::LineEnds),
            ..KeepAlivePolicy::default()
        };
        keep_alives.set_policy(now, &policy);
        let asked = actions(&mut keep_alives, now);
        assert!(matches!(
            asked.as_slice(),
            [KeepAliveAction::Ask(Query::Page { .. })]
        ));
        let page = Page {
            users: vec![(user("bob"), [binding(now, 1)].into())],
            next: None,
        };
        keep_alives.handle_page(now, Answer::Page(page));
        let sent = [KeepAliveAction::Send(flow(1), KeepAliveMethod::LineEnds)];
        assert_eq!(actions(&mut keep_alives, now), sent);
        keep_alives.set_policy(now, &KeepAlivePolicy::default());
        assert_eq!((keep_alives.len(), keep_alives.next_timeout()), (0, None));
    }
}
