//! Where settings lead: static routes, groups of servers with failover and probes, drop lists; and the
//! choice between UDP and TCP by the size of a request (RFC 3261 section 18.1.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, Sent, flow, request, response, sip};
use proxy::core::{
    DropList, Event, Group, HopOutcome, Member, MemberState, Mode, Pattern, Policy, Probing, Query,
    Route, RouteTarget, Routing,
};
use sip::{Flow, Method, Name};

const LISTENERS: [&str; 2] = ["udp:192.0.2.1:5060", "tcp:192.0.2.1:5060"];

fn alice() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.9:5060")
}

fn bench(routing: Routing) -> Bench {
    assert_eq!(routing.validate(), Ok(()));
    Bench::with(&LISTENERS, &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            routing,
            ..Policy::default()
        });
    })
}

fn to_uri(uri: &str) -> Route {
    Route::to(RouteTarget::Uri(uri.to_owned()))
}

/// Numbers that begin with +49 go to this group.
fn gateways(group: Group) -> Routing {
    Routing {
        routes: vec![Route {
            prefix: Some("+49".to_owned()),
            ..Route::to(RouteTarget::Group("gateways".to_owned()))
        }],
        groups: BTreeMap::from([("gateways".to_owned(), group)]),
        ..Routing::default()
    }
}

/// Two servers, the first preferred.
fn two() -> Group {
    Group {
        members: vec![
            Member::new("sip:192.0.2.51"),
            Member {
                priority: 1,
                ..Member::new("sip:192.0.2.52")
            },
        ],
        ..Group::default()
    }
}

/// What is forwarded of what was sent.
fn forwarded(bench: &mut Bench) -> Vec<Sent> {
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.is_request());
    sent
}

/// The one final response.
fn answer(bench: &mut Bench) -> Sent {
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.status().is_some_and(|status| status >= 200));
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

