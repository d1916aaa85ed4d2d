//! Jungmaier 2000, section 3: an application server of several ASPs behind two signalling gateway processes, and what its
//! users notice when parts of it fail.

mod cluster;
mod host;
mod judge;
mod observation;
mod plan;
mod sim;

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use serde_json::json;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;
use cluster::{PROCESSES, is_sgp, name};
use judge::Figures;
use observation::Observation;

/// The experiment.
pub(super) struct SignallingGateway;

/// Of each link, one way.
const DELAY: Duration = Duration::from_millis(10);

/// How a process that is gone is found.
struct Watch {
    name: &'static str,
    /// T(beat) of M3UA.
    t_beat: Option<Duration>,
    /// Association.Max.Retrans of SCTP; none: the default.
    association_errors: Option<u32>,
}

const WATCHES: [Watch; 2] = [
    Watch {
        name: "heartbeats of M3UA",
        t_beat: Some(Duration::from_secs(1)),
        association_errors: None,
    },
    Watch {
        name: "SCTP alone",
        t_beat: None,
        association_errors: Some(4),
    },
];

impl Experiment for SignallingGateway {
    fn name(&self) -> &'static str {
        "signalling-gateway"
    }

    fn source(&self) -> &'static str {
        "Jungmaier 2000, section 3"
    }

    fn title(&self) -> &'static str {
        "A cluster of application server processes behind two gateways, and what fails in it"
    }

    fn about(&self) -> About {
        About {
            topology: "Five hosts: two signalling gateway processes (SGP) of one gateway and three application server \
                       processes (ASP) of one application server (AS). Each has an address on each of two networks, which \
                       delay packets by 10 ms each way; each ASP has an association with each SGP. The AS shares the load; \
                       T(r) is 2 s.",
            runs: "The SS7 network hands a message to an SGP every 10 ms, with 16 values of SLS in turn, even ones to the \
                   first SGP and odd ones to the second; the ASPs hand over as many in turn. After 4 s one path of the \
                   second ASP is cut, for 10 s. After 25 s the host of the first ASP goes dead, after 45 s that of the first \
                   SGP (each at a random moment of that second). After 70 s the two ASPs that are left become inactive; a \
                   second later one is active again; 5 s later it is inactive for good. The SS7 network knows at once that \
                   its linkset to an SGP is down. Once with heartbeats of M3UA (T(beat) 1 s), once with SCTP alone \
                   (Association.Max.Retrans 4).",
            measures: "Each message when it is handed over and when it arrives; when each process finds another one lost, \
                       which is when it sends NOTIFY and chooses other ASPs or SGPs; states of ASPs and of the AS.",
            law: "A path that is cut is the business of SCTP: no state changes and nothing is lost; a message waits for T3-rtx \
                  at most (RTO.Min, 1 s) and then takes the other path. A dead process is found between 2 and 3 T(beat) after \
                  it was last heard (RFC 4666 section 4.3.4.6); by SCTP, at the fifth error of the association (RFC 9260 \
                  section 8.1), after 7 s if both paths fail side by side and RTO doubles on each, after 10 s if they take \
                  turns. What was handed over to its association before that may be lost; of what is handed over from then on \
                  nothing is. An AS without active ASPs is pending for T(r): what comes meanwhile waits, and is delivered when \
                  an ASP is active in time; when T(r) expires, all that waited is discarded. (What an ASP sends after it has asked to be inactive is dropped by the SGP.) Messages with one SLS arrive in \
                  order and once. Jungmaier 2000 says that the cluster avoids single points of failure.",
            check: "Each of these for every trial. Times are exact to the interval between messages that a process is last \
                    heard by (0.1 s), and for SCTP to the delay of an acknowledgement and a probe (RFC 8985) before T3-rtx \
                    starts (0.5 s).",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim]
    }

    fn run(&self, _: On, context: &Context) -> anyhow::Result<Outcome> {
        let trials: u64 = context.either(3, 30);
        context.steps(trials * WATCHES.len() as u64);
        let mut checks = Checks::new();
        let mut all: Vec<Vec<Figures>> = Vec::new();
        let mut first = Vec::new();
        for (number, watch) in (0..).zip(&WATCHES) {
            context.begin(watch.name);
            let mut figures = Vec::new();
            for trial in 0..trials {
                let observation = sim::observe(context, number * trials + trial, watch)?;
                figures.push(Figures::of(&observation));
                if trial == 0 {
                    first.push(observation);
                }
                context.done();
            }
            judge::judge(&mut checks, watch, &figures);
            all.push(figures);
        }
        judge::compare_with_document(&mut checks, &all);
        let figures = WATCHES.iter().zip(&all);
        let ours: Vec<_> = figures
            .map(|(watch, figures)| judge::to_json(watch, figures))
            .collect();
        let mut outcome = Outcome::judged(checks)
            .ours(json!(ours))
            .published(json!({
                "claim": "several ASPs of one application server on different hosts avoid single points of failure",
            }))
            .table(faults_table(&all));
        for (watch, observation) in WATCHES.iter().zip(&first) {
            outcome = outcome.plot(shares_plot(watch, observation));
        }
        Ok(outcome)
    }
}

