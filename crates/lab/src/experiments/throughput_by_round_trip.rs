//! pion/sctp issue 218 (2022): what TCP and SCTP get of a fast link, against its round-trip time.

use std::time::Duration;

use link::{Bottleneck, LinkConfig};
use report::{Axis, Cell, Colour, Column, Plot, Point as PlotPoint, Row, Series, Table, Trials};
use sctp::LossDetection;
use serde_json::{Value, json};

use crate::bulk::{Bulk, Carried, Transport, Until, carry, check_runs, message};
use crate::checks::Checks;
use crate::congestion::Congestion;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;
use crate::pair::MTU;

/// The experiment.
pub(super) struct ThroughputByRoundTrip;

/// Milliseconds.
const ROUND_TRIPS: [u64; 5] = [2, 20, 50, 100, 300];
const QUICK_ROUND_TRIPS: [u64; 2] = [20, 50];

/// What SCTP gets at least, as a share of the law or of what TCP gets.
const GOAL: f64 = 0.9;

/// By how much the ends of a measurement may make a rate too large: packets that are under way when it begins.
const ENDS: f64 = 0.02;

/// From so many milliseconds on the publication's SCTP gets a quarter of what its TCP does, or less.
const FAR: u64 = 20;
const PUBLISHED_SHARE: f64 = 0.25;

/// All trials of a transport at a round-trip time.
struct Point {
    round_trip_ms: u64,
    transport: Transport,
    bulk: Bulk,
    trials: Vec<Carried>,
}

impl Experiment for ThroughputByRoundTrip {
    fn name(&self) -> &'static str {
        "throughput-by-round-trip"
    }

    fn source(&self) -> &'static str {
        "pion/sctp issue 218 (2022)"
    }

    fn title(&self) -> &'static str {
        "CUBIC over a fast link, against its round-trip time"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts on a link that loses nothing of itself: 1 Gbit/s on sim, as published; 100 Mbit/s on \
                       net, which the emulator carries on two processors. Its queue holds as much as the link itself, \
                       and at least 100 packets on net and 1,000 on sim. MTU 1500 bytes.",
            runs: "One sender that always has data to send, with CUBIC and buffers that are larger than what the link \
                   and its queue hold: over our SCTP with RACK-TLP and PRR, and on net over the kernel's TCP, which has \
                   these, too, with CUBIC (TCP_CONGESTION), one after the other. On sim 20 round trips and 0.3 s, \
                   once; on net 20 s, three times (with --quick 6 s, once).",
            measures: "The rate at which the receiver's user gets data, from when the connection is up at the \
                       receiver until the last byte: slow start is part of it.",
            law: "On sim, slow start doubles the window of three packets in each round trip until it holds what the \
                  link does; then the link is full. On net, what the kernel's TCP gets of the same link. In either \
                  case the law of `wireless`: what was sent arrives, no sooner than the link carries it, and no later \
                  than what the sender has to wait for.",
            check: "SCTP gets 0.9 of the law at least: HyStart may leave slow start early, and losses where the queue \
                    overflows take time. pion's SCTP got a quarter of what TCP did, or less, from 20 ms on: found \
                    again when ours does at each of these.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let round_trips = context.either(&QUICK_ROUND_TRIPS[..], &ROUND_TRIPS[..]);
        let transports = match on {
            On::Sim => &[Transport::Sctp][..],
            On::Net => &Transport::BOTH[..],
        };
        let trials: u64 = match on {
            On::Sim => 1,
            On::Net => context.either(1, 3),
        };
        let mut points = Vec::new();
        for &round_trip_ms in round_trips {
            for &transport in transports {
                points.push(Point {
                    round_trip_ms,
                    transport,
                    bulk: bulk(on, context, transport, round_trip_ms),
                    trials: Vec::new(),
                });
            }
        }
        context.steps(points.len() as u64 * trials);
        for trial in 0..trials {
            for (number, point) in (0..).zip(&mut points) {
                let (transport, milliseconds) = (point.transport.name(), point.round_trip_ms);
                context.begin(format!("{transport} at {milliseconds} ms"));
                let number = number * trials + trial;
                point.trials.push(carry(on, context, number, &point.bulk)?);
                context.done();
            }
        }
        let outcome = Outcome::judged(check(on, &points))
            .ours(values(&points))
            .published(published_values())
            .table(table(on, &points))
            .plot(plot(&points));
        Ok(match on {
            On::Sim => outcome.note(
                "pion measured for a time that is not stated, so that its slow start may count for less.",
            ),
            On::Net => outcome.note(
                "The published link has 1 Gbit/s, this one 100 Mbit/s: an emulator in user space and both ends share \
                 two processors. SCTP is Tandem's in UDP, whose header takes 8 bytes of each packet.",
            ),
        })
    }
}