fn call(bench: &mut Bench, id: &str) -> Sent {
    bench.receive(
        alice(),
        request(Method::Invite, "sip:+4930@example.com", id),
    );
    let mut sent = forwarded(bench);
    // Not the probes.
    sent.retain(|sent| sent.message.method() == Some(&Method::Invite));
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

fn from(server: &str) -> Flow {
    flow("udp:192.0.2.1:5060", server)
}

#[test]
fn a_next_hop_on_sctp_is_known_by_all_its_addresses() {
    let trunk = "sip:192.0.2.70:5070;transport=sctp";
    let further = vec!["198.51.100.70".parse().expect("an address")];
    let members = vec![Member {
        addresses: further.clone(),
        ..Member::new(trunk)
    }];
    let by_group = gateways(Group {
        members,
        ..Group::default()
    });
    let by_uri = Routing {
        routes: vec![Route {
            prefix: Some("+49".to_owned()),
            addresses: further,
            ..to_uri(trunk)
        }],
        ..Routing::default()
    };
    for routing in [by_uri, by_group] {
        for listener in ["sctp:192.0.2.1:5060", "sctp:0.0.0.0:5060"] {
            assert_eq!(routing.validate(), Ok(()));
            let mut bench = Bench::with(&[LISTENERS[0], listener], &["example.com"], |config| {
                config.policy = Arc::new(Policy {
                    routing: routing.clone(),
                    ..Policy::default()
                });
            });
            bench.holds_questions = true;
            bench.receive(
                alice(),
                request(Method::Invite, "sip:+4930@example.com", "a"),
            );
            let both = ["192.0.2.70:5070", "198.51.100.70:5070"];
            if listener.contains("0.0.0.0") {
                // Our own address toward it has to be asked for.
                let Some((_, Query::Resolve(destination))) = bench.questions.pop_front() else {
                    panic!("a question for the next hop");
                };
                let port = destination.port.expect("that of the URI");
                assert_eq!(format!("{}:{port}", destination.host), both[0]);
                let further = destination.addresses.iter();
                let further: Vec<String> = further.map(|ip| format!("{ip}:{port}")).collect();
                assert_eq!(further, both[1..]);
                continue;
            }
            let sent = forwarded(&mut bench).remove(0);
            sent.goes_to("sctp:192.0.2.70:5070");
            assert_eq!(sent.addresses(), both);
        }
    }
}

#[test]
fn a_static_route_leads_past_the_location_service_and_leaves_the_request_as_it_is() {
    let mut bench = bench(Routing {
        routes: vec![
            Route {
                method: Some(Method::Message),
                ..to_uri("sip:192.0.2.60;transport=tcp")
            },
            Route {
                prefix: Some("+49".to_owned()),
                ..to_uri("sip:192.0.2.61:5070")
            },
            Route {
                domain: Some("partner.example".to_owned()),
                ..to_uri("sip:192.0.2.62")
            },
        ],
        ..Routing::default()
    });
    for (method, uri, expected) in [
        (
            Method::Message,
            "sip:bob@example.com",
            "tcp:192.0.2.60:5060",
        ),
        (
            Method::Invite,
            "sip:+4930@example.com",
            "udp:192.0.2.61:5070",
        ),
        (
            Method::Invite,
            "sip:+4930@partner.example",
            "udp:192.0.2.61:5070",
        ),
        (Method::Invite, "tel:+49-30", "udp:192.0.2.61:5070"),
        (
            Method::Options,
            "sip:bob@partner.example",
            "udp:192.0.2.62:5060",
        ),
    ] {
        bench.receive(alice(), request(method.clone(), uri, uri));
        let sent = forwarded(&mut bench);
        assert_eq!(sent.len(), 1, "{uri}");
        sent[0].is(method, uri).goes_to(expected);
        assert!(!sent[0].message.contains(Name::Route));
    }
    // No route, no such user.
    bench.receive(alice(), request(Method::Invite, "sip:bob@example.com", "n"));
    answer(&mut bench).answers(404);
}

#[test]
fn what_a_route_header_leads_on_and_what_is_in_a_dialog_is_not_rerouted() {
    let mut bench = bench(Routing {
        routes: vec![Route {
            prefix: Some("+49".to_owned()),
            ..to_uri("sip:192.0.2.61")
        }],
        ..Routing::default()
    });
    let with_route = request(Method::Invite, "sip:+4930@192.0.2.70", "c1")
        .with(Name::Route, "<sip:192.0.2.71;lr>");
    bench.receive(alice(), with_route);
    forwarded(&mut bench)[0].goes_to("udp:192.0.2.71:5060");

    // Our own Route is that of an outbound proxy, or the trace of a dialog.
    let own = "<sip:192.0.2.1:5060;lr>";
    let beginning = request(Method::Invite, "sip:+4930@192.0.2.70", "c2").with(Name::Route, own);
    bench.receive(alice(), beginning);
    forwarded(&mut bench)[0].goes_to("udp:192.0.2.61:5060");
    let mut within = request(Method::Bye, "sip:+4930@192.0.2.70", "c2").with(Name::Route, own);
    within.set_to_tag("b1");
    bench.receive(alice(), within);
    forwarded(&mut bench)[0].goes_to("udp:192.0.2.70:5060");
}

#[test]
fn a_503_leads_to_the_next_server_at_once_and_away_from_the_first_for_a_while() {
    let mut bench = bench(gateways(two()));
    let first = call(&mut bench, "c1");
    first.goes_to("udp:192.0.2.51:5060");
    let busy = response(&first.message, 503, "t").with(Name::RetryAfter, "60");
    bench.receive(from("192.0.2.51:5060"), busy);
    let next = forwarded(&mut bench);
    // The ACK to the 503, and the INVITE with another branch (RFC 3263 section 4.3).
    let invite = next
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Invite))
        .expect("an INVITE");
    invite.goes_to("udp:192.0.2.52:5060");
    assert_ne!(invite.branch(), first.branch());
    let retry_after = Some(Duration::from_secs(60));
    assert!(bench.events.contains(&Event::NextHop {
        transport: sip::Transport::Udp,
        remote: "192.0.2.51:5060".parse().expect("an address"),
        outcome: HopOutcome::Unavailable { retry_after },
    }));
    bench.receive(from("192.0.2.52:5060"), response(&invite.message, 200, "t"));
    answer(&mut bench).answers(200);
    assert_eq!(bench.proxy.statistics().failovers, 1);

    let second = call(&mut bench, "c2");
    second.goes_to("udp:192.0.2.52:5060");
    bench.receive(from("192.0.2.52:5060"), response(&second.message, 200, "t"));
    bench.pass(Duration::from_secs(61));
    bench.sent();
    call(&mut bench, "c3").goes_to("udp:192.0.2.51:5060");
}

