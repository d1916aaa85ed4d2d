//! `proxy-kamailio`: our proxy and Kamailio with the same job under the same load, driven by SIPp.

use std::thread;
use std::time::Duration;

use anyhow::ensure;

use crate::kernel_floor;
use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds, Spread};
use crate::sip_servers::{Kamailio, SipServer};
use crate::sipp::{Calls, Over, Sipp};

/// Workers of ours, children of Kamailio.
const WORKERS: usize = 2;

/// How many times less CPU time a call is to take.
const GOALS: [(Over, f64); 2] = [(Over::Udp, 2.0), (Over::Tcp, 3.0)];

/// How many times less a registration in memory is to take, and one that is safe on the disk beside
/// one in Kamailio's memory.
const REGISTRATION_GOAL: f64 = 1.5;
const DURABLE_REGISTRATION_GOAL: f64 = 0.67;

/// Bytes of a hundred thousand bindings, and of a transaction.
const BINDINGS_MARK: f64 = 40e6;
const TRANSACTION_MARK: f64 = 4096.0;

/// Before the 200 and before the BYE.
const PAUSE: Duration = Duration::from_millis(20);

/// What is measured, by how much time there is.
struct Plan {
    users: usize,
    calls: usize,
    calls_per_second: usize,
    ringing: usize,
    /// How many bindings are weighed.
    bindings: usize,
}

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let plan = if rounds.is_quick() {
        Plan {
            users: 5_000,
            calls: 4_000,
            calls_per_second: 5_000,
            ringing: 6_000,
            bindings: 30_000,
        }
    } else {
        Plan {
            users: 100_000,
            calls: 60_000,
            calls_per_second: 5_000,
            ringing: 20_000,
            bindings: 100_000,
        }
    };
    let program = Kamailio::find()?;
    let sipp = Sipp::find(plan.users)?;
    let users = format!("{}-users", plan.users);
    let floor = kernel_floor::cpu_us_per_packet()?;

    bindings(output, &program, plan.bindings)?;
    for (over, goal) in GOALS {
        let ours = SipServer::ours(WORKERS, "memory:")?;
        let peer = SipServer::kamailio(&program, WORKERS)?;
        for server in [&ours, &peer] {
            sipp.register(server.ports.sip, over)?;
        }
        if over == Over::Udp {
            let [(ours, peer)] = rounds.alternate(
                || Ok([cpu_us_per_registration(&sipp, &ours, plan.users)?]),
                || Ok([cpu_us_per_registration(&sipp, &peer, plan.users)?]),
            )?;
            output.row(Row {
                case: format!("registration udp {users}"),
                metric: "cpu_us_per_registration",
                better: Better::Lower,
                ours,
                peer,
                goal: REGISTRATION_GOAL,
            })?;
            durable_registration(rounds, output, &sipp, plan.users, &program)?;
        }
        let case = |what: &str| format!("{what} {} {users}", over.name());
        let calls = Calls {
            count: plan.calls,
            per_second: plan.calls_per_second,
            pause: PAUSE,
        };
        let callees = sipp.answer(over, PAUSE)?;
        let [cpu, completed, median, late] = rounds.alternate(
            || call(&sipp, &ours, over, calls),
            || call(&sipp, &peer, over, calls),
        )?;
        drop(callees);
        output.row(Row {
            case: case("call"),
            metric: "cpu_us_per_call",
            better: Better::Lower,
            ours: cpu.0,
            peer: cpu.1,
            goal,
        })?;
        output.row(completed_calls(case("call"), completed))?;
        for (metric, (ours, peer)) in [("p50_ms", median), ("p99_ms", late)] {
            output.row(Row {
                case: case("INVITE to 180"),
                metric,
                better: Better::Lower,
                ours,
                peer,
                goal: 0.0,
            })?;
        }
        if over == Over::Udp {
            output.row(Row {
                case: case("call beside the kernel's share"),
                metric: "cpu_us_per_call",
                better: Better::Lower,
                ours: cpu.0,
                peer: Spread::fixed(floor * PACKETS_PER_CALL),
                goal: 0.0,
            })?;
        }

        let calls = Calls {
            pause: Duration::ZERO,
            ..calls
        };
        let callees = sipp.answer(over, Duration::ZERO)?;
        let [_, completed, ..] = rounds.alternate(
            || call(&sipp, &ours, over, calls),
            || call(&sipp, &peer, over, calls),
        )?;
        drop(callees);
        output.row(completed_calls(case("call without pause"), completed))?;

        let calls = Calls {
            count: plan.ringing,
            ..calls
        };
        drop((ours, peer));
        output.row(mark(
            case(&format!("transaction {} ringing", plan.ringing)),
            "bytes_per_transaction",
            bytes_per_transaction(&sipp, &SipServer::ours(WORKERS, "memory:")?, over, calls)?,
            bytes_per_transaction(&sipp, &SipServer::kamailio(&program, WORKERS)?, over, calls)?,
            TRANSACTION_MARK,
        ))?;
    }
    Ok(())
}

