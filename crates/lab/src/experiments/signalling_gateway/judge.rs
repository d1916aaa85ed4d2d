//! What happened against the law, and beside the published claim.

use std::time::Duration;

use m3ua::AsState;
use serde_json::json;

use super::cluster::{SGPS, T_R};
use super::observation::Observation;
use super::plan::{KILLED_ASP, KILLED_SGP};
use super::{DELAY, Watch};
use crate::checks::Checks;

/// The SGP that lives on, which tells what becomes of the application server.
const LIVING_SGP: usize = SGPS - 1;

/// How old the last sign of life is at most when a process dies: every ASP speaks to every SGP as often.
const LAST_HEARD: f64 = 0.1;

/// T3-rtx starts with the last acknowledgement, which may have been delayed by 0.2 s, or after a probe.
const BEFORE_T3: f64 = 0.5;

/// RTO.Min.
const RTO_MIN: f64 = 1.0;

/// What one trial has shown; times in seconds.
pub(super) struct Figures {
    is_set_up: bool,
    misplaced: usize,
    pub(super) cut: Cut,
    pub(super) asp: Death,
    pub(super) sgp: Death,
    pub(super) pending: Pending,
}

/// A path is cut.
pub(super) struct Cut {
    /// Changes of states.
    changes: usize,
    pub(super) lost: usize,
    pub(super) longest_delay: f64,
}

/// A process dies.
pub(super) struct Death {
    /// When the first and the last of the others found it.
    pub(super) found_least: f64,
    pub(super) found_most: f64,
    /// Messages lost that were handed over before that, and from then on.
    pub(super) lost_before: usize,
    pub(super) lost_after: usize,
}

/// The application server has no active ASP.
pub(super) struct Pending {
    /// Messages lost that were handed over until an ASP was active again.
    pub(super) lost: usize,
    pub(super) longest_delay: f64,
    /// From AS-PENDING until the end of it, when nobody came.
    pub(super) recovery: f64,
    /// Messages that waited then, and were discarded.
    pub(super) discarded: usize,
    /// Messages lost for good that were handed over since.
    lost_since: usize,
}

impl Figures {
    pub(super) fn of(observation: &Observation) -> Figures {
        let plan = &observation.plan;
        let death = |killed, at: Duration, until: Duration| {
            let found = observation.detections(killed);
            let seconds = |time: Option<&Duration>| time.map_or(f64::NAN, Duration::as_secs_f64);
            // What was on its way is lost, too.
            let missing = observation.missing(at.saturating_sub(4 * DELAY), until);
            let lost_after = observation.after_the_loss(&missing, killed, at);
            Death {
                found_least: seconds(found.iter().min()),
                found_most: seconds(found.iter().max()),
                lost_before: missing.len() - lost_after,
                lost_after,
            }
        };
        let end = plan.end + Duration::from_secs(1);
        // What the SS7 network has handed over. An ASP that has asked to be inactive may send no more.
        let missing_at_asps = |from, to| {
            let missing = observation.missing(from, to).into_iter();
            missing.filter(|it| it.text.sender.is_none()).count()
        };
        let pending = observation.server_became(LIVING_SGP, AsState::Pending, plan.abandoned);
        let given_up = observation.server_became(LIVING_SGP, AsState::Inactive, plan.abandoned);
        let recovery = pending
            .zip(given_up)
            .map(|(from, to)| to.saturating_sub(from));
        Figures {
            is_set_up: observation.all_are_active(plan.begin),
            misplaced: observation.misplaced(),
            cut: Cut {
                changes: observation.changes(plan.begin, plan.asp_killed),
                lost: observation
                    .missing(plan.begin, plan.asp_killed - 4 * DELAY)
                    .len(),
                longest_delay: observation
                    .longest_delay(plan.begin, plan.asp_killed)
                    .as_secs_f64(),
            },
            asp: death(KILLED_ASP, plan.asp_killed, plan.sgp_killed - 4 * DELAY),
            sgp: death(KILLED_SGP, plan.sgp_killed, plan.withdrawn),
            pending: Pending {
                lost: missing_at_asps(plan.withdrawn, plan.abandoned),
                longest_delay: observation
                    .longest_delay(plan.withdrawn, plan.abandoned)
                    .as_secs_f64(),
                recovery: recovery.map_or(f64::NAN, |it| it.as_secs_f64()),
                discarded: observation.discarded(),
                lost_since: missing_at_asps(plan.abandoned, end),
            },
        }
    }
}

/// When a dead process is found, by law.
fn detection(watch: &Watch) -> std::ops::RangeInclusive<f64> {
    match (watch.t_beat, watch.association_errors) {
        (Some(t_beat), _) => {
            let t_beat = t_beat.as_secs_f64();
            2.0 * t_beat - LAST_HEARD..=3.0 * t_beat
        }
        (None, errors) => {
            let [side_by_side, in_turn] = error_times(errors.unwrap_or(10) + 1);
            side_by_side - BEFORE_T3..=in_turn + BEFORE_T3
        }
    }
}

