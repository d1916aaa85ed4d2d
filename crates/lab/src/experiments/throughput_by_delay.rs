//! Jungmaier 2000, figure 4: what one sender gets through a line of 100 kByte a second, against its
//! delay.

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::SymmetricLink;
use crate::outcome::Outcome;
use crate::published::stated;
use crate::stage::{
    Flow, MTU, Received, Scenario, Transport, WINDOW, run_scenarios, unused_packets,
};

/// The experiment.
pub(super) struct ThroughputByDelay;

/// What can be read from a printed plot: a twentieth of its axis.
const READING: f64 = 5.0;

/// A line of the plot.
struct Sender {
    name: &'static str,
    transport: Transport,
    message: usize,
    colour: Colour,
}

/// One sender at one delay.
struct Point {
    delay_ms: f64,
    /// kByte of user data a second.
    ours: f64,
    /// The same by the law, and as Jungmaier 2000 states the law.
    law: f64,
    published: f64,
    allowed: (f64, f64),
}

impl Experiment for ThroughputByDelay {
    fn name(&self) -> &'static str {
        "throughput-by-delay"
    }

    fn source(&self) -> &'static str {
        "Jungmaier 2000, figure 4"
    }

    fn title(&self) -> &'static str {
        "Throughput of one association against the delay of the link"
    }

    fn about(&self) -> About {
        About {
            topology: "A sender and a receiver, joined by a link that carries 100 kByte of IP packets \
                       a second in each direction, loses nothing and delays each packet by a fixed \
                       time in each direction; MTU 1500 bytes.",
            runs: "One association whose user always has data to send, in messages of 100 bytes (twelve \
                   share a packet) and of 1376 bytes (one fills a packet), delivered in the order of \
                   their arrival; receiver window 32 KByte, delayed acknowledgements. A TCP connection \
                   with the same window beside it. Each by itself, at each delay.",
            measures: "The mean rate at which user data arrives, once the handshake and slow start \
                       are over (5 s and 12 round trips).",
            law: "The smaller of the link's rate after headers and one window per round-trip time. The round-trip \
                  time is twice the delay and what the link takes to carry a packet \
                  and its acknowledgement. Jungmaier 2000 leaves the latter out, and says that any \
                  protocol with a limiting window behaves so.",
            check: "A window is not used to the last byte: it holds whole packets, and every second \
                    packet is acknowledged, so up to two packets less than the window may be under way; \
                    on real hosts two more, for the acknowledgement leaves before the user has read what it \
                    acknowledges, and offers so much less room. Two packets of a window may not be full. The count \
                    of what arrives errs by a packet \
                    at either end, or by a window where data comes a window at a time. No more is \
                    allowed. The finding of Jungmaier 2000 is found again when it lies within that and the \
                    accuracy of its plot, a twentieth of the axis.",
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
        let delays: &[u64] = match (on, context.quick()) {
            (On::Sim, false) => &[
                0, 10, 20, 50, 100, 120, 140, 160, 180, 200, 250, 300, 400, 500, 600, 700, 800,
                900, 1000,
            ],
            (On::Sim, true) => &[0, 50, 150, 200, 400, 1000],
            (On::Net, false) => &[0, 50, 100, 150, 200, 300, 500, 750, 1000],
            (On::Net, true) => &[0, 50, 200, 500],
        };
        let senders = senders();
        context.steps((delays.len() * senders.len()) as u64);
        let mut checks = Checks::new();
        let tests: Vec<Test> = senders
            .iter()
            .flat_map(|sender| {
                delays
                    .iter()
                    .map(|&delay| Test::of(on, context, sender, delay))
            })
            .collect();
        context.begin("each sender at each delay");
        let scenarios: Vec<Scenario> = tests.iter().map(|test| test.scenario.clone()).collect();
        let received = run_scenarios(on, context, 0, &scenarios)?;
        let points = tests
            .iter()
            .zip(&received)
            .map(|(test, received)| test.point(on, received));
        let mut points: Vec<Point> = points.collect();
        let lines: Vec<Vec<Point>> = senders
            .iter()
            .map(|_| points.drain(..delays.len()).collect())
            .collect();
        for (sender, points) in senders.iter().zip(&lines) {
            for point in points {
                checks.law(
                    format!("{} at {} ms", sender.name, point.delay_ms),
                    point.ours,
                    point.allowed.0..=point.allowed.1,
                    "kByte/s",
                );
            }
        }
        for (sender, points) in senders.iter().zip(&lines) {
            let excess = |point: &Point| {
                let tolerance = READING + point.allowed.1 - point.allowed.0;
                (point.ours - point.published).abs() - tolerance
            };
            let farthest = points.iter().map(excess).fold(f64::MIN, f64::max);
            checks.found(
                format!("{}: the lesser of link and window over delay", sender.name),
                farthest <= 0.0,
                format!("it is {farthest:.1} kByte/s beyond the tolerance"),
            );
        }
        Ok(Outcome::judged(checks)
            .ours(values(&senders, &lines, |point| point.ours))
            .published(json!({
                "law": "min(link rate after headers, window / (2 x delay))",
                "link_kbyte_per_s": stated("throughput-by-delay", "link"),
                "window_bytes": WINDOW,
                "mtu_bytes": MTU,
                "points": values(&senders, &lines, |point| point.published),
            }))
            .table(table(&senders, &lines))
            .plot(plot(&senders, &lines)))
    }
}

