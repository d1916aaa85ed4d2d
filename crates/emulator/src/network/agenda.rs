//! What happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use slab::Slab;

/// Plans, in the order of their times; those of one time in the order in which they were made.
#[derive(Clone, Debug)]
pub(super) struct Agenda<T> {
    /// Time, number, and where the plan is: what is moved about is small.
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    plans: Slab<T>,
    made: u64,
}

impl<T> Agenda<T> {
    pub(super) fn new() -> Agenda<T> {
        Agenda {
            heap: BinaryHeap::new(),
            plans: Slab::new(),
            made: 0,
        }
    }

    pub(super) fn plan(&mut self, at: Instant, what: T) {
        let key = self.plans.insert(what);
        self.heap.push(Reverse((at, self.made, key)));
        self.made += 1;
    }

    /// When the next plan is due.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next plan if it is due by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next_time()? > now {
            return None;
        }
        let Reverse((at, _, key)) = self.heap.pop()?;
        Some((at, self.plans.remove(key)))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
