//! One worker: a thread with an engine, connections of its own, and a share of the schedule.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use tokio::sync::mpsc::UnboundedSender;

use super::carrier::Carrier;
use super::command::{Command, Reply, Report};
use super::error::LoadError;
use super::media::CallsWithMedia;
use super::phase::{Phase, Population, Turn};
use super::usage;
use super::users::Users;
use crate::record::Record;
use crate::statistics::Statistics;

/// The longest that a worker waits without looking around.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// A worker that begins attempts by the clock and has more to do than so many messages in such a time lets them
/// gather for a while before it looks at them: a call is six wakes otherwise, each of which costs more than what
/// is done in it. Delays are measured too long by up to that and by how late the system's timer is.
const GATHERED_ABOVE: u64 = 40;
const GATHERED_BY: Duration = Duration::from_millis(10);
const GATHERING: Duration = Duration::from_micros(150);

/// Records are handed on when there are so many, or when they are so old.
const RECORDS_AT_ONCE: usize = 512;
const OLDEST_RECORD: Duration = Duration::from_secs(1);

/// What a worker is made of.
pub(super) struct Parts {
    pub(super) users: Users,
    pub(super) carrier: Carrier,
    pub(super) media: Option<CallsWithMedia>,
    pub(super) population: Population,
    pub(super) commands: Receiver<Command>,
    pub(super) replies: UnboundedSender<Reply>,
    pub(super) records: Option<SyncSender<Vec<Record>>>,
    pub(super) interval: Duration,
    pub(super) connect_by: Instant,
    /// What connections lead to.
    pub(super) target: (Transport, SocketAddr),
    pub(super) rng: ChaCha12Rng,
}

/// Runs a worker until it is told to end.
pub(super) fn run(parts: Parts) {
    let Parts {
        users,
        mut carrier,
        media,
        population,
        commands,
        replies,
        records,
        interval,
        connect_by,
        target,
        rng,
    } = parts;
    let mut worker = Worker {
        users,
        commands,
        replies,
        statistics: Statistics::new(Instant::now(), interval),
        interval,
        records: records.map(Records::new),
        media,
        population,
        phase: Phase::idle(),
        target,
        rng,
    };
    if worker.open(&mut carrier, connect_by) {
        worker.work(&mut carrier);
    }
    worker.hand_on_records();
    // Whoever waits for the worker's end waits for its connections' ends too.
    carrier.shutdown();
    drop(worker);
}

struct Worker {
    users: Users,
    commands: Receiver<Command>,
    replies: UnboundedSender<Reply>,
    statistics: Statistics,
    interval: Duration,
    records: Option<Records>,
    media: Option<CallsWithMedia>,
    population: Population,
    phase: Phase,
    target: (Transport, SocketAddr),
    rng: ChaCha12Rng,
}

impl Worker {
    /// Waits until all connections are open, or the time for that is over. Tells whether to go on.
    fn open(&mut self, carrier: &mut Carrier, by: Instant) -> bool {
        while self.users.unopened() > 0 && Instant::now() < by {
            if let Some(source) = carrier.take_error()
                && !source.is_passing()
            {
                let (transport, target) = self.target;
                self.tell(Reply::Failed(LoadError::Connect {
                    transport,
                    target,
                    source,
                }));
                return false;
            }
            match self.commands.try_recv() {
                Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return false,
                // There is nothing to steer yet.
                Ok(_) | Err(TryRecvError::Empty) => {}
            }
            let until = by.min(Instant::now() + LONGEST_WAIT);
            carrier.turn(Some(until), &mut self.users);
        }
        self.tell(Reply::Ready)
    }

