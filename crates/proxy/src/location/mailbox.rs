//! The way of answers from a store to the worker that asked.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::core::{Answer, QueryId};

/// Answers that a worker has not taken yet. It never holds more than that worker has questions
/// waiting, whose number is bounded.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    answers: Mutex<VecDeque<(QueryId, Answer)>>,
    arrived: Notify,
}

impl Mailbox {
    /// Puts answers in and wakes the worker, once for all.
    pub(super) fn post(&self, answers: impl IntoIterator<Item = (QueryId, Answer)>) {
        self.answers().extend(answers);
        self.arrived.notify_one();
    }

    /// The answer that has been there longest, if there is one.
    pub(super) fn take(&self) -> Option<(QueryId, Answer)> {
        self.answers().pop_front()
    }

    /// Waits for an answer. Cancelling loses none.
    pub(super) async fn next(&self) -> (QueryId, Answer) {
        loop {
            if let Some(answer) = self.take() {
                return answer;
            }
            self.arrived.notified().await;
        }
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<(QueryId, Answer)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
