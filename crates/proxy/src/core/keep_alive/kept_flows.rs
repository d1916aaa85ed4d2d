//! The flows that are kept open, for whom, and when each is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sip::Flow;

use super::policy::KeepAlivePolicy;
use crate::core::binding::AddressOfRecord;

/// The flows that are kept open.
#[derive(Debug, Default)]
pub(super) struct KeptFlows {
    flows: BTreeMap<Ends, Kept>,
    /// Whose bindings came along which of them, and when the last of these ends.
    bound: BTreeMap<(AddressOfRecord, Ends), Instant>,
    due: BTreeSet<(Instant, Ends)>,
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

impl KeptFlows {
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
    pub(super) fn give_up(&mut self, user: &AddressOfRecord, is_bound: impl Fn(Ends) -> bool) {
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
    pub(super) fn next(&mut self, now: Instant, interval: Duration) -> Option<Flow> {
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

    /// When the next flow is due.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// How many flows are kept open.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }
}
