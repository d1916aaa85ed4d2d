//! Who may have requests brought to others: our users, neighbours, and who is in a dialog that has begun
//! through us. We are no open relay.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use proxy::core::{Policy, Relay, Route, RouteTarget};
use sip::{Flow, Message, Method, Name};

use crate::common::{Bench, flow, request, response};
use crate::dialogs::{TCP, UDP, bench, within};

fn stranger() -> Flow {
    flow(UDP, "203.0.113.7:5060")
}

fn from_stranger(method: Method, uri: &str, call: &str) -> Message {
    let mut request = request(method, uri, call);
    request.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
    request.replace(Name::Contact, "<sip:mallory@203.0.113.7>");
    request
}

fn with(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut policy = Policy::default();
    change(&mut policy);
    Bench::with(&[UDP, TCP], &["example.com"], |config| {
        config.policy = Arc::new(policy);
    })
}

/// What a request of a stranger's is answered; `None` if it goes on.
fn refusal(bench: &mut Bench, request: Message) -> Option<u16> {
    bench.receive(stranger(), request);
    let sent = bench.sent();
    let is_forwarded = sent.iter().any(|sent| sent.message.is_request());
    match is_forwarded {
        true => None,
        false => sent.last().and_then(|sent| sent.message.status()),
    }
}

#[test]
fn a_stranger_is_brought_to_our_users_and_to_nobody_else() {
    for calls in [false, true] {
        let mut bench = with(|policy| policy.authentication.calls = calls);
        bench.register(flow(UDP, "192.0.2.20:5060"), "bob", "<sip:bob@192.0.2.20>");
        let to_bob = from_stranger(Method::Invite, "sip:bob@example.com", "c1");
        assert_eq!(refusal(&mut bench, to_bob), None);
        for (call, method, uri, route) in [
            ("c2", Method::Invite, "sip:victim@198.51.100.9", None),
            ("c3", Method::Message, "sip:victim@victim.example", None),
            ("c4", Method::Register, "sip:victim.example", None),
            (
                "c5",
                Method::Invite,
                "sip:bob@example.com;maddr=198.51.100.9",
                None,
            ),
            // Our user is named; the request would go elsewhere first.
            (
                "c6",
                Method::Invite,
                "sip:bob@example.com",
                Some("<sip:198.51.100.9;lr>"),
            ),
            (
                "c7",
                Method::Invite,
                "tel:+15551234",
                Some("<sip:198.51.100.9;lr>"),
            ),
        ] {
            let mut request = from_stranger(method, uri, call);
            if let Some(route) = route {
                request.push_back(Name::Route, route);
            }
            assert_eq!(refusal(&mut bench, request), Some(403), "{uri} {route:?}");
        }
        assert_eq!(bench.proxy.statistics().relays_denied, 6);
    }
}

#[test]
fn a_tag_and_our_route_do_not_make_a_dialog() {
    for calls in [false, true] {
        let mut bench = with(|policy| policy.authentication.calls = calls);
        bench.register(flow(UDP, "192.0.2.20:5060"), "bob", "<sip:bob@192.0.2.20>");
        bench.receive(
            stranger(),
            from_stranger(Method::Invite, "sip:bob@example.com", "real"),
        );
        let [_, forwarded] = bench.two();
        let marked = forwarded.value(Name::RecordRoute);
        for (call, route) in [
            ("c1", None),
            ("c2", Some("<sip:192.0.2.1:5060;lr>")),
            (
                "c3",
                Some("<sip:192.0.2.1:5060;lr;call=00000123456789abcdef>"),
            ),
            // That of another call, and of its callee.
            ("c4", Some(marked.as_str())),
            ("real", Some(marked.as_str())),
        ] {
            for method in [Method::Invite, Method::Bye] {
                let call = match call {
                    "real" => call.to_owned(),
                    _ => format!("{call}{method}"),
                };
                let mut request = from_stranger(method, "sip:victim@198.51.100.9", &call);
                request.set_to_tag("t1");
                request.set_top_via_parameter("branch", Some(&format!("z9hG4bK{call}t1")));
                if let Some(route) = route {
                    request.push_back(Name::Route, route);
                }
                assert_eq!(refusal(&mut bench, request), Some(403), "{call}");
            }
            let mut ack = from_stranger(Method::Ack, "sip:victim@198.51.100.9", call);
            ack.set_to_tag("t1");
            if let Some(route) = route {
                ack.push_back(Name::Route, route);
            }
            bench.receive(stranger(), ack);
            bench.silence();
        }
    }
}

/// RFC 3261 section 12.2: the caller has no domain of ours, and the remote target of its peer has none
/// either.
#[test]
fn a_stranger_in_a_dialog_that_began_here_goes_on() {
    for calls in [false, true] {
        let mut bench = with(|policy| policy.authentication.calls = calls);
        let bob = flow(UDP, "192.0.2.20:5060");
        bench.register(bob, "bob", "<sip:bob@192.0.2.20>");
        let invite = from_stranger(Method::Invite, "sip:bob@example.com", "call");
        bench.receive(stranger(), invite);
        let [_, forwarded] = bench.two();
        let ok =
            response(&forwarded.message, 200, "b1").with(Name::Contact, "<sip:bob@192.0.2.20>");
        bench.receive(bob, ok);
        let ok = bench.one();
        for method in [Method::Ack, Method::Invite, Method::Bye] {
            let request = within(&forwarded, &ok, &method, "sip:bob@192.0.2.20", false);
            assert_eq!(refusal(&mut bench, request), None, "{method}");
        }
        let bye = within(
            &forwarded,
            &ok,
            &Method::Bye,
            "sip:mallory@203.0.113.7",
            true,
        );
        bench.receive(bob, bye);
        bench
            .one()
            .is(Method::Bye, "sip:mallory@203.0.113.7")
            .goes_to("udp:203.0.113.7:5060");
    }
}