fn faults_table(all: &[Vec<Figures>]) -> Table {
    let mut table = Table::new("What fails, and what becomes of messages (worst trial)")
        .column(Column::text("Watched by").key())
        .column(Column::text("Fault").key())
        .column(Column::number("found after, least").unit("s"))
        .column(Column::number("most").unit("s"))
        .column(Column::number("lost before"))
        .column(Column::number("lost after"))
        .column(Column::number("longest delay").unit("s"));
    for (watch, figures) in WATCHES.iter().zip(all) {
        let most = |figure: fn(&Figures) -> f64| figures.iter().map(figure).fold(0.0, f64::max);
        let least =
            |figure: fn(&Figures) -> f64| figures.iter().map(figure).fold(f64::INFINITY, f64::min);
        let rows = [
            (
                "a path of an ASP is cut",
                [None, None],
                [most(|it| it.cut.lost as f64), 0.0],
                Some(most(|it| it.cut.longest_delay)),
            ),
            (
                "an ASP dies",
                [
                    Some(least(|it| it.asp.found_least)),
                    Some(most(|it| it.asp.found_most)),
                ],
                [
                    most(|it| it.asp.lost_before as f64),
                    most(|it| it.asp.lost_after as f64),
                ],
                None,
            ),
            (
                "an SGP dies",
                [
                    Some(least(|it| it.sgp.found_least)),
                    Some(most(|it| it.sgp.found_most)),
                ],
                [
                    most(|it| it.sgp.lost_before as f64),
                    most(|it| it.sgp.lost_after as f64),
                ],
                None,
            ),
            (
                "no ASP is active for 1 s",
                [None, None],
                [most(|it| it.pending.lost as f64), 0.0],
                Some(most(|it| it.pending.longest_delay)),
            ),
            (
                "no ASP is active any more",
                [
                    Some(least(|it| it.pending.recovery)),
                    Some(most(|it| it.pending.recovery)),
                ],
                [most(|it| it.pending.discarded as f64), 0.0],
                None,
            ),
        ];
        for (fault, [least, most], [before, after], delay) in rows {
            table.push(Row::new([
                Cell::from(watch.name),
                Cell::from(fault),
                Cell::number(least, 3),
                Cell::number(most, 3),
                Cell::from(before as u64),
                Cell::from(after as u64),
                Cell::number(delay, 3),
            ]));
        }
    }
    table.note("Before and after: handed over before the loss was known, or from then on.");
    table.note("No ASP is active any more: found is when T(r) expired, lost what had waited.");
    table
}

/// Messages a second that each process has received.
fn shares_plot(watch: &Watch, observation: &Observation) -> Plot {
    let mut plot = Plot::new(
        format!("Messages that arrive at each process: {}", watch.name),
        Axis::new("Time", "s"),
        Axis::new("Messages a second", "1/s"),
    );
    let seconds = observation.plan.end.as_secs();
    for (process, colour) in (0..PROCESSES).zip(Colour::ALL) {
        let points = (0..seconds).map(|second| {
            let arrived = observation.arrivals.iter();
            let of_it = arrived.filter(|it| it.process == process && it.at.as_secs() == second);
            (second as f64, of_it.count() as f64)
        });
        let what = match is_sgp(process) {
            true => format!("{} (to SS7)", name(process)),
            false => name(process),
        };
        plot = plot.series(Series::new(what, colour).points(points));
    }
    plot
}
