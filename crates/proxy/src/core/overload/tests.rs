use rand::SeedableRng;

use super::*;

fn defence(policy: OverloadPolicy) -> Defence {
    Defence::new(&policy, &mut ChaCha12Rng::seed_from_u64(1))
}

fn request(method: Method, to_tag: &str) -> Message {
    let cseq = format!("1 {method}");
    Message::request(method, "sip:bob@example.com")
        .with(Name::Via, "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1")
        .with(Name::From, "<sip:alice@example.com>;tag=1")
        .with(Name::To, format!("<sip:bob@example.com>{to_tag}"))
        .with(Name::CallId, "1")
        .with(Name::CSeq, cseq)
}

const IN_DIALOG: &str = ";tag=2";

fn around(from: &str) -> Surroundings {
    Surroundings {
        from: from.parse().expect("an address"),
        is_trusted: false,
        registers_are_challenged: true,
        waited: Duration::ZERO,
        transactions: (0, 1000),
    }
}

/// How many of so many requests are admitted.
fn admitted(
    defence: &mut Defence,
    now: Instant,
    count: usize,
    request: &Message,
    around: &Surroundings,
) -> usize {
    (0..count)
        .filter(|_| defence.judge(now, request, around) == Admission::Admit)
        .count()
}

#[test]
fn a_source_has_its_rate_and_its_dialogs_as_much_again() {
    let now = Instant::now();
    let mut defence = defence(OverloadPolicy {
        requests_per_second_per_source: Some(10),
        burst: Duration::from_secs(2),
        ..OverloadPolicy::default()
    });
    let invite = request(Method::Invite, "");
    let bye = request(Method::Bye, IN_DIALOG);
    let attacker = around("192.0.2.1");
    assert_eq!(admitted(&mut defence, now, 100, &invite, &attacker), 20);
    assert_eq!(admitted(&mut defence, now, 100, &bye, &attacker), 20);
    assert_eq!(defence.judge(now, &bye, &attacker), Admission::Ignore);
    assert_eq!(defence.statistics().over_source_rate, 161);
    // Others are not concerned, nor are ACKs, nor is one who is trusted.
    assert_eq!(
        admitted(&mut defence, now, 5, &invite, &around("192.0.2.2")),
        5
    );
    let ack = request(Method::Ack, IN_DIALOG);
    assert_eq!(admitted(&mut defence, now, 100, &ack, &attacker), 100);
    let trusted = Surroundings {
        is_trusted: true,
        ..around("192.0.2.3")
    };
    assert_eq!(admitted(&mut defence, now, 100, &invite, &trusted), 100);
    assert_eq!(defence.statistics().sources, 2);
}

