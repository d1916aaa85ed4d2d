//! What the functions that a script calls have in common: the clock, the limits, and what is to be told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mlua::{Error, Function, Result};

use super::meter::Meter;
use super::shared::{Counters, Shared};
use crate::core::Event;

/// How many events of the plugins of a worker wait to be taken.
const MAXIMUM_EVENTS: usize = 1000;

/// What is said when a limit is reached.
pub(super) const OVER: &str = "the limit of instructions or time is reached";

/// What the scripts of a worker have to tell, until somebody takes it. Those that have been replaced tell it here, too.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<VecDeque<Event>>);

impl Events {
    /// Tells something. When too much waits it is forgotten.
    pub(super) fn push(&self, event: Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < MAXIMUM_EVENTS {
            events.push_back(event);
        }
    }

    pub(super) fn pop(&self) -> Option<Event> {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.pop_front()
    }
}

/// Of one state.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) plugin: Arc<str>,
    pub(super) meter: Meter,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
    /// How many octets anything may have that a script makes.
    pub(super) memory: usize,
    /// Times of day are written as UTC, whatever the zone of this host.
    pub(super) is_utc: bool,
    events: Arc<Events>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    started: Instant,
    now: Instant,
    /// The time of day at an instant.
    wall_clock: Option<(Instant, SystemTime)>,
    /// File and line where a limit was reached.
    over_at: Option<String>,
    /// What is to be called again and again.
    timers: Vec<(Duration, Function)>,
}

impl Context {
    pub(super) fn new(
        plugin: &Arc<str>,
        meter: Meter,
        shared: &Arc<Shared>,
        events: &Arc<Events>,
        memory: usize,
        is_utc: bool,
        now: Instant,
    ) -> Context {
        Context {
            plugin: Arc::clone(plugin),
            meter,
            shared: Arc::clone(shared),
            counters: shared.counters(plugin),
            memory,
            is_utc,
            events: Arc::clone(events),
            inner: Mutex::new(Inner {
                started: now,
                now,
                wall_clock: None,
                over_at: None,
                timers: Vec::new(),
            }),
        }
    }

    /// Counts work that is worth so many instructions.
    pub(super) fn charge(&self, instructions: u64) -> Result<()> {
        match self.meter.charge(instructions) {
            true => Ok(()),
            false => Err(Error::runtime(OVER)),
        }
    }

    /// Notes where a limit was reached, the first time in a call.
    pub(super) fn set_over_at(&self, place: String) {
        self.inner().over_at.get_or_insert(place);
    }

    pub(super) fn take_over_at(&self) -> Option<String> {
        self.inner().over_at.take()
    }

    pub(super) fn set_now(&self, now: Instant) {
        self.inner().now = now;
    }

    pub(super) fn set_wall_clock(&self, now: Instant, time: SystemTime) {
        self.inner().wall_clock = Some((now, time));
    }

    pub(super) fn now(&self) -> Instant {
        self.inner().now
    }

    /// Seconds since the state was made.
    pub(super) fn clock(&self) -> f64 {
        let inner = self.inner();
        inner
            .now
            .saturating_duration_since(inner.started)
            .as_secs_f64()
    }

    /// Seconds since the beginning of 1970; 0 where the time of day is not known.
    pub(super) fn time(&self) -> i64 {
        let inner = self.inner();
        let time = inner.wall_clock.and_then(|(then, time)| {
            let time = time.checked_add(inner.now.saturating_duration_since(then))?;
            time.duration_since(UNIX_EPOCH).ok()
        });
        time.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(0))
    }

    /// Tells something.
    pub(super) fn report(&self, event: Event) {
        self.events.push(event);
    }

    /// Returns how many there are now.
    pub(super) fn add_timer(&self, interval: Duration, function: Function) -> usize {
        let mut inner = self.inner();
        inner.timers.push((interval, function));
        inner.timers.len()
    }

    pub(super) fn take_timers(&self) -> Vec<(Duration, Function)> {
        std::mem::take(&mut self.inner().timers)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
