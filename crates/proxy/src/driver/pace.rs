//! How often a worker looks for messages.

use std::thread;
use std::time::{Duration, Instant};

/// Lets a worker that has much to do do it in batches.
///
/// Being woken, reading, and writing cost about the same for one message as for ten, and two workers
/// that hand messages to each other wake each other for each. So turns that would follow each other
/// faster begin no sooner than this after another; the messages wait together in the kernel's buffers.
/// Where few come together that way, waiting wins nothing, and the worker goes without it for a while.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: Option<Instant>,
    /// Whether the turn that has just ended waited to begin.
    has_waited: bool,
    /// Turns to come that wait for nothing.
    turns_without: u32,
}

/// What a message may wait for others; little beside the time to a peer and back.
const BETWEEN_TURNS: Duration = Duration::from_millis(2);

/// A turn that has waited and finds fewer messages has waited in vain.
const WORTH_WAITING_FOR: usize = 4;

/// Turns that wait for nothing after one that waited in vain: so a user whose messages follow each other
/// closely, on a server that is quiet otherwise, waits for one in so many.
const TURNS_WITHOUT: u32 = 32;

impl Pace {
    /// To be called between two turns when no more messages wait than one takes, with the number of messages of
    /// the turn before: blocks the thread, with all that lives on its runtime, for as long as the next turn is to
    /// wait.
    pub(super) fn keep(&mut self, messages: usize) {
        let now = Instant::now();
        let wait = self.pause(now, messages);
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// How long the turn that could begin now waits.
    fn pause(&mut self, now: Instant, messages: usize) -> Duration {
        if std::mem::take(&mut self.has_waited) && messages < WORTH_WAITING_FOR {
            self.turns_without = TURNS_WITHOUT;
        }
        let since = self.begun.map(|begun| now.saturating_duration_since(begun));
        let wait = since.map_or(Duration::ZERO, |since| BETWEEN_TURNS.saturating_sub(since));
        if wait.is_zero() || self.turns_without > 0 {
            self.turns_without = self.turns_without.saturating_sub(1);
            self.begun = Some(now);
            return Duration::ZERO;
        }
        self.has_waited = true;
        self.begun = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses of turns of so many messages each, that come so long after the one before has ended.
    fn pauses(turns: u32, messages: usize, apart: Duration) -> Vec<Duration> {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let turn = |_| {
            now += apart;
            let pause = pace.pause(now, messages);
            now += pause;
            pause
        };
        (0..turns).map(turn).collect()
    }

    #[test]
    fn turns_of_many_messages_begin_a_while_after_another() {
        let apart = Duration::from_micros(300);
        let pauses = pauses(100, 20, apart);
        assert_eq!(pauses[0], Duration::ZERO);
        assert!(
            pauses[1..]
                .iter()
                .all(|&pause| pause + apart == BETWEEN_TURNS)
        );
    }

    #[test]
    fn a_lone_user_hardly_ever_waits() {
        let pauses = pauses(3300, 1, Duration::from_micros(200));
        let waited = pauses.iter().filter(|pause| !pause.is_zero()).count();
        assert!((1..=100).contains(&waited), "{waited} of 3300 turns waited");
    }

    #[test]
    fn turns_that_are_far_apart_never_wait() {
        let pauses = pauses(100, 1, 2 * BETWEEN_TURNS);
        assert!(pauses.iter().all(Duration::is_zero));
    }
}