#[test]
fn a_silent_server_is_left_after_its_time_and_one_that_has_begun_to_answer_is_not() {
    let mut bench = bench(gateways(two()));
    call(&mut bench, "c1").goes_to("udp:192.0.2.51:5060");
    bench.pass(Duration::from_millis(3_900));
    let repeated = forwarded(&mut bench);
    assert!(!repeated.is_empty());
    for sent in repeated {
        sent.goes_to("udp:192.0.2.51:5060");
    }
    bench.pass(Duration::from_millis(200));
    let next = forwarded(&mut bench);
    assert_eq!(next.len(), 1, "{next:#?}");
    next[0].goes_to("udp:192.0.2.52:5060");
    bench.receive(
        from("192.0.2.52:5060"),
        response(&next[0].message, 200, "t"),
    );
    assert!(bench.events.iter().any(|event| matches!(
        event,
        Event::Member { uri, state: MemberState::Down { .. }, .. } if &**uri == "sip:192.0.2.51"
    )));

    bench.pass(Duration::from_secs(31));
    bench.sent();
    let slow = call(&mut bench, "c2");
    slow.goes_to("udp:192.0.2.51:5060");
    bench.receive(from("192.0.2.51:5060"), response(&slow.message, 100, "t"));
    bench.pass(Duration::from_secs(60));
    assert_eq!(forwarded(&mut bench).len(), 0);
}

#[test]
fn when_all_have_failed_the_last_failure_is_the_answer() {
    let mut bench = bench(gateways(two()));
    let mut sent = call(&mut bench, "c1");
    for server in ["192.0.2.51:5060", "192.0.2.52:5060"] {
        sent.goes_to(&format!("udp:{server}"));
        bench.receive(from(server), response(&sent.message, 503, "t"));
        let invites = bench.sent();
        let next = invites
            .iter()
            .find(|sent| sent.message.method() == Some(&Method::Invite));
        match next {
            Some(next) => sent = next.clone(),
            None => {
                // A 503 of another is no 503 of ours (RFC 3261 section 16.7 step 6).
                assert!(
                    invites
                        .iter()
                        .any(|sent| sent.message.status() == Some(500))
                );
            }
        }
    }
    assert_eq!(bench.proxy.statistics().next_hops_failed, 2);
}

#[test]
fn probes_find_out_who_is_down_and_who_is_back() {
    let mut bench = bench(gateways(Group {
        probing: Some(Probing {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            ..Probing::default()
        }),
        failures: 2,
        ..two()
    }));
    bench.proxy.start_probing(bench.now, "probe@192.0.2.1");
    bench.pass(Duration::ZERO);
    assert_eq!(forwarded(&mut bench).len(), 2);
    // Not to know OPTIONS is no reason to be down; one failure is none either, two are.
    probe_round(&mut bench, Some(405));
    probe_round(&mut bench, Some(500));
    assert_eq!(ups(&bench), [true, true]);
    probe_round(&mut bench, None);
    assert_eq!(ups(&bench), [false, true]);
    call(&mut bench, "c1").goes_to("udp:192.0.2.52:5060");
    bench.sent();
    // It answers again.
    probe_round(&mut bench, Some(200));
    assert_eq!(ups(&bench), [true, true]);
    call(&mut bench, "c2").goes_to("udp:192.0.2.51:5060");
    let statistics = bench.proxy.statistics();
    assert_eq!((statistics.probes_sent, statistics.probes_failed), (10, 4));

    // New settings without the group end its probes.
    bench.proxy.set_policy(bench.now, Arc::default());
    bench.pass(Duration::from_secs(600));
    bench.sent();
    bench.assert_idle();
}

