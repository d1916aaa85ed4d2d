//! Everything that was measured in a run.

use std::time::{Duration, Instant};

use measures::{Delays, Metrics};

use super::codes::{Codes, Failures};
use super::metrics;
use super::published::Published;
use super::series::Series;
use crate::record::{
    Attempt, CallRecord, Outcome, Party, Record, RegistrationRecord, RequestRecord,
};

/// Everything that was measured in a run, by one worker or, merged, by all.
///
/// A driver calls [`note_started`](Self::note_started), [`note_held_back`](Self::note_held_back) or
/// [`note_not_started`](Self::note_not_started) for each arrival of its schedule and [`record`](Self::record) for each record of its engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// What the schedule wanted.
    pub arrivals: ArrivalCounts,
    /// Calls that our users made.
    pub calls: Ends,
    /// Calls that our users were called in, and other attempts that peers began.
    pub served: Ends,
    /// Registrations and refreshes.
    pub registrations: Ends,
    /// Of these, of users who were registered when they began.
    pub refreshes: u64,
    /// Other requests.
    pub requests: Ends,
    /// Why attempts failed that our users began.
    pub failures: Failures,
    /// The metrics of RFC 6076.
    pub metrics: Metrics,
    /// The published figures.
    pub published: Published,
    /// From INVITEs to their final responses, whichever these are.
    pub answer_delay: Delays,
    /// From other requests than INVITE, BYE and REGISTER to their 2xx.
    pub request_delay: Delays,
    /// How INVITEs were answered.
    pub invite_codes: Codes,
    /// How the BYEs of callers were answered.
    pub bye_codes: Codes,
    /// How REGISTERs were answered.
    pub register_codes: Codes,
    /// How other requests were answered.
    pub request_codes: Codes,
    /// How late the generator began attempts.
    pub lateness: Delays,
    /// Messages that our users sent again.
    pub retransmissions: u64,
    /// Requests that were repeated with credentials. RFC 7501 section 3.1.6 has them counted as attempts
    /// too.
    pub authentications: u64,
    /// The times that a scenario takes by itself, by the number of its timer.
    pub timers: Vec<Delays>,
    /// The same over time.
    pub series: Series,
}

/// Attempts that the schedule wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// That were due.
    pub offered: u64,
    /// Of these, begun.
    pub started: u64,
    /// Of these, not begun.
    pub not_started: u64,
    /// Of those not begun: the maximum was in progress, because the far end had not kept up.
    pub held_back: u64,
    /// When the last one was begun.
    pub last: Option<Instant>,
}

/// How attempts of a kind ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// As their script wants.
    pub completed: u64,
    /// Otherwise.
    pub failed: u64,
    /// Not before the run ended.
    pub unfinished: u64,
}

impl Ends {
    /// Attempts that were decided.
    pub fn decided(&self) -> u64 {
        self.completed + self.failed
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Unfinished => self.unfinished += 1,
        }
    }

    fn merge(&mut self, other: Ends) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
    }
}

impl Statistics {
    /// Timers of a scenario that are followed.
    const TIMERS: usize = 256;

    /// Nothing measured yet, of a run that starts then, its series in intervals as long as this. All
    /// workers of a run start at the same time.
    pub fn new(started: Instant, interval: Duration) -> Statistics {
        Statistics {
            arrivals: ArrivalCounts::default(),
            calls: Ends::default(),
            served: Ends::default(),
            registrations: Ends::default(),
            refreshes: 0,
            requests: Ends::default(),
            failures: Failures::default(),
            metrics: Metrics::default(),
            published: Published::default(),
            answer_delay: Delays::new(),
            request_delay: Delays::new(),
            invite_codes: Codes::default(),
            bye_codes: Codes::default(),
            register_codes: Codes::default(),
            request_codes: Codes::default(),
            lateness: Delays::new(),
            retransmissions: 0,
            authentications: 0,
            timers: Vec::new(),
            series: Series::new(started, interval),
        }
    }

