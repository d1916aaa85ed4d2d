//! How often a worker looks for messages.

use std::thread;
use std::time::{Duration, Instant};

/// Lets a worker that has much to do do it in batches.
///
/// Being woken, reading, and writing cost about the same for one message as for ten, and two workers
/// that hand messages to each other wake each other for each. So turns that would follow each other
/// faster begin no sooner than this after another; the messages wait together in the kernel's buffers.
/// At fewer messages than that, none waits.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: Option<Instant>,
}

/// What a message may wait for others; little beside the time to a peer and back.
const BETWEEN_TURNS: Duration = Duration::from_millis(1);

impl Pace {
    /// To be called between two turns when no message waits yet: blocks the thread, with all that lives on its runtime, for as
    /// long as the next turn is to wait.
    pub(super) fn keep(&mut self) {
        let now = Instant::now();
        let wait = self.begun.map_or(Duration::ZERO, |begun| {
            BETWEEN_TURNS.saturating_sub(now.saturating_duration_since(begun))
        });
        if wait.is_zero() {
            self.begun = Some(now);
        } else {
            thread::sleep(wait);
            self.begun = Some(now + wait);
        }
    }
}
