//! The load generator: starts workers, gives them plans, and merges their statistics.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip_net::WireStatistics;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::background::{BackgroundTotal, Running};
use super::command::{Command, Control, Reply, Report};
use super::config::{Connections, GeneratorConfig, Role};
use super::error::LoadError;
use super::media::MediaTotal;
use super::plan::{LoadModel, LoadPlan};
use super::usage::ProcessorTime;
use super::{open_files, start};
use crate::arrivals::{Share, Validity, ValidityLimits};
use crate::engine::{Counters, StepCount};
use crate::statistics::Statistics;

/// When the first report follows after the very beginning of a run, which has nothing to report.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The shortest time between reports.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// How often it is looked whether users that were refused are registered after all.
const REGISTRATION_CHECK: Duration = Duration::from_millis(50);

/// How much longer than its connections a worker may take to reply.
const REPLY_MARGIN: Duration = Duration::from_secs(10);

/// How long a registrar may take to remove all bindings, and how much longer for each.
const UNREGISTERING: Duration = Duration::from_secs(5);
const UNREGISTERING_ONE: Duration = Duration::from_millis(1);

/// Emulated users on real sockets. Dropping it ends its threads; [`shutdown`](LoadGenerator::shutdown) also waits for
/// connections to be closed as their transport has it.
#[derive(Debug)]
pub struct LoadGenerator {
    workers: Vec<JoinHandle<()>>,
    replies: UnboundedReceiver<Reply>,
    control: Control,
    live: watch::Sender<Arc<Snapshot>>,
    /// From one thing that `live` shows to the next.
    live_every: Duration,
    listening: Vec<SocketAddr>,
    encapsulation: Option<SocketAddr>,
    background: Option<Running>,
    /// What the workers had taken of the processors when the last run ended.
    processor: ProcessorTime,
    /// Datagrams for which our own sockets had had no room then.
    dropped: u64,
    /// Users of this process.
    users: u32,
}

/// The statistics of a run that is under way.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Since it began.
    pub time: Duration,
    /// What was measured so far.
    pub statistics: Statistics,
    /// What the engines have counted since the users were started.
    pub counters: Counters,
    /// What became of the [lines](crate::script::Script::lines) of each script since then.
    pub steps: Vec<Vec<StepCount>>,
    /// Attempts of our users that are under way.
    pub in_flight: usize,
    /// Users whose registration stands.
    pub registered: u32,
    /// Attempts a second that the schedule has now; none in a closed loop.
    pub per_second: Option<f64>,
    /// Whether it is paused.
    pub is_paused: bool,
    /// How many [changes](Control::changes) of the schedule it has at least.
    pub changes: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the beginning until all that was begun had ended, or had had its time.
    pub time: Duration,
    /// What was measured.
    pub statistics: Statistics,
    /// Whether the generator kept the schedule; a closed loop has none and is valid.
    pub validity: Validity,
    /// Users whose registration stands.
    pub registered: u32,
    /// Connections that users need and that are not open.
    pub unconnected: u32,
    /// What the engines have counted since the users were started.
    pub counters: Counters,
    /// What became of the [lines](crate::script::Script::lines) of each script since then.
    pub steps: Vec<Vec<StepCount>>,
    /// What has gone over the wire since the users were started;
    /// [`incoming_dropped`](WireStatistics::incoming_dropped) are datagrams for which our own sockets had no
    /// room.
    pub wire: WireStatistics,
    /// What the workers took of the processors for this run.
    pub processor: ProcessorTime,
    /// The background traffic beside the run, where there is any.
    pub background: Option<BackgroundTotal>,
    /// What TLS agreed on last, by its IANA name, where there is any.
    pub tls_cipher_suite: Option<String>,
    /// The media of calls, where they have any.
    pub media: Option<Box<MediaTotal>>,
}

