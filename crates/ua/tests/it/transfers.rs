//! Transfers, blind and attended.

use std::time::Duration;

use ua::{EndReason, UaConfig, UaEvent};

use crate::network::{offer, two, uri_of};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_blind_transfer_calls_the_third() {
    let (mut network, alice, bob) = two(1);
    let carol = network.phone("user", UaConfig::default());
    let (outgoing, incoming) = network.connect(alice, bob);
    let carols = uri_of(carol);
    network
        .with(bob, |ua, now| ua.transfer(now, incoming, &carols, None))
        .unwrap();
    network.run(SECOND);
    let requested = UaEvent::TransferRequested {
        call: outgoing,
        target: carols,
        replaces: None,
    };
    assert!(network.of(alice).contains(&&requested));
    let new = network
        .with(alice, |ua, now| {
            ua.accept_transfer(now, outgoing, offer("to carol"))
        })
        .unwrap();
    network.run(SECOND);
    let at_carol = network.incoming(carol);
    network
        .with(carol, |ua, now| ua.answer(now, at_carol, offer("carol")))
        .unwrap();
    network.run(SECOND);
    let answered = UaEvent::Answered {
        call: new,
        description: offer("carol"),
    };
    assert!(network.of(alice).contains(&&answered));
    let told: Vec<u16> = network
        .of(bob)
        .into_iter()
        .filter_map(|event| match event {
            UaEvent::TransferProgress { status, .. } => Some(*status),
            _ => None,
        })
        .collect();
    assert_eq!(
        (told.first(), told.last()),
        (Some(&100), Some(&200)),
        "{told:?}"
    );
}

#[test]
fn a_transfer_that_fails_is_told_and_the_call_goes_on() {
    let (mut network, alice, bob) = two(2);
    let carol = network.phone("user", UaConfig::default());
    let (outgoing, incoming) = network.connect(alice, bob);
    let carols = uri_of(carol);
    network
        .with(bob, |ua, now| ua.transfer(now, incoming, &carols, None))
        .unwrap();
    network.run(SECOND);
    network
        .with(alice, |ua, now| {
            ua.accept_transfer(now, outgoing, offer("to carol"))
        })
        .unwrap();
    network.run(SECOND);
    let at_carol = network.incoming(carol);
    network
        .with(carol, |ua, now| ua.refuse(now, at_carol, 486, "Busy Here"))
        .unwrap();
    network.run(SECOND);
    let busy = UaEvent::TransferProgress {
        call: incoming,
        status: 486,
    };
    assert_eq!(network.of(bob).last(), Some(&&busy));
    assert_eq!(network.end_of(alice, outgoing), None);
}

#[test]
fn a_transfer_that_nobody_wants_is_refused() {
    let (mut network, alice, bob) = two(3);
    let (outgoing, incoming) = network.connect(alice, bob);
    network
        .with(bob, |ua, now| {
            ua.transfer(now, incoming, "sip:premium@10.0.0.9:5060", None)
        })
        .unwrap();
    network.run(SECOND);
    network
        .with(alice, |ua, now| ua.refuse_transfer(now, outgoing))
        .unwrap();
    network.run(SECOND);
    let declined = UaEvent::TransferProgress {
        call: incoming,
        status: 603,
    };
    assert_eq!(network.of(bob).last(), Some(&&declined));
}

#[test]
fn an_attended_transfer_joins_the_two_others() {
    let (mut network, alice, bob) = two(4);
    let carol = network.phone("user", UaConfig::default());
    // Bob talks to Alice, then to Carol, and brings them together.
    let (at_alice, with_alice) = network.connect(alice, bob);
    let (with_carol, at_carol) = network.connect(bob, carol);
    network
        .with(bob, |ua, now| {
            ua.transfer(now, with_alice, "", Some(with_carol))
        })
        .unwrap();
    network.run(SECOND);
    let new = network
        .with(alice, |ua, now| {
            ua.accept_transfer(now, at_alice, offer("alice"))
        })
        .unwrap();
    network.run(SECOND);
    let replacing = network.incoming(carol);
    let is_replacing = network.of(carol).into_iter().any(|event| {
        matches!(event, UaEvent::Incoming { call, replaces, .. } if *call == replacing && *replaces == Some(at_carol))
    });
    assert!(is_replacing);
    network
        .with(carol, |ua, now| ua.answer(now, replacing, offer("carol")))
        .unwrap();
    network.run(SECOND);
    let answered = UaEvent::Answered {
        call: new,
        description: offer("carol"),
    };
    assert!(network.of(alice).contains(&&answered));
    assert_eq!(network.end_of(carol, at_carol), Some(&EndReason::Replaced));
    assert_eq!(network.end_of(bob, with_carol), Some(&EndReason::Remote));
}
