//! Calls are made, refused, given up, sent elsewhere.

use std::time::Duration;

use bytes::Bytes;
use sip::{Method, Name};
use ua::{EndReason, UaConfig, UaEvent};

use crate::network::{Network, offer, response, two, uri_of};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_call_is_answered_and_hung_up_by_either_side() {
    for caller_hangs_up in [true, false] {
        let (mut network, alice, bob) = two(1);
        let (outgoing, incoming) = network.connect(alice, bob);
        let answered = UaEvent::Answered {
            call: outgoing,
            description: offer("callee"),
        };
        assert!(network.of(alice).contains(&&answered));
        let established = UaEvent::Established {
            call: incoming,
            description: Bytes::new(),
        };
        assert!(network.of(bob).contains(&&established));
        match caller_hangs_up {
            true => network
                .with(alice, |ua, now| ua.hang_up(now, outgoing))
                .unwrap(),
            false => network
                .with(bob, |ua, now| ua.hang_up(now, incoming))
                .unwrap(),
        }
        network.run(40 * SECOND);
        let (local, remote) = (Some(&EndReason::Local), Some(&EndReason::Remote));
        let ends = (
            network.end_of(alice, outgoing),
            network.end_of(bob, incoming),
        );
        assert_eq!(
            ends,
            if caller_hangs_up {
                (local, remote)
            } else {
                (remote, local)
            }
        );
        assert!(network.ua(alice).is_idle() && network.ua(bob).is_idle());
        assert_eq!(network.requests(Method::Bye).len(), 1);
    }
}

#[test]
fn a_caller_hears_that_it_rings_and_of_sound_before_the_answer() {
    let (mut network, alice, bob) = two(2);
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.ring(now, incoming, Bytes::new()))
        .unwrap();
    network.run(SECOND);
    network
        .with(bob, |ua, now| ua.ring(now, incoming, offer("early")))
        .unwrap();
    network.run(5 * SECOND);
    let heard: Vec<(u16, Bytes)> = network
        .of(alice)
        .into_iter()
        .filter_map(|event| match event {
            UaEvent::Progress {
                status,
                description,
                ..
            } if *status > 100 => Some((*status, description.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(heard, [(180, Bytes::new()), (183, offer("early"))]);
    let acknowledged = network.requests(Method::Prack);
    assert_eq!(
        acknowledged.len(),
        1,
        "the one with a description is reliable"
    );
    assert!(
        acknowledged[0]
            .header(Name::RAck)
            .is_some_and(|value| value.ends_with(" INVITE"))
    );
    network
        .with(bob, |ua, now| ua.answer(now, incoming, offer("early")))
        .unwrap();
    network.run(SECOND);
    let answered = UaEvent::Answered {
        call,
        description: Bytes::new(),
    };
    assert!(
        network.of(alice).contains(&&answered),
        "the answer was there already"
    );
    network
        .with(alice, |ua, now| ua.hang_up(now, call))
        .unwrap();
    network.run(40 * SECOND);
    assert_eq!(
        network.end_of(bob, incoming),
        Some(&EndReason::Remote),
        "the dialog's count went on"
    );
}

#[test]
fn a_call_is_given_up_before_and_after_it_rings() {
    for wait in [Duration::from_millis(5), SECOND] {
        let (mut network, alice, bob) = two(3);
        let to = uri_of(bob);
        let call = network.with(alice, |ua, now| {
            ua.dial(now, alice.account, &to, offer("offer"))
        });
        network.run(wait);
        network
            .with(alice, |ua, now| ua.hang_up(now, call))
            .unwrap();
        network.run(40 * SECOND);
        assert_eq!(network.end_of(alice, call), Some(&EndReason::Local));
        let incoming = network.incoming(bob);
        assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Remote));
        assert_eq!(network.requests(Method::Cancel).len(), 1);
        assert!(network.ua(alice).is_idle() && network.ua(bob).is_idle());
    }
}

#[test]
fn a_call_that_is_given_up_too_late_is_hung_up() {
    let (mut network, alice, bob) = two(4);
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.answer(now, incoming, offer("answer")))
        .unwrap();
    network
        .with(alice, |ua, now| ua.hang_up(now, call))
        .unwrap();
    network.run(40 * SECOND);
    assert_eq!(network.end_of(alice, call), Some(&EndReason::Local));
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Remote));
}

