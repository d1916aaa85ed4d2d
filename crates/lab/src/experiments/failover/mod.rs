//! Pang 2003 (sections 5.5 and 3.5) and SCTP thesis 2011 (section 6.1): what multi-homing does when a path is
//! cut, and when packets are lost.

mod cut;
mod judge;
mod loss;
mod net;
mod timing;

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::net::{Watch, side_by_side};
use crate::outcome::Outcome;
use crate::published::stated;
use cut::Observation;
use loss::Halts;
use timing::Timing;

/// The experiment.
pub(super) struct Failover;

/// How a failing path is treated.
struct Rules {
    name: &'static str,
    quick: bool,
}

const RULES: [Rules; 2] = [
    Rules {
        name: "RFC 9260 alone",
        quick: false,
    },
    Rules {
        name: "with quick failover (RFC 7829)",
        quick: true,
    },
];

impl Experiment for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, section 5.5 and section 3.5; SCTP thesis 2011 section 6.1"
    }

    fn title(&self) -> &'static str {
        "The primary path is cut; packets are lost on one path or two"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts with an address on each of two disjoint networks that delay packets by 10 \
                       ms each way. For the second part networks that delay by 50 ms, carry 100 kByte a second \
                       and lose 15 % of the packets in each direction; a single-homed pair has one of them.",
            runs: "A message of 100 bytes every 20 ms. Right after the 500th packet with data the primary \
                   network is cut in both directions; 150 s later it is restored. (Quick on real hosts all timers \
                   run five times faster, and it is restored after 16 s.) Once with RFC 9260 alone, \
                   once with quick failover (RFC 7829), which is Tandem's default. Second part: senders that \
                   always have data to send, for a minute, single-homed and multi-homed.",
            measures: "From the packets: the times and destinations of DATA chunks, first transmissions and \
                       retransmissions. From \
                       the sender: the error counter of the primary path and its state. At the receiver: \
                       the arrival of each message, and the longest time without one. Second part: the \
                       longest such halt of each trial.",
            law: "RFC 9260 section 6.3.3: T3-rtx expires one RTO (1 s) after the cut, then after 2, 4, 8, 16 \
                  and 32 s. Section 6.4.1: retransmissions go to the other path. Section 8.2: the path \
                  is inactive when its counter exceeds Path.Max.Retrans (5), at the sixth expiry, 63 s after \
                  the cut; until then new data goes there, and the longest silence is the last timeout, 32 s. \
                  RFC 7829 section 3.2: the first expiry is enough to move, so the longest silence is one RTO. \
                  After the repair, the path is used again after the next HEARTBEAT, within HB.interval \
                  and 1.5 RTO. The SCTP thesis says that five expiries make a path inactive; Pang 2003 saw \
                  no failover at all.",
            check: "Expiries, silence and return against those times; the tolerance is what the times of \
                    messages, acknowledgements and links make of them, 20 to 40 ms for the first and an \
                    interval between messages for each further one, and 5 ms for clocks; on real hosts also twice \
                    the greatest wake-up lateness of a separate thread, and the ticks of the timers. The \
                    HEARTBEATs to a path that may have failed \
                    go out when the last one has not been answered for an RTO, without jitter (RFC 7829 section \
                    3.2, rules 5 and 6), so its errors have the times of T3-rtx. Nothing is lost, duplicated or \
                    out of order. In the second part, that nothing arrives twice, that each halt of more than \
                    RTO.Min ends one trip after a timeout or after the answer to a HEARTBEAT has made another path \
                    usable (RFC 7829 section 3.2, rules 3 and 7), that consecutive timeouts double, and that \
                    retransmissions go to another path without errors. The published findings are found again when \
                    the median halt is the published one, and when significantly more trials halt for a shorter \
                    time multi-homed (sign test, one in a thousand).",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let trials = match on {
            On::Sim => context.either(100, 1000),
            On::Net => 0,
        };
        context.steps(RULES.len() as u64 + 2 * trials);
        context.begin("the primary path is cut and restored");
        let observations = cut_and_mend(on, context)?;
        let mut checks = Checks::new();
        for (rules, observation) in RULES.iter().zip(&observations) {
            judge::judge_observation(&mut checks, rules, observation);
        }
        context.begin("15 % loss");
        let halts = match on {
            On::Sim => Some(loss::observe(context, trials)?),
            On::Net => None,
        };
        if let Some(halts) = &halts {
            judge::judge_halts(&mut checks, halts);
        }
        judge::compare_with_documents(&mut checks, &observations, halts.as_ref());

        let mut outcome = Outcome::judged(checks)
            .ours(json!({
                "cut": RULES.iter().zip(&observations).map(to_json).collect::<Vec<_>>(),
                "loss": halts.as_ref().map(|halts| json!({
                    "trials": halts.single.len(),
                    "single_homed_median_halt_s": halts.median_single(),
                    "multi_homed_median_halt_s": halts.median_multi(),
                    "multi_homed_shorter": halts.shorter(),
                })),
            }))
            .published(json!({
                "expiries_until_inactive":
                    stated("failover", "consecutive retransmissions until inactive"),
                "single_homed_halt_s": stated("failover", "single-homed stall"),
                "multi_homed_halt_s": stated("failover", "multi-homed stall"),
                "lksctp_2002": "no failover: it kept to the primary path",
            }))
            .table(observations_table(&observations))
            .table(expiries_table(&observations));
        for (rules, observation) in RULES.iter().zip(&observations) {
            outcome = outcome.plot(chunks_plot(rules, observation));
        }
        outcome = outcome.plot(errors_plot(&observations));
        if let Some(halts) = &halts {
            outcome = outcome.table(halts_table(halts)).plot(halts_plot(halts));
        }
        Ok(outcome)
    }
}

