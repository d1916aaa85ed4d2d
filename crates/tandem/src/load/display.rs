//! What is seen while a run goes on: a screen, or lines.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use load::driver::{Control, Snapshot};
use load::script::Script;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::remote_control::RemoteControl;
use super::screen::{Key, Screen};
use super::signals::{ending_signals, next_signal};
use super::tables;
use super::view::{Planned, View};
use crate::output_style::is_quiet;

/// Whoever watches: sees how a run stands and steers it.
pub(super) struct Display {
    title: String,
    screen: Option<Screen>,
    /// From one line to the next, where there is no screen.
    every: Duration,
    users: u64,
    /// The scripts whose steps are shown.
    scripts: Vec<Arc<Script>>,
    signals: [Signal; 3],
    remote_control: Option<RemoteControl>,
    /// The rate that is asked for, also while it is paused.
    rate: Option<f64>,
    is_ending: bool,
    is_interrupted: bool,
}

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase<'a> {
    pub(super) name: &'a str,
    pub(super) planned: Planned,
}

/// From one picture of the screen to the next.
const REFRESH: Duration = Duration::from_millis(250);

/// From one line to the next at least.
const SHORTEST: Duration = Duration::from_millis(10);

impl Display {
    /// A screen where there is a terminal and it is wanted, otherwise lines, one each `every`.
    pub(super) fn open(
        title: String,
        users: u64,
        scripts: Vec<Arc<Script>>,
        wants_screen: bool,
        every: Duration,
        remote_control: Option<RemoteControl>,
    ) -> io::Result<Display> {
        let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
        let screen = match is_terminal && wants_screen && !is_quiet() {
            true => Some(Screen::open()?),
            false => None,
        };
        Ok(Display {
            title,
            screen,
            every,
            users,
            scripts,
            signals: ending_signals()?,
            remote_control,
            rate: None,
            is_ending: false,
            is_interrupted: false,
        })
    }

    /// A line that stays, for whoever reads lines.
    pub(super) fn say(&self, line: &str) {
        if self.screen.is_none() && !is_quiet() {
            // Nobody may be reading any more; the run goes on.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Whether somebody asked for an end.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether somebody asked for an end at once.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Lets a phase of a run go on and shows it meanwhile; ends it when it is enough, which is asked each time
    /// that it is shown.
    pub(super) async fn watch<T>(
        &mut self,
        phase: Phase<'_>,
        control: &Control,
        live: &watch::Receiver<Arc<Snapshot>>,
        mut is_enough: impl FnMut(&Snapshot) -> bool,
        going_on: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(going_on);
        let mut seen = live.borrow().time;
        let mut lines = Lines::new(self.every);
        let mut news = live.clone();
        news.mark_unchanged();
        let mut ticks = interval(REFRESH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, when there is nothing to see.
        ticks.tick().await;
        let has_screen = self.screen.is_some();
        loop {
            let key = tokio::select! {
                biased;
                done = &mut going_on => return done,
                key = pressed(&mut self.screen, &mut self.signals, &self.remote_control) => Some(key),
                _ = ticks.tick(), if has_screen => None,
                // A line stays: it is of the moment at which it is written.
                Ok(()) = news.changed(), if !has_screen => {
                    if !lines.is_due(news.borrow_and_update().time) {
                        continue;
                    }
                    None
                }
            };
            let snapshot = live.borrow().clone();
            // What was asked before a key was pressed knows nothing of what the key has changed.
            let is_current = snapshot.changes == control.changes();
            if is_current && !control.is_paused() && snapshot.time != seen {
                seen = snapshot.time;
                self.rate = snapshot.per_second;
            }
            if let Some(key) = key {
                self.obey(key, control);
            }
            if key.is_none() || self.screen.is_some() {
                self.show(phase, control, &snapshot);
            }
            if key.is_none() && is_enough(&snapshot) {
                control.end_phase();
            }
        }
    }

    fn obey(&mut self, key: Key, control: &Control) {
        match key {
            Key::SetRate(rate) => {
                if self.rate.is_some() {
                    self.rate = Some(rate);
                    control.set_rate(rate);
                }
            }
            Key::Rate(steps) => {
                if let Some(rate) = self.rate {
                    let rate = (rate + f64::from(steps)).max(0.0);
                    self.rate = Some(rate);
                    control.set_rate(rate);
                }
            }
            Key::Pause if control.is_paused() => control.resume(),
            Key::Pause => control.pause(),
            Key::Quit if !self.is_ending => {
                self.is_ending = true;
                control.stop();
                self.say("ending after calls in progress; again to end now");
            }
            Key::Quit | Key::QuitNow => {
                self.is_ending = true;
                self.is_interrupted = true;
                control.quit();
            }
        }
    }

    fn show(&mut self, phase: Phase<'_>, control: &Control, snapshot: &Snapshot) {
        let steps = tables::step_rows(&self.scripts, &snapshot.steps);
        let view = View {
            phase: phase.name,
            elapsed: snapshot.time,
            planned: phase.planned,
            rate: self.rate,
            is_paused: control.is_paused(),
            is_ending: self.is_ending,
            in_flight: snapshot.in_flight as u64,
            registered: u64::from(snapshot.registered),
            users: self.users,
            statistics: &snapshot.statistics,
            steps: &steps,
        };
        match &mut self.screen {
            // A terminal that is gone takes nothing from the run.
            Some(screen) => drop(screen.show(&self.title, &view)),
            None => self.say(&view.line()),
        }
    }
}

/// When there is to be a line.
#[derive(Clone, Copy, Debug)]
struct Lines {
    every: Duration,
    due: Duration,
}

impl Lines {
    /// One each `every`, the first one after that.
    fn new(every: Duration) -> Lines {
        let every = every.max(SHORTEST);
        Lines { every, due: every }
    }

    /// Whether what is known of this moment of a run is to be a line.
    fn is_due(&mut self, time: Duration) -> bool {
        if time < self.due {
            return false;
        }
        // One that was late does not delay the next one.
        let missed = (time - self.due).as_nanos() / self.every.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        self.due += self.every.saturating_mul(missed) + self.every;
        true
    }
}

/// Waits for a key, or a signal that means one.
async fn pressed(
    screen: &mut Option<Screen>,
    signals: &mut [Signal; 3],
    remote_control: &Option<RemoteControl>,
) -> Key {
    let key = async {
        match screen {
            Some(screen) => screen.key().await,
            None => std::future::pending().await,
        }
    };
    let from_elsewhere = async {
        match remote_control {
            Some(remote_control) => remote_control.key().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        key = key => key,
        key = from_elsewhere => key,
        true = next_signal(signals) => Key::Quit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_by_the_clock_of_the_run() {
        let second = Duration::from_secs(1);
        let mut lines = Lines::new(second);
        let due = [2, 999, 1_003, 1_500, 2_004, 2_999, 5_600, 5_900, 6_001].map(|milliseconds| {
            lines
                .is_due(Duration::from_millis(milliseconds))
                .then_some(milliseconds)
        });
        let due: Vec<u64> = due.into_iter().flatten().collect();
        assert_eq!(due, [1_003, 2_004, 5_600, 6_001]);
        assert!(!Lines::new(Duration::ZERO).is_due(Duration::ZERO));
    }
}
