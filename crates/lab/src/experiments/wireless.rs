//! SCTP thesis 2011, tables 1.1 to 1.3: what TCP and SCTP carry over Wi-Fi at three signal strengths.

use std::time::Duration;

use anyhow::anyhow;
use link::LinkConfig;
use report::{Axis, Cell, Colour, Column, Plot, Point as PlotPoint, Row, Series, Table, Trials};
use sctp::LossDetection;
use serde_json::{Value, json};

use crate::bulk::{Bulk, Carried, Transport, Until, carry, check_runs};
use crate::checks::Checks;
use crate::congestion::Congestion;
use crate::context::Context;
use crate::difference::{Comparison, Difference};
use crate::experiment::{About, Experiment, On};
use crate::net::side_by_side;
use crate::outcome::Outcome;

/// The experiment.
pub(super) struct Wireless;

/// The receiver's window (SCTP thesis 2011, section 6.2).
const WINDOW: usize = 256 * 1024;
/// What each trial lasts (SCTP thesis 2011, section 6.2).
const LASTS: Duration = Duration::from_secs(10);
/// The same on real sockets, where that is time.
const QUICK: Duration = Duration::from_secs(4);
/// The signal strengths, percent, and the presets of `tandem net` made for them.
const SIGNALS: [(u32, &str); 3] = [(70, "wifi-70"), (50, "wifi-50"), (25, "wifi-25")];

/// How many trials go on at once on real sockets. All of them together carry 30 Mbit/s.
const AT_ONCE: usize = 6;

/// Figures of both ends, Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Trial {
    sent: f64,
    received: f64,
}

/// All trials of a protocol at a signal strength.
struct Point {
    signal: u32,
    transport: Transport,
    bulk: Bulk,
    carried: Vec<Carried>,
    ours: Vec<Trial>,
    published: Vec<Trial>,
}

impl Experiment for Wireless {
    fn name(&self) -> &'static str {
        "wireless"
    }

    fn source(&self) -> &'static str {
        "SCTP thesis 2011, tables 1.1 to 1.3"
    }

    fn title(&self) -> &'static str {
        "TCP and SCTP over Wi-Fi at three signal strengths"
    }

    fn about(&self) -> About {
        About {
            topology: "Two hosts joined by the presets wifi-70, wifi-50 and wifi-25 of `tandem net`, in \
                       both directions: rate, delay with jitter, loss and queue, chosen so that a TCP gets \
                       about what the SCTP thesis measured.",
            runs: "One sender that always has data to send, over TCP with Reno (on sim smoltcp's, on net the \
                   kernel's) and over our SCTP (on net in UDP), for 10 s, five times each, with windows of \
                   256 KByte; with --quick three times, on net for 4 s. Both meet the same losses.",
            measures: "As iperf did: what the sender handed over by the time that it did, and what the receiver's \
                       user got by the time that the last of it came. Means with their 95 % confidence intervals.",
            law: "What was sent arrives. It takes the link as long as its rate says, headers and all that was \
                  repeated included; and an SCTP sender leaves the link idle only where it has to wait \
                  (RFC 9260): for an acknowledgement in slow start and after a loss, and for T3-rtx. It repeats \
                  by fast retransmit only what was lost, since packets are not reordered here.",
            check: "The bytes of both ends. The time of each trial of SCTP against the least and the most that \
                    the law makes of what the link and the sender have counted in it: bytes, losses, fast \
                    retransmits, expiries and how long T3-rtx ran. The SCTP thesis found TCP ahead of SCTP at \
                    every signal strength: found when the mean difference is beyond its 95 % confidence \
                    interval at each of the three.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let trials: usize = context.either(3, 5);
        let lasts = match on {
            On::Sim => LASTS,
            On::Net => context.either(QUICK, LASTS),
        };
        let mut points = Vec::new();
        for (signal, preset) in SIGNALS {
            let link = testbed::preset(preset)
                .map_err(|error| anyhow!(error))?
                .config;
            for transport in Transport::BOTH {
                points.push(Point {
                    signal,
                    transport,
                    bulk: bulk(transport, lasts, link.clone()),
                    carried: Vec::new(),
                    ours: Vec::new(),
                    published: published(signal, transport),
                });
            }
        }
        context.steps((points.len() * trials) as u64);
        let at_once = if on == On::Net { AT_ONCE } else { 1 };
        let carried = side_by_side(at_once, points.len() * trials, |index| {
            let (point, trial) = (index / trials, index % trials);
            let Point {
                signal,
                transport,
                bulk,
                ..
            } = &points[point];
            context.begin(format!("{} at {signal} %", transport.name()));
            // Both meet the same link.
            let pair = point / Transport::BOTH.len();
            let carried = carry(on, context, (pair * trials + trial) as u64, bulk);
            context.done();
            carried
        })?;
        for (point, carried) in points.iter_mut().zip(carried.chunks(trials)) {
            point.ours = carried.iter().map(Trial::of).collect();
            point.carried = carried.to_vec();
        }
        let outcome = Outcome::judged(check(on, &points))
            .ours(values(&points))
            .published(published_values(&points))
            .table(table(&points))
            .plot(plot(&points));
        Ok(match on {
            On::Sim => outcome.note(
                "TCP is smoltcp's with Reno and without selective acknowledgements, the thesis's was \
                 Linux's: the difference to TCP here says nothing about a kernel's TCP.",
            ),
            On::Net => outcome.note(
                "TCP is this kernel's with Reno, with selective acknowledgements and its other defaults; SCTP is \
                 Tandem's in UDP, whose header takes 8 bytes of each packet.",
            ),
        })
    }
}

