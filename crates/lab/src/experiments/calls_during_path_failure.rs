//! Pang 2003, chapter 6 and section 5.5: calls through two proxies while the primary path between
//! them is cut.

use std::time::Duration;

use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp::Profile;
use serde_json::{Value, json};
use sip::Transport;

use crate::calls::{
    CallOutcome, CallResults, Scenario, TRUNK_DELAY, added, run_scenarios, sctp_config, undisturbed,
};
use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::outcome::Outcome;

/// The experiment.
pub(super) struct CallsDuringPathFailure;

const TRUNKS: [(Transport, Colour); 3] = [
    (Transport::Udp, Colour::Blue),
    (Transport::Tcp, Colour::Green),
    (Transport::Sctp, Colour::Orange),
];

/// Calls a second.
const RATE: f64 = 10.0;

/// Timers of SCTP that expire while a call waits, one for each direction.
const TIMERS: f64 = 2.0;

/// The measurements over one transport.
struct TransportResult {
    trunk: Transport,
    calls: usize,
    completed: usize,
    left: usize,
    /// The longest set-up, and the longest time in which no call was answered, seconds.
    longest: f64,
    stall: f64,
    /// The longest that the machine may add to a set-up, seconds; and to the timers that a call waits for.
    added: f64,
    added_to_timers: f64,
    /// When each call was begun, and how long its set-up took, seconds.
    setups: Vec<(f64, f64)>,
}

impl Experiment for CallsDuringPathFailure {
    fn name(&self) -> &'static str {
        "calls-during-path-failure"
    }

    fn source(&self) -> &'static str {
        "Pang 2003, chapter 6 and section 5.5"
    }

    fn title(&self) -> &'static str {
        "Calls while the primary path between two proxies is cut"
    }

    fn about(&self) -> About {
        About {
            topology: "Callers, their proxy, the callees' proxy, callees. Between the proxies are two \
                       networks, 20 ms each way; the first is cut in both directions for a third of the \
                       time, and then restored.",
            runs: "10 calls a second. Between the proxies one SCTP association over both networks, whose \
                   primary path is on the first; or one TCP connection, or UDP, which use the first network only. \
                   On the virtual clock the proxies are Tandem's cores and TCP is smoltcp's; on real \
                   hosts, network namespaces with the emulator between them, they are complete, TCP is the \
                   kernel's, and users are those of `tandem load`.",
            measures: "Calls completed, the longest set-up, and the longest time in which no call was \
                       answered.",
            law: "Data in transit when the path is cut is retransmitted over the other path after the \
                  retransmission timeout, which is RTO.Min for short round trips (RFC 9260 sections 6.3.1, 6.3.3 \
                  and 6.4.1), and with quick failover new data follows at the first timeout (RFC 7829 section \
                  3.2). Each direction detects the failure separately, so a call waits for two timeouts at most. \
                  No call is lost.",
            check: "Over SCTP all calls are completed, and the longest set-up is that without a cut plus two \
                    timeouts, each restarted by a delayed acknowledgement. On real hosts, each of 19 wake-ups on \
                    the way, and the two of the timers, may be as late as the latest wake-up of a separate thread; \
                    UDP and TCP may be answered sooner after the cut by the same time, and if that leaves no \
                    bound, the result is reported without a verdict. Pang 2003 \
                    expects calls to go on over the standby path: found when SCTP completes all calls, \
                    and the others do not, or stall longer.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        let third = Duration::from_secs(match on {
            On::Sim => context.either(40, 120),
            On::Net => context.either(10, 60),
        });
        context.steps(TRUNKS.len() as u64);
        context.begin("the first network is cut and restored");
        let scenarios = TRUNKS.map(|(trunk, _)| Scenario {
            trunk,
            profile: context.profile(),
            loss: 0.0,
            rate: RATE,
            lasts: 3 * third,
            cut: Some((third, 2 * third)),
        });
        let results = run_scenarios(on, context, &scenarios)?;
        let all: Vec<TransportResult> = TRUNKS
            .iter()
            .zip(&results)
            .map(|((trunk, _), results)| TransportResult::of(*trunk, third, results))
            .collect();
        let outcome = Outcome::judged(check(&all, third, context.profile()));
        let late = all.iter().filter(|result| result.cannot_tell(third));
        let outcome = late.fold(outcome, |outcome, result| {
            outcome.note(format!(
                "Whether a call is answered over {} while its path is cut cannot be determined: calls in progress \
                 may be answered {:.1} s late on this machine.",
                result.trunk, result.added
            ))
        });
        Ok(outcome
            .ours(values(&all))
            .published(json!({
                "expectation": "traffic is detoured from the faulty link to the standby link, and a multi-homed \
                 proxy \
                                performs better than a single-homed one (Pang 2003, chapter 6: the multi-homing of \
                                the \
                                stack that was tested there did not work, section 5.5)",
            }))
            .table(table(&all))
            .plot(answered(&all, third))
            .plot(plot(&all, third))
            .note(match on {
                On::Sim => "TCP is smoltcp's; UDP and TCP have no second path in any implementation.",
                On::Net => "TCP is the kernel's; UDP and TCP have no second path.",
            }))
    }
}

