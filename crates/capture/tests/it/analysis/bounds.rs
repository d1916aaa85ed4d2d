//! Captures made to harm.

use capture::{FileSummary, Options, Outcome, Output};
use report::Machine;

use crate::analysis::script::*;

#[test]
fn calls_without_end_are_bounded() {
    let mut script = Script::with(&Options {
        most_open: 100,
        most_users: 10,
        ..Options::default()
    });
    for number in 0..1000 {
        let call_id = format!("call-{number}");
        let user = format!("user-{number}");
        let call = Dialog {
            call_id: &call_id,
            from: &user,
            to: "bob",
        };
        script.see(number, 1, 2, &call.request("INVITE", 1, &["a"], ""));
        register(&mut script, &user, 3, number);
    }
    let (sessions, results) = script.finish();
    assert!(sessions.len() <= 100);
    assert!(results.most_open <= 100);
    assert_eq!(
        results.codes.total().messages,
        5000,
        "they are counted all the same"
    );
    let remarks = results.remarks.join("\n");
    assert!(remarks.contains("--open-calls"), "{remarks}");
}

/// However long a capture is, no more is remembered than what is open: a call a second, each over at once.
#[test]
fn calls_that_are_over_are_forgotten() {
    let mut open = Vec::new();
    for calls in [100, 5000] {
        let mut script = Script::new();
        for number in 0..calls {
            let call_id = format!("call-{number}");
            let call = Dialog {
                call_id: &call_id,
                ..CALL
            };
            call_through_proxy(&mut script, call, number * 1000);
        }
        let (sessions, results) = script.finish();
        assert_eq!(sessions.len() as i64, calls);
        open.push(results.most_open);
    }
    assert_eq!(open[0], open[1]);
    assert!(open[0] < 50, "{open:?}");
}

/// As many failed calls are kept to be drawn as are wanted, and it is told how many more there are.
#[test]
fn failed_calls_are_drawn_as_many_as_are_wanted() {
    for most_failed in [0, 3, 20] {
        let mut script = Script::with(&Options {
            keep_worst: true,
            most_failed,
            ..Options::default()
        });
        for number in 0..10 {
            let call_id = format!("call-{number}");
            let call = Dialog {
                call_id: &call_id,
                ..CALL
            };
            let start = number * 100;
            script.see(start, 1, 2, &call.request("INVITE", 1, &["a1"], ""));
            script.see(start + 1, 2, 1, &call.response(486, "INVITE", 1, &["a1"]));
        }
        let (_, results) = script.finish();
        let drawn = results.failed_ladders(None).len();
        assert_eq!(drawn, most_failed.min(10));
        assert_eq!(results.more_failed as usize, 10 - drawn);
    }
}

#[test]
fn one_call_without_end_is_bounded() {
    let mut script = Script::new();
    for cseq in 1..20_000 {
        let branch = format!("b{cseq}");
        let from = (cseq % 250) as u8;
        script.see(
            i64::from(cseq),
            from,
            254,
            &CALL.request("INFO", cseq, &[&branch], "x"),
        );
    }
    script.see(20_001, 1, 2, &CALL.request("INVITE", 1, &["late"], ""));
    let (sessions, results) = script.finish();
    assert_eq!(sessions.len(), 1);
    assert!(results.remarks.join("\n").contains("very long calls"));
}

#[test]
fn times_may_leap_either_way() {
    let mut script = Script::new();
    for (number, time) in [i64::MIN / 2, i64::MAX / 2, 0, 5, -5, i64::MAX / 3, 1 << 40]
        .into_iter()
        .enumerate()
    {
        let call_id = format!("call-{number}");
        let call = Dialog {
            call_id: &call_id,
            ..CALL
        };
        script.see_at(time, 1, 2, &call.request("INVITE", 1, &["a1"], ""));
        script.see_at(time, 2, 1, &call.response(200, "INVITE", 1, &["a1"]));
        script.see_at(time, 1, 2, &call.request("BYE", 2, &["a3"], "x"));
        script.see_at(-time, 2, 1, &call.response(200, "BYE", 2, &["a3"]));
    }
    let (sessions, _) = script.finish();
    assert_eq!(sessions.len(), 7);
}

