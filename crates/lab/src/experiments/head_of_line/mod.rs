//! Pang 2003, figure 3.6 and chapter 6: what one lost packet does to messages that have nothing to
//! do with it.

mod net;
mod reception;
mod sim;

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp::EndpointConfig;
use serde_json::{Value, json};

use self::reception::{Point, milliseconds};
use crate::checks::Checks;
use crate::context::Context;
use crate::difference::Comparison;
use crate::experiment::{About, Experiment, On};
use crate::net::side_by_side;
use crate::outcome::Outcome;
use crate::pair::MTU;

/// The experiment.
pub(super) struct HeadOfLine;

/// Calls that are under way.
const CALLS: u16 = 100;
/// An average SIP message (Pang 2003, section 5.2).
const MESSAGE: usize = 500;
/// Messages a second of all calls together: two of each.
const RATE: f64 = 200.0;
/// Each way.
const DELAY: Duration = Duration::from_millis(25);
/// Handshake and slow start are over then.
const WARM: Duration = Duration::from_secs(2);
/// Of each connection and association, and of what waits to be sent.
const WINDOW: usize = 1 << 18;
/// How many runs go on at once on real sockets. Each is 200 messages a second: there is little to do.
const AT_ONCE: usize = 12;

/// How the calls are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    Tcp,
    OneStream,
    StreamACall,
    Unordered,
}

const CARRIERS: [Carrier; 4] = [
    Carrier::Tcp,
    Carrier::OneStream,
    Carrier::StreamACall,
    Carrier::Unordered,
];

impl Experiment for HeadOfLine {
    fn name(&self) -> &'static str {
        "head-of-line"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, figure 3.6 and chapter 6"
    }

    fn title(&self) -> &'static str {
        "Head-of-line blocking: what a loss does to other calls"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts, 25 ms apart in each direction, on links without limit of rate that lose \
                       packets independently of each other in both directions.",
            runs: "100 calls, each with a message of 500 bytes every half second: on one TCP connection with Reno \
                   (smoltcp's on sim, the kernel's on net) without Nagle's algorithm, on one ordered stream of an \
                   SCTP association, on a stream for each call, and unordered. On net SCTP goes in UDP.",
            measures: "The delay of each message from its sender's user to its receiver's; and for how long \
                       it lay at the receiver, whole, before it was delivered, from the packets that came (on net \
                       from a packet socket there, by the kernel's time stamps).",
            law: "A message is delivered as soon as it and all before it in its own order have come \
                  (RFC 9260 section 6.5 and 6.6; RFC 9293 section 3.8): all messages on one connection or \
                  stream, those of its call on a stream a call, none where there is no order.",
            check: "For each message the time of delivery is held against that law. None is delivered before its \
                    time. On sim none later either, to the microsecond of the clock of the TCP; on net, where users \
                    have to be woken, 95 of 100 not later than half a round trip and a wake-up of this machine: who \
                    waits for what is not of his order waits a round trip at least, and at 1 % loss more than 10 of \
                    100 would. Without loss the least delay is the link's. What Pang 2003 says is found again when \
                    messages \
                    wait less for others on a stream a call than on one connection, at every loss, by more than \
                    chance: \
                    messages that follow one another share their losses, so figures are taken of each batch of 3 s, \
                    three times RTO.Min, and the mean difference of batches has to be beyond its 95 % confidence \
                    interval (Student).",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn is_light(&self, _: On) -> bool {
        true
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let losses = context.either(&[0.0, 1.0, 2.0][..], &[0.0, 0.5, 1.0, 1.5, 2.0, 3.0]);
        let lasts = match on {
            On::Sim => context.either(40, 600),
            On::Net => context.either(20, 100),
        };
        let messages = lasts * RATE as u64;
        let runs = losses.len() * CARRIERS.len();
        context.steps(runs as u64);
        let at_once = if on == On::Net { AT_ONCE } else { 1 };
        let mut points = side_by_side(at_once, runs, |index| {
            let (carrier, loss) = (CARRIERS[index / losses.len()], losses[index % losses.len()]);
            context.begin(format!("{}, {loss} % loss", carrier.name()));
            let carry = match on {
                On::Sim => sim::carry,
                On::Net => net::carry,
            };
            let (start, reception) = carry(context, index as u64, carrier, loss / 100.0, messages)
                .map_err(|error| error.context(carrier.name()))?;
            anyhow::ensure!(
                reception.delivered.len() as u64 == messages,
                "{} of {messages} messages came on {}",
                reception.delivered.len(),
                carrier.name()
            );
            context.done();
            Ok(Point::of(carrier, loss, start, &reception))
        })?
        .into_iter();
        let lines: Vec<Curve> = CARRIERS
            .into_iter()
            .map(|carrier| (carrier, points.by_ref().take(losses.len()).collect()))
            .collect();
        let outcome = Outcome::judged(check(on, &lines))
            .ours(values(&lines))
            .published(json!({
                "law": "a loss holds up what comes after it in its own order, and nothing else",
                "found": "packet loss in one stream does not affect other streams, which solves TCP's \
                          head-of-line blocking (Pang 2003, figure 3.6)",
            }))
            .table(table(&lines))
            .table(comparison(&lines))
            .plot(held_plot(&lines))
            .plot(delay_plot(&lines));
        Ok(match on {
            On::Sim => outcome.note(
                "TCP is smoltcp's with Reno, without selective acknowledgements: by how much it loses \
                 against SCTP says as much of recovery from loss as of order. The ordered stream beside it \
                 differs from the others in the order alone.",
            ),
            On::Net => outcome.note(
                "TCP is this kernel's with Reno, selective acknowledgements, tail loss probes, and a least \
                 timeout of 200 ms where SCTP has a second (RFC 9260 section 16). The ordered stream beside it \
                 differs from the others in the order alone.",
            ),
        })
    }
}

