//! The metrics of RFC 6076.

use serde::Serialize;

use super::call::{End, Judged};
use super::delays::{DelaySummary, Delays};
use super::registration::Registration;
use super::session::Outcome;

/// What the metrics of RFC 6076 are made of.
///
/// A session request is an INVITE outside of a dialog, with those that repeat it with credentials or at
/// another place after a 3xx. One that cannot be judged, because the capture ends too early, is in no ratio.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Registration Request Delay (section 4.1), of registrations that succeeded.
    pub registration_request_delay: Delays,
    /// Registration attempts that were decided.
    pub registrations: u64,
    /// Ineffective Registration Attempts (section 4.2): refused or not answered.
    pub ineffective_registrations: u64,
    /// Registration attempts that the capture's end left open.
    pub undecided_registrations: u64,
    /// Session Request Delay of sessions that were set up (section 4.3.1).
    pub session_request_delay: Delays,
    /// Session Request Delay of sessions that failed to be (section 4.3.2).
    pub failed_session_request_delay: Delays,
    /// Session Disconnect Delay, where the BYE was answered with 2xx (section 4.4).
    pub session_disconnect_delay: Delays,
    /// Session Disconnect Delay, where the BYE was refused (section 4.4).
    pub failed_session_disconnect_delay: Delays,
    /// Session Duration Time of sessions that were ended (section 4.5.1).
    pub session_duration: Delays,
    /// Session Duration Time of sessions whose BYE nobody answered (section 4.5.2).
    pub failed_session_duration: Delays,
    /// Session requests that were decided.
    pub session_requests: u64,
    /// Of these, answered with 2xx.
    pub established: u64,
    /// Of these, answered with 3xx in the end.
    pub redirected: u64,
    /// Of these, answered with 480, 486, 600 or 603.
    pub refused_by_user: u64,
    /// Of these, ended with 408, 500, 503 or 504 (section 4.8), or by a time-out, which RFC 3261 section
    /// 8.1.3.1 has treated as a 408.
    pub ineffective_sessions: u64,
    /// Of these, set up and ended by a BYE that was answered (section 4.9).
    pub completed: u64,
    /// Session requests that are neither refused nor ended when the capture ends.
    pub undecided_sessions: u64,
    /// Sessions that still stand when the capture ends: they are established, but not complete.
    pub standing_sessions: u64,
}

/// The metrics in numbers, under their names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricsSummary {
    /// RRD.
    pub registration_request_delay_ms: DelaySummary,
    /// IRA.
    pub ineffective_registration_attempts_percent: Option<f64>,
    /// SRD, successful.
    pub session_request_delay_s: DelaySummary,
    /// SRD, failed.
    pub failed_session_request_delay_s: DelaySummary,
    /// SDD, successful.
    pub session_disconnect_delay_ms: DelaySummary,
    /// SDD, failed.
    pub failed_session_disconnect_delay_ms: DelaySummary,
    /// SDT, successful.
    pub session_duration_time_s: DelaySummary,
    /// SDT, failed.
    pub failed_session_duration_time_s: DelaySummary,
    /// SER.
    pub session_establishment_ratio_percent: Option<f64>,
    /// SEER.
    pub session_establishment_effectiveness_ratio_percent: Option<f64>,
    /// ISA.
    pub ineffective_session_attempts_percent: Option<f64>,
    /// SCR.
    pub session_completion_ratio_percent: Option<f64>,
}

impl Metrics {
    pub(crate) fn add_registration(&mut self, registration: &Registration) {
        if registration.is_undecided {
            self.undecided_registrations += 1;
            return;
        }
        self.registrations += 1;
        match registration.request_delay {
            Some(delay) => self.registration_request_delay.record(delay),
            None => {
                // Section 4.2 lists 4xx less the challenges, 5xx, 6xx and Timer F.
                let is_ineffective = match registration.status {
                    Some(401 | 402 | 407) => false,
                    Some(status) => matches!(status, 400..=699),
                    None => true,
                };
                self.ineffective_registrations += u64::from(is_ineffective);
            }
        }
    }

