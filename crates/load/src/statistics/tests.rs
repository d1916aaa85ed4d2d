//! Definitions of the metrics by example, and that merging loses nothing.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::record::{
    Attempt, CallId, CallRecord, Failure, Outcome, Party, Record, RegistrationRecord, RequestRecord,
};
use crate::script::ScriptId;

const fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const NO_RESPONSE: Outcome = Outcome::Failed(Failure::NoResponse);

fn attempt(begun: Instant) -> Attempt {
    Attempt {
        script: ScriptId(0),
        party: Party::Caller,
        user: 1,
        peer: 2,
        call_id: CallId::Other("example".into()),
        due: begun,
        begun,
        ended: milliseconds(5080),
        outcome: Outcome::Completed,
        status: Some(200),
        retransmissions: 0,
        authentications: 0,
        timers: Vec::new(),
    }
}

/// A call that was answered with 180 after 20 ms and 200 after 50 ms, held for 5 s, and ended by its
/// caller within 30 ms.
fn ordinary_call(begun: Instant) -> CallRecord {
    CallRecord {
        attempt: attempt(begun),
        first_invited: Duration::ZERO,
        invited: Duration::ZERO,
        reached: None,
        first_provisional: Some(milliseconds(5)),
        progress: Some(milliseconds(20)),
        answered: Some(milliseconds(50)),
        acknowledged: Some(milliseconds(51)),
        bye: Some(milliseconds(5050)),
        is_bye_from_peer: false,
        bye_answered: Some(milliseconds(5080)),
        bye_status: Some(200),
        is_setup_recorded: false,
    }
}

/// A call that was refused after 80 ms without ringing.
fn refused_call(begun: Instant, status: u16) -> CallRecord {
    CallRecord {
        attempt: Attempt {
            ended: milliseconds(80),
            outcome: Outcome::Failed(Failure::Refused),
            status: Some(status),
            ..attempt(begun)
        },
        progress: None,
        answered: Some(milliseconds(80)),
        acknowledged: None,
        bye: None,
        bye_answered: None,
        bye_status: None,
        ..ordinary_call(begun)
    }
}

/// A call that nobody answered, not even with a 100.
fn silent_call(begun: Instant) -> CallRecord {
    let refused = refused_call(begun, 0);
    CallRecord {
        attempt: Attempt {
            ended: Duration::from_secs(32),
            outcome: NO_RESPONSE,
            status: None,
            ..refused.attempt
        },
        first_provisional: None,
        answered: None,
        ..refused
    }
}

/// A call that is still held when the run ends.
fn standing_call(begun: Instant) -> CallRecord {
    CallRecord {
        attempt: Attempt {
            outcome: Outcome::Unfinished,
            ..attempt(begun)
        },
        bye: None,
        bye_answered: None,
        bye_status: None,
        ..ordinary_call(begun)
    }
}

fn registration(begun: Instant, outcome: Outcome, status: Option<u16>) -> RegistrationRecord {
    RegistrationRecord {
        attempt: Attempt {
            ended: milliseconds(7),
            outcome,
            status,
            ..attempt(begun)
        },
        is_refresh: false,
        answered: status.map(|_| milliseconds(7)),
        expires: None,
    }
}

fn measured(started: Instant, records: impl IntoIterator<Item = Record>) -> Statistics {
    let mut statistics = Statistics::new(started, Duration::from_secs(1));
    for record in records {
        statistics.record(&record);
    }
    statistics
}

fn of_calls(started: Instant, calls: impl IntoIterator<Item = CallRecord>) -> Statistics {
    measured(started, calls.into_iter().map(Record::Call))
}

#[test]
fn an_ordinary_call_has_all_delays() {
    let now = Instant::now();
    let statistics = of_calls(now, [ordinary_call(now)]);
    let metrics = &statistics.metrics;
    let longest = |delays: &Delays| delays.maximum().unwrap();
    assert_eq!(longest(&metrics.session_request_delay), milliseconds(20));
    assert_eq!(longest(&metrics.session_disconnect_delay), milliseconds(30));
    assert_eq!(longest(&metrics.session_duration), milliseconds(5000));
    assert_eq!(metrics.failed_session_request_delay.count(), 0);
    assert_eq!(metrics.session_establishment_ratio(), Some(100.0));
    let effectiveness = metrics.session_establishment_effectiveness_ratio();
    assert_eq!(effectiveness, Some(100.0));
    assert_eq!(metrics.ineffective_session_attempts(), Some(0.0));
    assert_eq!(metrics.session_completion_ratio(), Some(100.0));
    let published = &statistics.published;
    assert_eq!(longest(&published.call_setup_delay), milliseconds(51));
    assert_eq!(published.lost_sessions(), 0);
    assert_eq!(statistics.codes().responses(), [(200, 2)]);
    assert_eq!(statistics.calls.completed, 1);
}

