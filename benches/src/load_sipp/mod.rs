//! `load-sipp`: our load generator and SIPp, callers and callees face to face, each with its built-in
//! scenario; and what large populations take.

pub(crate) mod ours;
mod peer;

use std::time::Duration;

use sip::Transport;

use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds, Spread};
use crate::sip_servers::{SipServer, Store};
use crate::sipp::Sipp;
use ours::{HeldCalls, Registered};
use peer::Peer;

/// How many times less CPU time a call is to take.
const UDP_GOAL: f64 = 1.8;
const TCP_GOAL: f64 = 5.0;
const HELD_GOAL: f64 = 3.0;

/// How many times more calls a second two processors are to make.
const THROUGHPUT_GOAL: f64 = 2.0;

/// Of the CPU time of a call over UDP, so many microseconds may be the program's; the rest is the kernel's.
const USER_MARK_US: f64 = 8.0;

/// Bytes of a registered user.
const REGISTERED_MARK_BYTES: f64 = 1024.0;

/// An attempt that begins so many milliseconds after it was due is late (`ValidityLimits` of `load`).
const LATENESS_MARK_MS: f64 = 20.0;

const PROXY_WORKERS: usize = 2;

/// Calls that are to be made, one after the other or by the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    pub(crate) transport: Transport,
    pub(crate) count: u64,
    /// Without, as many as can be, at most [`UNDER_WAY`] at a time.
    pub(crate) per_second: Option<u64>,
    /// From the ACK to the BYE.
    pub(crate) hold: Duration,
}

/// Calls under way where as many are made as can be.
pub(crate) const UNDER_WAY: u64 = 500;

/// What they took: microseconds of a call, in all and in the program, and completed calls a second.
type Taken = [f64; 3];

/// What is measured, by how much time there is.
struct Plan {
    calls: u64,
    users: u32,
    /// Calls of which 10,000 are held at a time, for most of the time.
    many_held: u64,
    held: u64,
}

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let plan = match rounds.is_quick() {
        true => Plan {
            calls: 10_000,
            users: 100_000,
            many_held: 40_000,
            held: 50_000,
        },
        false => Plan {
            calls: 60_000,
            users: 100_000,
            many_held: 60_000,
            held: 50_000,
        },
    };
    let peer = Peer::find()?;
    for (transport, goal) in [(Transport::Udp, UDP_GOAL), (Transport::Tcp, TCP_GOAL)] {
        let calls = Calls {
            transport,
            count: plan.calls,
            per_second: None,
            hold: Duration::ZERO,
        };
        let [all, user, rate] = rounds.alternate(|| ours::call(calls), || peer.call(calls))?;
        let case = format!("call {transport}, as many as can be");
        output.row(row(&case, "cpu_us_per_call", Better::Lower, all, goal))?;
        if transport == Transport::Udp {
            let goal = user.1.median / USER_MARK_US;
            output.row(row(
                &case,
                "user_cpu_us_per_call",
                Better::Lower,
                user,
                goal,
            ))?;
        }
        let metric = "calls_per_second";
        output.row(row(&case, metric, Better::Higher, rate, THROUGHPUT_GOAL))?;
        let calls = Calls {
            per_second: Some(10_000),
            ..calls
        };
        let [all, ..] = rounds.alternate(|| ours::call(calls), || peer.call(calls))?;
        let case = format!("call {transport}, 10000 a second");
        output.row(row(&case, "cpu_us_per_call", Better::Lower, all, 0.0))?;
    }
    let calls = Calls {
        transport: Transport::Udp,
        count: plan.many_held,
        per_second: Some(5_000),
        hold: Duration::from_secs(2),
    };
    // Each takes a quarter of a minute: one of each where there is little time.
    let [taken, ..] = rounds
        .at_most(if rounds.is_quick() { 1 } else { 3 })
        .alternate(|| ours::call(calls), || peer.call(calls))?;
    let case = "call udp 10000-held";
    output.row(row(
        case,
        "cpu_us_per_call",
        Better::Lower,
        taken,
        HELD_GOAL,
    ))?;

    let over = |transport| Calls {
        transport,
        count: plan.calls / 2,
        per_second: Some(5_000),
        hold: Duration::ZERO,
    };
    let [all, ..] = rounds.alternate(
        || ours::call(over(Transport::Sctp)),
        || ours::call(over(Transport::Tcp)),
    )?;
    let case = "call sctp, our own over tcp as the peer";
    output.row(row(case, "cpu_us_per_call", Better::Lower, all, 0.0))?;

    held(output, plan.held)?;
    registered(output, plan.users)
}

/// Calls that are all held at the same time.
fn held(output: &mut dyn Output, count: u64) -> anyhow::Result<()> {
    let HeldCalls {
        bytes_per_call,
        lateness_p99_ms,
    } = ours::hold(count)?;
    let case = format!("{count} calls held, nobody as the peer");
    let told = (Spread::fixed(bytes_per_call), Spread::fixed(f64::NAN));
    output.row(row(&case, "bytes_per_call", Better::Lower, told, 0.0))?;
    let marked = (
        Spread::fixed(lateness_p99_ms),
        Spread::fixed(LATENESS_MARK_MS),
    );
    output.row(row(&case, "lateness_p99_ms", Better::Lower, marked, 1.0))
}

/// Users registered with our proxy by one process.
fn registered(output: &mut dyn Output, users: u32) -> anyhow::Result<()> {
    let server = SipServer::ours(PROXY_WORKERS, Store::Memory)?;
    let Registered {
        bytes_per_user,
        cpu_us_per_registration,
    } = ours::register(server.ports.sip, users)?;
    drop(server);
    let case = format!("{users} users registered");
    let marked = (
        Spread::fixed(bytes_per_user),
        Spread::fixed(REGISTERED_MARK_BYTES),
    );
    output.row(row(&case, "bytes_per_user", Better::Lower, marked, 1.0))?;
    let server = SipServer::ours(PROXY_WORKERS, Store::Memory)?;
    let sipp = Sipp::find(users as usize)?;
    let before = peer::cpu_of_children()?;
    sipp.register(server.ports.sip)?;
    let (user, system) = peer::cpu_of_children()?;
    let theirs = (user + system).saturating_sub(before.0 + before.1);
    let theirs = theirs.as_secs_f64() * 1e6 / f64::from(users);
    let taken = (
        Spread::fixed(cpu_us_per_registration),
        Spread::fixed(theirs),
    );
    output.row(row(
        &case,
        "cpu_us_per_registration",
        Better::Lower,
        taken,
        0.0,
    ))
}

fn row(
    case: &str,
    metric: &'static str,
    better: Better,
    (ours, peer): (Spread, Spread),
    goal: f64,
) -> Row {
    Row {
        case: case.to_owned(),
        metric,
        better,
        ours,
        peer,
        goal,
    }
}