fn bulk(on: On, context: &Context, transport: Transport, round_trip_ms: u64) -> Bulk {
    let round_trip = Duration::from_millis(round_trip_ms);
    // The buffers hold twice what the longest link and its queue do, but for a gigabit: there as much as the link, and
    // half as much again.
    let (rate, least_queue, window) = match on {
        On::Sim => (1_000_000_000, 1000, 64 << 20),
        On::Net => (100_000_000, 100, 16 << 20),
    };
    let lasts = match on {
        On::Sim => 20 * round_trip + Duration::from_millis(300),
        On::Net => Duration::from_secs(context.either(6, 20)),
    };
    let held = rate as f64 / 8.0 * round_trip.as_secs_f64() / MTU as f64;
    Bulk {
        link: LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: least_queue.max(held as usize),
                queue_bytes: usize::MAX,
                ..Bottleneck::new(rate)
            }),
            delay: round_trip / 2,
            ..LinkConfig::default()
        },
        transport,
        congestion: Congestion::Cubic,
        loss_detection: LossDetection::RackTlp,
        flows: 1,
        until: Until::Time(lasts),
        window,
    }
}

/// How long it takes to carry so many bytes of user data over a link that carries so many bytes of it a second: slow
/// start doubles the window of three packets (RFC 9260 section 7.2.1) in each round trip until it holds what the
/// link does.
fn time_by_law(bytes: f64, rate: f64, round_trip: f64, packet: f64) -> f64 {
    let full = rate * round_trip;
    let mut left = bytes;
    let mut time = 0.0;
    let mut window = 3.0 * packet;
    while window < full && left > window {
        left -= window;
        window *= 2.0;
        time += round_trip;
    }
    time + left / rate
}

impl Point {
    fn what(&self) -> String {
        format!("{} at {} ms", self.transport.name(), self.round_trip_ms)
    }

    fn rates(&self) -> Trials {
        Trials::of(
            self.trials
                .iter()
                .map(|carried| carried.received_rate() / 1e6),
        )
    }

    /// Mbit/s.
    fn mean(&self) -> f64 {
        self.rates().mean.unwrap_or(f64::NAN)
    }

    /// User data a second that the link carries at most, in Mbit/s.
    fn link(&self, on: On) -> f64 {
        self.bulk.user_rate(on) * 8.0 / 1e6
    }

    /// Mbit/s that the law of slow start leaves of the link.
    fn law(&self, on: On) -> f64 {
        let round_trip = self.round_trip_ms as f64 / 1e3;
        let rates = self.trials.iter().map(|carried| {
            let bytes = carried.received as f64;
            let rate = self.bulk.user_rate(on);
            bytes * 8.0 / 1e6 / time_by_law(bytes, rate, round_trip, message(on) as f64)
        });
        Trials::of(rates).mean.unwrap_or(f64::NAN)
    }
}

/// The points of SCTP, each with what it is held against, in Mbit/s: TCP where there is one, else the law.
fn pairs(on: On, points: &[Point]) -> Vec<(&Point, f64)> {
    let of = |transport| {
        points
            .iter()
            .filter(move |point| point.transport == transport)
    };
    match on {
        On::Sim => of(Transport::Sctp)
            .map(|point| (point, point.law(on)))
            .collect(),
        On::Net => of(Transport::Sctp)
            .zip(of(Transport::Tcp))
            .map(|(sctp, tcp)| (sctp, tcp.mean()))
            .collect(),
    }
}

fn check(on: On, points: &[Point]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        check_runs(&mut checks, on, &point.what(), &point.bulk, &point.trials);
    }
    let than = match on {
        On::Sim => "the law",
        On::Net => "TCP's",
    };
    let pairs = pairs(on, points);
    for (point, against) in &pairs {
        let most = match on {
            On::Sim => against * (1.0 + ENDS),
            On::Net => point.link(on) * (1.0 + ENDS),
        };
        checks.law(
            format!("rate of {}, of which {than} is {against:.1}", point.what()),
            point.mean(),
            GOAL * against..=most,
            "Mbit/s",
        );
    }
    let above: Vec<String> = pairs
        .iter()
        .filter(|(point, _)| point.round_trip_ms >= FAR)
        .filter_map(|(point, against)| {
            let share = point.mean() / against;
            let (milliseconds, than) = (point.round_trip_ms, than);
            (share > PUBLISHED_SHARE).then(|| format!("{share:.2} of {than} at {milliseconds} ms"))
        })
        .collect();
    checks.found(
        "SCTP gets a quarter of what TCP does, or less, where round trips are long",
        above.is_empty(),
        format!(
            "it gets {}: the window grows until the link is full, where what was published is half a megabyte in each \
             round trip",
            above.join(", ")
        ),
    );
    checks
}