    pub(crate) fn add_session(&mut self, judged: &Judged) {
        let session = &judged.session;
        let outcome = session.outcome;
        if outcome == Outcome::Undecided {
            self.undecided_sessions += 1;
            return;
        }
        self.session_requests += 1;
        let request_delays = match outcome {
            _ if outcome.is_established() => Some(&mut self.session_request_delay),
            // Neither a success nor a failure as section 4.3.2 lists them.
            Outcome::Refused(300..=399 | 401 | 402 | 407) => None,
            _ => Some(&mut self.failed_session_request_delay),
        };
        if let (Some(delays), Some(delay)) = (request_delays, session.session_request_delay) {
            delays.record(delay);
        }
        match outcome {
            Outcome::Refused(300..=399) => self.redirected += 1,
            Outcome::Refused(480 | 486 | 600 | 603) => self.refused_by_user += 1,
            Outcome::Refused(408 | 500 | 503 | 504) | Outcome::Unanswered => {
                self.ineffective_sessions += 1;
            }
            _ => {}
        }
        self.established += u64::from(outcome.is_established());
        self.completed += u64::from(judged.end == End::Answered);
        self.standing_sessions += u64::from(outcome == Outcome::Standing);
        let disconnect_delays = match judged.end {
            End::Answered => Some(&mut self.session_disconnect_delay),
            End::Refused => Some(&mut self.failed_session_disconnect_delay),
            End::None | End::TimedOut => None,
        };
        if let (Some(delays), Some(delay)) = (disconnect_delays, session.session_disconnect_delay) {
            delays.record(delay);
        }
        let durations = match judged.end {
            End::Answered | End::Refused => Some(&mut self.session_duration),
            End::TimedOut => Some(&mut self.failed_session_duration),
            End::None => None,
        };
        if let (Some(durations), Some(duration)) = (durations, session.session_duration) {
            durations.record(duration);
        }
    }

    /// IRA in percent; `None` without a registration.
    pub fn ineffective_registration_attempts(&self) -> Option<f64> {
        percent(self.ineffective_registrations, self.registrations)
    }

    /// SER in percent (section 4.6); `None` without a session request that was not redirected.
    pub fn session_establishment_ratio(&self) -> Option<f64> {
        percent(self.established, self.session_requests - self.redirected)
    }

    /// SEER in percent (section 4.7).
    pub fn session_establishment_effectiveness_ratio(&self) -> Option<f64> {
        percent(
            self.established + self.refused_by_user,
            self.session_requests - self.redirected,
        )
    }

    /// ISA in percent (section 4.8).
    pub fn ineffective_session_attempts(&self) -> Option<f64> {
        percent(self.ineffective_sessions, self.session_requests)
    }

    /// SCR in percent (section 4.9): of all session requests, of which those that still stand are not
    /// complete.
    pub fn session_completion_ratio(&self) -> Option<f64> {
        percent(self.completed, self.session_requests)
    }

    /// Everything in numbers.
    pub fn summary(&self) -> MetricsSummary {
        MetricsSummary {
            registration_request_delay_ms: self.registration_request_delay.milliseconds(),
            ineffective_registration_attempts_percent: self.ineffective_registration_attempts(),
            session_request_delay_s: self.session_request_delay.seconds(),
            failed_session_request_delay_s: self.failed_session_request_delay.seconds(),
            session_disconnect_delay_ms: self.session_disconnect_delay.milliseconds(),
            failed_session_disconnect_delay_ms: self.failed_session_disconnect_delay.milliseconds(),
            session_duration_time_s: self.session_duration.seconds(),
            failed_session_duration_time_s: self.failed_session_duration.seconds(),
            session_establishment_ratio_percent: self.session_establishment_ratio(),
            session_establishment_effectiveness_ratio_percent: self
                .session_establishment_effectiveness_ratio(),
            ineffective_session_attempts_percent: self.ineffective_session_attempts(),
            session_completion_ratio_percent: self.session_completion_ratio(),
        }
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}