impl TransportResult {
    fn of(trunk: Transport, cut: Duration, results: &CallResults) -> TransportResult {
        let seconds = |at: std::time::Instant| (at - results.start).as_secs_f64();
        let setups: Vec<(f64, f64)> = results
            .calls
            .iter()
            .filter_map(|call| Some((seconds(call.began), call.setup()?.as_secs_f64())))
            .collect();
        let completed = results
            .calls
            .iter()
            .filter(|call| call.outcome == CallOutcome::Completed)
            .count();
        let after_cut = setups
            .iter()
            .filter(|(began, _)| *began > cut.as_secs_f64() / 2.0);
        TransportResult {
            trunk,
            calls: results.calls.len(),
            completed,
            left: results.left,
            longest: after_cut.map(|(_, took)| *took).fold(0.0, f64::max),
            stall: results.longest_without_answer().as_secs_f64(),
            added: added(results.lateness.longest).as_secs_f64(),
            added_to_timers: TIMERS * results.lateness.longest.as_secs_f64(),
            setups,
        }
    }

    fn is_cut_off(&self) -> bool {
        self.trunk != Transport::Sctp
    }

    /// How long nobody is answered where there is no other path, seconds. What had passed the first network before
    /// the cut is answered, and nothing else; a machine that is late makes that later.
    fn least_stall(&self, cut_for: Duration) -> f64 {
        cut_for.saturating_sub(undisturbed()).as_secs_f64() - self.added
    }

    /// Whether the machine was so late that nothing is left of that.
    fn cannot_tell(&self, cut_for: Duration) -> bool {
        self.is_cut_off() && self.least_stall(cut_for) <= 0.0
    }
}

/// The longest set-up that the law allows over SCTP, in seconds, on a machine that is never late.
fn longest_allowed(profile: Profile) -> f64 {
    (undisturbed() + 2 * time_out(profile)).as_secs_f64()
}

/// How long what was lost at the cut waits in one direction: the timer begins anew with each acknowledgement
/// (section 6.3.2, R3), of which the last before the cut may have been delayed.
fn time_out(profile: Profile) -> Duration {
    let config = sctp_config(profile);
    config.association.path.rto_min + 2 * TRUNK_DELAY + config.association.sack_delay
}

fn check(all: &[TransportResult], cut_for: Duration, profile: Profile) -> Checks {
    let mut checks = Checks::new();
    for result in all {
        checks.law(
            format!("requests left at the proxies, {}", result.trunk),
            result.left as f64,
            0.0..=0.0,
            "",
        );
        if !result.is_cut_off() {
            let added = result.added + result.added_to_timers;
            let calls = result.calls as f64;
            checks.law(
                "calls completed over SCTP",
                result.completed as f64,
                calls..=calls,
                "calls",
            );
            checks.law(
                "longest set-up over SCTP",
                result.longest,
                undisturbed().as_secs_f64()..=longest_allowed(profile) + added,
                "s",
            );
            // Whoever calls every so often is answered after that.
            checks.law(
                "longest without an answer over SCTP",
                result.stall,
                1.0 / RATE..=(2 * time_out(profile)).as_secs_f64() + 1.0 / RATE + added,
                "s",
            );
        } else if !result.cannot_tell(cut_for) {
            checks.law_holds(
                format!(
                    "no call is answered over {} while its path is cut",
                    result.trunk
                ),
                result.stall >= result.least_stall(cut_for),
                format!("calls are answered after {:.1} s", result.stall),
            );
        }
    }
    let sctp = all.iter().find(|result| result.trunk == Transport::Sctp);
    let others = all.iter().filter(|result| result.trunk != Transport::Sctp);
    let better = |other: &TransportResult| {
        sctp.is_some_and(|sctp| sctp.completed == sctp.calls && sctp.stall < other.stall)
    };
    let worse: Vec<String> = others
        .filter(|other| !better(other))
        .map(|other| other.trunk.to_string())
        .collect();
    checks.found(
        "calls go on over the standby path, and stop without one",
        worse.is_empty(),
        format!("{} did not stop for longer", worse.join(" and ")),
    );
    checks
}

