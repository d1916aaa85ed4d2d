//! What a link is to be like at certain times.

use crate::LinkConfig;
use crate::link_words::LinkWords;
use crate::time::nanoseconds;
use crate::words::{self, Files, WordsError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Changes of a link over time: periods, counted from when the link begins, in which it is down or
/// other than it is otherwise. Where periods overlap, the one that comes later in the list counts; a
/// link is down when any of them says so.
///
/// In files it is a list of tables of words, see [`PeriodWords`].
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Schedule {
    periods: Vec<Period>,
}

/// A time in which a link is otherwise.
#[derive(Clone, PartialEq, Debug)]
struct Period {
    from: Duration,
    until: Option<Duration>,
    state: PeriodState,
}

#[derive(Clone, PartialEq, Debug)]
enum PeriodState {
    Down,
    Config(Box<LinkConfig>),
}

impl Schedule {
    /// No change ever.
    pub fn new() -> Schedule {
        Schedule::default()
    }

    /// The link is down from a time until another, or from then on.
    #[must_use]
    pub fn down(self, from: Duration, until: impl Into<Option<Duration>>) -> Schedule {
        self.with(from, until.into(), PeriodState::Down)
    }

    /// The link is like that from a time until another, or from then on.
    #[must_use]
    pub fn config(
        self,
        from: Duration,
        until: impl Into<Option<Duration>>,
        config: LinkConfig,
    ) -> Schedule {
        self.with(from, until.into(), PeriodState::Config(Box::new(config)))
    }

    /// Whether nothing ever changes.
    pub fn is_empty(&self) -> bool {
        self.periods.is_empty()
    }

    /// Reads periods whose words change `base`; the text of tables and traces comes from `files`.
    ///
    /// # Errors
    ///
    /// When something is none of what it is to be, or a period ends before it begins.
    pub fn read(
        periods: &[PeriodWords],
        base: &LinkConfig,
        files: &mut Files<'_>,
    ) -> Result<Schedule, WordsError> {
        let mut schedule = Schedule::new();
        for period in periods {
            let time = |text: &str| words::duration(text).map_err(WordsError::new);
            let from = time(&period.from)?;
            let until = period.until.as_deref().map(time).transpose()?;
            if until.is_some_and(|until| until <= from) {
                return Err(WordsError::new(format!(
                    "a period from {} ends before it has begun",
                    period.from
                )));
            }
            if period.down {
                schedule = schedule.down(from, until);
            }
            if period.words != LinkWords::default() {
                let config = period.words.over(base, files)?;
                schedule = schedule.config(from, until, config);
            }
        }
        Ok(schedule)
    }

    fn with(mut self, from: Duration, until: Option<Duration>, state: PeriodState) -> Schedule {
        self.periods.push(Period { from, until, state });
        self
    }

    /// The changes of a link that is otherwise like `base`, the schedule of which starts at a time in
    /// nanoseconds.
    pub(crate) fn timetable(&self, base: &LinkConfig, start: u64) -> Timetable {
        let ends = |period: &Period| period.until.map_or(u64::MAX, nanoseconds);
        let mut times: Vec<u64> = self
            .periods
            .iter()
            .flat_map(|period| [nanoseconds(period.from), ends(period)])
            .filter(|&time| time != u64::MAX)
            .collect();
        times.sort_unstable();
        times.dedup();
        let changes = times.into_iter().map(|time| {
            let now = self
                .periods
                .iter()
                .filter(|period| nanoseconds(period.from) <= time && time < ends(period));
            let mut change = Change {
                at: start.saturating_add(time),
                is_up: true,
                config: base.clone(),
            };
            for period in now {
                match &period.state {
                    PeriodState::Down => change.is_up = false,
                    PeriodState::Config(config) => change.config = (**config).clone(),
                }
            }
            change
        });
        let mut changes: Vec<Change> = changes.collect();
        changes.reverse();
        let mut timetable = Timetable { changes, next: 0 };
        timetable.look_ahead();
        timetable
    }
}

/// A period of a [`Schedule`] in words: `from = "10s"`, `until = "20s"` unless it never ends,
/// `down = true`, or words of a link that are otherwise then.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodWords {
    /// When it begins, counted from when the link begins.
    pub from: String,
    /// When it ends; never when that is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether the link is down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub down: bool,
    /// What is otherwise.
    #[serde(flatten)]
    pub words: LinkWords,
}

/// What a link becomes at a time.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Nanoseconds.
    at: u64,
    pub(crate) is_up: bool,
    pub(crate) config: LinkConfig,
}

/// The changes that are to come.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    /// The next one last.
    changes: Vec<Change>,
    /// When the next one is, in nanoseconds; the largest number when there is none.
    next: u64,
}

impl Default for Timetable {
    fn default() -> Timetable {
        Timetable {
            changes: Vec::new(),
            next: u64::MAX,
        }
    }
}

impl Timetable {
    #[inline]
    pub(crate) fn is_due(&self, time: u64) -> bool {
        time >= self.next
    }

    pub(crate) fn next_change(&self) -> Option<u64> {
        self.changes.last().map(|change| change.at)
    }

    /// The last change whose time has come.
    pub(crate) fn change(&mut self, time: u64) -> Option<Change> {
        let mut due = None;
        while self.changes.last().is_some_and(|change| change.at <= time) {
            due = self.changes.pop();
        }
        self.look_ahead();
        due
    }

    fn look_ahead(&mut self) {
        self.next = self.next_change().unwrap_or(u64::MAX);
    }
}