fn senders() -> [Sender; 3] {
    let small = stated("throughput-by-delay", "small message") as usize;
    let large = stated("throughput-by-delay", "large message") as usize;
    let sctp = Transport::Sctp { bundled: true };
    [
        Sender {
            name: "SCTP, 1376-byte messages",
            transport: sctp,
            message: large,
            colour: Colour::Orange,
        },
        Sender {
            name: "SCTP, 100-byte messages",
            transport: sctp,
            message: small,
            colour: Colour::Purple,
        },
        Sender {
            name: "TCP",
            transport: Transport::Tcp,
            message: large,
            colour: Colour::Green,
        },
    ]
}

/// A sender at a delay.
struct Test {
    delay: u64,
    warm: Duration,
    scenario: Scenario,
}

impl Test {
    fn of(on: On, context: &Context, sender: &Sender, delay: u64) -> Test {
        let line = SymmetricLink {
            rate: stated("throughput-by-delay", "link") * 1000.0,
            delay: Duration::from_millis(delay),
        };
        let flow = Flow::greedy(sender.transport, sender.message, Duration::ZERO);
        let warm = Duration::from_secs_f64(5.0 + 12.0 * line.round_trip(&flow.wire(on)));
        // So many seconds, and so many round trips where these are long.
        let (seconds, round_trips) = match on {
            On::Sim => context.either((60, 100), (300, 300)),
            On::Net => context.either((10, 10), (30, 20)),
        };
        let span = Duration::from_secs(seconds).max(line.delay * 2 * round_trips);
        let lasts = warm + span;
        Test {
            delay,
            warm,
            scenario: Scenario {
                line,
                flows: vec![Flow {
                    ends: lasts,
                    ..flow
                }],
                lasts,
            },
        }
    }

    /// What came of it.
    fn point(&self, on: On, received: &[Received]) -> Point {
        let Scenario { line, flows, lasts } = &self.scenario;
        let (flow, span) = (&flows[0], *lasts - self.warm);
        let ours = received
            .first()
            .map_or(0.0, |received| received.goodput(self.warm, *lasts));
        let (wire, window) = (flow.wire(on), flow.window(on));
        let allowed = line.allowed(&wire, window, unused_packets(on), span);
        let by_window = WINDOW as f64 / (2.0 * line.delay.as_secs_f64());
        Point {
            delay_ms: self.delay as f64,
            ours: ours / 1000.0,
            law: line.goodput(&wire, window) / 1000.0,
            published: wire.goodput(line.rate).min(by_window) / 1000.0,
            allowed: (allowed.start() / 1000.0, allowed.end() / 1000.0),
        }
    }
}

fn values(senders: &[Sender], lines: &[Vec<Point>], value: fn(&Point) -> f64) -> Value {
    let of = |sender: &Sender, points: &Vec<Point>| {
        let points = points
            .iter()
            .map(|point| json!({ "delay_ms": point.delay_ms, "kbyte_per_s": value(point) }));
        json!({ "sender": sender.name, "points": points.collect::<Vec<_>>() })
    };
    let all = senders.iter().zip(lines);
    all.map(|(sender, points)| of(sender, points)).collect()
}

fn table(senders: &[Sender], lines: &[Vec<Point>]) -> Table {
    let mut table =
        Table::new("User data a second").column(Column::number("Delay").unit("ms").key());
    for sender in senders {
        table = table.columns(
            ["ours", "law"].map(|what| Column::number(what).unit("kByte/s").group(sender.name)),
        );
    }
    let delays = lines.first().map_or(0, Vec::len);
    for index in 0..delays {
        let mut cells = vec![Cell::number(lines[0][index].delay_ms, 0)];
        for points in lines {
            cells.push(Cell::number(points[index].ours, 2));
            cells.push(Cell::number(points[index].law, 2));
        }
        table.push(Row::new(cells));
    }
    table
}

fn plot(senders: &[Sender], lines: &[Vec<Point>]) -> Plot {
    let mut plot = Plot::new(
        "Throughput against delay",
        Axis::new("Delay, each way", "ms"),
        Axis::new("User data that arrives", "kByte/s"),
    )
    .note(
        "Dashed: the curve of Jungmaier 2000, min(link after headers, window / (2 x delay)), for the \
         same messages.",
    );
    for (sender, points) in senders.iter().zip(lines) {
        let series = |value: fn(&Point) -> f64| {
            points
                .iter()
                .map(move |point| (point.delay_ms, value(point)))
                .collect::<Vec<_>>()
        };
        plot = plot
            .series(Series::new(sender.name, sender.colour).points(series(|point| point.ours)))
            .series(
                Series::new(format!("{}, published", sender.name), sender.colour)
                    .dashed()
                    .points(series(|point| point.published)),
            );
    }
    plot
}