/// Answers the next two probes: that to 192.0.2.52 with 200, the other as told, or not at all.
fn probe_round(bench: &mut Bench, status: Option<u16>) {
    let before = bench.proxy.statistics().probes_sent;
    while bench.proxy.statistics().probes_sent == before {
        bench.sent();
        bench.pass(Duration::from_millis(100));
    }
    let mut probes = forwarded(bench);
    probes.retain(|sent| sent.message.method() == Some(&Method::Options));
    assert_eq!(probes.len(), 2, "{probes:#?}");
    for probe in probes {
        assert_eq!(probe.value(Name::CallId), "probe@192.0.2.1");
        let uri = probe.message.request_uri().expect("a URI").to_owned();
        let status = match uri.as_str() {
            "sip:192.0.2.52" => Some(200),
            _ => status,
        };
        if let Some(status) = status {
            let server = format!("{}:5060", uri.trim_start_matches("sip:"));
            bench.receive(from(&server), response(&probe.message, status, "t"));
        }
    }
    // The time of one without an answer ends.
    bench.pass(Duration::from_secs(3));
    bench.sent();
}

fn ups(bench: &Bench) -> Vec<bool> {
    let health = bench.proxy.member_health();
    health
        .iter()
        .map(|member| member.state == MemberState::Up)
        .collect()
}

#[test]
fn the_drop_lists_are_silent() {
    let routing = Routing {
        drop: DropList {
            addresses: vec!["198.51.100.0/24".parse().expect("a network")],
            user_agents: vec![Pattern::new("*scanner*")],
        },
        ..Routing::default()
    };
    let mut bench = bench(routing);
    let options = || request(Method::Options, "sip:example.com", "o1");
    bench.receive(flow(LISTENERS[0], "198.51.100.7:5060"), options());
    bench.receive_malformed(flow(LISTENERS[0], "198.51.100.7:5060"), b"INVITE");
    bench.receive(alice(), options().with(Name::UserAgent, "friendly-scanner"));
    bench.silence();
    let statistics = bench.proxy.statistics();
    assert_eq!(
        (statistics.dropped_addresses, statistics.dropped_user_agents),
        (2, 1)
    );
    bench.receive(alice(), options());
    bench.one().answers(200);
    // The lists can be exchanged.
    bench.proxy.set_policy(bench.now, Arc::default());
    let other = request(Method::Options, "sip:example.com", "o2");
    bench.receive(flow(LISTENERS[0], "198.51.100.7:5060"), other);
    bench.one().answers(200);
}

#[test]
fn a_route_can_redirect() {
    let mut routing = gateways(two());
    routing.routes[0].mode = Some(Mode::Redirect);
    let mut bench = bench(routing);
    bench.receive(
        alice(),
        request(Method::Invite, "sip:+4930@example.com", "c1"),
    );
    let moved = answer(&mut bench);
    assert_eq!(
        moved.answers(302).values(Name::Contact),
        [
            "<sip:+4930@192.0.2.51>;q=0.999",
            "<sip:+4930@192.0.2.52>;q=0.499"
        ]
    );
}

/// Over UDP anybody may have sent the request: the answer is at most three times as long, the tag of To included.
#[test]
fn a_route_with_many_next_hops_redirects_to_as_many_as_there_is_room_for() {
    let mut routing = gateways(Group {
        members: (0..99)
            .map(|host| Member::new(&format!("sip:192.0.2.{host}")))
            .collect(),
        ..Group::default()
    });
    routing.routes[0].mode = Some(Mode::Redirect);
    for length in 0..40 {
        let mut bench = bench(routing.clone());
        let invite = request(Method::Invite, "sip:+4930@example.com", "c1")
            .with(Name::Subject, "x".repeat(length));
        let came = invite.wire_length();
        bench.receive(alice(), invite);
        let moved = answer(&mut bench);
        assert!(moved.answers(302).values(Name::Contact).len() > 5);
        let went = moved.message.wire_length();
        assert!(went <= 3 * came, "{went} for {came}");
    }
}

