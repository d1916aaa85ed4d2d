use rand::SeedableRng;

use super::*;

fn control(policy: OverloadPolicy) -> OverloadControl {
    OverloadControl::new(&policy, &mut ChaCha12Rng::seed_from_u64(1))
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

fn around(from: &str) -> Conditions {
    Conditions {
        from: from.parse().expect("an address"),
        is_trusted: false,
        challenged: Challenged {
            registers: true,
            ..Challenged::default()
        },
        waited: Duration::ZERO,
        transactions: (0, 1000),
    }
}

/// What can be found out about requests that are what they say.
const GENUINE: LazyChecks<'_> = LazyChecks {
    is_of_our_dialog: &|| true,
    has_nonce_of_ours: &|| true,
};

/// And about those that have made it up.
const INVENTED: LazyChecks<'_> = LazyChecks {
    is_of_our_dialog: &|| false,
    has_nonce_of_ours: &|| false,
};

/// How many of so many requests are admitted.
fn admitted(
    control: &mut OverloadControl,
    now: Instant,
    count: usize,
    request: &Message,
    around: &Conditions,
) -> usize {
    admitted_with(control, now, count, (request, &GENUINE), around)
}

fn admitted_with(
    control: &mut OverloadControl,
    now: Instant,
    count: usize,
    (request, proofs): (&Message, &LazyChecks<'_>),
    around: &Conditions,
) -> usize {
    (0..count)
        .filter(|_| control.judge(now, request, around, proofs) == Admission::Admit)
        .count()
}

#[test]
fn a_source_has_its_rate_and_its_dialogs_as_much_again() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy {
        requests_per_second_per_source: Some(10),
        burst: Duration::from_secs(2),
        ..OverloadPolicy::default()
    });
    let invite = request(Method::Invite, "");
    let bye = request(Method::Bye, IN_DIALOG);
    let attacker = around("192.0.2.1");
    assert_eq!(admitted(&mut control, now, 100, &invite, &attacker), 20);
    assert_eq!(admitted(&mut control, now, 100, &bye, &attacker), 20);
    assert_eq!(
        control.judge(now, &bye, &attacker, &GENUINE),
        Admission::Ignore
    );
    assert_eq!(control.statistics().over_source_rate, 161);
    // Who invents a dialog has no more than that.
    let inventor = around("192.0.2.4");
    let invented = (&bye, &INVENTED);
    assert_eq!(
        admitted_with(&mut control, now, 100, invented, &inventor),
        20
    );
    // Others are not concerned, nor are ACKs, nor is one who is trusted.
    assert_eq!(
        admitted(&mut control, now, 5, &invite, &around("192.0.2.2")),
        5
    );
    let ack = request(Method::Ack, IN_DIALOG);
    assert_eq!(admitted(&mut control, now, 100, &ack, &attacker), 100);
    let trusted = Conditions {
        is_trusted: true,
        ..around("192.0.2.3")
    };
    assert_eq!(admitted(&mut control, now, 100, &invite, &trusted), 100);
    assert_eq!(control.statistics().sources, 3);
}

#[test]
fn all_together_have_a_rate_that_does_not_touch_dialogs() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy {
        requests_per_second: Some(10),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let invite = request(Method::Invite, "");
    let passed: usize = (0..100)
        .map(|source| {
            let around = around(&format!("192.0.2.{source}"));
            admitted(&mut control, now, 1, &invite, &around)
        })
        .sum();
    assert_eq!(passed, 10);
    assert_eq!(control.statistics().over_rate, 90);
    let bye = request(Method::Bye, IN_DIALOG);
    let cancel = request(Method::Cancel, "");
    let from = around("192.0.2.1");
    assert_eq!(admitted(&mut control, now, 100, &bye, &from), 100);
    assert_eq!(admitted(&mut control, now, 100, &cancel, &from), 100);
    let invite = request(Method::Invite, IN_DIALOG);
    let invented = (&invite, &INVENTED);
    assert_eq!(admitted_with(&mut control, now, 10, invented, &from), 0);
    let later = now + Duration::from_secs(1);
    assert_eq!(admitted_with(&mut control, later, 20, invented, &from), 10);
}

