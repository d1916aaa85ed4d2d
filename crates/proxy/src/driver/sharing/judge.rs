//! When workers that have threads of their own should share one.

use std::time::{Duration, Instant};

use super::senders::Work;

/// Looks every now and then at what all workers have done meanwhile.
#[derive(Debug)]
pub(super) struct Judge {
    gather: Duration,
    looked: Instant,
    messages: u64,
    busy: Duration,
    /// Whether what is known is of before: not all threads have told how long they ran since.
    has_parted: bool,
    /// How many times in a row one thread would have been right.
    fitting: u32,
    /// After a shared thread had too much to do.
    not_before: Option<Instant>,
}

/// How long it looks before it judges.
const LOOK: Duration = Duration::from_millis(20);

/// What was seen longer ago says nothing of now.
const STALE: Duration = Duration::from_secs(1);

/// How many times in a row one thread has to be right.
const FITTING: u32 = 2;

/// How long after a shared thread had too much to do none is shared.
const AFTER_TOO_MUCH: Duration = Duration::from_secs(5);

impl Judge {
    pub(super) fn new(gather: Duration, now: Instant) -> Judge {
        Judge {
            gather,
            looked: now,
            messages: 0,
            busy: Duration::ZERO,
            has_parted: false,
            fitting: 0,
            not_before: None,
        }
    }

    /// Told how many messages all workers have handled so far and for how long their threads have run, says whether one thread
    /// is enough and would be busy enough: enough messages to gather, and not more than half of a processor.
    pub(super) fn should_share(&mut self, now: Instant, messages: u64, busy: Duration) -> bool {
        let elapsed = now.saturating_duration_since(self.looked);
        if elapsed < LOOK {
            return false;
        }
        let come = messages.saturating_sub(self.messages);
        let ran = busy.saturating_sub(self.busy);
        self.looked = now;
        self.messages = messages;
        self.busy = busy;
        let has_parted = std::mem::take(&mut self.has_parted);
        let is_known = elapsed < STALE && !has_parted;
        let is_much = u128::from(come) * self.gather.as_nanos()
            >= u128::from(Work::MANY) * elapsed.as_nanos();
        let fits = ran.saturating_mul(2) <= elapsed;
        let may_be = self.not_before.is_none_or(|time| now >= time);
        self.fitting = match is_known && is_much && fits && may_be {
            true => self.fitting + 1,
            false => 0,
        };
        self.fitting >= FITTING
    }

    /// The workers have threads of their own again. Told is the same as to [`should_share`](Judge::should_share).
    pub(super) fn parted(
        &mut self,
        now: Instant,
        messages: u64,
        busy: Duration,
        was_too_much: bool,
    ) {
        self.looked = now;
        self.messages = messages;
        self.busy = busy;
        self.has_parted = true;
        self.fitting = 0;
        if was_too_much {
            self.not_before = Some(now + AFTER_TOO_MUCH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER: Duration = Duration::from_millis(4);

    /// How long it takes until a thread is to be shared, in looks of 20 ms with so many messages and so much work each, of at
    /// most a thousand.
    fn looks(judge: &mut Judge, start: Instant, messages: u64, busy: Duration) -> Option<u32> {
        (1..=1_000).find(|&look| {
            let all = u64::from(look) * messages;
            judge.should_share(start + LOOK * look, all, busy * look)
        })
    }

    #[test]
    fn one_thread_is_shared_where_it_is_busy_enough_and_not_too_busy() {
        let start = Instant::now();
        let new = || Judge::new(GATHER, start);
        let (some, half) = (Duration::from_millis(1), LOOK / 2);
        // 16 messages in 4 ms are 80 in 20.
        assert_eq!(looks(&mut new(), start, 80, some), Some(2));
        assert_eq!(looks(&mut new(), start, 79, some), None);
        assert_eq!(looks(&mut new(), start, 1_000, half), Some(2));
        let more = half + Duration::from_micros(1);
        assert_eq!(looks(&mut new(), start, 1_000, more), None);
    }

    #[test]
    fn after_too_much_threads_are_left_alone_for_a_while() {
        let start = Instant::now();
        let mut judge = Judge::new(GATHER, start);
        judge.parted(start, 0, Duration::ZERO, true);
        let looks = looks(&mut judge, start, 100, Duration::ZERO);
        assert_eq!(looks, Some(251), "5 s and one look more");
    }

    #[test]
    fn what_was_done_on_a_shared_thread_is_no_reason() {
        let start = Instant::now();
        let mut judge = Judge::new(GATHER, start);
        judge.parted(start, 0, Duration::ZERO, false);
        let looks = looks(&mut judge, start, 100, Duration::ZERO);
        assert_eq!(looks, Some(3), "the first one only notes what there is");
    }

    #[test]
    fn what_was_long_ago_is_no_reason() {
        let start = Instant::now();
        let mut judge = Judge::new(GATHER, start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!judge.should_share(after(10), 1 << 30, Duration::ZERO));
        assert!(!judge.should_share(after(20), 1 << 40, Duration::ZERO));
    }
}