#[test]
fn nonsense_is_counted() {
    let mut script = Script::new();
    for text in [
        "",
        "\r\n\r\n",
        "INVITE",
        "INVITE sip:x SIP/2.0\r\n\r\n",
        "SIP/2.0 999999999 X\r\n\r\n",
        "SIP/2.0 200 OK\r\nVia: ,,,\r\nCall-ID: \r\nCSeq: 99999999999 X\r\n\r\n",
        "INVITE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP a\r\nTo: <<>\r\nFrom: \"\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\r\n",
    ] {
        script.see(0, 1, 2, text);
    }
    let (_, results) = script.finish();
    assert!(!results.remarks.is_empty());
}

/// A call with octets changed here and there, thousands of times: judged, and shown in every way.
#[test]
fn what_is_mangled_is_judged_and_shown() {
    let mut script = Script::with(&Options {
        keep_worst: true,
        ladders: vec!["call".into()],
        ..Options::default()
    });
    let messages = [
        CALL.request("INVITE", 1, &["a1"], ""),
        CALL.response(180, "INVITE", 1, &["a1"]),
        CALL.response(200, "INVITE", 1, &["a1"]),
        CALL.request("ACK", 1, &["a2"], "callee"),
        CALL.request("BYE", 2, &["a3"], "callee"),
        CALL.response(200, "BYE", 2, &["a3"]),
        CALL.request("REGISTER", 3, &["a4"], ""),
        CALL.response(401, "REGISTER", 3, &["a4"]),
    ];
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        // Knuth's MMIX generator: any will do, the same in every run.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for time in 0..20_000 {
        let mut octets = messages[draw(messages.len())].clone().into_bytes();
        for _ in 0..draw(4) {
            let at = draw(octets.len());
            octets[at] = b"\r\n;:<>\", \x1b0a9=@%"[draw(16)];
        }
        let text = String::from_utf8_lossy(&octets).into_owned();
        script.see(
            time * 7 - draw(1000) as i64,
            draw(3) as u8,
            draw(3) as u8,
            &text,
        );
    }
    let (sessions, results) = script.finish();
    assert!(results.most_open > 1);
    let output = Output {
        results,
        files: Vec::<FileSummary>::new(),
        sessions: sessions.len() as u64,
        shown: sessions,
    };
    let machine = Machine {
        kernel: "k".into(),
        cpu: "c".into(),
        cores: 1,
    };
    let html = output.to_html("tandem", machine, 0, Vec::new(), None);
    assert!(html.ends_with("</html>\n"));
    let text = output.to_terminal(80) + &html;
    assert!(!text.contains('\x1b'), "nothing drives the terminal");
}

/// Challenged INVITEs wait to be repeated, but a scan that repeats none of them takes no room from calls.
#[test]
fn challenged_calls_that_nobody_repeats_are_bounded() {
    let mut script = Script::with(&Options {
        most_open: 100,
        ..Options::default()
    });
    for number in 0..1000 {
        let call_id = format!("scan-{number}");
        let scan = Dialog {
            call_id: &call_id,
            ..CALL
        };
        let start = number * 1000;
        script.see(start, 9, 2, &scan.request("INVITE", 1, &["s"], ""));
        script.see(start + 1, 2, 9, &scan.response(407, "INVITE", 1, &["s"]));
    }
    call_through_proxy(&mut script, CALL, 1_000_000);
    let (sessions, results) = script.finish();
    assert_eq!(sessions.len(), 1001);
    assert!(results.most_open <= 30, "{}", results.most_open);
    let call = sessions
        .iter()
        .find(|session| *session.call_ids[0] == *CALL.call_id);
    assert_eq!(call.map(|call| call.outcome), Some(Outcome::Completed));
}
