//! A run as it stands, for whoever watches it.

use std::time::Duration;

use load::statistics::{Interval, Sketch, Statistics};
use report::{format_count, format_milliseconds, format_number};

/// A run at a moment.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    /// What is going on: `registering`, `calling`.
    pub(super) phase: &'a str,
    /// How long it has.
    pub(super) elapsed: Duration,
    /// How long it is to take, or how many attempts it is to make.
    pub(super) planned: Planned,
    /// Arrivals a second that are asked for now; none in a run without a schedule.
    pub(super) rate: Option<f64>,
    /// Whether no arrivals come until somebody lets them again.
    pub(super) is_paused: bool,
    /// Whether the run waits for what is under way, and then ends.
    pub(super) is_ending: bool,
    /// Attempts under way.
    pub(super) in_flight: u64,
    /// Users whose registration stands, and all users.
    pub(super) registered: u64,
    pub(super) users: u64,
    /// What was measured so far.
    pub(super) statistics: &'a Statistics,
}

/// How long a run is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planned {
    /// Until this much time is over.
    Time(Duration),
    /// Until so many attempts were begun and have ended.
    Attempts(u64),
    /// Until somebody ends it.
    Unlimited,
}

impl View<'_> {
    /// The last interval that is over, or the first one as far as it goes.
    pub(super) fn last_interval(&self) -> Option<&Interval> {
        let series = &self.statistics.series;
        let over = self.elapsed.div_duration_f64(series.width()) as usize;
        series.intervals().get(over.saturating_sub(1))
    }

    /// The intervals that are over, at most so many, the last ones.
    pub(super) fn last_intervals(&self, most: usize) -> &[Interval] {
        let series = &self.statistics.series;
        let over = self.elapsed.div_duration_f64(series.width()) as usize;
        let over = &series.intervals()[..over.min(series.intervals().len())];
        &over[over.len().saturating_sub(most)..]
    }

    /// Counts of an interval are shown a second.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.statistics.series.width().as_secs_f64()
    }

    /// How far the run is.
    pub(super) fn progress(&self) -> String {
        let elapsed = clock(self.elapsed);
        match self.planned {
            Planned::Time(planned) => format!("{elapsed} of {}", clock(planned)),
            Planned::Attempts(count) => format!("{elapsed}, of {} attempts", format_count(count)),
            Planned::Unlimited => elapsed,
        }
    }

    /// One line of progress.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{:>6}  {}", clock(self.elapsed), self.phase);
        if self.users > 0 && self.registered < self.users {
            line.push_str(&format!(
                "  registered {} of {}",
                format_count(self.registered),
                format_count(self.users)
            ));
        }
        let (completed, failed) = (self.statistics.completed(), self.statistics.failed());
        if let Some(interval) = self.last_interval() {
            line.push_str(&format!(
                "  begun {}/s",
                format_number(self.per_second(interval.started), 0)
            ));
        }
        line.push_str(&format!(
            "  in flight {}  completed {}  failed {}",
            format_count(self.in_flight),
            format_count(completed),
            format_count(failed)
        ));
        if let Some(interval) = self.last_interval() {
            let (name, sketch) = main_delay(interval);
            if sketch.count() > 0 {
                line.push_str(&format!(
                    "  {name} p50 {} p99 {} ms",
                    quantile(sketch, 0.5),
                    quantile(sketch, 0.99)
                ));
            }
            if interval.lateness.count() > 0 {
                line.push_str(&format!(
                    "  late p99 {} ms",
                    quantile(&interval.lateness, 0.99)
                ));
            }
        }
        match (self.is_ending, self.is_paused) {
            (true, _) => line.push_str("  (ending)"),
            (false, true) => line.push_str("  (paused)"),
            (false, false) => {}
        }
        line
    }
}

/// The delay that tells most of an interval, with its short name.
pub(super) fn main_delay(interval: &Interval) -> (&'static str, &Sketch) {
    [
        ("SRD", &interval.session_request_delay),
        ("delay", &interval.request_delay),
    ]
    .into_iter()
    .find(|(_, sketch)| sketch.count() > 0)
    .unwrap_or(("RRD", &interval.registration_request_delay))
}

/// A percentile in milliseconds, or a dash.
pub(super) fn quantile(sketch: &Sketch, part: f64) -> String {
    match sketch.quantile(part) {
        Some(delay) => format_milliseconds(delay.as_secs_f64() * 1e3),
        None => "–".to_owned(),
    }
}

/// Minutes and seconds, or hours too.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