#[test]
fn a_refusal_says_why() {
    let (mut network, alice, bob) = two(5);
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.refuse(now, incoming, 486, "Busy Here"))
        .unwrap();
    network.run(40 * SECOND);
    let refused = EndReason::Refused {
        status: 486,
        reason: "Busy Here".to_owned(),
    };
    assert_eq!(network.end_of(alice, call), Some(&refused));
    let call = network.with(alice, |ua, now| {
        ua.dial(
            now,
            alice.account,
            "sip:nobody@10.0.0.2:5060",
            offer("offer"),
        )
    });
    network.run(SECOND);
    let refused = EndReason::Refused {
        status: 404,
        reason: "Not Found".to_owned(),
    };
    assert_eq!(network.end_of(alice, call), Some(&refused));
}

#[test]
fn a_call_follows_a_redirection() {
    let (mut network, alice, bob) = two(6);
    let carol = network.phone("user", UaConfig::default());
    let to = uri_of(bob);
    let carols = uri_of(carol);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.redirect(now, incoming, &carols))
        .unwrap();
    network.run(SECOND);
    let incoming = network.incoming(carol);
    network
        .with(carol, |ua, now| ua.answer(now, incoming, offer("carol")))
        .unwrap();
    network.run(SECOND);
    let answered = UaEvent::Answered {
        call,
        description: offer("carol"),
    };
    assert!(network.of(alice).contains(&&answered));
}

#[test]
fn nobody_answers() {
    let (mut network, alice, _) = two(7);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, "sip:bob@10.0.0.99:5060", offer("offer"))
    });
    network.run(33 * SECOND);
    let refused = EndReason::Refused {
        status: 408,
        reason: "Request Timeout".to_owned(),
    };
    assert_eq!(network.end_of(alice, call), Some(&refused));
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, "sip:bob@nowhere", offer("offer"))
    });
    network.run(SECOND);
    let refused = EndReason::Refused {
        status: 503,
        reason: "Service Unavailable".to_owned(),
    };
    assert_eq!(network.end_of(alice, call), Some(&refused));
}

#[test]
fn of_two_answers_the_first_one_counts_and_the_other_is_hung_up() {
    let (mut network, alice, _) = two(8);
    let forks = network.script(Box::new(|request| match request.method() {
        Some(Method::Invite) => ["one", "other"]
            .map(|tag| {
                let mut answer = sip::Message::response_to(request, 200, "OK");
                answer.set_to_tag(tag);
                answer
                    .with(Name::Contact, "<sip:fork@10.0.0.3:5060>")
                    .with_body("application/sdp", offer(tag))
            })
            .into(),
        Some(Method::Bye) => vec![response(request, 200, "OK")],
        _ => Vec::new(),
    }));
    let to = format!("sip:bob@{forks}");
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(2 * SECOND);
    let answered = UaEvent::Answered {
        call,
        description: offer("one"),
    };
    assert!(network.of(alice).contains(&&answered));
    let byes = network.requests(Method::Bye);
    assert_eq!(byes.len(), 1);
    assert_eq!(byes[0].to_tag(), Some("other"));
    let acks: Vec<_> = network
        .requests(Method::Ack)
        .into_iter()
        .map(|ack| ack.to_tag())
        .collect();
    assert_eq!(acks, [Some("one"), Some("other")]);
    assert_eq!(network.end_of(alice, call), None);
}

#[test]
fn more_calls_than_allowed_find_it_busy() {
    let (mut network, alice, _) = two(9);
    let busy = network.phone(
        "user",
        UaConfig {
            max_calls: 1,
            ..UaConfig::default()
        },
    );
    let to = uri_of(busy);
    let first = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let second = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    assert_eq!(network.end_of(alice, first), None);
    let refused = EndReason::Refused {
        status: 486,
        reason: "Busy Here".to_owned(),
    };
    assert_eq!(network.end_of(alice, second), Some(&refused));
}

#[test]
fn an_offer_may_come_with_the_answer() {
    let (mut network, alice, bob) = two(10);
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, Bytes::new())
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| {
            ua.answer(now, incoming, offer("offer of the callee"))
        })
        .unwrap();
    network.run(SECOND);
    let answered = UaEvent::Answered {
        call,
        description: offer("offer of the callee"),
    };
    assert!(network.of(alice).contains(&&answered));
}

