//! The redirect server (RFC 3261 section 8.3).

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, flow, register, request};
use proxy::core::{EndedBy, Event, ForwardingPolicy, Mode, Policy};
use sip::{Flow, Message, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

/// A redirect server on which bob has registered these contacts.
fn bench(contacts: &[&str]) -> Bench {
    let mut bench = Bench::with(&[HERE], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            forwarding: ForwardingPolicy {
                mode: Mode::Redirect,
                ..ForwardingPolicy::default()
            },
            ..Policy::default()
        });
    });
    bench.receive(alice(), register("bob", 1, contacts));
    bench.one().answers(200);
    bench
}

fn invite(uri: &str) -> Message {
    request(Method::Invite, uri, "call")
}

#[test]
fn the_client_is_told_every_place_the_preferred_ones_first() {
    let mut bench = bench(&[
        "<sip:bob@192.0.2.20>;q=0.25;expires=100",
        "<sips:bob@192.0.2.21>;+sip.instance=\"<urn:x>\"",
        "<sip:bob@192.0.2.22>;q=0.5;expires=200",
        "<sip:bob@192.0.2.23>;q=0.5;expires=200",
    ]);
    bench.pass(Duration::from_secs(40));
    // Long enough for what is repeated over UDP.
    let long = invite("sip:bob@example.com").with(Name::Other("X"), "x".repeat(2_000));
    bench.receive(alice(), long);
    let moved = bench.one();
    moved.answers(302);
    let default = bench.proxy.statistics();
    assert_eq!((default.redirected, default.forwarded), (1, 0));
    let contacts = moved.values(Name::Contact);
    assert_eq!(contacts.len(), 4);
    assert!(contacts[0].starts_with("<sips:bob@192.0.2.21>;q=1;expires="));
    assert_eq!(contacts[1], "<sip:bob@192.0.2.22>;q=0.500;expires=160");
    assert_eq!(contacts[2], "<sip:bob@192.0.2.23>;q=0.500;expires=160");
    assert_eq!(contacts[3], "<sip:bob@192.0.2.20>;q=0.250;expires=60");

    // The transaction lasts: the response is sent again until the ACK comes, which ends here.
    bench.pass(Duration::from_millis(500));
    let again = bench.one();
    assert_eq!(again.message.to_bytes(), moved.message.to_bytes());
    let mut ack = request(Method::Ack, "sip:bob@example.com", "call");
    ack.replace(Name::To, moved.value(Name::To));
    bench.receive(alice(), ack);
    bench.pass(Duration::from_secs(40));
    bench.silence();
    bench.assert_idle();
    assert!(bench.events.iter().any(|event| matches!(
        event,
        Event::CallFailed {
            status: 302,
            by: EndedBy::Proxy,
            ..
        }
    )));
}

#[test]
fn any_method_is_redirected() {
    let mut bench = bench(&["<sip:bob@192.0.2.20>"]);
    let strange = Method::Other("HUMPTY".into());
    for (number, method) in [Method::Message, Method::Subscribe, strange]
        .into_iter()
        .enumerate()
    {
        let request = request(method, "sip:bob@example.com", &format!("c{number}"))
            .with(Name::Require, "teleportation");
        bench.receive(alice(), request);
        bench.one().answers(302);
    }
}

#[test]
fn nobody_is_sent_to_where_he_was_going() {
    let mut bench = bench(&["<sip:bob@example.com>", "<sip:bob@192.0.2.20>"]);
    bench.receive(alice(), invite("sip:bob@example.com"));
    assert_eq!(bench.one().answers(302).values(Name::Contact).len(), 1);

    let mut bench = self::bench(&["<sip:bob@example.com>"]);
    bench.receive(alice(), invite("sip:bob@example.com"));
    bench.one().answers(404);
}

#[test]
fn who_is_not_here_is_not_redirected() {
    let mut bench = bench(&["<sip:bob@192.0.2.20>;expires=100"]);
    bench.receive(alice(), invite("sip:nobody@example.com"));
    bench.one().answers(404);
    bench.pass(Duration::from_secs(101));
    bench.sent();
    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "c2"),
    );
    bench.one().answers(480);
}

#[test]
fn a_cancel_is_answered() {
    let mut bench = bench(&["<sip:bob@192.0.2.20>"]);
    bench.receive(alice(), invite("sip:bob@example.com"));
    bench.one().answers(302);
    bench.receive(
        alice(),
        request(Method::Cancel, "sip:bob@example.com", "call"),
    );
    bench.one().answers(200);
}

#[test]
fn a_redirect_server_may_proxy_what_is_not_its_own() {
    let mut bench = bench(&[]);
    bench.receive(alice(), invite("sip:carol@192.0.2.77"));
    let [trying, forwarded] = bench.two();
    trying.answers(100);
    forwarded.is(Method::Invite, "sip:carol@192.0.2.77");
}
