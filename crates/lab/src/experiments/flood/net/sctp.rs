//! Our listener under a flood.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flood::{Config, Kind, Limits, Over, Probe, ProbeResult, Report};
use rand::Rng;
use testbed::Testbed;

use super::listener::{ENCAPSULATION_PORT, Listener, Lives, PORT, Usage};
use super::{CALM, Effort, LOOK, NOBODY, per_packet, up};
use crate::context::Context;
use crate::net::{Lateness, Watch, joined};

/// What came of a flood.
pub(super) struct FloodResult {
    pub(super) kind: Kind,
    pub(super) over: Over,
    pub(super) report: Report,
    /// The client before the flood.
    pub(super) calm: ProbeResult,
    /// The client under the flood.
    pub(super) client: ProbeResult,
    /// How long an attempt of the client may take.
    pub(super) timeout: Duration,
    pub(super) before: Usage,
    /// The listener during the flood, and until what it holds of it has been given up.
    pub(super) samples: Vec<Sample>,
    /// Packets of the router to forged addresses: the listener's answers, from without.
    pub(super) answers: u64,
    /// How associations of the attacker fared.
    pub(super) lives: Lives,
    /// Seconds of the listener's processor for a packet of the attacker.
    pub(super) own_seconds_per_packet: f64,
    /// The same for the kernel and the emulator, beyond those that a packet takes that is nobody's.
    pub(super) other_seconds_per_packet: f64,
    pub(super) lateness: Lateness,
    /// Whether the listener ran on.
    pub(super) survived: bool,
}

/// One look at the listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Since the flood began.
    pub(super) at: Duration,
    /// Packets of the attacker so far.
    pub(super) sent: u64,
    /// Associations with the attacker.
    pub(super) held: usize,
    pub(super) usage: Usage,
}

impl FloodResult {
    pub(super) fn most_held(&self) -> usize {
        let held = self.samples.iter().map(|sample| sample.held);
        held.max().unwrap_or_default()
    }

    /// Associations of the attacker that came up.
    pub(super) fn came_up(&self) -> usize {
        self.lives.ended.len() + self.lives.restarted + self.left()
    }

    /// Associations with the attacker at the end, when those that were given up are gone.
    pub(super) fn left(&self) -> usize {
        self.samples.last().map_or(0, |sample| sample.held)
    }

    /// The most memory of its own that the listener had, in KiB.
    pub(super) fn most_memory(&self) -> u64 {
        let memory = self.samples.iter();
        let memory = memory.map(|sample| sample.usage.memory.anonymous_kib);
        memory.max().unwrap_or(self.before.memory.anonymous_kib)
    }

    /// How much of a core the listener took while it was flooded.
    pub(super) fn own_percent(&self) -> f64 {
        let seconds = self.own_seconds_per_packet * self.report.sent as f64;
        100.0 * seconds / self.report.seconds
    }

    /// Packets of the second half of the flood, and the bytes of memory that the listener took meanwhile. In the
    /// first half its buffers grow to what they need.
    pub(super) fn second_half(&self) -> Option<(u64, f64)> {
        let all = self.report.sent;
        let begin = self.samples.iter().find(|sample| 2 * sample.sent >= all)?;
        let end = self.samples.last()?;
        let kib = |sample: &Sample| sample.usage.memory.anonymous_kib as f64;
        Some((all - begin.sent, 1024.0 * (kib(end) - kib(begin))))
    }
}

