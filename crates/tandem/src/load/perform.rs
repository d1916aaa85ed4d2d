//! A run from its beginning to its end: users are started and registered, do what the plan says, and what
//! was measured is handed on.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use load::driver::{LoadGenerator, LoadModel, Outcome, Snapshot};
use report::Stopwatch;
use sip::Transport;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::common::Outputs;
use super::detach;
use super::display::{Display, Phase};
use super::job::{Done, Job, Registration};
use super::records::RecordFile;
use super::remote_control::RemoteControl;
use super::results::{Results, forks};
use super::tables;
use super::traces::Figures;
use super::view::Planned;
use crate::terminal::complain;

impl Job {
    /// Does it.
    pub(super) async fn run(mut self, outputs: &Outputs) -> anyhow::Result<Results> {
        let origin = Instant::now();
        let stopwatch = Stopwatch::start();
        let mut records = None;
        if let Some(path) = &outputs.csv {
            let (file, sender) = RecordFile::create(path, origin)?;
            self.config.records = Some(sender);
            records = Some(file);
        }
        self.config.traces = outputs.traces.open(&self.name)?;
        let figures = outputs.traces.figures(&self.name, &self.config.scripts)?;
        let users = self.users();
        let mut load = LoadGenerator::start(self.config.clone()).await?;
        // What is sent is read until the last sender is gone.
        self.config.records = None;
        let mut display = Display::open(
            self.title.clone(),
            if self.registration.is_some() {
                users
            } else {
                0
            },
            match self.shows_steps {
                true => self.config.scripts.clone(),
                false => Vec::new(),
            },
            !outputs.no_screen,
            outputs.progress,
            match outputs.control_port {
                Some(port) => Some(RemoteControl::open(port).await?),
                None => None,
            },
        )?;
        if outputs.detached {
            detach::say_begun();
        }
        for address in load.listening() {
            display.say(&format!("listening on {}:{address}", self.config.transport));
        }
        // No line says what an earlier one has said.
        load.show_every(outputs.progress.min(self.config.interval));
        let mut done = Done::default();
        let live = load.live();
        let performed = tokio::select! {
            performed = self.perform(&mut load, &mut display, &mut done, figures) => Ok(performed),
            error = self.nobody_listens(live) => Err(error),
        };
        let performed = match performed {
            Ok(performed) => {
                load.shutdown().await;
                performed
            }
            // There is nobody to take leave of.
            Err(error) => {
                drop(load);
                Err(error)
            }
        };
        // What was attempted is written although the run failed: it tells why.
        let records = records.map_or(Ok(()), RecordFile::finish);
        let is_interrupted = display.is_interrupted();
        // Gives the terminal back.
        drop(display);
        match performed {
            // Nothing is known that could be written.
            Err(error) if done.registered.is_none() && done.outcome.is_none() => {
                if let Err(unwritten) = records {
                    complain!("tandem: {unwritten:#}");
                }
                Err(error)
            }
            performed => Ok(Results::new(
                self,
                done,
                stopwatch.period(),
                performed.err(),
                is_interrupted,
                records,
            )),
        }
    }

    /// Registers the users, does what the plan says, and removes their bindings. What came of it is in `done`
    /// although something goes wrong later.
    async fn perform(
        &self,
        load: &mut LoadGenerator,
        display: &mut Display,
        done: &mut Done,
        figures: Option<Figures>,
    ) -> anyhow::Result<()> {
        let users = self.users();
        let control = load.control();
        let live = load.live();
        if let Some(registration) = self.registration {
            let phase = Phase {
                name: "registering",
                planned: Planned::Unlimited,
            };
            let mut timeout = RegistrationTimeout::new(registration, users);
            let registering = load.register(registration.per_second, timeout.longest);
            let outcome = display
                .watch(
                    phase,
                    &control,
                    &live,
                    |snapshot| timeout.is_over(snapshot),
                    registering,
                )
                .await?;
            let outcome = done.registered.insert(outcome);
            if !display.is_ending() {
                check_registered(outcome, users, display)?;
                if let Some(warning) = forks(&outcome.counters) {
                    display.say(&warning);
                }
            }
        }
        if !display.is_ending() {
            let phase = Phase {
                name: match self.plan.model {
                    LoadModel::Serve { .. } => "answering",
                    _ => self.noun,
                },
                planned: self.planned(),
            };
            let running = load.run(self.plan.clone());
            let watching = display.watch(phase, &control, &live, |_| false, running);
            let outcome = match figures {
                Some(mut figures) => {
                    let outcome = tokio::select! {
                        outcome = watching => outcome,
                        never = figures.write(live.clone()) => match never {},
                    };
                    figures.write_lines(&live.borrow());
                    outcome?
                }
                None => watching.await?,
            };
            done.outcome = Some(outcome);
        }
        if self.unregisters && !display.is_interrupted() {
            let phase = Phase {
                name: "unregistering",
                planned: Planned::Unlimited,
            };
            let unregistering = load.unregister(load.time_to_unregister());
            let left = display
                .watch(phase, &control, &live, |_| false, unregistering)
                .await?
                .registered;
            if left > 0 {
                display.say(&format!(
                    "{left} of {users} users remain registered until their bindings expire"
                ));
            }
        }
        Ok(())
    }