impl Trial {
    fn of(carried: &Carried) -> Trial {
        Trial {
            sent: carried.sent_rate() / 1e6,
            received: carried.received_rate() / 1e6,
        }
    }
}

fn bulk(transport: Transport, lasts: Duration, link: LinkConfig) -> Bulk {
    Bulk {
        link,
        transport,
        congestion: Congestion::Reno,
        loss_detection: LossDetection::GapReports,
        flows: 1,
        until: Until::Time(lasts),
        window: WINDOW,
    }
}

/// The trials of the SCTP thesis.
fn published(signal: u32, transport: Transport) -> Vec<Trial> {
    let protocol = transport.name().to_lowercase();
    include_str!("../../published/throughput_by_signal.csv")
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let [of, _, over, sent, received] = fields[..] else {
                return None;
            };
            let is_it = of.parse() == Ok(signal) && over == protocol;
            is_it.then_some(Trial {
                sent: sent.parse().ok()?,
                received: received.parse().ok()?,
            })
        })
        .collect()
}

fn received(trials: &[Trial]) -> Trials {
    Trials::of(trials.iter().map(|trial| trial.received))
}

fn sent(trials: &[Trial]) -> Trials {
    Trials::of(trials.iter().map(|trial| trial.sent))
}

fn check(on: On, points: &[Point]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        let what = format!("{} at {} %", point.transport.name(), point.signal);
        check_runs(&mut checks, on, &what, &point.bulk, &point.carried);
        checks.law_holds(
            format!("the receiver has it no sooner than the sender has handed it over, {what}"),
            point.ours.iter().all(|trial| trial.received <= trial.sent),
            format!(
                "in trials of {} the receiver counts more Mbit/s than the sender",
                point
                    .ours
                    .iter()
                    .filter(|trial| trial.received > trial.sent)
                    .map(|trial| {
                        format!("{:.2} received, {:.2} sent", trial.received, trial.sent)
                    })
                    .collect::<Vec<_>>()
                    .join(" and ")
            ),
        );
    }
    let behind: Vec<String> = points
        .chunks(Transport::BOTH.len())
        .filter_map(|pair| {
            let [tcp, sctp] = pair else { return None };
            let got = |point: &Point| -> Vec<f64> {
                point.ours.iter().map(|trial| trial.received).collect()
            };
            let ahead = Difference::of(got(tcp), got(sctp));
            let (signal, by) = (tcp.signal, ahead.with_interval("Mbit/s"));
            match ahead.comparison() {
                Comparison::Greater => None,
                Comparison::Less => Some(format!("at {signal} % SCTP is ahead by {by}")),
                Comparison::Inconclusive => {
                    Some(format!("at {signal} % they cannot be told apart ({by})"))
                }
            }
        })
        .collect();
    let why = match on {
        On::Sim => {
            "gap acknowledgement blocks report all losses of a window at once (RFC 9260 section 7.2.4), where \
             smoltcp's Reno without selective acknowledgements waits a round trip for each, or for a timeout"
        }
        On::Net => {
            "today's SCTP recovers from a loss as TCP does, but for T3-rtx, which is a second at least (RFC 9260 \
             section 16) where Linux waits for 0.2 s; the thesis attributes the difference to the immature SCTP of \
             its kernel (SCTP thesis 2011, section 6.2)"
        }
    };
    checks.found(
        "TCP is ahead of SCTP at every signal strength",
        behind.is_empty(),
        format!("{}: {why}", behind.join(", ")),
    );
    checks
}