/// Floods a listener in a network of its own. `settings` are the listener's.
pub(super) fn flooded(
    context: &Context,
    program: &Path,
    number: u64,
    (kind, over): (Kind, Over),
    settings: &[String],
    effort: &Effort,
) -> anyhow::Result<FloodResult> {
    let testbed = up(context, number)?;
    let attacker = first(&testbed, "attacker")?;
    let target = SocketAddr::new(first(&testbed, "listener")?, PORT);
    let listener = Listener::start(&testbed, program, over, settings)?;
    let start = || Probe::start(target, over, effort.probe_config);
    let calm = testbed.run("client", start)??;
    thread::sleep(CALM);
    let calm = calm.stop()?;
    let config = |target, limits| Config {
        kind,
        target,
        over,
        limits,
        seed: context.rng(number).next_u64(),
        probe: false,
    };
    let each_to_nobody = to_nobody(&testbed, &config(target, effort.limits))?;

    let watch = Watch::begin()?;
    let answers_before = answers(&testbed)?;
    let emulator_before = testbed.emulator().processor_time()?;
    let before = listener.usage()?;
    let probe = testbed.run("client", start)??;
    let begin = Instant::now();
    let sent = AtomicU64::new(0);
    let mut samples = Vec::new();
    let mut look = |sent: &AtomicU64| {
        samples.push(Sample {
            at: begin.elapsed(),
            sent: sent.load(Ordering::Relaxed),
            held: listener.held(attacker),
            usage: listener.usage()?,
        });
        thread::sleep(LOOK);
        anyhow::Ok(())
    };
    let report = thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            testbed.enter("attacker")?;
            let config = config(target, effort.limits);
            flood::run(&config, |now| {
                sent.store(now, Ordering::Relaxed);
                true
            })
        });
        while !flooding.is_finished() {
            look(&sent)?;
        }
        joined(flooding.join())
    })?;
    let after = listener.usage()?;
    let emulator = testbed.emulator().processor_time()?;
    let end = Instant::now() + effort.rest;
    loop {
        look(&sent)?;
        if Instant::now() >= end {
            break;
        }
    }
    let client = probe.stop()?;
    let carried = emulator.saturating_sub(emulator_before).as_secs_f64();
    let own = after.processor_seconds - before.processor_seconds;
    let flooded = FloodResult {
        kind,
        over,
        calm,
        client,
        timeout: effort.probe_config.timeout,
        before,
        samples,
        answers: answers(&testbed)? - answers_before,
        lives: listener.lives(attacker),
        own_seconds_per_packet: per_packet(own, report.sent),
        other_seconds_per_packet: per_packet(carried, report.sent) - each_to_nobody,
        lateness: watch.end(),
        survived: listener.is_running(),
        report,
    };
    drop(listener);
    testbed.down();
    Ok(flooded)
}

/// Seconds of the processor that the emulator takes for a packet to an address that is nobody's on the
/// listener's host.
fn to_nobody(testbed: &Testbed, config: &Config) -> anyhow::Result<f64> {
    let rate = config.limits.rate();
    let control = Config {
        kind: Kind::Init,
        // For a second.
        limits: Limits::new(rate, rate)?,
        target: SocketAddr::new(NOBODY.into(), PORT),
        ..*config
    };
    let before = testbed.emulator().processor_time()?;
    let report = testbed.run("attacker", || flood::run(&control, |_| true))??;
    let after = testbed.emulator().processor_time()?;
    let seconds = after.saturating_sub(before).as_secs_f64();
    Ok(per_packet(seconds, report.sent))
}

/// Packets that went to forged addresses so far: the topology's first rule is for these.
fn answers(testbed: &Testbed) -> anyhow::Result<u64> {
    let snapshot = testbed.emulator().snapshot()?;
    let rule = snapshot.rules.first().context("the topology has a rule")?;
    Ok(rule.line.link.offered_packets)
}

fn first(testbed: &Testbed, host: &str) -> anyhow::Result<IpAddr> {
    let addresses = testbed.addresses(host);
    addresses
        .first()
        .copied()
        .with_context(|| format!("{host} has an address"))
}

/// What SCTP goes in, in words.
pub(super) fn carrier_words(over: Over) -> &'static str {
    match over {
        Over::Udp { .. } => "in UDP",
        Over::Ip => "over IP",
    }
}

/// Right in UDP, at the listener's port.
pub(super) const IN_UDP: Over = Over::Udp {
    port: ENCAPSULATION_PORT,
};
