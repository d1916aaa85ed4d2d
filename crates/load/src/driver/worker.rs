//! One worker: a thread with an engine, connections of its own, and a share of the schedule.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use tokio::sync::mpsc::UnboundedSender;

use super::carrier::Carrier;
use super::coalescing::{Coalescer, CoalescingLimits};
use super::command::{Command, Reply, Report};
use super::error::LoadError;
use super::media::CallsWithMedia;
use super::phase::{Beginning, Phase, Progress};
use super::plan::{LoadPlan, Peers, Task, TaskKind};
use super::population::Population;
use super::twins::Twins;
use super::usage;
use super::users::Users;
use crate::engine::{Engine, NewSession};
use crate::record::Record;
use crate::statistics::Statistics;

/// The longest that a worker waits without looking around.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// How long a worker that ends waits for answers to the BYEs and CANCELs of what it has ended before its time.
const GOODBYE: Duration = Duration::from_secs(1);

/// Records are handed on when there are so many, or when they are so old.
const RECORDS_AT_ONCE: usize = 512;
const OLDEST_RECORD: Duration = Duration::from_secs(1);

/// Commands of other generators that are taken in one turn.
const COMMANDS_AT_ONCE: usize = 256;

/// The parts of a worker.
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
    /// For how long messages may gather.
    pub(super) coalescing: CoalescingLimits,
    pub(super) transport: Transport,
    /// Whether there is a second next hop.
    pub(super) has_second: bool,
    /// Other generators.
    pub(super) twins: Option<Twins>,
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
        coalescing,
        transport,
        has_second,
        twins,
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
        longest_turn: coalescing.longest([]),
        coalescing,
        transport,
        has_second,
        twins,
        plan: None,
        rng,
    };
    if worker.open(&mut carrier, connect_by) {
        worker.work(&mut carrier);
        worker.say_goodbye(&mut carrier);
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
    coalescing: CoalescingLimits,
    /// In this phase.
    longest_turn: Duration,
    transport: Transport,
    has_second: bool,
    twins: Option<Twins>,
    /// What the run does.
    plan: Option<Arc<LoadPlan>>,
    rng: ChaCha12Rng,
}

impl Worker {
    /// Waits until all connections are open, or the time for that is over. Returns whether to go on.
    fn open(&mut self, carrier: &mut Carrier, by: Instant) -> bool {
        let mut has_failed = false;
        // The last that trying again would not help.
        let mut lasting = None;
        while self.users.unopened() > 0 && Instant::now() < by {
            match self.commands.try_recv() {
                Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return false,
                // There is nothing to steer yet.
                Ok(_) | Err(TryRecvError::Empty) => {}
            }
            let until = by.min(Instant::now() + LONGEST_WAIT);
            carrier.turn(Some(until), &mut self.users);
            if let Some((target, source)) = carrier.take_error() {
                has_failed = true;
                if !source.is_passing() {
                    lasting = Some(LoadError::Connect {
                        transport: self.transport,
                        target,
                        source,
                    });
                    if !self.has_second {
                        break;
                    }
                }
            }
            // Where the first next hop refuses the second one is there for it.
            if self.has_second && has_failed && self.users.unconnected_users() == 0 {
                break;
            }
        }
        match lasting {
            // Those who reach one of two next hops have what they need, whatever becomes of the other.
            Some(error) if !self.has_second || self.users.unconnected_users() > 0 => {
                self.reply(Reply::Failed(error));
                false
            }
            _ => self.reply(Reply::Ready),
        }
    }

