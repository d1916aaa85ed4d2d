//! What a run of the demo measured.

use std::collections::BTreeMap;

use load::record::Failure;
use load::statistics::Statistics;
use measures::DelaySummary;
use serde::{Serialize, Serializer};
use sip::Transport;
use sip_net::Profile;

use super::condition::{Condition, Line};

/// What was measured with one transport at one packet loss.
///
/// The figures on the wire are of the calls alone, from the first INVITE to the end of the run, and per
/// completed call; registrations are apart.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The transport between users and proxy.
    #[serde(serialize_with = "by_name")]
    pub transport: Transport,
    /// The timers and the loss recovery of SCTP; none with other transports.
    #[serde(serialize_with = "by_name_if_any")]
    pub profile: Option<Profile>,
    /// Packets lost in each direction, in percent.
    pub loss_percent: f64,
    /// Calls begun.
    pub attempted: u64,
    /// Calls set up and ended.
    pub completed: u64,
    /// Calls refused, timed out, or broken.
    pub failed: u64,
    /// Why calls and registrations failed, those that were tried again included, and how often.
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
    #[serde(with = "measures::BriefKeys")]
    pub registration_delay_ms: DelaySummary,
    /// Session request delay of calls that were set up (RFC 6076 section 4.3.1).
    #[serde(with = "measures::BriefKeys")]
    pub session_request_delay_ms: DelaySummary,
    /// Session request delay of calls that were not (RFC 6076 section 4.3.2).
    #[serde(with = "measures::BriefKeys")]
    pub failed_session_request_delay_ms: DelaySummary,
    /// Session disconnect delay (RFC 6076 section 4.4), of successes.
    #[serde(with = "measures::BriefKeys")]
    pub session_disconnect_delay_ms: DelaySummary,
    /// IP packets between users and proxy per completed call, lost ones included.
    pub packets_per_call: Option<f64>,
    /// Bytes of those packets, IP headers included.
    pub bytes_per_call: Option<f64>,
    /// Messages that SIP sent again, users and proxy together.
    pub sip_retransmissions: u64,
    /// Chunks or segments that SCTP or TCP sent again, users and proxy together.
    pub transport_retransmissions: u64,
}

impl Measurement {
    pub(super) fn condition(&self) -> Condition {
        Condition {
            transport: self.transport,
            profile: self.profile,
            loss_percent: self.loss_percent,
        }
    }

    pub(super) fn line(&self) -> Line {
        self.condition().line()
    }

    /// What failed in a run that lost no packet, in a line: a call, or a user who could not register.
    pub fn failed_without_loss(&self) -> Option<String> {
        let line = self.failures()?;
        (self.loss_percent == 0.0).then(|| format!("{}: {line}", self.line().label()))
    }

    /// How many calls and users failed, and what for; `None` where none did.
    pub(super) fn failures(&self) -> Option<String> {
        let unregistered = self.users.saturating_sub(self.registered);
        let calls =
            (self.failed > 0).then(|| format!("{} of {} calls", self.failed, self.attempted));
        let users = (unregistered > 0)
            .then(|| format!("registrations of {unregistered} of {} users", self.users));
        let failed: Vec<_> = calls.into_iter().chain(users).collect();
        if failed.is_empty() {
            return None;
        }
        let causes: Vec<_> = self
            .causes
            .iter()
            .map(|(cause, count)| format!("{cause}: {count}"))
            .collect();
        Some(match causes.is_empty() {
            true => failed.join(", "),
            false => format!("{} ({})", failed.join(", "), causes.join(", ")),
        })
    }
}

/// Why calls and registrations failed, those that were tried again included, in all phases of a run that ended with so many
/// connections that were not open.
pub(super) fn causes<'a>(
    phases: impl IntoIterator<Item = &'a Statistics>,
    unconnected: u32,
) -> BTreeMap<String, u64> {
    /// What a call is refused with that its caller has cancelled, for which there is a reason of its own.
    const REQUEST_TERMINATED: u16 = 487;
    let mut causes = BTreeMap::new();
    let mut count = |cause: String, times: u64| {
        if times > 0 {
            *causes.entry(cause).or_default() += times;
        }
    };
    count("not connected".to_owned(), unconnected.into());
    for statistics in phases {
        let methods = [
            ("INVITE", &statistics.invite_codes),
            ("BYE", &statistics.bye_codes),
            ("REGISTER", &statistics.register_codes),
        ];
        for (method, codes) in methods {
            let refusals = codes.responses().iter();
            for &(code, times) in refusals.filter(|(code, _)| *code >= 300) {
                if (method, code) != ("INVITE", REQUEST_TERMINATED) {
                    count(format!("{method} answered {code}"), times);
                }
            }
            count(format!("{method} not answered"), codes.without_response());
        }
        for &(reason, times) in statistics.failures.reasons() {
            // These are those that have been counted by what was answered.
            let is_counted = matches!(
                reason,
                Failure::Refused | Failure::Unauthorized | Failure::NoResponse
            );
            if !is_counted {
                count(reason.to_string(), times);
            }
        }
    }
    causes
}

fn by_name_if_any<S: Serializer>(
    profile: &Option<Profile>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    profile
        .map(|profile| profile.to_string())
        .serialize(serializer)
}

fn by_name<S: Serializer>(transport: &Transport, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(transport)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn causes_of_all_phases_are_told_by_method_or_reason() {
        let nothing = || Statistics::new(Instant::now(), Duration::from_secs(1));
        let mut registering = nothing();
        for status in [Some(200), Some(503), None] {
            registering.register_codes.count(status);
        }
        registering.failures.count(Failure::Refused);
        registering.failures.count(Failure::NoResponse);
        let mut calling = nothing();
        calling.register_codes.count(Some(503));
        calling.invite_codes.count(Some(200));
        calling.bye_codes.count(Some(481));
        // A call that was cancelled has one reason.
        calling.invite_codes.count(Some(487));
        calling.failures.count(Failure::GivenUp);
        let told: Vec<_> = causes([&registering, &calling], 1).into_iter().collect();
        let expected = [
            ("BYE answered 481", 1),
            ("REGISTER answered 503", 2),
            ("REGISTER not answered", 1),
            ("given up", 1),
            ("not connected", 1),
        ];
        assert_eq!(
            told,
            expected.map(|(cause, count)| (cause.to_owned(), count))
        );
        assert!(causes([&nothing()], 0).is_empty());
    }
}
