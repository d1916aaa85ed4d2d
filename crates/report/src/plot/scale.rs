//! From values to places on an axis: its range, its ticks, and what stands beside them.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use super::AxisKind;
use crate::format::format_number;

/// Larger values are left out: nothing that is measured here comes near, and no label could show them.
const LARGEST: f64 = 1e15;

/// The smallest positive value that a logarithmic axis shows, for the same reason.
const SMALLEST: f64 = 1e-15;

/// The nearest to 100 % that a percentile axis tells apart from it: eight nines.
const MOST_NINES: f64 = 8.0;

/// An axis with its range fixed. Places are the values themselves, their decimal logarithms, or the nines of percentiles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    kind: AxisKind,
    /// Place of the axis' lower end.
    pub(super) low: f64,
    /// Place of the axis' upper end, above the lower.
    pub(super) high: f64,
    /// Places of the ticks, upward, and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale from zero (or the least negative value) to a tick at or above the largest value, with
    /// about so many ticks.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, ticks: usize) -> Scale {
        let (low, high) = extent(values, |value| value.abs() <= LARGEST).unwrap_or((0.0, 1.0));
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if high - low > SMALLEST {
            high
        } else {
            low + 1.0
        };
        let step = round_step((high - low) / ticks.max(1) as f64);
        let (low, high) = (
            (low / step).floor() * step,
            (high / step - 1e-9).ceil() * step,
        );
        Scale {
            kind: AxisKind::Linear,
            low,
            high,
            ticks: multiples(low, high, step),
        }
    }

    /// A linear scale that fits the values closely, for the axis along which a plot is read: it starts
    /// at zero only when the values start near it, and ticks need not stand at its ends.
    pub(super) fn close(values: impl IntoIterator<Item = f64>, ticks: usize) -> Scale {
        let (low, high) = extent(values, |value| value.abs() <= LARGEST).unwrap_or((0.0, 1.0));
        let low = if low > 0.0 && low <= 0.3 * high {
            0.0
        } else {
            low
        };
        // A single value stands in the middle; values that only rounding tells apart are one.
        let resolution = low.abs().max(high.abs()) * 1e-9 + SMALLEST;
        let margin = if high - low > resolution {
            0.0
        } else {
            low.abs().max(1.0) * 0.5
        };
        let (low, high) = (low - margin, high + margin);
        let step = round_step((high - low) / ticks.max(1) as f64);
        let ticks = multiples(low, high, step);
        Scale {
            kind: AxisKind::Linear,
            low,
            high,
            ticks,
        }
    }

    /// A logarithmic scale between round values (1, 2, 5 times a power of ten) around the positive values.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>, ticks: usize) -> Scale {
        let (low, high) =
            extent(values, |value| (SMALLEST..=LARGEST).contains(&value)).unwrap_or((1.0, 10.0));
        let first = rung_below(low);
        let last = rung_above(high).max(first + 1);
        let (low, high) = (rung_value(first), rung_value(last));
        let labelled = if last - first < 3 {
            // Too few round values to read others between them: as many as on a linear axis.
            multiples(low, high, round_step((high - low) / ticks.max(2) as f64))
        } else {
            rungs(first, last, ticks)
        };
        let ticks = labelled
            .into_iter()
            .map(|(value, label)| (value.log10(), label))
            .collect();
        Scale {
            kind: AxisKind::Logarithmic,
            low: low.log10(),
            high: high.log10(),
            ticks,
        }
    }

    /// A scale of percentiles from 0, a tick for each further nine. 100 %, which would be infinitely far away, stands at the end.
    pub(super) fn percentiles(values: impl IntoIterator<Item = f64>) -> Scale {
        let (mut most, mut has_all) = (0.0_f64, false);
        for value in values {
            match value {
                100.0 => has_all = true,
                0.0..100.0 => most = most.max(nines(value)),
                _ => {}
            }
        }
        // Rounding makes 99.9 a little more than three nines.
        let last = (most - 1e-9).ceil().clamp(1.0, MOST_NINES);
        let whole = (1..=last as u8).map(|count| {
            let percent = 100.0 - 100.0 / 10_f64.powi(i32::from(count));
            (f64::from(count), label(percent, count.saturating_sub(2)))
        });
        let mut ticks = vec![(0.0, "0".to_owned()), (nines(50.0), "50".to_owned())];
        ticks.extend(whole);
        let high = match has_all {
            true => last + 1.0,
            false => last,
        };
        if has_all {
            ticks.push((high, "100".to_owned()));
        }
        Scale {
            kind: AxisKind::Percentiles,
            low: 0.0,
            high,
            ticks,
        }
    }

    /// Where a value stands, if it has a place on this axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.kind {
            AxisKind::Linear => value,
            AxisKind::Logarithmic => value.log10(),
            AxisKind::Percentiles if value == 100.0 => self.high,
            AxisKind::Percentiles => nines(value),
        };
        (place.is_finite() && place >= self.low - 1e-9 && place <= self.high + 1e-9)
            .then_some(place)
    }

    /// The label of the tick at this place.
    pub(super) fn label_at(&self, place: f64) -> String {
        self.ticks
            .iter()
            .find(|(tick, _)| *tick == place)
            .map_or_else(String::new, |(_, label)| label.clone())
    }
}