fn values(points: &[Point]) -> Value {
    points
        .iter()
        .map(|point| {
            let trials = point.ours.iter().zip(&point.carried);
            let trials = trials.map(|(trial, carried)| {
                json!({
                    "tx_mbits": trial.sent,
                    "rx_mbits": trial.received,
                    "bytes": carried.received,
                    "lost_packets": carried.there.dropped_packets(),
                    "retransmissions": carried.retransmissions(),
                    "t3_expiries": carried.sctp.map(|sctp| sctp.t3_expiries),
                })
            });
            json!({
                "signal_percent": point.signal,
                "protocol": point.transport.name(),
                "mean_tx_mbits": sent(&point.ours).mean,
                "mean_rx_mbits": received(&point.ours).mean,
                "rx_half_width_95_mbits": received(&point.ours).half_width_95,
                "trials": trials.collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn published_values(points: &[Point]) -> Value {
    points
        .iter()
        .map(|point| {
            let trial =
                |trial: &Trial| json!({ "tx_mbits": trial.sent, "rx_mbits": trial.received });
            json!({
                "signal_percent": point.signal,
                "protocol": point.transport.name(),
                "mean_rx_mbits": received(&point.published).mean,
                "rx_half_width_95_mbits": received(&point.published).half_width_95,
                "trials": point.published.iter().map(trial).collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn table(points: &[Point]) -> Table {
    let mut table =
        Table::new("Mean of the trials, and 95 % confidence interval of what was received")
            .column(Column::number("Signal").unit("%").key())
            .column(Column::text("Protocol").key());
    for group in ["Ours", "SCTP thesis 2011"] {
        for what in ["sent", "received", "±"] {
            table = table.column(Column::number(what).unit("Mbit/s").group(group));
        }
    }
    table = table
        .column(Column::number("lost packets").group("In a trial"))
        .column(Column::number("repeated").group("In a trial"));
    for point in points {
        let mut cells = vec![
            Cell::number(f64::from(point.signal), 0),
            Cell::from(point.transport.name()),
        ];
        for trials in [&point.ours, &point.published] {
            let got = received(trials);
            for figure in [sent(trials).mean, got.mean, got.half_width_95] {
                cells.push(Cell::number(figure, 2));
            }
        }
        let lost = |carried: &Carried| carried.there.dropped_packets() as f64;
        let repeated =
            |carried: &Carried| carried.retransmissions().map_or(f64::NAN, |one| one as f64);
        cells.push(Cell::number(
            Trials::of(point.carried.iter().map(lost)).mean,
            0,
        ));
        cells.push(Cell::number(
            Trials::of(point.carried.iter().map(repeated)).mean,
            0,
        ));
        table.push(Row::new(cells));
    }
    table
}

fn plot(points: &[Point]) -> Plot {
    let mut plot = Plot::new(
        "Throughput by signal strength",
        Axis::new("Signal strength", "%"),
        Axis::new("Received, mean", "Mbit/s"),
    )
    .note("Dashed: the thesis's. Bars: 95 % confidence intervals.");
    for (transport, colour) in [
        (Transport::Tcp, Colour::Green),
        (Transport::Sctp, Colour::Orange),
    ] {
        let of = |trials: fn(&Point) -> &Vec<Trial>| -> Vec<PlotPoint> {
            let points = points.iter().filter(|point| point.transport == transport);
            let place = |point: &Point| {
                let trials = received(trials(point));
                PlotPoint {
                    x: f64::from(point.signal),
                    y: trials.mean,
                    interval: trials.interval(),
                }
            };
            points.map(place).collect()
        };
        let name = transport.name();
        plot = plot
            .series(Series::new(name, colour).points(of(|point| &point.ours)))
            .series(
                Series::new(format!("{name}, published"), colour)
                    .dashed()
                    .points(of(|point| &point.published)),
            );
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_trials_of_the_document_are_read() {
        for (signal, _) in SIGNALS {
            for transport in Transport::BOTH {
                assert_eq!(published(signal, transport).len(), 5);
            }
        }
        let tcp = received(&published(70, Transport::Tcp)).mean;
        assert!((tcp.expect("trials") - 7.976).abs() < 1e-9);
    }
}
