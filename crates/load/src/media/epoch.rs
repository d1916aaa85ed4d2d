//! The wall clock of reports.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From 1900, where NTP timestamps begin (RFC 3550 section 4), to 1970, seconds.
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// What the wall clock said at one moment of the monotonic clock; from there the latter alone goes on, so
/// that a clock that is set does not tear measurements.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    start: Instant,
    /// The NTP timestamp of the start.
    ntp: u64,
}

impl Epoch {
    /// Both clocks at one moment.
    pub fn new(start: Instant, wall: SystemTime) -> Epoch {
        let unix = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ntp = fixed_point(unix).wrapping_add(NTP_TO_UNIX << 32);
        Epoch { start, ntp }
    }

    /// A moment as an NTP timestamp: 32 bits of seconds, 32 of their fraction.
    pub(super) fn ntp(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start);
        self.ntp.wrapping_add(fixed_point(elapsed))
    }

    /// The middle of a moment's timestamp: units of 1/65,536 s.
    pub(super) fn middle(&self, now: Instant) -> u32 {
        (self.ntp(now) >> 16) as u32
    }

    /// Seconds from the start to an NTP timestamp, which may lie before it.
    pub(super) fn seconds(&self, ntp: u64) -> f64 {
        ntp.wrapping_sub(self.ntp) as i64 as f64 / (1_u64 << 32) as f64
    }

    /// Seconds from the start to a moment.
    pub(super) fn since_start(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.start).as_secs_f64()
    }
}

fn fixed_point(time: Duration) -> u64 {
    let fraction = (u64::from(time.subsec_nanos()) << 32) / 1_000_000_000;
    time.as_secs() << 32 | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_count_from_1900() {
        let now = Instant::now();
        let epoch = Epoch::new(now, UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(epoch.ntp(now) >> 32, NTP_TO_UNIX + 1);
        assert_eq!(epoch.ntp(now) as u32, 1 << 31);
        let later = now + Duration::from_millis(250);
        assert_eq!(epoch.middle(later).wrapping_sub(epoch.middle(now)), 16_384);
        assert_eq!(epoch.seconds(epoch.ntp(later)), 0.25);
        let before = epoch.ntp(now) - (1 << 32);
        assert_eq!(epoch.seconds(before), -1.0);
        assert_eq!(epoch.since_start(later), 0.25);
    }
}