impl LoadGenerator {
    /// Starts the workers and opens all connections.
    ///
    /// # Errors
    /// When sockets cannot be opened, the target refuses connections, or settings contradict each other.
    pub async fn start(config: GeneratorConfig) -> Result<LoadGenerator, LoadError> {
        start::check(&config)?;
        let count = start::workers(&config);
        if config.connections == Connections::PerUser {
            open_files::allow(2 * u64::from(config.users));
        }
        let background = config.background.map(Running::start).transpose()?;
        let limit = config.connect_within + REPLY_MARGIN;
        let (sender, replies) = unbounded_channel();
        let config = Arc::new(config);
        let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
        let mut threads = Vec::with_capacity(count as usize);
        let mut built = Vec::with_capacity(count as usize);
        for worker in 0..count {
            let share = Share {
                worker,
                workers: count,
            };
            let (config, replies) = (config.clone(), sender.clone());
            let rng = ChaCha12Rng::from_rng(&mut rng);
            let (sender, receiver) = oneshot::channel();
            let thread = thread::Builder::new()
                .name(format!("load-{worker}"))
                .spawn(move || start::start_worker(&config, share, rng, replies, sender))?;
            threads.push(thread);
            built.push(receiver);
        }
        drop(sender);
        let mut mailboxes = Vec::new();
        let mut listening = Vec::new();
        let mut encapsulation = None;
        for receiver in built {
            let built = receiver.await.map_err(|_| LoadError::Stopped)??;
            mailboxes.push(built.mailbox);
            listening.extend(built.listening);
            encapsulation = encapsulation.or(built.encapsulation);
        }
        let nothing = Snapshot {
            time: Duration::ZERO,
            statistics: Statistics::new(Instant::now(), config.interval),
            counters: Counters::default(),
            steps: Vec::new(),
            in_flight: 0,
            registered: 0,
            per_second: None,
            is_paused: false,
            changes: 0,
        };
        let mut load = LoadGenerator {
            workers: threads,
            replies,
            control: Control::new(mailboxes.into()),
            live: watch::Sender::new(Arc::new(nothing)),
            live_every: config.interval,
            listening,
            encapsulation,
            background,
            processor: ProcessorTime::default(),
            dropped: 0,
            users: config.users * if config.role == Role::Both { 2 } else { 1 },
        };
        match tokio::time::timeout(limit, load.all_ready()).await {
            Ok(ready) => ready.map(|()| load),
            Err(_) => Err(LoadError::Stopped),
        }
    }

