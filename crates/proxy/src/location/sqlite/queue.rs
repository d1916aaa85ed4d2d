//! The updates that wait for the writer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::mailbox::Mailbox;
use crate::core::{AddressOfRecord, QueryId, Update};

/// An update whose answer goes to a mailbox.
#[derive(Debug)]
pub(super) struct QueuedUpdate {
    pub(super) id: QueryId,
    pub(super) address: AddressOfRecord,
    pub(super) update: Update,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Updates in the order in which they were asked for. There are no more than the workers may wait for.
#[derive(Debug, Default)]
pub(super) struct UpdateQueue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    updates: Vec<QueuedUpdate>,
    is_closed: bool,
}

/// Why the writer has stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueEvent {
    /// There are updates.
    Updates,
    /// None has come in the time.
    Timeout,
    /// There will be no more.
    Closed,
}

impl UpdateQueue {
    /// Adds an update, and wakes the writer for the first. `false` where there is no writer.
    pub(super) fn push(&self, update: QueuedUpdate) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.updates.push(update);
        let is_first = state.updates.len() == 1;
        drop(state);
        if is_first {
            self.arrived.notify_one();
        }
        true
    }

    /// Lets the writer end when it has taken what is there.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for an update, at most for `timeout`. All updates that there are then go into `taken`, which must be empty:
    /// those that come while the disk is busy share what the next transaction costs.
    pub(super) fn take(&self, taken: &mut Vec<QueuedUpdate>, timeout: Duration) -> QueueEvent {
        let state = self.state();
        let is_idle = |state: &mut State| state.updates.is_empty() && !state.is_closed;
        let (mut state, _) = self
            .arrived
            .wait_timeout_while(state, timeout, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        if state.updates.is_empty() {
            return match state.is_closed {
                true => QueueEvent::Closed,
                false => QueueEvent::Timeout,
            };
        }
        std::mem::swap(taken, &mut state.updates);
        QueueEvent::Updates
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
