//! How often a worker looks for messages.

use std::thread;
use std::time::{Duration, Instant};

use super::sharing::{Patience, Work};

/// Lets a worker that has much to do do it in batches.
///
/// Being woken, reading, and writing cost about the same for one message as for ten, and two workers
/// that hand messages to each other wake each other for each. What a turn needs that others have driven
/// out of the caches meanwhile has to come back, however few messages it has. So turns that would follow
/// each other faster begin no sooner than a while after another; the messages wait together in the
/// kernel's buffers. The more come together, the longer that while. Where few do, waiting wins nothing,
/// and the worker goes without it for some turns.
#[derive(Debug)]
pub(super) struct Pace {
    /// What a message may wait for others at the most.
    longest: Duration,
    begun: Option<Instant>,
    /// Whether the turn that has just ended waited to begin.
    has_waited: bool,
    /// Turns to come that wait for nothing.
    turns_without: u32,
}

/// A turn that has waited and finds fewer messages has waited in vain.
const WORTH_WAITING_FOR: u64 = 4;

/// Turns that wait for nothing after one that waited in vain: so a user whose messages follow each other
/// closely, on a server that is quiet otherwise, waits for one in so many.
const TURNS_WITHOUT: u32 = 32;

impl Pace {
    /// For a worker that may let messages wait for so long; without waiting where that is no time.
    pub(super) fn new(longest: Duration) -> Pace {
        Pace {
            longest,
            begun: None,
            has_waited: false,
            turns_without: 0,
        }
    }

    /// To be called between two turns when no more messages wait than one takes, with what there was to do in
    /// the turn before and how long those that come are to wait: blocks the thread, with all that lives on its runtime,
    /// for as long as the next turn is to wait.
    pub(super) fn keep(&mut self, work: Work, patience: Patience) {
        let now = Instant::now();
        let wait = self.pause(now, work, patience);
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// How long the turn that could begin now waits.
    fn pause(&mut self, now: Instant, work: Work, patience: Patience) -> Duration {
        let has_waited = std::mem::take(&mut self.has_waited) && patience == Patience::Full;
        if has_waited && work.messages < WORTH_WAITING_FOR {
            self.turns_without = TURNS_WITHOUT;
        }
        let between = work.gathering(patience.of(self.longest));
        let since = self.begun.map(|begun| now.saturating_duration_since(begun));
        let wait = since.map_or(Duration::ZERO, |since| between.saturating_sub(since));
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

    const LONGEST: Duration = Duration::from_millis(4);

    /// So many that the next ones wait as long as they may.
    const MANY: Work = calls(Work::MANY);

    const fn calls(messages: u64) -> Work {
        Work {
            messages,
            others: messages,
            streamed: 0,
            associated: 0,
        }
    }

    /// The pauses of turns of so many messages each, that come so long after the one before has ended.
    fn pauses(turns: u32, messages: u64, apart: Duration) -> Vec<Duration> {
        let mut pace = Pace::new(LONGEST);
        let mut now = Instant::now();
        let turn = |_| {
            now += apart;
            let pause = pace.pause(now, calls(messages), Patience::Full);
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
        assert!(pauses[1..].iter().all(|&pause| pause + apart == LONGEST));
    }

    #[test]
    fn turns_of_some_messages_begin_half_that_while_after_another() {
        let apart = Duration::from_micros(300);
        let pauses = pauses(100, Work::MANY - 1, apart);
        assert!(
            pauses[1..]
                .iter()
                .all(|&pause| pause + apart == LONGEST / 2)
        );
    }

    #[test]
    fn who_may_let_nothing_wait_never_waits() {
        let mut pace = Pace::new(Duration::ZERO);
        let now = Instant::now();
        let waited = (0..100).map(|_| pace.pause(now, MANY, Patience::Full));
        assert!(waited.into_iter().all(|pause| pause.is_zero()));
    }

    #[test]
    fn messages_of_those_who_are_not_to_wait_do_not() {
        let mut pace = Pace::new(LONGEST);
        let now = Instant::now();
        for _ in 0..100 {
            assert!(pace.pause(now, MANY, Patience::None).is_zero());
        }
        let little = pace.pause(now, MANY, Patience::Little);
        assert_eq!(little, Patience::Little.of(LONGEST));
        let now = now + little;
        assert_eq!(pace.pause(now, MANY, Patience::Full), LONGEST);
    }

    #[test]
    fn a_lone_user_hardly_ever_waits() {
        let pauses = pauses(3300, 1, Duration::from_micros(200));
        let waited = pauses.iter().filter(|pause| !pause.is_zero()).count();
        assert!((1..=100).contains(&waited), "{waited} of 3300 turns waited");
    }

    #[test]
    fn turns_that_are_far_apart_never_wait() {
        let pauses = pauses(100, Work::MANY, LONGEST);
        assert!(pauses.iter().all(Duration::is_zero));
    }
}
