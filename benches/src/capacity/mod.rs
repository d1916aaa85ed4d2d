//! What an operator feels of a server: the rate that it holds, and how long callers wait at a rate.
//!
//! The server has a core of its own, and `tandem load`, which has callers and callees, another one. Each measurement
//! meets a server that has just been started: nothing that an earlier one has left burdens it.

mod generator;
mod search;

use std::time::Duration;

use sip::Transport;

use crate::cores::Cores;
use crate::output::Row;
use crate::rounds::{Better, Spread};
use crate::sip_servers::SipServer;
use crate::tandem;
use generator::Generator;
use search::{Search, Verdict};

pub(crate) use generator::{Job, Load, LoadStep};
pub(crate) use search::Found;

/// Calls a second, each some 10 % more than the one before.
pub(crate) const CALLS: &[u32] = &[
    500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 4_500, 5_000, 5_500, 6_000, 6_500, 7_000,
    8_000, 9_000, 10_000, 11_000, 12_000, 13_000, 14_000, 15_000, 16_000, 18_000, 20_000, 22_000,
    24_000, 26_000, 28_000, 30_000, 33_000, 36_000, 40_000,
];

/// Registrations a second.
pub(crate) const REGISTRATIONS: &[u32] = &[
    2_500, 5_000, 7_500, 10_000, 12_500, 15_000, 17_500, 20_000, 22_500, 25_000, 27_500, 30_000,
    33_000, 36_000, 40_000, 44_000, 48_000, 52_000, 56_000, 60_000, 65_000, 70_000, 75_000, 80_000,
    85_000, 90_000, 100_000, 110_000, 120_000, 130_000, 140_000, 150_000, 165_000, 180_000,
];

/// A figure of a measurement.
pub(crate) type Figure = fn(&Measured) -> f64;

/// The delays that are told.
pub(crate) const DELAYS: [(&str, Figure); 2] = [
    ("p50_ms", |measured| measured.load.p50_ms),
    ("p99_ms", |measured| measured.load.p99_ms),
];

/// A generator that begins one call in a hundred so much later than it was due was not given its core: something else
/// had it, and maybe the server's, too.
const LATE_MS: f64 = 5.0;

/// How often a round is measured at most.
const MAX_ATTEMPTS: usize = 4;

/// A server that is measured, and by what.
pub(crate) struct ServerUnderTest<'a> {
    pub(crate) name: &'static str,
    pub(crate) job: Job,
    pub(crate) start: Box<dyn Fn() -> anyhow::Result<SipServer> + 'a>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) load: Load,
    /// Of all processes of the server, the kernel's time included.
    pub(crate) server_cpu: Duration,
}

/// Server and generator, each on a core of its own.
pub(crate) struct Bench {
    cores: Cores,
    generator: Generator,
}

impl Bench {
    pub(crate) fn new() -> anyhow::Result<Bench> {
        Ok(Bench {
            cores: Cores::find()?,
            generator: Generator::new(tandem::program()?)?,
        })
    }

