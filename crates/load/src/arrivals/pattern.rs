//! The rate of arrivals as a function of time.

use std::time::Duration;

/// How many arrivals a second there are, over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// The same all the time.
    Constant {
        /// Arrivals a second.
        per_second: f64,
    },
    /// Evenly from one rate to another, which then stays.
    Ramp {
        /// Arrivals a second in the beginning.
        from: f64,
        /// Arrivals a second in the end; less than in the beginning is allowed.
        to: f64,
        /// How long it takes.
        over: Duration,
    },
    /// In steps from one rate to another, which then stays.
    Steps {
        /// Arrivals a second in the beginning.
        from: f64,
        /// By how many arrivals a second a step differs from the one before it, up or down towards the
        /// last one.
        by: f64,
        /// How long a step lasts.
        every: Duration,
        /// Arrivals a second in the end.
        to: f64,
    },
}

/// Why a [`Pattern`] cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// A rate is negative, not a number, or beyond [`Pattern::HIGHEST`].
    #[error("{0} arrivals a second: a rate is a number from 0 to {highest}", highest = Pattern::HIGHEST)]
    Rate(f64),
    /// A step or ramp takes no time.
    #[error("a ramp and each step of a rate must last at least a millisecond")]
    Time,
    /// Steps do not differ.
    #[error("{0} arrivals a second: steps of a rate must differ by more than that")]
    Step(f64),
}

/// A stretch of a [`Pattern`] over which the rate is linear. Times are in seconds from its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) start: f64,
    pub(super) end: Option<f64>,
    /// Arrivals a second at the start.
    pub(super) rate: f64,
    /// By how much the rate grows each second.
    pub(super) slope: f64,
}

impl Pattern {
    /// The highest rate, in arrivals a second: more than a machine could begin.
    pub const HIGHEST: f64 = 10_000_000.0;

    /// Whether it can be followed.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn validate(&self) -> Result<(), PatternError> {
        let shortest = Duration::from_millis(1);
        let check = |rates: &[f64]| {
            let wrong = rates
                .iter()
                .find(|rate| !(0.0..=Pattern::HIGHEST).contains(*rate));
            wrong.map_or(Ok(()), |rate| Err(PatternError::Rate(*rate)))
        };
        match *self {
            Pattern::Constant { per_second } => check(&[per_second]),
            Pattern::Ramp { from, to, over } => {
                check(&[from, to])?;
                if over < shortest {
                    return Err(PatternError::Time);
                }
                Ok(())
            }
            Pattern::Steps {
                from,
                by,
                every,
                to,
            } => {
                check(&[from, to])?;
                if every < shortest {
                    return Err(PatternError::Time);
                }
                // Below a thousandth of an arrival a second, steps are as good as none.
                if !(by.is_finite() && by.abs() >= 1e-3) {
                    return Err(PatternError::Step(by));
                }
                Ok(())
            }
        }
    }

    /// Arrivals a second, this long after the beginning.
    pub fn rate_at(&self, since: Duration) -> f64 {
        let since = since.as_secs_f64();
        match *self {
            Pattern::Constant { per_second } => per_second,
            Pattern::Ramp { from, to, over } => {
                from + (to - from) * (since / over.as_secs_f64()).min(1.0)
            }
            Pattern::Steps { every, .. } => {
                let number = (since / every.as_secs_f64()).floor();
                self.stretch(number as u64).rate
            }
        }
    }

    /// A stretch by its number, from 0; beyond the last one, the last one.
    pub(super) fn stretch(&self, number: u64) -> Stretch {
        match *self {
            Pattern::Constant { per_second } => Stretch {
                start: 0.0,
                end: None,
                rate: per_second,
                slope: 0.0,
            },
            Pattern::Ramp { from, to, over } => {
                let over = over.as_secs_f64();
                if number == 0 {
                    Stretch {
                        start: 0.0,
                        end: Some(over),
                        rate: from,
                        slope: (to - from) / over,
                    }
                } else {
                    Stretch {
                        start: over,
                        end: None,
                        rate: to,
                        slope: 0.0,
                    }
                }
            }
            Pattern::Steps {
                from,
                by,
                every,
                to,
            } => {
                let steps = ((to - from).abs() / by.abs()).ceil();
                let number = (number as f64).min(steps);
                let is_last = number >= steps;
                let every = every.as_secs_f64();
                let towards = by.abs().copysign(to - from);
                Stretch {
                    start: number * every,
                    end: (!is_last).then_some((number + 1.0) * every),
                    rate: if is_last { to } else { from + number * towards },
                    slope: 0.0,
                }
            }
        }
    }
}

