//! When attempts begin: arrivals by the clock, which wait for no answer, and whether the generator kept up
//! with them.
//!
//! Workers share nothing: each follows the same [`Plan`] with its [`Share`] of the arrivals.

mod pattern;
#[cfg(test)]
mod tests;
mod validity;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

pub use pattern::{Pattern, PatternError};
pub use validity::{Objection, Validity, ValidityLimits};

use pattern::{After, Stretch};

/// When attempts are to begin, by all workers together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How many a second, over time.
    pub pattern: Pattern,
    /// How they are spaced.
    pub spacing: Spacing,
    /// After how many there are no more.
    pub count: Option<u64>,
    /// After how long there are no more.
    pub time: Option<Duration>,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly.
    Even,
    /// At random, each without regard to the others: a Poisson process, whose rate may change over time.
    Random,
}

/// Which part of the arrivals is a worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The worker, from 0.
    pub worker: u32,
    /// All workers.
    pub workers: u32,
}

impl Share {
    /// Everything.
    pub const ALL: Share = Share {
        worker: 0,
        workers: 1,
    };

    /// How many of this many things are this worker's, when thing *i* is worker *i* mod *workers*'.
    pub fn of(self, things: u64) -> u64 {
        let (worker, workers) = (u64::from(self.worker), u64::from(self.workers.max(1)));
        things / workers + u64::from(worker < things % workers)
    }
}

/// The arrivals of one worker.
///
/// Arrivals that are not taken when they are due stay due: a generator that falls behind sees them all,
/// with the times at which they should have been.
#[derive(Clone, Debug)]
pub struct Arrivals {
    spacing: Spacing,
    count: Option<u64>,
    time: Option<Duration>,
    share: Share,
    started: Instant,
    rng: ChaCha12Rng,
    /// Where the last arrival was that was taken.
    position: Position,
    /// How far it is from there to the next one, in arrivals of all workers.
    distance: f64,
    /// The next arrival, in seconds since the start.
    next: Option<f64>,
    /// How many arrivals, of this worker's, were taken.
    taken: u64,
}

impl Arrivals {
    /// The arrivals of a worker of a run that starts then. Workers have random generators of their own.
    ///
    /// # Errors
    ///
    /// When the plan cannot be followed.
    pub fn new(
        plan: Plan,
        share: Share,
        started: Instant,
        rng: ChaCha12Rng,
    ) -> Result<Arrivals, PatternError> {
        plan.pattern.validate()?;
        let mut arrivals = Arrivals {
            spacing: plan.spacing,
            count: plan.count,
            time: plan.time,
            share,
            started,
            rng,
            position: Position::new(plan.pattern),
            distance: 0.0,
            next: None,
            taken: 0,
        };
        arrivals.distance = match plan.spacing {
            // Workers take turns.
            Spacing::Even => f64::from(share.worker),
            Spacing::Random => arrivals.draw(),
        };
        arrivals.find_next();
        Ok(arrivals)
    }

    /// When the next arrival is due; none when there are no more, or none as long as nobody changes the
    /// rate.
    pub fn next_due(&self) -> Option<Instant> {
        let seconds = self.next.filter(|_| !self.is_enough())?;
        let due = Duration::try_from_secs_f64(seconds).ok()?;
        if self.time.is_some_and(|time| due >= time) {
            return None;
        }
        self.started.checked_add(due)
    }

    /// Takes the next arrival, if it is due: when it should have begun.
    pub fn take_due(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.position.advance(self.distance);
        self.taken += 1;
        self.distance = self.draw();
        self.find_next();
        Some(due)
    }

    /// Whether there are no more arrivals whatever anybody changes.
    pub fn is_finished(&self, now: Instant) -> bool {
        let is_over = |time| now.saturating_duration_since(self.started) >= time;
        self.is_enough() || (self.time.is_some_and(is_over) && self.next_due().is_none())
    }

    /// How many arrivals of this worker's were due until then, those included that were not taken. For the
    /// [verdict](Validity::judge).
    pub fn scheduled(&self, until: Instant) -> u64 {
        let mut rest = self.clone();
        while rest.take_due(until).is_some() {}
        rest.taken
    }

    /// How many arrivals a second there are at the time, for all workers together.
    pub fn per_second(&self, now: Instant) -> f64 {
        self.position.clone().rate_at(self.seconds(now))
    }

    /// From now on there are this many arrivals a second, for all workers together, whatever the pattern
    /// was. What is not a rate is the nearest that is.
    pub fn set_rate(&mut self, now: Instant, per_second: f64) {
        let rate = if per_second.is_nan() { 0.0 } else { per_second };
        self.change(now, Change::Rate(rate.clamp(0.0, Pattern::HIGHEST)));
    }

    /// From now on there are no arrivals, until [`resume`](Self::resume).
    pub fn pause(&mut self, now: Instant) {
        self.change(now, Change::Pause);
    }