    /// Ends where nothing has come for a third of a second, and the system has then been told twice, a third of a second apart,
    /// that nobody listens at the server's UDP port (ICMP). What asks is an empty line, which a SIP element ignores (RFC 3261
    /// section 7.5).
    async fn nobody_listens(&self, live: watch::Receiver<Arc<Snapshot>>) -> anyhow::Error {
        const PATIENCE: Duration = Duration::from_millis(330);
        let target = self.config.target;
        let is_asked = self.config.transport == Transport::Udp && self.calls_the_target;
        let refusal = async {
            tokio::time::sleep(PATIENCE).await;
            if !is_asked || live.borrow().counters.received > 0 {
                return None;
            }
            let local: SocketAddr = match target {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(local).await.ok()?;
            socket.connect(target).await.ok()?;
            for attempt in 0..2 {
                if attempt > 0 {
                    tokio::time::sleep(PATIENCE).await;
                }
                let again = tokio::time::Instant::now() + PATIENCE;
                socket.send(b"\r\n\r\n").await.ok()?;
                let mut answered = [0; 1];
                let answer = socket.recv(&mut answered);
                let answer = tokio::time::timeout_at(again, answer).await.ok()?;
                if answer.err()?.kind() != ErrorKind::ConnectionRefused {
                    return None;
                }
            }
            Some(anyhow!(
                "nobody listens at udp:{target}: its host says so (ICMP port unreachable); check --via and --transport"
            ))
        };
        match refusal.await {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    fn planned(&self) -> Planned {
        match self.plan.model {
            LoadModel::Open(plan) => match (plan.count, plan.time) {
                (Some(count), _) => Planned::Attempts(count),
                (None, Some(time)) => Planned::Time(time),
                (None, None) => Planned::Unlimited,
            },
            LoadModel::Closed { count, time } | LoadModel::Serve { count, time } => {
                match (count, time) {
                    (Some(count), _) => Planned::Attempts(count),
                    (None, Some(time)) => Planned::Time(time),
                    (None, None) => Planned::Unlimited,
                }
            }
        }
    }
}

/// How long registrations are waited for. Users who were refused or not answered try again after a while,
/// which need not be waited for.
#[derive(Debug)]
struct RegistrationTimeout {
    /// At the very most.
    longest: Duration,
    /// Before this they may not all have begun.
    shortest: Duration,
    users: u64,
    /// How many had ended when it was looked last.
    ended: u64,
}

impl RegistrationTimeout {
    /// How long the last registrations may take to be answered: 64·T1 (RFC 3261 section 17.1.2.2), and a
    /// second attempt of those that timed out.
    const LONGEST: Duration = Duration::from_secs(70);
    const SHORTEST: Duration = Duration::from_secs(2);

    fn new(registration: Registration, users: u64) -> RegistrationTimeout {
        let beginning = registration
            .per_second
            .and_then(|rate| Duration::try_from_secs_f64(users as f64 / rate).ok())
            .unwrap_or_default();
        RegistrationTimeout {
            longest: beginning.saturating_add(Self::LONGEST),
            shortest: beginning.saturating_add(Self::SHORTEST),
            users,
            ended: 0,
        }
    }

    /// Whether all have been answered or given up, and nothing has changed since it was asked last.
    fn is_over(&mut self, snapshot: &Snapshot) -> bool {
        let statistics = &snapshot.statistics;
        let ended = statistics.registrations.decided();
        let has_changed = std::mem::replace(&mut self.ended, ended) != ended;
        snapshot.time > self.shortest
            && u64::from(snapshot.registered) < self.users
            && !has_changed
            && ended >= statistics.arrivals.started
    }
}

/// Nobody who is not registered can be called: without any user there is nothing to do.
fn check_registered(outcome: &Outcome, users: u64, display: &Display) -> anyhow::Result<()> {
    let registered = u64::from(outcome.registered);
    if registered >= users {
        return Ok(());
    }
    let codes = &outcome.statistics.register_codes;
    let answers: Vec<String> = tables::named(codes)
        .filter(|(name, _)| name != "200")
        .map(|(name, count)| format!("{name}: {count}"))
        .collect();
    let answers = match answers.is_empty() {
        true => "no answers".to_owned(),
        false => format!("answers {}", answers.join(", ")),
    };
    let advice = match codes.responses() {
        [] if outcome.unconnected > 0 => {
            "the server refuses connections: check --via and --transport"
        }
        [] => {
            "no answer: check --via and --transport, or give --no-register if it is not a registrar"
        }
        [(401 | 403 | 407, _), ..] if outcome.statistics.authentications > 0 => {
            "the registrar rejects their credentials: check names, passwords, and --domain"
        }
        [(401 | 403 | 407, _), ..] => {
            "the registrar requires authentication: give --auth USER-PATTERN:PASS or --users-file"
        }
        [(200, _)] => {
            "the registrar answered 200, but the scenario expects something else, such as a challenge"
        }
        _ => "check --domain, or give --no-register if it is not a registrar",
    };
    ensure!(
        registered > 0,
        "none of {users} users could register ({answers}): {advice}"
    );
    display.say(&format!(
        "{} of {users} users are not registered ({answers}); calls to them will fail",
        users - registered
    ));
    Ok(())
}
