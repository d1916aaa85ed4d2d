//! What happened against the law, and beside the published findings.

use std::time::Duration;

use super::Rules;
use super::cut::{DELAY, Observation};
use super::loss::{Halts, Odd};
use super::timing::INTERVAL;
use crate::checks::Checks;
use crate::laws::expiries;
use crate::published::stated;

/// RFC 9260 section 8.2: the path is inactive when the counter exceeds Path.Max.Retrans.
pub(super) const ERRORS_UNTIL_INACTIVE: usize = 6;

/// T3-rtx starts anew with each acknowledgement, of every second packet: it may run since the
/// packet before the last but one.
const EARLY: Duration = INTERVAL.saturating_mul(2);
/// It starts with the last acknowledgement that was on its way when the path was cut, or with the
/// next message.
const LATE: Duration = INTERVAL;
pub(super) fn judge_observation(checks: &mut Checks, rules: &Rules, observation: &Observation) {
    let (config, granularity) = (&observation.timing.config, observation.timing.granularity);
    let name = rules.name;
    let after_cut = |at: Duration| at.as_secs_f64() - observation.cut.as_secs_f64();
    // The round-trip time is far below RTO.Min.
    let by_law: Vec<Duration> = expiries(
        config.association.path.rto_min,
        config.association.path.rto_max,
    )
    .take(ERRORS_UNTIL_INACTIVE)
    .collect();
    // Each expiry starts from the one before, with the next message at the latest.
    let allowed = |index: usize| {
        let law = by_law[index];
        let late = LATE + (INTERVAL + granularity) * index as u32 + granularity;
        law.saturating_sub(EARLY + granularity).as_secs_f64()..=(law + late).as_secs_f64()
    };

    checks.law_holds(
        format!("{name}: every message arrives once and in order"),
        observation.is_whole(),
        format!(
            "{} messages were sent, and {} arrive, {} of them not in their place",
            observation.sent,
            observation.arrivals.len(),
            (0..)
                .zip(&observation.arrivals)
                .filter(|(place, (_, number))| place != number)
                .count()
        ),
    );
    let astray = observation
        .sent_again()
        .filter(|chunk| (observation.cut..observation.mended).contains(&chunk.at))
        .filter(|chunk| chunk.before == Some(chunk.path))
        .count();
    checks.law_holds(
        format!("{name}: retransmissions go to the other path"),
        astray == 0 && observation.sent_again().count() > 0,
        format!(
            "{} chunks are sent again, {astray} of them to the path that is cut",
            observation.sent_again().count()
        ),
    );
    // With quick failover errors after the first are HEARTBEATs without an answer: each goes out when the one
    // before has gone unanswered for an RTO, which doubles, and HB.interval and its jitter have no part in it
    // (RFC 7829 section 3.2, rules 5 and 6). So their times are those of T3-rtx.
    let times: Vec<Duration> = observation.expiries().collect();
    for index in 0..ERRORS_UNTIL_INACTIVE {
        let measured = times.get(index).map_or(f64::NAN, |at| after_cut(*at));
        checks.law(
            format!("{name}: error {} after the cut", index + 1),
            measured,
            allowed(index),
            "s",
        );
    }
    let inactive = observation.inactive().map_or(f64::NAN, after_cut);
    let last = ERRORS_UNTIL_INACTIVE - 1;
    checks.law(
        format!("{name}: inactive at error {ERRORS_UNTIL_INACTIVE}"),
        inactive,
        allowed(last),
        "s",
    );

    // New data moves over when the path is inactive, or when it may have failed: after what was lost,
    // which may fill the new path's window for two round trips.
    let (low, high) = allowed(if rules.quick { 0 } else { last }).into_inner();
    checks.law(
        format!("{name}: new data goes to the other path after the cut"),
        observation.moved().map_or(f64::NAN, after_cut),
        low..=high + (4 * DELAY).as_secs_f64(),
        "s",
    );

    // Between two expiries nothing can arrive.
    let (index, law) = if rules.quick {
        (0, by_law[0])
    } else {
        (last, by_law[last] - by_law[last - 1])
    };
    let slack = granularity + EARLY + LATE + 2 * DELAY + (INTERVAL + granularity) * index as u32;
    checks.law(
        format!("{name}: longest silence"),
        observation.longest_silence().as_secs_f64(),
        law.saturating_sub(slack).as_secs_f64()..=(law + slack).as_secs_f64(),
        "s",
    );

    // The HEARTBEAT may be due at once. RTO has doubled up to RTO.Max.
    let latest = config.association.path.hb_interval
        + config.association.path.rto_max * 3 / 2
        + 2 * DELAY
        + INTERVAL
        + granularity;
    let returned = observation.returned().map_or(f64::NAN, |at| {
        at.as_secs_f64() - observation.mended.as_secs_f64()
    });
    checks.law(
        format!("{name}: back on the primary path after the repair"),
        returned,
        0.0..=latest.as_secs_f64(),
        "s",
    );
}

