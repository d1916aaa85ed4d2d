//! Jungmaier 2000, figure 6: an SCTP source of 30 kByte a second against TCP connections that take all
//! they get.

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::{Sharer, SymmetricLink, jain, shares};
use crate::outcome::Outcome;
use crate::published::stated;
use crate::stage::{
    Flow, Received, SEND_BUFFER, Scenario, Transport, run_scenarios, unused_packets,
};

/// The experiment.
pub(super) struct BandwidthShare;

/// What can be read from a printed plot: a twentieth of its axis of 100 kByte a second.
const READING: f64 = 5.0;

/// One that fills a packet, as TCP's segments do.
const MESSAGE: usize = 1376;

/// The source against so many TCP connections.
struct Point {
    connections: usize,
    /// User data of the source, kByte a second.
    ours: f64,
    allowed: (f64, f64),
    /// By Jungmaier 2000's law.
    published: f64,
    /// User data of each TCP connection, kByte a second.
    tcp: Vec<f64>,
}

impl Experiment for BandwidthShare {
    fn name(&self) -> &'static str {
        "bandwidth-share"
    }

    fn source(&self) -> &'static str {
        "Jungmaier 2000, figure 6"
    }

    fn title(&self) -> &'static str {
        "A source of 30 kByte/s among greedy TCP connections"
    }

    fn about(&self) -> About {
        About {
            topology: "Senders on one side and receivers on the other side of a link that carries 100 kByte of IP \
                       packets a second in each direction, delays them by 50 ms each way, and whose queue holds \
                       all windows, so that nothing is lost.",
            runs: "One association whose user sends 30 kByte a second in messages of 1376 bytes, and n \
                   TCP connections that always have data to send; windows of 32 KByte.",
            measures: "User data of the association that arrives, once slow start is over (from 30 s after \
                       the beginning; quick on real hosts from 15 s), and that of each TCP connection.",
            law: "The source gets its rate, or its window's share of all windows, whichever is smaller. Jungmaier \
                  2000's law is the same for equal windows: 30 \
                  kByte/s as long as that is at most 100/(n+1), and 100/(n+1) beyond.",
            check: "Against that share, give or take the two packets of each window that may wait for an \
                    acknowledgement (on real hosts also two that are not read yet) or not be full, a \
                    message at either end of the measurement, and what may have waited in the \
                    sender's buffer before. Jungmaier 2000's law is found again when ours lies within \
                    what can be read off its plot, a twentieth of the axis. TCP's connections share the \
                    rest equally when Jain's index is that of shares which differ by no more than those \
                    packets.",
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
        let most = context.either(4, 9);
        context.steps(most + 1);
        context.begin("against TCP connections");
        let (warm, lasts) = times(on, context);
        let scenarios: Vec<Scenario> = (0..=most as usize)
            .map(|connections| Scenario {
                line: line(),
                flows: flows(connections, lasts),
                lasts,
            })
            .collect();
        let received = run_scenarios(on, context, 0, &scenarios)?;
        let points: Vec<Point> = scenarios
            .iter()
            .zip(&received)
            .map(|(scenario, received)| point(on, scenario, received, warm))
            .collect();
        let mut checks = Checks::new();
        for point in &points {
            checks.law(
                format!("the source against {} TCP", point.connections),
                point.ours,
                point.allowed.0..=point.allowed.1,
                "kByte/s",
            );
        }
        for point in points.iter().filter(|point| point.tcp.len() > 1) {
            checks.law(
                format!("{} TCP are equal: Jain's index", point.connections),
                jain(&point.tcp),
                least_jain(on, point.connections)..=1.0 + f64::EPSILON * 8.0,
                "",
            );
            checks.depends_on_time();
        }
        let farthest = points
            .iter()
            .map(|point| (point.ours - point.published).abs())
            .fold(0.0, f64::max);
        checks.found(
            "it gets 30 kByte/s, or its share of the link",
            farthest <= READING,
            format!("the greatest deviation is {farthest:.1} kByte/s"),
        );
        let ours = points.iter().map(|point| {
            json!({
                "tcp_connections": point.connections,
                "sctp_kbyte_per_s": point.ours,
                "tcp_kbyte_per_s": point.tcp,
            })
        });
        let published = points.iter().map(|point| {
            json!({ "tcp_connections": point.connections, "sctp_kbyte_per_s": point.published })
        });
        Ok(Outcome::judged(checks)
            .ours(ours.collect())
            .published(json!({
                "law": "min(30, 100 / (n + 1)) kByte/s",
                "points": published.collect::<Vec<_>>(),
            }))
            .table(table(&points))
            .plot(plot(&points)))
    }
}

fn line() -> SymmetricLink {
    SymmetricLink {
        rate: stated("bandwidth-share", "link") * 1000.0,
        delay: Duration::from_secs_f64(stated("bandwidth-share", "delay") / 1000.0),
    }
}