impl Stretch {
    /// The rate at a time within it.
    pub(super) fn rate_at(&self, time: f64) -> f64 {
        (self.rate + self.slope * (time - self.start)).max(0.0)
    }

    /// When this many arrivals come after a time within it, or how many are still to come when it ends.
    pub(super) fn after(&self, time: f64, arrivals: f64) -> After {
        let rate = self.rate_at(time);
        let is_idle = rate <= 0.0 && self.slope <= 0.0;
        if let Some(end) = self.end {
            let left = (end - time).max(0.0);
            let within = (rate * left + self.slope * left * left / 2.0).max(0.0);
            if is_idle || within < arrivals {
                return After::End {
                    end,
                    owed: arrivals - within,
                };
            }
        }
        if is_idle {
            return After::Never;
        }
        if arrivals <= 0.0 {
            return After::At(time);
        }
        // Where the integral of the rate is `arrivals`: rate · x + slope · x² / 2, solved in the form that
        // loses no figures when the slope is small.
        let discriminant = (rate * rate + 2.0 * self.slope * arrivals).max(0.0);
        let x = 2.0 * arrivals / (rate + discriminant.sqrt());
        After::At(time + x)
    }
}

/// What [`Stretch::after`] finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum After {
    /// They come at this time.
    At(f64),
    /// The stretch ends first.
    End { end: f64, owed: f64 },
    /// They do not come: the rate is 0 for good.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn rates_are_as_the_pattern_says() {
        let ramp = Pattern::Ramp {
            from: 100.0,
            to: 0.0,
            over: 10 * SECOND,
        };
        assert_eq!(ramp.rate_at(Duration::ZERO), 100.0);
        assert_eq!(ramp.rate_at(5 * SECOND), 50.0);
        assert_eq!(ramp.rate_at(50 * SECOND), 0.0);
        let steps = Pattern::Steps {
            from: 10.0,
            by: 20.0,
            every: 2 * SECOND,
            to: 45.0,
        };
        let rates = [0, 1, 2, 4, 6, 1000].map(|second| steps.rate_at(second * SECOND));
        assert_eq!(rates, [10.0, 10.0, 30.0, 45.0, 45.0, 45.0]);
        // Down is as good as up, whatever the sign of the step.
        let down = Pattern::Steps {
            from: 45.0,
            by: 20.0,
            every: 2 * SECOND,
            to: 10.0,
        };
        let rates = [0, 2, 4, 6].map(|second| down.rate_at(second * SECOND));
        assert_eq!(rates, [45.0, 25.0, 10.0, 10.0]);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let constant = |per_second| Pattern::Constant { per_second }.validate();
        assert_eq!(constant(0.0), Ok(()));
        assert_eq!(constant(-1.0), Err(PatternError::Rate(-1.0)));
        assert!(constant(f64::NAN).is_err());
        assert!(constant(f64::INFINITY).is_err());
        let ramp = |over| Pattern::Ramp {
            from: 1.0,
            to: 2.0,
            over,
        };
        assert_eq!(ramp(Duration::ZERO).validate(), Err(PatternError::Time));
        assert_eq!(ramp(SECOND).validate(), Ok(()));
        let steps = |by| Pattern::Steps {
            from: 1.0,
            by,
            every: SECOND,
            to: 2.0,
        };
        assert_eq!(steps(0.0).validate(), Err(PatternError::Step(0.0)));
        assert!(steps(f64::NAN).validate().is_err());
        assert_eq!(steps(0.25).validate(), Ok(()));
    }
}
