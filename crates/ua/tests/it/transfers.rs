//! Transfers, blind and attended.

use std::time::Duration;

use sip::Method;
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

#[test]
fn a_request_for_a_transfer_is_answered_when_the_call_ends() {
    let (mut network, alice, bob) = two(31);
    let (outgoing, incoming) = network.connect(alice, bob);
    network
        .with(bob, |ua, now| {
            ua.transfer(now, incoming, "sip:user@10.0.0.9", None)
        })
        .unwrap();
    network.run(SECOND);
    network
        .with(alice, |ua, now| ua.hang_up(now, outgoing))
        .unwrap();
    network.run(SECOND);
    let is_answer = |message: &&sip::Message| {
        let cseq = message.cseq();
        !message.is_request() && cseq.is_some_and(|(_, method)| method == Method::Refer)
    };
    let answers: Vec<_> = network.messages.iter().filter(is_answer).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status(), Some(487));
}

#[test]
fn an_answered_call_is_not_replaced_by_one_that_is_for_early_dialogs_only() {
    let (mut network, alice, bob) = two(32);
    let (outgoing, incoming) = network.connect(alice, bob);
    let (call_id, to_tag, from_tag) = {
        let ack = network.requests(Method::Ack)[0];
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        (
            text(ack.call_id()),
            text(ack.to_tag()),
            text(ack.from_tag()),
        )
    };
    let carol = network.script(Box::new(|_| Vec::new()));
    let invite = sip::Message::request(Method::Invite, &uri_of(bob))
        .with(
            sip::Name::Via,
            format!("SIP/2.0/UDP {carol};branch=z9hG4bKreplaces"),
        )
        .with(sip::Name::MaxForwards, "70")
        .with(sip::Name::From, "<sip:carol@example.org>;tag=carol")
        .with(sip::Name::To, format!("<{}>", uri_of(bob)))
        .with(sip::Name::CallId, "replacing")
        .with(sip::Name::CSeq, "1 INVITE")
        .with(sip::Name::Contact, format!("<sip:carol@{carol}>"))
        .with(
            sip::Name::Replaces,
            format!("{call_id};to-tag={to_tag};from-tag={from_tag};early-only"),
        );
    network.inject(carol, bob.address, invite.to_bytes());
    network.run(SECOND);
    assert!(
        network
            .messages
            .iter()
            .any(|message| message.status() == Some(486))
    );
    assert_eq!(network.end_of(alice, outgoing), None);
    assert_eq!(network.end_of(bob, incoming), None);
}