    /// Registers all users, so many a second or as fast as the registrar answers, and returns when all are
    /// registered or when the time is up. Those who are not go on trying.
    ///
    /// # Errors
    /// When the workers stop.
    pub async fn register(
        &mut self,
        per_second: Option<f64>,
        within: Duration,
    ) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        self.control.send(&Command::Register {
            started,
            per_second,
        });
        let limits = Until {
            end: started.checked_add(within),
            registered: true,
            served: None,
        };
        self.fulfil(
            started,
            REGISTRATION_CHECK.min(self.live_every),
            limits,
            &Command::Rest,
        )
        .await
    }

    /// Removes the bindings of all users who are registered, and returns when the registrar has said so or when the
    /// time is up. They are not kept registered any more.
    ///
    /// # Errors
    /// When the workers stop.
    pub async fn unregister(&mut self, within: Duration) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        self.control.send(&Command::Unregister { started });
        let until = Until {
            end: started.checked_add(within),
            registered: false,
            served: None,
        };
        self.fulfil(started, self.live_every, until, &Command::Rest)
            .await
    }

    /// How long to wait for [`unregister`](LoadGenerator::unregister): a registrar that answers has removed all bindings by then.
    pub fn time_to_unregister(&self) -> Duration {
        UNREGISTERING.saturating_add(UNREGISTERING_ONE.saturating_mul(self.users))
    }

    /// Fulfils a plan and returns when all that it wants begun has ended, or has had its time; or soon after
    /// [`Control::quit`]. What is under way then remains unfinished.
    ///
    /// # Errors
    /// When the arrivals of the plan cannot be followed, or the workers stop.
    pub async fn run(&mut self, plan: LoadPlan) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        let plan = Arc::new(plan);
        let served = match plan.model {
            LoadModel::Serve { count, .. } => count,
            LoadModel::Open(_) | LoadModel::Closed { .. } => None,
        };
        self.control.send(&Command::Run { started, plan });
        let limits = Until {
            end: None,
            registered: false,
            served,
        };
        self.fulfil(started, self.live_every, limits, &Command::Finish)
            .await
    }

    /// Shows what has been measured so far: once in each [interval](GeneratorConfig::interval), or as often as
    /// [`show_every`](LoadGenerator::show_every) says, and more often within the first one.
    pub fn live(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.live.subscribe()
    }

    /// How often [`live`](LoadGenerator::live) shows what has been measured so far. Each time costs every worker a copy of its
    /// statistics.
    pub fn show_every(&mut self, every: Duration) {
        self.live_every = every;
    }

    /// Steers runs while they go on.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Where callees are called directly, worker by worker.
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// The UDP address under our SCTP (RFC 6951), where there is one: who calls these callees over SCTP sends
    /// there.
    pub fn encapsulation(&self) -> Option<SocketAddr> {
        self.encapsulation
    }

    /// What went over the wire since the users were started.
    ///
    /// # Errors
    /// When the workers have stopped.
    pub async fn wire_statistics(&mut self) -> Result<WireStatistics, LoadError> {
        self.control.send(&Command::Report);
        let mut collected = Collected::default();
        while collected.reports < self.workers.len() {
            if let Reply::Report(report) = self.reply().await? {
                collected.add(*report);
            }
        }
        Ok(collected.sum.map(|sum| sum.wire).unwrap_or_default())
    }

    /// Closes all connections, and waits until they are closed as their transport has it.
    pub async fn shutdown(mut self) {
        self.control.send(&Command::Shutdown);
        // Workers drop their ends when their connections are closed.
        while self.replies.recv().await.is_some() {}
        for worker in self.workers.drain(..) {
            worker.join().ok();
        }
    }

    async fn all_ready(&mut self) -> Result<(), LoadError> {
        let mut ready = 0;
        while ready < self.workers.len() {
            if let Reply::Ready = self.reply().await? {
                ready += 1;
            }
        }
        Ok(())
    }

    /// The next reply of a worker.
    async fn reply(&mut self) -> Result<Reply, LoadError> {
        match self.replies.recv().await {
            Some(Reply::Failed(error)) => Err(error),
            Some(reply) => Ok(reply),
            None => Err(LoadError::Stopped),
        }
    }

    /// Waits until workers have done what they were told, or have had their time, and collects what they
    /// measured.
    async fn fulfil(
        &mut self,
        started: Instant,
        every: Duration,
        until: Until,
        end: &Command,
    ) -> Result<Outcome, LoadError> {
        let workers = self.workers.len();
        let processor = self.processor;
        let control = self.control.clone();
        control.begin_phase();
        if let Some(background) = &self.background {
            background.begin();
        }
        let mut reports = Collected::default();
        let mut next = started;
        let mut done = 0;
        // Reports of an earlier question that nobody waited for are not taken for answers.
        let mut asked = false;
        let mut changes = control.changes();
        loop {
            let is_late = tokio::time::sleep_until(until.end.unwrap_or(started + FOREVER).into());
            tokio::select! {
                reply = self.reply() => match reply? {
                    Reply::Done => done += 1,
                    Reply::Report(report) => {
                        reports.add(*report);
                        if reports.reports == workers
                            && let Some(sum) = std::mem::take(&mut reports).sum
                        {
                            asked = false;
                            let is_registered = sum.registered + sum.unconnected_users >= self.users;
                            let served = sum.statistics.served.decided();
                            self.show(started, sum, changes);
                            if until.registered && done == workers && is_registered
                                || until.served.is_some_and(|count| served >= count)
                            {
                                break;
                            }
                        }
                    }
                    _ => {}
                },
                () = tokio::time::sleep_until(next.into()) => {
                    let planned = next + until_next_look(every, next - started);
                    next = planned.max(Instant::now());
                    if !asked {
                        asked = true;
                        changes = control.changes();
                        control.send(&Command::Report);
                    }
                },
                () = control.quitting() => break,
                () = is_late => break,
            }
            if !until.registered && done == workers {
                break;
            }
        }
        let time = started.elapsed();
        if let Some(background) = &self.background {
            background.end();
        }
        changes = control.changes();
        control.send(end);
        let mut finished = Collected::default();
        while finished.reports < workers {
            if let Reply::Finished(report) = self.reply().await? {
                finished.add(*report);
            }
        }
        let Some(mut sum) = finished.sum else {
            return Err(LoadError::Stopped);
        };
        self.processor = sum.processor;
        let dropped = sum.wire.incoming_dropped.saturating_sub(self.dropped);
        self.dropped = sum.wire.incoming_dropped;
        let background = match &self.background {
            Some(background) => Some(background.total().await),
            None => None,
        };
        let limits = ValidityLimits::default();
        let mut validity = Validity::judge(&limits, &sum.statistics, sum.scheduled, dropped);
        if let Some(background) = &background {
            validity.judge_background(&limits, background.sent, background.due());
        }
        let outcome = Outcome {
            time,
            validity,
            registered: sum.registered,
            unconnected: sum.unconnected,
            counters: sum.counters,
            steps: sum.steps.clone(),
            wire: sum.wire,
            processor: sum.processor - processor,
            background,
            statistics: sum.statistics.clone(),
            tls_cipher_suite: sum.tls_cipher_suite.take(),
            media: sum.media.take(),
        };
        self.show(started, sum, changes);
        Ok(outcome)
    }

    /// Publishes the statistics so far.
    fn show(&self, started: Instant, sum: Report, changes: u64) {
        self.live.send_replace(Arc::new(Snapshot {
            time: started.elapsed(),
            statistics: sum.statistics,
            counters: sum.counters,
            steps: sum.steps,
            in_flight: sum.in_flight,
            registered: sum.registered,
            per_second: sum.per_second,
            is_paused: self.control.is_paused(),
            changes,
        }));
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.control.send(&Command::Shutdown);
    }
}

