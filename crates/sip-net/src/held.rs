//! Messages of several workers that have one thread: those along one connection leave together when all have had their turn.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::departures::Departures;

/// What is to leave along connections later.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Changes under the lock alone.
    is_holding: AtomicBool,
    departures: Mutex<Departures>,
}

impl Held {
    /// From now on messages are kept.
    pub(crate) fn hold(&self) {
        let _departures = self.lock();
        self.is_holding.store(true, Ordering::Release);
    }

    /// Keeps what goes along connections; gives it back where it may leave.
    pub(crate) fn keep(&self, departures: Departures) -> Option<Departures> {
        if !self.is_holding() {
            return Some(departures);
        }
        let mut held = self.lock();
        if !self.is_holding() {
            return Some(departures);
        }
        held.join(departures);
        None
    }

    /// Takes what was kept; from now on nothing is.
    pub(crate) fn release(&self) -> Option<Departures> {
        if !self.is_holding() {
            return None;
        }
        let mut held = self.lock();
        self.is_holding.store(false, Ordering::Release);
        Some(mem::take(&mut held))
    }

    fn is_holding(&self) -> bool {
        self.is_holding.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Departures> {
        self.departures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
