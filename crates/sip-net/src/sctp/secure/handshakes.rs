//! How many handshakes peers may have begun and not finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts them, all associations together.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    begun: Arc<AtomicUsize>,
    maximum: usize,
}

/// The place of one, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    begun: Arc<AtomicUsize>,
}

impl Handshakes {
    pub(crate) fn new(maximum: usize) -> Handshakes {
        Handshakes {
            begun: Arc::default(),
            maximum,
        }
    }

    /// A place, where there is one.
    pub(super) fn begin(&self) -> Option<Slot> {
        let one_more = |begun: usize| (begun < self.maximum).then_some(begun + 1);
        self.begun.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(Slot {
            begun: self.begun.clone(),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.begun.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_again_when_one_has_ended() {
        let handshakes = Handshakes::new(2);
        let first = handshakes.begin().expect("room");
        let _second = handshakes.begin().expect("room");
        assert!(handshakes.begin().is_none());
        drop(first);
        assert!(handshakes.begin().is_some());
    }
}
