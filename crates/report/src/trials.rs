//! One figure measured several times.

use serde::{Deserialize, Serialize};

/// The mean of repeated trials, and how far the truth may be from it.
///
/// The interval supposes that trials do not depend on each other and are distributed normally around the
/// truth (Student's distribution).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// How many.
    pub count: usize,
    /// Arithmetic mean; absent without any.
    pub mean: Option<f64>,
    /// Half the width of the 95 % confidence interval; absent with fewer than two trials.
    pub half_width_95: Option<f64>,
}

impl Trials {
    /// Sums up trials; what is not finite is left out.
    pub fn of(trials: impl IntoIterator<Item = f64>) -> Trials {
        let trials: Vec<f64> = trials.into_iter().filter(|one| one.is_finite()).collect();
        let count = trials.len();
        let mean = (count > 0).then(|| trials.iter().sum::<f64>() / count as f64);
        let half_width_95 = mean.filter(|_| count > 1).map(|mean| {
            let squares: f64 = trials.iter().map(|one| (one - mean).powi(2)).sum();
            let variance = squares / (count - 1) as f64;
            student_95(count - 1) * (variance / count as f64).sqrt()
        });
        Trials {
            count,
            mean,
            half_width_95,
        }
    }

    /// The ends of the interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (mean, half) = (self.mean?, self.half_width_95?);
        Some((mean - half, mean + half))
    }
}

/// The quantile of Student's distribution that 2.5 % lie above, by degrees of freedom.
fn student_95(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // From there on it comes near the normal distribution's, as the first term of its expansion says.
    let far = 1.960 + 2.37 / degrees.max(1) as f64;
    TABLE.get(degrees.wrapping_sub(1)).copied().unwrap_or(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_needs_two_trials() {
        assert_eq!(Trials::of([]), Trials::default());
        let one = Trials::of([3.0]);
        assert_eq!((one.count, one.mean, one.interval()), (1, Some(3.0), None));
        let same = Trials::of([3.0, 3.0, f64::NAN]);
        assert_eq!((same.count, same.interval()), (2, Some((3.0, 3.0))));
    }

    #[test]
    fn the_interval_is_students() {
        // Five trials with a standard deviation of √2.5: 2.776 √(2.5 / 5).
        let trials = Trials::of([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(trials.mean, Some(3.0));
        let half = trials.half_width_95.unwrap();
        assert!((half - 1.963).abs() < 0.001, "{half}");
    }

    #[test]
    fn quantiles_fall_towards_the_normal_one() {
        for degrees in 1..200 {
            assert!(student_95(degrees) > student_95(degrees + 1), "{degrees}");
        }
        assert!((student_95(60) - 2.000).abs() < 0.001);
        assert!((student_95(120) - 1.980).abs() < 0.001);
    }
}
