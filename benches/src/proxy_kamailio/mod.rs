//! `proxy-kamailio`: our proxy and Kamailio with the same job, one worker each, under `tandem load`.

mod memory;

use std::time::Duration;

use sip::Transport;

use crate::capacity::{self, Bench, Job, LoadStep, Measured, ServerUnderTest, held, lower};
use crate::output::Output;
use crate::rounds::Rounds;
use crate::sip_servers::{Kamailio, SipServer, Store};

/// Workers of ours, children of Kamailio for each transport.
const WORKERS: usize = 1;

/// How many times more calls and registrations a second are to be held.
const CALLS_GOAL: f64 = 2.0;
const REGISTRATIONS_GOAL: f64 = 1.3;

/// Callers are to wait no longer at half of the rate that Kamailio holds.
const DELAY_GOAL: f64 = 1.0;

/// How often delays are measured.
const DELAY_ROUNDS: usize = 3;

/// The rate at which CPU time is told.
const CPU_CALLS_PER_SECOND: u32 = 4_000;

/// What is measured, by how much time there is.
struct Plan {
    /// How long a rate is held.
    time: Duration,
    cpu_rounds: usize,
    /// How many bindings, and how many ringing calls, are weighed.
    bindings: usize,
    ringing: u32,
}

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let plan = match rounds.is_quick() {
        true => Plan {
            time: Duration::from_secs(3),
            cpu_rounds: 1,
            bindings: 30_000,
            ringing: 6_000,
        },
        false => Plan {
            time: Duration::from_secs(10),
            cpu_rounds: 3,
            bindings: 100_000,
            ringing: 20_000,
        },
    };
    let program = Kamailio::find()?;
    let bench = Bench::new()?;
    memory::bindings(output, &bench, &program, plan.bindings)?;
    registrations(output, &bench, &program, &plan)?;
    for over in [Transport::Udp, Transport::Tcp] {
        calls(output, &bench, &program, over, &plan)?;
        memory::transactions(output, &program, over, plan.ringing)?;
    }
    Ok(())
}

fn ours(store: Store) -> anyhow::Result<SipServer> {
    SipServer::ours(WORKERS, store)
}

fn kamailio(program: &Kamailio) -> anyhow::Result<SipServer> {
    SipServer::kamailio(program, WORKERS)
}

/// Registrations a second over UDP: both in memory, and ours on the disk.
fn registrations(
    output: &mut dyn Output,
    bench: &Bench,
    program: &Kamailio,
    plan: &Plan,
) -> anyhow::Result<()> {
    let job = Job::Register;
    let sides = [
        ServerUnderTest {
            name: "ours, registrations in memory",
            job,
            start: Box::new(|| ours(Store::Memory)),
        },
        ServerUnderTest {
            name: "Kamailio, registrations in memory",
            job,
            start: Box::new(|| kamailio(program)),
        },
        ServerUnderTest {
            name: "ours, durable registrations",
            job,
            start: Box::new(|| ours(Store::Disk)),
        },
    ];
    let [memory, peer, durable] = bench.capacities(&sides, capacity::REGISTRATIONS, plan.time)?;
    let metric = "registrations_per_second";
    output.row(held(
        "registration",
        metric,
        memory,
        peer,
        REGISTRATIONS_GOAL,
    ))?;
    let case = "durable registration, the peer in memory";
    output.row(held(case, metric, durable, peer, 0.0))
}

/// Calls a second, delays at half of what Kamailio holds, and CPU time.
fn calls(
    output: &mut dyn Output,
    bench: &Bench,
    program: &Kamailio,
    over: Transport,
    plan: &Plan,
) -> anyhow::Result<()> {
    let names = match over {
        Transport::Udp => ["ours, calls over UDP", "Kamailio, calls over UDP"],
        _ => ["ours, calls over TCP", "Kamailio, calls over TCP"],
    };
    let job = Job::Call(over);
    let sides = [
        ServerUnderTest {
            name: names[0],
            job,
            start: Box::new(|| ours(Store::Memory)),
        },
        ServerUnderTest {
            name: names[1],
            job,
            start: Box::new(|| kamailio(program)),
        },
    ];
    let [our_capacity, peer_capacity] = bench.capacities(&sides, capacity::CALLS, plan.time)?;
    output.row(held(
        &format!("call {over}"),
        "calls_per_second",
        our_capacity,
        peer_capacity,
        CALLS_GOAL,
    ))?;

    let half = LoadStep {
        per_second: capacity::half_of(peer_capacity),
        time: plan.time,
    };
    let [ours, peer] = bench.rounds(&sides, DELAY_ROUNDS, half)?;
    let case = format!("session request delay {over}, {} calls/s", half.per_second);
    for (metric, figure) in capacity::DELAYS {
        output.row(lower(&case, metric, figure, [&ours, &peer], DELAY_GOAL))?;
    }

    let step = LoadStep {
        per_second: CPU_CALLS_PER_SECOND,
        time: plan.time,
    };
    let [ours, peer] = bench.rounds(&sides, plan.cpu_rounds, step)?;
    let case = format!("call {over}, {CPU_CALLS_PER_SECOND} calls/s");
    let both = [ours.as_slice(), peer.as_slice()];
    output.row(lower(&case, "cpu_us_per_call", Measured::cpu_us, both, 0.0))
}
