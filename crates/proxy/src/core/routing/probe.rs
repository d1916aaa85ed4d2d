//! When members of groups are asked whether they are there, and the questions under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sip::transaction::ClientId;

use super::dispatcher::Dispatcher;
use super::group::MemberName;
use crate::core::target::Target;

/// The schedule of probes and those that have had no final response.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Whether this core probes at all: of several with the same groups one does.
    is_on: bool,
    due: BTreeSet<(Instant, MemberName)>,
    under_way: BTreeMap<ClientId, Probe>,
    deadlines: BTreeSet<(Instant, ClientId)>,
}

/// A question to a member.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) member: MemberName,
    /// It, with the hops to it that have not been tried.
    pub(crate) target: Target,
    /// Until when an answer is waited for.
    pub(crate) deadline: Instant,
}

impl Probes {
    /// Begins to probe.
    pub(crate) fn start(&mut self, now: Instant, dispatcher: &Dispatcher) {
        self.is_on = true;
        self.reschedule(now, dispatcher);
    }

    /// Probes the members that there are now, those at once that have not been probed before, and no
    /// others.
    pub(crate) fn reschedule(&mut self, now: Instant, dispatcher: &Dispatcher) {
        if !self.is_on {
            return;
        }
        let old: BTreeMap<MemberName, Instant> = std::mem::take(&mut self.due)
            .into_iter()
            .map(|(due, name)| (name, due))
            .collect();
        for name in dispatcher.probed() {
            // A new interval counts from now on.
            let interval = interval(dispatcher, name);
            let due = old.get(name).map_or(now, |due| (*due).min(now + interval));
            self.due.insert((due, name.clone()));
        }
    }

    /// The next member that is to be probed now; the one after the next follows an interval later.
    pub(crate) fn next_due(&mut self, now: Instant, dispatcher: &Dispatcher) -> Option<Probe> {
        loop {
            let (due, _) = self.due.first()?;
            if *due > now {
                return None;
            }
            let (_, member) = self.due.pop_first()?;
            let settings = dispatcher.settings(&member.group);
            let probing = settings.and_then(|group| group.probing.as_ref());
            let (Some(probing), Some(hop)) = (probing, dispatcher.next_hop(&member)) else {
                continue;
            };
            self.due.insert((now + probing.interval, member.clone()));
            return Some(Probe {
                target: Target::by_route(&member.uri, vec![hop]),
                deadline: now + probing.timeout,
                member,
            });
        }
    }

    /// Remembers a probe that was sent.
    pub(crate) fn insert(&mut self, client: ClientId, probe: Probe) {
        self.deadlines.insert((probe.deadline, client));
        self.under_way.insert(client, probe);
    }

    /// Takes the probe of a transaction out, if it is one.
    pub(crate) fn take(&mut self, client: ClientId) -> Option<Probe> {
        let probe = self.under_way.remove(&client)?;
        self.deadlines.remove(&(probe.deadline, client));
        Some(probe)
    }

    /// Takes the next probe out whose time is over.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<(ClientId, Probe)> {
        let &(deadline, client) = self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.take(client).map(|probe| (client, probe))
    }

    /// When there is something to do next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let due = self.due.first().map(|(due, _)| *due);
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        [due, deadline].into_iter().flatten().min()
    }
}

fn interval(dispatcher: &Dispatcher, name: &MemberName) -> Duration {
    dispatcher
        .settings(&name.group)
        .and_then(|group| group.probing.as_ref())
        .map_or(Duration::ZERO, |probing| probing.interval)
}
