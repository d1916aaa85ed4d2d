//! Pang 2003, chapter 6: callers and callees behind two proxies that share one association with many
//! streams, while the network between the proxies loses packets.

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::{Value, json};
use sip::Transport;

use crate::calls::{
    Call, CallOutcome, CallResults, Scenario, TRUNK_DELAY, added, run_scenarios, undisturbed,
};
use crate::checks::Checks;
use crate::context::Context;
use crate::difference::{Comparison, Difference};
use crate::experiment::{About, Experiment, On};
use crate::laws::packets_per_second;
use crate::outcome::Outcome;

/// The experiment.
pub(super) struct CallsThroughTwoProxies;

const TRUNKS: [(Transport, Colour); 3] = [
    (Transport::Udp, Colour::Blue),
    (Transport::Tcp, Colour::Green),
    (Transport::Sctp, Colour::Orange),
];

/// Calls begun a second.
const RATE: f64 = 20.0;

/// Messages of a call that go one way between the proxies, the caller's: INVITE, ACK and BYE, and as many the
/// other way.
const MESSAGES: f64 = 3.0;

/// Calls are compared by batches of those that are begun within so long, five times RTO.Min: what a loss does to one
/// batch is over before most of the next, so that batches hardly depend on each other, which calls do.
const BATCH: Duration = Duration::from_secs(5);

/// The part of calls that the slowest are not counted in where transports are compared.
const COMPARED: f64 = 0.95;

/// RTO.Min (RFC 9260 section 16).
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// One transport at one loss.
struct Point {
    loss_percent: f64,
    calls: usize,
    completed: usize,
    /// Calls that a response ended, and those that nobody answered.
    refused: usize,
    unanswered: usize,
    left: usize,
    /// How long callers waited for an answer, milliseconds, in order of size.
    waits: Vec<f64>,
    /// What 95 % of the callers of each batch waited at most, milliseconds, in order of time.
    batches: Vec<f64>,
    /// Calls that a loss has delayed, percent.
    delayed: f64,
    /// The longest time without an answer to anybody, milliseconds.
    stall: f64,
    /// What the machine may add to a set-up in most cases, milliseconds.
    added: f64,
}