    /// An arrival was due then and its attempt began now.
    pub fn note_started(&mut self, due: Instant, now: Instant) {
        self.arrivals.offered += 1;
        self.arrivals.started += 1;
        self.arrivals.last = self.arrivals.last.max(Some(now));
        let lateness = now.saturating_duration_since(due);
        self.lateness.record(lateness);
        self.series.at(due).offered += 1;
        let interval = self.series.at(now);
        interval.started += 1;
        interval.lateness.record(lateness);
    }

    /// An arrival was due then and nothing began, because as many attempts as allowed were in flight.
    pub fn note_held_back(&mut self, due: Instant) {
        self.arrivals.held_back += 1;
        self.note_not_started(due);
    }

    /// An arrival was due then and nothing began for another reason: there was no connection.
    pub fn note_not_started(&mut self, due: Instant) {
        self.arrivals.offered += 1;
        self.arrivals.not_started += 1;
        let interval = self.series.at(due);
        interval.offered += 1;
        interval.not_started += 1;
    }

    /// Notes how late a refresh began, where no schedule has it.
    pub fn note_upkeep(&mut self, refresh: &Attempt) {
        let lateness = refresh.lateness();
        self.lateness.record(lateness);
        self.series.at(refresh.begun).lateness.record(lateness);
    }

    /// Attempts of this run so far, by a schedule or without one; where there were none but peers', theirs.
    pub fn attempts(&self) -> u64 {
        let all = |ends: &Ends| ends.decided() + ends.unfinished;
        let ours = all(&self.calls) + all(&self.registrations) + all(&self.requests);
        self.arrivals.started.max(ours).max(all(&self.served))
    }

    /// Counts a record.
    pub fn record(&mut self, record: &Record) {
        let attempt = record.attempt();
        let is_over = !matches!(record, Record::Established(_));
        if is_over {
            self.record_attempt(attempt);
        }
        if attempt.party == Party::Callee {
            // RFC 6076 has sessions measured where they originate.
            if is_over {
                self.served.count(attempt.outcome);
            }
            return;
        }
        match record {
            Record::Established(call) => self.record_setup(call),
            Record::Call(call) => self.record_call(call),
            Record::Registration(registration) => self.record_registration(registration),
            Record::Request(request) => self.record_request(request),
        }
    }

    /// Adds those of another worker of the same run, or of a later run.
    pub fn merge(&mut self, other: &Statistics) {
        // Named one by one, so that none is forgotten when there are more.
        let Statistics {
            arrivals,
            calls,
            served,
            registrations,
            refreshes,
            requests,
            failures,
            metrics,
            published,
            answer_delay,
            request_delay,
            invite_codes,
            bye_codes,
            register_codes,
            request_codes,
            lateness,
            retransmissions,
            authentications,
            timers,
            series,
        } = other;
        self.arrivals.offered += arrivals.offered;
        self.arrivals.started += arrivals.started;
        self.arrivals.not_started += arrivals.not_started;
        self.arrivals.held_back += arrivals.held_back;
        self.arrivals.last = self.arrivals.last.max(arrivals.last);
        self.calls.merge(*calls);
        self.served.merge(*served);
        self.registrations.merge(*registrations);
        self.refreshes += refreshes;
        self.requests.merge(*requests);
        self.failures.merge(failures);
        self.metrics.merge(metrics);
        self.published.merge(published);
        self.answer_delay.merge(answer_delay);
        self.request_delay.merge(request_delay);
        self.invite_codes.merge(invite_codes);
        self.bye_codes.merge(bye_codes);
        self.register_codes.merge(register_codes);
        self.request_codes.merge(request_codes);
        self.lateness.merge(lateness);
        self.retransmissions += retransmissions;
        self.authentications += authentications;
        if self.timers.len() < timers.len() {
            self.timers.resize(timers.len(), Delays::new());
        }
        for (own, others) in self.timers.iter_mut().zip(timers) {
            own.merge(others);
        }
        self.series.merge(series);
    }

    /// Attempts of our users that failed, of every kind.
    pub fn failed(&self) -> u64 {
        self.calls.failed + self.registrations.failed + self.requests.failed
    }

