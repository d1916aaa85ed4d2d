//! Recursion on 3xx responses, and the order in which targets are tried (RFC 3261 sections 16.5 to
//! 16.7).

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response};
use proxy::core::{Forking, ForwardingPolicy, Group, Member, Policy, Route, RouteTarget, Routing};
use sip::{Flow, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

/// A phone, by its number.
fn phone(number: u16) -> Flow {
    flow(HERE, &format!("192.0.2.{}:5060", 20 + number))
}

/// A bench on which bob has registered phones with these preferences, the first being number 0.
fn bench(preferences: &[&str], change: impl FnOnce(&mut ForwardingPolicy)) -> Bench {
    let mut forwarding = ForwardingPolicy {
        recursion: true,
        ..ForwardingPolicy::default()
    };
    change(&mut forwarding);
    let policy = Arc::new(Policy {
        forwarding,
        ..Policy::default()
    });
    let mut bench = Bench::with(&[HERE], &["example.com"], |config| config.policy = policy);
    for (number, q) in (0..).zip(preferences) {
        let contact = format!("<sip:bob@192.0.2.{}>;q={q}", 20 + number);
        bench.receive(
            phone(number),
            register("bob", u32::from(number) + 1, &[&contact]),
        );
        bench.one().answers(200);
    }
    bench
}

fn call(bench: &mut Bench) -> Vec<Sent> {
    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "call"),
    );
    let mut sent = bench.sent();
    sent.remove(0).answers(100);
    sent
}

/// An answer from where the INVITE went, with these contacts; returns what is sent but for the ACK.
fn answered(bench: &mut Bench, invite: &Sent, status: u16, contacts: &[&str]) -> Vec<Sent> {
    let mut answer = response(&invite.message, status, "b1");
    for contact in contacts {
        answer.push_back(Name::Contact, contact);
    }
    let from = match invite.target {
        sip::Target::Flow(flow) | sip::Target::FlowOrAddress(flow, _) => flow,
        sip::Target::Address(_, address) => flow(HERE, &address.to_string()),
    };
    bench.receive(from, answer);
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.method() != Some(&Method::Ack));
    sent
}

fn uris(sent: &[Sent]) -> Vec<&str> {
    sent.iter()
        .map(|sent| sent.message.request_uri().unwrap_or("a response"))
        .collect()
}