    /// The highest rung of a ladder that each server holds for so long. The servers are measured in turns; a rung that a
    /// server does not hold is tried once more before that counts.
    pub(crate) fn capacities<const N: usize>(
        &self,
        servers: &[ServerUnderTest<'_>; N],
        rungs: &'static [u32],
        time: Duration,
    ) -> anyhow::Result<[Found; N]> {
        let mut searches: [Search; N] = std::array::from_fn(|_| Search::new(rungs));
        let mut step = 0;
        while searches.iter().any(|search| search.next().is_ok()) {
            for index in in_turn(step, N) {
                if let Ok(per_second) = searches[index].next() {
                    let verdict = self.attempt(&servers[index], LoadStep { per_second, time })?;
                    searches[index].record(per_second, verdict);
                }
            }
            step += 1;
        }
        let nothing = Found {
            per_second: 0,
            at_least: false,
        };
        Ok(searches.map(|search| search.next().err().unwrap_or(nothing)))
    }

    /// Each server at the same step, so many times in turns. A round in which the generator was late is measured again.
    pub(crate) fn rounds<const N: usize>(
        &self,
        servers: &[ServerUnderTest<'_>; N],
        count: usize,
        step: LoadStep,
    ) -> anyhow::Result<[Vec<Measured>; N]> {
        let mut measured = [const { Vec::new() }; N];
        for round in 0..count {
            for index in in_turn(round, N) {
                measured[index].push(self.undisturbed(&servers[index], step)?);
            }
        }
        Ok(measured)
    }

    /// Registers so many users over TCP, who stay registered.
    pub(crate) fn register(&self, server: &SipServer, users: usize) -> anyhow::Result<()> {
        const PER_SECOND: usize = 10_000;
        let over = Transport::Tcp;
        self.generator
            .register(server.ports, over, users, PER_SECOND)
    }

    fn attempt(&self, server: &ServerUnderTest<'_>, step: LoadStep) -> anyhow::Result<Verdict> {
        let mut generator = true;
        for _ in 0..2 {
            let load = self.measure(server, step)?.load;
            if load.held() {
                return Ok(Verdict::Held);
            }
            generator &= load.generator_strained();
        }
        Ok(Verdict::Failed { generator })
    }

    fn undisturbed(
        &self,
        server: &ServerUnderTest<'_>,
        step: LoadStep,
    ) -> anyhow::Result<Measured> {
        for _ in 1..MAX_ATTEMPTS {
            let measured = self.measure(server, step)?;
            if measured.load.late_p99_ms < LATE_MS {
                return Ok(measured);
            }
        }
        self.measure(server, step)
    }

    fn measure(&self, server: &ServerUnderTest<'_>, step: LoadStep) -> anyhow::Result<Measured> {
        let running = self.cores.server(&server.start)?;
        let before = running.usage()?.cpu;
        let load = self
            .cores
            .generator(|| self.generator.run(running.ports, server.job, step))?;
        let measured = Measured {
            load,
            server_cpu: running.usage()?.cpu.saturating_sub(before),
        };
        measured.print_report(server, step);
        Ok(measured)
    }
}

impl Measured {
    /// CPU microseconds of the server for each call or registration that was completed.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.load.completed as f64
    }

    /// Measuring takes a while: who waits sees how each step went, and what the generator had to do with it.
    fn print_report(&self, server: &ServerUnderTest<'_>, step: LoadStep) {
        let load = &self.load;
        let verdict = match (load.held(), load.generator_strained()) {
            (true, _) => "held",
            (false, false) => "not held",
            (false, true) => "not held, maybe the generator's limit",
        };
        eprintln!(
            "  {} {}/s: {verdict}; {} of {}, p50 {:.2} p99 {:.2} ms, server {:.0} us each; \
             generator {:.0} % busy, late p99 {:.2} ms",
            server.name,
            step.per_second,
            load.completed,
            load.offered,
            load.p50_ms,
            load.p99_ms,
            self.cpu_us(),
            load.busy * 100.0,
            load.late_p99_ms,
        );
    }
}

/// A row of the rates that both hold.
pub(crate) fn held(case: &str, metric: &'static str, ours: Found, peer: Found, goal: f64) -> Row {
    let remark = match (ours.at_least, peer.at_least) {
        (false, false) => "",
        (true, false) => ", ours at least",
        (false, true) => ", the peer at least",
        (true, true) => ", both at least",
    };
    Row {
        case: format!("{case}{remark}"),
        metric,
        better: Better::Higher,
        ours: Spread::fixed(ours.per_second.into()),
        peer: Spread::fixed(peer.per_second.into()),
        goal,
    }
}

/// A row of a figure of which less is better, over all rounds.
pub(crate) fn lower(
    case: &str,
    metric: &'static str,
    figure: Figure,
    [ours, peer]: [&[Measured]; 2],
    goal: f64,
) -> Row {
    let spread = |rounds: &[Measured]| Spread::of(rounds.iter().map(figure).collect());
    Row {
        case: case.to_owned(),
        metric,
        better: Better::Lower,
        ours: spread(ours),
        peer: spread(peer),
        goal,
    }
}

/// Half of the rate that a server holds; of the lowest rung where it holds none.
pub(crate) fn half_of(found: Found) -> u32 {
    found.per_second.max(CALLS[0]) / 2
}

/// All of `0..count`, beginning with another one each time.
fn in_turn(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (round + place) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_in_going_first() {
        let order = |round| in_turn(round, 3).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(3), [0, 1, 2]);
    }

    #[test]
    fn ladders_go_up() {
        for rungs in [CALLS, REGISTRATIONS] {
            assert!(rungs.is_sorted_by(|lower, higher| lower < higher));
        }
    }
}