/// A carrier at each loss.
type Curve = (Carrier, Vec<Point>);

/// Messages are whole in their chunks.
fn sctp_config() -> EndpointConfig {
    EndpointConfig::default()
        .mtu(MTU)
        .path_mtu_discovery(false)
        .outbound_streams(CALLS)
        .a_rwnd(WINDOW as u32)
        .send_buffer(WINDOW)
}

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Carrier::Tcp => "one TCP connection",
            Carrier::OneStream => "one SCTP stream",
            Carrier::StreamACall => "a stream a call",
            Carrier::Unordered => "unordered",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Carrier::Tcp => Colour::Green,
            Carrier::OneStream => Colour::Orange,
            Carrier::StreamACall => Colour::Purple,
            Carrier::Unordered => Colour::Blue,
        }
    }

    /// The order that a message stands in; none for a message that stands in none.
    fn order(self, number: u64) -> Option<u64> {
        match self {
            Carrier::Tcp | Carrier::OneStream => Some(0),
            Carrier::StreamACall => Some(number % u64::from(CALLS)),
            Carrier::Unordered => None,
        }
    }
}

/// The clock of the simulated TCP counts microseconds.
const TICK: Duration = Duration::from_micros(1);

fn check(on: On, lines: &[Curve]) -> Checks {
    let mut checks = Checks::new();
    let delay = milliseconds(DELAY);
    for (carrier, points) in lines {
        for point in points {
            let what = format!("{}, {} % loss", carrier.name(), point.loss_percent);
            checks.law(
                format!("messages delivered before their time, {what}"),
                point.early as f64,
                0.0..=0.0,
                "messages",
            );
            match on {
                On::Sim => checks.law(
                    format!("delivered after their time at most, {what}"),
                    point.most_late,
                    0.0..=milliseconds(TICK),
                    "ms",
                ),
                On::Net => checks.law(
                    format!("95 of 100 are delivered no later after their time, {what}"),
                    point.p95_late,
                    0.0..=delay + point.wake_up,
                    "ms",
                ),
            }
            if point.loss_percent > 0.0 {
                checks.law_holds(
                    format!("nothing is faster than the link, {what}"),
                    point.least >= delay,
                    format!(
                        "the link takes {delay} ms, and a message was delivered after {} ms",
                        point.least
                    ),
                );
                continue;
            }
            let wake_ups = match on {
                On::Sim => milliseconds(TICK),
                // Emulator, receiver's transport and receiver's user, each once.
                On::Net => 3.0 * point.wake_up,
            };
            checks.law(
                format!("least delay, {what}"),
                point.least,
                delay..=delay + wake_ups,
                "ms",
            );
        }
    }
    for (what, one) in [
        ("one TCP connection", of(lines, Carrier::Tcp)),
        ("one ordered stream", of(lines, Carrier::OneStream)),
    ] {
        let pairs = lossy(one, of(lines, Carrier::StreamACall));
        let longer: Vec<String> = pairs
            .filter_map(|(one, streams)| {
                let more = one.above(streams, |batch| batch.mean_held);
                let (loss, by) = (one.loss_percent, more.with_interval("ms"));
                match more.comparison() {
                    Comparison::Greater => None,
                    Comparison::Less => Some(format!("at {loss} % loss by {by} more")),
                    Comparison::Inconclusive => {
                        Some(format!("at {loss} % loss they cannot be told apart ({by})"))
                    }
                }
            })
            .collect();
        checks.found(
            format!("calls wait less for each other on a stream each than on {what}"),
            longer.is_empty(),
            longer.join(", "),
        );
    }
    if on == On::Net {
        let pairs = lossy(of(lines, Carrier::Tcp), of(lines, Carrier::StreamACall));
        let (mut lead, mut behind, mut alike) = (Vec::new(), Vec::new(), Vec::new());
        for (tcp, streams) in pairs {
            let more = tcp.above(streams, |batch| batch.p95);
            let (loss, times) = (tcp.loss_percent, tcp.p95 / streams.p95);
            match more.comparison() {
                Comparison::Greater => {
                    lead.push(format!("{times:.1} times as long at {loss} % loss"))
                }
                Comparison::Less => {
                    behind.push(format!("{times:.2} times as long at {loss} % loss"))
                }
                Comparison::Inconclusive => alike.push(format!(
                    "at {loss} % loss they cannot be told apart ({})",
                    more.with_interval("ms")
                )),
            }
        }
        let mut reasons = alike;
        if !behind.is_empty() {
            reasons.push(format!(
                "it is {}: what is lost itself comes again later over SCTP, and so it is few messages that gain by \
                 being free of the others",
                behind.join(", ")
            ));
        }
        let by = match lead.is_empty() {
            true => String::new(),
            false => format!(" ({})", lead.join(", ")),
        };
        checks.found(
            format!("TCP is the loser: its 95 % delay is longer than that of a stream a call{by}"),
            reasons.is_empty(),
            reasons.join("; "),
        );
    }
    checks
}

