//! The metrics of RFC 6076 by their definitions.

use capture::{Metrics, Outcome};

use crate::analysis::script::*;

/// A call of host 1 to host 2 that is answered so, at the given second.
fn answered(script: &mut Script, number: i64, status: u16) {
    let call_id = format!("call-{number}");
    let call = Dialog {
        call_id: &call_id,
        ..CALL
    };
    let start = number * 1000;
    script.see(start, 1, 2, &call.request("INVITE", 1, &["a1"], ""));
    script.see(
        start + 40,
        2,
        1,
        &call.response(status, "INVITE", 1, &["a1"]),
    );
    script.see(start + 41, 1, 2, &call.request("ACK", 1, &["a1"], "callee"));
}

/// Lets a minute pass, so that everything is decided.
fn let_time_pass(script: &mut Script) {
    register(script, "late", 9, 200_000);
}

fn metrics(script: Script) -> Metrics {
    script.finish().1.metrics
}

#[test]
fn ratios_leave_out_what_they_should() {
    let mut script = Script::new();
    call_through_proxy(&mut script, CALL, 0);
    for (number, status) in (10..).zip([486, 480, 600, 603, 503, 404, 302, 408]) {
        answered(&mut script, number, status);
    }
    // Nobody answers this one.
    let call = Dialog {
        call_id: "nobody",
        ..CALL
    };
    script.see(30_000, 1, 2, &call.request("INVITE", 1, &["n1"], ""));
    let_time_pass(&mut script);
    let metrics = metrics(script);
    assert_eq!(metrics.session_requests, 10);
    let near = |ratio: Option<f64>, expected: f64| (ratio.unwrap() - expected).abs() < 1e-9;
    assert!(near(metrics.session_establishment_ratio(), 100.0 / 9.0));
    assert!(near(
        metrics.session_establishment_effectiveness_ratio(),
        500.0 / 9.0
    ));
    assert!(near(metrics.ineffective_session_attempts(), 30.0));
    assert!(near(metrics.session_completion_ratio(), 10.0));
    // 3xx is neither; nobody's answer has no delay.
    assert_eq!(metrics.session_request_delay.count(), 1);
    let failed = metrics.failed_session_request_delay.seconds();
    assert_eq!((failed.count, failed.max), (7, Some(0.04)));
}

#[test]
fn registration_delay_includes_the_challenge() {
    let mut script = Script::new();
    register(&mut script, "alice", 1, 0);
    let refused = Dialog {
        call_id: "refused",
        from: "eve",
        to: "eve",
    };
    script.see(100, 1, 2, &refused.request("REGISTER", 1, &["e1"], ""));
    script.see(105, 2, 1, &refused.response(403, "REGISTER", 1, &["e1"]));
    let unheard = Dialog {
        call_id: "unheard",
        from: "mute",
        to: "mute",
    };
    script.see(110, 1, 2, &unheard.request("REGISTER", 1, &["m1"], ""));
    // Section 4.2 has no 3xx among the failures.
    let moved = Dialog {
        call_id: "moved",
        from: "mia",
        to: "mia",
    };
    script.see(120, 1, 2, &moved.request("REGISTER", 1, &["i1"], ""));
    script.see(125, 2, 1, &moved.response(302, "REGISTER", 1, &["i1"]));
    let_time_pass(&mut script);
    let metrics = metrics(script);
    let delay = metrics.registration_request_delay.milliseconds();
    // Alice and the late one.
    assert_eq!((delay.count, delay.max), (2, Some(6.0)));
    assert_eq!(metrics.registrations, 5);
    assert_eq!(metrics.ineffective_registration_attempts(), Some(40.0));
}

