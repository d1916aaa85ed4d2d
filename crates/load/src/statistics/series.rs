//! What happened when: counts and delays of each interval of a run.

use std::time::{Duration, Instant};

use super::codes::Codes;
use super::sketch::Sketch;

/// What was counted in one interval of a [`Series`].
///
/// Arrivals count when they were due, beginnings when they began, ends and responses when they came; a
/// delay belongs to the interval of its `t1` (RFC 6076 section 3), so that it stands beside the rate that
/// caused it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Arrivals that were due.
    pub offered: u64,
    /// Of these, not begun.
    pub not_started: u64,
    /// Attempts begun.
    pub started: u64,
    /// Attempts that ended as their script wants.
    pub completed: u64,
    /// Attempts that ended otherwise.
    pub failed: u64,
    /// Requests sent again, by the end of the attempt they belong to.
    pub retransmissions: u64,
    /// Final responses to INVITE, REGISTER and other requests that begin attempts, and where none came.
    pub codes: Codes,
    /// Session request delay, of sessions that were set up.
    pub session_request_delay: Sketch,
    /// Registration request delay.
    pub registration_request_delay: Sketch,
    /// From other requests to their 2xx.
    pub request_delay: Sketch,
    /// How late attempts began.
    pub lateness: Sketch,
}

impl Interval {
    /// Adds what was counted in another one.
    pub fn merge(&mut self, other: &Interval) {
        let Interval {
            offered,
            not_started,
            started,
            completed,
            failed,
            retransmissions,
            codes,
            session_request_delay,
            registration_request_delay,
            request_delay,
            lateness,
        } = other;
        self.offered += offered;
        self.not_started += not_started;
        self.started += started;
        self.completed += completed;
        self.failed += failed;
        self.retransmissions += retransmissions;
        self.codes.merge(codes);
        self.session_request_delay.merge(session_request_delay);
        self.registration_request_delay
            .merge(registration_request_delay);
        self.request_delay.merge(request_delay);
        self.lateness.merge(lateness);
    }
}

/// Counts over time, in intervals that follow each other from the start of a run. When it turns out to be
/// longer, intervals are joined two and two: the size does not grow with the length of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    origin: Instant,
    width: Duration,
    intervals: Vec<Interval>,
}

impl Series {
    /// Intervals at most: an hour of seconds.
    pub const MOST: usize = 3600;

    /// No counts yet, of a run that starts then, in intervals as long as this (at least a millisecond).
    pub fn new(origin: Instant, width: Duration) -> Series {
        Series {
            origin,
            width: width.max(Duration::from_millis(1)),
            intervals: Vec::new(),
        }
    }

    /// When the run started.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// How long an interval is.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// The intervals so far, from the start of the run on, those in which nothing happened included.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The interval of a time. What was before the start belongs to the first one.
    pub(super) fn at(&mut self, time: Instant) -> &mut Interval {
        let since = nanoseconds(time.saturating_duration_since(self.origin));
        let index = loop {
            let index = since / nanoseconds(self.width).max(1);
            if index < Self::MOST as u64 {
                break index as usize;
            }
            self.widen();
        };
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    /// Adds the counts of another series: of the same run or a later one, with intervals that were as long
    /// in the beginning.
    pub fn merge(&mut self, other: &Series) {
        while self.width < other.width {
            self.widen();
        }
        for (index, interval) in (0..).zip(&other.intervals) {
            self.at(other.origin + other.width * index).merge(interval);
        }
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        let joined = self.intervals.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            if let Some(second) = pair.get(1) {
                sum.merge(second);
            }
            sum
        });
        self.intervals = joined.collect();
    }
}

/// As many as 64 bits hold: five centuries.
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(time.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn intervals_follow_each_other() {
        let origin = Instant::now();
        let mut series = Series::new(origin, seconds(1));
        series.at(origin).started += 1;
        series.at(origin + Duration::from_millis(2999)).started += 1;
        let started: Vec<u64> = series.intervals().iter().map(|each| each.started).collect();
        assert_eq!(started, [1, 0, 1]);
    }

    #[test]
    fn nothing_is_lost_when_intervals_are_joined() {
        let origin = Instant::now();
        let mut series = Series::new(origin, seconds(1));
        for second in 0..20_000 {
            series.at(origin + seconds(second)).started += 1;
        }
        assert!(series.intervals().len() <= Series::MOST);
        assert_eq!(series.width(), seconds(8));
        let started: u64 = series.intervals().iter().map(|each| each.started).sum();
        assert_eq!(started, 20_000);
    }

    #[test]
    fn a_later_run_comes_later() {
        let origin = Instant::now();
        let mut series = Series::new(origin, seconds(1));
        series.at(origin).started += 1;
        let mut later = Series::new(origin + seconds(2), seconds(1));
        later.at(origin + seconds(3)).started += 1;
        series.merge(&later);
        let started: Vec<u64> = series.intervals().iter().map(|each| each.started).collect();
        assert_eq!(started, [1, 0, 0, 1]);
    }

    #[test]
    fn series_of_different_lengths_are_merged() {
        let origin = Instant::now();
        let (mut short, mut long) = (
            Series::new(origin, seconds(1)),
            Series::new(origin, seconds(1)),
        );
        short.at(origin + seconds(5)).started += 1;
        long.at(origin + seconds(5)).started += 1;
        long.at(origin + seconds(10_000)).started += 1;
        let mut merged = short.clone();
        merged.merge(&long);
        long.merge(&short);
        assert_eq!(merged, long);
        assert_eq!(merged.width(), seconds(4));
        assert_eq!(merged.intervals()[1].started, 2);
    }
}