fn of(lines: &[Curve], carrier: Carrier) -> &[Point] {
    let found = lines.iter().find(|(other, _)| *other == carrier);
    found
        .map(|(_, points)| points.as_slice())
        .unwrap_or_default()
}

/// Two carriers at each loss that there is.
fn lossy<'a>(one: &'a [Point], other: &'a [Point]) -> impl Iterator<Item = (&'a Point, &'a Point)> {
    let pairs = one.iter().zip(other);
    pairs.filter(|(one, _)| one.loss_percent > 0.0)
}

fn values(lines: &[Curve]) -> Value {
    let points = |points: &[Point]| -> Value {
        let point = |point: &Point| {
            json!({
                "loss_percent": point.loss_percent,
                "messages": point.messages,
                "delay_ms": {
                    "min": point.least,
                    "p50": point.median,
                    "p95": point.p95,
                    "p99": point.p99,
                    "mean": point.mean,
                },
                "held_percent": point.held_percent,
                "mean_held_ms": point.mean_held,
            })
        };
        points.iter().map(point).collect()
    };
    lines
        .iter()
        .map(|(carrier, of)| json!({ "carrier": carrier.name(), "points": points(of) }))
        .collect()
}

fn table(lines: &[Curve]) -> Table {
    let mut table = Table::new("Delays of messages")
        .column(Column::text("Carrier").key())
        .column(Column::number("Loss").unit("%").key())
        .columns(
            ["50 %", "95 %", "99 %", "mean"]
                .map(|what| Column::number(what).unit("ms").group("From user to user")),
        )
        .column(
            Column::number("messages")
                .unit("%")
                .group("Held for others"),
        )
        .column(
            Column::number("mean of all")
                .unit("ms")
                .group("Held for others"),
        );
    for (carrier, points) in lines {
        for (index, point) in points.iter().enumerate() {
            let row = Row::new([
                Cell::from(carrier.name()),
                Cell::number(point.loss_percent, 1),
                Cell::number(point.median, 1),
                Cell::number(point.p95, 1),
                Cell::number(point.p99, 1),
                Cell::number(point.mean, 1),
                Cell::number(point.held_percent, 2),
                Cell::number(point.mean_held, 2),
            ]);
            table.push(if index == 0 { row.begins_block() } else { row });
        }
    }
    table
}

fn held_plot(lines: &[Curve]) -> Plot {
    let mut plot = Plot::new(
        "How long messages wait for others",
        Axis::new("Loss", "%"),
        Axis::new("Mean time held at the receiver", "ms"),
    )
    .note("A message that waits for nobody counts as 0.");
    for (carrier, points) in lines {
        let points = points
            .iter()
            .map(|point| (point.loss_percent, point.mean_held));
        plot = plot.series(
            Series::new(carrier.name(), carrier.colour()).points(points.collect::<Vec<_>>()),
        );
    }
    plot
}

/// By how much TCP and the ordered stream lose against a stream a call.
fn comparison(lines: &[Curve]) -> Table {
    let mut table = Table::new("As many times as on a stream a call")
        .column(Column::text("Carrier").key())
        .column(Column::number("Loss").unit("%").key());
    for what in ["50 %", "95 %", "99 %", "mean"] {
        table = table.column(Column::number(what).group("Delay from user to user"));
    }
    table = table.column(Column::number("mean of all").group("Held for others"));
    for carrier in [Carrier::Tcp, Carrier::OneStream] {
        for (one, streams) in lossy(of(lines, carrier), of(lines, Carrier::StreamACall)) {
            let mut cells = vec![
                Cell::from(carrier.name()),
                Cell::number(one.loss_percent, 1),
            ];
            for (one, streams) in [
                (one.median, streams.median),
                (one.p95, streams.p95),
                (one.p99, streams.p99),
                (one.mean, streams.mean),
                (one.mean_held, streams.mean_held),
            ] {
                cells.push(Cell::number(
                    Some(one / streams).filter(|times| times.is_finite()),
                    2,
                ));
            }
            table.push(Row::new(cells));
        }
    }
    table
}

fn delay_plot(lines: &[Curve]) -> Plot {
    let mut plot = Plot::new(
        "What 99 of 100 messages take",
        Axis::new("Loss", "%"),
        Axis::new("From user to user", "ms"),
    );
    for (carrier, points) in lines {
        let points = points.iter().map(|point| (point.loss_percent, point.p99));
        plot = plot.series(
            Series::new(carrier.name(), carrier.colour()).points(points.collect::<Vec<_>>()),
        );
    }
    plot
}