fn flows(connections: usize, lasts: Duration) -> Vec<Flow> {
    let source = Flow {
        rate: Some(stated("bandwidth-share", "source") * 1000.0),
        ..Flow::greedy(Transport::Sctp { bundled: true }, MESSAGE, lasts)
    };
    let greedy = Flow::greedy(Transport::Tcp, MESSAGE, lasts);
    std::iter::once(source)
        .chain(std::iter::repeat_n(greedy, connections))
        .collect()
}

fn sharers(on: On, flows: &[Flow]) -> Vec<Sharer> {
    flows
        .iter()
        .map(|flow| Sharer {
            wire: flow.wire(on),
            window: flow.window(on),
        })
        .collect()
}

/// When slow start is over everywhere, and the end.
fn times(on: On, context: &Context) -> (Duration, Duration) {
    let (warm, span) = match on {
        On::Sim => (30, context.either(60, 300)),
        // Six round trips of a queue that five (ten) windows fill.
        On::Net => context.either((15, 25), (30, 60)),
    };
    (Duration::from_secs(warm), Duration::from_secs(warm + span))
}

fn point(on: On, scenario: &Scenario, received: &[Received], warm: Duration) -> Point {
    let Scenario { line, flows, lasts } = scenario;
    let connections = flows.len() - 1;
    let mut rates = received
        .iter()
        .map(|received| received.goodput(warm, *lasts) / 1000.0);
    let ours = rates.next().unwrap_or(0.0);

    let asked = stated("bandwidth-share", "source");
    let wire = flows[0].wire(on);
    let share = shares(&sharers(on, flows), unused_packets(on)).swap_remove(0);
    let capacity = wire.goodput(line.rate) / 1000.0;
    let ends = 2.0 * MESSAGE as f64 / (*lasts - warm).as_secs_f64() / 1000.0;
    let fair = stated("bandwidth-share", "link") / (connections + 1) as f64;
    // Where the source may get less than it asks for, it makes up for it later: all that waited in its
    // buffer may come on top.
    let is_sure = share.start() * capacity >= asked;
    let backlog = if is_sure { 0.0 } else { SEND_BUFFER as f64 };
    let most = asked + backlog / (*lasts - warm).as_secs_f64() / 1000.0;
    Point {
        connections,
        ours,
        allowed: (
            asked.min(share.start() * capacity) - ends,
            most.min(share.end() * capacity) + ends,
        ),
        published: asked.min(fair),
        tcp: rates.collect(),
    }
}

/// Jain's index of TCP connections that differ from one another as far as the packets of a window
/// let them: half of them have the least share and half the most.
fn least_jain(on: On, connections: usize) -> f64 {
    let flow = Flow::greedy(Transport::Tcp, MESSAGE, Duration::ZERO);
    let all = sharers(on, &vec![flow; connections]);
    let ranges = shares(&all, unused_packets(on));
    let values: Vec<f64> = ranges
        .iter()
        .enumerate()
        .map(|(index, range)| {
            if index % 2 == 0 {
                *range.start()
            } else {
                *range.end()
            }
        })
        .collect();
    jain(&values)
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new("User data a second")
        .column(Column::number("TCP connections").key())
        .column(Column::number("ours").unit("kByte/s").group("SCTP source"))
        .column(Column::text("by law").unit("kByte/s").group("SCTP source"))
        .column(
            Column::number("published law")
                .unit("kByte/s")
                .group("SCTP source"),
        )
        .column(Column::number("mean").unit("kByte/s").group("Each TCP"))
        .column(Column::number("Jain's index").group("Each TCP"));
    for point in points {
        let count = point.tcp.len();
        let mean = (count > 0).then(|| point.tcp.iter().sum::<f64>() / count as f64);
        table.push(Row::new([
            Cell::from(point.connections as u64),
            Cell::number(point.ours, 2),
            Cell::from(format!("{:.2} to {:.2}", point.allowed.0, point.allowed.1)),
            Cell::number(point.published, 2),
            Cell::number(mean, 2),
            Cell::number((count > 0).then(|| jain(&point.tcp)), 4),
        ]));
    }
    table.note(
        "The published law is for the load of the link; these figures are user data, 3 % less.",
    );
    table
}

fn plot(points: &[Point]) -> Plot {
    let series = |value: fn(&Point) -> f64| {
        points
            .iter()
            .map(move |point| (point.connections as f64, value(point)))
            .collect::<Vec<_>>()
    };
    let limit = |point: &Point| stated("bandwidth-share", "link") / (point.connections + 1) as f64;
    Plot::new(
        "An SCTP source of 30 kByte/s against n TCP connections",
        Axis::new("TCP connections", ""),
        Axis::new("User data that arrives", "kByte/s"),
    )
    .series(Series::new("SCTP", Colour::Orange).points(series(|point| point.ours)))
    .series(
        Series::new("SCTP, published law", Colour::Orange)
            .dashed()
            .points(series(|point| point.published)),
    )
    .series(
        Series::new("limit: 100/(n+1)", Colour::Grey)
            .dashed()
            .points(series(limit)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unequal_connections_would_be_found_out() {
        let least = least_jain(On::Sim, 4);
        assert!((0.95..1.0).contains(&least), "{least}");
        assert!(jain(&[25.0, 25.0, 25.0, 12.0]) < least);
    }
}
