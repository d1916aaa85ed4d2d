//! Datagrams that an impairment holds back until their time has come.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Instant;

/// A queue ordered by time, bounded in datagrams and in bytes.
///
/// Datagrams due at the same time leave in the order in which they came.
#[derive(Debug)]
pub(crate) struct DelayQueue<T> {
    entries: BinaryHeap<Entry<T>>,
    next_order: u64,
    bytes: usize,
    max_datagrams: usize,
    max_bytes: usize,
}

impl<T> DelayQueue<T> {
    pub(crate) fn new(max_datagrams: usize, max_bytes: usize) -> Self {
        Self {
            entries: BinaryHeap::new(),
            next_order: 0,
            bytes: 0,
            max_datagrams,
            max_bytes,
        }
    }

    /// Holds `datagram`, whose payload has `bytes`, until `due`. False, and the datagram is gone,
    /// when the queue is full.
    pub(crate) fn push(&mut self, due: Instant, bytes: usize, datagram: T) -> bool {
        if self.entries.len() >= self.max_datagrams || self.bytes + bytes > self.max_bytes {
            return false;
        }
        self.bytes += bytes;
        let order = self.next_order;
        self.next_order += 1;
        self.entries.push(Entry {
            due,
            order,
            bytes,
            datagram,
        });
        true
    }

    /// When the next datagram leaves.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.entries.peek().map(|entry| entry.due)
    }

    /// The next datagram that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        let entry = self.entries.pop()?;
        self.bytes -= entry.bytes;
        Some(entry.datagram)
    }
}

#[derive(Debug)]
struct Entry<T> {
    due: Instant,
    order: u64,
    bytes: usize,
    datagram: T,
}

/// Reversed, because `BinaryHeap` gives its greatest entry first.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn leaves_in_order_of_time_and_then_of_arrival() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut queue = DelayQueue::new(10, 1000);
        for (due, name) in [(30, "c"), (10, "a"), (10, "b"), (40, "d")] {
            assert!(queue.push(at(due), 1, name));
        }
        assert_eq!(queue.next_due(), Some(at(10)));
        assert_eq!(queue.pop_due(at(9)), None);
        assert_eq!(queue.pop_due(at(30)), Some("a"));
        assert_eq!(queue.pop_due(at(30)), Some("b"));
        assert_eq!(queue.pop_due(at(30)), Some("c"));
        assert_eq!(queue.pop_due(at(30)), None);
        assert_eq!(queue.pop_due(at(40)), Some("d"));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn is_bounded_in_datagrams_and_in_bytes() {
        let now = Instant::now();
        let mut queue = DelayQueue::new(2, 100);
        assert!(queue.push(now, 60, 1));
        assert!(!queue.push(now, 41, 2), "more than 100 bytes");
        assert!(queue.push(now, 40, 3));
        assert!(!queue.push(now, 0, 4), "more than 2 datagrams");
        assert_eq!(queue.pop_due(now), Some(1));
        assert!(queue.push(now, 60, 5), "room again");
    }
}
