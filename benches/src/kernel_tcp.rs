//! `kernel-tcp`: our stack against the kernel's TCP, on loopback.

use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds};
use crate::transfer::{self, SIZES};

/// Within twice its CPU time per byte at 1 KiB.
const GOAL_AT_1_KIB: f64 = 0.5;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    for (index, (case, bytes)) in SIZES.into_iter().enumerate() {
        let time = rounds.time_for_one(SIZES.len() - index).mul_f64(0.75);
        let [goodput, cpu] = rounds.alternate(
            || transfer::sctp::run(bytes, time),
            || transfer::tcp::run(bytes, time),
        )?;
        let goal = if bytes == 1024 { GOAL_AT_1_KIB } else { 0.0 };
        let metrics = [
            ("goodput_bytes_per_second", Better::Higher, goodput, 0.0),
            ("cpu_seconds_per_gbyte", Better::Lower, cpu, goal),
        ];
        for (metric, better, (ours, peer), goal) in metrics {
            output.row(Row {
                case: case.to_owned(),
                metric,
                better,
                ours,
                peer,
                goal,
            })?;
        }
    }
    Ok(())
}
