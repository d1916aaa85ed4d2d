//! What the proxy puts into Record-Route (RFC 3261 section 16.6 step 4, RFC 5658).

use sip::Name;

use crate::common::{Bench, flow, sip};
use crate::dialogs::{SCTP, Side, TCP, UDP, bench, call, unmarked};

#[test]
fn one_transport_and_reachable_contacts_need_one_record_route() {
    let caller = Side {
        flow: flow(UDP, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9",
    };
    let callee = Side {
        flow: flow(UDP, "192.0.2.20:5070"),
        contact: "sip:bob@192.0.2.20:5070",
    };
    let routes = call(
        &mut bench(),
        &caller,
        &callee,
        "udp:192.0.2.20:5070",
        "udp:192.0.2.9:5060",
    );
    assert_eq!(routes, ["<sip:192.0.2.1:5060;lr>"]);
}

#[test]
fn a_change_of_transport_needs_two_each_with_its_transport() {
    let caller = Side {
        flow: flow(TCP, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9;transport=tcp",
    };
    let callee = Side {
        flow: flow(UDP, "192.0.2.20:5060"),
        contact: "sip:bob@192.0.2.20",
    };
    let routes = call(
        &mut bench(),
        &caller,
        &callee,
        "udp:192.0.2.20:5060",
        "tcp:192.0.2.9:5060",
    );
    assert_eq!(
        routes,
        [
            "<sip:192.0.2.1:5060;transport=udp;lr>",
            "<sip:192.0.2.1:5060;transport=tcp;lr>"
        ]
    );
}

#[test]
fn a_caller_on_sctp_and_a_callee_on_udp() {
    let caller = Side {
        flow: flow(SCTP, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9;transport=sctp",
    };
    let callee = Side {
        flow: flow(UDP, "192.0.2.20:5060"),
        contact: "sip:bob@192.0.2.20",
    };
    let routes = call(
        &mut bench(),
        &caller,
        &callee,
        "udp:192.0.2.20:5060",
        "sctp:192.0.2.9:5060",
    );
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[0], "<sip:192.0.2.1:5060;transport=udp;lr>");
    // Address and port do not tell one association from another: the flow does.
    let (token, rest) = routes[1].split_once('@').expect("a flow token");
    assert!(token.len() > 40, "{token}");
    assert_eq!(rest, "192.0.2.1:5060;transport=sctp;lr>");
}

#[test]
fn a_change_of_address_family_needs_two() {
    let udp6 = "udp:[2001:db8::1]:5060";
    let mut bench = Bench::new(&[UDP, udp6], &["example.com"]);
    let caller = Side {
        flow: flow(UDP, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9:5060",
    };
    let callee = Side {
        flow: flow(udp6, "[2001:db8::9]:5060"),
        contact: "sip:bob@[2001:db8::9]:5060",
    };
    let routes = call(
        &mut bench,
        &caller,
        &callee,
        "udp:[2001:db8::9]:5060",
        "udp:192.0.2.9:5060",
    );
    assert_eq!(
        routes,
        ["<sip:[2001:db8::1]:5060;lr>", "<sip:192.0.2.1:5060;lr>"]
    );
}

#[test]
fn a_wildcard_listener_is_known_by_the_address_of_the_flow() {
    let mut bench = Bench::with(
        &["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"],
        &["example.com"],
        |config| {
            config.local_addresses = vec!["192.0.2.1".parse().expect("an address")];
        },
    );
    let caller = Side {
        flow: flow(UDP, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9",
    };
    let callee = Side {
        flow: flow(TCP, "192.0.2.20:5060"),
        contact: "sip:bob@192.0.2.20;transport=tcp",
    };
    let routes = call(
        &mut bench,
        &caller,
        &callee,
        "tcp:192.0.2.20:5060",
        "udp:192.0.2.9:5060",
    );
    assert_eq!(
        routes,
        [
            "<sip:192.0.2.1:5060;transport=tcp;lr>",
            "<sip:192.0.2.1:5060;transport=udp;lr>"
        ]
    );
}

#[test]
fn what_is_advertised_stands_in_via_and_record_route() {
    let mut bench = Bench::with(&["udp:10.0.0.1:5070"], &["example.com"], |config| {
        config.advertise = Some("sip.example.com:5060".parse().expect("a host"));
    });
    let here = "udp:10.0.0.1:5070";
    let caller = Side {
        flow: flow(here, "192.0.2.9:5060"),
        contact: "sip:alice@192.0.2.9",
    };
    let callee = Side {
        flow: flow(here, "192.0.2.20:5060"),
        contact: "sip:bob@192.0.2.20",
    };
    let routes = call(
        &mut bench,
        &caller,
        &callee,
        "udp:192.0.2.20:5060",
        "udp:192.0.2.9:5060",
    );
    assert_eq!(routes, ["<sip:sip.example.com:5060;lr>"]);
}

#[test]
fn an_invite_over_two_proxies_carries_no_flow_token() {
    let mut bench = bench();
    let invite = sip("INVITE sip:x@192.0.2.77 SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.50;branch=z9hG4bKproxy
        Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKphone
        Record-Route: <sip:192.0.2.50;lr>
        Max-Forwards: 69
        From: <sip:alice@example.com>;tag=1
        To: <sip:x@192.0.2.77>
        Call-ID: 1
        CSeq: 1 INVITE
        Contact: <sip:alice@10.0.0.1>
        Content-Length: 0");
    bench.receive(flow(UDP, "192.0.2.50:5060"), invite);
    let [_, forwarded] = bench.two();
    let ours = unmarked(forwarded.values(Name::RecordRoute)[..1].to_vec());
    assert_eq!(ours, ["<sip:192.0.2.1:5060;lr>"]);
    assert_eq!(
        forwarded.values(Name::RecordRoute)[1..],
        ["<sip:192.0.2.50;lr>"]
    );
}
