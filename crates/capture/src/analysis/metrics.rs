//! What a capture says for the metrics of RFC 6076.

use std::time::Duration;

use measures::{Disconnection, Ending, Metrics};

use super::call::{End, Judged};
use super::registration::Registration;
use super::session::Outcome;

/// Counts a registration.
pub(super) fn add_registration(metrics: &mut Metrics, registration: &Registration) {
    let ending = match (registration.is_undecided, registration.status) {
        (true, _) => Ending::Undecided,
        (false, Some(status)) => Ending::Answered(status),
        (false, None) => Ending::TimedOut,
    };
    metrics.add_registration(ending, registration.request_delay.map(time));
}

/// Counts a session.
pub(super) fn add_session(metrics: &mut Metrics, judged: &Judged) {
    let session = &judged.session;
    let ending = match session.outcome {
        outcome if outcome.is_established() => Ending::Answered(200),
        Outcome::Refused(status) => Ending::Answered(status),
        Outcome::Undecided => Ending::Undecided,
        _ => Ending::TimedOut,
    };
    metrics.add_session(ending, session.session_request_delay.map(time));
    let how = match judged.end {
        End::Answered => Disconnection::Answered,
        End::Refused => Disconnection::Refused,
        End::TimedOut => Disconnection::TimedOut,
        End::None if session.outcome == Outcome::Standing => Disconnection::Standing,
        End::None => return,
    };
    let delay = session.session_disconnect_delay.map(time);
    metrics.add_disconnection(how, delay, session.session_duration.map(time));
}

/// A time in nanoseconds; one below zero (clocks that are not in step) is none.
fn time(nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}
