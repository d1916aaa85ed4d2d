//! Room for packets that wait, in octets: a bound that holds wherever they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many octets may wait, and how many do.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    taken: AtomicUsize,
}

/// Room that a packet takes, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<Room>,
    octets: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Arc<Room> {
        Arc::new(Room {
            most,
            taken: AtomicUsize::new(0),
        })
    }

    /// Takes room for so many octets, if there is as much.
    pub(super) fn take(self: &Arc<Room>, octets: usize) -> Option<Taken> {
        let more = |taken: usize| taken.checked_add(octets).filter(|all| *all <= self.most);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Taken {
            room: Arc::clone(self),
            octets,
        })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_waits_than_may() {
        let room = Room::new(1000);
        let first = room.take(600).expect("there is room");
        let second = room.take(400).expect("it is full now");
        assert!(room.take(1).is_none());
        drop(first);
        assert!(room.take(601).is_none());
        let third = room.take(600).expect("there is room again");
        assert!(room.take(1).is_none());
        drop((second, third));
        assert!(room.take(1001).is_none());
        assert!(room.take(usize::MAX).is_none());
        assert!(room.take(1000).is_some());
    }
}
