//! Pang 2003, figures 3.7 and 3.8: how long files take, one at a time without loss and eight at once
//! with loss: eight TCP connections against eight streams of one association.

use std::time::Duration;

use link::{Bottleneck, LinkConfig, MAX_QUEUE_PACKETS};
use report::{Axis, Cell, Colour, Column, Plot, Point as PlotPoint, Row, Series, Table, Trials};
use sctp::LossDetection;
use serde_json::{Value, json};

use crate::bulk::{Bulk, Carried, Transport, Until, carry, check_runs, message};
use crate::checks::Checks;
use crate::congestion::Congestion;
use crate::context::Context;
use crate::difference::{Comparison, Difference};
use crate::experiment::{About, Experiment, On};
use crate::net::side_by_side;
use crate::outcome::Outcome;

/// The experiment.
pub(super) struct Transfers;

/// Bits a second (Pang 2003, section 3.4).
const RATE: f64 = 10e6;
/// Files that are fetched at once (Pang 2003, section 3.4).
const FILES: u16 = 8;
/// Each way: a network of a house.
const DELAY: Duration = Duration::from_millis(2);
/// Receiver's window of each connection and of the association.
const WINDOW: usize = 64 * 1024;

/// How many runs go on at once on real sockets. All of them together carry 40 Mbit/s.
const AT_ONCE: usize = 4;

/// All runs of one transport at one loss.
struct Point {
    transport: Transport,
    loss_percent: f64,
    bulk: Bulk,
    runs: Vec<Carried>,
}

impl Experiment for Transfers {
    fn name(&self) -> &'static str {
        "transfers"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, figures 3.7 and 3.8"
    }

    fn title(&self) -> &'static str {
        "One file without loss, eight at once with loss"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts on a link of 10 Mbit/s, 2 ms apart in each direction, whose queue holds all \
                       windows; it loses packets independently of each other in both directions.",
            runs: "One file without loss, over TCP and over SCTP. Then eight files at once: each on a TCP \
                   connection of its own, and each on a stream of its own of one association. Windows of \
                   64 KByte each. TCP has Reno: smoltcp's on sim, the kernel's on net, where our SCTP goes in UDP.",
            measures: "The time from opening the first connection until the last file is complete, each several \
                       times: the mean with its 95 % confidence interval, without loss the shortest.",
            law: "Everything sent arrives. No file is complete before its packets have passed the link. A sender \
                  leaves the link idle only where it has to wait: without loss in slow \
                  start, until its window fills the link; over SCTP with loss also for the round trip of a fast \
                  retransmit or of a lost SACK, and for T3-rtx with the small window after it (RFC 9260 sections \
                  6.3.3 and 7.2). SCTP repeats by fast retransmit only what was lost, since packets are not \
                  reordered here.",
            check: "The bytes of both ends, and each time against the least and the most that the law makes of \
                    what the link and the sender have counted in that run: bytes, losses, fast retransmits, \
                    expiries and how long T3-rtx ran. On net each round trip is longer by five times what 99 of \
                    100 wake-ups of this machine were late, and without loss the fastest run is looked at. Pang 2003 \
                    found TCP faster with one file without loss, and SCTP faster with eight at once and \
                    loss: found when the mean difference of runs over the same link is beyond its 95 % confidence \
                    interval, at every loss.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let losses = context.either(&[1.0, 4.0][..], &[0.5, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let runs: usize = match on {
            On::Sim => context.either(4, 20),
            On::Net => context.either(4, 10),
        };
        let messages = context.either(150, 700);
        let mut points = Vec::new();
        for (loss_percent, files) in
            std::iter::once((0.0, 1)).chain(losses.iter().map(|loss| (*loss, FILES)))
        {
            for transport in Transport::BOTH {
                points.push(Point {
                    transport,
                    loss_percent,
                    bulk: bulk(transport, files, messages, loss_percent),
                    runs: Vec::new(),
                });
            }
        }
        context.steps((points.len() * runs) as u64);
        let at_once = if on == On::Net { AT_ONCE } else { 1 };
        let carried = side_by_side(at_once, points.len() * runs, |index| {
            let (point, run) = (index / runs, index % runs);
            let Point {
                transport, bulk, ..
            } = &points[point];
            context.begin(points[point].describe());
            // Both transports meet the same link.
            let pair = point / Transport::BOTH.len();
            let carried = carry(on, context, (pair * runs + run) as u64, bulk);
            context.done();
            carried.map_err(|error| error.context(transport.name()))
        })?;
        for (point, carried) in points.iter_mut().zip(carried.chunks(runs)) {
            point.runs = carried.to_vec();
        }
        let outcome = Outcome::judged(check(on, &points))
            .ours(values(on, &points, messages))
            .published(json!({
                "figure_3_7": "one file, 10 Mbit/s, no loss: TCP performs better than SCTP",
                "figure_3_8": "eight files at once, 10 Mbit/s, loss: SCTP performs better than TCP",
            }))
            .table(table(&points))
            .plot(plot(on, &points))
            .note("The sizes of the files and the loss are not stated in Pang 2003.");
        Ok(match on {
            On::Sim => outcome.note(
                "TCP is smoltcp's: it has no selective acknowledgements, and its minimum retransmission timeout is \
                 a second, as in SCTP.",
            ),
            On::Net => outcome.note(
                "TCP is this kernel's with Reno, selective acknowledgements and tail loss probes, and a minimum \
                 timeout of 200 ms; for SCTP, RFC 9260 has an RTO.Min of a second (section 16).",
            ),
        })
    }
}

