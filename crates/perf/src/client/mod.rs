//! The client: it asks a server for a test, does its own side of it, and puts both sides together.

mod flows;
mod open;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::sync::watch;
use tokio::time::{Interval as Ticks, MissedTickBehavior, interval, sleep_until, timeout};

use crate::control::{
    ClientMessage, ControlChannel, REPORT_INTERVAL, SILENCE, ServerMessage, SideResult, Snapshot,
    VERSION, printable,
};
use crate::result::{Interval, Meter, Sides, TestResult};
use crate::test_side::{Role, TestSide, sum};
use crate::{CarrierConfig, Protocol, Target, TestParameters};

pub(crate) use open::{Connection, connect};
pub use open::{resolve, wildcards};

/// How long the server may take to agree to a test, and then to see its flows.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long what the server says it has sent may still be under way.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// A test against a server.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server.
    pub target: Target,
    /// What to do.
    pub test: TestParameters,
    /// What carries SCTP.
    pub carrier: CarrierConfig,
    /// Local addresses for SCTP; with none, the system's choice.
    pub local_addresses: Vec<IpAddr>,
    /// Hosts beyond loopback and private networks that may be put under load.
    pub may_test: Vec<String>,
}

/// How often the person who started the test has interrupted it: once ends it in good order, twice at once.
/// Either way there is a result.
pub type Interrupts = watch::Receiver<u32>;

/// Runs a test. `on_interval` is told each second how it goes.
///
/// What goes wrong once data flows is told in the result, beside what was measured until then.
///
/// # Errors
///
/// When the test makes no sense, the server cannot be reached or refuses, or may not be put under load.
pub async fn run(
    config: &ClientConfig,
    interrupts: Interrupts,
    mut on_interval: impl FnMut(&Interval),
) -> anyhow::Result<TestResult> {
    let test = &config.test;
    if let Err(reason) = test.check() {
        bail!(reason);
    }
    if config.target.protocol != test.protocol {
        bail!("a test of {} against {}", test.protocol, config.target);
    }
    let mut connection = connect(config).await?;
    let target = &config.target;
    let agreed = agree(&mut connection.control, test);
    let (ports, tokens) = within(ANSWER_TIME, agreed, target).await?;
    let opened = flows::open(config, &connection, &ports, &tokens);
    let flows = within(ANSWER_TIME, opened, target).await?;
    if let Some(streams) = flows.streams.filter(|streams| *streams < test.streams) {
        bail!(
            "{target}: the server takes {streams} streams, not {}",
            test.streams
        );
    }

    // A receiver is ready before its sender begins.
    let early = test
        .reverse
        .then(|| TestSide::start(test, flows.all.clone(), Role::Receiver));
    let ready = wait_until_ready(&mut connection.control);
    within(ANSWER_TIME, ready, target).await?;
    let side = early.unwrap_or_else(|| TestSide::start(test, flows.all.clone(), Role::Sender));

    let mut conversation = Conversation {
        test,
        side,
        control: connection.control,
        meter: Meter::new(test.size),
        server: None,
        result: None,
        intervals: Vec::new(),
        interrupts,
        interrupted: false,
        omitted: None,
    };
    let outcome = conversation.hold(&mut on_interval).await;
    let run = conversation.finish(config, outcome);
    if let Some(last) = run.intervals.last().filter(|last| last.is_worth_a_line()) {
        on_interval(last);
    }
    flows.close().await;
    if let Some(stack) = connection.stack {
        stack.close().await;
    }
    Ok(run)
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
    target: &Target,
) -> anyhow::Result<T> {
    timeout(time, work)
        .await
        .unwrap_or_else(|_| bail!("it does not answer"))
        .with_context(|| target.to_string())
}

async fn agree(
    control: &mut ControlChannel,
    test: &TestParameters,
) -> anyhow::Result<(Vec<u16>, Vec<crate::control::Token>)> {
    let request = ClientMessage::Request {
        version: VERSION,
        test: test.clone(),
    };
    control.send(&request).await?;
    match control.receive().await? {
        ServerMessage::Accepted { ports, tokens } if tokens.len() == test.parallel => {
            Ok((ports, tokens))
        }
        ServerMessage::Refused { reason } => bail!("refused: {}", printable(&reason)),
        _ => bail!("unexpected message from the server"),
    }
}

async fn wait_until_ready(control: &mut ControlChannel) -> anyhow::Result<()> {
    match control.receive().await? {
        ServerMessage::Ready => Ok(()),
        _ => bail!("unexpected message from the server"),
    }
}

/// A test while its data flows.
struct Conversation<'a> {
    test: &'a TestParameters,
    side: TestSide,
    control: ControlChannel,
    meter: Meter,
    /// The server's last report.
    server: Option<Snapshot>,
    result: Option<SideResult>,
    intervals: Vec<Interval>,
    interrupts: Interrupts,
    interrupted: bool,
    /// What the receiver and the sender had done at the end of what is omitted.
    omitted: Option<(Snapshot, Option<Snapshot>)>,
}