/// The observations of both rules: one after the other on the virtual clock, at one time on real ones.
fn cut_and_mend(on: On, context: &Context) -> anyhow::Result<Vec<Observation>> {
    let timings = RULES
        .each_ref()
        .map(|rules| Timing::of(rules, on, context.quick()));
    let observations = match on {
        On::Sim => (0..)
            .zip(&timings)
            .map(|(number, timing)| cut::observe(context, number, timing))
            .collect(),
        On::Net => {
            let watch = Watch::begin()?;
            let observations = side_by_side(RULES.len(), timings.len(), |index| {
                net::observe(context, index as u64, &timings[index])
            });
            let late = watch.end().longest;
            observations.map(|mut observations| {
                let timings = observations
                    .iter_mut()
                    .map(|observation| &mut observation.timing);
                timings.for_each(|timing| timing.on_machine(late));
                observations
            })
        }
    };
    RULES.iter().for_each(|_| context.done());
    observations
}

fn to_json((rules, observation): (&Rules, &Observation)) -> serde_json::Value {
    let after_cut =
        |at: Option<Duration>| at.map(|at| at.as_secs_f64() - observation.cut.as_secs_f64());
    json!({
        "rules": rules.name,
        "expiries_s": observation.expiries().map(|at| after_cut(Some(at))).collect::<Vec<_>>(),
        "inactive_s": after_cut(observation.inactive()),
        "longest_silence_s": observation.longest_silence().as_secs_f64(),
        "new_data_on_other_path_s": after_cut(observation.moved()),
        "sent_again": observation.sent_again().count(),
        "sent_again_to_other_path": observation.sent_again().filter(|chunk| chunk.path == 1).count(),
        "back_after_mending_s":
            observation.returned().map(|at| at.as_secs_f64() - observation.mended.as_secs_f64()),
    })
}

fn seconds(of: Option<Duration>, since: Duration) -> Cell {
    Cell::number(of.map(|at| at.as_secs_f64() - since.as_secs_f64()), 2)
}

fn observations_table(observations: &[Observation]) -> Table {
    let mut table = Table::new("The primary path is cut, and restored")
        .column(Column::text("Rules").key())
        .column(
            Column::number("new data on the other path")
                .unit("s")
                .group("After the cut"),
        )
        .column(Column::number("inactive").unit("s").group("After the cut"))
        .column(Column::number("Longest silence").unit("s"))
        .column(Column::number("DATA chunks sent again"))
        .column(Column::number("of these to the other path"))
        .column(Column::number("Back after mending").unit("s"));
    for (rules, observation) in RULES.iter().zip(observations) {
        let again = observation.sent_again().count() as u64;
        let elsewhere = observation
            .sent_again()
            .filter(|chunk| chunk.path == 1)
            .count() as u64;
        table.push(Row::new([
            Cell::from(rules.name),
            seconds(observation.moved(), observation.cut),
            seconds(observation.inactive(), observation.cut),
            Cell::number(observation.longest_silence().as_secs_f64(), 2),
            Cell::from(again),
            Cell::from(elsewhere),
            seconds(observation.returned(), observation.mended),
        ]));
    }
    table
}

