//! Transfers at 15 % loss, single-homed and multi-homed (Pang 2003, section 3.5).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use derive_more::AddAssign;
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

/// How often something was not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub(super) struct Odd {
    /// Messages that came twice.
    pub(super) doubled: usize,
    /// Halts of more than RTO.Min that no timeout explains.
    pub(super) unexplained: usize,
    /// Timeouts in a row that are too short, or on a single path not twice as long as the one before.
    pub(super) uneven: usize,
    /// Chunks that a timeout sends again to where they were lost.
    pub(super) astray: usize,
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
            halts.odd += odd;
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
    let unexplained = halts
        .filter(|(from, to)| timeouts.up.is_some_and(|up| up < *from) && *to < end)
        .filter(|(from, to)| *to - *from > config.association.path.rto_min)
        .filter(|(from, to)| {
            let times = timeouts.seen.iter().map(|timeout| timeout.at);
            let last = times.filter(|at| (*from..*to).contains(at)).max();
            last.is_none_or(|last| *to - last > trip)
        });
    let mut numbers: Vec<u64> = pair.deliveries().iter().map(|one| one.number).collect();
    numbers.sort_unstable();
    let odd = Odd {
        doubled: numbers.windows(2).filter(|pair| pair[0] == pair[1]).count(),
        unexplained: unexplained.count(),
        uneven: timeouts.uneven(&config),
        astray: timeouts.astray(pair.simulation.trace()),
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
}

/// Looks at the error counters after each thing that happens.
struct Timeouts {
    client: HostId,
    flow: FlowId,
    /// When the association was set up, as far as its client knows: until then it has timers of its own.
    up: Option<Instant>,
    errors: Vec<u32>,
    seen: Vec<Timeout>,
}

impl Timeouts {
    fn of(pair: &Pair, flow: FlowId, paths: usize) -> Timeouts {
        Timeouts {
            client: pair.client,
            flow,
            up: None,
            errors: vec![0; paths],
            seen: Vec::new(),
        }
    }

    /// Always `false`: there is more to see.
    fn look(&mut self, simulation: &Simulation<TransportHost>) -> bool {
        let now = simulation.now();
        let Some(status) = simulation.host(self.client).sctp_status(self.flow) else {
            return false;
        };
        if status.state == AssociationState::Established {
            self.up.get_or_insert(now);
        }
        for (path, errors) in self.errors.iter_mut().enumerate() {
            let is_it = |other: &PathStatus| other.address.remote == remote(path);
            let count = status.paths.iter().find(|other| is_it(other));
            let count = count.map_or(0, |path| path.error_count);
            if count > *errors {
                let mut others = status.paths.iter().filter(|other| !is_it(other));
                self.seen.push(Timeout {
                    at: now,
                    path,
                    errors: count,
                    has_other: others
                        .any(|other| other.state == PathState::Active && other.error_count == 0),
                });
            }
            *errors = count;
        }
        false
    }

    /// Timeouts of a path in a row that are shorter than RTO.Min makes them, or not twice as long as the one
    /// before (RFC 9260 section 6.3.3, rule E2). Where there is another path, HEARTBEATs take their turn with
    /// DATA, and only the former can be told.
    fn uneven(&self, config: &EndpointConfig) -> usize {
        let in_a_row = |pair: &[&Timeout]| pair[1].errors == pair[0].errors + 1;
        let uneven = |path: usize| {
            let of_path = self.seen.iter().filter(|timeout| timeout.path == path);
            let timeouts: Vec<&Timeout> = of_path.collect();
            let pairs = timeouts.windows(2).filter(|pair| in_a_row(pair));
            let early = pairs.filter(|pair| {
                let doubled = config.association.path.rto_min * 2_u32.pow(pair[0].errors.min(16));
                pair[1].at - pair[0].at + GRANULARITY < doubled.min(config.association.path.rto_max)
            });
            let triples = timeouts
                .windows(3)
                .filter(|three| in_a_row(&three[..2]) && in_a_row(&three[1..]));
            let uneven = triples.filter(|three| {
                let law = (2 * (three[1].at - three[0].at)).min(config.association.path.rto_max);
                (three[2].at - three[1].at).abs_diff(law) > 2 * GRANULARITY
            });
            let is_alone = self.errors.len() == 1;
            early.count() + if is_alone { uneven.count() } else { 0 }
        };
        (0..self.errors.len()).map(uneven).sum()
    }

    /// DATA chunks that a timeout has sent again to the path where they were lost, though another path had no
    /// error (section 6.4.1).
    fn astray(&self, trace: &[Sent<Packet>]) -> usize {
        let mut last_path: BTreeMap<u32, usize> = BTreeMap::new();
        let mut astray = 0;
        for sent in trace {
            let mut paths = 0..self.errors.len();
            let Some(path) = paths.find(|path| sent.datagram.destination == remote(*path)) else {
                continue;
            };
            let timeout = self.seen.iter().find(|timeout| timeout.at == sent.at);
            for tsn in tsns(sent) {
                let before = last_path.insert(tsn, path);
                let is_astray = timeout.is_some_and(|timeout| {
                    timeout.has_other && timeout.path == path && before == Some(path)
                });
                astray += usize::from(is_astray);
            }
        }
        astray
    }
}

/// The server's address on a network.
fn remote(path: usize) -> IpAddr {
    address(path as u8, 2)
}
