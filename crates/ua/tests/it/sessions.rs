//! Other sessions in a call: hold, glare, refreshes; keys.

use std::net::SocketAddr;
use std::time::Duration;

use sip::{Method, Name, Target, Transport};
use ua::{EndReason, Route, Ua, UaConfig, UaEvent};

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

#[test]
fn an_offer_that_waits_is_written_anew_after_that_of_the_other_side() {
    let (mut network, alice, bob) = two(2);
    let (outgoing, incoming) = network.connect(alice, bob);
    let anew = |ua: &mut Ua| ua.replace_offer(outgoing, offer("hers anew"));
    network
        .with(alice, |ua, now| ua.offer(now, outgoing, offer("hers")))
        .unwrap();
    network
        .with(bob, |ua, now| ua.offer(now, incoming, offer("his")))
        .unwrap();
    assert!(anew(network.ua(alice)).is_err(), "it is under way");
    // Bob, whose call it is not, is the first to offer again.
    for _ in 0..300 {
        network.run(SECOND / 50);
        let answered = network.with(alice, |ua, now| {
            ua.answer_offer(now, outgoing, offer("answer"))
        });
        if answered.is_ok() {
            anew(network.ua(alice)).unwrap();
        }
        let _ = network.with(bob, |ua, now| {
            ua.answer_offer(now, incoming, offer("answer"))
        });
    }
    let invites = network.requests(Method::Invite);
    let bodies: Vec<&[u8]> = invites.iter().map(|invite| invite.body()).collect();
    let (his, hers) = (offer("his"), offer("hers anew"));
    assert_eq!(bodies[bodies.len() - 2..], [&his[..], &hers[..]]);
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
fn a_call_that_rang_when_the_address_changed_goes_on_at_the_new_one() {
    let (mut network, alice, bob) = two(8);
    let to = crate::network::uri_of(bob);
    let outgoing = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    let moved = SocketAddr::from(([10, 0, 0, 77], 5060));
    network.moved.insert(bob.address, moved);
    let ua = network.ua(bob);
    ua.replace_address(bob.address.ip(), moved.ip());
    network
        .with(bob, |ua, now| ua.answer(now, incoming, offer("answer")))
        .unwrap();
    network.run(SECOND);
    network
        .with(alice, |ua, now| ua.hang_up(now, outgoing))
        .unwrap();
    network.run(SECOND);
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Remote));
    let byes = network.requests(Method::Bye);
    let uri = byes[0].request_uri().unwrap();
    assert!(uri.contains(&moved.to_string()), "{uri}");
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

#[test]
fn an_offer_that_finds_no_way_can_be_made_again() {
    let (mut network, alice, bob) = two(7);
    let (outgoing, incoming) = network.connect(alice, bob);
    network.with(alice, |ua, now| {
        ua.offer(now, outgoing, offer("hold")).unwrap();
        let query = ua.poll_query().unwrap();
        ua.handle_route(now, query.id, None);
    });
    network.run(SECOND);
    let refused = UaEvent::OfferRefused {
        call: outgoing,
        status: 503,
    };
    assert!(network.of(alice).contains(&&refused));
    assert_eq!(network.end_of(alice, outgoing), None);
    network
        .with(alice, |ua, now| ua.offer(now, outgoing, offer("hold")))
        .unwrap();
    network.run(SECOND);
    let offered = UaEvent::Offer {
        call: incoming,
        description: offer("hold"),
    };
    assert!(network.of(bob).contains(&&offered));
}

/// From the answer to the first refresh.
const UNTIL_REFRESH: Duration = Duration::from_secs(45);

#[test]
fn a_refresh_that_finds_no_way_is_tried_again() {
    let mut network = Network::new(9);
    let alice = network.phone("user", timed());
    let bob = network.phone("user", timed());
    let (outgoing, incoming) = network.connect(alice, bob);
    network.unreachable.push(bob.address);
    network.run(UNTIL_REFRESH + 3 * SECOND);
    assert_eq!(network.requests(Method::Update).len(), 0);
    network.unreachable.clear();
    network.run(100 * SECOND);
    assert_eq!(network.requests(Method::Update).len(), 3);
    assert_eq!(network.end_of(alice, outgoing), None);
    assert_eq!(network.end_of(bob, incoming), None);
}

#[test]
fn a_call_whose_refreshes_find_no_way_ends_with_its_session() {
    let mut network = Network::new(10);
    let alice = network.phone("user", timed());
    let bob = network.phone("user", timed());
    let (outgoing, _) = network.connect(alice, bob);
    network.unreachable.push(bob.address);
    // Nor does anything come from there.
    network.loss = 1.0;
    network.run(85 * SECOND);
    assert_eq!(network.end_of(alice, outgoing), None);
    network.run(10 * SECOND);
    assert_eq!(network.end_of(alice, outgoing), Some(&EndReason::Timeout));
}

#[test]
fn a_call_that_is_lost_with_its_connection_when_the_address_changes_is_made_once_more() {
    let (mut network, alice, bob) = two(11);
    network.transport = Transport::Tcp;
    let to = crate::network::uri_of(bob);
    let moved = SocketAddr::from(([10, 0, 0, 77], 5060));
    for (is_told, invites) in [(true, 1), (false, 0)] {
        let before = network.requests(Method::Invite).len();
        let outgoing = network.with(alice, |ua, now| {
            let outgoing = ua.dial(now, alice.account, &to, offer("offer"));
            let query = ua.poll_query().unwrap();
            let route = Route {
                target: Target::Address(Transport::Tcp, bob.address),
                local: alice.address,
                peer: None,
            };
            ua.handle_route(now, query.id, Some(route));
            let lost = ua.poll_transmit().unwrap().transaction.unwrap();
            if is_told {
                ua.handle_address_change(now, bob.address);
            }
            ua.handle_send_failure(now, lost);
            outgoing
        });
        network.moved.insert(alice.address, moved);
        network.run(SECOND);
        let sent = network.requests(Method::Invite);
        assert_eq!(sent.len(), before + invites);
        if is_told {
            assert!(
                sent[before]
                    .header(Name::Contact)
                    .unwrap()
                    .contains(&moved.to_string())
            );
            assert_eq!(network.end_of(alice, outgoing), None);
        } else {
            assert!(matches!(
                network.end_of(alice, outgoing),
                Some(EndReason::Refused { status: 503, .. })
            ));
        }
    }
}
