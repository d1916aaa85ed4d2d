//! Measures ours and the peer alternately.

use std::time::{Duration, Instant};

use anyhow::Context;

/// How often and how long everything is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    quick: bool,
    count: usize,
    /// What all cases of a comparison may take together, on the clock.
    total: Duration,
    start: Instant,
}

/// What one side measured, over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Rounds {
    pub(crate) fn new(quick: bool) -> Rounds {
        Rounds {
            quick,
            count: if quick { 3 } else { 7 },
            total: Duration::from_secs(if quick { 36 } else { 300 }),
            start: Instant::now(),
        }
    }

    /// Whether it has to be over soon.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// As many rounds or fewer, for what takes long.
    pub(crate) fn at_most(&self, count: usize) -> Rounds {
        Rounds {
            count: self.count.min(count),
            ..*self
        }
    }

    /// How long one measurement may take on the clock when `cases` with two sides each are left.
    pub(crate) fn time_for_one(&self, cases: usize) -> Duration {
        let left = self.total.saturating_sub(self.start.elapsed());
        let shortest = Duration::from_millis(50);
        (left / (2 * self.count * cases.max(1)) as u32).max(shortest)
    }

    /// Measures both sides in turns, each as often; every measurement is a list of metrics.
    /// Gives what each metric came to on our side and on the peer's.
    pub(crate) fn alternate<const N: usize>(
        &self,
        mut ours: impl FnMut() -> anyhow::Result<[f64; N]>,
        mut peer: impl FnMut() -> anyhow::Result<[f64; N]>,
    ) -> anyhow::Result<[(Spread, Spread); N]> {
        let mut measured = [const { (Vec::new(), Vec::new()) }; N];
        for round in 0..self.count {
            // Whoever goes first finds other caches: they take turns in this, too.
            let (our_values, peer_values) = if round % 2 == 0 {
                let our_values = ours().context("ours")?;
                (our_values, peer().context("the peer")?)
            } else {
                let peer_values = peer().context("the peer")?;
                (ours().context("ours")?, peer_values)
            };
            for (metric, values) in measured
                .iter_mut()
                .zip(our_values.into_iter().zip(peer_values))
            {
                metric.0.push(values.0);
                metric.1.push(values.1);
            }
        }
        Ok(measured.map(|(ours, peer)| (Spread::of(ours), Spread::of(peer))))
    }
}

impl Spread {
    /// The spread of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Spread {
            median: (at(values.len().saturating_sub(1) / 2) + at(values.len() / 2)) / 2.0,
            min: at(0),
            max: at(values.len().saturating_sub(1)),
        }
    }

    /// One value that does not vary.
    pub(crate) fn fixed(value: f64) -> Spread {
        Spread {
            median: value,
            min: value,
            max: value,
        }
    }
}

impl Better {
    /// How many times better `ours` is than `peer`.
    pub(crate) fn advantage(self, ours: f64, peer: f64) -> f64 {
        match self {
            Better::Higher => ours / peer,
            Better::Lower => peer / ours,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_middle_ones() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!(
            spread,
            Spread {
                median: 3.0,
                min: 1.0,
                max: 9.0
            }
        );
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).median, 2.0);
    }

    #[test]
    fn an_advantage_is_above_one_whatever_is_better() {
        assert_eq!(Better::Higher.advantage(6.0, 3.0), 2.0);
        assert_eq!(Better::Lower.advantage(3.0, 6.0), 2.0);
    }

    #[test]
    fn both_sides_are_measured_as_often_and_take_turns_in_going_first() {
        let order = std::cell::RefCell::new(Vec::new());
        let rounds = Rounds::new(true);
        let [(ours, peer)] = rounds
            .alternate(
                || {
                    order.borrow_mut().push("ours");
                    Ok([1.0])
                },
                || {
                    order.borrow_mut().push("peer");
                    Ok([2.0])
                },
            )
            .unwrap();
        assert_eq!((ours.median, peer.median), (1.0, 2.0));
        assert_eq!(
            order.into_inner(),
            ["ours", "peer", "peer", "ours", "ours", "peer"]
        );
    }
}
