//! Pang 2003 (sections 5.5 and 3.5) and SCTP thesis 2011 (section 6.1): what multi-homing does when a path is
//! cut, and when packets are lost.

mod cut;
mod judge;
mod loss;
mod net;
mod pace;

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::net::{Watch, side_by_side};
use crate::outcome::Outcome;
use crate::published::stated;
use cut::Story;
use loss::Halts;
use pace::Pace;

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
                    RTO.Min ends one trip after a timeout, that consecutive timeouts double, and that \
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
        let stories = cut_and_mend(on, context)?;
        let mut checks = Checks::new();
        for (rules, story) in RULES.iter().zip(&stories) {
            judge::judge_story(&mut checks, rules, story);
        }
        context.begin("15 % loss");
        let halts = match on {
            On::Sim => Some(loss::play(context, trials)?),
            On::Net => None,
        };
        if let Some(halts) = &halts {
            judge::judge_halts(&mut checks, halts);
        }
        judge::compare_with_documents(&mut checks, &stories, halts.as_ref());

        let mut outcome = Outcome::judged(checks)
            .ours(json!({
                "cut": RULES.iter().zip(&stories).map(told).collect::<Vec<_>>(),
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
            .table(stories_table(&stories))
            .table(expiries_table(&stories));
        for (rules, story) in RULES.iter().zip(&stories) {
            outcome = outcome.plot(chunks_plot(rules, story));
        }
        outcome = outcome.plot(errors_plot(&stories));
        if let Some(halts) = &halts {
            outcome = outcome.table(halts_table(halts)).plot(halts_plot(halts));
        }
        Ok(outcome)
    }
}

/// The stories of both rules: one after the other on the virtual clock, at one time on real ones.
fn cut_and_mend(on: On, context: &Context) -> anyhow::Result<Vec<Story>> {
    let paces = RULES
        .each_ref()
        .map(|rules| Pace::of(rules, on, context.quick()));
    let stories = match on {
        On::Sim => (0..)
            .zip(&paces)
            .map(|(number, pace)| cut::play(context, number, pace))
            .collect(),
        On::Net => {
            let watch = Watch::begin()?;
            let stories = side_by_side(RULES.len(), paces.len(), |index| {
                net::play(context, index as u64, &paces[index])
            });
            let late = watch.end().longest;
            stories.map(|mut stories| {
                let paces = stories.iter_mut().map(|story| &mut story.pace);
                paces.for_each(|pace| pace.on_machine(late));
                stories
            })
        }
    };
    RULES.iter().for_each(|_| context.done());
    stories
}

fn told((rules, story): (&Rules, &Story)) -> serde_json::Value {
    let after_cut = |at: Option<Duration>| at.map(|at| at.as_secs_f64() - story.cut.as_secs_f64());
    json!({
        "rules": rules.name,
        "expiries_s": story.expiries().map(|at| after_cut(Some(at))).collect::<Vec<_>>(),
        "inactive_s": after_cut(story.inactive()),
        "longest_silence_s": story.longest_silence().as_secs_f64(),
        "new_data_on_other_path_s": after_cut(story.moved()),
        "sent_again": story.sent_again().count(),
        "sent_again_to_other_path": story.sent_again().filter(|chunk| chunk.path == 1).count(),
        "back_after_mending_s":
            story.returned().map(|at| at.as_secs_f64() - story.mended.as_secs_f64()),
    })
}

fn seconds(of: Option<Duration>, since: Duration) -> Cell {
    Cell::number(of.map(|at| at.as_secs_f64() - since.as_secs_f64()), 2)
}

fn stories_table(stories: &[Story]) -> Table {
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
    for (rules, story) in RULES.iter().zip(stories) {
        let again = story.sent_again().count() as u64;
        let elsewhere = story.sent_again().filter(|chunk| chunk.path == 1).count() as u64;
        table.push(Row::new([
            Cell::from(rules.name),
            seconds(story.moved(), story.cut),
            seconds(story.inactive(), story.cut),
            Cell::number(story.longest_silence().as_secs_f64(), 2),
            Cell::from(again),
            Cell::from(elsewhere),
            seconds(story.returned(), story.mended),
        ]));
    }
    table
}

fn expiries_table(stories: &[Story]) -> Table {
    let mut table = Table::new("Errors of the primary path").column(Column::number("Error").key());
    for rules in &RULES {
        table = table.column(Column::number("after the cut").unit("s").group(rules.name));
    }
    let expiries: Vec<Vec<Duration>> = stories
        .iter()
        .map(|story| story.expiries().collect())
        .collect();
    for number in 0..judge::ERRORS_UNTIL_INACTIVE {
        let mut cells = vec![Cell::from(number as u64 + 1)];
        for (story, expiries) in stories.iter().zip(&expiries) {
            cells.push(seconds(expiries.get(number).copied(), story.cut));
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
fn chunks_plot(rules: &Rules, story: &Story) -> Plot {
    let from = story.cut.saturating_sub(Duration::from_secs(5));
    let to = story.mended;
    let shown: Vec<(f64, f64)> = story
        .arrivals
        .iter()
        .filter(|(at, _)| (from..to).contains(at))
        .map(|(at, number)| (at.as_secs_f64() - story.cut.as_secs_f64(), *number as f64))
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

fn errors_plot(stories: &[Story]) -> Plot {
    let mut plot = Plot::new(
        "Error counter of the primary path",
        Axis::new("Time since the cut", "s"),
        Axis::new("Consecutive errors", ""),
    );
    for ((rules, story), colour) in RULES.iter().zip(stories).zip(Colour::ALL) {
        let points = story.errors.iter().filter(|(at, _)| *at <= story.mended);
        plot = plot.series(
            Series::new(rules.name, colour).points(points.map(|(at, errors)| {
                (
                    at.as_secs_f64() - story.cut.as_secs_f64(),
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
}