/// How long after a report the next one follows: soon at the beginning of a run, when there is little to copy.
fn until_next_look(every: Duration, so_far: Duration) -> Duration {
    so_far.max(FIRST_LOOK).min(every).max(SHORTEST_LOOK)
}

/// When to go on.
#[derive(Clone, Copy, Debug)]
struct Until {
    /// At this time.
    end: Option<Instant>,
    /// Not before all users are registered.
    registered: bool,
    /// When others have begun so many attempts, which have ended.
    served: Option<u64>,
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The reports of workers, merged.
#[derive(Debug, Default)]
struct Collected {
    reports: usize,
    sum: Option<Report>,
}

impl Collected {
    fn add(&mut self, report: Report) {
        self.reports += 1;
        match &mut self.sum {
            Some(sum) => sum.add(report),
            None => self.sum = Some(report),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_comes_soon() {
        let looks = |every| {
            let mut at = Duration::ZERO;
            let next = || {
                at += until_next_look(Duration::from_millis(every), at);
                at.as_millis()
            };
            std::iter::repeat_with(next).take(6).collect::<Vec<_>>()
        };
        assert_eq!(looks(1_000), [250, 500, 1_000, 2_000, 3_000, 4_000]);
        assert_eq!(looks(5_000), [250, 500, 1_000, 2_000, 4_000, 8_000]);
        assert_eq!(looks(50), [50, 100, 150, 200, 250, 300]);
        assert_eq!(looks(0), [10, 20, 30, 40, 50, 60]);
    }
}