#[test]
fn without_state_a_request_its_retransmission_cancel_and_ack_go_the_same_way() {
    let mut routing = gateways(Group {
        members: (0..8)
            .map(|host| Member::new(&format!("sip:192.0.2.{}", 50 + host)))
            .collect(),
        ..Group::default()
    });
    routing.routes[0].mode = Some(Mode::Stateless);
    let mut bench = bench(routing);
    let mut used = Vec::new();
    for call in 0..20 {
        let invite = request(Method::Invite, "sip:+4930@example.com", &format!("c{call}"));
        let mut targets = Vec::new();
        for message in [
            invite.clone(),
            invite.clone(),
            sip(&String::from_utf8_lossy(&invite.to_bytes()).replace("INVITE", "CANCEL")),
            {
                let text = String::from_utf8_lossy(&invite.to_bytes()).replace("INVITE", "ACK");
                let mut ack = sip(&text);
                ack.set_to_tag("t");
                ack
            },
        ] {
            bench.receive(alice(), message);
            let sent = forwarded(&mut bench);
            assert_eq!(sent.len(), 1, "{sent:#?}");
            targets.push(format!("{:?}", sent[0].target));
        }
        targets.dedup();
        assert_eq!(targets.len(), 1, "{targets:?}");
        used.extend(targets);
    }
    used.sort();
    used.dedup();
    assert!(used.len() > 3, "{used:?}");
}

/// A request with a body of so many octets.
fn with_body(octets: usize, call: &str) -> sip::Message {
    let text = format!(
        "MESSAGE sip:bob@192.0.2.77 SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK{call}
        Max-Forwards: 70
        From: <sip:alice@example.com>;tag=a1
        To: <sip:bob@192.0.2.77>
        Call-ID: {call}
        CSeq: 1 MESSAGE
        Content-Type: text/plain
        Content-Length: {octets}

        {}",
        "x".repeat(octets)
    );
    sip(&text)
}

#[test]
fn a_request_too_large_for_udp_goes_over_tcp() {
    let mut bench = bench(Routing::default());
    bench.receive(alice(), with_body(700, "small"));
    forwarded(&mut bench)[0].goes_to("udp:192.0.2.77:5060");
    bench.receive(alice(), with_body(1_300, "large"));
    let sent = forwarded(&mut bench);
    assert_eq!(sent.len(), 1);
    sent[0].goes_to("tcp:192.0.2.77:5060");
    assert!(
        sent[0]
            .value(Name::Via)
            .starts_with("SIP/2.0/TCP 192.0.2.1:5060")
    );
    // That it was answered, if badly, shows that TCP is known there.
    bench.receive(
        flow(LISTENERS[1], "192.0.2.77:5060"),
        response(&sent[0].message, 503, "t"),
    );
    answer(&mut bench).answers(500);
    let statistics = bench.proxy.statistics();
    assert_eq!(
        (
            statistics.switched_to_stream,
            statistics.fell_back_to_datagram
        ),
        (1, 0)
    );
}

#[test]
fn where_tcp_is_refused_a_large_request_goes_over_udp() {
    let mut bench = bench(Routing::default());
    bench.receive(alice(), with_body(1_300, "large"));
    forwarded(&mut bench)[0].goes_to("tcp:192.0.2.77:5060");
    bench.refuse_last_request();
    let sent = forwarded(&mut bench);
    assert_eq!(sent.len(), 1);
    sent[0].goes_to("udp:192.0.2.77:5060");
    assert!(
        sent[0]
            .value(Name::Via)
            .starts_with("SIP/2.0/UDP 192.0.2.1:5060")
    );
    assert_eq!(bench.proxy.statistics().fell_back_to_datagram, 1);

    // Any other failure says nothing about whether TCP is known.
    bench.receive(alice(), with_body(1_300, "other"));
    bench.sent();
    bench.fail_last_request();
    answer(&mut bench).answers(500);
}

#[test]
fn without_tcp_of_our_own_everything_goes_over_udp() {
    let mut bench = Bench::new(&LISTENERS[..1], &["example.com"]);
    bench.receive(alice(), with_body(1_300, "large"));
    forwarded(&mut bench)[0].goes_to("udp:192.0.2.77:5060");
    assert_eq!(bench.proxy.statistics().switched_to_stream, 0);
}