/// How the plotting library sees a scale: it knows places, not values.
impl Ranged for Scale {
    type ValueType = f64;
    type FormatOption = DefaultFormatting;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (place - self.low) / (self.high - self.low);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Without light points there are no grid lines between ticks.
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.iter().map(|(place, _)| *place).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// How many nines a percentage has: 1 for 90 %, 2 for 99 %.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).log10()
}

/// Smallest and largest of the values that count.
fn extent(
    values: impl IntoIterator<Item = f64>,
    counts: impl Fn(f64) -> bool,
) -> Option<(f64, f64)> {
    values
        .into_iter()
        .filter(|&value| counts(value))
        .fold(None, |extent, value| match extent {
            None => Some((value, value)),
            Some((low, high)) => Some((low.min(value), high.max(value))),
        })
}

/// The least of 1, 2, 5 times a power of ten that is not below this step.
fn round_step(step: f64) -> f64 {
    let step = step.max(SMALLEST);
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

/// The multiples of a step from low to high, labelled.
fn multiples(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let (first, last) = (
        (low / step - 1e-9).ceil() as i64,
        (high / step + 1e-9).floor() as i64,
    );
    let decimals = decimals_of(step);
    (first..=last)
        .map(|tick| tick as f64 * step)
        .map(|value| (value, label(value, decimals)))
        .collect()
}

fn decimals_of(step: f64) -> u8 {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 15.0) as u8
}

/// The rungs from first to last, or only powers of ten where that would be too many, labelled.
fn rungs(first: i32, last: i32, most: usize) -> Vec<(f64, String)> {
    let powers_of_ten: Vec<i32> = (first..=last)
        .filter(|rung| rung.rem_euclid(3) == 0)
        .collect();
    let shown: Vec<i32> = if (last - first) as usize <= most.max(3) || powers_of_ten.len() < 2 {
        (first..=last).collect()
    } else {
        let every = powers_of_ten.len().div_ceil(most.max(2));
        powers_of_ten.into_iter().step_by(every).collect()
    };
    let labelled = shown
        .into_iter()
        .map(|rung| (rung_value(rung), rung_decimals(rung)));
    labelled
        .map(|(value, decimals)| (value, label(value, decimals)))
        .collect()
}

/// Rungs number the values 1, 2, 5, 10, 20, 50, …: rung 0 is 1.
fn rung_value(rung: i32) -> f64 {
    [1.0, 2.0, 5.0][rung.rem_euclid(3) as usize] * 10f64.powi(rung.div_euclid(3))
}

fn rung_decimals(rung: i32) -> u8 {
    (-rung.div_euclid(3)).clamp(0, 15) as u8
}

fn rung_below(value: f64) -> i32 {
    let decade = value.log10().floor() as i32 * 3;
    (decade - 1..=decade + 3)
        .rev()
        .find(|&rung| rung_value(rung) <= value * (1.0 + 1e-9))
        .unwrap_or(decade)
}

fn rung_above(value: f64) -> i32 {
    let decade = value.log10().floor() as i32 * 3;
    (decade..=decade + 4)
        .find(|&rung| rung_value(rung) >= value * (1.0 - 1e-9))
        .unwrap_or(decade + 3)
}

