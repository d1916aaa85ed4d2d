//! SIPS URIs (RFC 5630).

use std::sync::Arc;

use proxy::core::{Policy, Relay};
use sip::{Method, Name};

use crate::common::{Bench, flow, register, request};
use crate::dialogs::{TLS, UDP};

/// RFC 5630 section 5.3.
#[test]
fn a_sips_request_goes_to_sips_contacts_alone_and_a_sip_request_to_sip_contacts() {
    let mut bench = Bench::new(&[UDP, TLS], &["example.com"]);
    let phone = flow(UDP, "192.0.2.20:5060");
    let secure = flow(TLS, "192.0.2.21:5061");
    bench.register(phone, "bob", "<sip:bob@192.0.2.20>");
    bench.register(secure, "carol", "<sips:carol@192.0.2.21>");
    let alice = flow(UDP, "192.0.2.9:5060");
    for (call, uri, warning) in [
        (
            "c1",
            "sips:bob@example.com",
            "380 proxy \"SIPS Not Allowed\"",
        ),
        ("c2", "sip:carol@example.com", "381 proxy \"SIPS Required\""),
    ] {
        bench.receive(alice, request(Method::Invite, uri, call));
        let [_, refusal] = bench.two();
        assert_eq!(refusal.answers(480).value(Name::Warning), warning);
    }

    let with_tls = "<sips:bob@192.0.2.20:5061>";
    bench.receive(secure, register("bob", 2, &[with_tls]));
    bench.one().answers(200);
    bench.receive(
        secure,
        request(Method::Options, "sips:bob@example.com", "c3"),
    );
    bench
        .one()
        .is(Method::Options, "sips:bob@192.0.2.20:5061")
        .goes_along(secure);
}

/// RFC 3261 section 16.6 step 4.
#[test]
fn the_route_is_sips_where_the_request_is_and_only_there() {
    let mut bench = Bench::new(&[UDP, TLS], &["example.com"]);
    let phone = flow(TLS, "192.0.2.20:40000");
    let alice = flow(TLS, "192.0.2.9:40000");
    for (user, contact, scheme, transport) in [
        (
            "bob",
            "<sip:bob@192.0.2.20:5061;transport=tls>",
            "sip",
            "tls",
        ),
        ("carol", "<sips:carol@192.0.2.20:5061>", "sips", "tcp"),
    ] {
        bench.register(phone, user, contact);
        let uri = format!("{scheme}:{user}@example.com");
        let contact = format!("<{scheme}:alice@192.0.2.9:5061>");
        let mut invite = request(Method::Invite, &uri, user);
        invite.replace(Name::Contact, contact);
        bench.receive(alice, invite);
        let [_, forwarded] = bench.two();
        let routes = forwarded.goes_along(phone).values(Name::RecordRoute);
        assert!(!routes.is_empty());
        for route in routes {
            assert!(route.starts_with(&format!("<{scheme}:")), "{route}");
            assert!(
                route.contains(&format!(";transport={transport};lr")),
                "{route}"
            );
        }
    }
}

#[test]
fn a_sips_request_does_not_go_where_there_is_no_tls() {
    let mut bench = Bench::new(&[UDP, TLS], &["example.com"]);
    let phone = flow(UDP, "192.0.2.20:5060");
    let alice = flow(UDP, "192.0.2.9:5060");
    // Registered without TLS, but reachable with it.
    bench.register(phone, "bob", "<sips:bob@192.0.2.20>");
    bench.receive(
        alice,
        request(Method::Options, "sips:bob@example.com", "c1"),
    );
    bench.one().goes_to("tls:192.0.2.20:5061");
    // Behind a NAT: there is only the way without.
    let nat = flow(UDP, "198.51.100.1:30001");
    bench.register(nat, "carol", "<sips:carol@10.0.0.1>");
    bench.receive(
        alice,
        request(Method::Options, "sips:carol@example.com", "c2"),
    );
    bench.one().answers(480);

    // Nor does a flow token change that.
    bench.register(nat, "dave", "<sip:dave@10.0.0.1>");
    bench.receive(
        alice,
        request(Method::Subscribe, "sip:dave@example.com", "c3"),
    );
    let route = bench.one().value(Name::RecordRoute);
    bench.receive(
        alice,
        request(Method::Notify, "sips:dave@10.0.0.1", "c4").with(Name::Route, route),
    );
    bench.one().answers(500);
}

/// RFC 5923 section 8.1.
#[test]
fn who_is_connected_to_over_tls_may_send_requests_back_where_that_is_offered() {
    for offers_aliases in [false, true] {
        let mut bench = Bench::with(&[UDP, TLS], &["example.com"], |config| {
            config.offers_aliases = offers_aliases;
            let mut policy = Policy::default();
            policy.forwarding.relay = Relay::Anybody;
            config.policy = Arc::new(policy);
        });
        let alice = flow(UDP, "192.0.2.9:5060");
        for (call, uri, is_offered) in [
            ("c1", "sips:x@192.0.2.50", offers_aliases),
            ("c2", "sip:x@192.0.2.50", false),
        ] {
            bench.receive(alice, request(Method::Options, uri, call));
            let sent = bench.one();
            let via = sent.message.top_via().expect("a Via");
            assert_eq!(via.parameters().contains("alias"), is_offered, "{uri}");
        }
    }
}
