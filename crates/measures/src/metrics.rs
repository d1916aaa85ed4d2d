//! The metrics of RFC 6076.

use std::time::Duration;

use serde::Serialize;

use super::delays::{DelaySummary, Delays};

/// What the metrics of RFC 6076 are made of.
///
/// A session request is an INVITE outside of a dialog, with those that repeat it with credentials or at
/// another place after a 3xx: sections 4.6 and 4.7 take requests with a 3xx from the total, so one that was
/// redirected and then answered counts as one that was answered. What nobody saw decided says nothing about a
/// server and is in no ratio.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Registration Request Delay (section 4.1), of registrations that succeeded.
    pub registration_request_delay: Delays,
    /// Registration attempts that were decided.
    pub registrations: u64,
    /// Ineffective Registration Attempts (section 4.2): refused or not answered. A 3xx is neither, nor a
    /// connection that was lost.
    pub ineffective_registrations: u64,
    /// Registration attempts that were not decided.
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
    /// Session requests that were not decided.
    pub undecided_sessions: u64,
    /// Sessions that were set up and still stand: they are established, but not complete.
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

/// How a request ended that begins a session or registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this final response, challenges and longer times apart that were followed.
    Answered(u16),
    /// Nobody answered in time: Timers B and F of RFC 3261.
    TimedOut,
    /// It could not be sent, or its connection was lost: a fatal error of the transport.
    Broken,
    /// That was not seen: the end came before, or whoever asked has gone away.
    Undecided,
}

/// How a session ended that was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnection {
    /// By a BYE that was answered with 2xx.
    Answered,
    /// By a BYE that was answered otherwise.
    Refused,
    /// By a BYE that nobody answered.
    TimedOut,
    /// It stands.
    Standing,
    /// Without a BYE.
    Broken,
}

impl Metrics {
    /// Counts a registration, with the time from its first REGISTER to the 2xx, an expected challenge included
    /// (section 4.1).
    pub fn add_registration(&mut self, ending: Ending, delay: Option<Duration>) {
        if ending == Ending::Undecided {
            self.undecided_registrations += 1;
            return;
        }
        self.registrations += 1;
        if let (Ending::Answered(200..=299), Some(delay)) = (ending, delay) {
            self.registration_request_delay.record(delay);
        }
        // Section 4.2 lists 4xx less the challenges, 5xx, 6xx and Timer F.
        let is_ineffective = match ending {
            Ending::Answered(401 | 402 | 407) => false,
            Ending::Answered(status) => matches!(status, 400..=699),
            Ending::TimedOut => true,
            Ending::Broken | Ending::Undecided => false,
        };
        self.ineffective_registrations += u64::from(is_ineffective);
    }

    /// Counts a session request when it is decided, with the time from its first INVITE to the first response that
    /// tells how it stands: a provisional one beyond 100, or the final one where there was none (section 4.3).
    pub fn add_session(&mut self, ending: Ending, delay: Option<Duration>) {
        if ending == Ending::Undecided {
            self.undecided_sessions += 1;
            return;
        }
        self.session_requests += 1;
        let delays = match ending {
            Ending::Answered(200..=299) => Some(&mut self.session_request_delay),
            // Neither a success nor a failure as section 4.3.2 lists them.
            Ending::Answered(300..=399 | 401 | 402 | 407) => None,
            _ => Some(&mut self.failed_session_request_delay),
        };
        if let (Some(delays), Some(delay)) = (delays, delay) {
            delays.record(delay);
        }
        match ending {
            Ending::Answered(200..=299) => self.established += 1,
            Ending::Answered(300..=399) => self.redirected += 1,
            Ending::Answered(480 | 486 | 600 | 603) => self.refused_by_user += 1,
            Ending::Answered(408 | 500 | 503 | 504) | Ending::TimedOut | Ending::Broken => {
                self.ineffective_sessions += 1;
            }
            Ending::Answered(_) | Ending::Undecided => {}
        }
    }

