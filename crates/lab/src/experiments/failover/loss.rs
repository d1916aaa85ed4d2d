//! Transfers at 15 % loss, single-homed and multi-homed (Pang 2003, section 3.5).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use sctp::{AssociationState, EndpointConfig, PathState, PathStatus};
use sim::{HostId, Sent, Simulation};
use sim_transport::{FlowId, Load, Packet, TcpConfig, TransportHost};

use super::cut::tsns;
use crate::context::Context;
use crate::pair::{NetworkConfig, Pair, address};
use crate::published::stated;

/// One that fills a packet.
const MESSAGE: usize = 1376;
const LASTS: Duration = Duration::from_secs(60);

/// Bits a second of each network, bytes that may wait before it, and its delay.
const RATE: f64 = 800_000.0;
const QUEUE: usize = 64 * 1024;
const DELAY: Duration = Duration::from_millis(50);

/// How exactly an engine keeps its times: it counts milliseconds.
const GRANULARITY: Duration = Duration::from_millis(5);

/// The longest halt of each trial, in seconds.
pub(super) struct Halts {
    pub(super) single: Vec<f64>,
    pub(super) multi: Vec<f64>,
    /// What was not as it should be, in all trials.
    pub(super) odd: Odd,
}

/// What was held against the law, in all trials.
#[derive(Debug, Default)]
pub(super) struct Odd {
    /// Messages, each of which arrives once.
    pub(super) doubled: Tally,
    /// Halts of more than RTO.Min, each of which a timeout ends, or a path that answers again.
    pub(super) unexplained: Tally,
    /// Timeouts of a path in a row, each of which is RTO.Min long, and on a single path twice as long as the
    /// one before.
    pub(super) uneven: Tally,
    /// Chunks that a timeout sends again, each to another path if that has no error.
    pub(super) astray: Tally,
}

/// How many things were looked at, and how many of them break the law.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) all: usize,
    pub(super) broken: usize,
    /// The first that does: what was expected and what came.
    pub(super) first: Option<String>,
}

impl Tally {
    fn count(&mut self, holds: bool, why_not: impl FnOnce() -> String) {
        self.all += 1;
        if !holds {
            self.broken += 1;
            self.first.get_or_insert_with(why_not);
        }
    }

    /// Adds that of a trial.
    fn add(&mut self, trial: &str, other: Tally) {
        self.all += other.all;
        self.broken += other.broken;
        if self.first.is_none() {
            self.first = other.first.map(|first| format!("{trial}: {first}"));
        }
    }
}

impl Odd {
    fn add(&mut self, trial: &str, other: Odd) {
        self.doubled.add(trial, other.doubled);
        self.unexplained.add(trial, other.unexplained);
        self.uneven.add(trial, other.uneven);
        self.astray.add(trial, other.astray);
    }
}

impl Halts {
    pub(super) fn median_single(&self) -> f64 {
        median(&self.single)
    }

    pub(super) fn median_multi(&self) -> f64 {
        median(&self.multi)
    }

