//! The proxy stays on the path of a dialog: Record-Route, Route, and the flows of user agents that
//! cannot be reached at their Contact (RFC 3261 sections 16.4 and 16.6, RFC 5658, RFC 5626 section 5).

mod common;

use std::time::Duration;

use common::{Bench, Sent, flow, register, request, response, sip};
use sip::{ConnectionId, Flow, Message, Method, Name, Target};

const UDP: &str = "udp:192.0.2.1:5060";
const TCP: &str = "tcp:192.0.2.1:5060";
const SCTP: &str = "sctp:192.0.2.1:5060";

fn bench() -> Bench {
    Bench::new(&[UDP, TCP, SCTP], &["example.com"])
}

/// A request in the dialog that an answered INVITE has begun, by the callee if it is `reversed`: along
/// the route set of that side (RFC 3261 section 12).
fn within(
    invite: &Message,
    answer: &Sent,
    method: &Method,
    contact: &str,
    reversed: bool,
) -> Message {
    let mut routes = answer.values(Name::RecordRoute);
    if !reversed {
        routes.reverse();
    }
    let (from, to) = if reversed {
        (Name::To, Name::From)
    } else {
        (Name::From, Name::To)
    };
    let value = |name| common::values(&answer.message, name)[0].clone();
    let call = common::values(invite, Name::CallId)[0].clone();
    let mut request = Message::request(method.clone(), contact)
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 203.0.113.5:9;rport;branch=z9hG4bK{method}{reversed}{call}"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, value(from))
        .with(Name::To, value(to))
        .with(Name::CallId, call)
        .with(Name::CSeq, format!("1 {method}"));
    for route in routes {
        request.push_back(Name::Route, route);
    }
    request
}

/// A caller with its INVITE and a callee who is registered: the flows of both and what they call
/// themselves.
struct Side {
    flow: Flow,
    contact: &'static str,
}

/// Lets one side call the other, checks that ACK and BYE in both directions arrive along `to_callee`
/// and `to_caller`, and returns the Record-Route values that the callee saw.
fn call(
    bench: &mut Bench,
    caller: &Side,
    callee: &Side,
    to_callee: &str,
    to_caller: &str,
) -> Vec<String> {
    bench.register(callee.flow, "bob", &format!("<{}>", callee.contact));
    let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
    invite.replace(Name::Contact, format!("<{}>", caller.contact));
    invite.replace(
        Name::Via,
        format!(
            "SIP/2.0/{} {};branch=z9hG4bKcall;rport",
            caller.flow.transport.via_name(),
            caller
                .contact
                .split_once('@')
                .and_then(|(_, host)| host.split(';').next())
                .expect("a host")
        ),
    );
    bench.receive(caller.flow, invite.clone());
    let [trying, forwarded] = bench.two();
    trying.answers(100).goes_along(caller.flow);
    forwarded
        .is(Method::Invite, callee.contact)
        .goes_along(callee.flow);
    let record_routes = forwarded.values(Name::RecordRoute);

    let ok = response(&forwarded.message, 200, "b1")
        .with(Name::Contact, format!("<{}>", callee.contact));
    bench.receive(callee.flow, ok);
    let ok = bench.one();
    ok.answers(200).goes_along(caller.flow);
    assert_eq!(ok.values(Name::RecordRoute), record_routes);

    bench.receive(
        caller.flow,
        within(&invite, &ok, &Method::Ack, callee.contact, false),
    );
    let ack = bench.one();
    ack.is(Method::Ack, callee.contact).goes_to(to_callee);
    assert!(ack.values(Name::Route).is_empty());
    same_stream(&ack, callee);

    bench.receive(
        callee.flow,
        within(&invite, &ok, &Method::Bye, caller.contact, true),
    );
    let bye = bench.one();
    bye.is(Method::Bye, caller.contact).goes_to(to_caller);
    assert!(bye.values(Name::Route).is_empty());
    assert!(bye.values(Name::RecordRoute).is_empty());
    same_stream(&bye, caller);
    bench.receive(caller.flow, response(&bye.message, 200, ""));
    bench.one().answers(200).goes_along(callee.flow);

    bench.receive(
        caller.flow,
        within(&invite, &ok, &Method::Bye, callee.contact, false),
    );
    let bye = bench.one();
    bye.is(Method::Bye, callee.contact).goes_to(to_callee);
    same_stream(&bye, callee);
    bench.receive(callee.flow, response(&bye.message, 481, ""));
    bench.one().answers(481);
    bench.pass(Duration::from_secs(40));
    bench.assert_idle();
    record_routes
}

