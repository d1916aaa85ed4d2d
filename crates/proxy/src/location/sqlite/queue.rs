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

/// So many changes are not kept waiting for more.
const ENOUGH: usize = 1000;

impl Queue {
    /// Adds a change. The writer is woken for the first, and when there are enough. `false` where there
    /// is no writer.
    pub(super) fn push(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        state.waiting.push(waiting);
        let is_news = matches!(state.waiting.len(), 1 | ENOUGH);
        drop(state);
        if is_news {
            self.arrived.notify_one();
        }
        true
    }

    /// Lets the writer end when it has taken what is there.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for a change, at most for `patience`; then for `delay` for more, so that many share what a
    /// transaction costs. What there is then goes into `taken`, which must be empty.
    pub(super) fn take(
        &self,
        taken: &mut Vec<Waiting>,
        patience: Duration,
        delay: Duration,
    ) -> Found {
        let state = self.state();
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let (state, _) = self
            .arrived
            .wait_timeout_while(state, patience, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            return match state.is_closed {
                true => Found::Closed,
                false => Found::Nothing,
            };
        }
        let wants_more = |state: &mut State| state.waiting.len() < ENOUGH && !state.is_closed;
        let (mut state, _) = self
            .arrived
            .wait_timeout_while(state, delay, wants_more)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(taken, &mut state.waiting);
        Found::Changes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