pub(super) fn judge_halts(checks: &mut Checks, halts: &Halts) {
    let Odd {
        doubled,
        unexplained,
        uneven,
        astray,
    } = &halts.odd;
    for (what, things, tally, is_timed) in [
        ("no message arrives twice", "messages", doubled, false),
        (
            "a halt of more than RTO.Min ends one trip after a timeout, or after the answer to a HEARTBEAT makes \
             another path usable",
            "halts",
            unexplained,
            true,
        ),
        ("timeouts in a row double", "timeouts", uneven, true),
        (
            "retransmissions after a timeout go to another path without errors",
            "chunks",
            astray,
            false,
        ),
    ] {
        let first = tally.first.as_deref().unwrap_or_default();
        checks.law_holds(
            format!("15 % loss: {what}"),
            tally.broken == 0 && tally.all > 0,
            format!(
                "{} of {} {things} are not so; {first}",
                tally.broken, tally.all
            ),
        );
        if is_timed {
            checks.depends_on_time();
        }
    }
}

pub(super) fn compare_with_documents(
    checks: &mut Checks,
    observations: &[Observation],
    halts: Option<&Halts>,
) {
    let Some(plain) = observations.first() else {
        return;
    };
    checks.found(
        "SCTP thesis 2011: data moves over when the primary path is inactive, and back when it is restored",
        plain.moved().is_some() && plain.returned().is_some(),
        "data does not move over and back",
    );
    let expected = stated("failover", "consecutive retransmissions until inactive");
    // A counter that is looked at now and then may be seen a little after the event.
    let errors = plain.inactive().map_or(0, |inactive| {
        let seen = inactive + plain.timing.granularity;
        plain.expiries().filter(|at| *at <= seen).count()
    });
    checks.found(
        "SCTP thesis 2011: five expiries of T3-rtx make the path inactive",
        errors as f64 == expected,
        format!(
            "it takes {errors}: RFC 9260 section 8.2 requires the counter to exceed Path.Max.Retrans (5)"
        ),
    );
    checks.found(
        "Pang 2003: lksctp never leaves the path that was cut",
        plain.moved().is_none(),
        "that was a fault of that version, as its developers confirmed; Tandem moves over",
    );
    let Some(halts) = halts else {
        return;
    };
    let (single, multi) = (halts.median_single(), halts.median_multi());
    let [longer, shorter] =
        ["single-homed stall", "multi-homed stall"].map(|halt| stated("failover", halt));
    checks.found(
        format!("Pang 2003: at 15 % loss a single-homed pair halts for more than {longer} s"),
        single > longer,
        format!("half of the trials halt no longer than {single:.1} s"),
    );
    let (trials, least) = (halts.single.len(), least_significant(halts.single.len()));
    checks.found(
        "Pang 2003: a multi-homed pair halts for a shorter time",
        halts.shorter() >= least,
        format!(
            "it does in {} of {trials} trials, which is not significant",
            halts.shorter()
        ),
    );
    // Printed with one decimal.
    checks.found(
        format!("Pang 2003: a multi-homed pair halts for about {shorter} s"),
        (multi - shorter).abs() <= 0.1,
        format!(
            "the median is {multi:.1} s: a retransmission that is lost again on the other path waits for \
             another T3-rtx, of one second at least (RTO.Min)"
        ),
    );
}

/// The least number of successes of so many even trials that chance alone reaches no more often
/// than once in a thousand times (sign test).
fn least_significant(trials: usize) -> usize {
    // From the top down: the probability of so many successes or more.
    let mut probability = 0.5_f64.powi(trials as i32);
    let mut tail = 0.0;
    let mut least = trials + 1;
    for successes in (0..=trials).rev() {
        tail += probability;
        if tail > 1e-3 {
            break;
        }
        least = successes;
        probability *= successes as f64 / (trials - successes + 1) as f64;
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_the_binomial_one() {
        // 2^-10 is below a thousandth, 11 * 2^-10 is not.
        assert_eq!(least_significant(10), 10);
        // Of 30 trials: P(X >= 24) = 0.000715, P(X >= 23) = 0.0026.
        assert_eq!(least_significant(30), 24);
        // Nothing proves anything in nine trials.
        assert_eq!(least_significant(9), 10);
    }
}
