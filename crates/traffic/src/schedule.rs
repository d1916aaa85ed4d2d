//! When packets leave.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use link::words::duration;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;

/// How departures are spread over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// At equal distances.
    Constant,
    /// As if each packet knew nothing of the others: distances are exponentially distributed.
    Poisson,
    /// At equal distances for a while, then not at all.
    OnOff {
        /// How long packets leave.
        on: Duration,
        /// How long none does.
        off: Duration,
    },
    /// The same with times that are exponentially distributed around these means: talkspurts and pauses.
    RandomOnOff {
        /// How long packets leave, in the mean.
        on: Duration,
        /// How long none does, in the mean.
        off: Duration,
    },
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Constant => formatter.write_str("constant"),
            Pattern::Poisson => formatter.write_str("poisson"),
            Pattern::OnOff { on, off } => write!(formatter, "on-off:{on:?},{off:?}"),
            Pattern::RandomOnOff { on, off } => {
                write!(formatter, "random-on-off:{on:?},{off:?}")
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    /// Reads `constant`, `poisson`, `on-off:1s,500ms` or `random-on-off:1s,1.35s`.
    fn from_str(text: &str) -> Result<Pattern, String> {
        let (name, times) = match text.split_once(':') {
            Some((name, times)) => (name, Some(times)),
            None => (text, None),
        };
        let times = || {
            let (on, off) = times?.split_once(',')?;
            let [on, off] = [duration(on).ok()?, duration(off).ok()?];
            (on >= Duration::from_millis(1)).then_some((on, off))
        };
        let pattern = match (name, times()) {
            ("constant", None) => Some(Pattern::Constant),
            ("poisson", None) => Some(Pattern::Poisson),
            ("on-off", Some((on, off))) => Some(Pattern::OnOff { on, off }),
            ("random-on-off", Some((on, off))) => Some(Pattern::RandomOnOff { on, off }),
            _ => None,
        };
        pattern.ok_or_else(|| {
            format!(
                "\"{text}\" is not a pattern: use constant, poisson, on-off:1s,500ms or random-on-off:1s,1.35s"
            )
        })
    }
}

/// Departures of one run, counted from its start.
#[derive(Debug)]
pub struct Schedule {
    pattern: Pattern,
    /// Packets a second while there are any; `None` for as fast as it goes.
    rate: Option<f64>,
    rng: ChaCha12Rng,
    /// Packets planned until now.
    count: u64,
    /// Of Poisson arrivals the last one, seconds.
    last: f64,
    /// The time that this phase of sending began, counted without pauses, and with them.
    phase: (f64, f64),
    /// When it ends, counted without pauses.
    phase_end: f64,
}

impl Schedule {
    /// A schedule; `rate` is above zero.
    pub fn new(pattern: Pattern, rate: Option<f64>, rng: ChaCha12Rng) -> Schedule {
        let mut schedule = Schedule {
            pattern,
            rate,
            rng,
            count: 0,
            last: 0.0,
            phase: (0.0, 0.0),
            phase_end: f64::INFINITY,
        };
        schedule.phase_end = schedule.draw_on();
        schedule
    }

    /// Whether there is a time for each packet.
    pub fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// When the next packet leaves, after the start. Nothing is added up that could drift, but for random
    /// times, which do not know where they should be.
    pub fn next_departure(&mut self) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let seconds = match self.pattern {
            Pattern::Constant => self.count as f64 / rate,
            Pattern::Poisson => {
                self.last += self.exponential(1.0 / rate);
                self.last
            }
            Pattern::OnOff { .. } | Pattern::RandomOnOff { .. } => {
                let sending = self.count as f64 / rate;
                while sending >= self.phase_end {
                    let length = self.phase_end - self.phase.0;
                    let pause = self.draw_off();
                    self.phase = (self.phase_end, self.phase.1 + length + pause);
                    self.phase_end += self.draw_on();
                }
                self.phase.1 + (sending - self.phase.0)
            }
        };
        self.count += 1;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn draw_on(&mut self) -> f64 {
        match self.pattern {
            Pattern::Constant | Pattern::Poisson => f64::INFINITY,
            Pattern::OnOff { on, .. } => on.as_secs_f64(),
            // A phase of no length at all would be none.
            Pattern::RandomOnOff { on, .. } => self.exponential(on.as_secs_f64()).max(1e-6),
        }
    }

    fn draw_off(&mut self) -> f64 {
        match self.pattern {
            Pattern::Constant | Pattern::Poisson => 0.0,
            Pattern::OnOff { off, .. } => off.as_secs_f64(),
            Pattern::RandomOnOff { off, .. } => self.exponential(off.as_secs_f64()),
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        let uniform: f64 = self.rng.random_range(0.0..1.0);
        -(1.0 - uniform).ln() * mean
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn departures(pattern: &str, rate: f64, count: usize) -> Vec<f64> {
        let rng = ChaCha12Rng::seed_from_u64(7);
        let mut schedule = Schedule::new(pattern.parse().unwrap(), Some(rate), rng);
        (0..count)
            .map(|_| schedule.next_departure().as_secs_f64())
            .collect()
    }

    #[test]
    fn constant_departures_do_not_drift() {
        let times = departures("constant", 3.0, 3_000_001);
        assert_eq!(times[0], 0.0);
        assert!((times[3_000_000] - 1e6).abs() < 1e-6);
    }

    #[test]
    fn poisson_departures_have_the_rate_and_the_spread() {
        let times = departures("poisson", 1000.0, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 1000.0 - 1.0).abs() < 0.02, "{mean}");
        // The deviation of the exponential distribution is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn pauses_are_kept() {
        let times = departures("on-off:1s,500ms", 10.0, 25);
        assert_eq!(times[9], 0.9);
        assert!((times[10] - 1.5).abs() < 1e-9);
        assert!((times[20] - 3.0).abs() < 1e-9);
    }

    #[test]
    fn random_pauses_have_their_mean() {
        let times = departures("random-on-off:1s,3s", 10.0, 40_000);
        // A quarter of the time there are ten a second.
        let rate = times.len() as f64 / times[times.len() - 1];
        assert!((rate - 2.5).abs() < 0.25, "{rate}");
    }

    #[test]
    fn without_a_rate_everything_is_due() {
        let rng = ChaCha12Rng::seed_from_u64(7);
        let mut schedule = Schedule::new(Pattern::Poisson, None, rng);
        assert_eq!(schedule.next_departure(), Duration::ZERO);
        assert_eq!(schedule.next_departure(), Duration::ZERO);
    }

    #[test]
    fn patterns_are_read_as_they_are_written() {
        for text in [
            "constant",
            "poisson",
            "on-off:1s,500ms",
            "random-on-off:1s,1.35s",
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "bursts",
            "on-off",
            "on-off:1s",
            "on-off:0s,1s",
            "constant:1s,1s",
            "on-off:1,1s",
        ] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn time_never_goes_back(rate in 0.001_f64..1e7, seed in any::<u64>(), kind in 0..4) {
            let pattern = match kind {
                0 => Pattern::Constant,
                1 => Pattern::Poisson,
                2 => Pattern::OnOff { on: Duration::from_millis(7), off: Duration::from_millis(3) },
                _ => Pattern::RandomOnOff { on: Duration::from_millis(7), off: Duration::from_millis(3) },
            };
            let mut schedule = Schedule::new(pattern, Some(rate), ChaCha12Rng::seed_from_u64(seed));
            let mut before = Duration::ZERO;
            for _ in 0..20 {
                let next = schedule.next_departure();
                prop_assert!(next >= before);
                before = next;
            }
        }
    }
}