#[test]
fn without_ringing_the_answer_ends_the_session_request_delay() {
    let now = Instant::now();
    let call = CallRecord {
        progress: None,
        ..ordinary_call(now)
    };
    let metrics = of_calls(now, [call]).metrics;
    let delay = metrics.session_request_delay.maximum();
    assert_eq!(delay, Some(milliseconds(50)));
}

#[test]
fn failures_have_delays_of_their_own() {
    let now = Instant::now();
    let ringing = CallRecord {
        progress: Some(milliseconds(10)),
        ..refused_call(now, 486)
    };
    let statistics = of_calls(now, [refused_call(now, 503), ringing, silent_call(now)]);
    let metrics = &statistics.metrics;
    assert_eq!(metrics.session_request_delay.count(), 0);
    // What nobody answered has no time of a response to measure to.
    let delays = &metrics.failed_session_request_delay;
    assert_eq!(delays.count(), 2);
    assert_eq!(delays.minimum(), Some(milliseconds(10)));
    assert_eq!(delays.maximum(), Some(milliseconds(80)));
    assert_eq!(statistics.published.lost_sessions(), 3);
    assert_eq!(statistics.published.lost_invites, 1);
    assert_eq!(statistics.calls.failed, 3);
    let reasons = [(Failure::Refused, 2), (Failure::NoResponse, 1)];
    assert_eq!(statistics.failures.reasons(), reasons);
}

#[test]
fn a_challenge_or_a_redirection_that_was_not_followed_is_no_failed_request_delay() {
    let now = Instant::now();
    let calls = [401, 402, 407, 302].map(|status| refused_call(now, status));
    let metrics = of_calls(now, calls).metrics;
    assert_eq!(metrics.failed_session_request_delay.count(), 0);
    assert_eq!(metrics.redirected, 1);
    assert_eq!(metrics.session_establishment_ratio(), Some(0.0));
}

#[test]
fn ratios_are_of_the_right_whole() {
    let now = Instant::now();
    let mut calls = vec![ordinary_call(now); 4];
    for status in [302, 480, 486, 600, 603, 404, 408, 500, 503, 504] {
        calls.push(refused_call(now, status));
    }
    let metrics = of_calls(now, calls).metrics;
    assert_eq!(metrics.session_requests, 14);
    // 4 of 14 less the one that was redirected.
    let established = metrics.session_establishment_ratio();
    assert_eq!(established, Some(400.0 / 13.0));
    let effective = metrics.session_establishment_effectiveness_ratio();
    assert_eq!(effective, Some(800.0 / 13.0));
    let ineffective = metrics.ineffective_session_attempts();
    assert_eq!(ineffective, Some(400.0 / 14.0));
    assert_eq!(metrics.session_completion_ratio(), Some(400.0 / 14.0));
}

#[test]
fn without_attempts_ratios_are_undefined() {
    let metrics = Metrics::default();
    assert_eq!(metrics.ineffective_registration_attempts(), None);
    assert_eq!(metrics.session_establishment_ratio(), None);
    assert_eq!(metrics.session_establishment_effectiveness_ratio(), None);
    assert_eq!(metrics.ineffective_session_attempts(), None);
    assert_eq!(metrics.session_completion_ratio(), None);
    // Redirected calls alone leave nothing to divide by either.
    let now = Instant::now();
    let redirected = of_calls(now, [refused_call(now, 302)]).metrics;
    assert_eq!(redirected.session_establishment_ratio(), None);
    assert_eq!(redirected.ineffective_session_attempts(), Some(0.0));
}