/// When so many errors have been counted on two paths whose RTO doubles with each error: if both fail side by side, and if they
/// take turns.
fn error_times(errors: u32) -> [f64; 2] {
    let expiries = |count: u32| RTO_MIN * (2_f64.powi(count as i32) - 1.0);
    let (more, fewer) = (errors.div_ceil(2), errors / 2);
    [expiries(more), expiries(more) + expiries(fewer)]
}

pub(super) fn judge(checks: &mut Checks, watch: &Watch, trials: &[Figures]) {
    let name = watch.name;
    let worst = |figure: fn(&Figures) -> f64| trials.iter().map(figure).fold(0.0, f64::max);
    let best =
        |figure: fn(&Figures) -> f64| trials.iter().map(figure).fold(f64::INFINITY, f64::min);
    let none = |checks: &mut Checks, what: &str, count: usize| {
        let detail = format!("{count} in {} trials", trials.len());
        checks.law_holds(format!("{name}: {what}"), count == 0, detail);
    };
    let sum = |figure: fn(&Figures) -> usize| trials.iter().map(figure).sum::<usize>();
    none(
        checks,
        "all ASPs become active at all SGPs",
        sum(|it| usize::from(!it.is_set_up)),
    );
    none(
        checks,
        "messages with one SLS arrive in order and once",
        sum(|it| it.misplaced),
    );
    none(
        checks,
        "no state changes while a path is cut",
        sum(|it| it.cut.changes),
    );
    none(
        checks,
        "nothing is lost while a path is cut",
        sum(|it| it.cut.lost),
    );
    checks.law(
        format!("{name}: longest delay while a path is cut"),
        worst(|it| it.cut.longest_delay),
        DELAY.as_secs_f64()..=RTO_MIN + BEFORE_T3,
        "s",
    );
    let found = detection(watch);
    for (what, least, most) in [
        (
            "a dead ASP is found",
            best(|it| it.asp.found_least),
            worst(|it| it.asp.found_most),
        ),
        (
            "a dead SGP is found",
            best(|it| it.sgp.found_least),
            worst(|it| it.sgp.found_most),
        ),
    ] {
        checks.law(
            format!("{name}: {what}, soonest"),
            least,
            found.clone(),
            "s",
        );
        checks.law(format!("{name}: {what}, latest"), most, found.clone(), "s");
    }
    none(
        checks,
        "nothing is lost that is handed over after an ASP is known to be dead",
        sum(|it| it.asp.lost_after),
    );
    none(
        checks,
        "nothing is lost that is handed over after an SGP is known to be dead",
        sum(|it| it.sgp.lost_after),
    );
    none(
        checks,
        "what waits while no ASP is active arrives when one is",
        sum(|it| it.pending.lost),
    );
    let t_r = T_R.as_secs_f64();
    let t_r = t_r..=t_r + 0.001;
    checks.law(
        format!("{name}: T(r) ends AS-PENDING, soonest"),
        best(|it| it.pending.recovery),
        t_r.clone(),
        "s",
    );
    checks.law(
        format!("{name}: T(r) ends AS-PENDING, latest"),
        worst(|it| it.pending.recovery),
        t_r.clone(),
        "s",
    );
    none(
        checks,
        "what is lost with T(r) is what waited",
        sum(|it| it.pending.lost_since.abs_diff(it.pending.discarded)),
    );
}

pub(super) fn compare_with_document(checks: &mut Checks, all: &[Vec<Figures>]) {
    let mut trials = all.iter().flatten();
    let goes_on = trials.all(|it| it.asp.lost_after + it.sgp.lost_after + it.cut.lost == 0);
    checks.found(
        "Jungmaier 2000: a cluster of ASPs avoids single points of failure",
        goes_on,
        "messages are lost for good after one failure",
    );
}

pub(super) fn to_json(watch: &Watch, trials: &[Figures]) -> serde_json::Value {
    let death = |death: &Death| {
        json!({
            "found_least_s": death.found_least,
            "found_most_s": death.found_most,
            "lost_before": death.lost_before,
            "lost_after": death.lost_after,
        })
    };
    let trials = trials.iter().map(|it| {
        json!({
            "cut": {
                "state_changes": it.cut.changes,
                "lost": it.cut.lost,
                "longest_delay_s": it.cut.longest_delay,
            },
            "asp_dies": death(&it.asp),
            "sgp_dies": death(&it.sgp),
            "no_asp": {
                "lost_within_t_r": it.pending.lost,
                "longest_delay_s": it.pending.longest_delay,
                "t_r_s": it.pending.recovery,
                "discarded": it.pending.discarded,
            },
            "out_of_order": it.misplaced,
        })
    });
    let law = detection(watch);
    json!({
        "watched_by": watch.name,
        "found_by_law_s": [law.start(), law.end()],
        "trials": trials.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_on_two_paths_come_side_by_side_or_in_turn() {
        assert_eq!(error_times(5), [7.0, 10.0]);
        assert_eq!(error_times(1), [1.0, 1.0]);
        assert_eq!(error_times(11), [63.0, 94.0]);
    }
}