impl Experiment for CallsThroughTwoProxies {
    fn name(&self) -> &'static str {
        "calls-through-two-proxies"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, chapter 6"
    }

    fn title(&self) -> &'static str {
        "Calls through two proxies that share one association, under loss"
    }

    fn about(&self) -> About {
        About {
            topology: "Callers, their proxy, the callees' proxy, callees. Users reach their proxy over UDP \
                       in a millisecond; between the proxies are two networks, 20 ms each way, that lose \
                       packets. On real hosts each of the four is a network namespace, and the emulator lies \
                       between them.",
            runs: "20 calls a second: INVITE, 180, 200 after 200 ms, ACK, two seconds later BYE. Between the \
                   proxies one SCTP association over both networks with 64 streams, of which each call uses \
                   one; or one TCP connection; or UDP. The proxies are Tandem's: their cores on the virtual clock \
                   with smoltcp's TCP (Reno), the whole of them on real hosts, with the kernel's TCP as it \
                   comes, and the users of `tandem load`.",
            measures: "Calls completed, the time from INVITE to 200 at the caller, how many calls a loss has delayed, and \
                       the longest time in which nobody was answered. One that was never answered counts with the 32 s \
                       after which SIP gives a request up (RFC 3261 section 17.1.1.2), and so does one that was refused, \
                       however soon; how many of either there are is told.",
            law: "Without loss a call is answered after the delays of the way there and back and the ringing. \
                  What SCTP carries is not lost: every call is completed, as long as the association carries as \
                  many packets a second at that loss as there are messages (the formula of Padhye et al., with \
                  RTO.Min of one second, RFC 9260 section 16); beyond that a queue grows, and calls wait in it \
                  until SIP's own timers end them. SIP over UDP repeats requests and answers by itself from T1 = \
                  500 ms on (RFC 3261 section 17).",
            check: "Without loss the median and the shortest set-up against that sum, exactly on the virtual \
                    clock. On real hosts whoever handles a message has to be woken, 19 times in a set-up: the \
                    median may be later by 19 times what 99 of 100 wakings of a thread beside them were late at \
                    most, since then most calls are. Over SCTP all calls complete where the association can carry them; no proxy has a request left. Pang 2003 \
                    expects streams to cure TCP's head-of-line blocking: found when calls over SCTP are set \
                    up sooner than over TCP, at the 95th percentile, at every loss, by more than chance makes of batches that do not depend on each other: calls that follow \
                    one another share their losses, so the percentile is taken of each batch of 5 s, five times \
                    RTO.Min, and the mean difference of batches has to be beyond its 95 % confidence interval \
                    (Student). A loss that outlasts a batch makes that interval too narrow. The same is told of UDP.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let losses = context.either(&[0.0, 3.0][..], &[0.0, 1.0, 2.0, 3.0, 5.0, 10.0]);
        let lasts = Duration::from_secs(match on {
            On::Sim => context.either(100, 300),
            On::Net => context.either(30, 120),
        });
        context.steps((losses.len() * TRUNKS.len()) as u64);
        context.begin("calls through two proxies");
        let scenarios: Vec<Scenario> = losses
            .iter()
            .flat_map(|loss_percent| {
                TRUNKS.map(|(trunk, _)| Scenario {
                    trunk,
                    profile: context.profile(),
                    loss: loss_percent / 100.0,
                    rate: RATE,
                    lasts,
                    cut: None,
                })
            })
            .collect();
        let results = run_scenarios(on, context, &scenarios)?;
        let lines: Vec<(Transport, Vec<Point>)> = (0..)
            .zip(TRUNKS)
            .map(|(index, (trunk, _))| {
                let of_trunk = results.iter().skip(index).step_by(TRUNKS.len());
                let points = losses.iter().zip(of_trunk);
                let points =
                    points.map(|(loss_percent, results)| Point::of(*loss_percent, lasts, results));
                (trunk, points.collect())
            })
            .collect();
        Ok(Outcome::judged(check(on, &lines))
            .ours(values(&lines))
            .published(json!({
                "expectation": "a proxy connected to another proxy with multiple streams between them is the more \
                                realistic scenario; streams are expected to resolve the head-of-line blocking \
                                that TCP experiences (Pang 2003, chapter 6: not measured there)",
            }))
            .table(table(&lines))
            .table(differences(&lines))
            .plot(plot(&lines))
            .note(match on {
                On::Sim => "TCP is smoltcp's with Reno and without selective acknowledgements.",
                On::Net => "TCP is the kernel's, with the congestion control that it has by default.",
            }))
    }
}

impl Point {
    fn of(loss_percent: f64, lasts: Duration, results: &CallResults) -> Point {
        let waits = |of: &mut dyn Iterator<Item = &Call>| {
            let mut waits: Vec<f64> = of.map(|call| milliseconds(call.waited())).collect();
            waits.sort_by(f64::total_cmp);
            waits
        };
        let all = waits(&mut results.calls.iter());
        let batches = (0..(lasts.as_secs() / BATCH.as_secs()) as u32).map(|number| {
            let batch = BATCH * number..BATCH * (number + 1);
            let begun = |call: &&Call| batch.contains(&call.began.duration_since(results.start));
            quantile(&waits(&mut results.calls.iter().filter(begun)), COMPARED)
        });
        let ended = |as_this: CallOutcome| {
            let calls = results.calls.iter();
            calls.filter(|call| call.outcome == as_this).count()
        };
        let added = milliseconds(added(results.lateness.usual));
        // What was lost comes a round trip later at the soonest: half of one tells that from a slow machine.
        let late = milliseconds(undisturbed() + TRUNK_DELAY) + added;
        let delayed = all.iter().filter(|wait| **wait > late).count();
        Point {
            loss_percent,
            calls: results.calls.len(),
            completed: ended(CallOutcome::Completed),
            refused: ended(CallOutcome::Refused),
            unanswered: ended(CallOutcome::NotAnswered),
            left: results.left,
            batches: batches.collect(),
            delayed: 100.0 * delayed as f64 / all.len() as f64,
            stall: milliseconds(results.longest_without_answer()),
            waits: all,
            added,
        }
    }