#[test]
fn a_bye_that_nobody_answers_fails_the_session_but_has_no_disconnect_delay() {
    let now = Instant::now();
    let mut call = CallRecord {
        bye_answered: None,
        bye_status: None,
        ..ordinary_call(now)
    };
    call.attempt.outcome = NO_RESPONSE;
    call.attempt.ended = milliseconds(37_050);
    let statistics = of_calls(now, [call]);
    let metrics = &statistics.metrics;
    assert_eq!(metrics.session_disconnect_delay.count(), 0);
    assert_eq!(metrics.failed_session_disconnect_delay.count(), 0);
    assert_eq!(metrics.session_duration.count(), 0);
    let duration = metrics.failed_session_duration.maximum();
    assert_eq!(duration, Some(Duration::from_secs(37)));
    assert_eq!(metrics.session_establishment_ratio(), Some(100.0));
    assert_eq!(metrics.session_completion_ratio(), Some(0.0));
    assert_eq!(statistics.bye_codes.without_response(), 1);
}

#[test]
fn a_refused_bye_has_a_delay_of_its_own() {
    let now = Instant::now();
    let call = CallRecord {
        bye_status: Some(481),
        ..ordinary_call(now)
    };
    let metrics = of_calls(now, [call]).metrics;
    assert_eq!(metrics.session_disconnect_delay.count(), 0);
    let delay = metrics.failed_session_disconnect_delay.maximum();
    assert_eq!(delay, Some(milliseconds(30)));
    assert_eq!(metrics.session_completion_ratio(), Some(0.0));
}

#[test]
fn a_bye_of_the_callee_ends_the_duration_but_its_delay_is_not_ours() {
    let now = Instant::now();
    let call = CallRecord {
        is_bye_from_peer: true,
        ..ordinary_call(now)
    };
    let statistics = of_calls(now, [call]);
    assert_eq!(statistics.metrics.session_disconnect_delay.count(), 0);
    assert_eq!(statistics.metrics.session_duration.count(), 1);
    assert_eq!(statistics.metrics.session_completion_ratio(), Some(100.0));
    assert_eq!(statistics.bye_codes, Codes::default());
}

#[test]
fn what_the_end_of_a_run_leaves_open_is_in_no_ratio_but_what_stands_is_not_complete() {
    let now = Instant::now();
    let mut open = silent_call(now);
    open.attempt.outcome = Outcome::Unfinished;
    let statistics = of_calls(now, [ordinary_call(now), standing_call(now), open]);
    let metrics = &statistics.metrics;
    assert_eq!(metrics.undecided_sessions, 1);
    assert_eq!(metrics.standing_sessions, 1);
    assert_eq!(metrics.session_establishment_ratio(), Some(100.0));
    // RFC 6076 section 4.9 divides by all session requests.
    assert_eq!(metrics.session_completion_ratio(), Some(50.0));
    assert_eq!((statistics.calls.completed, statistics.failed()), (1, 0));
    assert_eq!(statistics.calls.unfinished, 2);
    assert_eq!(statistics.published.lost_sessions(), 0);
}

#[test]
fn a_held_call_is_counted_once() {
    let now = Instant::now();
    let ended = CallRecord {
        is_setup_recorded: true,
        ..ordinary_call(now)
    };
    let records = [Record::Established(standing_call(now)), Record::Call(ended)];
    assert_eq!(measured(now, records), of_calls(now, [ordinary_call(now)]));
}

#[test]
fn registrations_are_judged_by_their_last_response() {
    let now = Instant::now();
    let refused = Outcome::Failed(Failure::Refused);
    let records = [
        (Outcome::Completed, Some(200)),
        (refused, Some(403)),
        (Outcome::Failed(Failure::Unauthorized), Some(401)),
        (NO_RESPONSE, None),
        (Outcome::Unfinished, None),
    ]
    .map(|(outcome, status)| Record::Registration(registration(now, outcome, status)));
    let statistics = measured(now, records);
    let metrics = &statistics.metrics;
    assert_eq!(metrics.registrations, 4);
    let delays = &metrics.registration_request_delay;
    assert_eq!(delays.maximum(), Some(milliseconds(7)));
    assert_eq!(delays.count(), 1);
    assert_eq!(metrics.ineffective_registration_attempts(), Some(50.0));
    assert_eq!(metrics.undecided_registrations, 1);
    assert_eq!(statistics.published.lost_registers, 3);
    assert_eq!(statistics.register_codes.without_response(), 1);
    assert_eq!(statistics.registrations.unfinished, 1);
}