fn values(all: &[TransportResult]) -> Value {
    all.iter()
        .map(|result| {
            json!({
                "between_proxies": result.trunk.to_string(),
                "calls": result.calls,
                "completed": result.completed,
                "longest_set_up_s": result.longest,
                "stall_s": result.stall,
            })
        })
        .collect()
}

fn table(all: &[TransportResult]) -> Table {
    let mut table = Table::new("Calls while the first network is cut")
        .column(Column::text("Between the proxies").key())
        .column(Column::number("begun").group("Calls"))
        .column(Column::number("completed").group("Calls"))
        .column(Column::number("Longest set-up").unit("s"))
        .column(Column::number("Longest without an answer").unit("s"));
    for result in all {
        table.push(Row::new([
            Cell::from(result.trunk.to_string()),
            Cell::number(result.calls as f64, 0),
            Cell::number(result.completed as f64, 0),
            Cell::number(result.longest, 3),
            Cell::number(result.stall, 3),
        ]));
    }
    table
}

/// How many calls have been answered by each second.
fn answered(all: &[TransportResult], third: Duration) -> Plot {
    let seconds = third.as_secs();
    let mut plot = Plot::new(
        "Calls answered so far",
        Axis::new("Time", "s"),
        Axis::new("Calls answered", "calls"),
    )
    .note(cut_note(third));
    for (result, (_, colour)) in all.iter().zip(TRUNKS) {
        let by = |second: f64| {
            let answered = result
                .setups
                .iter()
                .filter(|(began, took)| began + took <= second);
            answered.count() as f64
        };
        let points = (0..=3 * seconds).map(|second| (second as f64, by(second as f64)));
        let name = result.trunk.to_string().to_uppercase();
        plot = plot.series(Series::new(name, colour).points(points));
    }
    plot
}

fn cut_note(third: Duration) -> String {
    let seconds = third.as_secs();
    format!(
        "The first network is cut from {seconds} s to {} s.",
        2 * seconds
    )
}

fn plot(all: &[TransportResult], third: Duration) -> Plot {
    let mut plot = Plot::new(
        "Set-up of calls",
        Axis::new("Call begun at", "s"),
        Axis::new("Answered after", "s"),
    )
    .note(cut_note(third));
    for (result, (_, colour)) in all.iter().zip(TRUNKS) {
        plot = plot
            .series(Series::new(result.trunk.to_string(), colour).points(result.setups.clone()));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(trunk: Transport, stall: f64, added: f64) -> TransportResult {
        TransportResult {
            trunk,
            calls: 0,
            completed: 0,
            left: 0,
            longest: 0.3,
            stall,
            added,
            added_to_timers: added,
            setups: Vec::new(),
        }
    }

    #[test]
    fn a_stall_is_shorter_by_what_was_late_and_where_nothing_is_left_nothing_is_judged() {
        let cut_for = Duration::from_secs(10);
        let fails = |stall, added| {
            let checks = check(
                &[result(Transport::Tcp, stall, added)],
                cut_for,
                Profile::Signalling,
            );
            checks.verdict().0 == crate::verdict::Verdict::Fails
        };
        let least = result(Transport::Tcp, 0.0, 1.0).least_stall(cut_for);
        assert!((least - (9.0 - undisturbed().as_secs_f64())).abs() < 1e-9);
        assert!(!fails(9.0, 1.0));
        assert!(fails(8.0, 1.0));
        assert!(result(Transport::Udp, 0.0, 10.0).cannot_tell(cut_for));
        assert!(!fails(0.0, 10.0));
        assert!(!result(Transport::Sctp, 0.0, 10.0).cannot_tell(cut_for));
    }
}