    fn work(&mut self, carrier: &mut Carrier) {
        let mut gathering = Gathering::new(Instant::now());
        loop {
            let now = Instant::now();
            loop {
                match self.commands.try_recv() {
                    Ok(command) => {
                        if !self.obey(now, command, carrier) {
                            return;
                        }
                    }
                    Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
            let engine = &mut self.users.engine;
            if engine.next_timeout().is_some_and(|due| due <= now) {
                engine.handle_timeout(now);
                // What ended is none of what is begun now.
                self.take_records(now);
            }
            let engine = &mut self.users.engine;
            let turn = self.phase.turn(now, engine, &mut self.statistics);
            let timeouts = [
                engine.next_timeout(),
                self.phase.next(),
                Some(now + LONGEST_WAIT),
            ];
            self.take_records(now);
            if turn == Turn::Done && !self.tell(Reply::Done) {
                return;
            }
            carrier.turn(timeouts.into_iter().flatten().min(), &mut self.users);
            self.take_records(now);
            if self.phase.is_open() {
                gathering.wait(now, self.users.engine.counters().received);
            }
            if carrier.is_stopped() {
                self.tell(Reply::Failed(LoadError::Stopped));
                return;
            }
        }
    }

    /// Tells whether to go on.
    fn obey(&mut self, now: Instant, command: Command, carrier: &mut Carrier) -> bool {
        match command {
            Command::Register {
                started,
                per_second,
            } => {
                self.statistics = Statistics::new(started, self.interval);
                let rng = ChaCha12Rng::from_rng(&mut self.rng);
                match Phase::register(started, per_second, self.population, rng) {
                    Ok(phase) => self.phase = phase,
                    Err(error) => return self.tell(Reply::Failed(error.into())),
                }
            }
            Command::Run { started, plan } => {
                self.statistics = Statistics::new(started, self.interval);
                let rng = ChaCha12Rng::from_rng(&mut self.rng);
                let engine = &mut self.users.engine;
                match Phase::run(now, started, &plan, self.population, rng, engine) {
                    Ok(phase) => self.phase = phase,
                    Err(error) => return self.tell(Reply::Failed(error.into())),
                }
            }
            Command::SetRate { now, per_second } => self.phase.set_rate(now, per_second),
            Command::Pause { now } => self.phase.pause(now),
            Command::Resume { now } => self.phase.resume(now),
            Command::Stop => self.phase.stop(now, &mut self.users.engine),
            Command::Report => {
                let report = self.report(now, carrier);
                return self.tell(Reply::Report(Box::new(report)));
            }
            Command::Finish => {
                self.phase.stop(now, &mut self.users.engine);
                self.users.engine.abandon(now);
                self.take_records(now);
                self.hand_on_records();
                let mut report = self.report(now, carrier);
                report.media = self.media.as_ref().map(CallsWithMedia::finish);
                self.phase = Phase::idle();
                return self.tell(Reply::Finished(Box::new(report)));
            }
            Command::Rest => {
                let report = self.report(now, carrier);
                self.phase = Phase::idle();
                return self.tell(Reply::Finished(Box::new(report)));
            }
            Command::Shutdown => return false,
        }
        true
    }

    fn take_records(&mut self, now: Instant) {
        if let Some(media) = &self.media {
            media.stop_those_due(now);
        }
        while let Some(record) = self.users.engine.poll_record() {
            self.phase.record(&record);
            self.statistics.record(&record);
            if let Some(records) = &mut self.records {
                records.push(record, now);
            }
        }
        if let Some(records) = &mut self.records {
            records.hand_on_if_due(now);
        }
    }

    fn hand_on_records(&mut self) {
        if let Some(records) = &mut self.records {
            records.hand_on();
        }
    }

    fn report(&self, now: Instant, carrier: &Carrier) -> Report {
        let engine = &self.users.engine;
        Report {
            statistics: self.statistics.clone(),
            scheduled: self.phase.scheduled(now),
            per_second: self.phase.per_second(now),
            counters: *engine.counters(),
            wire: carrier.statistics(),
            in_flight: engine.in_flight(),
            registered: engine.registered_users(),
            unconnected: self.users.unopened(),
            unconnected_users: self.users.unconnected_users(),
            processor: usage::of_thread(),
            media: None,
        }
    }

    /// Tells whether somebody hears it.
    fn tell(&self, reply: Reply) -> bool {
        self.replies.send(reply).is_ok()
    }
}

/// How busy a worker is, and for how long it lets messages gather.
struct Gathering {
    since: Instant,
    /// Messages received until then.
    received: u64,
    is_busy: bool,
}

impl Gathering {
    fn new(now: Instant) -> Gathering {
        Gathering {
            since: now,
            received: 0,
            is_busy: false,
        }
    }

    /// Waits for what is left of a turn that began then.
    fn wait(&mut self, began: Instant, received: u64) {
        let now = Instant::now();
        if now.saturating_duration_since(self.since) >= GATHERED_BY {
            self.is_busy = received - self.received > GATHERED_ABOVE;
            (self.since, self.received) = (now, received);
        }
        let worked = now.saturating_duration_since(began);
        if self.is_busy && worked < GATHERING {
            std::thread::sleep(GATHERING - worked);
        }
    }
}

/// Records on their way to whoever wants each of them.
struct Records {
    to: SyncSender<Vec<Record>>,
    kept: Vec<Record>,
    since: Instant,
}

impl Records {
    fn new(to: SyncSender<Vec<Record>>) -> Records {
        Records {
            to,
            kept: Vec::new(),
            since: Instant::now(),
        }
    }

    fn push(&mut self, record: Record, now: Instant) {
        if self.kept.is_empty() {
            self.since = now;
        }
        self.kept.push(record);
        if self.kept.len() >= RECORDS_AT_ONCE {
            self.hand_on();
        }
    }

    fn hand_on_if_due(&mut self, now: Instant) {
        if !self.kept.is_empty() && now.saturating_duration_since(self.since) >= OLDEST_RECORD {
            self.hand_on();
        }
    }

    /// Where nobody takes them any more they are dropped.
    fn hand_on(&mut self) {
        if !self.kept.is_empty() {
            self.to.send(std::mem::take(&mut self.kept)).ok();
        }
    }
}
