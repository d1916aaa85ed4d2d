//! Commands to workers and their replies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use sip_net::WireStatistics;
use tokio::sync::Notify;

use super::carrier::Waker;
use super::error::LoadError;
use super::media::MediaTotal;
use super::plan::LoadPlan;
use super::usage::ProcessorTime;
use crate::engine::{Counters, StepCount};
use crate::statistics::Statistics;

/// A command to a worker.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// Register all users, so many a second of all workers together, or as fast as the registrar answers.
    Register {
        started: Instant,
        per_second: Option<f64>,
    },
    /// Remove the bindings of all users, as fast as the registrar answers.
    Unregister { started: Instant },
    /// Do what a plan says.
    Run {
        started: Instant,
        plan: Arc<LoadPlan>,
    },
    /// From now on so many attempts a second, all workers together.
    SetRate { now: Instant, per_second: f64 },
    /// Begin nothing until it is told to resume.
    Pause { now: Instant },
    /// Go on.
    Resume { now: Instant },
    /// Begin nothing more.
    Stop,
    /// Report the statistics so far.
    Report,
    /// End the run: what is under way is given up.
    Finish,
    /// End the run, and let what is under way go on.
    Rest,
    /// Close everything.
    Shutdown,
}

/// A reply of a worker.
#[derive(Debug)]
pub(super) enum Reply {
    /// It cannot begin, or cannot go on.
    Failed(LoadError),
    /// Its connections are open, or the time for that is over.
    Ready,
    /// It has begun all that it was to begin, and all of it has ended or the time for that is over.
    Done,
    /// As asked for by [`Command::Report`].
    Report(Box<Report>),
    /// The run has ended.
    Finished(Box<Report>),
}

/// The statistics and state of a worker.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) statistics: Statistics,
    /// Arrivals that the schedule has so far.
    pub(super) scheduled: u64,
    /// Attempts that the plan wants a second at present, of all workers.
    pub(super) per_second: Option<f64>,
    pub(super) counters: Counters,
    pub(super) steps: Vec<Vec<StepCount>>,
    pub(super) wire: WireStatistics,
    pub(super) in_flight: usize,
    pub(super) registered: u32,
    /// Connections that users need and that are not open.
    pub(super) unconnected: u32,
    /// Users who have no connection.
    pub(super) unconnected_users: u32,
    pub(super) processor: ProcessorTime,
    /// What TLS agreed on last.
    pub(super) tls_cipher_suite: Option<String>,
    /// Of a run that is over, where calls have media.
    pub(super) media: Option<Box<MediaTotal>>,
}

impl Report {
    /// Adds the report of another worker on the same run.
    pub(super) fn add(&mut self, other: Report) {
        self.statistics.merge(&other.statistics);
        self.scheduled += other.scheduled;
        self.counters += other.counters;
        for (ours, theirs) in self.steps.iter_mut().zip(&other.steps) {
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                *ours += *theirs;
            }
        }
        self.wire += other.wire;
        self.in_flight += other.in_flight;
        self.registered += other.registered;
        self.unconnected += other.unconnected;
        self.unconnected_users += other.unconnected_users;
        self.processor += other.processor;
        self.tls_cipher_suite = self.tls_cipher_suite.take().or(other.tls_cipher_suite);
        match (&mut self.media, other.media) {
            (Some(ours), Some(theirs)) => ours.merge(&theirs),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
    }
}

/// The way to send commands to a worker.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(commands: mpsc::Sender<Command>, waker: Waker) -> Mailbox {
        Mailbox { commands, waker }
    }

    /// Sends a command. A worker that has ended does not receive it.
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// Steers a run while it is under way. Cheap to clone, and of use from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    workers: Arc<[Mailbox]>,
    quit: Arc<Notify>,
    is_quitting: Arc<AtomicBool>,
    /// The run that is under way is enough; further ones may follow.
    is_enough: Arc<AtomicBool>,
    is_paused: Arc<AtomicBool>,
    changes: Arc<AtomicU64>,
}

impl Control {
    pub(super) fn new(workers: Arc<[Mailbox]>) -> Control {
        Control {
            workers,
            quit: Arc::new(Notify::new()),
            is_quitting: Arc::new(AtomicBool::new(false)),
            is_enough: Arc::new(AtomicBool::new(false)),
            is_paused: Arc::new(AtomicBool::new(false)),
            changes: Arc::new(AtomicU64::new(0)),
        }
    }

    /// So many attempts a second from now on, all workers together. A closed loop does not heed it.
    pub fn set_rate(&self, per_second: f64) {
        let now = Instant::now();
        self.send_change(&Command::SetRate { now, per_second });
    }

    /// Begins nothing until [`resume`](Control::resume); the schedule then goes on where it was. A closed loop
    /// does not heed it.
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
        let now = Instant::now();
        self.send_change(&Command::Pause { now });
    }

    /// Goes on.
    pub fn resume(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
        let now = Instant::now();
        self.send_change(&Command::Resume { now });
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// How often the rate was set, or a run paused or resumed. What was asked of the workers after that has it:
    /// [`Snapshot::changes`](super::Snapshot::changes).
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Begins nothing more, and lets end what is under way.
    pub fn stop(&self) {
        self.send(&Command::Stop);
    }

    /// Ends the run at once; what is under way remains unfinished. Further runs end before they begin
    /// anything.
    pub fn quit(&self) {
        self.is_quitting.store(true, Ordering::Relaxed);
        self.quit.notify_one();
    }

    /// Ends at once the run, or the registration, that is under way, and nothing else: what follows begins as
    /// if this had never been said.
    pub fn end_phase(&self) {
        self.is_enough.store(true, Ordering::Relaxed);
        self.quit.notify_one();
    }

    /// A run begins: what was said about an earlier one is not about this one.
    pub(super) fn begin_phase(&self) {
        self.is_enough.store(false, Ordering::Relaxed);
    }

    /// Whether to end at once.
    pub fn is_quitting(&self) -> bool {
        self.is_quitting.load(Ordering::Relaxed)
    }

    /// Waits until what is under way is to end at once.
    pub(super) async fn quitting(&self) {
        while !self.is_quitting() && !self.is_enough.load(Ordering::Relaxed) {
            self.quit.notified().await;
        }
    }

    pub(super) fn send(&self, command: &Command) {
        for worker in self.workers.iter() {
            worker.send(command.clone());
        }
    }

    fn send_change(&self, command: &Command) {
        self.send(command);
        // Not before all workers were told: whoever sees the count asks them behind that.
        self.changes.fetch_add(1, Ordering::Release);
    }
}