fn bulk(transport: Transport, files: u16, messages: u64, loss_percent: f64) -> Bulk {
    Bulk {
        link: LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: MAX_QUEUE_PACKETS,
                queue_bytes: usize::MAX,
                ..Bottleneck::new(RATE as u64)
            }),
            loss: (loss_percent / 100.0).into(),
            delay: DELAY,
            ..LinkConfig::default()
        },
        transport,
        congestion: Congestion::Reno,
        loss_detection: LossDetection::GapReports,
        flows: files,
        until: Until::Messages(messages),
        window: WINDOW,
    }
}

impl Point {
    fn describe(&self) -> String {
        let (transport, loss) = (self.transport.name(), self.loss_percent);
        match self.bulk.flows {
            1 => format!("one file over {transport}"),
            _ => format!("eight files over {transport}, {loss} % loss"),
        }
    }

    /// From opening the first connection until all files are there, seconds.
    fn times(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().map(|run| run.took.as_secs_f64())
    }

    fn mean(&self) -> f64 {
        Trials::of(self.times()).mean.unwrap_or(f64::NAN)
    }

    /// For how long T3-rtx ran before it expired, on average, seconds.
    fn waited(&self) -> f64 {
        let waited = |run: &Carried| Some(run.sctp?.t3_waited.as_secs_f64());
        Trials::of(self.runs.iter().filter_map(waited))
            .mean
            .unwrap_or(0.0)
    }

    /// How long it took until it could send, on average, seconds.
    fn set_up(&self) -> f64 {
        let set_ups = self.runs.iter().map(|run| run.set_up.as_secs_f64());
        Trials::of(set_ups).mean.unwrap_or(0.0)
    }

    /// By how much it takes longer than another over the same links.
    fn above(&self, other: &Point) -> Difference {
        Difference::of(self.times(), other.times())
    }

    fn shortest(&self) -> f64 {
        self.times().fold(f64::INFINITY, f64::min)
    }
}

fn check(on: On, points: &[Point]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        let what = point.describe();
        // Without loss runs differ by how long they waited for the machine.
        let fastest = point.runs.iter().min_by_key(|run| run.under_way());
        match fastest.filter(|_| point.loss_percent == 0.0) {
            None => check_runs(&mut checks, on, &what, &point.bulk, &point.runs),
            Some(fastest) => {
                let runs = std::slice::from_ref(fastest);
                check_runs(&mut checks, on, &what, &point.bulk, runs);
                check_without_loss(&mut checks, on, point, fastest);
            }
        }
    }
    let (single, lossy): (Vec<_>, Vec<_>) = points
        .chunks(Transport::BOTH.len())
        .filter_map(|pair| <&[Point; 2]>::try_from(pair).ok())
        .partition(|[tcp, _]| tcp.loss_percent == 0.0);
    for [tcp, sctp] in single {
        compare_alone(&mut checks, on, tcp, sctp);
    }
    compare_many(&mut checks, on, &lossy);
    checks
}

/// One file, without loss. On the virtual clock all runs are the same.
fn compare_alone(checks: &mut Checks, on: On, tcp: &Point, sctp: &Point) {
    let more = sctp.above(tcp);
    let milliseconds = |point: &Point| point.times().map(|time| time * 1e3).collect::<Vec<f64>>();
    let difference = Difference::of(milliseconds(sctp), milliseconds(tcp)).with_interval("ms");
    let by = match more.comparison() {
        Comparison::Less if on == On::Sim => format!(
            "TCP takes {difference} more: smoltcp's begins with one segment, SCTP with 4,404 bytes (RFC 9260 section 7.2.1)"
        ),
        Comparison::Less => format!("TCP takes {difference} more"),
        _ => format!(
            "they cannot be told apart ({difference}): a full packet carries nearly as much user data over either, and \
             neither has anything to wait for but slow start"
        ),
    };
    let is_faster = more.comparison() == Comparison::Greater;
    checks.found("one file without loss is faster over TCP", is_faster, by);
}

