//! What becomes of single calls.

use capture::{Milestone, Options, Outcome, Time};

use crate::analysis::script::*;

/// When a milestone was, in milliseconds of the script.
fn at(session: &capture::Session, milestone: Milestone) -> Option<i64> {
    let time = session.timestamps.get(milestone)?;
    Some((time - Time(1_000_000_000_000)) / MS)
}

#[test]
fn a_call_has_all_of_the_documents_timestamps() {
    let mut script = Script::new();
    register(&mut script, "alice", 1, 0);
    register(&mut script, "bob", 3, 10);
    call_through_proxy(&mut script, CALL, 1000);
    let (sessions, results) = script.finish();
    assert_eq!(sessions.len(), 1);
    let session = &sessions[0];
    let times = Milestone::ALL.map(|milestone| at(session, milestone));
    assert_eq!(
        times,
        [5, 6, 1000, 1012, 1101, 1105, 15, 16, 1003, 1100].map(Some)
    );
    assert_eq!(session.outcome, Outcome::Completed);
    assert_eq!(
        (&*session.from, &*session.to),
        ("alice@example.org", "bob@example.org")
    );
    assert_eq!(session.invite_delay(), Some(3 * MS));
    assert_eq!(session.call_setup_delay(), Some(105 * MS));
    assert_eq!(session.session_request_delay, Some(12 * MS));
    assert_eq!(session.session_disconnect_delay, Some(7 * MS));
    assert_eq!(session.session_duration, Some(1000 * MS));
    assert_eq!((session.messages, session.retransmissions), (13, 0));
    assert_eq!(results.losses.lost_sessions(), 0);
    assert_eq!(results.registered_users, (2, 0));
    let register = results.delays.register.milliseconds();
    assert_eq!((register.count, register.max), (2, Some(1.0)));
}

#[test]
fn what_is_sent_again_is_no_second_message() {
    let mut script = Script::new();
    let invite = CALL.request("INVITE", 1, &["a1"], "");
    script.see(0, 1, 2, &invite);
    script.see(500, 1, 2, &invite);
    script.see(1500, 1, 2, &invite);
    script.see_at(1500 * MS + 10_000, 1, 2, &invite);
    script.see(1600, 2, 1, &CALL.response(486, "INVITE", 1, &["a1"]));
    script.see(1601, 1, 2, &CALL.request("ACK", 1, &["a1"], "callee"));
    let (sessions, results) = script.finish();
    assert_eq!(sessions[0].outcome, Outcome::Refused(486));
    assert_eq!(sessions[0].retransmissions, 2);
    // From the first INVITE, whatever is sent again (RFC 6076 section 4).
    assert_eq!(sessions[0].session_request_delay, Some(1600 * MS));
    assert_eq!(
        sessions[0].timestamps.get(Milestone::Ack),
        None,
        "an ACK of a refusal"
    );
    let total = results.codes.total();
    assert_eq!((total.messages, total.retransmissions), (6, 2));
    assert!(
        results.remarks[0].contains("twice"),
        "{:?}",
        results.remarks
    );
}

#[test]
fn a_b2bua_carries_a_call_on_under_another_call_id() {
    let mut script = Script::new();
    let onward = Dialog {
        call_id: "other",
        ..CALL
    };
    script.see(0, 1, 2, &CALL.request("INVITE", 1, &["a1"], ""));
    script.see(4, 2, 3, &onward.request("INVITE", 77, &["b1"], ""));
    script.see(20, 3, 2, &onward.response(200, "INVITE", 77, &["b1"]));
    script.see(22, 2, 1, &CALL.response(200, "INVITE", 1, &["a1"]));
    script.see(25, 1, 2, &CALL.request("ACK", 1, &["a2"], "callee"));
    script.see(26, 2, 3, &onward.request("ACK", 77, &["b2"], "callee"));
    let (sessions, _) = script.finish();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0].call_ids.len(), 2);
    assert_eq!(at(&sessions[0], Milestone::Invite2), Some(4));
    assert_eq!(at(&sessions[0], Milestone::SdpOk1), Some(20));
    assert_eq!(at(&sessions[0], Milestone::SdpOk2), Some(22));
    assert_eq!(at(&sessions[0], Milestone::Ack), Some(25));
}

/// A B2BUA (hosts 2 and 5) that makes other users of both, and writes `onward` into the INVITE that it sends where the caller
/// wrote `field`; it asks for credentials first. Gives the sessions.
fn through_a_b2bua_that_rewrites(
    options: &Options,
    field: &str,
    onward: &str,
) -> Vec<capture::Session> {
    let mut script = Script::with(options);
    let other = Dialog {
        call_id: "other",
        from: "4930123",
        to: "4989456",
    };
    let with = |field: &str, text: String| text.replace("CSeq:", &format!("{field}CSeq:"));
    let see_invite = |script: &mut Script, time, cseq| {
        let invite = with(field, CALL.request("INVITE", cseq, &["a1"], ""));
        script.see(time, 1, 2, &invite);
    };
    see_invite(&mut script, 0, 1);
    script.see(1, 2, 1, &CALL.response(407, "INVITE", 1, &["a1"]));
    see_invite(&mut script, 3, 2);
    let invite = with(onward, other.request("INVITE", 1, &["b1"], ""));
    script.see(5, 5, 3, &invite);
    script.see(6, 3, 5, &other.response(200, "INVITE", 1, &["b1"]));
    script.see(8, 2, 1, &CALL.response(200, "INVITE", 2, &["a1"]));
    script.finish().0
}

