//! What is seen while a run goes on: a screen, or lines.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use load::driver::{Control, Snapshot};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::screen::{Key, Screen};
use super::view::{Planned, View};

/// Whoever watches: sees how a run stands and steers it.
pub(super) struct Display {
    title: String,
    screen: Option<Screen>,
    /// From one line to the next, where there is no screen.
    every: Duration,
    users: u64,
    signals: [Signal; 3],
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

impl Display {
    /// A screen where there is a terminal and it is wanted, otherwise lines, one each `every`.
    pub(super) fn open(
        title: String,
        users: u64,
        wants_screen: bool,
        every: Duration,
    ) -> io::Result<Display> {
        let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
        let screen = match is_terminal && wants_screen {
            true => Some(Screen::open()?),
            false => None,
        };
        Ok(Display {
            title,
            screen,
            every,
            users,
            // SIPp ends softly on SIGUSR1, as on q.
            signals: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::user_defined1())?,
            ],
            rate: None,
            is_ending: false,
            is_interrupted: false,
        })
    }

    /// A line that stays, for whoever reads lines.
    pub(super) fn say(&self, line: &str) {
        if self.screen.is_none() {
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
        let mut ticks = interval(match &self.screen {
            Some(_) => REFRESH,
            None => self.every,
        });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, when there is nothing to see.
        ticks.tick().await;
        loop {
            let key = tokio::select! {
                biased;
                done = &mut going_on => return done,
                key = pressed(&mut self.screen, &mut self.signals) => Some(key),
                _ = ticks.tick() => None,
            };
            let snapshot = live.borrow().clone();
            if !control.is_paused() && snapshot.time != seen {
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
                self.say("ending: what is under way may end; once more ends it now");
            }
            Key::Quit | Key::QuitNow => {
                self.is_ending = true;
                self.is_interrupted = true;
                control.quit();
            }
        }
    }

    fn show(&mut self, phase: Phase<'_>, control: &Control, snapshot: &Snapshot) {
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
        };
        match &mut self.screen {
            // A terminal that is gone takes nothing from the run.
            Some(screen) => drop(screen.show(&self.title, &view)),
            None => self.say(&view.line()),
        }
    }
}

/// Waits for a key, or a signal that means one.
async fn pressed(screen: &mut Option<Screen>, signals: &mut [Signal; 3]) -> Key {
    let [interrupt, terminate, user] = signals;
    let key = async {
        match screen {
            Some(screen) => screen.key().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        key = key => key,
        Some(()) = interrupt.recv() => Key::Quit,
        Some(()) = terminate.recv() => Key::Quit,
        Some(()) = user.recv() => Key::Quit,
    }
}
