//! Jungmaier 2000, figure 5: two senders that always have more to send share one line.

use std::ops::RangeInclusive;
use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::{Sharer, SymmetricLink, jain, shares};
use crate::outcome::Outcome;
use crate::published::stated;
use crate::stage::{Flow, Received, Scenario, Transport, run_scenarios, unused_packets};

/// The experiment.
pub(super) struct Fairness;

/// What can be read from a printed plot: a twentieth of the axis, which is the link.
const READING: f64 = 0.05;

/// Two senders: the one that is there all the time, and the one that comes and goes.
struct Pairing {
    name: &'static str,
    first: Transport,
    second: Transport,
}

const BUNDLED: Transport = Transport::Sctp { bundled: true };
const UNBUNDLED: Transport = Transport::Sctp { bundled: false };

const PAIRINGS: [Pairing; 4] = [
    Pairing {
        name: "SCTP / SCTP",
        first: BUNDLED,
        second: BUNDLED,
    },
    Pairing {
        name: "SCTP bundled / SCTP unbundled",
        first: BUNDLED,
        second: UNBUNDLED,
    },
    Pairing {
        name: "SCTP / TCP",
        first: BUNDLED,
        second: Transport::Tcp,
    },
    Pairing {
        name: "SCTP small packets / TCP",
        first: UNBUNDLED,
        second: Transport::Tcp,
    },
];

/// When the second sender comes and goes, and when all is over.
struct Times {
    on: Duration,
    off: Duration,
    end: Duration,
}

impl Times {
    /// Whether the queue is as it will be as long as nobody comes or goes: the new sender's window
    /// has grown (six round trips of a full queue), or what the last one left has been carried.
    const SETTLED: Duration = Duration::from_secs(10);

    fn of(on: On, context: &Context) -> Times {
        let seconds = match (on, context.quick()) {
            (On::Net, true) => [15, 40, 50],
            // Jungmaier 2000's: 90 seconds.
            _ => {
                let before = 60;
                let together = stated("fairness", "second sender on") as u64;
                [before, before + together, 2 * before + together]
            }
        };
        let [on, off, end] = seconds.map(Duration::from_secs);
        Times { on, off, end }
    }
}

/// What came of a pairing.
struct Shared {
    pairing: &'static Pairing,
    /// User data of each, in kByte a second, over time.
    binned: [Vec<(f64, f64)>; 2],
    /// kByte of packets a second, of the first sender alone.
    alone: f64,
    /// The same of both while both send.
    together: [f64; 2],
    /// The share of the first, by law: the middle and the ends of what is allowed.
    allowed: (f64, f64),
    /// kByte of packets a second that the law allows, of the first alone and of both.
    allowed_alone: RangeInclusive<f64>,
    allowed_together: RangeInclusive<f64>,
}

impl Shared {
    fn share(&self) -> f64 {
        self.together[0] / (self.together[0] + self.together[1])
    }
}