fn expiries_table(observations: &[Observation]) -> Table {
    let mut table = Table::new("Errors of the primary path").column(Column::number("Error").key());
    for rules in &RULES {
        table = table.column(Column::number("after the cut").unit("s").group(rules.name));
    }
    let expiries: Vec<Vec<Duration>> = observations
        .iter()
        .map(|observation| observation.expiries().collect())
        .collect();
    for number in 0..judge::ERRORS_UNTIL_INACTIVE {
        let mut cells = vec![Cell::from(number as u64 + 1)];
        for (observation, expiries) in observations.iter().zip(&expiries) {
            cells.push(seconds(expiries.get(number).copied(), observation.cut));
        }
        table.push(Row::new(cells));
    }
    table.note("With quick failover the errors after the first are HEARTBEATs without an answer.");
    table
}

fn halts_table(halts: &Halts) -> Table {
    let mut table = Table::new("Longest halt in a minute at 15 % loss")
        .column(Column::text("Pair").key())
        .column(Column::number("Trials"))
        .column(Column::number("median").unit("s"))
        .column(Column::number("most").unit("s"))
        .column(Column::number("published").unit("s"));
    for (name, values, published) in [
        ("single-homed", &halts.single, "single-homed stall"),
        ("multi-homed", &halts.multi, "multi-homed stall"),
    ] {
        table.push(Row::new([
            Cell::from(name),
            Cell::from(values.len() as u64),
            Cell::number(loss::median(values), 2),
            Cell::number(values.iter().copied().fold(0.0, f64::max), 2),
            Cell::number(stated("failover", published), 1),
        ]));
    }
    table.note("Published: single-homed more than that, multi-homed about that.");
    table
}

/// When each message came, around the cut.
fn chunks_plot(rules: &Rules, observation: &Observation) -> Plot {
    let from = observation.cut.saturating_sub(Duration::from_secs(5));
    let to = observation.mended;
    let shown: Vec<(f64, f64)> = observation
        .arrivals
        .iter()
        .filter(|(at, _)| (from..to).contains(at))
        .map(|(at, number)| {
            (
                at.as_secs_f64() - observation.cut.as_secs_f64(),
                *number as f64,
            )
        })
        .collect();
    // Hundreds of points look like these.
    let step = shown.len().div_ceil(250).max(1);
    let sparse = shown.iter().enumerate().filter(|(index, point)| {
        let follows_silence = *index > 0 && point.0 - shown[index - 1].0 > 0.5;
        let precedes_silence = shown
            .get(index + 1)
            .is_some_and(|next| next.0 - point.0 > 0.5);
        index % step == 0 || follows_silence || precedes_silence
    });
    Plot::new(
        format!("Messages that arrive: {}", rules.name),
        Axis::new("Time since the cut", "s"),
        Axis::new("Message number", ""),
    )
    .series(Series::new("arrived", Colour::Orange).points(sparse.map(|(_, point)| *point)))
}

fn errors_plot(observations: &[Observation]) -> Plot {
    let mut plot = Plot::new(
        "Error counter of the primary path",
        Axis::new("Time since the cut", "s"),
        Axis::new("Consecutive errors", ""),
    );
    for ((rules, observation), colour) in RULES.iter().zip(observations).zip(Colour::ALL) {
        let points = observation
            .errors
            .iter()
            .filter(|(at, _)| *at <= observation.mended);
        plot = plot.series(
            Series::new(rules.name, colour).points(points.map(|(at, errors)| {
                (
                    at.as_secs_f64() - observation.cut.as_secs_f64(),
                    f64::from(*errors),
                )
            })),
        );
    }
    plot
}

fn halts_plot(halts: &Halts) -> Plot {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        (1..)
            .zip(values)
            .map(|(rank, value)| (value, 100.0 * f64::from(rank) / count))
            .collect::<Vec<_>>()
    };
    Plot::new(
        "Longest halt in a minute at 15 % loss",
        Axis::new("Longest halt", "s"),
        Axis::new("Trials that halt no longer", "%"),
    )
    .series(Series::new("single-homed", Colour::Blue).points(sorted(&halts.single)))
    .series(Series::new("multi-homed", Colour::Orange).points(sorted(&halts.multi)))
    .series(published_halt(
        "single-homed",
        "single-homed stall",
        Colour::Blue,
    ))
    .series(published_halt(
        "multi-homed",
        "multi-homed stall",
        Colour::Orange,
    ))
    .note("Published: the one halt that Pang 2003 shows of each, as an upright line.")
}

fn published_halt(name: &str, quantity: &str, colour: Colour) -> Series {
    let halt = stated("failover", quantity);
    Series::new(format!("{name}, published"), colour)
        .dashed()
        .points([(halt, 0.0), (halt, 100.0)])
}
