//! Pang 2003, table 5.4: over which transport a proxy should be reached, by the packet loss between regions of the world.

use std::time::Duration;

use report::{Axis, Cell, Column, Plot, Row, Series, Table, Trials};
use sctp::Profile;
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::context::Context;
use crate::difference::Comparison;
use crate::experiment::{About, Experiment, On};
use crate::one_proxy::{self, Outcome as Called, Scenario, Way, check_calls};
use crate::outcome::Outcome;
use crate::published::{LossBetweenRegions, losses_between_regions, stated};

/// The experiment.
pub(super) struct LossesByRegion;

/// Callers, and as many callees.
const USERS: u32 = 8;

/// Each way between users and proxy.
const DELAY: Duration = Duration::from_millis(5);

const UDP: Way = Way::Udp;
const SCTP: Way = Way::Sctp(Profile::Signalling);

/// The losses at which calls are made; the table has from 0.13 to 13.88 %.
const LOSSES: [f64; 10] = [0.1, 0.3, 0.7, 1.5, 2.5, 4.0, 6.0, 9.0, 12.0, 14.0];

/// What is measured at one loss.
struct Point {
    loss_percent: f64,
    udp: Vec<Called>,
    sctp: Vec<Called>,
}

impl Point {
    /// The calls over SCTP for each call over UDP, as logarithms, trial by trial.
    fn advantages(&self) -> impl Iterator<Item = f64> {
        let pairs = self.sctp.iter().zip(&self.udp);
        pairs.map(|(sctp, udp)| (sctp.calls_per_second() / udp.calls_per_second()).ln())
    }
}

/// What carries more calls at some loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Udp,
    Sctp,
    Either,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Choice::Udp => "UDP",
            Choice::Sctp => "SCTP",
            Choice::Either => "either",
        }
    }

    fn of(comparison: Comparison) -> Choice {
        match comparison {
            Comparison::Greater => Choice::Sctp,
            Comparison::Less => Choice::Udp,
            Comparison::Inconclusive => Choice::Either,
        }
    }
}

impl Experiment for LossesByRegion {
    fn name(&self) -> &'static str {
        "losses-by-region"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, section 5.4 and table 5.4"
    }

    fn title(&self) -> &'static str {
        "The transport of a proxy, by the packet loss between regions of the world"
    }

    fn about(&self) -> About {
        About {
            topology: "That of calls-under-loss: eight callers, eight callees and a proxy, 5 ms from it, on links that lose \
                       packets in each direction.",
            runs: "That of calls-under-loss, over UDP and over SCTP with the profile signalling, at ten losses from 0.1 to \
                   14 %. The published table has the monthly median packet loss between eight regions in April 1999, \
                   from 0.13 to 13.88 %.",
            measures: "The calls completed per second over each transport, and their ratio. The ratio at a loss of the table \
                       comes from the two nearest losses that were run, by interpolation.",
            law: "No call is faster than its packets (calls-under-loss). Pang 2003 concludes that UDP is to be \
                  preferred where less than 10 % of the packets are lost, and SCTP where it is more.",
            check: "The fastest call and the rate against the time of their packets. A transport is preferred for a pair of \
                    regions if the interpolated 95 % confidence interval of the ratio does not contain one.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let seconds = Duration::from_secs;
        let (trials, lasts) = match on {
            On::Sim => context.either((3, seconds(3)), (10, seconds(15))),
            On::Net => context.either((2, seconds(6)), (5, seconds(15))),
        };
        let scenarios: Vec<Scenario> = LOSSES
            .into_iter()
            .flat_map(|loss| [UDP, SCTP].map(|way| (loss, way)))
            .flat_map(|(loss, way)| {
                let scenario = Scenario {
                    way,
                    users: USERS,
                    delay: DELAY,
                    loss: loss / 100.0,
                    lasts,
                };
                std::iter::repeat_n(scenario, trials)
            })
            .collect();
        context.steps(scenarios.len() as u64);
        context.begin("calls");
        let outcomes = one_proxy::run_scenarios(on, context, &scenarios)?;
        let points: Vec<Point> = LOSSES
            .into_iter()
            .zip(outcomes.chunks(2 * trials))
            .map(|(loss_percent, outcomes)| {
                let (udp, sctp) = outcomes.split_at(trials);
                Point {
                    loss_percent,
                    udp: udp.to_vec(),
                    sctp: sctp.to_vec(),
                }
            })
            .collect();
        let pairs: Vec<(LossBetweenRegions, f64, Choice)> = losses_between_regions()
            .into_iter()
            .map(|pair| {
                let (ratio, comparison) = at(&points, pair.loss_percent);
                (pair, ratio, Choice::of(comparison))
            })
            .collect();
        let mut outcome = Outcome::judged(check(&points, &pairs))
            .ours(json!({
                "calls": points.iter().map(to_json).collect::<Vec<_>>(),
                "pairs": pairs.iter().map(|(pair, ratio, choice)| json!({
                    "from": pair.from, "to": pair.to, "loss_percent": pair.loss_percent,
                    "sctp_calls_for_each_udp_call": ratio, "transport": choice.name(),
                })).collect::<Vec<_>>(),
            }))
            .published(json!({ "sctp_from_loss_percent": threshold() }))
            .table(regions_table(&pairs));
        outcome = outcome.table(losses_table(&points)).plot(plot(&points));
        Ok(outcome)
    }
}

