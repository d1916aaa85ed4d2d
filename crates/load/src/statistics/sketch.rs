//! Delays of one interval of a series: few octets, percentiles to two figures.

use std::time::Duration;

/// A histogram that keeps only what is not zero, in steps of at most 1/64 of the delay: as small as its
/// samples are alike, so that there can be one for each second of an hour. An HDR histogram of two figures takes four times
/// the memory, and every live report copies all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Number of a step and samples in it, in the order of steps; never zero samples.
    steps: Vec<(u16, u32)>,
    count: u64,
    longest: Duration,
}

impl Sketch {
    /// No samples yet.
    pub const fn new() -> Sketch {
        Sketch {
            steps: Vec::new(),
            count: 0,
            longest: Duration::ZERO,
        }
    }

    /// Adds a sample.
    pub fn record(&mut self, delay: Duration) {
        self.add(step_of(delay), 1);
        self.count += 1;
        self.longest = self.longest.max(delay);
    }

    /// Adds the samples of another one.
    pub fn merge(&mut self, other: &Sketch) {
        for &(step, samples) in &other.steps {
            self.add(step, samples);
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exact; none without a sample.
    pub fn maximum(&self) -> Option<Duration> {
        (self.count > 0).then_some(self.longest)
    }

    /// The delay that this part of the samples (0 to 1) does not exceed, within 1 %; none without a
    /// sample.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let rank = ((part.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut before = 0;
        self.steps.iter().find_map(|&(step, samples)| {
            before += u64::from(samples);
            (before >= rank).then(|| middle_of(step).min(self.longest))
        })
    }

    fn add(&mut self, step: u16, samples: u32) {
        match self.steps.binary_search_by_key(&step, |&(step, _)| step) {
            Ok(at) => self.steps[at].1 = self.steps[at].1.saturating_add(samples),
            Err(at) => self.steps.insert(at, (step, samples)),
        }
    }
}

/// Steps in an octave, as a power of two.
const FINENESS: u32 = 6;

/// The step of a delay: nanoseconds below 64 have one each, and each octave from there on has 64.
fn step_of(delay: Duration) -> u16 {
    let nanoseconds = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    let octave = nanoseconds.checked_ilog2().unwrap_or(0).max(FINENESS) - FINENESS;
    // Below the first octave that is divided this is the number itself.
    let within = nanoseconds >> octave;
    ((u64::from(octave) << FINENESS) + within) as u16
}

/// The middle of a step.
fn middle_of(step: u16) -> Duration {
    let step = u64::from(step);
    let octave = (step >> FINENESS).saturating_sub(1);
    let within = step - (octave << FINENESS);
    Duration::from_nanos((within << octave) + ((1 << octave) >> 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_samples_there_is_no_percentile() {
        assert_eq!(Sketch::new().quantile(0.5), None);
        assert_eq!(Sketch::new().maximum(), None);
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut sketch = Sketch::new();
        for microseconds in 1..=1000 {
            sketch.record(Duration::from_micros(microseconds));
        }
        for (part, expected) in [(0.5, 500e-6), (0.95, 950e-6), (0.99, 990e-6), (1.0, 1e-3)] {
            let found = sketch.quantile(part).unwrap().as_secs_f64();
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "{part}: {found} for {expected}"
            );
        }
        assert_eq!(sketch.maximum(), Some(Duration::from_millis(1)));
    }

    #[test]
    fn the_longest_delay_has_a_step() {
        assert!(step_of(Duration::MAX) < u16::MAX);
        assert!(middle_of(step_of(Duration::MAX)) > Duration::from_secs(1 << 33));
    }

    proptest! {
        #[test]
        fn the_middle_of_a_step_is_near_all_of_it(nanoseconds in any::<u64>()) {
            let delay = Duration::from_nanos(nanoseconds);
            let middle = middle_of(step_of(delay)).as_nanos() as f64;
            prop_assert!((middle - nanoseconds as f64).abs() <= nanoseconds as f64 / 128.0 + 0.5);
        }

        #[test]
        fn steps_are_in_the_order_of_delays(left in any::<u64>(), right in any::<u64>()) {
            let (short, long) = (left.min(right), left.max(right));
            prop_assert!(
                step_of(Duration::from_nanos(short)) <= step_of(Duration::from_nanos(long))
            );
        }
    }
}