/// Packets received and sent for a call, in pairs: INVITE, 180, 200, ACK, BYE, 200 come and go, and a
/// 100 goes.
const PACKETS_PER_CALL: f64 = 6.5;

/// A registration answered 200 when it is on the disk, beside one in Kamailio's memory.
fn durable_registration(
    rounds: &Rounds,
    output: &mut dyn Output,
    sipp: &Sipp,
    users: usize,
    program: &Kamailio,
) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("tandem.db");
    let ours = SipServer::ours(WORKERS, &format!("sqlite:{}", file.display()))?;
    let peer = SipServer::kamailio(program, WORKERS)?;
    let [(ours, peer)] = rounds.alternate(
        || Ok([cpu_us_per_registration(sipp, &ours, users)?]),
        || Ok([cpu_us_per_registration(sipp, &peer, users)?]),
    )?;
    output.row(Row {
        case: format!("durable registration udp {users}-users, the peer in memory"),
        metric: "cpu_us_per_registration",
        better: Better::Lower,
        ours,
        peer,
        goal: DURABLE_REGISTRATION_GOAL,
    })
}

/// What bindings take. They are registered over TCP, where no transaction outlives its response.
fn bindings(output: &mut dyn Output, program: &Kamailio, count: usize) -> anyhow::Result<()> {
    let sipp = Sipp::find(count)?;
    let measure = |server: SipServer| -> anyhow::Result<f64> {
        let before = server.usage()?.bytes;
        sipp.register(server.ports.sip, Over::Tcp)?;
        let bytes = server.usage()?.bytes.saturating_sub(before);
        Ok(bytes as f64 / 1e6 * (100_000.0 / count as f64))
    };
    output.row(mark(
        format!("bindings {count}-users"),
        "megabytes_per_100000",
        measure(SipServer::ours(WORKERS, "memory:")?)?,
        measure(SipServer::kamailio(program, WORKERS)?)?,
        BINDINGS_MARK / 1e6,
    ))
}

fn cpu_us_per_registration(sipp: &Sipp, server: &SipServer, users: usize) -> anyhow::Result<f64> {
    let before = server.usage()?.cpu;
    sipp.register(server.ports.sip, Over::Udp)?;
    let cpu = server.usage()?.cpu.saturating_sub(before);
    Ok(cpu.as_secs_f64() * 1e6 / users as f64)
}

/// CPU microseconds of a call, how many of a thousand were completed, and the median and the 99th percentile of
/// the milliseconds from an INVITE to its 180.
fn call(sipp: &Sipp, server: &SipServer, over: Over, calls: Calls) -> anyhow::Result<[f64; 4]> {
    let before = server.usage()?.cpu;
    let outcome = sipp.call(server.ports.sip, over, calls)?;
    let cpu = server.usage()?.cpu.saturating_sub(before);
    let all = outcome.successful + outcome.failed;
    ensure!(all > 0, "SIPp made no calls");
    Ok([
        cpu.as_secs_f64() * 1e6 / all as f64,
        outcome.successful as f64 * 1e3 / all as f64,
        outcome.percentile(50),
        outcome.percentile(99),
    ])
}

/// CPU microseconds of a call, and the median and the 99th percentile of the milliseconds from an INVITE to its 180;
/// all but a few calls have to be completed.
pub(crate) fn cost_of_call(
    sipp: &Sipp,
    server: &SipServer,
    over: Over,
    calls: Calls,
) -> anyhow::Result<[f64; 3]> {
    let [cpu, completed, median, late] = call(sipp, server, over, calls)?;
    ensure!(
        completed > 990.0,
        "of 1000 calls {completed} were completed"
    );
    Ok([cpu, median, late])
}

/// What an INVITE takes, with the client transaction that forwards it, until it is answered.
fn bytes_per_transaction(
    sipp: &Sipp,
    server: &SipServer,
    over: Over,
    calls: Calls,
) -> anyhow::Result<f64> {
    let time = Duration::from_secs_f64(calls.count as f64 / calls.per_second as f64);
    let settled = time + Duration::from_millis(500);
    sipp.register(server.ports.sip, over)?;
    let _callees = sipp.ring(over, settled * 10)?;
    let before = server.usage()?.bytes;
    let _callers = sipp.begin_calls(server.ports.sip, over, calls)?;
    thread::sleep(settled);
    let bytes = server.usage()?.bytes.saturating_sub(before);
    Ok(bytes as f64 / calls.count as f64)
}

/// A row whose goal is a mark of our own: the advantage over the peer that reaches it.
fn mark(case: String, metric: &'static str, ours: f64, peer: f64, mark: f64) -> Row {
    Row {
        case,
        metric,
        better: Better::Lower,
        ours: Spread::fixed(ours),
        peer: Spread::fixed(peer),
        goal: peer / mark,
    }
}

/// All of a thousand calls are to be completed, whatever the peer does.
fn completed_calls(case: String, (ours, peer): (Spread, Spread)) -> Row {
    Row {
        case,
        metric: "completed_calls_of_1000",
        better: Better::Higher,
        ours,
        peer,
        goal: 1e3 / peer.median,
    }
}
