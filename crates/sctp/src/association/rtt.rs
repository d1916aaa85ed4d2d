//! Round-trip time and retransmission timeout of one path (RFC 9260 section 6.3.1).

use std::time::Duration;

use crate::PathConfig;
use crate::congestion::PathRtt;

/// The clock granularity G of rule G1.
const GRANULARITY: Duration = Duration::from_millis(1);

/// SRTT, RTTVAR and RTO of a path.
#[derive(Debug, Clone)]
pub(crate) struct RoundTripTime {
    smoothed: Option<Smoothed>,
    latest: Duration,
    /// How long it takes at least since then.
    at_least: Duration,
    min: Duration,
    /// What each byte in flight adds to `min`, in seconds.
    queued_per_byte: Option<f64>,
    rto: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Smoothed {
    srtt: Duration,
    rttvar: Duration,
}

impl RoundTripTime {
    /// Before any measurement (rule C1).
    pub(crate) fn new(config: &PathConfig) -> RoundTripTime {
        RoundTripTime {
            smoothed: None,
            latest: Duration::ZERO,
            at_least: Duration::ZERO,
            min: Duration::MAX,
            queued_per_byte: None,
            rto: config.rto_initial.min(config.rto_max),
        }
    }

    /// SRTT; `None` before the first measurement.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed.srtt)
    }

    /// What the measurements say together; `None` before the first one.
    pub(crate) fn summary(&self) -> Option<PathRtt> {
        self.smoothed.map(|smoothed| PathRtt {
            smoothed: smoothed.srtt,
            latest: self.latest,
            min: self.min,
        })
    }

    /// RTTVAR; zero before the first measurement.
    pub(crate) fn rttvar(&self) -> Duration {
        self.smoothed
            .map_or(Duration::ZERO, |smoothed| smoothed.rttvar)
    }

    /// The retransmission timeout, backed off as it may be.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// The latest measurement, or more, where something takes longer that is not acknowledged yet. The RTO before the
    /// first one.
    pub(crate) fn latest(&self) -> Duration {
        let latest = self.smoothed.map_or(self.rto, |_| self.latest);
        latest.max(self.at_least)
    }

    /// The latest measurement is that of a packet with which so many bytes were in flight.
    pub(crate) fn loaded(&mut self, flight: usize) {
        let queued = self.latest.saturating_sub(self.min);
        self.queued_per_byte = Some(queued.as_secs_f64() / flight.max(1) as f64);
    }

    /// How long it takes with so many bytes in flight; `None` before the first measurement.
    pub(crate) fn with_load(&self, flight: usize) -> Option<Duration> {
        let srtt = self.srtt()?;
        let time = match self.queued_per_byte {
            Some(per_byte) => self.min + Duration::from_secs_f64(per_byte * flight as f64),
            None => srtt.max(self.latest),
        };
        Some(time.max(self.at_least))
    }

    /// Something is not acknowledged for so long, and never will be without doubt: it goes out once more.
    pub(crate) fn takes_at_least(&mut self, time: Duration) {
        self.at_least = self.at_least.max(time);
    }

    /// Notes a round-trip time that SRTT need not count: of several in one round trip it counts one (rule C4).
    pub(crate) fn observe(&mut self, rtt: Duration) {
        self.latest = rtt;
        self.at_least = Duration::ZERO;
        self.min = self.min.min(rtt);
    }

    /// Takes in a measurement (rules C2, C3, C6, C7). It ends any back-off.
    pub(crate) fn measure(&mut self, rtt: Duration, config: &PathConfig) {
        self.observe(rtt);
        let smoothed = match self.smoothed {
            None => Smoothed {
                srtt: rtt,
                rttvar: rtt / 2,
            },
            Some(Smoothed { srtt, rttvar }) => Smoothed {
                rttvar: weigh(rttvar, srtt.abs_diff(rtt), config.rto_beta),
                srtt: weigh(srtt, rtt, config.rto_alpha),
            },
        };
        let smoothed = Smoothed {
            rttvar: if smoothed.rttvar.is_zero() {
                GRANULARITY
            } else {
                smoothed.rttvar
            },
            ..smoothed
        };
        self.smoothed = Some(smoothed);
        self.rto = (smoothed.srtt + 4 * smoothed.rttvar)
            .max(config.rto_min)
            .min(config.rto_max);
    }

    /// Doubles the timeout (rule E2 of section 6.3.3).
    pub(crate) fn back_off(&mut self, config: &PathConfig) {
        self.rto = self.rto.saturating_mul(2).min(config.rto_max);
    }
}

/// The mean of `old` and `new`, with `weight`, from 0 to 1, for `new`.
fn weigh(old: Duration, new: Duration, weight: f64) -> Duration {
    old.mul_f64(1.0 - weight) + new.mul_f64(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PathConfig {
        PathConfig::default().rto_min(Duration::from_millis(10))
    }

    fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn follows_rules_c1_to_c3() {
        let config = config();
        let mut rtt = RoundTripTime::new(&config);
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        rtt.measure(milliseconds(100), &config);
        assert_eq!(rtt.srtt(), Some(milliseconds(100)));
        assert_eq!(rtt.rto(), milliseconds(300));
        rtt.measure(milliseconds(180), &config);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(rtt.srtt(), Some(milliseconds(110)));
        assert_eq!(rtt.rto(), milliseconds(340));
        rtt.measure(milliseconds(150), &config);
        let summary = rtt.summary().map(|summary| (summary.latest, summary.min));
        assert_eq!(summary, Some((milliseconds(150), milliseconds(100))));
    }

    #[test]
    fn stays_between_its_bounds() {
        let config = PathConfig::default();
        let mut rtt = RoundTripTime::new(&config);
        rtt.measure(Duration::ZERO, &config);
        assert_eq!(rtt.rto(), config.rto_min);
        rtt.measure(Duration::from_secs(1000), &config);
        assert_eq!(rtt.rto(), config.rto_max);
    }

    #[test]
    fn doubles_until_the_maximum_and_collapses_with_a_measurement() {
        let config = PathConfig::default();
        let mut rtt = RoundTripTime::new(&config);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(rtt.rto().as_secs());
            rtt.back_off(&config);
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 60, 60]);
        rtt.measure(milliseconds(20), &config);
        assert_eq!(rtt.rto(), config.rto_min);
    }
}
