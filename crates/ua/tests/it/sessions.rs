//! Other sessions in a call: hold, glare, refreshes; keys.

use std::time::Duration;

use sip::{Method, Name};
use ua::{EndReason, UaConfig, UaEvent};

use crate::network::{Network, offer, two};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_call_is_held_and_goes_on() {
    let (mut network, alice, bob) = two(1);
    let (outgoing, incoming) = network.connect(alice, bob);
    for words in ["hold", "go on"] {
        network
            .with(alice, |ua, now| ua.offer(now, outgoing, offer(words)))
            .unwrap();
        network.run(SECOND);
        let offered = UaEvent::Offer {
            call: incoming,
            description: offer(words),
        };
        assert!(network.of(bob).contains(&&offered));
        network
            .with(bob, |ua, now| {
                ua.answer_offer(now, incoming, offer("answer"))
            })
            .unwrap();
        network.run(SECOND);
        let accepted = UaEvent::OfferAccepted {
            call: outgoing,
            description: offer("answer"),
        };
        assert_eq!(network.of(alice).last(), Some(&&accepted));
    }
    assert_eq!(network.requests(Method::Ack).len(), 3);
    network
        .with(bob, |ua, now| ua.offer(now, incoming, offer("strange")))
        .unwrap();
    network.run(SECOND);
    network
        .with(alice, |ua, now| {
            ua.refuse_offer(now, outgoing, 488, "Not Acceptable Here")
        })
        .unwrap();
    network.run(SECOND);
    let refused = UaEvent::OfferRefused {
        call: incoming,
        status: 488,
    };
    assert_eq!(network.of(bob).last(), Some(&&refused));
    network.run(60 * SECOND);
    assert_eq!(network.end_of(alice, outgoing), None, "the call goes on");
}

#[test]
fn offers_of_both_sides_at_once_are_made_one_after_the_other() {
    let (mut network, alice, bob) = two(2);
    let (outgoing, incoming) = network.connect(alice, bob);
    network
        .with(alice, |ua, now| ua.offer(now, outgoing, offer("hers")))
        .unwrap();
    network
        .with(bob, |ua, now| ua.offer(now, incoming, offer("his")))
        .unwrap();
    for _ in 0..8 {
        network.run(SECOND);
        // Each answers what it is offered.
        let _ = network.with(alice, |ua, now| {
            ua.answer_offer(now, outgoing, offer("answer"))
        });
        let _ = network.with(bob, |ua, now| {
            ua.answer_offer(now, incoming, offer("answer"))
        });
    }
    let both = [
        (
            alice,
            UaEvent::OfferAccepted {
                call: outgoing,
                description: offer("answer"),
            },
        ),
        (
            bob,
            UaEvent::OfferAccepted {
                call: incoming,
                description: offer("answer"),
            },
        ),
    ];
    for (phone, accepted) in both {
        assert!(network.of(phone).contains(&&accepted), "{phone:?}");
    }
    let pending = network
        .messages
        .iter()
        .filter(|message| message.status() == Some(491));
    assert!(pending.count() >= 2);
}

fn timed() -> UaConfig {
    UaConfig {
        session_interval: 90 * SECOND,
        ..UaConfig::default()
    }
}

#[test]
fn a_session_is_refreshed_at_half_of_its_interval() {
    let mut network = Network::new(3);
    let alice = network.phone("user", timed());
    let bob = network.phone("user", timed());
    let (outgoing, incoming) = network.connect(alice, bob);
    network.run(400 * SECOND);
    let refreshes = network.requests(Method::Update);
    assert_eq!(refreshes.len(), 8, "each 45 s");
    assert!(
        refreshes
            .iter()
            .all(|one| one.contains(Name::SessionExpires))
    );
    assert_eq!(network.end_of(alice, outgoing), None);
    assert_eq!(network.end_of(bob, incoming), None);
}

#[test]
fn a_call_whose_caller_has_vanished_ends() {
    let mut network = Network::new(4);
    let alice = network.phone("user", timed());
    let bob = network.phone("user", timed());
    let (outgoing, incoming) = network.connect(alice, bob);
    network.loss = 1.0;
    network.run(100 * SECOND);
    assert_eq!(network.end_of(alice, outgoing), Some(&EndReason::Timeout));
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Timeout));
    let end = network
        .when(bob, |event| matches!(event, UaEvent::Ended { .. }))
        .unwrap();
    assert!(
        (59 * SECOND..62 * SECOND).contains(&end),
        "a third before the end: {end:?}"
    );
}

#[test]
fn an_answer_that_nobody_acknowledges_ends_the_call() {
    let (mut network, alice, bob) = two(5);
    let to = crate::network::uri_of(bob);
    network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network.loss = 1.0;
    network
        .with(bob, |ua, now| ua.answer(now, incoming, offer("answer")))
        .unwrap();
    network.run(33 * SECOND);
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Timeout));
}

#[test]
fn a_key_is_told_by_info() {
    let (mut network, alice, bob) = two(6);
    let (outgoing, incoming) = network.connect(alice, bob);
    network
        .with(alice, |ua, now| ua.send_key(now, outgoing, '#'))
        .unwrap();
    network.run(SECOND);
    let key = UaEvent::Key {
        call: incoming,
        key: '#',
    };
    assert_eq!(network.of(bob).last(), Some(&&key));
}
