//! The sender: it announces runs, sends packets by plan, and asks what became of them.

mod connect;
mod pace;
mod path;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use perf::{CarrierConfig, Over, Protocol, Target};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::cipher::Key;
use crate::clock;
use crate::composer::{Composer, Echoes, Packets};
use crate::control::{Order, ReceiverMessage, SenderMessage, VERSION, printable};
use crate::interface::Interface;
use crate::link_budget::{Ip, Transport};
use crate::plan::RunPlan;
use crate::reception::ReceiverReport;
use crate::result::{LinkShare, RunResult};
use crate::schedule::Schedule;

use pace::Pacing;
use path::Path;

/// How long the receiver may take to accept a run.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long it may take to report: what is under way at the end must have come first.
const REPORT_TIME: Duration = Duration::from_secs(60);

/// How long echoes are waited for when nothing comes any more.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// The settings of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Where packets go.
    pub target: Target,
    /// Whether names stand for their IPv6 addresses; otherwise an IPv4 address goes first.
    pub ipv6: bool,
    /// Hosts whose owners have agreed, beside this one and those in private networks.
    pub may_test: Vec<String>,
    /// What carries SCTP.
    pub carrier: CarrierConfig,
    /// Local addresses for SCTP; those that the system chooses where none is given.
    pub local_addresses: Vec<IpAddr>,
    /// Which experiment.
    pub experiment: u64,
    /// The speed of the link, where the system's own knowledge is not to be asked.
    pub link_speed: Option<u64>,
    /// Where random numbers come from.
    pub seed: u64,
    /// What is to be done, one after the other.
    pub runs: Vec<RunPlan>,
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Which run, from 1.
    pub run: usize,
    /// Time since it began.
    pub elapsed: Duration,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came back.
    pub echoes: u64,
    /// The median round trip until now.
    pub round_trip_ms: Option<f64>,
}

/// A sender that has reached its receiver.
pub struct Sender<'a> {
    config: &'a SenderConfig,
    path: Path,
    peer: IpAddr,
}

impl Sender<'_> {
    /// Connects to the target.
    ///
    /// # Errors
    ///
    /// When it may not be tested, or cannot be reached.
    pub async fn connect(config: &SenderConfig) -> anyhow::Result<Sender<'_>> {
        let (path, peer) = connect::open(config).await?;
        Ok(Sender { config, path, peer })
    }

    /// Sends all runs. `stop` ends the one that goes on, and leaves the rest out; `progress` is told each second.
    ///
    /// # Errors
    ///
    /// When the receiver refuses a run, or is lost.
    pub async fn send(
        self,
        stop: Arc<AtomicBool>,
        mut progress: impl FnMut(Progress) + Send + 'static,
    ) -> anyhow::Result<Vec<RunResult>> {
        let Sender {
            config,
            mut path,
            peer,
        } = self;
        let mut runs = Vec::new();
        for (index, plan) in config.runs.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let job = Job::new(config, plan.clone(), index, Arc::clone(&stop));
            // Pacing waits to the microsecond, so it has a thread to itself.
            let (result, back, told) = tokio::task::spawn_blocking(move || {
                let result = job.run(&mut path, &mut progress);
                (result, path, progress)
            })
            .await?;
            (path, progress) = (back, told);
            let outcome = result?;
            runs.push(judge(config, plan, index, peer, outcome));
        }
        path.close().await;
        Ok(runs)
    }
}

/// What both sides of a run tell.
struct Outcome {
    pacing: Pacing,
    composer: Composer,
    echoes: Echoes,
    report: ReceiverReport,
}

struct Job {
    plan: RunPlan,
    order: Order,
    index: usize,
    rng: ChaCha12Rng,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn new(config: &SenderConfig, plan: RunPlan, index: usize, stop: Arc<AtomicBool>) -> Job {
        let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
        rng.set_stream(index as u64 + 1);
        let mut key = [0; 32];
        // Not from the seed: a key belongs to one experiment alone.
        rand::rng().fill_bytes(&mut key);
        Job {
            order: Order {
                version: VERSION,
                experiment: config.experiment,
                run: u32::try_from(index + 1).unwrap_or(u32::MAX),
                transport: config.target.protocol,
                size: plan.size,
                encryption: plan.encryption,
                key: Key(key),
                echo: plan.echo,
                clock: clock::name(),
            },
            plan,
            index,
            rng,
            stop,
        }
    }