/// How far the server's report may be from ours for both to be of the end of what is omitted, in microseconds: half of the
/// time between two reports.
const MOST_OMITTED_AGE: u64 = 500_000;

impl Conversation<'_> {
    /// Until both sides are done, or something breaks.
    async fn hold(&mut self, on_interval: &mut impl FnMut(&Interval)) -> anyhow::Result<()> {
        let mut tick = ticks();
        tick.tick().await;
        let mut last_received = Instant::now();
        let mut sender_done = self.test.reverse;
        loop {
            tokio::select! {
                () = self.side.ended(), if !sender_done => {
                    sender_done = true;
                    let totals = self.side.totals();
                    let messages = totals.iter().map(|flow| flow.messages).collect();
                    self.control.send(&ClientMessage::Sent { messages }).await?;
                }
                _ = tick.tick() => {
                    self.control.send(&ClientMessage::Alive).await?;
                    if self.test.reverse {
                        let receiver = self.side.snapshot().await;
                        let sender = self.server.clone();
                        self.progress(&receiver, sender.as_ref(), on_interval);
                    }
                }
                said = self.control.receive() => {
                    last_received = Instant::now();
                    match said? {
                        ServerMessage::Report(snapshot) if self.test.reverse => {
                            if let Some((_, sender @ None)) = &mut self.omitted {
                                *sender = Some(snapshot.clone());
                            }
                            self.server = Some(snapshot);
                        }
                        ServerMessage::Report(snapshot) => {
                            let sender = self.side.snapshot().await;
                            self.progress(&snapshot, Some(&sender), on_interval);
                            self.server = Some(snapshot);
                        }
                        ServerMessage::Done(result) if result.flows.len() == self.test.parallel => {
                            self.result = Some(result);
                            return self.drain().await;
                        }
                        _ => bail!("unexpected message from the server"),
                    }
                }
                // When nobody is left who could interrupt, this branch is out.
                Ok(()) = self.interrupts.changed() => {
                    let count = *self.interrupts.borrow_and_update();
                    self.interrupted = true;
                    if count > 1 {
                        bail!("interrupted before the server sent its result");
                    }
                    match self.test.reverse {
                        true => self.control.send(&ClientMessage::Stop).await?,
                        false => self.side.stop(),
                    }
                }
                () = sleep_until((last_received + SILENCE).into()) => {
                    bail!("the server was silent for {} s", SILENCE.as_secs());
                }
            }
        }
    }

    /// The server is done: so must we be, or soon.
    async fn drain(&mut self) -> anyhow::Result<()> {
        if let Some(result) = self.result.as_ref().filter(|_| self.test.reverse) {
            let messages = result.flows.iter().map(|flow| flow.messages).collect();
            self.side.peer_has_sent(messages);
        }
        timeout(DRAIN_TIME, self.side.ended())
            .await
            .context("not all data sent has arrived")
    }

    fn progress(
        &mut self,
        receiver: &Snapshot,
        sender: Option<&Snapshot>,
        on_interval: &mut impl FnMut(&Interval),
    ) {
        let interval = self.meter.interval(receiver, sender);
        let omits = self.test.omit.is_some() && self.omitted.is_none();
        if omits && interval.to_seconds >= self.test.omit_seconds() {
            // What the server has told last may be of a second ago: then its next report is nearer.
            let is_ours = !self.test.reverse;
            let is_near = |sender: &&Snapshot| {
                let age = sender.elapsed_us.abs_diff(receiver.elapsed_us);
                is_ours || age <= MOST_OMITTED_AGE
            };
            self.omitted = Some((receiver.clone(), sender.filter(is_near).cloned()));
        }
        on_interval(&interval);
        self.intervals.push(interval);
    }

    fn finish(mut self, config: &ClientConfig, outcome: anyhow::Result<()>) -> TestResult {
        let ours = self.side.result(false);
        let theirs = self.result.take();
        let sides = match (self.test.reverse, theirs) {
            (false, Some(theirs)) => Sides::both(ours, theirs),
            (true, Some(theirs)) => Sides::both(theirs, ours),
            // What the server told last is all that is known of it.
            (false, None) => Sides::sender_alone(ours, self.server.as_ref()),
            (true, None) => Sides::receiver_alone(ours, self.server.as_ref()),
        };
        let mut run = TestResult::new(self.test, sides);
        run.over = (config.target.protocol == Protocol::Sctp).then_some(config.carrier.over);
        run.target = config.target.to_string();
        run.interrupted = self.interrupted;
        let total = sum(&run.received.flows);
        self.intervals.extend(self.meter.rest(total, run.seconds));
        run.intervals = self.intervals;
        if let Some((receiver, sender)) = &self.omitted {
            run.omit(receiver, sender.as_ref().or(self.server.as_ref()));
        }
        if let Err(error) = outcome {
            run.errors.insert(0, format!("{error:#}"));
        }
        run
    }
}

fn ticks() -> Ticks {
    let mut tick = interval(REPORT_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick
}
