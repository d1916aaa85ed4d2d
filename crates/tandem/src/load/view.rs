//! A run as it stands, for whoever watches it.

use std::time::Duration;

use load::engine::StepCount;
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
    /// The steps of the scenario and what became of them, where there is one.
    pub(super) steps: &'a [(String, StepCount)],
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

    /// Attempts that were begun in an interval.
    pub(super) fn begun(&self, interval: &Interval) -> u64 {
        match self.is_back_to_back() {
            true => interval.completed + interval.failed,
            false => interval.started,
        }
    }

    /// Attempts that were begun.
    pub(super) fn all_begun(&self) -> u64 {
        match self.is_back_to_back() {
            true => self.statistics.completed() + self.statistics.failed() + self.in_flight,
            false => self.statistics.arrivals.started,
        }
    }

    /// Whether nobody has a schedule: the end of one attempt is the beginning of the next.
    fn is_back_to_back(&self) -> bool {
        self.rate.is_none() && self.statistics.arrivals.started == 0
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
                format_number(self.per_second(self.begun(interval)), 0)
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use load::record::{Attempt, CallId, Outcome, Party, Record, RequestRecord};
    use load::script::ScriptId;
    use sip::Method;

    use super::*;

    fn ended(begun: Instant) -> Record {
        Record::Request(RequestRecord {
            attempt: Attempt {
                script: ScriptId(0),
                party: Party::Caller,
                user: 1,
                peer: 2,
                call_id: CallId::Other("1".into()),
                due: begun,
                begun,
                ended: Duration::from_millis(1),
                outcome: Outcome::Completed,
                status: Some(200),
                retransmissions: 0,
                authentications: 0,
                timers: Vec::new(),
            },
            method: Method::Options,
            answered: None,
        })
    }

    fn line(statistics: &Statistics, rate: Option<f64>) -> (String, u64) {
        let view = View {
            phase: "calls",
            elapsed: Duration::from_millis(1_001),
            planned: Planned::Unlimited,
            rate,
            is_paused: false,
            is_ending: false,
            in_flight: 2,
            registered: 0,
            users: 0,
            statistics,
            steps: &[],
        };
        (view.line(), view.all_begun())
    }

    #[test]
    fn a_closed_loop_begins_what_it_ends() {
        let started = Instant::now();
        let mut statistics = Statistics::new(started, Duration::from_secs(1));
        for milliseconds in 1..=7 {
            let at = started + Duration::from_millis(milliseconds);
            statistics.record(&ended(at));
        }
        let (shown, begun) = line(&statistics, None);
        assert!(
            shown.contains("begun 7/s  in flight 2  completed 7"),
            "{shown}"
        );
        assert_eq!(begun, 9);
        // A schedule begins what it says, and no more.
        let (shown, begun) = line(&statistics, Some(0.1));
        assert!(shown.contains("begun 0/s"), "{shown}");
        assert_eq!(begun, 0);
        statistics.note_started(started, started);
        assert!(line(&statistics, None).0.contains("begun 1/s"));
    }
}