/// Eight at once, with loss.
fn compare_many(checks: &mut Checks, on: On, lossy: &[&[Point; 2]]) {
    let (mut slower, mut alike) = (Vec::new(), Vec::new());
    for [tcp, sctp] in lossy {
        let more = sctp.above(tcp);
        let (loss, by) = (tcp.loss_percent, more.with_interval("s"));
        match more.comparison() {
            Comparison::Less => {}
            Comparison::Greater => slower.push(format!(
                "at {loss} % loss they take {by} more ({:.2} times as long; T3-rtx ran for {:.2} s of it, the set-up \
                 took {:.2} s)",
                sctp.mean() / tcp.mean(),
                sctp.waited(),
                sctp.set_up()
            )),
            Comparison::Inconclusive => {
                alike.push(format!("at {loss} % loss they cannot be told apart ({by})"));
            }
        }
    }
    let because = if slower.is_empty() {
        ": the mean difference of runs over the same link is not beyond its 95 % confidence interval"
    } else {
        ": eight connections have eight congestion windows, of which a loss halves one, and the association has one \
         window for all streams (RFC 9260 section 7.2), and T3-rtx and T1-init, a second at least (section 16), hold \
         all of them up"
    };
    slower.append(&mut alike);
    checks.found(
        format!(
            "eight files at once with loss are faster over eight streams of SCTP than over eight connections of {}",
            tcp_name(on)
        ),
        slower.is_empty(),
        format!("{}{because}", slower.join(", ")),
    );
}

fn tcp_name(on: On) -> &'static str {
    match on {
        On::Sim => "smoltcp's TCP",
        On::Net => "the kernel's TCP",
    }
}

/// TCP, too, has nothing to wait for but slow start.
fn check_without_loss(checks: &mut Checks, on: On, point: &Point, run: &Carried) {
    let what = point.describe();
    if point.transport == Transport::Tcp {
        checks.law(
            format!("time once it is up, {what}"),
            run.under_way().as_secs_f64(),
            point.bulk.allowed(on, run),
            "s",
        );
    }
    checks.law(
        format!("packets lost, {what}"),
        (run.there.dropped_packets() + run.back.dropped_packets()) as f64,
        0.0..=0.0,
        "packets",
    );
}

fn values(on: On, points: &[Point], messages: u64) -> Value {
    let point = |point: &Point| {
        let runs = point.runs.iter().map(|run| {
            json!({
                "took_s": run.took.as_secs_f64(),
                "set_up_s": run.set_up.as_secs_f64(),
                "lost_packets": run.there.dropped_packets(),
                "retransmissions": run.retransmissions(),
                "t3_expiries": run.sctp.map(|sctp| sctp.t3_expiries),
                "t3_waited_s": run.sctp.map(|sctp| sctp.t3_waited.as_secs_f64()),
            })
        });
        json!({
            "transport": point.transport.name(),
            "files": point.bulk.flows,
            "loss_percent": point.loss_percent,
            "mean_s": point.mean(),
            "half_width_95_s": Trials::of(point.times()).half_width_95,
            "shortest_s": point.shortest(),
            "runs": runs.collect::<Vec<_>>(),
        })
    };
    json!({
        "file_bytes": messages * message(on) as u64,
        "points": points.iter().map(point).collect::<Vec<_>>(),
    })
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new("Time until the last file is complete")
        .column(Column::text("Files").key())
        .column(Column::number("Loss").unit("%").key());
    for name in ["TCP", "SCTP"] {
        for what in ["mean", "±", "shortest"] {
            table = table.column(Column::number(what).unit("s").group(name));
        }
    }
    table = table.column(Column::number("SCTP / TCP").group("Means"));
    for pair in points.chunks(Transport::BOTH.len()) {
        let [tcp, sctp] = pair else { continue };
        let files = if tcp.bulk.flows == 1 {
            "one"
        } else {
            "eight at once"
        };
        let mut cells = vec![Cell::from(files), Cell::number(tcp.loss_percent, 1)];
        for point in [tcp, sctp] {
            let times = Trials::of(point.times());
            cells.push(Cell::number(times.mean, 3));
            cells.push(Cell::number(times.half_width_95, 3));
            cells.push(Cell::number(point.shortest(), 3));
        }
        cells.push(Cell::number(sctp.mean() / tcp.mean(), 2));
        table.push(Row::new(cells));
    }
    table
}

fn plot(on: On, points: &[Point]) -> Plot {
    let mut plot = Plot::new(
        "Eight files at once",
        Axis::new("Loss", "%"),
        Axis::new("Until the last is complete, mean", "s"),
    )
    .note("Bars: 95 % confidence intervals.");
    for (transport, colour) in [
        (Transport::Tcp, Colour::Green),
        (Transport::Sctp, Colour::Orange),
    ] {
        let name = match transport {
            Transport::Tcp => format!("eight connections of {}", tcp_name(on)),
            Transport::Sctp => "eight streams of one association".to_owned(),
        };
        let of = points
            .iter()
            .filter(|point| point.transport == transport && point.loss_percent > 0.0);
        let places = of.map(|point| {
            let times = Trials::of(point.times());
            PlotPoint {
                x: point.loss_percent,
                y: times.mean,
                interval: times.interval(),
            }
        });
        plot = plot.series(Series::new(name, colour).points(places.collect::<Vec<_>>()));
    }
    plot
}
