//! User agents that cannot be reached at their Contact are reached along their flows (RFC 5626 section 5).

use std::time::Duration;

use proxy::core::{FORMER_CONNECTION, Keys};
use sip::{ConnectionId, Flow, Method, Name, Target};

use crate::common::{Bench, flow, register, request, response, sip};
use crate::dialogs::{SCTP, Side, TCP, TLS, UDP, bench, call, within};

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
            within(&forwarded, &ok, &method, "sip:bob@10.0.0.1", false),
        );
        let between = near.one();
        between.goes_to("udp:192.0.2.2:5060");
        far.receive(from_near, between.message);
        let arrived = far.one();
        arrived.is(method, "sip:bob@10.0.0.1").goes_along(bob);
    }
    far.receive(
        bob,
        within(&forwarded, &ok, &Method::Bye, "sip:alice@10.0.0.1", true),
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

/// Even where the Contact is the very address that the connection comes from: over TLS nobody else would
/// be believed there.
#[test]
fn a_client_with_tls_is_reached_over_its_connection_alone() {
    let caller = Side {
        flow: flow(TLS, "192.0.2.9:40001"),
        contact: "sip:alice@192.0.2.9:40001;transport=tls",
    };
    let callee = Side {
        flow: flow(TLS, "192.0.2.20:40002"),
        contact: "sip:bob@192.0.2.20:40002;transport=tls",
    };
    let routes = call(
        &mut Bench::new(&[UDP, TLS], &["example.com"]),
        &caller,
        &callee,
        "tls:192.0.2.20:40002",
        "tls:192.0.2.9:40001",
    );
    for route in routes {
        assert!(route.contains('@'), "{route}");
    }
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

/// RFC 5626 section 5.3, and its example: an edge proxy that has been started anew has the keys that it had,
/// and numbers its connections as it did, but those to user agents are gone.
#[test]
fn a_flow_token_of_an_earlier_process_leads_along_no_connection_of_another() {
    let start = |incarnation| {
        Bench::with(&[UDP, TCP], &["example.com"], |config| {
            config.keys = Some(Keys::from_bytes([1; 32]));
            config.incarnation = incarnation;
        })
    };
    let phone = flow(TCP, "198.51.100.1:30001");
    let contact = "<sip:bob@10.0.0.1;transport=tcp>;reg-id=1;+sip.instance=\"<urn:uuid:1>\"";
    let mut registration = register("bob", 1, &[contact]).with(Name::Supported, "path, outbound");
    registration.set_request_uri("sip:192.0.2.77");
    let mut bench = start(1);
    bench.receive(phone, registration);
    let path = bench.one().value(Name::Path);

    let registrar = flow(UDP, "192.0.2.77:5060");
    let invite = request(Method::Invite, "sip:bob@10.0.0.1", "one").with(Name::Route, &path);
    for (incarnation, expected) in [(1, phone.connection), (2, FORMER_CONNECTION)] {
        let mut bench = start(incarnation);
        bench.receive(registrar, invite.clone());
        let [_, sent] = bench.two();
        let Target::Flow(along) = sent.target else {
            panic!("along a flow expected: {:?}", sent.target)
        };
        assert_eq!(along.connection, expected);
        // What the transports say of a connection that is not there.
        bench.fail_last_request();
        bench.one().answers(430);
    }
}