    fn work(&mut self, carrier: &mut Carrier) {
        let mut coalescer = Coalescer::new(Instant::now(), self.longest_turn);
        loop {
            let mut now = Instant::now();
            loop {
                match self.commands.try_recv() {
                    Ok(command) => {
                        // What was changed before a report is asked for is no longer to come when it is made.
                        now = Instant::now();
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
            let has_more_commands = self.take_commands(now);
            // What was due has taken its time.
            let now = Instant::now();
            let engine = &mut self.users.engine;
            let progress = self.phase.turn(now, engine, &mut self.statistics);
            self.take_records(now);
            if let Err(error) = self.send_commands() {
                self.reply(Reply::Failed(LoadError::Commands(error)));
                return;
            }
            carrier.flush(&mut self.users);
            self.phase.note_begun(Instant::now(), &mut self.statistics);
            if progress == Progress::Done && !self.reply(Reply::Done) {
                return;
            }
            let next = [self.users.engine.next_timeout(), self.phase.next()];
            let next = next.into_iter().flatten().min();
            let received = self.users.engine.counters().received;
            let mut until = next;
            if self.phase.is_open() {
                if self.users.engine.counters().redirections > 0 {
                    // Delays count from the request that was redirected (RFC 6076 section 4.3).
                    self.longest_turn = self.longest_turn.min(self.coalescing.with_follow_ups());
                }
                coalescer.limit(self.longest_turn);
                let is_behind = progress == Progress::More || next.is_some_and(|next| next <= now);
                let wait = coalescer.end_turn(Instant::now(), next, is_behind, received);
                until = wait.until;
                if !wait.pause.is_zero() {
                    thread::sleep(wait.pause);
                }
            }
            if has_more_commands {
                until = Some(now);
            }
            let latest = now + LONGEST_WAIT;
            carrier.turn(
                Some(until.map_or(latest, |until| until.min(latest))),
                &mut self.users,
            );
            if let Err(error) = self.send_commands() {
                self.reply(Reply::Failed(LoadError::Commands(error)));
                return;
            }
            self.take_records(now);
            if carrier.is_stopped() {
                self.reply(Reply::Failed(LoadError::Stopped));
                return;
            }
        }
    }

    /// Peers of what was ended before its time are told so, and have a moment to answer.
    fn say_goodbye(&mut self, carrier: &mut Carrier) {
        let by = Instant::now() + GOODBYE;
        loop {
            let now = Instant::now();
            self.users.engine.handle_timeout(now);
            let is_over = self.users.engine.sessions() == 0 || now >= by || carrier.is_stopped();
            // The last turn sends what there is to send, and waits for nothing.
            let until = match is_over {
                true => now,
                false => self
                    .users
                    .engine
                    .next_timeout()
                    .map_or(by, |due| due.min(by)),
            };
            carrier.turn(Some(until), &mut self.users);
            self.take_records(now);
            if is_over {
                return;
            }
        }
    }

    /// Returns whether to go on.
    fn obey(&mut self, now: Instant, command: Command, carrier: &mut Carrier) -> bool {
        match command {
            Command::Register {
                started,
                per_second,
            } => {
                self.statistics = Statistics::new(started, self.interval);
                let rng = ChaCha12Rng::from_rng(&mut self.rng);
                self.longest_turn = self.coalescing.longest([TaskKind::Register]);
                match Phase::register(started, per_second, self.population, rng) {
                    Ok(phase) => self.phase = phase,
                    Err(error) => return self.reply(Reply::Failed(error.into())),
                }
            }
            Command::Unregister { started } => {
                self.statistics = Statistics::new(started, self.interval);
                self.phase = Phase::unregister(self.population);
            }
            Command::Run { started, plan } => {
                self.statistics = Statistics::new(started, self.interval);
                let rng = ChaCha12Rng::from_rng(&mut self.rng);
                let engine = &mut self.users.engine;
                let tasks = plan.tasks.iter().map(|task| task.kind);
                self.longest_turn = self.coalescing.longest(tasks);
                self.plan = Some(Arc::clone(&plan));
                match Phase::run(now, started, &plan, self.population, rng, engine) {
                    Ok(phase) => self.phase = phase,
                    Err(error) => return self.reply(Reply::Failed(error.into())),
                }
            }
            Command::SetRate { now, per_second } => self.phase.set_rate(now, per_second),
            Command::Pause { now } => self.phase.pause(now),
            Command::Resume { now } => self.phase.resume(now),
            Command::Stop => self.phase.stop(now, &mut self.users.engine),
            Command::Report => {
                let report = self.report(now, carrier);
                return self.reply(Reply::Report(Box::new(report)));
            }
            Command::Finish => {
                self.phase.stop(now, &mut self.users.engine);
                self.users.engine.end_all(now);
                self.take_records(now);
                self.hand_on_records();
                let mut report = self.report(now, carrier);
                report.media = self.media.as_ref().map(CallsWithMedia::finish);
                self.phase = Phase::idle();
                return self.reply(Reply::Finished(Box::new(report)));
            }
            Command::Rest => {
                let report = self.report(now, carrier);
                self.phase = Phase::idle();
                return self.reply(Reply::Finished(Box::new(report)));
            }
            Command::Shutdown => return false,
        }
        true
    }

    /// Hands on what other generators say. What is for no call begins one, where a script begins so. Tells whether more may
    /// have come than is taken at a time.
    fn take_commands(&mut self, now: Instant) -> bool {
        let (Some(twins), Some(plan)) = (&self.twins, &self.plan) else {
            // What comes before the run waits for it.
            return false;
        };
        for _ in 0..COMMANDS_AT_ONCE {
            let Some(command) = twins.poll() else {
                return false;
            };
            let engine = &mut self.users.engine;
            if engine.handle_command(now, &command).is_ok() {
                continue;
            }
            let Some(Task {
                kind: TaskKind::Script(script),
                peers,
                ..
            }) = plan.tasks.first()
            else {
                continue;
            };
            let (callers, all_callers) = (self.population.callers, self.population.all_callers);
            let begin = |engine: &mut Engine, number: u64| {
                let of = |count: u32| (number % u64::from(count.max(1))) as u32;
                let user = callers.first + callers.step * of(callers.count);
                let peer = match *peers {
                    Peers::Opposite => user + all_callers,
                    Peers::Range { first, count } => first + of(count),
                };
                let session = NewSession {
                    script: *script,
                    user,
                    peer,
                };
                engine.begin_commanded(now, session, &command)
            };
            let statistics = &mut self.statistics;
            let beginning = self.phase.begin_commanded(now, engine, statistics, begin);
            if beginning == Beginning::Refused {
                engine.refuse_command(&command);
            }
        }
        true
    }

    fn send_commands(&mut self) -> std::io::Result<()> {
        while let Some(command) = self.users.engine.poll_command() {
            if let Some(twins) = &mut self.twins {
                twins.send(&command)?;
            }
        }
        self.twins.as_ref().map_or(Ok(()), Twins::check)
    }

    fn take_records(&mut self, now: Instant) {
        if let Some(media) = &self.media {
            media.stop_those_due(now);
        }
        self.users.write_traces();
        while let Some(record) = self.users.engine.poll_record() {
            self.phase.record(&record);
            self.statistics.record(&record);
            if let Record::Registration(registration) = &record
                && registration.is_refresh
                && self.phase.is_serving()
            {
                // Nothing else is begun by the clock.
                self.statistics.note_upkeep(&registration.attempt);
            }
            if let Some(records) = &mut self.records
                && !self.phase.is_removing()
            {
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
            steps: engine.step_counts().to_vec(),
            wire: carrier.statistics(),
            in_flight: engine.in_flight(),
            registered: engine.registered_users(),
            unconnected: self.users.unopened(),
            unconnected_users: self.users.unconnected_users(),
            processor: usage::of_thread(),
            tls_cipher_suite: carrier.tls_cipher_suite(),
            media: None,
        }
    }

    /// Sends a reply. Returns whether anybody receives it.
    fn reply(&self, reply: Reply) -> bool {
        self.replies.send(reply).is_ok()
    }
}

/// Records that are handed on in batches.
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