/// What goes along a flow goes on the stream of that side.
fn same_stream(sent: &Sent, side: &Side) {
    if let Target::Flow(flow) | Target::FlowOrAddress(flow, _) = sent.target {
        assert_eq!(flow, side.flow);
    } else {
        assert_eq!(side.flow.stream, 0);
    }
}

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
fn user_agents_behind_nat_are_reached_along_their_flows() {
    let caller = Side {
        flow: flow(UDP, "198.51.100.1:30001"),
        contact: "sip:alice@10.0.0.1:5060",
    };
    let callee = Side {
        flow: flow(UDP, "198.51.100.2:30002"),
        contact: "sip:bob@10.0.0.1:5060",
    };
    let routes = call(
        &mut bench(),
        &caller,
        &callee,
        "udp:198.51.100.2:30002",
        "udp:198.51.100.1:30001",
    );
    assert_eq!(routes.len(), 2);
    for route in routes {
        let (token, rest) = route.split_once('@').expect("a flow token");
        assert!(token.starts_with("<sip:") && token.len() > 40, "{token}");
        assert_eq!(rest, "192.0.2.1:5060;lr>");
    }
}

#[test]
fn two_users_on_one_flow_can_talk() {
    let caller = Side {
        flow: flow(UDP, "198.51.100.1:30001"),
        contact: "sip:alice@10.0.0.1:5060",
    };
    let callee = Side {
        flow: caller.flow,
        contact: "sip:bob@10.0.0.2:5060",
    };
    let nat = "udp:198.51.100.1:30001";
    let routes = call(&mut bench(), &caller, &callee, nat, nat);
    assert_eq!(routes.len(), 2);
    assert_eq!(routes[0], routes[1]);
}

