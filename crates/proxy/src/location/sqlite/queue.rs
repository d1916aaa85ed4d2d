//! The questions that wait for the writer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::mailbox::Mailbox;
use crate::core::{AddressOfRecord, QueryId, Update};

/// A change that somebody waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: QueryId,
    pub(super) address: AddressOfRecord,
    pub(super) update: Update,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Changes in the order in which they were asked for. There are no more than the workers may wait for.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiting>,
    is_closed: bool,
}

/// What the writer finds when it has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Changes.
    Changes,
    /// None, in the time that it was to wait.
    Nothing,
    /// None, and there will be no more.
    Closed,
}

impl Queue {
    /// Adds a change, and wakes the writer for the first. `false` where there is no writer.
    pub(super) fn push(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.waiting.push(waiting);
        let is_first = state.waiting.len() == 1;
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

    /// Waits for a change, at most for `patience`. All changes that there are then go into `taken`, which must be empty:
    /// those that come while the disk is busy share what the next transaction costs.
    pub(super) fn take(&self, taken: &mut Vec<Waiting>, patience: Duration) -> Found {
        let state = self.state();
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let (mut state, _) = self
            .arrived
            .wait_timeout_while(state, patience, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            return match state.is_closed {
                true => Found::Closed,
                false => Found::Nothing,
            };
        }
        std::mem::swap(taken, &mut state.waiting);
        Found::Changes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