/// Numbers of ten digits and more are shown by their power of ten.
fn label(value: f64, decimals: u8) -> String {
    if value.abs() >= 1e9 || decimals > 6 {
        format!("{value:e}")
    } else {
        format_number(value, decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale
            .ticks
            .iter()
            .map(|(_, label)| label.as_str())
            .collect()
    }

    #[test]
    fn a_linear_axis_runs_from_zero_to_a_round_value() {
        let scale = Scale::linear([3.1, 31.4], 5);
        assert_eq!((scale.low, scale.high), (0.0, 40.0));
        assert_eq!(labels(&scale), ["0", "10", "20", "30", "40"]);
        assert_eq!(
            labels(&Scale::linear([0.3], 3)),
            ["0.0", "0.1", "0.2", "0.3"]
        );
    }

    #[test]
    fn negative_values_have_room() {
        assert_eq!(
            labels(&Scale::linear([-15.0, 12.0], 3)),
            ["−20", "−10", "0", "10", "20"]
        );
    }

    #[test]
    fn without_values_there_is_still_an_axis() {
        for scale in [
            Scale::linear([], 5),
            Scale::close([], 5),
            Scale::logarithmic([], 5),
            Scale::percentiles([]),
            Scale::linear([0.0], 5),
        ] {
            assert!(
                scale.low < scale.high && scale.ticks.len() >= 2,
                "{scale:?}"
            );
        }
    }

    #[test]
    fn a_close_axis_has_ticks_within() {
        let scale = Scale::close([0.0, 5.0, 10.0, 20.0, 30.0], 6);
        assert_eq!((scale.low, scale.high), (0.0, 30.0));
        assert_eq!(labels(&scale), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(
            labels(&Scale::close([1995.0, 2024.0], 3)),
            ["2,000", "2,010", "2,020"]
        );
    }

    #[test]
    fn a_logarithmic_axis_labels_decades_or_between() {
        assert_eq!(
            labels(&Scale::logarithmic([1.8, 3120.4], 6)),
            ["1", "10", "100", "1,000"]
        );
        assert_eq!(
            labels(&Scale::logarithmic([0.3, 4.0], 6)),
            ["0.2", "0.5", "1", "2", "5"]
        );
        assert_eq!(
            labels(&Scale::logarithmic([7.0], 6)),
            ["5", "6", "7", "8", "9", "10"]
        );
    }

    #[test]
    fn what_is_not_positive_has_no_place_on_a_logarithmic_axis() {
        let scale = Scale::logarithmic([0.0, -3.0, 10.0, 1000.0], 6);
        assert_eq!(scale.place(100.0), Some(2.0));
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(-3.0), None);
        assert_eq!(scale.place(f64::NAN), None);
    }

    #[test]
    fn a_percentile_axis_has_a_tick_for_each_nine() {
        let scale = Scale::percentiles([0.0, 50.0, 99.0, 99.9, 100.0]);
        let expected = ["0", "50", "90", "99", "99.9", "100"];
        assert_eq!(labels(&scale), expected);
        let places = [0.0, 90.0, 99.0, 99.9, 100.0].map(|value| scale.place(value).unwrap());
        for (place, expected) in places.into_iter().zip([0.0, 1.0, 2.0, 3.0, 4.0]) {
            assert!((place - expected).abs() < 1e-9, "{place} {expected}");
        }
        assert_eq!(scale.place(-1.0), None);
        assert_eq!(scale.place(101.0), None);
        assert_eq!(labels(&Scale::percentiles([10.0])), ["0", "50", "90"]);
    }

    #[test]
    fn extreme_values_neither_hang_nor_spread() {
        let extremes = [
            0.0,
            -0.0,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            f64::EPSILON,
            f64::INFINITY,
            f64::NAN,
            1e15,
        ];
        for one in extremes {
            for other in extremes {
                for ticks in [0, 1, 8] {
                    for scale in [
                        Scale::linear([one, other], ticks),
                        Scale::close([one, other], ticks),
                        Scale::logarithmic([one, other], ticks),
                        Scale::percentiles([one, other]),
                    ] {
                        assert!(scale.low < scale.high, "{one} {other} {scale:?}");
                        assert!(
                            scale.ticks.len() <= 3 * ticks.max(2) + 5,
                            "{one} {other} {scale:?}"
                        );
                    }
                }
            }
        }
    }
}
