//! Concurrent multipath transfer (Iyengar 2006, Dreibholz 2010, Adhari 2011; Adnan 2012, section 6.4): what two
//! paths carry together, and the three problems on the way with their cures.

mod net;
mod sim;
mod ways;

use std::time::Duration;

use report::{Cell, Column, Row, Table};
use serde_json::json;

use self::ways::{RECOMMENDED, SET_UPS, SetUp, WAYS, Way};
use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::net::side_by_side;
use crate::outcome::Outcome;

/// The experiment.
pub(super) struct Multipath;

/// Until the windows have grown.
const WARM: Duration = Duration::from_secs(5);

/// How many runs on real sockets go at one time: none of them keeps a core busy.
const AT_ONCE: usize = 3;

/// What usrsctp 0.9.5 carried in the first set-up, in Mbit/s.
const USRSCTP: [(&str, f64); 5] = [
    ("one path", 9.55),
    ("CMT", 4.74),
    ("CMT, NR-SACK", 4.56),
    ("CMT, split buffers", 6.19),
    ("CMT/RPv2, split buffers, NR-SACK", 7.31),
];

/// What came of one run.
#[derive(Clone, Copy)]
struct Carried {
    /// User data.
    mbit_per_s: f64,
    fast_retransmissions: u64,
    /// Packets that the links dropped.
    dropped: u64,
}

impl Experiment for Multipath {
    fn name(&self) -> &'static str {
        "multipath"
    }

    fn source(&self) -> &'static str {
        "Adnan 2012, section 6.4"
    }

    fn title(&self) -> &'static str {
        "Concurrent multipath transfer over two paths"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts with two addresses each, and two links between them of the rates and delays in the table, \
                       the same in both directions, with queues of 200 ms.",
            runs: "One association whose user always has data to send, in messages of 1200 bytes: over the better \
                   link alone, and over both with one cure after the other: NR-SACK, split buffers, the schedulers \
                   BLEST and ECF, loss detection by time.",
            measures: "The mean rate at which user data arrives after the first 5 s, fast retransmissions, and \
                       packets that the links dropped.",
            law: "No way carries more than both links do after headers. With the recommended settings (ECF) never less than \
                  0.98 of what the better link carries alone; at least 10.2 Mbit/s in the first set-up and 19.2 in the \
                  second.",
            check: "What the receiver held back when the time began is part of the rate. Fast retransmissions include chunks that \
                    a better path takes over (chunk rescheduling). A run on real sockets shares its machine: it may carry 3 % less.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let lasts = Duration::from_secs(context.either(10, 30));
        let runs: Vec<(&SetUp, &Way)> = SET_UPS
            .iter()
            .flat_map(|set_up| WAYS.iter().map(move |way| (set_up, way)))
            .collect();
        context.steps(runs.len() as u64);
        let carry = |index: usize| {
            let (set_up, way) = runs
                .get(index)
                .copied()
                .unwrap_or((&SET_UPS[0], &RECOMMENDED));
            let number = index as u64;
            context.begin(format!("{}: {}", set_up.name, way.name));
            let carried = match on {
                On::Sim => sim::carry(context, number, set_up, way, lasts),
                On::Net => net::carry(context, number, set_up, way, lasts),
            };
            context.done();
            carried
        };
        let at_once = if on == On::Net { AT_ONCE } else { 1 };
        let carried = side_by_side(at_once, runs.len(), carry)?;
        let results: Vec<(&SetUp, &Way, Carried)> = runs
            .iter()
            .zip(carried)
            .map(|((set_up, way), carried)| (*set_up, *way, carried))
            .collect();
        Ok(Outcome::judged(judge(on, lasts, &results))
            .ours(json!({
                "seed": context.seed(),
                "set_ups": SET_UPS.iter().map(|set_up| json!({
                    "set_up": set_up.name,
                    "paths": set_up.paths.map(ways::Path::to_json),
                })).collect::<Vec<_>>(),
                "results": results.iter().map(|(set_up, way, carried)| json!({
                    "set_up": set_up.name,
                    "way": way.name,
                    "mbit_per_s": carried.mbit_per_s,
                    "fast_retransmissions": carried.fast_retransmissions,
                    "packets_dropped": carried.dropped,
                })).collect::<Vec<_>>(),
            }))
            .published(json!({
                "usrsctp 0.9.5, 10 + 1 Mbit/s":
                    USRSCTP.iter().map(|(way, rate)| json!({ "way": way, "mbit_per_s": rate })).collect::<Vec<_>>(),
            }))
            .table(table(&results)))
    }
}

fn judge(on: On, lasts: Duration, results: &[(&SetUp, &Way, Carried)]) -> Checks {
    let mut checks = Checks::new();
    let slack = if on == On::Net { 0.97 } else { 1.0 };
    for (set_up, way, carried) in results {
        let name = format!("{}: {}", set_up.name, way.name);
        checks.law(
            name.clone(),
            carried.mbit_per_s,
            0.0..=set_up.most(lasts),
            "Mbit/s",
        );
        if way.name != RECOMMENDED.name {
            continue;
        }
        let alone = results
            .iter()
            .find(|(of, way, _)| of.name == set_up.name && !way.cmt)
            .map_or(f64::NAN, |(_, _, alone)| alone.mbit_per_s);
        let least = set_up.goal.unwrap_or(0.0).max(0.98 * alone);
        checks.law(
            format!("{name}, at least"),
            carried.mbit_per_s,
            slack * least..=f64::INFINITY,
            "Mbit/s",
        );
    }
    let [(_, one), (_, cmt), ..] = USRSCTP;
    let ours = results.iter().find(|(_, way, _)| way.cmt);
    let ours = ours.map_or(f64::NAN, |(_, _, carried)| carried.mbit_per_s);
    checks.found(
        "10 + 1 Mbit/s: both paths without a cure carry less than one, as with usrsctp 0.9.5",
        ours < one,
        format!("{ours:.2} Mbit/s here, {cmt} of usrsctp"),
    );
    checks
}

fn table(results: &[(&SetUp, &Way, Carried)]) -> Table {
    let mut table = Table::new("User data over both paths")
        .column(Column::text("Set-up").key())
        .column(Column::text("Way").key())
        .column(Column::number("Rate").unit("Mbit/s"))
        .column(Column::number("Fast retransmissions"))
        .column(Column::number("Packets dropped"));
    for (set_up, way, carried) in results {
        table.push(Row::new(vec![
            set_up.name.into(),
            way.name.into(),
            Cell::number(carried.mbit_per_s, 2),
            Cell::number(carried.fast_retransmissions as f64, 0),
            Cell::number(carried.dropped as f64, 0),
        ]));
    }
    table
}