#[test]
fn only_what_the_rfc_lists_makes_a_registration_ineffective() {
    let now = Instant::now();
    let failed = Outcome::Failed;
    let judged = |outcome, status| {
        let record = Record::Registration(registration(now, outcome, status));
        let metrics = measured(now, [record]).metrics;
        (metrics.registrations, metrics.ineffective_registrations)
    };
    for status in [400, 403, 404, 500, 503, 600, 603] {
        assert_eq!(judged(failed(Failure::Refused), Some(status)), (1, 1));
    }
    for status in [301, 302, 401, 402, 407] {
        assert_eq!(judged(failed(Failure::Refused), Some(status)), (1, 0));
    }
    assert_eq!(judged(NO_RESPONSE, None), (1, 1));
    assert_eq!(judged(failed(Failure::ConnectionLost), None), (1, 0));
    assert_eq!(judged(failed(Failure::Script), None), (0, 0));
}

#[test]
fn failures_of_the_generator_s_own_are_in_no_metric() {
    let now = Instant::now();
    for failure in [Failure::Script, Failure::Check] {
        let mut call = CallRecord {
            progress: Some(milliseconds(10)),
            ..silent_call(now)
        };
        call.attempt.outcome = Outcome::Failed(failure);
        let statistics = of_calls(now, [call]);
        let metrics = &statistics.metrics;
        assert_eq!(metrics.session_requests, 0);
        assert_eq!(metrics.undecided_sessions, 1);
        assert_eq!(metrics.ineffective_session_attempts(), None);
        assert_eq!(metrics.failed_session_request_delay.count(), 0);
        assert_eq!(statistics.failures.reasons(), [(failure, 1)]);
        // One that comes after the answer takes nothing from what was measured.
        let mut answered = ordinary_call(now);
        answered.attempt.outcome = Outcome::Failed(failure);
        assert_eq!(of_calls(now, [answered]).metrics.session_requests, 1);
    }
    let mut lost = silent_call(now);
    lost.attempt.outcome = Outcome::Failed(Failure::ConnectionLost);
    let metrics = of_calls(now, [lost]).metrics;
    assert_eq!(metrics.ineffective_session_attempts(), Some(100.0));
}

#[test]
fn delays_begin_with_the_invite() {
    let now = Instant::now();
    // After a pause of 4 ms, and with credentials 3 ms later.
    let call = CallRecord {
        first_invited: milliseconds(4),
        invited: milliseconds(7),
        reached: Some(milliseconds(9)),
        ..ordinary_call(now)
    };
    let statistics = of_calls(now, [call]);
    let longest = |delays: &Delays| delays.maximum().unwrap();
    let request_delay = &statistics.metrics.session_request_delay;
    assert_eq!(longest(request_delay), milliseconds(16));
    assert_eq!(longest(&statistics.answer_delay), milliseconds(46));
    let published = &statistics.published;
    assert_eq!(longest(&published.invite_delay), milliseconds(2));
    assert_eq!(longest(&published.call_setup_delay), milliseconds(44));
    let refused = CallRecord {
        first_invited: milliseconds(30),
        ..refused_call(now, 503)
    };
    let failed = of_calls(now, [refused])
        .metrics
        .failed_session_request_delay;
    assert_eq!(longest(&failed), milliseconds(50));
}

#[test]
fn a_180_that_did_not_come_is_lost_only_where_others_rang() {
    let now = Instant::now();
    let without_ringing = CallRecord {
        progress: None,
        ..ordinary_call(now)
    };
    let alone = of_calls(now, [without_ringing.clone()]).published;
    assert_eq!(alone.lost_sessions(), 0);
    let beside_another = of_calls(now, [without_ringing, ordinary_call(now)]).published;
    assert_eq!(beside_another.lost_sessions(), 1);
}

#[test]
fn a_callee_played_here_tells_when_the_invite_came() {
    let now = Instant::now();
    let reached = CallRecord {
        reached: Some(milliseconds(2)),
        ..refused_call(now, 408)
    };
    let published = of_calls(now, [reached, refused_call(now, 408)]).published;
    assert_eq!(published.invite_delay.maximum(), Some(milliseconds(2)));
    assert_eq!(published.lost_invites, 1);
    assert_eq!(published.lost_sessions(), 2);
}

