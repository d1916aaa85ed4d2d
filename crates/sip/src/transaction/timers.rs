//! The running timers of all transactions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::action::Timer;
use super::table::PLACE_BITS;

/// Timers in the order in which they fire.
///
/// Transactions use few different times (T1, its doubles, T2, T4, 64*T1), and time does not run
/// backwards. So there is a queue for each: what is started last fires last, and starting and firing
/// cost the same however many timers run. A timer is not stopped: that of a transaction which is gone
/// or has moved on means nothing when it fires, and the former are [swept](Timers::sweep) out when
/// they outnumber the rest.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queues: Vec<VecDeque<Running>>,
    /// The duration of each queue's timers.
    durations: Vec<Duration>,
    /// When the first timer of each queue fires, `NEVER` where it is empty: the queues lie far apart.
    dues: Vec<u64>,
    /// When the first of all fires, and its queue.
    first: Option<(u64, usize)>,
    length: usize,
    /// When the one was due that was taken out last.
    fired: u64,
    /// The time of the first start, from which the others are counted.
    epoch: Option<Instant>,
    /// The time that was asked for last, and how many nanoseconds since the epoch it is: much is done at one time.
    last: Option<(Instant, u64)>,
}

/// When nothing fires.
const NEVER: u64 = u64::MAX;

/// There are millions of them: each takes 16 octets.
#[derive(Debug)]
struct Running {
    /// In nanoseconds since the epoch.
    due: u64,
    /// The number of the transaction, with the timer in bits that no number has.
    what: u64,
}

/// The bits of a transaction's number that have the timer.
const TIMER_BITS: u64 = 0xf << PLACE_BITS;

impl Running {
    fn new(due: u64, transaction: u64, timer: Timer) -> Running {
        let what = transaction & !TIMER_BITS | (timer as u64) << PLACE_BITS;
        Running { due, what }
    }

    fn transaction(&self) -> u64 {
        self.what & !TIMER_BITS
    }

    fn timer(&self) -> Option<Timer> {
        let code = (self.what & TIMER_BITS) >> PLACE_BITS;
        Timer::ALL.get(code as usize).copied()
    }
}

impl Timers {
    /// How many are running, those of transactions that are gone included.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Lets a timer of a transaction fire after a time. One that is further away than an `Instant`, or
    /// five hundred years, never fires.
    pub(super) fn start(
        &mut self,
        now: Instant,
        duration: Duration,
        transaction: u64,
        timer: Timer,
    ) {
        let Some(elapsed) = self.elapsed(now) else {
            return;
        };
        self.start_at(elapsed, duration, transaction, timer);
    }

    /// Lets a timer of a transaction fire after a time from that at which the timer was due that was taken out last: it
    /// does not matter how late that was.
    pub(super) fn follow(&mut self, duration: Duration, transaction: u64, timer: Timer) {
        self.start_at(self.fired, duration, transaction, timer);
    }

    /// Lets a timer fire after a time from so many nanoseconds since the epoch.
    fn start_at(&mut self, elapsed: u64, duration: Duration, transaction: u64, timer: Timer) {
        let lasts = u64::try_from(duration.as_nanos()).ok();
        let due = lasts.and_then(|lasts| elapsed.checked_add(lasts));
        let Some(due) = due.filter(|due| *due < NEVER) else {
            return;
        };
        let at = self.queue_of(duration);
        let running = &mut self.queues[at];
        // A caller whose clock stepped back must not bring the queue out of order, nor one that follows another.
        let due = running.back().map_or(due, |last| last.due.max(due));
        if running.is_empty() {
            self.dues[at] = due;
        }
        running.push_back(Running::new(due, transaction, timer));
        self.length += 1;
        if self.first.is_none_or(|first| (due, at) < first) {
            self.first = Some((due, at));
        }
    }

    /// The nanoseconds from the epoch to a time; 0 where that is before. `None` where they are too many.
    fn elapsed(&mut self, now: Instant) -> Option<u64> {
        if let Some((last, elapsed)) = self.last
            && last == now
        {
            return Some(elapsed);
        }
        let epoch = *self.epoch.get_or_insert(now);
        let elapsed = now.saturating_duration_since(epoch).as_nanos();
        let elapsed = u64::try_from(elapsed).ok()?;
        self.last = Some((now, elapsed));
        Some(elapsed)
    }

    /// The place of the queue of this duration.
    fn queue_of(&mut self, duration: Duration) -> usize {
        let mut durations = self.durations.iter();
        let found = durations.position(|other| *other == duration);
        found.unwrap_or_else(|| {
            self.queues.push(VecDeque::new());
            self.durations.push(duration);
            self.dues.push(NEVER);
            self.queues.len() - 1
        })
    }

