//! Requests of somebody who is up to something: calls at our cost, calls that are taken over, tables that are filled.

use std::net::SocketAddr;
use std::time::Duration;

use sip::{Message, Method, Name};
use ua::{EndReason, UaConfig, UaEvent};

use crate::network::{Network, Phone, offer, two, uri_of};

const SECOND: Duration = Duration::from_secs(1);

/// A request of somebody that belongs to no dialog.
fn request(method: Method, from: SocketAddr, to: Phone, number: u32) -> Message {
    let name = method.to_string();
    Message::request(method, &uri_of(to))
        .with(
            Name::Via,
            format!("SIP/2.0/UDP {from};branch=z9hG4bKhostile{number}"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, format!("<sip:mallory@{from}>;tag=m{number}"))
        .with(Name::To, format!("<{}>", uri_of(to)))
        .with(Name::CallId, format!("hostile{number}"))
        .with(Name::CSeq, format!("1 {name}"))
        .with(Name::Contact, format!("<sip:mallory@{from}>"))
}

/// The statuses that were answered to requests of this kind.
fn statuses(network: &Network, call_id: &str) -> Vec<u16> {
    let answers = network.messages.iter();
    let answers = answers.filter(|message| message.call_id() == Some(call_id));
    answers.filter_map(Message::status).collect()
}

/// The names of the dialog of the last call between two phones: Call-ID, tag of the callee, tag of the caller.
fn dialog(network: &Network) -> (String, String, String) {
    let acks = network.requests(Method::Ack);
    let ack = acks.last().expect("a call was answered");
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    (
        text(ack.call_id()),
        text(ack.to_tag()),
        text(ack.from_tag()),
    )
}

#[test]
fn a_refer_outside_of_a_call_is_declined_and_calls_nobody() {
    let (mut network, _, bob) = two(1);
    let mallory = network.script(Box::new(|_| Vec::new()));
    let refer = request(Method::Refer, mallory, bob, 1).with(Name::ReferTo, "<sip:1900@10.0.0.9>");
    network.inject(mallory, bob.address, refer.to_bytes());
    network.run(SECOND);
    assert_eq!(statuses(&network, "hostile1"), [603]);
    assert!(network.requests(Method::Invite).is_empty());
    assert!(network.of(bob).is_empty(), "nobody is asked");
}

#[test]
fn a_refer_in_a_call_calls_nobody_before_somebody_has_accepted_it() {
    let (mut network, alice, bob) = two(2);
    let (outgoing, incoming) = network.connect(alice, bob);
    network
        .with(alice, |ua, now| {
            ua.transfer(now, outgoing, "sip:1900@10.0.0.9", None)
        })
        .unwrap();
    // Nobody decides: it is answered in time, and refused at last (RFC 3515 section 2.4.2).
    network.run(4 * SECOND);
    let of_refer = |message: &&Message| {
        message
            .cseq()
            .is_some_and(|(_, method)| method == Method::Refer)
    };
    let answered = network
        .messages
        .iter()
        .filter(of_refer)
        .find_map(Message::status);
    assert_eq!(answered, Some(202));
    network.run(150 * SECOND);
    assert_eq!(network.requests(Method::Invite).len(), 1, "the call itself");
    let progress: Vec<u16> = network
        .of(alice)
        .into_iter()
        .filter_map(|event| match event {
            UaEvent::TransferProgress { status, .. } => Some(*status),
            _ => None,
        })
        .collect();
    assert_eq!(progress, [100, 603]);
    assert!(
        network
            .with(bob, |ua, now| ua.accept_transfer(
                now,
                incoming,
                offer("late")
            ))
            .is_err()
    );
    assert_eq!(network.end_of(bob, incoming), None, "the call goes on");
}

#[test]
fn one_refer_at_a_time_is_thought_about() {
    let (mut network, alice, bob) = two(3);
    let (outgoing, _) = network.connect(alice, bob);
    for number in 0..10 {
        let target = format!("sip:1900{number}@10.0.0.9");
        network
            .with(alice, |ua, now| ua.transfer(now, outgoing, &target, None))
            .unwrap();
    }
    network.run(SECOND);
    let requested = network.of(bob).into_iter();
    let requested = requested.filter(|event| matches!(event, UaEvent::TransferRequested { .. }));
    assert_eq!(requested.count(), 1);
}

#[test]
fn a_refer_to_something_else_than_a_sip_uri_is_refused() {
    let (mut network, alice, bob) = two(4);
    let (outgoing, _) = network.connect(alice, bob);
    for target in ["tel:+1900", "http://10.0.0.9/", "sip:"] {
        network
            .with(alice, |ua, now| ua.transfer(now, outgoing, target, None))
            .unwrap();
        network.run(SECOND);
    }
    let requested = |event: &&UaEvent| matches!(event, UaEvent::TransferRequested { .. });
    assert!(network.of(bob).into_iter().find(requested).is_none());
}

#[test]
fn a_notify_that_nobody_has_subscribed_to_changes_nothing() {
    let (mut network, alice, bob) = two(5);
    let (outgoing, incoming) = network.connect(alice, bob);
    let (call_id, to_tag, from_tag) = dialog(&network);
    let notify = |number: u32| {
        let mut notify = request(Method::Notify, alice.address, bob, number);
        notify.replace(Name::CallId, call_id.clone());
        notify.replace(Name::From, format!("<{}>;tag={from_tag}", uri_of(alice)));
        notify.replace(Name::To, format!("<{}>;tag={to_tag}", uri_of(bob)));
        notify.replace(Name::CSeq, format!("{} NOTIFY", 100_000 + number));
        notify
            .with(Name::Event, "refer")
            .with(Name::SubscriptionState, "Terminated ;reason=noresource")
            .with_body("message/sipfrag", "SIP/2.0 200 OK\r\n")
    };
    network.inject(alice.address, bob.address, notify(1).to_bytes());
    network.run(SECOND);
    let of_notify = |message: &&Message| {
        message
            .cseq()
            .is_some_and(|(_, method)| method == Method::Notify)
    };
    let answers: Vec<u16> = network
        .messages
        .iter()
        .filter(of_notify)
        .filter_map(Message::status)
        .collect();
    assert_eq!(answers, [481]);
    let progress = |event: &&UaEvent| matches!(event, UaEvent::TransferProgress { .. });
    assert!(network.of(bob).into_iter().find(progress).is_none());
    assert_eq!(
        (
            network.end_of(alice, outgoing),
            network.end_of(bob, incoming)
        ),
        (None, None)
    );
}

#[test]
fn invites_beyond_the_bound_are_busy_and_cost_nothing() {
    let mut network = Network::new(6);
    let bob = network.phone(
        "user",
        UaConfig {
            max_calls: 4,
            ..UaConfig::default()
        },
    );
    let mallory = network.script(Box::new(|_| Vec::new()));
    for number in 0..200 {
        let invite = request(Method::Invite, mallory, bob, number)
            .with_body("application/sdp", offer("flood"));
        network.inject(mallory, bob.address, invite.to_bytes());
    }
    network.run(SECOND);
    assert_eq!(network.ua(bob).calls().count(), 4);
    assert_eq!(statuses(&network, "hostile100")[0], 486);
    // Those that ring are refused after a while.
    network.run(200 * SECOND);
    network.run(40 * SECOND);
    assert!(network.ua(bob).is_idle());
}

/// Somebody's INVITE with this Replaces; how it is answered.
fn replacing(network: &mut Network, bob: Phone, number: u32, replaces: &str) -> Vec<u16> {
    let mallory = network.script(Box::new(|_| Vec::new()));
    let invite = request(Method::Invite, mallory, bob, number)
        .with(Name::Replaces, replaces)
        .with_body("application/sdp", offer("replacing"));
    network.inject(mallory, bob.address, invite.to_bytes());
    network.run(SECOND);
    statuses(network, &format!("hostile{number}"))
}

#[test]
fn replaces_has_to_name_exactly_one_dialog() {
    let (mut network, alice, bob) = two(7);
    let (_, incoming) = network.connect(alice, bob);
    let (call_id, to_tag, from_tag) = dialog(&network);
    for (number, (replaces, status)) in [
        (format!("{call_id};to-tag={to_tag};from-tag=guess"), 481),
        // The tags are those of a request to us (RFC 3891 section 3).
        (
            format!("{call_id};to-tag={from_tag};from-tag={to_tag}"),
            481,
        ),
        (format!("{call_id};to-tag={to_tag}"), 400),
        (call_id.clone(), 400),
        (
            format!("{call_id};to-tag={to_tag};from-tag={from_tag};early-only"),
            486,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let answers = replacing(&mut network, bob, number as u32, &replaces);
        assert_eq!(answers.first(), Some(&status), "{replaces}");
    }
    assert_eq!(network.end_of(bob, incoming), None);
    // It rings until it is answered; then the call is replaced.
    let good = format!("{call_id};to-tag={to_tag};from-tag={from_tag}");
    replacing(&mut network, bob, 99, &good);
    let new = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.answer(now, new, offer("answer")))
        .unwrap();
    network.run(SECOND);
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Replaced));
}

