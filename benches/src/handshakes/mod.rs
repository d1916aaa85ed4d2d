//! `handshakes`: setting up and shutting down, answering INITs, and idle associations.

pub(crate) mod idle;
mod inits;
mod pairs;
mod scripted;

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use crate::output::{Output, Row};
use crate::process::Process;
use crate::rounds::{Better, Rounds, Spread};
use crate::usrsctp::Peer;
use idle::IdleAssociations;

/// Associations set up and shut down in a CPU second, both ends together.
const ASSOCIATIONS_MARK: f64 = 100_000.0;

/// INITs answered in a CPU second.
const INITS_MARK: f64 = 1_000_000.0;

/// Bytes of an idle association.
const BYTES_MARK: f64 = 2048.0;

/// Associations of the endpoint whose heartbeats and timers run.
const MANY: u32 = 1_000_000;

/// Associations by which memory is compared; usrsctp takes long to make more of them.
const SOME: u32 = 20_000;
const SOME_OF_USRSCTP: u32 = 1_000;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let time = Duration::from_millis(if rounds.is_quick() { 500 } else { 3000 });
    let [(ours, peer)] = rounds.alternate(
        || Ok([pairs::ours_per_cpu_second(time)?]),
        || Ok([pairs::dcsctp_per_cpu_second(time)?]),
    )?;
    let higher = Better::Higher;
    let case = "set-up-and-shut-down";
    output.row(row(
        case,
        "associations_per_cpu_second",
        higher,
        ours,
        peer,
        ASSOCIATIONS_MARK,
    ))?;
    let [(ours, peer)] = rounds.alternate(
        || Ok([inits::ours_per_cpu_second(time)?]),
        || Ok([inits::dcsctp_per_cpu_second(time)?]),
    )?;
    output.row(row(
        "init-flood",
        "inits_per_cpu_second",
        higher,
        ours,
        peer,
        INITS_MARK,
    ))?;
    memory(rounds, output)?;
    many(rounds, output)
}

/// Memory of an idle association, usrsctp's beside it.
fn memory(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let usrsctp = Peer::build()?;
    let [(ours, peer)] = rounds.alternate(
        || Ok([hold(SOME, Duration::ZERO)?.bytes_each()]),
        || Ok([held_by_usrsctp(&usrsctp)?]),
    )?;
    let metric = "bytes_per_association";
    output.row(row("idle", metric, Better::Lower, ours, peer, BYTES_MARK))
}

/// An endpoint with very many idle associations. Nothing stands beside it but the mark: the bytes
/// that each may have, and one core.
fn many(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    // Every association sends a HEARTBEAT in the longest interval, 45 seconds and the RTO.
    let virtual_time = Duration::from_secs(if rounds.is_quick() { 20 } else { 90 });
    let held = hold(MANY, virtual_time).context("ours")?;
    let metrics = [
        ("bytes_per_association", held.bytes_each(), BYTES_MARK),
        (
            "cpu_seconds_per_second",
            held.cpu_seconds / held.seconds,
            1.0,
        ),
    ];
    for (metric, ours, mark) in metrics {
        let (ours, peer) = (Spread::fixed(ours), Spread::fixed(mark));
        output.row(row("idle-1000000", metric, Better::Lower, ours, peer, mark))?;
    }
    Ok(())
}

/// A row whose goal is a mark of ours, whatever the peer's figure: told as the advantage that
/// reaches it.
fn row(
    case: &str,
    metric: &'static str,
    better: Better,
    ours: Spread,
    peer: Spread,
    mark: f64,
) -> Row {
    Row {
        case: case.to_owned(),
        metric,
        better,
        ours,
        peer,
        goal: better.advantage(mark, peer.median),
    }
}

fn hold(count: u32, virtual_time: Duration) -> anyhow::Result<IdleAssociations> {
    let role = format!("idle {count} {}", virtual_time.as_secs_f64());
    Process::start_role(&role)?.read_report(Duration::from_secs(60))
}

fn held_by_usrsctp(usrsctp: &Peer) -> anyhow::Result<f64> {
    #[derive(Deserialize)]
    struct IdleReport {
        associations: f64,
        bytes: f64,
    }
    let mut command = Command::new(usrsctp.program());
    command.args(["idle", &SOME_OF_USRSCTP.to_string()]);
    let held: IdleReport =
        Process::start("usrsctp", &mut command)?.read_report(Duration::from_secs(20))?;
    Ok(held.bytes / held.associations)
}