#[test]
fn all_together_have_a_rate_that_does_not_touch_dialogs() {
    let now = Instant::now();
    let mut defence = defence(OverloadPolicy {
        requests_per_second: Some(10),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let invite = request(Method::Invite, "");
    let passed: usize = (0..100)
        .map(|source| {
            let around = around(&format!("192.0.2.{source}"));
            admitted(&mut defence, now, 1, &invite, &around)
        })
        .sum();
    assert_eq!(passed, 10);
    assert_eq!(defence.statistics().over_rate, 90);
    let bye = request(Method::Bye, IN_DIALOG);
    let cancel = request(Method::Cancel, "");
    let from = around("192.0.2.1");
    assert_eq!(admitted(&mut defence, now, 100, &bye, &from), 100);
    assert_eq!(admitted(&mut defence, now, 100, &cancel, &from), 100);
}

#[test]
fn scanners_get_no_answer_but_those_with_credentials_do() {
    let now = Instant::now();
    let mut defence = defence(OverloadPolicy {
        unauthenticated_per_second_per_source: Some(5),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let scanner = around("192.0.2.1");
    let register = request(Method::Register, "");
    let options = request(Method::Options, "");
    assert_eq!(admitted(&mut defence, now, 3, &register, &scanner), 3);
    assert_eq!(admitted(&mut defence, now, 100, &options, &scanner), 2);
    assert_eq!(defence.judge(now, &register, &scanner), Admission::Ignore);
    assert_eq!(defence.statistics().scans_ignored, 99);
    let with = register.clone().with(Name::Authorization, "Digest a=b");
    assert_eq!(admitted(&mut defence, now, 100, &with, &scanner), 100);
    // Where nobody is asked for credentials, nobody has them.
    let open = Surroundings {
        registers_are_challenged: false,
        ..scanner
    };
    assert_eq!(admitted(&mut defence, now, 100, &register, &open), 100);
}

#[test]
fn room_for_transactions_is_kept_for_dialogs() {
    let now = Instant::now();
    let mut defence = defence(OverloadPolicy::default());
    let at = |transactions| Surroundings {
        transactions: (transactions, 1000),
        ..around("192.0.2.1")
    };
    let invite = request(Method::Invite, "");
    let message = request(Method::Message, "");
    let bye = request(Method::Bye, IN_DIALOG);
    let table = [
        (899, [Admission::Admit, Admission::Admit, Admission::Admit]),
        (900, [Admission::Refuse, Admission::Admit, Admission::Admit]),
        (949, [Admission::Refuse, Admission::Admit, Admission::Admit]),
        (
            950,
            [Admission::Refuse, Admission::Refuse, Admission::Admit],
        ),
    ];
    for (transactions, expected) in table {
        let judged =
            [&invite, &message, &bye].map(|request| defence.judge(now, request, &at(transactions)));
        assert_eq!(judged, expected, "with {transactions}");
    }
    assert_eq!(defence.statistics().over_transactions, 4);
}

#[test]
fn while_messages_wait_new_calls_go_first_and_dialogs_never() {
    let begun = Instant::now();
    let mut defence = defence(OverloadPolicy::default());
    let (target, interval) = (
        OverloadPolicy::default().queue_delay_target,
        OverloadPolicy::default().queue_delay_interval,
    );
    let invite = request(Method::Invite, "");
    let register = request(Method::Register, "");
    let bye = request(Method::Bye, IN_DIALOG);
    let mut judge = |at: Duration, waited: Duration, request: &Message| {
        let around = Surroundings {
            waited,
            ..around("192.0.2.1")
        };
        defence.note_waited(begun + at, waited);
        defence.judge(begun + at, request, &around)
    };
    assert_eq!(judge(Duration::ZERO, target, &invite), Admission::Admit);
    assert_eq!(judge(interval, target, &invite), Admission::Refuse);
    assert_eq!(judge(interval, target, &register), Admission::Admit);
    assert_eq!(judge(interval, 4 * target, &register), Admission::Refuse);
    assert_eq!(judge(interval, 40 * target, &bye), Admission::Admit);
    assert_eq!(judge(interval, target / 2, &invite), Admission::Admit);
    assert_eq!(defence.statistics().over_queue_delay, 2);
}

#[test]
fn a_server_that_drains_ends_what_has_begun() {
    let now = Instant::now();
    let mut defence = defence(OverloadPolicy::default());
    defence.drain();
    let from = around("192.0.2.1");
    for refused in [
        Method::Invite,
        Method::Subscribe,
        Method::Refer,
        Method::Options,
    ] {
        let judged = defence.judge(now, &request(refused, ""), &from);
        assert_eq!(judged, Admission::Refuse);
    }
    for taken in [
        Method::Register,
        Method::Message,
        Method::Publish,
        Method::Cancel,
    ] {
        let judged = defence.judge(now, &request(taken, ""), &from);
        assert_eq!(judged, Admission::Admit);
    }
    for of_a_dialog in [Method::Invite, Method::Bye, Method::Options, Method::Notify] {
        let judged = defence.judge(now, &request(of_a_dialog, IN_DIALOG), &from);
        assert_eq!(judged, Admission::Admit);
    }
    assert_eq!(defence.statistics().draining, 4);
}

#[test]
fn workers_share_rates_and_none_gets_nothing() {
    let policy = OverloadPolicy {
        requests_per_second: Some(100),
        requests_per_second_per_source: Some(1),
        ..OverloadPolicy::default()
    };
    let share = policy.shared_among(4);
    assert_eq!(share.requests_per_second, Some(25));
    assert_eq!(share.requests_per_second_per_source, Some(1));
    assert_eq!(policy.shared_among(0), policy);
}