#[test]
fn an_early_dialog_is_replaced_by_who_began_it_only() {
    // Bob calls Alice, who rings.
    let (mut network, alice, bob) = two(8);
    let to = uri_of(alice);
    let outgoing = network.with(bob, |ua, now| {
        ua.dial(now, bob.account, &to, offer("offer"))
    });
    network.run(SECOND);
    let ringing = network.incoming(alice);
    network
        .with(alice, |ua, now| ua.ring(now, ringing, bytes::Bytes::new()))
        .unwrap();
    network.run(SECOND);
    let early = network
        .messages
        .iter()
        .find(|message| message.status() == Some(180))
        .expect("it rings");
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let (call_id, callee, caller) = (
        text(early.call_id()),
        text(early.to_tag()),
        text(early.from_tag()),
    );
    // Alice did not begin it.
    let at_alice = format!("{call_id};to-tag={callee};from-tag={caller}");
    assert_eq!(replacing(&mut network, alice, 1, &at_alice)[0], 481);
    // Bob did: his call is cancelled.
    let at_bob = format!("{call_id};to-tag={caller};from-tag={callee};early-only");
    replacing(&mut network, bob, 2, &at_bob);
    let new = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.answer(now, new, offer("answer")))
        .unwrap();
    network.run(2 * SECOND);
    assert_eq!(network.end_of(bob, outgoing), Some(&EndReason::Replaced));
    assert_eq!(network.end_of(alice, ringing), Some(&EndReason::Remote));
    assert_eq!(network.requests(Method::Cancel).len(), 1);
}

/// RFC 3261 section 8.2.2.2: a request that a proxy has forked, and that has come two ways, rings once.
#[test]
fn an_invite_that_comes_two_ways_rings_once() {
    let (mut network, _, bob) = two(9);
    let mallory = network.script(Box::new(|_| Vec::new()));
    for branch in ["one", "other"] {
        let via = format!("SIP/2.0/UDP {mallory};branch=z9hG4bK{branch}");
        let mut invite = request(Method::Invite, mallory, bob, 1);
        invite.replace(Name::Via, via);
        network.inject(mallory, bob.address, invite.to_bytes());
    }
    network.run(SECOND);
    let events = network.of(bob);
    let incoming = events.iter();
    let incoming = incoming.filter(|event| matches!(event, UaEvent::Incoming { .. }));
    assert_eq!(incoming.count(), 1);
    assert!(statuses(&network, "hostile1").contains(&482));
}
