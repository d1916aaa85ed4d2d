//! The metrics of RFC 6076.

use serde::Serialize;

use super::delays::{DelaySummary, Delays};
use crate::record::{Attempt, CallRecord, Failure, Outcome, RegistrationRecord};

/// What the metrics of RFC 6076 are made of.
///
/// A session request is an INVITE outside of a dialog, with those that repeat it with credentials or at
/// another place after a 3xx: sections 4.6 and 4.7 take requests with a 3xx from the total, so one that was
/// redirected and then answered counts as one that was answered. What the end of a run or a failure of the
/// generator's own left undecided says nothing about a server and is in no ratio.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Registration Request Delay (section 4.1), of registrations that succeeded.
    pub registration_request_delay: Delays,
    /// Registration attempts that were decided.
    pub registrations: u64,
    /// Ineffective Registration Attempts (section 4.2): refused or not answered. A 3xx is neither, nor a
    /// connection that was lost, which is among the reasons of failures alone.
    pub ineffective_registrations: u64,
    /// Registration attempts that the end of the run left open, or a failure of the generator's own.
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
    /// 8.1.3.1 has treated as a 408, or a fatal error of the transport, which it has treated as a 503.
    pub ineffective_sessions: u64,
    /// Of these, set up and ended by a BYE that was answered (section 4.9).
    pub completed: u64,
    /// Session requests that the end of the run left open, or a failure of the generator's own.
    pub undecided_sessions: u64,
    /// Sessions that were set up and not ended when the run ended: they are established, but not complete.
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
    /// Counts a registration.
    pub(super) fn add_registration(&mut self, record: &RegistrationRecord) {
        let attempt = &record.attempt;
        match (attempt.status, record.answered) {
            (Some(200..=299), Some(answered)) => {
                self.registrations += 1;
                // From the first REGISTER on, an expected challenge included (section 4.1).
                self.registration_request_delay.record(answered);
            }
            (None, _) if is_left_open(attempt.outcome) => self.undecided_registrations += 1,
            (status, _) => {
                self.registrations += 1;
                // Section 4.2 lists 4xx less the challenges, 5xx, 6xx and Timer F.
                let is_ineffective = match status {
                    Some(401 | 402 | 407) => false,
                    Some(status) => matches!(status, 400..=699),
                    None => attempt.outcome == Outcome::Failed(Failure::NoResponse),
                };
                self.ineffective_registrations += u64::from(is_ineffective);
            }
        }
    }

    /// Counts what is known of a session when it is set up, or fails to be.
    pub(super) fn add_setup(&mut self, record: &CallRecord) {
        let Attempt {
            status, outcome, ..
        } = record.attempt;
        if status.is_none() && is_left_open(outcome) {
            self.undecided_sessions += 1;
            return;
        }
        self.session_requests += 1;
        let delays = match status {
            Some(200..=299) => Some(&mut self.session_request_delay),
            // Neither a success nor a failure as section 4.3.2 lists them.
            Some(300..=399 | 401 | 402 | 407) => None,
            _ => Some(&mut self.failed_session_request_delay),
        };
        // To the first provisional response beyond 100, or the final one where there was none.
        let indicated = record.progress.or(record.answered);
        if let (Some(delays), Some(indicated)) = (delays, indicated) {
            delays.record(record.since_first_invite(indicated));
        }
        match status {
            Some(200..=299) => self.established += 1,
            Some(300..=399) => self.redirected += 1,
            Some(480 | 486 | 600 | 603) => self.refused_by_user += 1,
            Some(408 | 500 | 503 | 504) | None => self.ineffective_sessions += 1,
            Some(_) => {}
        }
    }

    /// Counts how a session ended that was set up.
    pub(super) fn add_end(&mut self, record: &CallRecord) {
        let (Some(200..=299), Some(answered)) = (record.attempt.status, record.answered) else {
            return;
        };
        let Some(bye) = record.bye else {
            let is_broken = matches!(record.attempt.outcome, Outcome::Failed(_));
            self.standing_sessions += u64::from(!is_broken);
            return;
        };
        let lasted = bye.saturating_sub(answered);
        if record.is_bye_from_peer {
            // It was answered when it came; how long that took is the peer's to measure.
            self.completed += 1;
            self.session_duration.record(lasted);
            return;
        }
        match (record.bye_status, record.bye_answered) {
            (Some(status), Some(disconnected)) => {
                let is_success = matches!(status, 200..=299);
                let delays = if is_success {
                    &mut self.session_disconnect_delay
                } else {
                    &mut self.failed_session_disconnect_delay
                };
                delays.record(disconnected.saturating_sub(bye));
                self.completed += u64::from(is_success);
                self.session_duration.record(lasted);
            }
            _ if record.attempt.outcome == Outcome::Unfinished => self.standing_sessions += 1,
            // No SDD (section 4.4); the duration reaches to the time-out (section 4.5.2).
            _ => self
                .failed_session_duration
                .record(record.attempt.ended.saturating_sub(answered)),
        }
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Metrics) {
        // Named one by one, so that none is forgotten when there are more.
        let Metrics {
            registration_request_delay,
            registrations,
            ineffective_registrations,
            undecided_registrations,
            session_request_delay,
            failed_session_request_delay,
            session_disconnect_delay,
            failed_session_disconnect_delay,
            session_duration,
            failed_session_duration,
            session_requests,
            established,
            redirected,
            refused_by_user,
            ineffective_sessions,
            completed,
            undecided_sessions,
            standing_sessions,
        } = other;
        self.registration_request_delay
            .merge(registration_request_delay);
        self.registrations += registrations;
        self.ineffective_registrations += ineffective_registrations;
        self.undecided_registrations += undecided_registrations;
        self.session_request_delay.merge(session_request_delay);
        self.failed_session_request_delay
            .merge(failed_session_request_delay);
        self.session_disconnect_delay
            .merge(session_disconnect_delay);
        self.failed_session_disconnect_delay
            .merge(failed_session_disconnect_delay);
        self.session_duration.merge(session_duration);
        self.failed_session_duration.merge(failed_session_duration);
        self.session_requests += session_requests;
        self.established += established;
        self.redirected += redirected;
        self.refused_by_user += refused_by_user;
        self.ineffective_sessions += ineffective_sessions;
        self.completed += completed;
        self.undecided_sessions += undecided_sessions;
        self.standing_sessions += standing_sessions;
    }

    /// IRA in percent (section 4.2); none without a registration: "when the denominator of this ratio is
    /// 0, the metric is undefined" (section 4).
    pub fn ineffective_registration_attempts(&self) -> Option<f64> {
        percent(self.ineffective_registrations, self.registrations)
    }

    /// SER in percent (section 4.6); none without a session request that was not redirected.
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

/// Whether an attempt without a final response tells nothing of the server: it was under way at the end, or
/// the generator's own script could not go on.
fn is_left_open(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Completed | Outcome::Unfinished => true,
        Outcome::Failed(failure) => matches!(failure, Failure::Script | Failure::Check),
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}