#[test]
fn a_registration_waits_for_credentials_however_long() {
    let mut script = Script::new();
    let dialog = Dialog {
        call_id: "typed",
        from: "alice",
        to: "alice",
    };
    script.see(0, 1, 2, &dialog.request("REGISTER", 1, &["r1"], ""));
    script.see(1, 2, 1, &dialog.response(401, "REGISTER", 1, &["r1"]));
    script.see(50_000, 1, 2, &dialog.request("REGISTER", 2, &["r2"], ""));
    script.see(50_001, 2, 1, &dialog.response(200, "REGISTER", 2, &["r2"]));
    let metrics = metrics(script);
    assert_eq!(metrics.registrations, 1);
    let delay = metrics.registration_request_delay.milliseconds();
    assert_eq!((delay.count, delay.max), (1, Some(50_001.0)));
}

#[test]
fn each_refresh_is_an_attempt() {
    let mut script = Script::new();
    let dialog = Dialog {
        call_id: "refreshed",
        from: "alice",
        to: "alice",
    };
    for number in 1..=20_u32 {
        let start = i64::from(number) * 60_000;
        let branch = format!("r{number}");
        script.see(
            start,
            1,
            2,
            &dialog.request("REGISTER", number, &[&branch], ""),
        );
        script.see(
            start + 7,
            2,
            1,
            &dialog.response(200, "REGISTER", number, &[&branch]),
        );
    }
    let metrics = metrics(script);
    assert_eq!(metrics.registrations, 20);
    assert_eq!(
        metrics.registration_request_delay.milliseconds().mean,
        Some(7.0)
    );
}

#[test]
fn credentials_and_redirection_belong_to_the_same_request() {
    let mut script = Script::new();
    script.see(0, 1, 2, &CALL.request("INVITE", 1, &["a1"], ""));
    script.see(2, 2, 1, &CALL.response(407, "INVITE", 1, &["a1"]));
    script.see(3, 1, 2, &CALL.request("ACK", 1, &["a1"], "callee"));
    script.see(10, 1, 2, &CALL.request("INVITE", 2, &["a2"], ""));
    script.see(12, 2, 1, &CALL.response(302, "INVITE", 2, &["a2"]));
    script.see(13, 1, 2, &CALL.request("ACK", 2, &["a2"], "callee"));
    script.see(20, 1, 3, &CALL.request("INVITE", 3, &["a3"], ""));
    script.see(25, 3, 1, &CALL.response(180, "INVITE", 3, &["a3"]));
    script.see(30, 3, 1, &CALL.response(200, "INVITE", 3, &["a3"]));
    script.see(31, 1, 3, &CALL.request("ACK", 3, &["a4"], "callee"));
    let (sessions, results) = script.finish();
    assert_eq!(sessions[0].outcome, Outcome::Standing);
    let metrics = results.metrics;
    assert_eq!((metrics.session_requests, metrics.redirected), (1, 0));
    assert_eq!(metrics.session_establishment_ratio(), Some(100.0));
    assert_eq!(metrics.session_request_delay.seconds().max, Some(0.025));
    // RFC 6076 section 4.9 divides by all session requests, and this one still stands.
    assert_eq!(metrics.session_completion_ratio(), Some(0.0));
}

#[test]
fn a_bye_without_answer_makes_a_failed_duration() {
    let mut script = Script::new();
    script.see(0, 1, 2, &CALL.request("INVITE", 1, &["a1"], ""));
    script.see(10, 2, 1, &CALL.response(200, "INVITE", 1, &["a1"]));
    script.see(11, 1, 2, &CALL.request("ACK", 1, &["a2"], "callee"));
    let bye = CALL.request("BYE", 2, &["a3"], "callee");
    for milliseconds in [5010, 5510, 6510, 8510, 12_510] {
        script.see(milliseconds, 1, 2, &bye);
    }
    let_time_pass(&mut script);
    let (sessions, results) = script.finish();
    assert_eq!(sessions[0].outcome, Outcome::NotEnded);
    let metrics = results.metrics;
    // From the 200 to Timer F, which began with the first BYE (section 4.5.2).
    assert_eq!(metrics.failed_session_duration.seconds().max, Some(37.0));
    assert_eq!(metrics.session_disconnect_delay.count(), 0);
    assert_eq!(metrics.session_completion_ratio(), Some(0.0));
}
