//! How the rounds of a shared thread follow each other, and when they end.

use std::time::{Duration, Instant};

use super::senders::{Patience, Work};

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum After {
    /// The next one, after so long.
    Pause(Duration),
    /// There is too little to do for messages to gather, or they should not: whoever sends one should not wait.
    TooLittle,
    /// There is too much to do for one thread.
    TooMuch,
}

/// Counts what rounds have had to do.
#[derive(Debug)]
pub(in crate::driver) struct Rounds {
    gather: Duration,
    window: Instant,
    busy: Duration,
    /// How many rounds in a row have had few messages.
    with_few: u32,
}

/// Rounds with fewer messages are not worth waiting for.
const FEW: u64 = 8;

/// So many rounds in a row with few messages are too little to do.
const ROUNDS_WITH_FEW: u32 = 32;

/// Over how long it is counted how much there is to do.
const WINDOW: Duration = Duration::from_millis(40);

/// A round that takes longer is not finished: other threads have time.
const LONGEST_ROUND: Duration = Duration::from_millis(20);

impl Rounds {
    pub(in crate::driver) fn new(gather: Duration, now: Instant) -> Rounds {
        Rounds {
            gather,
            window: now,
            busy: Duration::ZERO,
            with_few: 0,
        }
    }

    /// Whether a round that began then takes too long.
    pub(in crate::driver) fn is_too_long(begun: Instant, now: Instant) -> bool {
        now.saturating_duration_since(begun) > LONGEST_ROUND
    }

    /// What comes after a round that has taken from then till then for so much work, where those messages that come are to
    /// wait so long: too much is more than seven tenths of a while.
    pub(in crate::driver) fn after(
        &mut self,
        begun: Instant,
        ended: Instant,
        work: Work,
        patience: Patience,
    ) -> After {
        if Rounds::is_too_long(begun, ended) {
            return After::TooMuch;
        }
        let took = ended.saturating_duration_since(begun);
        let between = work.gathering(patience.of(self.gather));
        match patience {
            Patience::Full => {}
            Patience::Little => {
                // That there is more to do, in rounds with fewer messages, is for that alone.
                self.busy = Duration::ZERO;
                self.window = ended;
                return After::Pause(between.saturating_sub(took));
            }
            Patience::None => return After::TooLittle,
        }
        self.busy += took;
        let window = ended.saturating_duration_since(self.window);
        if window >= WINDOW {
            let busy = std::mem::take(&mut self.busy);
            self.window = ended;
            if busy * 10 > window * 7 {
                return After::TooMuch;
            }
        }
        self.with_few = match work.messages < FEW {
            true => self.with_few + 1,
            false => 0,
        };
        if self.with_few >= ROUNDS_WITH_FEW {
            return After::TooLittle;
        }
        After::Pause(between.saturating_sub(took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER: Duration = Duration::from_millis(4);

    /// What comes after rounds of so many messages that take so long, till it is no pause; of at most a thousand.
    fn rounds(messages: u64, took: Duration) -> (u32, After) {
        patient_rounds(messages, took, Patience::Full)
    }

    fn patient_rounds(messages: u64, took: Duration, patience: Patience) -> (u32, After) {
        let mut now = Instant::now();
        let mut rounds = Rounds::new(GATHER, now);
        let work = Work {
            messages,
            others: messages,
            streamed: 0,
            associated: 0,
        };
        for number in 1..=1_000 {
            match rounds.after(now, now + took, work, patience) {
                After::Pause(pause) => now += took + pause,
                other => return (number, other),
            }
        }
        (1_000, rounds.after(now, now + took, work, patience))
    }

    #[test]
    fn rounds_begin_as_far_apart_as_messages_may_wait() {
        let took = Duration::from_millis(1);
        assert_eq!(rounds(16, took), (1_000, After::Pause(GATHER - took)));
        assert_eq!(rounds(15, took), (1_000, After::Pause(GATHER / 2 - took)));
    }

    #[test]
    fn rounds_of_nothing_but_registers_are_further_apart() {
        let now = Instant::now();
        let streamed_pause = |gather, messages, others, streamed| {
            let mut rounds = Rounds::new(gather, now);
            let work = Work {
                messages,
                others,
                streamed,
                associated: 0,
            };
            match rounds.after(now, now, work, Patience::Full) {
                After::Pause(pause) => pause,
                other => panic!("{other:?}"),
            }
        };
        let pause = |gather, messages, others| streamed_pause(gather, messages, others, 0);
        assert_eq!(streamed_pause(GATHER, 16, 1, 16), GATHER * 2);
        assert_eq!(streamed_pause(GATHER, 16, 0, 16), GATHER * 4);
        assert_eq!(pause(GATHER, 16, 0), GATHER * 4);
        assert_eq!(pause(GATHER, 16, 1), GATHER);
        assert_eq!(pause(GATHER, 15, 0), GATHER / 2);
        // One socket may have to hold all of them.
        assert_eq!(pause(GATHER, 223, 0), GATHER * 4);
        assert_eq!(pause(GATHER, 224, 0), GATHER * 2);
        for messages in [16, 224] {
            let longest = Duration::from_millis(20);
            assert_eq!(pause(longest * 3 / 4, messages, 0), longest);
            assert_eq!(pause(longest * 2, messages, 0), longest * 2);
        }
    }

    #[test]
    fn too_little_and_too_much_end_them() {
        let much = Duration::from_micros(2_900);
        // The window is full after ten rounds of 4 ms and a bit.
        assert_eq!(rounds(100, much), (11, After::TooMuch));
        let enough = Duration::from_micros(2_700);
        assert_eq!(rounds(100, enough).0, 1_000);
        let little = Duration::from_micros(10);
        assert_eq!(rounds(7, little), (32, After::TooLittle));
        assert_eq!(rounds(8, little).0, 1_000);
    }

    #[test]
    fn those_that_should_not_wait_end_them() {
        let took = Duration::from_micros(10);
        let (little, none) = (Patience::Little, Patience::None);
        assert_eq!(patient_rounds(100, took, none), (1, After::TooLittle));
        let moment = little.of(GATHER);
        // There are few in each, and much to do, for there is little time for more.
        let pause = After::Pause(moment / 2 - took);
        assert_eq!(patient_rounds(1, took, little), (1_000, pause));
        let pause = After::Pause(Duration::ZERO);
        assert_eq!(patient_rounds(100, moment, little), (1_000, pause));
    }

    #[test]
    fn a_single_long_round_is_too_much() {
        assert_eq!(rounds(100, Duration::from_millis(21)), (1, After::TooMuch));
    }
}