#[test]
fn the_places_that_a_redirection_names_are_tried_by_their_preference() {
    let mut bench = bench(&["1"], |_| {});
    let invites = call(&mut bench);
    let contacts = [
        "<sip:bob@192.0.2.31>;q=0.2",
        "<sip:bob@192.0.2.32>;q=0.7, <sip:bob@192.0.2.33>;q=0.7",
    ];
    let second = answered(&mut bench, &invites[0], 302, &contacts);
    assert_eq!(uris(&second), ["sip:bob@192.0.2.32", "sip:bob@192.0.2.33"]);
    // Half of the breadth is there for the one behind them.
    assert_eq!(second[0].value(Name::MaxBreadth), "15");
    assert!(answered(&mut bench, &second[0], 486, &[]).is_empty());
    let third = answered(&mut bench, &second[1], 480, &[]);
    assert_eq!(uris(&third), ["sip:bob@192.0.2.31"]);
    let last = answered(&mut bench, &third[0], 404, &[]);
    // The redirection itself is no candidate: all that it said has been tried.
    last[0].answers(486);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn no_place_is_tried_twice() {
    let mut bench = bench(&["1"], |_| {});
    let invites = call(&mut bench);
    let contacts = [
        "<sip:bob@192.0.2.31>",
        "<sip:bob@192.0.2.31:5060>",
        "<sip:BOB@192.0.2.31>",
    ];
    let second = answered(&mut bench, &invites[0], 302, &contacts);
    // The port makes another URI (section 19.1.4), the case of the user too.
    assert_eq!(second.len(), 3);
    let contacts = [
        "<sip:bob@192.0.2.31>",
        "<sip:bob@192.0.2.20>",
        "<sip:bob@example.com>",
    ];
    for invite in &second[..2] {
        assert!(answered(&mut bench, invite, 302, &contacts).is_empty());
    }
    let last = answered(&mut bench, &second[2], 302, &contacts);
    last[0].answers(480);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn a_user_of_ours_is_looked_up() {
    let mut bench = bench(&["1"], |_| {});
    let carol = flow(HERE, "203.0.113.5:40000");
    bench.register(carol, "carol", "<sip:carol@10.0.0.5>");
    let invites = call(&mut bench);
    let second = answered(&mut bench, &invites[0], 302, &["<sip:carol@example.com>"]);
    assert_eq!(uris(&second), ["sip:carol@10.0.0.5"]);
    second[0].goes_along(carol);
    // She sends the call back.
    let last = answered(&mut bench, &second[0], 302, &["<sip:bob@example.com>"]);
    last[0].answers(480);

    bench.pass(Duration::from_secs(100));
    bench.sent();
    let invites = call(&mut bench);
    let last = answered(&mut bench, &invites[0], 302, &["<sip:nobody@example.com>"]);
    last[0].answers(404);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn what_cannot_be_followed_goes_to_the_client() {
    let mut bench = bench(&["1"], |_| {});
    let invites = call(&mut bench);
    // A telephone number is left in the response (section 16.7 step 4).
    let contacts = ["<tel:+15551234>", "<sip:bob@192.0.2.31>"];
    let second = answered(&mut bench, &invites[0], 302, &contacts);
    assert_eq!(uris(&second), ["sip:bob@192.0.2.31"]);
    let last = answered(&mut bench, &second[0], 486, &[]);
    assert_eq!(
        last[0].answers(302).values(Name::Contact),
        ["<tel:+15551234>"]
    );
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn some_redirections_are_not_followed() {
    for (status, contacts) in [
        // RFC 5630 section 5.3.
        (302, &["<sips:bob@192.0.2.31>"][..]),
        (302, &["<sip:bob@192.0.2.31>", "<sips:bob@192.0.2.31>"]),
        (302, &["<mailto:bob@example.com>"]),
        (302, &[]),
        (305, &["<sip:192.0.2.31>"]),
        (380, &["<sip:bob@192.0.2.31>"]),
    ] {
        let mut bench = bench(&["1"], |_| {});
        let invites = call(&mut bench);
        let answer = answered(&mut bench, &invites[0], status, contacts);
        assert_eq!(answer[0].answers(status).values(Name::Contact), contacts);
    }
}

#[test]
fn recursion_has_to_be_wanted_and_the_user_one_of_ours() {
    let contacts = ["<sip:bob@192.0.2.31>"];
    let mut unwanted = bench(&["1"], |policy| policy.recursion = false);
    let invites = call(&mut unwanted);
    answered(&mut unwanted, &invites[0], 302, &contacts)[0].answers(302);

    let mut bench = bench(&[], |_| {});
    bench.receive(alice(), request(Method::Invite, "sip:x@192.0.2.77", "c"));
    let [_trying, invite] = bench.two();
    answered(&mut bench, &invite, 302, &contacts)[0].answers(302);
}

/// A bench with a group of two servers, for whatever no location look-up is for.
fn routed(routes: Vec<Route>) -> Bench {
    let members = ["sip:192.0.2.51", "sip:192.0.2.52"].map(Member::new);
    let group = Group {
        members: members.into(),
        ..Group::default()
    };
    let routing = Routing {
        routes,
        groups: [("switches".to_owned(), group)].into(),
        ..Routing::default()
    };
    assert_eq!(routing.validate(), Ok(()));
    let forwarding = ForwardingPolicy {
        recursion: true,
        maximum_targets: 5,
        ..ForwardingPolicy::default()
    };
    Bench::with(&[HERE], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            forwarding,
            routing,
            ..Policy::default()
        });
    })
}

fn to_switches(domain: Option<&str>, prefix: Option<&str>) -> Route {
    Route {
        domain: domain.map(str::to_owned),
        prefix: prefix.map(str::to_owned),
        ..Route::to(RouteTarget::Group("switches".to_owned()))
    }
}

/// The address that a message has gone to.
fn place_of(sent: &Sent) -> String {
    match sent.target {
        sip::Target::Address(_, address) | sip::Target::FlowOrAddress(_, address) => {
            address.to_string()
        }
        sip::Target::Flow(flow) => flow.remote.to_string(),
    }
}

/// Calls this URI; returns where the INVITE has gone.
fn call_to(bench: &mut Bench, uri: &str) -> Sent {
    bench.receive(alice(), request(Method::Invite, uri, uri));
    let [trying, invite] = bench.two();
    trying.answers(100);
    invite
}

#[test]
fn what_a_static_route_leads_on_is_followed_where_it_is_for_a_domain_of_ours() {
    let contacts = ["<sip:x@192.0.2.31>"];
    for (uri, is_ours) in [
        ("sip:1001@example.com", true),
        // Our own address is for us to know, too.
        ("sip:1001@192.0.2.1", true),
        ("sip:1001@example.org", false),
    ] {
        let mut bench = routed(vec![to_switches(None, Some("100"))]);
        let invite = call_to(&mut bench, uri);
        assert_eq!(invite.message.request_uri(), Some(uri));
        let next = answered(&mut bench, &invite, 302, &contacts);
        if is_ours {
            assert_eq!(uris(&next), ["sip:x@192.0.2.31"], "{uri}");
            // There is one target at a time, which has all of the breadth.
            assert_eq!(next[0].value(Name::MaxBreadth), "60");
            let last = answered(&mut bench, &next[0], 486, &[]);
            last[0].answers(486);
        } else {
            assert_eq!(next[0].answers(302).values(Name::Contact), contacts);
        }
        bench.pass(Duration::from_secs(100));
        bench.assert_idle();
    }
}

#[test]
fn static_routes_are_for_the_places_of_what_they_have_led_on() {
    let mut bench = routed(vec![
        to_switches(Some("example.com"), Some("1")),
        to_switches(Some("example.org"), None),
    ]);
    let carol = flow(HERE, "203.0.113.5:40000");
    bench.register(carol, "carol", "<sip:carol@10.0.0.5>");
    let invite = call_to(&mut bench, "sip:1001@example.com");
    let contacts = [
        "<sip:1002@example.com>;q=0.9",
        "<sip:x@example.org>;q=0.8",
        "<sip:carol@example.com>;q=0.7",
        // It has been tried.
        "<sip:1001@example.com>;q=0.6",
    ];
    let switches = ["192.0.2.51:5060", "192.0.2.52:5060"];
    let second = answered(&mut bench, &invite, 302, &contacts);
    assert_eq!(uris(&second), ["sip:1002@example.com"]);
    assert!(switches.contains(&&*place_of(&second[0])));
    // The other server of the group is tried before the next place.
    let again = answered(&mut bench, &second[0], 503, &[]);
    assert_eq!(uris(&again), ["sip:1002@example.com"]);
    assert!(switches.contains(&&*place_of(&again[0])));
    assert_ne!(place_of(&again[0]), place_of(&second[0]));
    let third = answered(&mut bench, &again[0], 480, &[]);
    assert_eq!(uris(&third), ["sip:x@example.org"]);
    assert!(switches.contains(&&*place_of(&third[0])));
    let fourth = answered(&mut bench, &third[0], 480, &[]);
    assert_eq!(uris(&fourth), ["sip:carol@10.0.0.5"]);
    fourth[0].goes_along(carol);
    answered(&mut bench, &fourth[0], 480, &[])[0].answers(480);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

/// A static route may ask more of a caller than a user does.
#[test]
fn a_phone_brings_nobody_along_a_static_route() {
    let mut bench = routed(vec![to_switches(None, Some("+1"))]);
    let bob = flow(HERE, "192.0.2.20:5060");
    bench.register(bob, "bob", "<sip:bob@192.0.2.20>");
    let invite = call_to(&mut bench, "sip:bob@example.com");
    let last = answered(&mut bench, &invite, 302, &["<sip:+1900@example.com>"]);
    last[0].answers(404);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn redirections_in_a_circle_behind_a_static_route_end() {
    let mut bench = routed(vec![to_switches(Some("example.com"), None)]);
    let mut invite = call_to(&mut bench, "sip:1000@example.com");
    // The last two send it round in a circle.
    for place in [1001, 1002, 1001] {
        let contact = format!("<sip:{place}@example.com>");
        invite = answered(&mut bench, &invite, 302, &[&contact]).remove(0);
    }
    invite.answers(480);

    // Each sends it to another one: so many are tried as one request may have.
    let mut invite = call_to(&mut bench, "sip:2000@example.com");
    let mut tried = 1;
    while invite.message.is_request() {
        let contact = format!("<sip:{}@example.com>", 2000 + tried);
        invite = answered(&mut bench, &invite, 302, &[&contact]).remove(0);
        tried += usize::from(invite.message.is_request());
    }
    assert_eq!(tried, 5);
    invite.answers(302);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn redirections_are_bounded() {
    let mut bench = bench(&["1"], |policy| policy.maximum_targets = 9);
    let mut invites = call(&mut bench);
    let mut tried = 0;
    let mut place = 0;
    // Each phone redirects to two new places.
    while let Some(invite) = invites.pop() {
        if invite.message.status().is_some() {
            assert_eq!(invite.message.status(), Some(302));
            assert_eq!(invite.values(Name::Contact).len(), 2);
            break;
        }
        tried += 1;
        place += 2;
        let contacts = [place, place + 1].map(|place| format!("<sip:bob@198.51.100.{place}>"));
        let contacts = contacts.each_ref().map(String::as_str);
        invites.extend(answered(&mut bench, &invite, 302, &contacts));
    }
    assert_eq!(tried, 9);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn a_policy_tries_all_at_once_or_one_after_the_other() {
    let mut parallel = bench(&["0.3", "0.9", "0.3"], |policy| {
        policy.forking = Forking::Parallel;
    });
    assert_eq!(call(&mut parallel).len(), 3);

    let mut sequential = bench(&["0.5", "0.9", "0.5"], |policy| {
        policy.forking = Forking::Sequential;
    });
    let mut order = Vec::new();
    let mut breadths = Vec::new();
    let mut invites = call(&mut sequential);
    while invites[0].message.is_request() {
        assert_eq!(invites.len(), 1);
        breadths.push(invites[0].value(Name::MaxBreadth));
        order.push(invites[0].message.request_uri().expect("a URI").to_owned());
        invites = answered(&mut sequential, &invites[0], 480, &[]);
    }
    invites[0].answers(480);
    let expected = [
        "sip:bob@192.0.2.21",
        "sip:bob@192.0.2.20",
        "sip:bob@192.0.2.22",
    ];
    assert_eq!(order, expected);
    // Half of it is kept for those who wait: one that is silent may have the rest for a while yet.
    assert_eq!(breadths, ["30", "30", "60"]);
}

#[test]
fn a_phone_rings_for_a_while_when_another_waits() {
    let mut bench = bench(&["0.9", "0.1"], |policy| {
        policy.ring_time = Some(Duration::from_secs(20));
    });
    let first = call(&mut bench);
    answered(&mut bench, &first[0], 180, &[])[0].answers(180);
    bench.pass(Duration::from_millis(19_900));
    // A further one does not make it longer.
    answered(&mut bench, &first[0], 180, &[])[0].answers(180);
    bench.pass(Duration::from_millis(200));
    let cancel = bench.one();
    cancel.is(Method::Cancel, "sip:bob@192.0.2.20");
    bench.receive(phone(0), response(&cancel.message, 200, "b1"));
    let second = answered(&mut bench, &first[0], 487, &[]);
    assert_eq!(uris(&second), ["sip:bob@192.0.2.21"]);
    // Nobody waits behind it: it rings until Timer C fires.
    answered(&mut bench, &second[0], 180, &[])[0].answers(180);
    bench.pass(Duration::from_secs(184));
    bench.silence();
    answered(&mut bench, &second[0], 486, &[])[0].answers(486);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

/// RFC 5393 sections 5.3.3.1 and 5.5: eight targets, a breadth of four.
#[test]
fn breadth_is_used_again_as_soon_as_a_branch_has_ended() {
    let mut bench = bench(&["1"; 8], |_| {});
    let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
    invite.push_back(Name::MaxBreadth, "4");
    bench.receive(alice(), invite);
    let mut running = bench.sent();
    running.remove(0).answers(100);
    let mut tried = 0;
    while running[0].message.is_request() {
        assert!(running.len() <= 4);
        assert!(
            running
                .iter()
                .all(|sent| sent.value(Name::MaxBreadth) == "1")
        );
        let invite = running.remove(0);
        tried += 1;
        running.extend(answered(&mut bench, &invite, 486, &[]));
    }
    assert_eq!(tried, 8);
    running[0].answers(486);
}
