//! When messages leave under a limited rate.

use std::time::{Duration, Instant};

use crate::Bitrate;

/// The schedule of one flow: message *n* leaves at *n* times the message's bits divided by the rate,
/// counted from the start. Nothing is added up, so nothing drifts: who comes late catches up.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    start: Instant,
    /// What the schedule divides: bits of a message times the number of flows that share the rate.
    bits: u128,
    bits_per_second: u128,
}

impl Pacer {
    /// A schedule for messages of `message_bytes` on one of `flows` that share `rate` evenly.
    pub fn new(start: Instant, message_bytes: usize, rate: Bitrate, flows: usize) -> Pacer {
        Pacer {
            start,
            bits: message_bytes as u128 * 8 * flows.max(1) as u128,
            bits_per_second: u128::from(rate.bits_per_second()),
        }
    }

    /// When message `number` leaves; the first one is 0. `None` when that is further off than clocks go.
    pub fn time_of(&self, number: u64) -> Option<Instant> {
        const NANOSECONDS: u128 = 1_000_000_000;
        let nanoseconds = u128::from(number)
            .checked_mul(self.bits)?
            .checked_mul(NANOSECONDS)?
            .div_ceil(self.bits_per_second);
        let offset = Duration::from_nanos(u64::try_from(nanoseconds).ok()?);
        self.start.checked_add(offset)
    }

    /// How many messages leave until `time`, that moment included.
    pub fn count_by(&self, time: Instant) -> u64 {
        const NANOSECONDS: u128 = 1_000_000_000;
        let Some(elapsed) = time.checked_duration_since(self.start) else {
            return 0;
        };
        let passed = elapsed
            .as_nanos()
            .saturating_mul(self.bits_per_second)
            .checked_div(self.bits.saturating_mul(NANOSECONDS))
            .unwrap_or(u128::MAX);
        u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many messages leave within a time.
    fn count_within(pacer: &Pacer, start: Instant, time: Duration) -> u64 {
        (0..)
            .find(|&number| pacer.time_of(number).is_none_or(|at| at >= start + time))
            .unwrap()
    }

    #[test]
    fn a_rate_is_met_exactly() {
        let start = Instant::now();
        for (bytes, bits_per_second, seconds, messages) in [
            (1_000, 8_000, 10, 10),
            (1_000, 8_000_000, 3, 3_000),
            (1_024, 1_000_000, 8, 977),
            (125, 1_000, 5, 5),
        ] {
            let rate = Bitrate::new(bits_per_second).unwrap();
            let pacer = Pacer::new(start, bytes, rate, 1);
            let time = Duration::from_secs(seconds);
            assert_eq!(count_within(&pacer, start, time), messages);
        }
    }

    #[test]
    fn flows_share_the_rate() {
        let start = Instant::now();
        let rate = Bitrate::new(80_000).unwrap();
        let one_of_four = Pacer::new(start, 1_000, rate, 4);
        assert_eq!(
            count_within(&one_of_four, start, Duration::from_secs(10)),
            25
        );
    }

    #[test]
    fn counts_and_times_agree() {
        let start = Instant::now();
        let pacer = Pacer::new(start, 1_024, Bitrate::new(7_777_777).unwrap(), 3);
        for number in [0, 1, 2, 1_000, 123_456_789] {
            let due = pacer.time_of(number).unwrap();
            assert_eq!(pacer.count_by(due), number + 1);
            let just_before = due - Duration::from_nanos(1);
            if number > 0 {
                assert_eq!(pacer.count_by(just_before), number);
            }
        }
        assert_eq!(pacer.count_by(start - Duration::from_secs(1)), 0);
    }

    #[test]
    fn what_never_comes_has_no_time() {
        let pacer = Pacer::new(Instant::now(), usize::MAX, Bitrate::new(1).unwrap(), 1);
        assert_eq!(pacer.time_of(u64::MAX), None);
    }
}