/// What has once been written for a call does not open the server for ever.
#[test]
fn who_was_in_a_call_is_a_stranger_when_no_call_can_be_that_old() {
    for calls in [false, true] {
        let mut bench = with(|policy| policy.authentication.calls = calls);
        let began = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let lifetime = Policy::default().forwarding.dialog_lifetime;
        bench.proxy.set_wall_clock(bench.now, began);
        let bob = flow(UDP, "192.0.2.20:5060");
        bench.register(bob, "bob", "<sip:bob@192.0.2.20>");
        let invite = from_stranger(Method::Invite, "sip:bob@example.com", "call");
        bench.receive(stranger(), invite);
        let [_, forwarded] = bench.two();
        let ok =
            response(&forwarded.message, 200, "b1").with(Name::Contact, "<sip:bob@192.0.2.20>");
        bench.receive(bob, ok);
        let ok = bench.one();
        let hour = Duration::from_secs(3600);
        for (cseq, time, expected) in [
            (2, lifetime - hour, None),
            (3, lifetime + 2 * hour, Some(403)),
            (4, 30 * lifetime, Some(403)),
        ] {
            bench.proxy.set_wall_clock(bench.now, began + time);
            let mut info = within(&forwarded, &ok, &Method::Info, "sip:bob@192.0.2.20", false);
            info.replace(Name::CSeq, format!("{cseq} INFO"));
            info.set_top_via_parameter("branch", Some(&format!("z9hG4bKinfo{cseq}")));
            assert_eq!(refusal(&mut bench, info), expected, "after {time:?}");
        }
    }
}

#[test]
fn our_users_and_neighbours_are_brought_to_others() {
    let uri = "sip:dave@198.51.100.9";
    let mut bench = bench();
    bench.receive(stranger(), request(Method::Options, uri, "c1"));
    bench.one().is(Method::Options, uri);
    // Who says who it is where that has to be proved.
    let mut bench = with(|policy| policy.authentication.calls = true);
    bench.receive(stranger(), request(Method::Options, uri, "c1"));
    bench.one().answers(407);

    let network = || vec!["203.0.113.0/24".parse().expect("a network")];
    let trusting = |policy: &mut Policy| policy.trust.addresses = network();
    let exempting = |policy: &mut Policy| policy.authentication.exempt = network();
    let changes: [&dyn Fn(&mut Policy); 2] = [&trusting, &exempting];
    for change in changes {
        let mut bench = with(|policy| {
            policy.forwarding.relay = Relay::Neighbours;
            change(policy);
        });
        let request = from_stranger(Method::Options, uri, "c2");
        assert_eq!(refusal(&mut bench, request), None);
    }
}

#[test]
fn only_neighbours_are_brought_to_others_where_that_is_wanted() {
    let mut bench = with(|policy| policy.forwarding.relay = Relay::Neighbours);
    bench.receive(
        stranger(),
        request(Method::Options, "sip:dave@198.51.100.9", "c1"),
    );
    bench.one().answers(403);
}

#[test]
fn an_open_relay_is_one_on_demand() {
    for calls in [false, true] {
        let mut bench = with(|policy| {
            policy.forwarding.relay = Relay::Anybody;
            policy.authentication.calls = calls;
        });
        let request = from_stranger(Method::Options, "sip:victim@198.51.100.9", "c1");
        assert_eq!(refusal(&mut bench, request), None);
    }
}

/// Nobody has to prove who calls: whoever made the route wanted it used. Where calls are authenticated,
/// a number that leads to a gateway costs somebody money.
#[test]
fn a_static_route_is_open_to_strangers_where_calls_are_not_authenticated() {
    for (calls, expected) in [(false, None), (true, Some(403))] {
        let mut bench = with(|policy| {
            policy.authentication.calls = calls;
            policy.routing.routes =
                vec![Route::to(RouteTarget::Uri("sip:198.51.100.1".to_owned()))];
        });
        let request = from_stranger(Method::Invite, "sip:+15551234@example.net", "c1");
        assert_eq!(refusal(&mut bench, request), expected);
    }
}

/// RFC 3323 section 4.1.1.3: who hides its name proves to be one of ours all the same.
#[test]
fn an_anonymous_caller_may_prove_to_be_a_user() {
    let mut bench = with(|policy| policy.authentication.calls = true);
    bench
        .passwords
        .insert("alice".to_owned(), "secret".to_owned());
    let mut call = request(Method::Options, "sip:dave@198.51.100.9", "c1");
    call.replace(
        Name::From,
        "\"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=1",
    );
    bench.receive(stranger(), call.clone());
    let challenge = bench.one();
    challenge.answers(407);
    let account = sip::digest::Account {
        username: "alice",
        password: b"secret",
    };
    call.replace(Name::CSeq, "2 OPTIONS");
    call.set_top_via_parameter("branch", Some("z9hG4bKagain"));
    assert!(sip::digest::answer(
        &mut call,
        &challenge.message,
        &account,
        "cnonce"
    ));
    assert_eq!(refusal(&mut bench, call), None);
}
