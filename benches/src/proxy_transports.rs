//! `proxy-transports`: our proxy over SCTP, TCP and UDP side by side, one worker, under `tandem load`.

use std::time::Duration;

use sip::Transport;

use crate::capacity::{self, Bench, DELAYS, Job, LoadStep, Measured, ServerUnderTest, held, lower};
use crate::output::Output;
use crate::rounds::Rounds;
use crate::sip_servers::{SipServer, Store};

/// The transports, each with a name for the steps.
const SIDES: [(Transport, &str); 3] = [
    (Transport::Sctp, "calls over SCTP"),
    (Transport::Tcp, "calls over TCP"),
    (Transport::Udp, "calls over UDP"),
];

/// Which of them stand beside each other. TCP may hold 1.3 times as many calls as SCTP; how far others are from UDP is
/// merely told.
const COMPARED: [(usize, usize, f64); 3] = [(0, 1, 1.0 / 1.3), (0, 2, 0.0), (1, 2, 0.0)];

/// How often delays are measured.
const DELAY_ROUNDS: usize = 3;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let seconds = if rounds.is_quick() { 3 } else { 10 };
    let time = Duration::from_secs(seconds);
    let bench = Bench::new()?;
    let sides = SIDES.map(|(over, name)| ServerUnderTest {
        name,
        job: Job::Call(over),
        start: Box::new(|| SipServer::ours(1, Store::Memory)),
    });
    let found = bench.capacities(&sides, capacity::CALLS, time)?;
    let case = |ours: usize, peer: usize| format!("{} beside {}", SIDES[ours].0, SIDES[peer].0);
    for (ours, peer, goal) in COMPARED {
        let metric = "calls_per_second";
        output.row(held(
            &case(ours, peer),
            metric,
            found[ours],
            found[peer],
            goal,
        ))?;
    }
    let slowest = found.iter().min_by_key(|found| found.per_second);
    let per_second = capacity::half_of(*slowest.unwrap_or(&found[0]));
    let measured = bench.rounds(&sides, DELAY_ROUNDS, LoadStep { per_second, time })?;
    for (ours, peer, _) in COMPARED {
        let case = format!("{}, {per_second} calls/s", case(ours, peer));
        let both = [measured[ours].as_slice(), measured[peer].as_slice()];
        for (metric, figure) in DELAYS {
            output.row(lower(&case, metric, figure, both, 0.0))?;
        }
        output.row(lower(&case, "cpu_us_per_call", Measured::cpu_us, both, 0.0))?;
    }
    Ok(())
}