#[test]
fn the_shortest_session_interval_that_is_taken_counts_for_that_call_alone() {
    let mut network = Network::new(31);
    let alice = network.phone("user", UaConfig::default());
    let callee = network.script(Box::new(|request| {
        if request.method() != Some(&Method::Invite) {
            return Vec::new();
        }
        vec![if request.header(Name::MinSe) == Some("7200") {
            response(request, 486, "Busy Here")
        } else {
            response(request, 422, "Session Interval Too Small").with(Name::MinSe, "7200")
        }]
    }));
    let to = format!("sip:user@{callee}");
    for _ in 0..2 {
        network.with(alice, |ua, now| {
            ua.dial(now, alice.account, &to, offer("caller"))
        });
        network.run(SECOND);
    }
    let asked: Vec<_> = network
        .requests(Method::Invite)
        .into_iter()
        .map(|invite| invite.header(Name::SessionExpires).map(str::to_owned))
        .collect();
    let asked: Vec<_> = asked.iter().map(Option::as_deref).collect();
    assert_eq!(asked, [Some("1800"), Some("7200")].repeat(2));
}

#[test]
fn a_call_that_nobody_answers_is_refused_after_a_while() {
    let (mut network, alice, bob) = two(32);
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("caller"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.ring(now, incoming, Bytes::new()))
        .unwrap();
    network.run(178 * SECOND);
    assert_eq!(network.end_of(bob, incoming), None);
    network.run(3 * SECOND);
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Local));
    let refused = EndReason::Refused {
        status: 480,
        reason: "Temporarily Unavailable".to_owned(),
    };
    assert_eq!(network.end_of(alice, call), Some(&refused));
}

#[test]
fn a_call_that_is_given_up_ends_although_the_callee_does_not_say_so() {
    let (mut network, alice, _) = two(33);
    let callee = network.script(Box::new(|request| match request.method() {
        Some(Method::Invite) => vec![response(request, 180, "Ringing")],
        Some(Method::Cancel) => vec![response(request, 200, "OK")],
        _ => Vec::new(),
    }));
    let to = format!("sip:bob@{callee}");
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("caller"))
    });
    network.run(SECOND);
    for _ in 0..2 {
        network
            .with(alice, |ua, now| ua.hang_up(now, call))
            .unwrap();
    }
    network.run(30 * SECOND);
    assert_eq!(network.requests(Method::Cancel).len(), 1);
    assert_eq!(network.end_of(alice, call), None);
    network.run(3 * SECOND);
    assert_eq!(network.end_of(alice, call), Some(&EndReason::Local));
}

#[test]
fn the_answer_waits_for_the_prack_to_a_description() {
    let (mut network, alice, bob) = two(34);
    let to = uri_of(bob);
    network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("caller"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| {
            ua.ring(now, incoming, offer("callee"))?;
            ua.answer(now, incoming, offer("callee"))
        })
        .unwrap();
    network.run(SECOND);
    let answers: Vec<_> = network
        .messages
        .iter()
        .filter(|message| {
            let cseq = message.cseq();
            !message.is_request() && cseq.is_some_and(|(_, method)| method == Method::Prack)
        })
        .map(sip::Message::status)
        .collect();
    assert_eq!(answers, [Some(200)]);
    let place = |wanted: &dyn Fn(&sip::Message) -> bool| {
        let found = network.messages.iter().position(wanted);
        found.expect("it was sent")
    };
    let prack = place(&|message| message.method() == Some(&Method::Prack));
    let answer = place(&|message| {
        let cseq = message.cseq();
        message.status() == Some(200) && cseq.is_some_and(|(_, method)| method == Method::Invite)
    });
    assert!(prack < answer, "RFC 3262 section 3");
    let answer = &network.messages[answer];
    assert!(answer.header(sip::Name::SessionExpires).is_some());
}

#[test]
fn the_early_answer_of_one_fork_is_not_that_of_another() {
    let (mut network, alice, _) = two(35);
    let forks = network.script(Box::new(|request| match request.method() {
        Some(Method::Invite) => [(183, "one"), (200, "other")]
            .map(|(status, tag)| {
                let mut answer = sip::Message::response_to(request, status, "Answer");
                answer.set_to_tag(tag);
                if status == 183 {
                    answer = answer.with(Name::Require, "100rel").with(Name::RSeq, "1");
                }
                answer
                    .with(Name::Contact, "<sip:fork@10.0.0.3:5060>")
                    .with_body("application/sdp", offer(tag))
            })
            .into(),
        Some(Method::Prack) => vec![response(request, 200, "OK")],
        _ => Vec::new(),
    }));
    let to = format!("sip:bob@{forks}");
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    assert_eq!(network.requests(Method::Prack).len(), 1);
    let answered = UaEvent::Answered {
        call,
        description: offer("other"),
    };
    assert!(network.of(alice).contains(&&answered));
}
