//! The trust domain (RFC 3325): whose asserted identities are believed, and who is told a private one.

use std::sync::Arc;

use crate::common::{Bench, Sent, flow, request, response};
use proxy::core::{ForwardingPolicy, Mode, Policy, TrustDomain};
use sip::{Flow, Message, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";
const OVER_TLS: &str = "tls:192.0.2.1:5061";
const IDENTITY: &str = "\"Alice\" <sip:alice@example.com>";

/// In the trust domain.
fn friend() -> Flow {
    flow(HERE, "198.51.100.7:5060")
}

fn stranger() -> Flow {
    flow(HERE, "203.0.113.7:5060")
}

fn bench_with(mode: Mode) -> Bench {
    Bench::with(&[HERE, OVER_TLS], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            forwarding: ForwardingPolicy {
                mode,
                ..ForwardingPolicy::default()
            },
            trust: TrustDomain {
                addresses: vec!["198.51.100.0/24".parse().expect("a network")],
                names: vec!["Friend.example".to_owned()],
            },
            ..Policy::default()
        });
    })
}

fn bench() -> Bench {
    bench_with(Mode::Stateful)
}

/// A request of alice, with her identity asserted.
fn message(call: &str, uri: &str) -> Message {
    request(Method::Message, uri, call).with(Name::PAssertedIdentity, IDENTITY)
}

fn forward(bench: &mut Bench, from: Flow, message: Message) -> Sent {
    bench.receive(from, message);
    let sent = bench.one();
    assert!(sent.message.is_request(), "{sent:?}");
    sent
}

const TO_A_FRIEND: &str = "sip:bob@198.51.100.8";
const TO_A_STRANGER: &str = "sip:bob@203.0.113.8";

#[test]
fn only_the_trust_domain_may_assert_an_identity() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut bench = bench_with(mode);
        let sent = forward(&mut bench, friend(), message("c1", TO_A_FRIEND));
        assert_eq!(sent.values(Name::PAssertedIdentity), [IDENTITY]);
        let sent = forward(&mut bench, stranger(), message("c2", TO_A_FRIEND));
        assert!(!sent.message.contains(Name::PAssertedIdentity));
    }
}

#[test]
fn a_private_identity_does_not_leave_the_trust_domain() {
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut bench = bench_with(mode);
        for (number, (privacy, uri, is_told)) in [
            (None, TO_A_STRANGER, true),
            (Some("none"), TO_A_STRANGER, true),
            (Some("header;session"), TO_A_STRANGER, true),
            (Some("id"), TO_A_STRANGER, false),
            (Some("header; ID ;critical"), TO_A_STRANGER, false),
            (Some("id"), TO_A_FRIEND, true),
        ]
        .into_iter()
        .enumerate()
        {
            let mut message = message(&format!("c{number}"), uri)
                .with(Name::PAssertedIdentity, "<tel:+15551234>");
            if let Some(privacy) = privacy {
                message.push_back(Name::Privacy, privacy);
            }
            let sent = forward(&mut bench, friend(), message);
            let told = if is_told { 2 } else { 0 };
            assert_eq!(
                sent.values(Name::PAssertedIdentity).len(),
                told,
                "{privacy:?} {uri}"
            );
            // It is the next one's to judge.
            assert_eq!(sent.message.contains(Name::Privacy), privacy.is_some());
        }
    }
}

#[test]
fn the_wish_of_a_user_agent_goes_no_further() {
    let mut bench = bench();
    for (call, from) in [("c1", friend()), ("c2", stranger())] {
        let wish =
            request(Method::Message, TO_A_FRIEND, call).with(Name::PPreferredIdentity, IDENTITY);
        let sent = forward(&mut bench, from, wish);
        assert!(!sent.message.contains(Name::PPreferredIdentity));
        assert!(!sent.message.contains(Name::PAssertedIdentity));
    }
}

#[test]
fn responses_are_judged_too() {
    let identified = |sent: &Sent, privacy: &str| {
        response(&sent.message, 200, "b1")
            .with(Name::PAssertedIdentity, IDENTITY)
            .with(Name::Privacy, privacy)
    };
    for mode in [Mode::Stateful, Mode::Stateless] {
        let mut bench = bench_with(mode);
        for (number, (uri, from, privacy, to, is_told)) in [
            (TO_A_FRIEND, "198.51.100.8:5060", "id", friend(), true),
            (TO_A_FRIEND, "198.51.100.8:5060", "none", stranger(), true),
            (TO_A_FRIEND, "198.51.100.8:5060", "id", stranger(), false),
            (TO_A_STRANGER, "203.0.113.8:5060", "none", friend(), false),
        ]
        .into_iter()
        .enumerate()
        {
            let request = request(Method::Message, uri, &format!("c{number}"));
            let sent = forward(&mut bench, to, request);
            bench.receive(flow(HERE, from), identified(&sent, privacy));
            let up = bench.one();
            assert_eq!(
                up.answers(200).message.contains(Name::PAssertedIdentity),
                is_told,
                "{number}"
            );
        }
    }
}

#[test]
fn a_name_is_believed_that_a_certificate_has_proved() {
    let mut bench = bench();
    let arrival = flow(OVER_TLS, "203.0.113.9:40000");
    let over_tls = |call: &str| {
        let mut message = message(call, TO_A_FRIEND);
        message.remove_all(Name::Via);
        message.push_front(
            Name::Via,
            format!("SIP/2.0/TLS friend.example;branch=z9hG4bK{call}"),
        );
        message
    };
    let is_told = |bench: &mut Bench, call: &str| {
        forward(bench, arrival, over_tls(call))
            .message
            .contains(Name::PAssertedIdentity)
    };
    assert!(!is_told(&mut bench, "c1"));
    let names = ["other.example", "friend.example"].map(Box::from);
    bench
        .proxy
        .handle_connection_identified(arrival.connection, names.into());
    assert!(is_told(&mut bench, "c2"));
    bench.proxy.handle_connection_closed(arrival.connection);
    assert!(!is_told(&mut bench, "c3"));
}

#[test]
fn nobody_is_trusted_unless_said_otherwise() {
    let mut bench = Bench::new(&[HERE], &["example.com"]);
    let sent = forward(&mut bench, friend(), message("c1", TO_A_FRIEND));
    assert!(!sent.message.contains(Name::PAssertedIdentity));
}

/// A flow along which somebody in the trust domain has registered may be gone, and then the Contact is called.
#[test]
fn an_identity_is_kept_from_where_a_flow_is_not_but_may_lead() {
    const OVER_SCTP: &str = "sctp:192.0.2.1:5060";
    for (contact, is_told) in [("198.51.100.8:5070", true), ("203.0.113.8:5070", false)] {
        let mut bench = Bench::with(&[HERE, OVER_SCTP], &["example.com"], |config| {
            config.policy = Arc::new(Policy {
                trust: TrustDomain {
                    addresses: vec!["198.51.100.0/24".parse().expect("a network")],
                    names: Vec::new(),
                },
                ..Policy::default()
            });
        });
        let phone = flow(OVER_SCTP, "198.51.100.8:40000");
        bench.register(phone, "bob", &format!("<sip:bob@{contact};transport=sctp>"));
        let private = message("c1", "sip:bob@example.com").with(Name::Privacy, "id");
        let sent = forward(&mut bench, friend(), private);
        assert_eq!(
            sent.message.contains(Name::PAssertedIdentity),
            is_told,
            "{sent:?}"
        );
    }
}
