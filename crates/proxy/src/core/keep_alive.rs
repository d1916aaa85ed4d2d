//! Keep-alives from us to user agents behind NATs: over UDP a NAT forgets within half a minute who it
//! lets in (RFC 5626 section 4.4.2), and most phones do not send keep-alives themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sip::{Flow, Message, Method, Name, Target, Transmit, Transport, Uri};

use super::binding::{AddressOfRecord, Binding};
use super::proxy::Proxy;
use super::target::is_at_contact;

/// What is sent to user agents behind NATs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMethod {
    /// Two line ends: the least that a NAT can see.
    LineEnds,
    /// An OPTIONS request, which a user agent answers: for NATs that want to see traffic from inside.
    Options,
}

/// How the way to user agents behind NATs is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlivePolicy {
    /// What is sent; `None` leaves it to the user agents.
    pub method: Option<KeepAliveMethod>,
    /// How often.
    pub interval: Duration,
    /// To how many flows, by each worker. Those that register when there are so many are left alone.
    pub maximum_flows: usize,
}

impl Default for KeepAlivePolicy {
    /// Nothing is sent.
    fn default() -> KeepAlivePolicy {
        KeepAlivePolicy {
            method: None,
            interval: Duration::from_secs(25),
            maximum_flows: 100_000,
        }
    }
}

/// The flows that are kept open.
#[derive(Debug, Default)]
pub(crate) struct KeepAlives {
    flows: BTreeMap<Ends, Kept>,
    /// Whose bindings came along which of them, and when the last of these ends.
    bound: BTreeMap<(AddressOfRecord, Ends), Instant>,
    due: BTreeSet<(Instant, Ends)>,
    /// Until then nothing more is sent: so much has been.
    rests_until: Option<Instant>,
}

/// Our address and that of the user agent, or of its NAT.
pub(super) type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Kept {
    flow: Flow,
    /// When the last binding ends of each of those who have any that came along it, and whose they are; in this order.
    users: VecDeque<(Instant, AddressOfRecord)>,
    due: Instant,
}

impl Kept {
    fn add(&mut self, user: (Instant, AddressOfRecord)) {
        if let Err(place) = self.users.binary_search(&user) {
            self.users.insert(place, user);
        }
    }

    fn remove(&mut self, user: &(Instant, AddressOfRecord)) {
        if let Ok(place) = self.users.binary_search(user) {
            self.users.remove(place);
        }
    }

    /// Takes somebody who has no bindings any more that came along it.
    fn next_ended(&mut self, now: Instant) -> Option<AddressOfRecord> {
        let (until, _) = self.users.front()?;
        let (_, user) = (*until <= now).then(|| self.users.pop_front()).flatten()?;
        Some(user)
    }
}

/// Before any address.
const LOWEST: Ends = (
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
);

/// How many users there may be for each flow that may be kept open: a telephone has a few, a gateway many.
const USERS_PER_FLOW: usize = 4;

/// How many keep-alives are sent at a time.
const BURST: usize = 64;

/// How long nothing is sent after so many.
const REST: Duration = Duration::from_millis(10);

/// Two line ends.
const LINE_ENDS: &[u8] = b"\r\n\r\n";

impl KeepAlives {
    /// Keeps a flow open for a user; if it is not kept yet something is sent when it is `due`. Returns whether there was
    /// room.
    pub(super) fn keep(
        &mut self,
        policy: &KeepAlivePolicy,
        due: Instant,
        (user, flow): (&AddressOfRecord, Flow),
        until: Instant,
    ) -> bool {
        let ends = (flow.local, flow.remote);
        let name = (user.clone(), ends);
        let is_bound = self.bound.contains_key(&name);
        let has_room = match self.flows.contains_key(&ends) {
            true => {
                is_bound || self.bound.len() < policy.maximum_flows.saturating_mul(USERS_PER_FLOW)
            }
            false => self.flows.len() < policy.maximum_flows,
        };
        if !has_room {
            return false;
        }
        let kept = self.flows.entry(ends).or_insert_with(|| {
            self.due.insert((due, ends));
            Kept {
                flow,
                users: VecDeque::with_capacity(1),
                due,
            }
        });
        kept.flow = flow;
        if let Some(before) = self.bound.insert(name, until) {
            kept.remove(&(before, user.clone()));
        }
        kept.add((until, user.clone()));
        true
    }

    /// Gives up the flows of a user along which none of the bindings came that it has now: somebody else may be
    /// behind those addresses by now.
    fn give_up(&mut self, user: &AddressOfRecord, is_bound: impl Fn(Ends) -> bool) {
        let left: Vec<Ends> = self
            .bound
            .range((user.clone(), LOWEST)..)
            .take_while(|((other, _), _)| other == user)
            .map(|((_, ends), _)| *ends)
            .filter(|ends| !is_bound(*ends))
            .collect();
        for ends in left {
            let until = self.bound.remove(&(user.clone(), ends));
            let (Some(until), Some(kept)) = (until, self.flows.get_mut(&ends)) else {
                continue;
            };
            kept.remove(&(until, user.clone()));
            if kept.users.is_empty() {
                self.due.remove(&(kept.due, ends));
                self.flows.remove(&ends);
            }
        }
    }