#[test]
fn scanners_get_no_answer_whatever_they_have_for_credentials() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy {
        unauthenticated_per_second_per_source: Some(5),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let scanner = around("192.0.2.1");
    let register = request(Method::Register, "");
    let options = request(Method::Options, "");
    assert_eq!(admitted(&mut control, now, 3, &register, &scanner), 3);
    assert_eq!(admitted(&mut control, now, 100, &options, &scanner), 2);
    let judged = control.judge(now, &register, &scanner, &GENUINE);
    assert_eq!(judged, Admission::Ignore);
    assert_eq!(control.statistics().scans_ignored, 99);
    let with = register.clone().with(Name::Authorization, "Digest a=b");
    for method in [Method::Register, Method::Options] {
        for tag in ["", IN_DIALOG] {
            let with = request(method.clone(), tag).with(Name::Authorization, "Digest a=b");
            let invented = (&with, &INVENTED);
            assert_eq!(admitted_with(&mut control, now, 10, invented, &scanner), 0);
        }
    }
    // A phone at the same address that answers our challenge rightly, as often as it likes.
    for _ in 0..1000 {
        assert_eq!(admitted(&mut control, now, 1, &with, &scanner), 1);
        control.note_credentials(now, scanner.from, &Method::Register, false, true);
    }
    // That of a call of ours is nobody's scan.
    let within = request(Method::Options, IN_DIALOG);
    assert_eq!(admitted(&mut control, now, 100, &within, &scanner), 100);
    // Where nobody is asked for credentials, nobody has them.
    let open = Conditions {
        challenged: Challenged::default(),
        ..scanner
    };
    assert_eq!(admitted(&mut control, now, 100, &register, &open), 100);
}

/// While the rate is not used up nothing is looked at that takes long.
#[test]
fn credentials_are_looked_at_when_the_rate_is_used_up() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy {
        unauthenticated_per_second_per_source: Some(5),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let looked = std::cell::Cell::new(0);
    let proofs = LazyChecks {
        is_of_our_dialog: &|| panic!("there is no tag"),
        has_nonce_of_ours: &|| {
            looked.set(looked.get() + 1);
            true
        },
    };
    let with = request(Method::Register, "").with(Name::Authorization, "Digest a=b");
    let (phone, from) = ((&with, &proofs), around("192.0.2.1"));
    assert_eq!(admitted_with(&mut control, now, 5, phone, &from), 5);
    assert_eq!(looked.get(), 0);
    assert_eq!(admitted_with(&mut control, now, 5, phone, &from), 5);
    assert_eq!(looked.get(), 5);
}

/// Whoever tries passwords has so many at once, and then the rate; whatever the method.
#[test]
fn attempts_at_passwords_are_bounded() {
    let begin = Instant::now();
    for method in [Method::Register, Method::Invite, Method::Message] {
        for tag in ["", IN_DIALOG] {
            let mut control = control(OverloadPolicy {
                unauthenticated_per_second_per_source: Some(10),
                burst: Duration::from_secs(2),
                ..OverloadPolicy::default()
            });
            let guesser = Conditions {
                challenged: Challenged {
                    registers: true,
                    calls: true,
                    in_dialogs: false,
                },
                ..around("192.0.2.1")
            };
            let guess = request(method.clone(), tag).with(Name::ProxyAuthorization, "Digest a=b");
            let proofs = LazyChecks {
                has_nonce_of_ours: &|| true,
                ..INVENTED
            };
            let mut attempts = 0;
            for millisecond in 0..20_000 {
                let now = begin + Duration::from_millis(millisecond);
                if control.judge(now, &guess, &guesser, &proofs) == Admission::Admit {
                    attempts += 1;
                    control.note_credentials(now, guesser.from, &method, false, false);
                }
            }
            // What may be saved up, five times as much, and ten a second.
            assert!((310..=325).contains(&attempts), "{method}: {attempts}");
            let now = begin + Duration::from_millis(19_999);
            let mut judge = |request: &Message, proofs: &LazyChecks<'_>, around: &Conditions| {
                control.judge(now, request, around, proofs) == Admission::Admit
            };
            assert!(!judge(&guess, &proofs, &guesser));
            // Who is not asked cannot guess, nor who brings credentials for somebody else, nor can an ACK or a call.
            let ack = request(Method::Ack, IN_DIALOG).with(Name::ProxyAuthorization, "Digest a=b");
            assert!(judge(&ack, &proofs, &guesser));
            if method != Method::Register {
                assert!(judge(&guess, &INVENTED, &guesser));
                assert!(judge(&request(method.clone(), ""), &GENUINE, &guesser));
                let within =
                    request(method.clone(), IN_DIALOG).with(Name::ProxyAuthorization, "Digest a=b");
                assert!(judge(&within, &GENUINE, &guesser));
                let everywhere = Conditions {
                    challenged: Challenged {
                        in_dialogs: true,
                        ..guesser.challenged
                    },
                    ..guesser
                };
                assert!(!judge(&within, &GENUINE, &everywhere));
            }
            let open = Conditions {
                challenged: Challenged::default(),
                ..guesser
            };
            assert!(judge(&guess, &proofs, &open));
        }
    }
}