#[test]
fn a_b2bua_that_rewrites_users_is_known_by_what_it_leaves() {
    let by_default = Options::default();
    let by_field = Options {
        correlate_by: Some("X-My-Call".to_owned()),
        ..Options::default()
    };
    let session_id = "Session-ID: ab30317f1a784dc48ff824d0d3715d86;remote=0\r\n";
    for (options, field, onward, calls) in [
        (&by_default, session_id, session_id, 1),
        (&by_default, "", "X-CID: call\r\n", 1),
        (&by_default, "", "x-call-id:call\r\n", 1),
        (&by_field, "X-My-Call: 7\r\n", "x-my-call: 7\r\n", 1),
        (&by_field, "", "X-My-Call: call\r\n", 1),
        (&by_default, "X-My-Call: 7\r\n", "X-My-Call: 7\r\n", 2),
        (&by_field, "X-My-Call: 7\r\n", "X-My-Call: 8\r\n", 2),
        (&by_default, session_id, "Session-ID: 1;remote=0\r\n", 2),
        (&by_default, "Session-ID: 00\r\n", "Session-ID: 00\r\n", 2),
        (&by_default, "", "X-CID: another\r\n", 2),
    ] {
        let sessions = through_a_b2bua_that_rewrites(options, field, onward);
        assert_eq!(sessions.len(), calls, "{field}{onward}");
        if calls == 1 {
            let session = &sessions[0];
            assert_eq!(session.call_ids.len(), 2);
            assert_eq!(at(session, Milestone::Invite1), Some(3));
            assert_eq!(at(session, Milestone::Invite2), Some(5));
            assert_eq!(at(session, Milestone::SdpOk1), Some(6));
            assert_eq!(at(session, Milestone::SdpOk2), Some(8));
        }
    }
}

/// What is said to belong together when the first call has long been answered, such as a transfer, is a call of its own.
#[test]
fn a_call_that_was_answered_is_not_carried_on() {
    let mut script = Script::new();
    call_through_proxy(&mut script, CALL, 0);
    let later = Dialog {
        call_id: "later",
        from: "bob",
        to: "carol",
    };
    let invite = later.request("INVITE", 1, &["b1"], "");
    let invite = invite.replace("CSeq:", "X-CID: call\r\nCSeq:");
    script.see(1200, 2, 4, &invite);
    assert_eq!(script.finish().0.len(), 2);
}

#[test]
fn two_calls_between_the_same_users_stay_two() {
    let mut script = Script::new();
    for call_id in ["one", "two"] {
        let call = Dialog { call_id, ..CALL };
        script.see(0, 1, 2, &call.request("INVITE", 1, &[call_id], ""));
    }
    let (sessions, _) = script.finish();
    assert_eq!(sessions.len(), 2);
}

#[test]
fn a_fork_counts_the_branch_that_answers() {
    let mut script = Script::new();
    script.see(0, 1, 2, &CALL.request("INVITE", 1, &["a1"], ""));
    script.see(2, 2, 3, &CALL.request("INVITE", 1, &["p1", "a1"], ""));
    script.see(3, 2, 4, &CALL.request("INVITE", 1, &["p2", "a1"], ""));
    script.see(8, 3, 2, &CALL.response(486, "INVITE", 1, &["p1", "a1"]));
    script.see(30, 4, 2, &CALL.response(200, "INVITE", 1, &["p2", "a1"]));
    script.see(31, 2, 1, &CALL.response(200, "INVITE", 1, &["a1"]));
    let (sessions, _) = script.finish();
    assert_eq!(sessions[0].outcome, Outcome::Standing);
    assert_eq!(at(&sessions[0], Milestone::Invite2), Some(3));
    assert_eq!(at(&sessions[0], Milestone::SdpOk1), Some(30));
}

#[test]
fn calls_are_over_when_they_are() {
    let mut script = Script::new();
    call_through_proxy(&mut script, CALL, 0);
    assert!(script.sessions.is_empty(), "it may be asked for again");
    // A minute later another user appears: long before the end of the capture the call is judged.
    register(&mut script, "carol", 4, 60_000);
    assert_eq!(script.sessions.len(), 1);
}