    /// The next flow along which something is to be sent. Those that nobody is registered over any more
    /// are given up.
    fn next(&mut self, now: Instant, interval: Duration) -> Option<Flow> {
        loop {
            let &(due, ends) = self.due.first().filter(|(due, _)| *due <= now)?;
            self.due.remove(&(due, ends));
            let kept = self.flows.get_mut(&ends)?;
            while let Some(user) = kept.next_ended(now) {
                self.bound.remove(&(user, ends));
            }
            if kept.users.is_empty() {
                self.flows.remove(&ends);
                continue;
            }
            // From now on, not from when it was due: what was late is not made up for by haste.
            kept.due = now + interval;
            self.due.insert((kept.due, ends));
            return Some(kept.flow);
        }
    }

    /// Whether a flow is kept open for a user.
    pub(super) fn is_kept_for(&self, user: &AddressOfRecord, ends: Ends) -> bool {
        self.bound.contains_key(&(user.clone(), ends))
    }

    /// When something is to be sent next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (due, _) = self.due.first()?;
        Some(self.rests_until.map_or(*due, |rest| rest.max(*due)))
    }

    /// How many flows are kept open.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }
}

impl Proxy {
    /// Keeps the flow of a REGISTER open, if one of the bindings came along it and is behind a NAT: if its
    /// Contact is another address than that which we see. Flows that the user's bindings have left are
    /// given up.
    pub(super) fn keep_alive(
        &mut self,
        now: Instant,
        flow: &Flow,
        user: &AddressOfRecord,
        bindings: &[Binding],
    ) {
        let policy = &self.policy.keep_alive;
        if policy.method.is_none() {
            return;
        }
        let has_ends = |binding: &Binding, ends: Ends| {
            binding.flow().is_some_and(|flow| {
                flow.transport == Transport::Udp && (flow.local, flow.remote) == ends
            })
        };
        let until = |ends: Ends| {
            let along = bindings.iter().filter(|binding| has_ends(binding, ends));
            let behind = along.filter(|binding| is_behind_nat(binding));
            let until = behind.map(Binding::expires).max();
            until.filter(|until| *until > now)
        };
        self.keep_alives.give_up(user, |ends| until(ends).is_some());
        if flow.transport == Transport::Udp
            && let Some(until) = until((flow.local, flow.remote))
            && !self
                .keep_alives
                .keep(policy, now + policy.interval, (user, *flow), until)
        {
            self.statistics.keep_alives_refused += 1;
        }
    }

    /// Sends what is due, so much at a time.
    pub(super) fn send_keep_alives(&mut self, now: Instant) {
        let KeepAlivePolicy {
            method, interval, ..
        } = self.policy.keep_alive;
        let Some(method) = method else {
            return;
        };
        if self.keep_alives.rests_until.is_some_and(|rest| rest > now) {
            return;
        }
        for _ in 0..BURST {
            let Some(flow) = self.keep_alives.next(now, interval) else {
                self.keep_alives.rests_until = None;
                return;
            };
            self.statistics.keep_alives_sent += 1;
            match method {
                KeepAliveMethod::LineEnds => self.outgoing.push_back(Transmit {
                    target: Target::Flow(flow),
                    peer: None,
                    payload: LINE_ENDS.into(),
                    call: 0,
                    transaction: None,
                }),
                KeepAliveMethod::Options => self.send_options(now, &flow),
            }
        }
        self.keep_alives.rests_until = Some(now + REST);
    }

    /// Sends an OPTIONS along a flow. Its response is of no interest: that it goes out is enough.
    fn send_options(&mut self, now: Instant, flow: &Flow) {
        let branch = self.transactions.new_branch();
        let uri = format!("sip:{}", flow.remote);
        let Some(side) = self.side_toward(flow) else {
            return;
        };
        let request = Message::request(Method::Options, &uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP {};branch={branch};rport", side.source),
            )
            .with(Name::MaxForwards, "1")
            .with(Name::From, format!("<sip:{}>;tag={branch}", side.source))
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, &branch)
            .with(Name::CSeq, "1 OPTIONS");
        self.transactions
            .send_stateless(now, request, Target::Flow(*flow));
    }
}

/// Whether the Contact of a binding is another address than that which its REGISTER came from.
pub(super) fn is_behind_nat(binding: &Binding) -> bool {
    binding.flow().is_some_and(|flow| {
        matches!(Uri::parse(binding.contact()), Ok(Uri::Sip(uri)) if !is_at_contact(&flow, &uri.into()))
    })
}
