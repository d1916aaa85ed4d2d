//! What a run of the demo measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use load::record::Failure;
use load::statistics::Statistics;
use report::Summary;
use serde::{Serialize, Serializer};
use sip::Transport;

/// One transport at one packet loss.
///
/// The figures on the wire are of the calls alone, from the first INVITE to the end of the run, and per
/// completed call; registrations are apart.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The transport between users and proxy.
    #[serde(serialize_with = "by_name")]
    pub transport: Transport,
    /// Packets lost in each direction, in percent.
    pub loss_percent: f64,
    /// Calls begun.
    pub attempted: u64,
    /// Calls set up and ended.
    pub completed: u64,
    /// Calls refused, timed out, or broken.
    pub failed: u64,
    /// What calls and registrations failed for, those that were tried again included, and how often.
    pub causes: BTreeMap<String, u64>,
    /// Calls under way when the time was up.
    pub unfinished: u64,
    /// Calls that an open loop did not begin because too many were under way.
    pub not_started: u64,
    /// How long calls were made, in seconds.
    pub seconds: f64,
    /// Completed calls per second.
    pub calls_per_second: f64,
    /// Users that had to register.
    pub users: u64,
    /// Users that could.
    pub registered: u64,
    /// Registration request delay (RFC 6076 section 4.1), of successes.
    pub registration_delay_ms: Summary,
    /// Session request delay of calls that were set up (RFC 6076 section 4.3.1).
    pub session_request_delay_ms: Summary,
    /// Session request delay of calls that were not (RFC 6076 section 4.3.2).
    pub failed_session_request_delay_ms: Summary,
    /// Session disconnect delay (RFC 6076 section 4.4), of successes.
    pub session_disconnect_delay_ms: Summary,
    /// IP packets between users and proxy per completed call, lost ones included.
    pub packets_per_call: Option<f64>,
    /// Bytes of those packets, IP headers included.
    pub bytes_per_call: Option<f64>,
    /// Messages that SIP sent again, users and proxy together.
    pub sip_retransmissions: u64,
    /// Chunks or segments that SCTP or TCP sent again, users and proxy together.
    pub transport_retransmissions: u64,
}

impl Run {
    /// What failed in a run that lost no packet, in a line: a call, or a user who could not register.
    pub fn failed_without_loss(&self) -> Option<String> {
        let unregistered = self.users.saturating_sub(self.registered);
        if self.loss_percent != 0.0 || self.failed == 0 && unregistered == 0 {
            return None;
        }
        let mut line = format!(
            "{}: {} of {} calls",
            self.transport, self.failed, self.attempted
        );
        if unregistered > 0 {
            let users = self.users;
            // Writing to a string cannot fail.
            let _ = write!(line, ", registrations of {unregistered} of {users} users");
        }
        if let Some(causes) = self.told_causes() {
            line = format!("{line} ({causes})");
        }
        Some(line)
    }

    /// What calls and registrations failed for, in words; `None` where nothing did.
    pub(super) fn told_causes(&self) -> Option<String> {
        let causes = self.causes.iter();
        let told: Vec<_> = causes
            .map(|(cause, count)| format!("{cause}: {count}"))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// What requests were refused with and attempts failed for otherwise, in all of a run's phases.
pub(super) fn causes<'a>(
    phases: impl IntoIterator<Item = &'a Statistics>,
) -> BTreeMap<String, u64> {
    let mut causes = BTreeMap::new();
    for statistics in phases {
        let methods = [
            ("INVITE", &statistics.invite_codes),
            ("BYE", &statistics.bye_codes),
            ("REGISTER", &statistics.register_codes),
        ];
        for (method, codes) in methods {
            let refusals = codes.responses().iter().filter(|(code, _)| *code >= 300);
            for (code, count) in refusals {
                *causes
                    .entry(format!("{method} answered {code}"))
                    .or_default() += count;
            }
        }
        // A refusal has been told with its code.
        let reasons = statistics.failures.reasons().iter();
        for (reason, count) in reasons.filter(|(reason, _)| *reason != Failure::Refused) {
            *causes.entry(reason.to_string()).or_default() += count;
        }
    }
    causes
}

fn by_name<S: Serializer>(transport: &Transport, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(transport)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn causes_of_all_phases_are_told_by_code_or_reason() {
        let nothing = || Statistics::new(Instant::now(), Duration::from_secs(1));
        let mut registering = nothing();
        registering.register_codes.count(Some(200));
        registering.register_codes.count(Some(503));
        registering.failures.count(Failure::Refused);
        let mut calling = nothing();
        calling.failures.count(Failure::NoResponse);
        calling.failures.count(Failure::NoResponse);
        calling.register_codes.count(Some(503));
        let told: Vec<_> = causes([&registering, &calling]).into_iter().collect();
        let expected = [("REGISTER answered 503", 2), ("no response", 2)];
        assert_eq!(
            told,
            expected.map(|(cause, count)| (cause.to_owned(), count))
        );
    }
}