    /// Attempts of our users that ended as their script wants, of every kind.
    pub fn completed(&self) -> u64 {
        self.calls.completed + self.registrations.completed + self.requests.completed
    }

    /// Final responses to requests of every kind together.
    pub fn codes(&self) -> Codes {
        let mut codes = self.invite_codes.clone();
        for more in [&self.bye_codes, &self.register_codes, &self.request_codes] {
            codes.merge(more);
        }
        codes
    }

    fn record_attempt(&mut self, attempt: &Attempt) {
        self.retransmissions += u64::from(attempt.retransmissions);
        self.authentications += u64::from(attempt.authentications);
        let interval = self.series.at(attempt.begun + attempt.ended);
        interval.retransmissions += u64::from(attempt.retransmissions);
        if attempt.party == Party::Caller {
            match attempt.outcome {
                Outcome::Completed => interval.completed += 1,
                Outcome::Failed(failure) => {
                    interval.failed += 1;
                    self.failures.count(failure);
                }
                Outcome::Unfinished => {}
            }
        }
        let timers = &attempt.timers[..attempt.timers.len().min(Self::TIMERS)];
        if self.timers.len() < timers.len() {
            self.timers.resize(timers.len(), Delays::new());
        }
        for (delays, taken) in self.timers.iter_mut().zip(timers) {
            if let Some(taken) = *taken {
                delays.record(taken);
            }
        }
    }

    fn record_setup(&mut self, call: &CallRecord) {
        metrics::add_setup(&mut self.metrics, call);
        let attempt = &call.attempt;
        if let Some(answered) = call.answered {
            self.answer_delay.record(call.since_first_invite(answered));
        }
        let is_decided = attempt.status.is_some() || attempt.outcome != Outcome::Unfinished;
        if is_decided {
            self.invite_codes.count(attempt.status);
            let decided = attempt.begun + call.answered.unwrap_or(attempt.ended);
            self.series.at(decided).codes.count(attempt.status);
        }
        if let (Some(200..=299), Some(indicated)) =
            (attempt.status, call.progress.or(call.answered))
        {
            let interval = self.series.at(attempt.begun);
            let delay = call.since_first_invite(indicated);
            interval.session_request_delay.record(delay);
        }
    }

    fn record_call(&mut self, call: &CallRecord) {
        if !call.is_setup_recorded {
            self.record_setup(call);
        }
        metrics::add_end(&mut self.metrics, call);
        self.published.add_session(call);
        let is_over = call.bye_status.is_some() || call.attempt.outcome != Outcome::Unfinished;
        if call.bye.is_some() && !call.is_bye_from_peer && is_over {
            self.bye_codes.count(call.bye_status);
        }
        self.calls.count(call.attempt.outcome);
    }

    fn record_registration(&mut self, registration: &RegistrationRecord) {
        metrics::add_registration(&mut self.metrics, registration);
        self.published.add_registration(registration);
        let attempt = &registration.attempt;
        self.registrations.count(attempt.outcome);
        self.refreshes += u64::from(registration.is_refresh);
        self.count_response(attempt, |statistics| &mut statistics.register_codes);
        if let (Some(200..=299), Some(answered)) = (attempt.status, registration.answered) {
            let interval = self.series.at(attempt.begun);
            interval.registration_request_delay.record(answered);
        }
    }

    fn record_request(&mut self, request: &RequestRecord) {
        let attempt = &request.attempt;
        self.requests.count(attempt.outcome);
        self.count_response(attempt, |statistics| &mut statistics.request_codes);
        if let (Some(200..=299), Some(answered)) = (attempt.status, request.answered) {
            self.request_delay.record(answered);
            self.series.at(attempt.begun).request_delay.record(answered);
        }
    }

    fn count_response(
        &mut self,
        attempt: &Attempt,
        codes: impl FnOnce(&mut Statistics) -> &mut Codes,
    ) {
        if attempt.status.is_some() || attempt.outcome != Outcome::Unfinished {
            codes(self).count(attempt.status);
            let ended = attempt.begun + attempt.ended;
            self.series.at(ended).codes.count(attempt.status);
        }
    }
}