impl Experiment for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn source(&self) -> &'static str {
        "Jungmaier 2000, figure 5"
    }

    fn title(&self) -> &'static str {
        "Two senders share a line"
    }

    fn about(&self) -> About {
        About {
            topology: "Two senders on one side and two receivers on the other side of a link that carries 100 \
                       kByte of IP packets a second in each direction, delays them by \
                       50 ms each way, and whose queue holds all windows, so that nothing is lost.",
            runs: "One sender all the time; after a minute a second one for 90 s; both always have data to send, \
                   with windows of 32 KByte. SCTP against SCTP, both bundling messages of 100 \
                   bytes; bundled against unbundled; SCTP against TCP; unbundled SCTP against TCP.",
            measures: "User data that arrives each second, and from it the bytes of packets that each \
                       sender puts on the line, from 10 s after the second sender has come until it \
                       goes; the share of each, and Jain's index of fairness.",
            law: "Senders share a queue that loses nothing in proportion to their windows, in bytes on the link, \
                  since packets leave in order. Equal windows of user data are equal shares when both send \
                  packets of the same kind. 32 KByte in packets of 100 bytes each with 48 bytes of \
                  headers take more of the link than in full packets, and therefore get more of it: 55 %. \
                  Jungmaier 2000 found equal shares in all four pairings.",
            check: "Each share against that of the windows, give or take the two packets of each window \
                    that may wait for an acknowledgement (on real hosts also two that are not read yet) or not be \
                    full; the load of one sender and of both \
                    against the rate of the line, less the headers of two packets of each window that are not \
                    full, give or take two packets of each sender at the ends of the span. Equal shares are found \
                    again when each is half within what can be read off \
                    figure 5, a twentieth of the link, and those packets.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn is_light(&self, _: On) -> bool {
        // A line of 100 kByte/s: the processor waits.
        true
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        context.steps(PAIRINGS.len() as u64);
        let times = Times::of(on, context);
        context.begin("two senders on a line");
        let scenarios: Vec<Scenario> = PAIRINGS
            .iter()
            .map(|pairing| stage(pairing, &times))
            .collect();
        let received = run_scenarios(on, context, 0, &scenarios)?;
        let all: Vec<Shared> = PAIRINGS
            .iter()
            .zip(scenarios.iter().zip(&received))
            .map(|(pairing, (scenario, received))| share(on, pairing, &times, scenario, received))
            .collect();
        let mut checks = Checks::new();
        for shared in &all {
            let name = shared.pairing.name;
            for (who, load, allowed) in [
                ("the first alone", shared.alone, &shared.allowed_alone),
                (
                    "both",
                    shared.together.iter().sum(),
                    &shared.allowed_together,
                ),
            ] {
                checks.law(
                    format!("{name}: load of {who}"),
                    load,
                    allowed.clone(),
                    "kByte/s",
                );
            }
            let (low, high) = shared.allowed;
            checks.law(
                format!("{name}: share of the first"),
                shared.share(),
                low..=high,
                "",
            );
            checks.depends_on_time();
        }
        for shared in &all {
            let half = stated("fairness", "share");
            let tolerance = READING + (shared.allowed.1 - shared.allowed.0) / 2.0;
            checks.found(
                format!("{} share the line equally", shared.pairing.name),
                (shared.share() - half).abs() <= tolerance,
                format!(
                    "the first has {:.1} %, as its window has of both windows on the line",
                    100.0 * shared.share()
                ),
            );
        }
        let mut outcome = Outcome::judged(checks)
            .ours(all.iter().map(to_json).collect())
            .published(json!({
                "link_kbyte_per_s": stated("fairness", "link"),
                "delay_ms": stated("fairness", "delay"),
                "second_sender_on_s": stated("fairness", "second sender on"),
                "share_of_each": stated("fairness", "share"),
            }))
            .table(table(&all));
        for shared in &all {
            outcome = outcome.plot(plot(shared, &times));
        }
        Ok(outcome)
    }
}

fn stage(pairing: &Pairing, times: &Times) -> Scenario {
    let line = SymmetricLink {
        rate: stated("fairness", "link") * 1000.0,
        delay: Duration::from_secs_f64(stated("fairness", "delay") / 1000.0),
    };
    let message = stated("fairness", "message") as usize;
    let first = Flow::greedy(pairing.first, message, times.end);
    let second = Flow {
        begins: times.on,
        ..Flow::greedy(pairing.second, message, times.off)
    };
    Scenario {
        line,
        flows: vec![first, second],
        lasts: times.end,
    }
}