    /// Trials in which the multi-homed pair halted for a shorter time.
    pub(super) fn shorter(&self) -> usize {
        let pairs = self.single.iter().zip(&self.multi);
        pairs.filter(|(single, multi)| multi < single).count()
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn observe(context: &Context, trials: u64) -> anyhow::Result<Halts> {
    let mut halts = Halts {
        single: Vec::new(),
        multi: Vec::new(),
        odd: Odd::default(),
    };
    for trial in 0..trials {
        for paths in [1, 2] {
            let (halt, odd) = transfer(context, 16 + 2 * trial + paths, paths as usize)?;
            let halts_of_pair = if paths == 1 {
                &mut halts.single
            } else {
                &mut halts.multi
            };
            halts_of_pair.push(halt);
            let pair = if paths == 1 {
                "single-homed"
            } else {
                "multi-homed"
            };
            halts.odd.add(&format!("trial {}, {pair}", trial + 1), odd);
            context.done();
        }
    }
    Ok(halts)
}

/// The longest halt in a transfer over so many paths, and what was not as it should be.
fn transfer(context: &Context, number: u64, paths: usize) -> anyhow::Result<(f64, Odd)> {
    let network = NetworkConfig {
        rate: Some(RATE),
        queue: QUEUE,
        loss: stated("failover", "loss") / 100.0,
        delay: DELAY,
    };
    let config = EndpointConfig::default()
        .path_mtu_discovery(false)
        // The association is to survive whatever is lost.
        .association_max_retrans(1000);
    let networks = vec![network; paths];
    let mut pair = Pair::new(context, number, &networks, &config, TcpConfig::default());
    pair.simulation.record();
    let flow = pair.open_sctp(Load::Greedy {
        message: MESSAGE,
        streams: 1,
        unordered: true,
    })?;
    let mut timeouts = Timeouts::of(&pair, flow, paths);
    let end = pair.start + LASTS;
    pair.simulation
        .run(end, |simulation| timeouts.look(simulation))?;

    // One that never begins again halts until the end.
    let arrivals = pair.deliveries().iter().map(|one| one.at).chain([end]);
    let arrivals: Vec<Instant> = arrivals.collect();
    let halts = arrivals.windows(2).map(|pair| (pair[0], pair[1]));
    let longest = halts.clone().map(|(from, to)| to - from).max();
    // After a timeout comes a whole trip, with the longest queue.
    let trip = DELAY + Duration::from_secs_f64(8.0 * QUEUE as f64 / RATE) + GRANULARITY;
    let since = |at: Instant| (at - pair.start).as_secs_f64();
    let mut unexplained = Tally::default();
    let is_long = |(from, to): &(Instant, Instant)| {
        let is_up = timeouts.up.is_some_and(|up| up < *from);
        is_up && *to < end && *to - *from > config.association.path.rto_min
    };
    for (from, to) in halts.filter(is_long) {
        let last = timeouts.last_before(from, to);
        unexplained.count(last.is_some_and(|last| to - last <= trip), || {
            let last = last.map_or("none is seen".to_owned(), |last| {
                format!("the last one is {:.3} s before its end", (to - last).as_secs_f64())
            });
            format!(
                "nothing arrives from {:.3} to {:.3} s, which a timeout or an answered HEARTBEAT should end {:.3} s \
                 later at most, and {last}",
                since(from),
                since(to),
                trip.as_secs_f64()
            )
        });
    }
    let mut doubled = Tally::default();
    let mut numbers: Vec<u64> = pair.deliveries().iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        doubled.count(pair[0] != pair[1], || {
            format!("message {} arrives twice", pair[0])
        });
    }
    let odd = Odd {
        doubled,
        unexplained,
        uneven: timeouts.uneven(&config, pair.start),
        astray: timeouts.astray(pair.simulation.trace(), pair.start),
    };
    Ok((longest.unwrap_or(LASTS).as_secs_f64(), odd))
}

/// An error of a path: T3-rtx has expired, or a HEARTBEAT had no answer in time.
struct Timeout {
    at: Instant,
    path: usize,
    /// Errors of the path in a row, with this one.
    errors: u32,
    /// Whether another path works, and has none.
    has_other: bool,
    /// The packets, by their places in the trace, that went out since somebody looked before: what a SACK that came at
    /// the same instant brought is not among them.
    packets: Range<usize>,
}

/// Looks at the error counters after each thing that happens.
struct Timeouts {
    client: HostId,
    flow: FlowId,
    /// When the association was set up, as far as its client knows: until then it has timers of its own.
    up: Option<Instant>,
    paths: Vec<PathWatch>,
    seen: Vec<Timeout>,
    /// Packets that had gone out when somebody looked last.
    traced: usize,
    /// When a path was usable again: the answer to a HEARTBEAT brings data there that waited for a timer of
    /// another path (RFC 7829 section 3.2, rules 3 and 7).
    usable_again: Vec<Instant>,
}

/// A path as it was when it was looked at last.
#[derive(Clone, Copy)]
struct PathWatch {
    errors: u32,
    state: PathState,
}

impl Timeouts {
    fn of(pair: &Pair, flow: FlowId, paths: usize) -> Timeouts {
        Timeouts {
            client: pair.client,
            flow,
            up: None,
            paths: vec![
                PathWatch {
                    errors: 0,
                    state: PathState::Active,
                };
                paths
            ],
            seen: Vec::new(),
            traced: 0,
            usable_again: Vec::new(),
        }
    }

