//! Messages of several workers that have one thread: those along one connection, or by one listener, leave together when all
//! have had their turn.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use crate::departures::Departures;
use crate::shared::Shared;

/// Keeps what workers send along connections or by a UDP listener, for as long as they have their turns one after the other
/// on one thread: then what all of them send along one connection leaves in one piece, and their datagrams by one listener
/// share calls to the kernel. What a connection's task writes leaves at once, and so do datagrams by a second listener.
///
/// What is held when its connection ends is not sent, and fails when it is released.
///
/// It keeps no transports alive.
#[derive(Clone, Debug)]
pub struct Together {
    pub(crate) shared: Weak<Shared>,
}

impl Together {
    /// From now on messages are kept, until [`release`](Together::release).
    pub fn hold(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.held.hold();
        }
    }

    /// Sends what was kept, and keeps nothing more. Does nothing where nothing is kept.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn release(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.held.release(|departures| departures.send(&shared));
        }
    }
}

/// What is to leave later.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Changes under the lock alone.
    is_holding: AtomicBool,
    departures: Mutex<Departures>,
}

impl Held {
    fn hold(&self) {
        let _departures = self.lock();
        self.is_holding.store(true, Ordering::Release);
    }

    /// Keeps what need not leave at once. Returns the rest: all of it where nothing is kept.
    pub(crate) fn keep(&self, departures: Departures) -> Departures {
        if !self.is_holding() {
            return departures;
        }
        let mut held = self.lock();
        match self.is_holding() {
            true => held.join(departures),
            false => departures,
        }
    }

    /// Sends what was kept, before whatever others have to send meanwhile.
    fn release(&self, send: impl FnOnce(Departures)) {
        if !self.is_holding() {
            return;
        }
        let mut held = self.lock();
        send(mem::take(&mut held));
        self.is_holding.store(false, Ordering::Release);
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
