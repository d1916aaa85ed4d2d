//! Texts, and the state of the mailbox.

use std::time::Duration;

use bytes::Bytes;
use sip::{Message, Method, Name};
use ua::UaEvent;

use crate::network::{two, uri_of};

#[test]
fn a_text_arrives_and_its_sender_knows() {
    let (mut network, alice, bob) = two(1);
    let to = uri_of(bob);
    let body = Bytes::from_static(b"Watson, come here.");
    let text = network.with(alice, |ua, now| {
        ua.send_text(now, alice.account, &to, "text/plain", body.clone())
    });
    network.run(Duration::from_secs(1));
    let sent = UaEvent::TextSent { text, status: 200 };
    assert_eq!(network.of(alice), [&sent]);
    let came = UaEvent::Text {
        account: bob.account,
        from: format!("sip:user@{}", alice.address),
        content_type: "text/plain".to_owned(),
        body,
    };
    assert_eq!(network.of(bob), [&came]);
    let long = network.with(alice, |ua, now| {
        ua.send_text(
            now,
            alice.account,
            &to,
            "text/plain",
            vec![b'x'; 2_000].into(),
        )
    });
    network.run(Duration::from_secs(1));
    let refused = UaEvent::TextSent {
        text: long,
        status: 413,
    };
    assert_eq!(network.of(alice).last(), Some(&&refused));
}

#[test]
fn the_mailbox_tells_of_messages() {
    let (mut network, alice, bob) = two(2);
    let notify = Message::request(Method::Notify, &uri_of(bob))
        .with(Name::Via, "SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1")
        .with(Name::MaxForwards, "70")
        .with(Name::From, "<sip:mailbox@h>;tag=1")
        .with(Name::To, format!("<sip:user@{}>", bob.address))
        .with(Name::CallId, "1")
        .with(Name::CSeq, "1 NOTIFY")
        .with(Name::Event, "message-summary")
        .with(Name::SubscriptionState, "active")
        .with_body(
            "application/simple-message-summary",
            "Messages-Waiting: yes\r\nVoice-Message: 2/8\r\n",
        );
    network.inject(alice.address, bob.address, notify.to_bytes());
    network.run(Duration::from_secs(1));
    let waiting = UaEvent::MessagesWaiting {
        account: bob.account,
        waiting: true,
    };
    assert_eq!(network.of(bob), [&waiting]);
}