    fn run(self, path: &mut Path, progress: &mut impl FnMut(Progress)) -> anyhow::Result<Outcome> {
        let packets: Packets = self.order.packets();
        path.expect_echoes(Echoes::new(packets));
        match path.ask(&SenderMessage::Order(self.order), ANSWER_TIME)? {
            ReceiverMessage::Accepted => {}
            ReceiverMessage::Refused { reason } => {
                bail!("the receiver refuses: {}", printable(&reason))
            }
            ReceiverMessage::Report(_) => bail!("unexpected answer from the receiver"),
        }
        let mut composer = Composer::new(packets, self.plan.payload.clone());
        let rate = self.plan.rate.packets_per_second(self.plan.size);
        let schedule = Schedule::new(self.plan.pattern, rate, self.rng);
        let pacing = pace::run(
            path,
            &mut composer,
            schedule,
            self.plan.limit,
            &self.stop,
            |elapsed, sent, (echoes, round_trip_ms)| {
                progress(Progress {
                    run: self.index + 1,
                    elapsed,
                    sent,
                    echoes,
                    round_trip_ms,
                });
            },
        )?;
        let packets = composer.count().saturating_sub(pacing.refused);
        let report = match path.ask(&SenderMessage::Sent { packets }, REPORT_TIME)? {
            ReceiverMessage::Report(report) => *report,
            _ => bail!("unexpected answer from the receiver"),
        };
        path.settle(report.echoed, QUIET_TIME);
        let Some(echoes) = path.take_echoes() else {
            bail!("the run has ended twice");
        };
        Ok(Outcome {
            pacing,
            composer,
            echoes,
            report,
        })
    }
}

fn judge(
    config: &SenderConfig,
    plan: &RunPlan,
    index: usize,
    peer: IpAddr,
    outcome: Outcome,
) -> RunResult {
    let Outcome {
        pacing,
        composer,
        echoes,
        report,
    } = outcome;
    let sent = composer.count();
    let seconds = pacing.seconds;
    let per_second = |amount: f64, seconds: f64| (seconds > 0.0).then(|| amount / seconds);
    let packet_bytes = plan.size + plan.encryption.overhead();
    let packets_per_second = per_second(sent as f64, seconds);
    let rate = plan.rate.packets_per_second(plan.size);
    let late = pacing.lateness.p95.unwrap_or(0.0);
    let round_trip = echoes.round_trips().milliseconds();
    let (lost, loss_percent) = losses(sent, pacing.refused, report.received);
    RunResult {
        experiment: config.experiment,
        run: u32::try_from(index + 1).unwrap_or(u32::MAX),
        trial: plan.trial,
        target: config.target.to_string(),
        transport: config.target.protocol,
        over: (config.target.protocol == Protocol::Sctp).then_some(config.carrier.over),
        size_bytes: plan.size,
        packet_bytes,
        encryption: plan.encryption,
        secure: plan.encryption.is_secure(),
        pattern: plan.pattern.to_string(),
        rate: plan.rate,
        limit: plan.limit,
        interrupted: pacing.interrupted,
        sent,
        refused: pacing.refused,
        seconds,
        packets_per_second,
        received_bits_per_second: per_second(
            report.bytes as f64 * 8.0,
            seconds.max(report.seconds),
        ),
        lateness: pacing.lateness,
        on_schedule: rate.is_none_or(|rate| late <= (1e3 / rate).max(1.0)),
        sealing: composer.sealing(),
        sender_nanoseconds_per_packet: (sent > 0).then(|| pacing.cpu_seconds * 1e9 / sent as f64),
        echoes_lost: report.echoed.saturating_sub(round_trip.count),
        round_trip,
        lost,
        loss_percent,
        link: link(config, peer, packet_bytes, packets_per_second),
        receiver: report,
    }
}

/// Packets that left and did not come, and how many in a hundred that is: what our own system has refused was never
/// under way.
fn losses(sent: u64, refused: u64, received: u64) -> (u64, f64) {
    let left = sent.saturating_sub(refused);
    let lost = left.saturating_sub(received);
    (lost, lost as f64 / left.max(1) as f64 * 100.0)
}

/// What the packets need of the link towards the peer, if its speed is known.
fn link(
    config: &SenderConfig,
    peer: IpAddr,
    packet_bytes: usize,
    rate: Option<f64>,
) -> Option<LinkShare> {
    let interface = Interface::towards(peer);
    let known = interface.as_ref().and_then(|one| one.bits_per_second);
    let speed = config.link_speed.or(known)?;
    let ip = match peer.to_canonical() {
        IpAddr::V4(_) => Ip::V4,
        IpAddr::V6(_) => Ip::V6,
    };
    let transport = match (config.target.protocol, config.carrier.over) {
        (Protocol::Udp, _) => Transport::Udp,
        (Protocol::Tcp, _) => Transport::Tcp,
        (Protocol::Sctp, Over::Udp) => Transport::SctpInUdp,
        (Protocol::Sctp, Over::Ip | Over::Kernel) => Transport::Sctp,
    };
    Some(LinkShare::new(
        interface,
        speed,
        packet_bytes,
        (ip, transport),
        rate,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_left_is_not_lost() {
        assert_eq!(losses(1000, 0, 900), (100, 10.0));
        assert_eq!(losses(1000, 200, 800), (0, 0.0));
        assert_eq!(losses(1000, 200, 600), (200, 25.0));
        assert_eq!(losses(10, 10, 0), (0, 0.0));
        assert_eq!(losses(0, 0, 0), (0, 0.0));
    }
}
