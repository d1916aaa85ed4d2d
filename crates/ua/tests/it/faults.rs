//! Lossy networks, and messages that nobody should send.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sip::{Message, Name, Transport};
use ua::{EndReason, UaEvent};

use crate::network::{Network, offer, two, uri_of};

const SECOND: Duration = Duration::from_secs(1);

/// A call over a network that loses: both sides come to the same end, and nothing is left of it.
fn both_sides_agree(seed: u64) {
    let (mut network, alice, bob) = two(seed);
    network.loss = 0.2;
    let to = uri_of(bob);
    let call = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &to, offer("offer"))
    });
    let mut answered = false;
    for _ in 0..200 {
        network.run(SECOND);
        let came = network.of(bob).into_iter().find_map(|event| match event {
            UaEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        });
        match came {
            Some(incoming) if !answered => {
                answered = network
                    .with(bob, |ua, now| ua.answer(now, incoming, offer("answer")))
                    .is_ok();
            }
            _ => {}
        }
        let _ = network.with(bob, |ua, now| {
            let calls: Vec<_> = ua.calls().collect();
            calls
                .into_iter()
                .map(|call| ua.answer_offer(now, call, offer("again")))
                .count()
        });
    }
    let was_up = network
        .of(alice)
        .into_iter()
        .any(|event| matches!(event, UaEvent::Answered { .. }));
    if network.end_of(alice, call).is_none() {
        assert!(was_up, "seed {seed}: neither up nor over");
        network
            .with(alice, |ua, now| ua.hang_up(now, call))
            .unwrap();
    }
    network.loss = 0.0;
    network.run(120 * SECOND);
    one_final_response_each(&network);
    // A BYE that was lost before leaves the session timer to find out.
    network.run(2_000 * SECOND);
    assert!(network.ua(alice).is_idle(), "seed {seed}");
    assert!(network.ua(bob).is_idle(), "seed {seed}");
}

/// No transaction has two different final responses (RFC 3261 section 17.2).
fn one_final_response_each(network: &Network) {
    let mut finals: HashMap<String, Message> = HashMap::new();
    for message in &network.messages {
        let status = message.status().unwrap_or(0);
        // What was not understood at all is answered without a transaction.
        if status < 200 || status == 400 {
            continue;
        }
        let via = message.header(Name::Via).unwrap_or_default();
        let method = message.cseq().map(|(_, method)| method.to_string());
        let key = format!("{via} {}", method.unwrap_or_default());
        let first = finals.entry(key).or_insert_with(|| message.clone());
        assert_eq!(first.status(), message.status(), "{via}");
    }
}

#[test]
fn calls_over_a_lossy_network_end_alike_on_both_sides() {
    let seeds = std::env::var("TANDEM_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(50) {
        both_sides_agree(seed);
    }
}

#[test]
fn over_a_reliable_transport_nothing_is_sent_twice() {
    let (mut network, alice, bob) = two(1);
    network.transport = Transport::Sctp;
    let (outgoing, incoming) = network.connect(alice, bob);
    network.run(10 * SECOND);
    network
        .with(alice, |ua, now| ua.hang_up(now, outgoing))
        .unwrap();
    network.run(10 * SECOND);
    assert_eq!(network.end_of(bob, incoming), Some(&EndReason::Remote));
    // INVITE, 200, ACK, BYE, 200.
    assert_eq!(network.messages.len(), 5);
}

/// Texts out of which messages are put together.
const LINES: [&str; 24] = [
    "Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKx",
    "Max-Forwards: 70",
    "From: <sip:user@10.0.0.1:5060>;tag=a",
    "To: <sip:user@10.0.0.2:5060>",
    "To: <sip:user@10.0.0.2:5060>;tag=b",
    "Call-ID: x",
    "CSeq: 1 INVITE",
    "CSeq: 2 REFER",
    "CSeq: 3 NOTIFY",
    "CSeq: 4294967295 PRACK",
    "Contact: <sip:user@10.0.0.1:5060>",
    "Contact: *",
    "Require: 100rel",
    "Require: x",
    "RSeq: 4294967295",
    "RAck: 1 1 INVITE",
    "Session-Expires: 90;refresher=uas",
    "Session-Expires: 99999999999",
    "Refer-To: <sip:premium@10.0.0.9?Replaces=%0d%0a>",
    "Replaces: x;to-tag=b;from-tag=a",
    "Content-Type: application/sdp",
    "Content-Type: message/sipfrag",
    "Content-Length: 0",
    "Event: refer",
];

const STARTS: [&str; 9] = [
    "INVITE sip:user@10.0.0.2:5060 SIP/2.0",
    "REFER sip:user@10.0.0.2:5060 SIP/2.0",
    "NOTIFY sip:user@10.0.0.2:5060 SIP/2.0",
    "UPDATE sip:user@10.0.0.2:5060 SIP/2.0",
    "PRACK sip:user@10.0.0.2:5060 SIP/2.0",
    "BYE tel:+1 SIP/2.0",
    "SIP/2.0 200 OK",
    "SIP/2.0 183 Session Progress",
    "SIP/2.0 302 Moved",
];

proptest! {
    #[test]
    fn any_message_is_survived(
        messages in prop::collection::vec(
            (0..STARTS.len(), prop::collection::vec(0..LINES.len(), 0..14), any::<bool>()), 1..20),
    ) {
        let (mut network, alice, bob) = two(1);
        let to = uri_of(bob);
        let (_, incoming) = network.connect(alice, bob);
        network.with(alice, |ua, now| ua.dial(now, alice.account, &to, offer("second")));
        for (start, lines, to_alice) in messages {
            let mut text = STARTS[start].to_owned() + "\r\n";
            for line in lines {
                text += LINES[line];
                text += "\r\n";
            }
            text += "\r\n";
            if Message::read(Bytes::from(text.clone())).is_ok() {
                let way = if to_alice { (bob, alice) } else { (alice, bob) };
                network.inject(way.0.address, way.1.address, Bytes::from(text));
            }
            network.run(Duration::from_millis(100));
        }
        network.run(SECOND);
        // The call that was up is still there: none of the messages knew its tags.
        prop_assert_eq!(network.end_of(bob, incoming), None);
        let calls = network.ua(bob).calls().count();
        prop_assert!(calls <= 64);
    }
}
