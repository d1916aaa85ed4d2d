//! Events in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use slab::Slab;

/// Events in the order of their times; those of one time in the order in which they were added.
#[derive(Clone, Debug)]
pub(super) struct EventQueue<T> {
    /// Time, number, and where the event is: entries of the heap are small.
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    events: Slab<T>,
    added: u64,
}

impl<T> EventQueue<T> {
    pub(super) fn new() -> EventQueue<T> {
        EventQueue {
            heap: BinaryHeap::new(),
            events: Slab::new(),
            added: 0,
        }
    }

    pub(super) fn push(&mut self, at: Instant, event: T) {
        let key = self.events.insert(event);
        self.heap.push(Reverse((at, self.added, key)));
        self.added += 1;
    }

    /// When the next event is due.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event if it is due by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next_time()? > now {
            return None;
        }
        let Reverse((at, _, key)) = self.heap.pop()?;
        Some((at, self.events.remove(key)))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