    /// Always `false`: there is more to see.
    fn look(&mut self, simulation: &Simulation<TransportHost>) -> bool {
        let now = simulation.now();
        let packets = self.traced..simulation.trace().len();
        self.traced = packets.end;
        let Some(status) = simulation.host(self.client).sctp_status(self.flow) else {
            return false;
        };
        if status.state == AssociationState::Established {
            self.up.get_or_insert(now);
        }
        for (path, watch) in self.paths.iter_mut().enumerate() {
            let is_it = |other: &PathStatus| other.address.remote == remote(path);
            let Some(current) = status.paths.iter().find(|other| is_it(other)) else {
                continue;
            };
            if current.error_count > watch.errors {
                let mut others = status.paths.iter().filter(|other| !is_it(other));
                self.seen.push(Timeout {
                    at: now,
                    path,
                    errors: current.error_count,
                    packets: packets.clone(),
                    has_other: others
                        .any(|other| other.state == PathState::Active && other.error_count == 0),
                });
            }
            if current.state == PathState::Active && watch.state != PathState::Active {
                self.usable_again.push(now);
            }
            *watch = PathWatch {
                errors: current.error_count,
                state: current.state,
            };
        }
        false
    }

    /// The last thing before the end of a halt that lets data go out again: a timeout, or a path that is usable
    /// again.
    fn last_before(&self, from: Instant, to: Instant) -> Option<Instant> {
        let timeouts = self.seen.iter().map(|timeout| timeout.at);
        let all = timeouts.chain(self.usable_again.iter().copied());
        all.filter(|at| (from..to).contains(at)).max()
    }

    /// Timeouts of a path in a row: none may be shorter than RTO.Min makes it, and each is twice as long as the one
    /// before (RFC 9260 section 6.3.3, rule E2). Where there is another path, HEARTBEATs take their turn with
    /// DATA, and only the former can be told.
    fn uneven(&self, config: &EndpointConfig, start: Instant) -> Tally {
        let in_a_row = |pair: &[&Timeout]| pair[1].errors == pair[0].errors + 1;
        let (rto_min, rto_max) = (
            config.association.path.rto_min,
            config.association.path.rto_max,
        );
        let is_alone = self.paths.len() == 1;
        let mut tally = Tally::default();
        for path in 0..self.paths.len() {
            let of_path = self.seen.iter().filter(|timeout| timeout.path == path);
            let timeouts: Vec<&Timeout> = of_path.collect();
            for pair in timeouts.windows(2).filter(|pair| in_a_row(pair)) {
                let least = (rto_min * 2_u32.pow(pair[0].errors.min(16))).min(rto_max);
                let came = pair[1].at - pair[0].at;
                tally.count(came + GRANULARITY >= least, || {
                    format!(
                        "timeout {} of a row is expected {:.3} s after the one before at least, and comes after {:.3} \
                         s, at {:.3} s",
                        pair[1].errors,
                        least.as_secs_f64(),
                        came.as_secs_f64(),
                        (pair[1].at - start).as_secs_f64()
                    )
                });
            }
            let triples = timeouts
                .windows(3)
                .filter(|three| is_alone && in_a_row(&three[..2]) && in_a_row(&three[1..]));
            for three in triples {
                let expected = (2 * (three[1].at - three[0].at)).min(rto_max);
                let came = three[2].at - three[1].at;
                tally.count(came.abs_diff(expected) <= 2 * GRANULARITY, || {
                    format!(
                        "timeout {} of a row is expected {:.3} s after the one before, and comes after {:.3} s, at \
                         {:.3} s",
                        three[2].errors,
                        expected.as_secs_f64(),
                        came.as_secs_f64(),
                        (three[2].at - start).as_secs_f64()
                    )
                });
            }
        }
        tally
    }

    /// DATA chunks that a timeout has sent again while another path had no error: none goes to the path where it was
    /// lost (section 6.4.1).
    fn astray(&self, trace: &[Sent<Packet>], start: Instant) -> Tally {
        let mut last_path: BTreeMap<u32, usize> = BTreeMap::new();
        let mut tally = Tally::default();
        for (place, sent) in trace.iter().enumerate() {
            let mut paths = 0..self.paths.len();
            let Some(path) = paths.find(|path| sent.datagram.destination == remote(*path)) else {
                continue;
            };
            let timeout = self
                .seen
                .iter()
                .find(|timeout| timeout.packets.contains(&place));
            for tsn in tsns(sent) {
                let before = last_path.insert(tsn, path);
                let Some(timeout) = timeout.filter(|timeout| timeout.has_other) else {
                    continue;
                };
                if before != Some(timeout.path) {
                    continue;
                }
                tally.count(path != timeout.path, || {
                    format!(
                        "TSN {tsn} goes again to {}, where the timeout at {:.3} s has found it lost, though another \
                         path has no error",
                        remote(path),
                        (sent.at - start).as_secs_f64()
                    )
                });
            }
        }
        tally
    }
}

/// The server's address on a network.
fn remote(path: usize) -> IpAddr {
    address(path as u8, 2)
}