    /// Counts how a session ended that was set up: the time from the BYE to its response (section 4.4), none where
    /// that is the peer's to measure, and the time that the session lasted, to the BYE or, where nobody answered
    /// that, to the time-out (section 4.5).
    pub fn add_disconnection(
        &mut self,
        how: Disconnection,
        delay: Option<Duration>,
        lasted: Option<Duration>,
    ) {
        let (delays, durations) = match how {
            Disconnection::Answered => (
                Some(&mut self.session_disconnect_delay),
                Some(&mut self.session_duration),
            ),
            Disconnection::Refused => (
                Some(&mut self.failed_session_disconnect_delay),
                Some(&mut self.session_duration),
            ),
            // No SDD.
            Disconnection::TimedOut => (None, Some(&mut self.failed_session_duration)),
            Disconnection::Standing | Disconnection::Broken => (None, None),
        };
        if let (Some(delays), Some(delay)) = (delays, delay) {
            delays.record(delay);
        }
        if let (Some(durations), Some(lasted)) = (durations, lasted) {
            durations.record(lasted);
        }
        self.completed += u64::from(how == Disconnection::Answered);
        self.standing_sessions += u64::from(how == Disconnection::Standing);
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

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    #[test]
    fn without_requests_no_ratio_is_defined() {
        let summary = Metrics::default().summary();
        assert_eq!(summary.session_establishment_ratio_percent, None);
        assert_eq!(summary.ineffective_registration_attempts_percent, None);
        let mut metrics = Metrics::default();
        metrics.add_session(Ending::Undecided, None);
        metrics.add_registration(Ending::Undecided, None);
        assert_eq!(metrics.session_completion_ratio(), None);
        assert_eq!(
            (metrics.undecided_sessions, metrics.undecided_registrations),
            (1, 1)
        );
    }

    #[test]
    fn ratios_are_those_of_the_rfc() {
        let mut metrics = Metrics::default();
        for status in [200, 202, 302, 404, 480, 486, 503, 600] {
            metrics.add_session(Ending::Answered(status), SECOND);
        }
        metrics.add_session(Ending::TimedOut, None);
        metrics.add_session(Ending::Broken, None);
        for how in [Disconnection::Answered, Disconnection::TimedOut] {
            metrics.add_disconnection(how, SECOND, SECOND);
        }
        // Sections 4.6 to 4.9: two of nine that were not redirected; three more refused by users; a 503, a
        // time-out and a broken connection of ten; one of ten came to its end.
        assert_eq!(metrics.session_establishment_ratio(), Some(200.0 / 9.0));
        assert_eq!(
            metrics.session_establishment_effectiveness_ratio(),
            Some(500.0 / 9.0)
        );
        assert_eq!(metrics.ineffective_session_attempts(), Some(30.0));
        assert_eq!(metrics.session_completion_ratio(), Some(10.0));
        assert_eq!(metrics.session_request_delay.count(), 2);
        assert_eq!(metrics.failed_session_request_delay.count(), 5);
        assert_eq!(metrics.session_disconnect_delay.count(), 1);
        assert_eq!(
            (
                metrics.session_duration.count(),
                metrics.failed_session_duration.count()
            ),
            (1, 1)
        );
        for ending in [
            Ending::Answered(200),
            Ending::Answered(401),
            Ending::Answered(302),
            Ending::Answered(403),
            Ending::TimedOut,
            Ending::Broken,
        ] {
            metrics.add_registration(ending, SECOND);
        }
        assert_eq!(metrics.registrations, 6);
        assert_eq!(metrics.ineffective_registrations, 2);
        assert_eq!(metrics.registration_request_delay.count(), 1);
    }

    fn ending() -> impl Strategy<Value = Ending> {
        prop_oneof![
            (200_u16..700).prop_map(Ending::Answered),
            Just(Ending::TimedOut),
            Just(Ending::Broken),
            Just(Ending::Undecided),
        ]
    }

    proptest! {
        /// Whoever counts a part, and whatever it is: merged it is as if one had counted all.
        #[test]
        fn merging_loses_nothing(
            endings in prop::collection::vec((ending(), 0_u64..1_000_000), 0..50),
            cut in 0_usize..50,
        ) {
            let count = |endings: &[(Ending, u64)]| {
                let mut metrics = Metrics::default();
                for (ending, delay) in endings {
                    let delay = Some(Duration::from_micros(*delay));
                    metrics.add_session(*ending, delay);
                    metrics.add_registration(*ending, delay);
                    metrics.add_disconnection(Disconnection::Answered, delay, delay);
                }
                metrics
            };
            let whole = count(&endings);
            let (left, right) = endings.split_at(cut.min(endings.len()));
            let mut merged = count(left);
            merged.merge(&count(right));
            prop_assert_eq!(&merged, &whole);
            for ratio in [
                whole.session_establishment_ratio(),
                whole.session_establishment_effectiveness_ratio(),
                whole.ineffective_session_attempts(),
                whole.ineffective_registration_attempts(),
            ].into_iter().flatten() {
                prop_assert!((0.0..=100.0).contains(&ratio), "{}", ratio);
            }
        }
    }
}
