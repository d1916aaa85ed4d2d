//! The way of answers from a store to the worker that asked.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::core::{Answer, QueryId};

/// Answers that a worker has not taken yet. It never holds more than that worker has questions
/// waiting, whose number is bounded.
#[derive(Debug, Default)]
pub struct Mailbox {
    answers: Mutex<VecDeque<(QueryId, Answer)>>,
    arrived: Notify,
}

impl Mailbox {
    /// Puts answers in and wakes the worker, once for all.
    pub fn post(&self, answers: impl IntoIterator<Item = (QueryId, Answer)>) {
        self.answers().extend(answers);
        self.arrived.notify_one();
    }

    /// Takes all answers, in their order. Returns how many there are.
    pub(super) fn take_all(&self, taken: &mut VecDeque<(QueryId, Answer)>) -> usize {
        let mut answers = self.answers();
        let count = answers.len();
        match taken.is_empty() {
            true => std::mem::swap(taken, &mut answers),
            false => taken.append(&mut answers),
        }
        count
    }

    /// Waits until answers have been put in since this was waited for last.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<(QueryId, Answer)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