/// Each user agent is behind a NAT and known only to its own proxy.
#[test]
fn user_agents_behind_nat_talk_over_two_proxies() {
    const OTHER: &str = "udp:192.0.2.2:5060";
    let mut near = bench();
    let mut far = Bench::new(&[OTHER], &["example.net"]);
    far.local = "192.0.2.2:5060".parse().expect("an address");
    near.names.insert(
        "example.net".to_owned(),
        vec![(sip::Transport::Udp, far.local)],
    );
    let alice = flow(UDP, "198.51.100.1:30001");
    let bob = flow(OTHER, "198.51.100.2:30002");
    let from_far = flow(UDP, "192.0.2.2:5060");
    let from_near = flow(OTHER, "192.0.2.1:5060");
    let registration = sip("REGISTER sip:example.net SIP/2.0
        Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bKr
        Max-Forwards: 70
        From: <sip:bob@example.net>;tag=1
        To: <sip:bob@example.net>
        Call-ID: r
        CSeq: 1 REGISTER
        Contact: <sip:bob@10.0.0.1>
        Content-Length: 0");
    far.receive(bob, registration);
    far.one().answers(200);

    let mut invite = request(Method::Invite, "sip:bob@example.net", "call");
    invite.replace(Name::Contact, "<sip:alice@10.0.0.1>");
    invite.replace(Name::Via, "SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bKcall");
    // Both proxies are made from one seed: to the other one it must not look as it does to the first.
    invite.push_back(Name::Route, "<sip:192.0.2.1;lr>");
    near.receive(alice, invite.clone());
    let [_, between] = near.two();
    far.receive(from_near, between.message);
    let [_, forwarded] = far.two();
    forwarded.goes_along(bob);
    let ok = response(&forwarded.message, 200, "b1").with(Name::Contact, "<sip:bob@10.0.0.1>");
    far.receive(bob, ok);
    near.receive(from_far, far.one().message);
    let ok = near.one();
    ok.answers(200).goes_along(alice);

    for method in [Method::Ack, Method::Bye] {
        near.receive(
            alice,
            within(&invite, &ok, &method, "sip:bob@10.0.0.1", false),
        );
        let between = near.one();
        between.goes_to("udp:192.0.2.2:5060");
        far.receive(from_near, between.message);
        let arrived = far.one();
        arrived.is(method, "sip:bob@10.0.0.1").goes_along(bob);
    }
    far.receive(
        bob,
        within(&invite, &ok, &Method::Bye, "sip:alice@10.0.0.1", true),
    );
    let between = far.one();
    between.goes_to("udp:192.0.2.1:5060");
    near.receive(from_far, between.message);
    near.one()
        .is(Method::Bye, "sip:alice@10.0.0.1")
        .goes_along(alice);
}

#[test]
fn a_client_that_does_not_listen_is_reached_over_its_connection() {
    let caller = Side {
        flow: flow(TCP, "192.0.2.9:40001"),
        contact: "sip:alice@192.0.2.9:5060;transport=tcp",
    };
    let callee = Side {
        flow: flow(TCP, "192.0.2.20:40002"),
        contact: "sip:bob@192.0.2.20:5060;transport=tcp",
    };
    call(
        &mut bench(),
        &caller,
        &callee,
        "tcp:192.0.2.20:40002",
        "tcp:192.0.2.9:40001",
    );
}

#[test]
fn users_of_one_association_keep_their_streams() {
    let on_stream = |stream| Flow {
        stream,
        ..flow(SCTP, "192.0.2.9:5060")
    };
    let caller = Side {
        flow: on_stream(3),
        contact: "sip:alice@192.0.2.9;transport=sctp",
    };
    let callee = Side {
        flow: on_stream(7),
        contact: "sip:bob@192.0.2.9;transport=sctp",
    };
    call(
        &mut bench(),
        &caller,
        &callee,
        "sctp:192.0.2.9:5060",
        "sctp:192.0.2.9:5060",
    );
}

#[test]
fn a_forged_flow_token_leads_along_no_flow() {
    let mut bench = bench();
    let mut forged = request(Method::Bye, "sip:bob@192.0.2.20", "c1");
    let token = "00000000040102030405060708090a0b0c0d0e0f101112131415";
    forged.push_back(Name::Route, format!("<sip:{token}@192.0.2.1:5060;lr>"));
    bench.receive(flow(UDP, "192.0.2.9:5060"), forged);
    let bye = bench.one();
    bye.is(Method::Bye, "sip:bob@192.0.2.20")
        .goes_to("udp:192.0.2.20:5060");
    assert!(matches!(bye.target, Target::Address(..)));
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

#[test]
fn a_binding_outlives_its_connection_but_is_used_only_where_a_new_one_can_arrive() {
    let mut bench = bench();
    let direct = flow(TCP, "192.0.2.20:40002");
    let behind_nat = flow(TCP, "198.51.100.2:40003");
    bench.register(direct, "bob", "<sip:bob@192.0.2.20:5060;transport=tcp>");
    bench.register(
        behind_nat,
        "carol",
        "<sip:carol@10.0.0.1:5060;transport=tcp>",
    );
    for (user, along) in [("bob", direct), ("carol", behind_nat)] {
        let uri = format!("sip:{user}@example.com");
        bench.receive(
            flow(UDP, "192.0.2.9:5060"),
            request(Method::Options, &uri, user),
        );
        bench.one().goes_along(along);
    }
    for along in [direct, behind_nat] {
        bench.proxy.handle_connection_closed(along.connection);
    }
    bench.receive(
        flow(UDP, "192.0.2.9:5060"),
        request(Method::Options, "sip:bob@example.com", "later1"),
    );
    let options = bench.one();
    options.goes_to("tcp:192.0.2.20:5060");
    assert!(matches!(options.target, Target::Address(..)));
    bench.receive(
        flow(UDP, "192.0.2.9:5060"),
        request(Method::Options, "sip:carol@example.com", "later2"),
    );
    bench.one().answers(480);

    // A new REGISTER brings a new flow.
    let new = Flow {
        connection: ConnectionId(99),
        ..flow(TCP, "198.51.100.2:40004")
    };
    bench.receive(
        new,
        register("carol", 2, &["<sip:carol@10.0.0.1:5060;transport=tcp>"]),
    );
    bench.one().answers(200);
    bench.receive(
        flow(UDP, "192.0.2.9:5060"),
        request(Method::Options, "sip:carol@example.com", "later3"),
    );
    bench.one().goes_along(new);
}

#[test]
fn a_flow_that_fails_is_followed_by_the_contact_where_that_can_be_reached() {
    let mut bench = bench();
    let phone = flow(UDP, "192.0.2.20:40002");
    bench.register(phone, "bob", "<sip:bob@192.0.2.20:5060>");
    bench.receive(
        flow(UDP, "192.0.2.9:5060"),
        request(Method::Invite, "sip:bob@example.com", "c1"),
    );
    let [_, first] = bench.two();
    first.goes_along(phone);
    bench.pass(Duration::from_secs(33));
    let sent = bench.sent();
    let second = sent.last().expect("a second attempt");
    second
        .is(Method::Invite, "sip:bob@192.0.2.20:5060")
        .goes_to("udp:192.0.2.20:5060");
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
    assert_eq!(
        forwarded.values(Name::RecordRoute),
        ["<sip:192.0.2.1:5060;lr>", "<sip:192.0.2.50;lr>"]
    );
}

const TLS: &str = "tls:192.0.2.1:5061";

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