/// The loss from which on Pang 2003 prefers SCTP, percent.
fn threshold() -> f64 {
    stated("losses-by-region", "loss from which SCTP is better")
}

/// How many calls SCTP carries for each that UDP does at this loss, and whether that is more or fewer.
fn at(points: &[Point], loss_percent: f64) -> (f64, Comparison) {
    let ends = |point: &Point| {
        let trials = Trials::of(point.advantages());
        let mean = trials.mean.unwrap_or(f64::NAN);
        let (low, high) = trials.interval().unwrap_or((f64::NAN, f64::NAN));
        [mean, low, high]
    };
    let after = points
        .iter()
        .position(|point| point.loss_percent >= loss_percent)
        .unwrap_or(points.len().saturating_sub(1));
    let Some(upper) = points.get(after) else {
        return (f64::NAN, Comparison::Inconclusive);
    };
    let lower = points.get(after.saturating_sub(1)).unwrap_or(upper);
    let width = upper.loss_percent - lower.loss_percent;
    let part = match width > 0.0 {
        true => ((loss_percent - lower.loss_percent) / width).clamp(0.0, 1.0),
        false => 0.0,
    };
    let (below, above) = (ends(lower), ends(upper));
    let between = |index: usize| below[index] + part * (above[index] - below[index]);
    let comparison = match (between(1), between(2)) {
        (low, _) if low > 0.0 => Comparison::Greater,
        (_, high) if high < 0.0 => Comparison::Less,
        _ => Comparison::Inconclusive,
    };
    (between(0).exp(), comparison)
}

fn check(points: &[Point], pairs: &[(LossBetweenRegions, f64, Choice)]) -> Checks {
    let mut checks = Checks::new();
    for point in points {
        for (way, outcomes) in [(UDP, &point.udp), (SCTP, &point.sctp)] {
            let what = format!("{} at {} %", way.name(), point.loss_percent);
            check_calls(&mut checks, &what, USERS, DELAY, outcomes);
        }
    }
    for (name, published, concerns) in [
        ("UDP is preferred below", Choice::Udp, false),
        ("SCTP is preferred from", Choice::Sctp, true),
    ] {
        let concerned: Vec<_> = pairs
            .iter()
            .filter(|(pair, ..)| (pair.loss_percent >= threshold()) == concerns)
            .collect();
        let other = concerned.iter().filter(|(.., choice)| *choice != published);
        let count = |choice| {
            let same = concerned.iter().filter(|(.., one)| *one == choice);
            same.count()
        };
        checks.found(
            format!("Pang 2003: {name} {} % loss", threshold()),
            other.count() == 0,
            format!(
                "of {} pairs of regions SCTP carries more calls for {}, UDP for {}, and the two cannot be told apart for {}",
                concerned.len(),
                count(Choice::Sctp),
                count(Choice::Udp),
                count(Choice::Either)
            ),
        );
    }
    checks
}

