//! The running timers of all transactions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::action::Timer;

/// Timers in the order in which they fire.
///
/// Transactions use few different times (T1, its doubles, T2, T4, 64*T1), and time does not run
/// backwards. So there is a queue for each: what is started last fires last, and starting and firing
/// cost the same however many timers run. A timer is not stopped: that of a transaction which is gone
/// or has moved on means nothing when it fires, and the former are [swept](Timers::sweep) out when
/// they outnumber the rest.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queues: Vec<Queue>,
    length: usize,
}

/// The timers of one duration.
#[derive(Debug)]
struct Queue {
    duration: Duration,
    running: VecDeque<Running>,
}

#[derive(Debug)]
struct Running {
    due: Instant,
    transaction: u64,
    timer: Timer,
}

impl Timers {
    /// How many are running, those of transactions that are gone included.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Lets a timer of a transaction fire after a time. One that is further away than an `Instant`
    /// can tell never fires.
    pub(super) fn start(
        &mut self,
        now: Instant,
        duration: Duration,
        transaction: u64,
        timer: Timer,
    ) {
        let Some(due) = now.checked_add(duration) else {
            return;
        };
        let running = match self
            .queues
            .iter_mut()
            .position(|queue| queue.duration == duration)
        {
            Some(at) => &mut self.queues[at].running,
            None => {
                self.queues.push(Queue {
                    duration,
                    running: VecDeque::new(),
                });
                let last = self.queues.len() - 1;
                &mut self.queues[last].running
            }
        };
        // A caller whose clock stepped back must not bring the queue out of order.
        let due = running.back().map_or(due, |last| last.due.max(due));
        running.push_back(Running {
            due,
            transaction,
            timer,
        });
        self.length += 1;
    }

    /// When the first timer fires, be it one that means nothing any more.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.queues.iter().filter_map(Queue::next_timeout).min()
    }

    /// Takes out the first timer, if it fires by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(u64, Timer)> {
        let queue = self
            .queues
            .iter_mut()
            .filter(|queue| queue.next_timeout().is_some_and(|due| due <= now))
            .min_by_key(|queue| queue.next_timeout())?;
        let running = queue.running.pop_front()?;
        self.length -= 1;
        Some((running.transaction, running.timer))
    }

    /// Forgets the timers of transactions that are gone.
    pub(super) fn sweep(&mut self, is_alive: impl Fn(u64, Timer) -> bool) {
        for queue in &mut self.queues {
            queue
                .running
                .retain(|running| is_alive(running.transaction, running.timer));
        }
        self.length = self.queues.iter().map(|queue| queue.running.len()).sum();
    }
}

impl Queue {
    fn next_timeout(&self) -> Option<Instant> {
        self.running.front().map(|running| running.due)
    }
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
