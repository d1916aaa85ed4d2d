//! A token bucket: a rate that may be saved up for a while.

use std::time::{Duration, Instant};

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    per_second: f64,
    /// The most tokens that are saved up; at least one, or nothing would ever pass.
    size: f64,
}

/// Tokens that come at a steady rate; each thing that passes takes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Below zero where something took more than there was.
    tokens: f64,
    filled: Instant,
}

impl Rate {
    pub(super) fn new(per_second: u32, burst: Duration) -> Rate {
        let per_second = f64::from(per_second);
        Rate {
            per_second,
            size: (per_second * burst.as_secs_f64()).max(1.0),
        }
    }

    /// As much again as may be saved up.
    pub(super) fn whole_burst(&self) -> f64 {
        self.size
    }
}

impl Bucket {
    /// A full one.
    pub(super) fn full(now: Instant, rate: &Rate) -> Bucket {
        Bucket {
            tokens: rate.size,
            filled: now,
        }
    }

    /// Takes a token. Returns whether there was one, or whether the debt stays within `credit`.
    pub(super) fn take(&mut self, now: Instant, rate: &Rate, credit: f64) -> bool {
        let is_enough = self.has_one(now, rate, credit);
        if is_enough {
            self.tokens -= 1.0;
        }
        is_enough
    }

    /// Whether [`take`](Bucket::take) would find a token.
    pub(super) fn has_one(&mut self, now: Instant, rate: &Rate, credit: f64) -> bool {
        self.fill(now, rate);
        self.tokens + credit >= 1.0
    }

    /// Takes a token that is owed, be there one or not, as long as the debt stays within `deepest`.
    pub(super) fn owe(&mut self, now: Instant, rate: &Rate, deepest: f64) {
        self.fill(now, rate);
        self.tokens = (self.tokens - 1.0).max(-deepest);
    }

    /// Puts a token back that should not have been taken.
    pub(super) fn give_back(&mut self, now: Instant, rate: &Rate) {
        self.fill(now, rate);
        self.tokens = (self.tokens + 1.0).min(rate.size);
    }

    /// Whether nothing would change if it was made anew.
    pub(super) fn is_full(&mut self, now: Instant, rate: &Rate) -> bool {
        self.fill(now, rate);
        self.tokens >= rate.size
    }

    fn fill(&mut self, now: Instant, rate: &Rate) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate.per_second).min(rate.size);
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_up_passes_at_once_and_then_the_rate() {
        let now = Instant::now();
        let rate = Rate::new(10, Duration::from_secs(2));
        let mut bucket = Bucket::full(now, &rate);
        let passed = (0..100).filter(|_| bucket.take(now, &rate, 0.0)).count();
        assert_eq!(passed, 20);
        let later = now + Duration::from_secs(1);
        assert!(!bucket.is_full(later, &rate));
        let passed = (0..100).filter(|_| bucket.take(later, &rate, 0.0)).count();
        assert_eq!(passed, 10);
        assert!(bucket.is_full(later + Duration::from_secs(2), &rate));
    }

    #[test]
    fn a_credit_is_paid_back() {
        let now = Instant::now();
        let rate = Rate::new(10, Duration::from_secs(1));
        let mut bucket = Bucket::full(now, &rate);
        let passed = (0..100).filter(|_| bucket.take(now, &rate, 5.0)).count();
        assert_eq!(passed, 15);
        assert!(!bucket.take(now + Duration::from_millis(500), &rate, 0.0));
        assert!(bucket.take(now + Duration::from_millis(601), &rate, 0.0));
    }

    #[test]
    fn what_is_owed_is_paid_back_and_no_more_than_that() {
        let now = Instant::now();
        let rate = Rate::new(10, Duration::from_secs(1));
        let mut bucket = Bucket::full(now, &rate);
        for _ in 0..100 {
            bucket.owe(now, &rate, 20.0);
        }
        assert!(!bucket.take(now, &rate, 20.0));
        assert!(bucket.has_one(now, &rate, 21.0));
        assert!(!bucket.take(now + Duration::from_millis(2000), &rate, 0.0));
        assert!(bucket.take(now + Duration::from_millis(2101), &rate, 0.0));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_is_no_gain() {
        let now = Instant::now();
        let rate = Rate::new(10, Duration::from_secs(1));
        let mut bucket = Bucket::full(now, &rate);
        bucket.give_back(now, &rate);
        let passed = (0..100).filter(|_| bucket.take(now, &rate, 0.0)).count();
        assert_eq!(passed, 10);
        bucket.give_back(now, &rate);
        assert!(bucket.has_one(now, &rate, 0.0));
        assert!(bucket.take(now, &rate, 0.0));
        assert!(!bucket.has_one(now, &rate, 0.0));
        assert!(bucket.has_one(now, &rate, 1.0));
    }

    #[test]
    fn a_clock_that_stands_or_a_rate_below_one_a_burst_lets_one_pass() {
        let now = Instant::now();
        let rate = Rate::new(1, Duration::ZERO);
        let mut bucket = Bucket::full(now, &rate);
        assert!(bucket.take(now, &rate, 0.0));
        assert!(!bucket.take(now, &rate, 0.0));
    }
}
