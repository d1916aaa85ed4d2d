//! The deadlines of a signalling process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::config::{AsId, PeerId, SgId};

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// T(ack) of the request to a peer.
    Acknowledgement(PeerId),
    /// T(beat) of a peer.
    Beat(PeerId),
    /// T(r) of an AS.
    Recovery(AsId),
    /// The next audit of destinations at an SG.
    Audit(SgId),
}

/// One deadline for each timer that runs.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: BTreeMap<Timer, Instant>,
    in_order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, deadline: Instant) {
        self.cancel(timer);
        self.deadlines.insert(timer, deadline);
        self.in_order.insert((deadline, timer));
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(deadline) = self.deadlines.remove(&timer) {
            self.in_order.remove(&(deadline, timer));
        }
    }

    pub(crate) fn runs(&self, timer: Timer) -> bool {
        self.deadlines.contains_key(&timer)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.deadlines.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|(deadline, _)| *deadline)
    }

    /// Takes a timer that has expired.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let (deadline, timer) = *self.in_order.first()?;
        if deadline > now {
            return None;
        }
        self.cancel(timer);
        Some(timer)
    }
}
