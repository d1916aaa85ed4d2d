//! Bounds on the messages that wait to be sent: on each connection or socket, and on all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes that may wait on all connections and sockets together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    reserved: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            reserved: AtomicUsize::new(0),
        })
    }
}

/// What may wait on one connection or socket.
#[derive(Debug)]
pub(crate) struct QueueBudget {
    max_messages: usize,
    max_bytes: usize,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    all: Arc<Budget>,
}

/// The room of a message that waits; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Room {
    queue: Arc<QueueBudget>,
    bytes: usize,
}

impl QueueBudget {
    pub(crate) fn new(max_messages: usize, max_bytes: usize, all: Arc<Budget>) -> Arc<Self> {
        Arc::new(QueueBudget {
            max_messages,
            max_bytes,
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            all,
        })
    }

    /// Room for a message of so many bytes; `None` where there is none.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let room = self.add(bytes);
        // A refused one is given back too; until then it may cost another, at the limit, its room.
        let is_within = self.messages.load(Relaxed) <= self.max_messages
            && self.bytes.load(Relaxed) <= self.max_bytes
            && self.all.reserved.load(Relaxed) <= self.all.limit;
        is_within.then_some(room)
    }

    /// Room for a message of which a part is sent: beyond the bounds of its queue, and a quarter beyond that of all together.
    pub(crate) fn reserve_begun(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let room = self.add(bytes);
        let limit = self.all.limit.saturating_add(self.all.limit / 4);
        let is_within = self.all.reserved.load(Relaxed) <= limit;
        is_within.then_some(room)
    }

    fn add(self: &Arc<Self>, bytes: usize) -> Room {
        self.messages.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.all.reserved.fetch_add(bytes, Relaxed);
        Room {
            queue: self.clone(),
            bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.queue.messages.fetch_sub(1, Relaxed);
        self.queue.bytes.fetch_sub(self.bytes, Relaxed);
        self.queue.all.reserved.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room() {
        let all = Budget::new(100);
        let queue = QueueBudget::new(10, 100, all);
        assert!(queue.reserve(101).is_none());
        let first = queue.reserve(60).expect("room");
        let second = queue.reserve(40).expect("room");
        assert!(queue.reserve(1).is_none());
        assert!(queue.reserve(0).is_some());
        drop(first);
        assert!(queue.reserve(61).is_none());
        let third = queue.reserve(60).expect("room");
        drop((second, third));
        assert!(queue.reserve(100).is_some());
    }

    #[test]
    fn each_queue_and_all_together_have_bounds() {
        let all = Budget::new(150);
        let queue = || QueueBudget::new(2, 100, all.clone());
        let (one, other) = (queue(), queue());
        let _first = one.reserve(90).expect("room");
        let _second = one.reserve(5).expect("room");
        assert!(one.reserve(1).is_none(), "two messages");
        assert!(other.reserve(56).is_none(), "all together");
        let _third = other.reserve(55).expect("room");
        // What is begun is kept, but not without end.
        assert!(one.reserve_begun(38).is_none(), "all together");
        assert!(one.reserve_begun(37).is_some());
    }
}