/// Mbit/s.
fn published(round_trip_ms: u64, transport: Transport) -> Option<f64> {
    let protocol = transport.name().to_lowercase();
    let lines = include_str!("../../published/throughput_by_round_trip.csv").lines();
    lines
        .filter_map(|line| {
            let mut fields = line.split(',');
            let is_it = fields.next()?.parse() == Ok(round_trip_ms) && fields.next()? == protocol;
            is_it.then(|| fields.next()?.trim().parse().ok())?
        })
        .next()
}

fn values(points: &[Point]) -> Value {
    let value = |point: &Point| {
        let trials = point.trials.iter().map(|carried| {
            json!({
                "mbits": carried.received_rate() / 1e6,
                "bytes": carried.received,
                "lost_packets": carried.there.dropped_packets(),
                "retransmissions": carried.retransmissions(),
            })
        });
        json!({
            "round_trip_ms": point.round_trip_ms,
            "protocol": point.transport.name(),
            "mean_mbits": point.mean(),
            "half_width_95_mbits": point.rates().half_width_95,
            "trials": trials.collect::<Vec<_>>(),
        })
    };
    points.iter().map(value).collect()
}

fn published_values() -> Value {
    let all = ROUND_TRIPS.iter().flat_map(|&round_trip_ms| {
        Transport::BOTH.map(|transport| {
            json!({
                "round_trip_ms": round_trip_ms,
                "protocol": transport.name(),
                "mbits": published(round_trip_ms, transport),
            })
        })
    });
    all.collect()
}

fn table(on: On, points: &[Point]) -> Table {
    let share = match on {
        On::Sim => "share of the law",
        On::Net => "share of TCP's",
    };
    let mut table = Table::new("User data a second at the receiver")
        .column(Column::number("Round trip").unit("ms").key())
        .column(Column::text("Protocol").key());
    for (what, unit) in [
        ("ours", "Mbit/s"),
        ("±", "Mbit/s"),
        (share, ""),
        ("published", "Mbit/s"),
    ] {
        table = table.column(Column::number(what).unit(unit));
    }
    table = table
        .column(Column::number("lost packets").group("In a trial"))
        .column(Column::number("repeated").group("In a trial"));
    let pairs = pairs(on, points);
    for point in points {
        let mean = |figure: fn(&Carried) -> f64| {
            let figures = point.trials.iter().map(figure);
            Cell::number(Trials::of(figures).mean, 0)
        };
        let against = pairs
            .iter()
            .find(|(of, _)| std::ptr::eq(*of, point))
            .map(|(_, against)| point.mean() / against);
        table.push(Row::new([
            Cell::number(point.round_trip_ms as f64, 0),
            Cell::from(point.transport.name()),
            Cell::number(point.mean(), 2),
            Cell::number(point.rates().half_width_95, 2),
            Cell::number(against, 3),
            Cell::number(published(point.round_trip_ms, point.transport), 0),
            mean(|carried| carried.there.dropped_packets() as f64),
            mean(|carried| carried.retransmissions().map_or(f64::NAN, |one| one as f64)),
        ]));
    }
    table
}

fn plot(points: &[Point]) -> Plot {
    let mut plot = Plot::new(
        "Throughput against the round-trip time",
        Axis::new("Round-trip time", "ms"),
        Axis::new("User data at the receiver", "Mbit/s"),
    )
    .note("Dashed: as published, over 1 Gbit/s. Bars: 95 % confidence intervals.");
    for (transport, colour) in [
        (Transport::Tcp, Colour::Green),
        (Transport::Sctp, Colour::Orange),
    ] {
        let name = transport.name();
        let ours: Vec<PlotPoint> = points
            .iter()
            .filter(|point| point.transport == transport)
            .map(|point| PlotPoint {
                x: point.round_trip_ms as f64,
                y: Some(point.mean()),
                interval: point.rates().interval(),
            })
            .collect();
        if !ours.is_empty() {
            plot = plot.series(Series::new(name, colour).points(ours));
        }
        let published: Vec<(f64, f64)> = ROUND_TRIPS
            .iter()
            .filter_map(|&round_trip_ms| {
                Some((round_trip_ms as f64, published(round_trip_ms, transport)?))
            })
            .collect();
        plot = plot.series(
            Series::new(format!("{name}, published"), colour)
                .dashed()
                .points(published),
        );
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_published_figures_are_read() {
        for round_trip_ms in ROUND_TRIPS {
            for transport in Transport::BOTH {
                assert!(published(round_trip_ms, transport).is_some());
            }
        }
        assert_eq!(published(100, Transport::Sctp), Some(45.0));
        assert_eq!(published(3, Transport::Sctp), None);
    }

    #[test]
    fn slow_start_takes_round_trips_until_the_link_is_full() {
        // A link that holds 20 packets: windows of 3, 6 and 12, and 9 packets at 20 a second.
        let time = time_by_law(30.0, 20.0, 1.0, 1.0);
        assert_eq!(time, 3.0 + 9.0 / 20.0);
        assert_eq!(time_by_law(2.0, 2.0, 1.0, 1.0), 1.0);
    }
}