#[test]
fn a_call_that_was_served_is_in_no_metric() {
    let now = Instant::now();
    let mut call = ordinary_call(now);
    call.attempt.party = Party::Callee;
    call.attempt.retransmissions = 3;
    let statistics = of_calls(now, [call]);
    assert_eq!(statistics.metrics, Metrics::default());
    assert_eq!(statistics.calls, Ends::default());
    assert_eq!(statistics.served.completed, 1);
    assert_eq!(statistics.retransmissions, 3);
}

#[test]
fn the_series_tells_offered_from_achieved() {
    let started = Instant::now();
    let mut statistics = Statistics::new(started, Duration::from_secs(1));
    statistics.note_started(started, started);
    let due = started + milliseconds(900);
    statistics.note_started(due, due + milliseconds(200));
    statistics.note_not_started(started + milliseconds(1000));
    statistics.record(&Record::Call(ordinary_call(started)));
    assert_eq!(statistics.arrivals.offered, 3);
    assert_eq!(statistics.lateness.maximum(), Some(milliseconds(200)));
    let intervals = statistics.series.intervals();
    assert_eq!(intervals.len(), 6);
    assert_eq!((intervals[0].offered, intervals[0].started), (2, 1));
    assert_eq!((intervals[1].offered, intervals[1].started), (1, 1));
    assert_eq!(intervals[1].not_started, 1);
    assert_eq!(intervals[5].completed, 1);
    assert_eq!(intervals[0].session_request_delay.count(), 1);
}

prop_compose! {
    /// Any record: of a run of two hours, so that series are widened.
    fn any_record(origin: Instant)(
        kind in 0..4,
        begun in 0u64..7_200_000,
        delays in prop::array::uniform5(prop::option::weighted(0.8, 0u64..40_000)),
        status in prop::option::of(prop::sample::select(vec![200, 302, 401, 408, 480, 486, 503])),
        outcome in prop::sample::select(vec![
            Outcome::Completed,
            Outcome::Failed(Failure::Refused),
            NO_RESPONSE,
            Outcome::Unfinished,
        ]),
        flags in prop::array::uniform2(any::<bool>()),
        retransmissions in 0u32..5,
    ) -> Record {
        let begun = origin + milliseconds(begun);
        let at = |number: usize| delays[number].map(milliseconds);
        let attempt = Attempt {
            party: if flags[0] { Party::Caller } else { Party::Callee },
            ended: at(4).unwrap_or_default(),
            outcome,
            status,
            retransmissions,
            timers: vec![at(3), None],
            ..attempt(begun)
        };
        match kind {
            0 => Record::Registration(RegistrationRecord {
                attempt,
                answered: at(0),
                ..registration(begun, outcome, status)
            }),
            1 => Record::Request(RequestRecord {
                attempt,
                method: sip::Method::Options,
                answered: at(0),
            }),
            _ => Record::Call(CallRecord {
                attempt,
                progress: at(0),
                answered: at(1),
                bye: at(2),
                is_bye_from_peer: flags[1],
                bye_answered: at(3),
                bye_status: status,
                ..ordinary_call(begun)
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_is_associative_and_loses_nothing(
        (origin, records) in Just(Instant::now()).prop_flat_map(|origin| {
            let records = prop::collection::vec((0usize..3, any_record(origin)), 0..60);
            (Just(origin), records)
        })
    ) {
        let part = |worker| {
            let own = records.iter().filter(move |(owner, _)| *owner == worker);
            measured(origin, own.map(|(_, record)| record.clone()))
        };
        let [first, second, third] = [part(0), part(1), part(2)];
        let merged = |left: &Statistics, right: &Statistics| {
            let mut merged = left.clone();
            merged.merge(right);
            merged
        };
        let from_the_left = merged(&merged(&first, &second), &third);
        let from_the_right = merged(&first, &merged(&second, &third));
        let other_way_round = merged(&third, &merged(&second, &first));
        let all = measured(origin, records.iter().map(|(_, record)| record.clone()));
        prop_assert_eq!(&from_the_left, &from_the_right);
        prop_assert_eq!(&from_the_left, &other_way_round);
        prop_assert_eq!(&from_the_left, &all);
    }
}
