//! When arrivals come, and when the run ends.

use std::time::Duration;

use clap::{Args, ValueEnum};
use load::arrivals::{self, Plan, Spacing};
use load::driver::LoadModel;
use serde::Serialize;

use crate::values::{count, duration, positive, positive_duration};

/// How fast arrivals come and how many.
#[derive(Args, Debug)]
pub(super) struct Schedule {
    /// Arrivals a second, whether or not earlier ones were answered
    #[arg(long, short = 'r', value_name = "CPS", default_value = "10", value_parser = positive,
          allow_negative_numbers = true)]
    pub(super) rate: f64,

    /// The period of --rate (SIPp: -rp)
    #[arg(long, value_name = "TIME", value_parser = positive_duration, default_value = "1s", help_heading = "Schedule")]
    pub(super) rate_period: Duration,

    /// End after this number
    #[arg(long, short = 'm', value_name = "N",
          value_parser = |text: &str| count(text, 1..=u64::MAX))]
    pub(super) calls: Option<u64>,

    /// Begin no more after this time, and end when those in progress have ended; 0 for no limit [default: 30s, without --calls]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// Maximum in progress at a time; further arrivals are counted, not begun [default: 100000]
    #[arg(long, short = 'l', value_name = "N", value_parser = |text: &str| count(text, 1..=10_000_000),
          help_heading = "Schedule")]
    pub(super) limit: Option<u64>,

    /// Arrivals at equal or at random (exponentially distributed) intervals
    #[arg(long, value_enum, default_value_t = Pattern::Constant, help_heading = "Schedule")]
    pub(super) arrivals: Pattern,

    /// Increase the rate linearly from --rate to CPS within TIME, such as 1000/60s
    #[arg(long, value_name = "CPS/TIME", value_parser = change, conflicts_with = "step", help_heading = "Schedule")]
    pub(super) ramp: Option<Change>,

    /// Raise the rate by CPS every TIME, such as 50/10s
    #[arg(long, value_name = "CPS/TIME", value_parser = change, help_heading = "Schedule")]
    pub(super) step: Option<Change>,

    /// Maximum rate
    #[arg(long, value_name = "CPS", value_parser = positive, requires = "step", help_heading = "Schedule")]
    pub(super) rate_max: Option<f64>,
}

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
pub(super) struct Parameters {
    rate_per_second: Option<f64>,
    arrivals: Option<&'static str>,
    ramp_to_per_second: Option<f64>,
    ramp_seconds: Option<f64>,
    step_per_second: Option<f64>,
    step_seconds: Option<f64>,
    rate_max_per_second: Option<f64>,
    calls: Option<u64>,
    duration_seconds: Option<f64>,
    limit: Option<u64>,
}

/// The distances between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pattern {
    /// At equal intervals
    Constant,
    /// As from many independent users
    Poisson,
}

impl Pattern {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pattern::Constant => "constant",
            Pattern::Poisson => "poisson",
        }
    }
}

/// A rate and a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) per_second: f64,
    pub(super) time: Duration,
}

impl Schedule {
    /// How long a run is without anything said.
    const TIME: Duration = Duration::from_secs(30);

    /// Arrivals a second in the beginning.
    pub(super) fn per_second(&self) -> f64 {
        self.rate / self.rate_period.as_secs_f64()
    }

    /// How many arrivals end the run, and after which time.
    pub(super) fn end(&self) -> (Option<u64>, Option<Duration>) {
        match self.names_end() {
            true => (self.calls, self.time_limit()),
            false => (None, Some(Self::TIME)),
        }
    }

    /// Whether it is said when the run ends.
    pub(super) fn names_end(&self) -> bool {
        self.calls.is_some() || self.duration.is_some()
    }

    /// The time that was asked for.
    pub(super) fn time_limit(&self) -> Option<Duration> {
        self.duration.filter(|time| !time.is_zero())
    }

    /// What was asked for, for the document.
    pub(super) fn parameters(&self, pace: &LoadModel) -> Parameters {
        let is_open = matches!(pace, LoadModel::Open(_));
        let (count, time) = match pace {
            LoadModel::Open(plan) => (plan.count, plan.time),
            LoadModel::Closed { count, time } | LoadModel::Serve { count, time } => (*count, *time),
        };
        let seconds = |change: Change| change.time.as_secs_f64();
        Parameters {
            rate_per_second: is_open.then(|| self.per_second()),
            arrivals: is_open.then(|| self.arrivals.name()),
            ramp_to_per_second: self.ramp.map(|ramp| ramp.per_second),
            ramp_seconds: self.ramp.map(seconds),
            step_per_second: self.step.map(|step| step.per_second),
            step_seconds: self.step.map(seconds),
            rate_max_per_second: self.rate_max,
            calls: count,
            duration_seconds: time.map(|time| time.as_secs_f64()),
            limit: self.limit,
        }
    }

    /// The arrivals.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let from = self.per_second();
        let pattern = match (self.ramp, self.step) {
            (Some(ramp), _) => arrivals::Pattern::Ramp {
                from,
                to: ramp.per_second,
                over: ramp.time,
            },
            (None, Some(step)) => arrivals::Pattern::Steps {
                from,
                by: step.per_second,
                every: step.time,
                to: self.rate_max.unwrap_or(arrivals::Pattern::HIGHEST),
            },
            (None, None) => arrivals::Pattern::Constant { per_second: from },
        };
        pattern.validate().map_err(|error| error.to_string())?;
        let (count, time) = self.end();
        Ok(Plan {
            pattern,
            spacing: match self.arrivals {
                Pattern::Constant => Spacing::Even,
                Pattern::Poisson => Spacing::Random,
            },
            count,
            time,
        })
    }
}

fn change(text: &str) -> Result<Change, String> {
    let wrong =
        || format!("\"{text}\" is not a rate and time: CPS/TIME is expected, such as 1000/60s");
    let (rate, time) = text.split_once('/').ok_or_else(wrong)?;
    let time = positive_duration(time).map_err(|_| wrong())?;
    Ok(Change {
        per_second: positive(rate)?,
        time,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        schedule: Schedule,
    }

    /// As with SIPp.
    #[test]
    fn a_duration_of_zero_is_no_limit() {
        for (line, end) in [
            ("x", (None, Some(30))),
            ("x --duration 0", (None, None)),
            ("x --duration 0 -m 5", (Some(5), None)),
            ("x --duration 2s -m 5", (Some(5), Some(2))),
        ] {
            let line = Line::try_parse_from(line.split(' ')).unwrap();
            let (calls, time) = line.schedule.end();
            assert_eq!((calls, time.map(|time| time.as_secs())), end);
        }
    }

    #[test]
    fn a_change_is_a_rate_and_a_time() {
        let expected = Change {
            per_second: 50.0,
            time: Duration::from_secs(10),
        };
        assert_eq!(change("50/10s"), Ok(expected));
        assert_eq!(change("50/10"), Ok(expected));
        for wrong in ["50", "50/", "x/10s", "0/10s", "50/0s", "-5/1s"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