    /// When the first timer fires, be it one that means nothing any more.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let (due, _) = self.first?;
        self.epoch?.checked_add(Duration::from_nanos(due))
    }

    /// Those that fire by now, in no order.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = (u64, Timer)> {
        let elapsed = self.elapsed(now).unwrap_or(0);
        let is_due = move |running: &&Running| running.due <= elapsed;
        let queues = self.queues.iter().zip(&self.dues);
        let queues = queues.filter(move |(_, due)| **due <= elapsed);
        let due = queues.flat_map(move |(queue, _)| queue.iter().take_while(is_due));
        due.filter_map(|running| Some((running.transaction(), running.timer()?)))
    }

    /// Takes out the first timer, if it fires by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(u64, Timer)> {
        let (due, at) = self.first?;
        if due > self.elapsed(now)? {
            return None;
        }
        let queue = &mut self.queues[at];
        let running = queue.pop_front()?;
        self.dues[at] = next_due(queue);
        self.length -= 1;
        self.fired = due;
        self.find_first();
        Some((running.transaction(), running.timer()?))
    }

    fn find_first(&mut self) {
        let mut first = (NEVER, 0);
        for (at, due) in self.dues.iter().enumerate() {
            if *due < first.0 {
                first = (*due, at);
            }
        }
        self.first = (first.0 < NEVER).then_some(first);
    }

    /// Forgets the timers of transactions that are gone.
    pub(super) fn sweep(&mut self, is_alive: impl Fn(u64, Timer) -> bool) {
        for (queue, due) in self.queues.iter_mut().zip(&mut self.dues) {
            queue.retain(|running| {
                let timer = running.timer();
                timer.is_some_and(|timer| is_alive(running.transaction(), timer))
            });
            *due = next_due(queue);
        }
        self.length = self.queues.iter().map(VecDeque::len).sum();
        self.find_first();
    }
}

fn next_due(queue: &VecDeque<Running>) -> u64 {
    queue.front().map_or(NEVER, |running| running.due)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timers_fire_in_order_of_time() {
        let mut timers = Timers::default();
        let start = Instant::now();
        timers.start(start, SECOND * 4, 1, Timer::F);
        timers.start(start, SECOND, 2, Timer::E);
        timers.start(start + SECOND, SECOND * 2, 3, Timer::E);
        timers.start(start + SECOND, SECOND * 4, 4, Timer::F);
        assert_eq!(timers.next_timeout(), Some(start + SECOND));
        assert_eq!(timers.pop_due(start), None);
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop_due(start + SECOND * 5)).collect();
        let expected = [(2, Timer::E), (3, Timer::E), (1, Timer::F), (4, Timer::F)];
        assert_eq!(fired, expected);
        assert_eq!((timers.next_timeout(), timers.len()), (None, 0));
    }

    #[test]
    fn what_follows_a_timer_does_not_wait_for_one_that_fires_late() {
        let mut timers = Timers::default();
        let start = Instant::now();
        timers.start(start, SECOND, 1, Timer::E);
        let late = start + SECOND * 5;
        assert_eq!(timers.pop_due(late), Some((1, Timer::E)));
        timers.start(late, SECOND, 1, Timer::E);
        timers.follow(SECOND * 3, 1, Timer::F);
        assert_eq!(timers.next_timeout(), Some(start + SECOND * 4));
        assert_eq!(timers.pop_due(late), Some((1, Timer::F)));
        assert_eq!(timers.pop_due(late), None);
    }

    #[test]
    fn timers_and_transactions_come_out_as_they_went_in() {
        for timer in Timer::ALL {
            for transaction in [0, (1 << PLACE_BITS) - 1, u64::MAX << 32, 7 << 32 | 5] {
                let running = Running::new(1, transaction, timer);
                let found = (running.transaction(), running.timer());
                assert_eq!(found, (transaction, Some(timer)));
            }
        }
    }

    #[test]
    fn a_clock_that_steps_back_brings_no_disorder() {
        let mut timers = Timers::default();
        let start = Instant::now() + SECOND;
        timers.start(start, SECOND, 1, Timer::E);
        timers.start(start - SECOND, SECOND, 2, Timer::E);
        assert_eq!(timers.pop_due(start + SECOND), Some((1, Timer::E)));
        assert_eq!(timers.pop_due(start + SECOND), Some((2, Timer::E)));
    }

    #[test]
    fn times_out_of_reach_never_fire() {
        let mut timers = Timers::default();
        timers.start(Instant::now(), Duration::MAX, 1, Timer::D);
        assert_eq!((timers.next_timeout(), timers.len()), (None, 0));
    }

    #[test]
    fn sweeping_leaves_the_living() {
        let mut timers = Timers::default();
        let start = Instant::now();
        for transaction in 0..10 {
            timers.start(start, SECOND, transaction, Timer::K);
        }
        timers.sweep(|transaction, _| transaction % 5 == 0);
        assert_eq!(timers.len(), 2);
        assert_eq!(timers.pop_due(start + SECOND), Some((0, Timer::K)));
        assert_eq!(timers.pop_due(start + SECOND), Some((5, Timer::K)));
    }
}
