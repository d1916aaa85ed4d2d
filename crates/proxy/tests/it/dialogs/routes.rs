//! What has led a request here is taken off, and the next Route leads (RFC 3261 sections 16.4 and 16.6 step 6).

use sip::{Method, Name};

use crate::common::{self, flow, request};
use crate::dialogs::{UDP, bench};

#[test]
fn our_routes_are_taken_off_and_the_next_one_leads() {
    let mut bench = bench();
    let mut routed = request(Method::Bye, "sip:bob@192.0.2.20", "c1");
    routed.push_back(
        Name::Route,
        "<sip:192.0.2.1;lr>, \"P\" <sip:example.com;lr>, <sip:192.0.2.66;lr>, <sip:192.0.2.1;lr>",
    );
    bench.receive(flow(UDP, "192.0.2.9:5060"), routed);
    let bye = bench.one();
    bye.is(Method::Bye, "sip:bob@192.0.2.20")
        .goes_to("udp:192.0.2.66:5060");
    assert_eq!(
        bye.values(Name::Route),
        ["<sip:192.0.2.66;lr>", "<sip:192.0.2.1;lr>"]
    );

    let mut broken = request(Method::Bye, "sip:bob@192.0.2.20", "c2");
    broken.push_back(Name::Route, "<sip:>");
    bench.receive(flow(UDP, "192.0.2.9:5060"), broken);
    bench.one().answers(400);
}

/// RFC 3261 section 16.12.1.2, at the proxies before and behind the strict router.
#[test]
fn strict_routers_get_what_they_expect_and_are_undone() {
    let mut bench = bench();
    let mut request = request(Method::Bye, "sip:callee@192.0.2.20", "c1");
    request.push_back(
        Name::Route,
        "<sip:192.0.2.1;lr>, <sip:192.0.2.66>, <sip:192.0.2.67;lr>",
    );
    bench.receive(flow(UDP, "192.0.2.9:5060"), request);
    let bye = bench.one();
    bye.is(Method::Bye, "sip:192.0.2.66")
        .goes_to("udp:192.0.2.66:5060");
    assert_eq!(
        bye.values(Name::Route),
        ["<sip:192.0.2.67;lr>", "<sip:callee@192.0.2.20>"]
    );

    let mut strict = common::request(Method::Bye, "sip:192.0.2.1;lr", "c2");
    strict.push_back(Name::Route, "<sip:192.0.2.67;lr>, <sip:callee@192.0.2.20>");
    bench.receive(flow(UDP, "192.0.2.66:5060"), strict);
    let bye = bench.one();
    bye.is(Method::Bye, "sip:callee@192.0.2.20")
        .goes_to("udp:192.0.2.67:5060");
    assert_eq!(bye.values(Name::Route), ["<sip:192.0.2.67;lr>"]);
}

#[test]
fn maddr_that_has_led_here_is_taken_off() {
    let mut bench = bench();
    bench.register(flow(UDP, "192.0.2.20:5060"), "bob", "<sip:bob@192.0.2.20>");
    let invite = request(Method::Invite, "sip:bob@example.com;maddr=192.0.2.1", "c1");
    bench.receive(flow(UDP, "192.0.2.9:5060"), invite);
    let [_, forwarded] = bench.two();
    forwarded.is(Method::Invite, "sip:bob@192.0.2.20");
    // Over another transport than it came by.
    let invite = request(
        Method::Invite,
        "sip:bob@example.com;maddr=192.0.2.1;transport=tcp",
        "c2",
    );
    bench.receive(flow(UDP, "192.0.2.9:5060"), invite);
    let [_, forwarded] = bench.two();
    forwarded.goes_to("tcp:192.0.2.1:5060");
}

#[test]
fn a_route_outranks_the_flow_of_a_binding() {
    let mut bench = bench();
    bench.register(flow(UDP, "198.51.100.2:30002"), "bob", "<sip:bob@10.0.0.1>");
    let invite = request(Method::Invite, "sip:bob@example.com", "c1")
        .with(Name::Route, "<sip:192.0.2.1;lr>, <sip:192.0.2.66;lr>");
    bench.receive(flow(UDP, "192.0.2.9:5060"), invite);
    let [_, forwarded] = bench.two();
    forwarded
        .is(Method::Invite, "sip:bob@10.0.0.1")
        .goes_to("udp:192.0.2.66:5060");
}
