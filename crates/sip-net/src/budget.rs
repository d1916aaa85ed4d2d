//! One bound on the bytes that wait to be sent on all connections and sockets together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that may wait, and those that do.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    reserved: AtomicUsize,
}

/// Bytes that wait; they are given back when it is dropped, wherever that is.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            reserved: AtomicUsize::new(0),
        })
    }

    /// Room for so many bytes; `None` where there is none.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let reservation = Reservation {
            budget: self.clone(),
            bytes,
        };
        // A refused one is given back too; until then it may cost another, at the limit, its room.
        let before = self.reserved.fetch_add(bytes, Relaxed);
        (before.saturating_add(bytes) <= self.limit).then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.reserved.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room() {
        let budget = Budget::new(100);
        assert!(budget.reserve(101).is_none());
        let first = budget.reserve(60).expect("room");
        let second = budget.reserve(40).expect("room");
        assert!(budget.reserve(1).is_none());
        assert!(budget.reserve(0).is_some());
        drop(first);
        assert!(budget.reserve(61).is_none());
        let third = budget.reserve(60).expect("room");
        drop((second, third));
        assert!(budget.reserve(100).is_some());
    }
}
