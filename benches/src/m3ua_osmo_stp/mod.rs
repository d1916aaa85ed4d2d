//! `m3ua-osmo-stp`: messages through a signalling gateway, ours and osmo-stp, between two ASPs on the same host.
//!
//! osmo-stp needs the kernel's SCTP, which few hosts have loaded: both gateways run in the virtual machine of
//! `tests/kernel-peer`, into which this program copies itself, with the ASPs (`load`) beside them.

mod gateway;
mod load;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use test_support::{KernelPeer, require_command};

pub(crate) use gateway::serve;
pub(crate) use load::measure;

use crate::output::{Output, Row};
use crate::process::Process;
use crate::rounds::{Better, Rounds};

/// How many times more messages ours is to carry in a CPU second.
const GOAL: f64 = 3.0;

/// What carries SCTP of our gateway, and of the ASPs around it.
const CARRIERS: [(&str, &str); 2] = [
    ("both on the kernel's SCTP", "kernel"),
    ("ours on our SCTP in UDP", "udp"),
];

/// Until the guest has started a gateway and its ASPs, at the pace of an emulated processor.
const SET_UP: Duration = Duration::from_secs(60);

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let guest = KernelPeer::get().context("no guest with the kernel's SCTP")?;
    let program = require_command("osmo-stp", "osmo-stp").context("no osmo-stp")?;
    guest.put(&program);
    let this = std::env::current_exe().context("this program's file")?;
    guest.put(&this);
    let (count, seconds) = if rounds.is_quick() { (3, 4) } else { (7, 10) };
    let (rounds, time) = (rounds.at_most(count), Duration::from_secs(seconds));
    for (case, over) in CARRIERS {
        let [per_cpu_second] = rounds.alternate(
            || in_guest(guest, &this, "ours", over, time),
            || in_guest(guest, &this, "osmo-stp", "kernel", time),
        )?;
        output.row(Row {
            case: case.to_owned(),
            metric: "messages_per_cpu_second",
            better: Better::Higher,
            ours: per_cpu_second.0,
            peer: per_cpu_second.1,
            goal: GOAL,
        })?;
    }
    Ok(())
}

fn in_guest(
    guest: &KernelPeer,
    this: &Path,
    gateway: &str,
    over: &str,
    time: Duration,
) -> anyhow::Result<[f64; 1]> {
    let file = this.file_name().context("this program's file")?;
    let command = format!(
        "/bin/{} role --role 'm3ua-load {gateway} {over} {}'",
        file.to_string_lossy(),
        time.as_secs_f64()
    );
    let mut process = Process::start(gateway, &mut guest.command(&command))?;
    let carried: load::Carried = process.read_report(SET_UP + time)?;
    Ok([carried.messages as f64 / carried.cpu_seconds])
}