    /// The time that a part of the callers waited at most.
    fn quantile(&self, part: f64) -> f64 {
        quantile(&self.waits, part)
    }

    /// By how much it takes 95 % of the callers longer than over something else.
    fn above(&self, other: &Point) -> Difference {
        let [ours, others] = [self, other].map(|point| point.batches.iter().copied());
        Difference::of(ours, others)
    }
}

/// The figure that a part of all does not exceed; they are sorted.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    let figure = sorted.get(rank.max(1) - 1);
    figure.copied().unwrap_or(f64::NAN)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Whether an association carries the messages at this loss even where each has a packet of its own.
fn can_carry(point: &Point) -> bool {
    let loss = point.loss_percent / 100.0;
    packets_per_second(2 * TRUNK_DELAY, LEAST_TIMEOUT, loss) >= RATE * MESSAGES
}

fn check(on: On, lines: &[(Transport, Vec<Point>)]) -> Checks {
    let mut checks = Checks::new();
    let law = milliseconds(undisturbed());
    for (trunk, points) in lines {
        for point in points {
            let what = format!("{trunk}, {} % loss", point.loss_percent);
            if point.loss_percent == 0.0 {
                // The first calls wait for the association or connection between the proxies.
                checks.law(
                    format!("median set-up, {what}"),
                    point.quantile(0.5),
                    law..=law + point.added,
                    "ms",
                );
                checks.law(
                    format!("shortest set-up, {what}"),
                    point.quantile(0.0),
                    law..=law + point.added,
                    "ms",
                );
            }
            if point.loss_percent == 0.0 || *trunk == Transport::Sctp && can_carry(point) {
                let all = point.calls as f64;
                checks.law(
                    format!("calls completed, {what}"),
                    point.completed as f64,
                    all..=all,
                    "calls",
                );
            }
            checks.law(
                format!("requests left at the proxies, {what}"),
                point.left as f64,
                0.0..=0.0,
                "",
            );
        }
    }
    compare(&mut checks, on, lines);
    checks
}

/// SCTP beside TCP, with loss.
fn compare(checks: &mut Checks, on: On, lines: &[(Transport, Vec<Point>)]) {
    let (mut later, mut alike) = (Vec::new(), Vec::new());
    for (tcp, sctp) in lossy(lines, Transport::Tcp) {
        let more = sctp.above(tcp);
        let (loss, by) = (tcp.loss_percent, more.with_interval("ms"));
        match more.comparison() {
            Comparison::Less => {}
            Comparison::Greater => later.push(format!("at {loss} % loss it takes {by} more")),
            Comparison::Inconclusive => alike.push(format!(
                "at {loss} % loss they cannot be told apart ({by}; a loss delays {:.1} % of the calls over TCP, {:.1} % \
                 over SCTP)",
                tcp.delayed, sctp.delayed
            )),
        }
    }
    let (whose, repeats) = match on {
        On::Sim => ("smoltcp's", ""),
        On::Net => (
            "the kernel's",
            ": that looks for losses at the end of what was sent soon after the round trip (RFC 8985) and \
             repeats after 200 ms, SCTP after a second (RTO.Min, RFC 9260 section 16)",
        ),
    };
    let because = if later.is_empty() { "" } else { repeats };
    later.append(&mut alike);
    checks.found(
        format!(
            "with loss, calls over streams are set up sooner than over one connection of {whose} TCP"
        ),
        later.is_empty(),
        format!("{}{because}", later.join(", ")),
    );
}

/// Another transport and SCTP, at each loss that there is.
fn lossy(
    lines: &[(Transport, Vec<Point>)],
    other: Transport,
) -> impl Iterator<Item = (&Point, &Point)> {
    let of = |transport| {
        let found = lines.iter().find(|(of, _)| *of == transport);
        found
            .map(|(_, points)| points.as_slice())
            .unwrap_or_default()
    };
    let pairs = of(other).iter().zip(of(Transport::Sctp));
    pairs.filter(|(other, _)| other.loss_percent > 0.0)
}