#[test]
fn a_lost_message_is_found() {
    let mut script = Script::new();
    for (number, lost) in ["none", "ACK", "180"].iter().enumerate() {
        let call_id = format!("call {lost}");
        let call = Dialog {
            call_id: &call_id,
            ..CALL
        };
        let start = number as i64 * 10_000;
        let branch = format!("a{number}");
        script.see(start, 1, 2, &call.request("INVITE", 1, &[&branch], ""));
        if *lost != "180" {
            script.see(
                start + 5,
                2,
                1,
                &call.response(180, "INVITE", 1, &[&branch]),
            );
        }
        script.see(
            start + 9,
            2,
            1,
            &call.response(200, "INVITE", 1, &[&branch]),
        );
        if *lost != "ACK" {
            script.see(
                start + 10,
                1,
                2,
                &call.request("ACK", 1, &["ack"], "callee"),
            );
        }
    }
    let (_, results) = script.finish();
    assert_eq!(results.losses.lost_sessions(), 2);
    for loss in results.losses.by_message() {
        let lost = matches!(loss.milestone, Milestone::Ack | Milestone::Ringing);
        assert_eq!(
            (loss.missing, loss.first),
            (u64::from(lost), u64::from(lost))
        );
    }
}

/// A call that was refused, redirected or given up has its final response: what it lacks was never sent.
#[test]
fn a_call_that_was_declined_lost_nothing() {
    let mut script = Script::new();
    call_through_proxy(&mut script, CALL, 0);
    let mut refuse = |start: i64, status: u16, rings: bool| {
        let call_id = format!("{status} {rings}");
        let call = Dialog {
            call_id: &call_id,
            ..CALL
        };
        script.see(start, 1, 2, &call.request("INVITE", 1, &["a1"], ""));
        if rings {
            script.see(start + 5, 2, 1, &call.response(180, "INVITE", 1, &["a1"]));
        }
        let refusal = call.response(status, "INVITE", 1, &["a1"]);
        script.see(start + 9, 2, 1, &refusal);
    };
    for (number, status) in [302, 404, 486, 487, 503, 603].into_iter().enumerate() {
        refuse(10_000 * (1 + number as i64), status, number % 2 == 0);
    }
    // Nobody picks up.
    refuse(70_000, 408, true);
    // The server says that it has waited in vain: nobody has got the INVITE, or nobody's answer came.
    refuse(80_000, 408, false);
    let (sessions, results) = script.finish();
    assert_eq!(sessions.len(), 9);
    assert_eq!(results.outcomes["refused"], 6);
    assert_eq!(results.losses.sessions(), 2);
    assert_eq!(results.losses.lost_sessions(), 1);
    let first = results
        .losses
        .by_message()
        .into_iter()
        .find(|loss| loss.first > 0);
    assert_eq!(first.map(|loss| loss.milestone), Some(Milestone::Invite2));
}

#[test]
fn calls_asked_for_are_drawn() {
    let mut script = Script::with(&Options {
        ladders: vec!["call".into(), "register-alice".into()],
        ..Options::default()
    });
    register(&mut script, "alice", 1, 0);
    call_through_proxy(&mut script, CALL, 1000);
    let (_, results) = script.finish();
    let ladders = results.named_ladders(None);
    assert_eq!(ladders.len(), 2);
    let texts: Vec<String> = ladders
        .iter()
        .map(|ladder| ladder.to_terminal(120))
        .collect();
    assert!(
        texts
            .iter()
            .any(|text| text.contains("REGISTER") && text.contains("401 X"))
    );
    let call = texts.iter().find(|text| text.contains("INVITE")).unwrap();
    assert!(
        call.contains("10.0.0.3") && call.contains("1108.000 ms"),
        "{call}"
    );
}

/// The first INVITE is still ringing when the second one is sent with another CSeq, and challenged: the delay is that of the
/// second one, from its own first request.
#[test]
fn the_delay_of_parallel_invites_is_that_of_the_answered_one() {
    let mut script = Script::new();
    script.see(0, 1, 2, &CALL.request("INVITE", 1, &["a1"], ""));
    script.see(10, 2, 1, &CALL.response(180, "INVITE", 1, &["a1"]));
    script.see(1000, 1, 2, &CALL.request("INVITE", 2, &["b1"], ""));
    script.see(1010, 2, 1, &CALL.response(407, "INVITE", 2, &["b1"]));
    script.see(1020, 1, 2, &CALL.request("INVITE", 3, &["b2"], ""));
    script.see(1100, 2, 1, &CALL.response(200, "INVITE", 3, &["b2"]));
    script.see(1110, 2, 1, &CALL.response(487, "INVITE", 1, &["a1"]));
    script.see(1120, 1, 2, &CALL.request("ACK", 3, &["b3"], "callee"));
    let (sessions, _) = script.finish();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let session = &sessions[0];
    assert_eq!(session.outcome, Outcome::Standing);
    assert_eq!(at(session, Milestone::Invite1), Some(1020));
    assert_eq!(session.session_request_delay, Some(100 * MS));
}