/// Attempts that are under way when the bound is reached are paid for, too.
#[test]
fn attempts_that_are_under_way_count() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy {
        unauthenticated_per_second_per_source: Some(10),
        burst: Duration::from_secs(1),
        ..OverloadPolicy::default()
    });
    let guesser = Conditions {
        challenged: Challenged {
            calls: true,
            ..Challenged::default()
        },
        ..around("192.0.2.1")
    };
    let guess = request(Method::Invite, "").with(Name::ProxyAuthorization, "Digest a=b");
    assert_eq!(admitted(&mut control, now, 100, &guess, &guesser), 100);
    for _ in 0..100 {
        control.note_credentials(now, guesser.from, &Method::Invite, false, false);
    }
    let after = |seconds| now + Duration::from_secs(seconds);
    assert_eq!(admitted(&mut control, after(4), 1, &guess, &guesser), 0);
    assert_eq!(admitted(&mut control, after(6), 1, &guess, &guesser), 1);
}

#[test]
fn room_for_transactions_is_kept_for_dialogs() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy::default());
    let at = |transactions| Conditions {
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
        let judged = [&invite, &message, &bye]
            .map(|request| control.judge(now, request, &at(transactions), &GENUINE));
        assert_eq!(judged, expected, "with {transactions}");
    }
    assert_eq!(control.statistics().over_transactions, 4);
    let invented = request(Method::Invite, IN_DIALOG);
    let judged = control.judge(now, &invented, &at(900), &INVENTED);
    assert_eq!(judged, Admission::Refuse);
}

#[test]
fn while_messages_wait_new_calls_go_first_and_dialogs_never() {
    let begun = Instant::now();
    let mut control = control(OverloadPolicy::default());
    let (target, interval) = (
        OverloadPolicy::default().queue_delay_target,
        OverloadPolicy::default().queue_delay_interval,
    );
    let invite = request(Method::Invite, "");
    let register = request(Method::Register, "");
    let bye = request(Method::Bye, IN_DIALOG);
    // So many wait that it is not for a pause.
    (0..100).for_each(|_| control.note_waited(begun, target));
    let mut judge_with =
        |at: Duration, waited: Duration, request: &Message, proofs: &LazyChecks<'_>| {
            let around = Conditions {
                waited,
                ..around("192.0.2.1")
            };
            control.note_waited(begun + at, waited);
            control.judge(begun + at, request, &around, proofs)
        };
    let mut judge = |at, waited, request: &Message| judge_with(at, waited, request, &GENUINE);
    assert_eq!(judge(Duration::ZERO, target, &invite), Admission::Admit);
    assert_eq!(judge(interval, target, &invite), Admission::Refuse);
    assert_eq!(judge(interval, target, &register), Admission::Admit);
    assert_eq!(judge(interval, 4 * target, &register), Admission::Refuse);
    assert_eq!(judge(interval, 40 * target, &bye), Admission::Admit);
    // A tag in To that somebody has made up makes no dialog.
    let tagged = request(Method::Invite, IN_DIALOG);
    assert_eq!(judge(interval, 40 * target, &tagged), Admission::Admit);
    let judged = judge_with(interval, target, &tagged, &INVENTED);
    assert_eq!(judged, Admission::Refuse);
    let judged = judge_with(interval, target, &bye, &INVENTED);
    assert_eq!(judged, Admission::Admit);
    let mut judge = |at, waited, request: &Message| judge_with(at, waited, request, &GENUINE);
    assert_eq!(judge(interval, target / 2, &invite), Admission::Admit);
    assert_eq!(control.statistics().over_queue_delay, 3);
}

#[test]
fn a_server_that_drains_ends_what_has_begun() {
    let now = Instant::now();
    let mut control = control(OverloadPolicy::default());
    control.drain();
    let from = around("192.0.2.1");
    for refused in [
        Method::Invite,
        Method::Subscribe,
        Method::Refer,
        Method::Options,
    ] {
        let judged = control.judge(now, &request(refused, ""), &from, &GENUINE);
        assert_eq!(judged, Admission::Refuse);
    }
    for taken in [
        Method::Register,
        Method::Message,
        Method::Publish,
        Method::Cancel,
    ] {
        let judged = control.judge(now, &request(taken, ""), &from, &GENUINE);
        assert_eq!(judged, Admission::Admit);
    }
    for of_a_dialog in [Method::Invite, Method::Bye, Method::Options, Method::Notify] {
        let judged = control.judge(now, &request(of_a_dialog, IN_DIALOG), &from, &GENUINE);
        assert_eq!(judged, Admission::Admit);
    }
    assert_eq!(control.statistics().draining, 4);
    let invented = request(Method::Invite, IN_DIALOG);
    let judged = control.judge(now, &invented, &from, &INVENTED);
    assert_eq!(judged, Admission::Refuse);
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
