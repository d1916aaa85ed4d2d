//! `udp-usrsctp`: our stack against usrsctp, over UDP on loopback.

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::output::{Output, Row};
use crate::process::Process;
use crate::rounds::{Better, Rounds};
use crate::transfer::{self, SIZES};
use crate::usrsctp::Peer;

/// How many times better ours is to be in either metric.
const GOAL: f64 = 4.0;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let peer = Peer::build()?;
    for (index, (case, bytes)) in SIZES.into_iter().enumerate() {
        let time = rounds.time_for_one(SIZES.len() - index).mul_f64(0.75);
        let [goodput, cpu] = rounds.alternate(
            || transfer::sctp::run(bytes, time),
            || transfer_over_usrsctp(&peer, bytes, time),
        )?;
        let metrics = [
            ("goodput_bytes_per_second", Better::Higher, goodput),
            ("cpu_seconds_per_gbyte", Better::Lower, cpu),
        ];
        for (metric, better, (ours, peer)) in metrics {
            output.row(Row {
                case: case.to_owned(),
                metric,
                better,
                ours,
                peer,
                goal: GOAL,
            })?;
        }
    }
    Ok(())
}

/// What the server of usrsctp says when it can be reached.
#[derive(Deserialize)]
struct Ready {
    udp_port: u16,
}

fn transfer_over_usrsctp(
    peer: &Peer,
    message_bytes: usize,
    time: Duration,
) -> anyhow::Result<[f64; 2]> {
    let server_port = test_support::free_udp_port().to_string();
    let mut command = Command::new(peer.program());
    let mut server = Process::start("usrsctp server", command.args(["server", &server_port]))?;
    let Ready { udp_port } = server.read_report(Duration::ZERO)?;
    let mut command = Command::new(peer.program());
    command.args([
        "client",
        &test_support::free_udp_port().to_string(),
        &udp_port.to_string(),
        &message_bytes.to_string(),
        &time.as_secs_f64().to_string(),
    ]);
    transfer::conclude(
        server,
        Process::start("usrsctp client", &mut command)?,
        time,
    )
}