fn mean(outcomes: &[Called]) -> f64 {
    let rates = outcomes.iter().map(Called::calls_per_second);
    Trials::of(rates).mean.unwrap_or(f64::NAN)
}

fn to_json(point: &Point) -> Value {
    let rates = |outcomes: &[Called]| -> Vec<f64> {
        outcomes.iter().map(Called::calls_per_second).collect()
    };
    json!({
        "loss_percent": point.loss_percent,
        "udp_calls_per_second": rates(&point.udp),
        "sctp_calls_per_second": rates(&point.sctp),
    })
}

/// As the published table: rows are where it was monitored from, columns what was monitored.
fn regions_table(pairs: &[(LossBetweenRegions, f64, Choice)]) -> Table {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<&str> = Vec::new();
    for (pair, ..) in pairs {
        if !columns.contains(&pair.to.as_str()) {
            columns.push(&pair.to);
        }
        if !rows.contains(&pair.from.as_str()) {
            rows.push(&pair.from);
        }
    }
    columns.sort_unstable();
    let mut table = Table::new(
        "Packet loss between regions in April 1999, and the transport that carries more calls",
    )
    .column(Column::text("From").key());
    for column in &columns {
        table = table.column(Column::text(*column).group("To"));
    }
    for row in rows {
        let mut cells = vec![Cell::from(row)];
        for column in &columns {
            let pair = pairs
                .iter()
                .find(|(pair, ..)| pair.from == row && pair.to == *column);
            cells.push(pair.map_or(Cell::Absent, |(pair, _, choice)| {
                Cell::from(format!("{:.2} % {}", pair.loss_percent, choice.name()))
            }));
        }
        table.push(Row::new(cells));
    }
    table.note(
        "Losses: Pang 2003, table 5.4 (SLAC). Transports: ours, SCTP with the profile signalling.",
    );
    table
}

fn losses_table(points: &[Point]) -> Table {
    let mut table = Table::new("Calls completed by eight callers")
        .column(Column::number("Loss").unit("%").key())
        .column(Column::number("UDP").unit("calls/s"))
        .column(Column::number("SCTP").unit("calls/s"))
        .column(Column::number("SCTP for each over UDP"))
        .column(Column::text("More calls"));
    for point in points {
        let (ratio, comparison) = at(points, point.loss_percent);
        table.push(Row::new([
            Cell::number(point.loss_percent, 1),
            Cell::number(mean(&point.udp), 1),
            Cell::number(mean(&point.sctp), 1),
            Cell::number(ratio, 2),
            Cell::from(Choice::of(comparison).name()),
        ]));
    }
    table
}

fn plot(points: &[Point]) -> Plot {
    let series = |way: Way, outcomes: fn(&Point) -> &[Called]| {
        let points = points
            .iter()
            .map(move |point| (point.loss_percent, mean(outcomes(point))));
        Series::new(way.name(), way.colour()).points(points)
    };
    Plot::new(
        "Completed calls against packet loss",
        Axis::new("Packet loss, each direction", "%"),
        Axis::new("Completed calls", "calls/s").logarithmic(),
    )
    .series(series(UDP, |point| &point.udp))
    .series(series(SCTP, |point| &point.sctp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let pairs = losses_between_regions();
        assert_eq!(pairs.len(), 49);
        let largest = pairs
            .iter()
            .map(|pair| pair.loss_percent)
            .fold(0.0, f64::max);
        assert_eq!(largest, 13.88);
        assert!(LOSSES.last().is_some_and(|last| *last >= largest));
    }
}
