//! Whether one of two things is less than the other by more than chance.

use report::Trials;

/// By how much a figure of one thing is above that of another, from trials of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    trials: Trials,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The figure of the first is above that of the second.
    Greater,
    /// It is below.
    Less,
    /// They cannot be told apart: zero is within the 95 % confidence interval, or there is none.
    Inconclusive,
}

impl Difference {
    /// Of the first above the second, trial by trial; what has no pair, and what is no finite number, counts for
    /// nothing.
    pub(crate) fn of(
        first: impl IntoIterator<Item = f64>,
        second: impl IntoIterator<Item = f64>,
    ) -> Difference {
        let pairs = first.into_iter().zip(second);
        Difference {
            trials: Trials::of(pairs.map(|(first, second)| first - second)),
        }
    }

    pub(crate) fn comparison(self) -> Comparison {
        match self.trials.interval() {
            Some((low, _)) if low > 0.0 => Comparison::Greater,
            Some((_, high)) if high < 0.0 => Comparison::Less,
            _ => Comparison::Inconclusive,
        }
    }

    pub(crate) fn mean(self) -> f64 {
        self.trials.mean.unwrap_or(f64::NAN)
    }

    /// Half the width of its 95 % confidence interval.
    pub(crate) fn half_width(self) -> f64 {
        self.trials.half_width_95.unwrap_or(f64::NAN)
    }

    /// Its size with its interval, as it stands in a sentence.
    pub(crate) fn with_interval(self, unit: &str) -> String {
        format!(
            "{} ± {} {unit}",
            figure(self.mean().abs()),
            figure(self.half_width())
        )
    }
}

/// With three figures or so.
fn figure(value: f64) -> String {
    let decimals = match value {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_within_the_interval_says_nothing() {
        let ours = [5.0, 6.0, 7.0, 6.0];
        assert_eq!(
            Difference::of(ours, [1.0, 2.0, 1.5, 2.5]).comparison(),
            Comparison::Greater
        );
        assert_eq!(
            Difference::of([1.0, 2.0, 1.5, 2.5], ours).comparison(),
            Comparison::Less
        );
        assert_eq!(
            Difference::of(ours, [1.0, 11.0, 2.0, 9.0]).comparison(),
            Comparison::Inconclusive
        );
        // One trial proves nothing, however large the difference.
        assert_eq!(
            Difference::of([9.0], [1.0]).comparison(),
            Comparison::Inconclusive
        );
        assert_eq!(
            Difference::of([], []).comparison(),
            Comparison::Inconclusive
        );
    }

    #[test]
    fn it_is_told_with_its_interval() {
        // Differences 1 to 5: 2.776 √(2.5 / 5).
        let difference = Difference::of([2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(difference.with_interval("ms"), "3.00 ± 1.96 ms");
        let other = Difference::of([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(other.with_interval("ms"), "3.00 ± 1.96 ms");
        assert_eq!(other.mean(), -3.0);
    }

    proptest! {
        #[test]
        fn the_other_way_round_says_the_opposite(
            pairs in prop::collection::vec((0.0..1e3_f64, 0.0..1e3_f64), 0..20),
        ) {
            let (first, second): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let one = Difference::of(first.clone(), second.clone()).comparison();
            let other = match Difference::of(second, first).comparison() {
                Comparison::Greater => Comparison::Less,
                Comparison::Less => Comparison::Greater,
                Comparison::Inconclusive => Comparison::Inconclusive,
            };
            prop_assert_eq!(one, other);
        }
    }
}