fn values(lines: &[(Transport, Vec<Point>)]) -> Value {
    let points = |points: &[Point]| -> Value {
        let point = |point: &Point| {
            json!({
                "loss_percent": point.loss_percent,
                "calls": point.calls,
                "completed": point.completed,
                "refused": point.refused,
                "unanswered": point.unanswered,
                "set_up_ms": {
                    "p50": point.quantile(0.5),
                    "p95": point.quantile(0.95),
                    "p99": point.quantile(0.99),
                    "longest": point.quantile(1.0),
                },
                "delayed_percent": point.delayed,
                "longest_without_answer_ms": point.stall,
                "p95_of_batches_ms": point.batches,
            })
        };
        points.iter().map(point).collect()
    };
    lines
        .iter()
        .map(|(trunk, of)| json!({ "between_proxies": trunk.to_string(), "points": points(of) }))
        .collect()
}

fn table(lines: &[(Transport, Vec<Point>)]) -> Table {
    let mut table = Table::new("Calls through two proxies")
        .column(Column::text("Between the proxies").key())
        .column(Column::number("Loss").unit("%").key())
        .column(Column::number("begun").group("Calls"))
        .column(Column::number("completed").group("Calls"))
        .column(Column::number("refused").group("Calls"))
        .column(Column::number("unanswered").group("Calls"))
        .columns(
            ["50 %", "95 %", "99 %", "longest"]
                .map(|what| Column::number(what).unit("ms").group("Set-up")),
        )
        .column(Column::number("Delayed").unit("%"))
        .column(Column::number("Longest without an answer").unit("ms"));
    for (trunk, points) in lines {
        for (index, point) in points.iter().enumerate() {
            let row = Row::new([
                Cell::from(trunk.to_string()),
                Cell::number(point.loss_percent, 1),
                Cell::number(point.calls as f64, 0),
                Cell::number(point.completed as f64, 0),
                Cell::number(point.refused as f64, 0),
                Cell::number(point.unanswered as f64, 0),
                Cell::number(point.quantile(0.5), 1),
                Cell::number(point.quantile(0.95), 1),
                Cell::number(point.quantile(0.99), 1),
                Cell::number(point.quantile(1.0), 1),
                Cell::number(point.delayed, 1),
                Cell::number(point.stall, 1),
            ]);
            table.push(if index == 0 { row.begins_block() } else { row });
        }
    }
    table
}

/// By how much it takes longer over SCTP, and whether that is beyond its confidence interval.
fn differences(lines: &[(Transport, Vec<Point>)]) -> Table {
    let mut table = Table::new("95th percentile of the callers' wait in a batch, over SCTP")
        .column(Column::text("Against").key())
        .column(Column::number("Loss").unit("%").key())
        .column(
            Column::number("more")
                .unit("ms")
                .group("Mean of all batches"),
        )
        .column(Column::number("±").unit("ms").group("Mean of all batches"))
        .column(Column::text("Beyond the interval"));
    for other in [Transport::Tcp, Transport::Udp] {
        for (other_point, sctp) in lossy(lines, other) {
            let more = sctp.above(other_point);
            table.push(Row::new([
                Cell::from(other.to_string()),
                Cell::number(sctp.loss_percent, 1),
                Cell::number(more.mean(), 1),
                Cell::number(more.half_width(), 1),
                Cell::from(match more.comparison() {
                    Comparison::Greater => "later",
                    Comparison::Less => "sooner",
                    Comparison::Inconclusive => "no",
                }),
            ]));
        }
    }
    table.note("With 95 % confidence intervals (Student), of batches of 5 s, as if these did not depend on each other.");
    table
}

fn plot(lines: &[(Transport, Vec<Point>)]) -> Plot {
    let mut plot = Plot::new(
        "Set-up of calls",
        Axis::new("Loss between the proxies", "%"),
        Axis::new("95 % of calls are answered within", "ms"),
    );
    for ((trunk, points), (_, colour)) in lines.iter().zip(TRUNKS) {
        let points = points
            .iter()
            .map(|point| (point.loss_percent, point.quantile(0.95)));
        plot =
            plot.series(Series::new(trunk.to_string(), colour).points(points.collect::<Vec<_>>()));
    }
    plot
}