fn share(
    on: On,
    pairing: &'static Pairing,
    times: &Times,
    scenario: &Scenario,
    received: &[Received],
) -> Shared {
    let load = |index: usize, from, to| {
        let received = received
            .get(index)
            .map_or(0.0, |received| received.goodput(from, to));
        scenario.flows[index].wire(on).on_link(received) / 1000.0
    };
    let settled = times.on + Times::SETTLED;
    let sharers: Vec<Sharer> = scenario
        .flows
        .iter()
        .map(|flow| Sharer {
            wire: flow.wire(on),
            window: flow.window(on),
        })
        .collect();
    let allowed = shares(&sharers, unused_packets(on)).swap_remove(0);
    let binned = |index: usize| {
        let bins = received
            .get(index)
            .map(|received| received.binned(Duration::from_secs(1), times.end));
        let bins = bins.unwrap_or_default().into_iter();
        bins.map(|(at, rate)| (at, rate / 1000.0)).collect()
    };
    Shared {
        pairing,
        binned: [0, 1].map(binned),
        alone: load(0, Times::SETTLED, times.on),
        together: [0, 1].map(|index| load(index, settled, times.off)),
        allowed: allowed.into_inner(),
        allowed_alone: saturated(&scenario.line, &sharers[..1], times.on - Times::SETTLED),
        allowed_together: saturated(&scenario.line, &sharers, times.off - settled),
    }
}

/// The load of a line that is always busy, in kByte a second, as it is computed from user data that
/// arrives over `span`: of each flow up to two packets are counted at the ends that do not belong
/// there, or the reverse, and two packets of each window are not full, which puts up to two headers
/// on the line that the computation does not see.
fn saturated(line: &SymmetricLink, sharers: &[Sharer], span: Duration) -> RangeInclusive<f64> {
    let rate = line.rate / 1000.0;
    let packets: f64 = sharers.iter().map(|sharer| 2.0 * sharer.wire.packet).sum();
    let ends = packets / 1000.0 / span.as_secs_f64();
    let on_line: f64 = sharers
        .iter()
        .map(|sharer| sharer.wire.on_link(sharer.window))
        .sum();
    let headers: f64 = sharers.iter().map(|sharer| 2.0 * sharer.wire.headers).sum();
    rate * on_line / (on_line + headers) - ends..=rate + ends
}

fn to_json(shared: &Shared) -> serde_json::Value {
    json!({
        "pairing": shared.pairing.name,
        "alone_kbyte_per_s": shared.alone,
        "together_kbyte_per_s": shared.together,
        "share_of_first": shared.share(),
        "jain": jain(&shared.together),
    })
}

fn table(all: &[Shared]) -> Table {
    let mut table = Table::new("Load of the link")
        .column(Column::text("First / second").key())
        .column(Column::number("first").unit("kByte/s").group("Alone"))
        .column(Column::number("first").unit("kByte/s").group("Together"))
        .column(Column::number("second").unit("kByte/s").group("Together"))
        .column(Column::number("ours").unit("%").group("Share of the first"))
        .column(Column::text("by law").unit("%").group("Share of the first"))
        .column(Column::number("Jain's index"));
    for shared in all {
        let (low, high) = shared.allowed;
        table.push(Row::new([
            Cell::from(shared.pairing.name),
            Cell::number(shared.alone, 2),
            Cell::number(shared.together[0], 2),
            Cell::number(shared.together[1], 2),
            Cell::number(100.0 * shared.share(), 1),
            Cell::from(format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high)),
            Cell::number(jain(&shared.together), 4),
        ]));
    }
    table.note("Load counts packets with their headers. Published: half of the link each.");
    table
}

fn plot(shared: &Shared, times: &Times) -> Plot {
    let half = stated("fairness", "link") / 2.0;
    let [first, second] = &shared.binned;
    let during = [times.on, times.off].map(|time| time.as_secs_f64());
    Plot::new(
        shared.pairing.name,
        Axis::new("Time", "s"),
        Axis::new("User data that arrives", "kByte/s"),
    )
    .series(Series::new("first", Colour::Orange).points(first.iter().copied()))
    .series(Series::new("second", Colour::Blue).points(second.iter().copied()))
    .series(
        Series::new("half of the link", Colour::Grey)
            .dashed()
            .points(during.map(|at| (at, half))),
    )
}