    /// The pattern goes on where it was when it was paused.
    pub fn resume(&mut self, now: Instant) {
        self.change(now, Change::Resume);
    }

    fn is_enough(&self) -> bool {
        let is_reached = |count| self.taken >= self.share.of(count);
        self.count.is_some_and(is_reached)
    }

    /// How far the next arrival is from the last one, in arrivals of all workers.
    fn draw(&mut self) -> f64 {
        let own = match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Random => {
                // A Poisson process: exponentially distributed with mean 1. From 0 to below 1, so the
                // logarithm is finite.
                let uniform: f64 = self.rng.random();
                -(1.0 - uniform).ln()
            }
        };
        own * f64::from(self.share.workers.max(1))
    }

    fn find_next(&mut self) {
        self.next = self.position.clone().advance(self.distance);
    }

    fn change(&mut self, now: Instant, change: Change) {
        let at = self.seconds(now);
        self.position.change(at, change);
        self.find_next();
    }

    fn seconds(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.started).as_secs_f64()
    }
}

/// A point in a pattern, which people change while the run goes on.
#[derive(Clone, Debug)]
struct Position {
    pattern: Pattern,
    /// The time, in seconds since the start, as are the other times.
    reached: f64,
    /// When the pattern began: later than the start by all pauses.
    began: f64,
    /// Which stretch of the pattern it is.
    stretch: u64,
    paused_at: Option<f64>,
    /// What people changed after the time that is reached.
    changes: VecDeque<(f64, Change)>,
}

/// What people change while a run goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Rate(f64),
    Pause,
    Resume,
}

impl Position {
    /// Changes that may wait to come to pass, for a generator that is behind.
    const CHANGES: usize = 1024;
    /// Times beyond this many seconds are never.
    const FOREVER: f64 = 1e9;

    fn new(pattern: Pattern) -> Position {
        Position {
            pattern,
            reached: 0.0,
            began: 0.0,
            stretch: 0,
            paused_at: None,
            changes: VecDeque::new(),
        }
    }

    /// Moves on by this many arrivals: to when. None when the rate does not bring as many.
    fn advance(&mut self, mut arrivals: f64) -> Option<f64> {
        // Each turn passes a change or a stretch, of which there are finitely many within a time.
        while self.reached < Self::FOREVER {
            match self.stretch_now().after(self.reached, arrivals) {
                After::At(time) => {
                    self.reached = time;
                    return Some(time);
                }
                After::End { end, owed } => {
                    self.reached = self.reached.max(end);
                    arrivals = owed;
                    self.pass_end();
                }
                After::Never => return None,
            }
        }
        None
    }

    /// The rate at a time that is not before the one that is reached.
    fn rate_at(&mut self, time: f64) -> f64 {
        self.pass_changes(time);
        if self.paused_at.is_some() {
            return 0.0;
        }
        let since = Duration::try_from_secs_f64((time - self.began).max(0.0));
        self.pattern.rate_at(since.unwrap_or(Duration::MAX))
    }

    /// Notes a change that comes to pass at a time, or when the ones before it have.
    fn change(&mut self, at: f64, change: Change) {
        if self.changes.len() >= Self::CHANGES {
            self.changes.pop_back();
        }
        let last = self.changes.back().map_or(self.reached, |(last, _)| *last);
        self.changes.push_back((at.max(last), change));
    }

    /// The present stretch of the rate, cut where it is changed next.
    fn stretch_now(&self) -> Stretch {
        let changed = self.changes.front().map(|(at, _)| *at);
        if self.paused_at.is_some() {
            return Stretch {
                start: self.reached,
                end: changed,
                rate: 0.0,
                slope: 0.0,
            };
        }
        let stretch = self.pattern.stretch(self.stretch);
        let end = stretch.end.map(|end| end + self.began);
        Stretch {
            start: stretch.start + self.began,
            end: match (end, changed) {
                (Some(end), Some(changed)) => Some(end.min(changed)),
                (end, changed) => end.or(changed),
            },
            ..stretch
        }
    }

    /// The end of a stretch is reached: by a change, or because another stretch follows.
    fn pass_end(&mut self) {
        match self.changes.front() {
            Some((at, _)) if *at <= self.reached => self.pass_changes(self.reached),
            _ => self.stretch += 1,
        }
    }

    /// Lets changes come to pass up to a time.
    fn pass_changes(&mut self, until: f64) {
        while let Some((at, change)) = self.changes.pop_front_if(|(at, _)| *at <= until) {
            match change {
                Change::Rate(per_second) => {
                    self.pattern = Pattern::Constant { per_second };
                    self.stretch = 0;
                    self.began = at;
                    self.paused_at = self.paused_at.map(|_| at);
                }
                Change::Pause => self.paused_at = self.paused_at.or(Some(at)),
                Change::Resume => {
                    if let Some(paused) = self.paused_at.take() {
                        self.began += at - paused;
                    }
                }
            }
        }
    }
}
