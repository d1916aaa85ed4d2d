//! What records say for the metrics of RFC 6076.

use measures::{Disconnection, Ending, Metrics};

use crate::record::{Attempt, CallRecord, Failure, Outcome, RegistrationRecord};

/// Counts a registration.
pub(super) fn add_registration(metrics: &mut Metrics, record: &RegistrationRecord) {
    metrics.add_registration(ending(&record.attempt), record.answered);
}

/// Counts what is known of a session when it is set up, or fails to be.
pub(super) fn add_setup(metrics: &mut Metrics, record: &CallRecord) {
    // To the first provisional response beyond 100, or the final one where there was none.
    let indicated = record.progress.or(record.answered);
    let delay = indicated.map(|indicated| record.since_first_invite(indicated));
    metrics.add_session(ending(&record.attempt), delay);
}

/// Counts how a session ended that was set up.
pub(super) fn add_end(metrics: &mut Metrics, record: &CallRecord) {
    let (Some(200..=299), Some(answered)) = (record.attempt.status, record.answered) else {
        return;
    };
    let outcome = record.attempt.outcome;
    let Some(bye) = record.bye else {
        let how = match outcome {
            Outcome::Failed(_) => Disconnection::Broken,
            Outcome::Completed | Outcome::Unfinished => Disconnection::Standing,
        };
        metrics.add_disconnection(how, None, None);
        return;
    };
    let lasted = bye.saturating_sub(answered);
    if record.is_bye_from_peer {
        // It was answered when it came; how long that took is the peer's to measure.
        metrics.add_disconnection(Disconnection::Answered, None, Some(lasted));
        return;
    }
    match (record.bye_status, record.bye_answered) {
        (Some(status), Some(disconnected)) => {
            let how = match status {
                200..=299 => Disconnection::Answered,
                _ => Disconnection::Refused,
            };
            let delay = disconnected.saturating_sub(bye);
            metrics.add_disconnection(how, Some(delay), Some(lasted));
        }
        _ if outcome == Outcome::Unfinished => {
            metrics.add_disconnection(Disconnection::Standing, None, None);
        }
        _ => {
            let lasted = record.attempt.ended.saturating_sub(answered);
            metrics.add_disconnection(Disconnection::TimedOut, None, Some(lasted));
        }
    }
}

/// How the request of an attempt ended. What the end of the run left open, or the generator's own script could not
/// go on with, tells nothing of the server.
fn ending(attempt: &Attempt) -> Ending {
    match (attempt.status, attempt.outcome) {
        (Some(status), _) => Ending::Answered(status),
        (None, Outcome::Completed | Outcome::Unfinished) => Ending::Undecided,
        (None, Outcome::Failed(Failure::Script | Failure::Check)) => Ending::Undecided,
        (None, Outcome::Failed(Failure::NoResponse)) => Ending::TimedOut,
        (None, Outcome::Failed(_)) => Ending::Broken,
    }
}
