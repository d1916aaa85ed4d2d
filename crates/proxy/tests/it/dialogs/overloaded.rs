//! While new calls are refused those that began through us go on, and a tag in To does not make one.

use std::time::Duration;

use sip::{Flow, Message, Method, Name};

use crate::common::{Bench, Sent, flow, request, response};
use crate::dialogs::{UDP, bench, within};

const ALICE: &str = "sip:alice@192.0.2.9";
const BOB: &str = "sip:bob@192.0.2.20";

fn alice() -> Flow {
    flow(UDP, "192.0.2.9:5060")
}

fn bob() -> Flow {
    flow(UDP, "192.0.2.20:5060")
}

/// A call that is up: its INVITE, as it was forwarded, and the 200.
fn call(bench: &mut Bench) -> (Sent, Sent) {
    bench.register(bob(), "bob", &format!("<{BOB}>"));
    let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
    invite.replace(Name::Contact, format!("<{ALICE}>"));
    bench.receive(alice(), invite);
    let [_, forwarded] = bench.two();
    let ok = response(&forwarded.message, 200, "b1").with(Name::Contact, format!("<{BOB}>"));
    bench.receive(bob(), ok);
    (forwarded, bench.one())
}

/// A further INVITE of either side.
fn another(invite: &Sent, ok: &Sent, number: u32, reversed: bool) -> Message {
    let contact = if reversed { ALICE } else { BOB };
    let mut another = within(invite, ok, &Method::Invite, contact, reversed);
    another.replace(Name::CSeq, format!("{} INVITE", 10 + number));
    let branch = format!("z9hG4bKagain{number}");
    another.set_top_via_parameter("branch", Some(&branch));
    another.push_back(Name::Contact, format!("<{contact}>"));
    another
}

/// How a transport may hand over a request.
#[derive(Clone, Copy, Debug)]
enum Handed {
    Read,
    Unread,
}

/// What a request is refused with; `None` if it goes on.
fn refusal(bench: &mut Bench, from: Flow, request: &Message, handed: Handed) -> Option<u16> {
    match handed {
        Handed::Read => bench.receive(from, request.clone()),
        Handed::Unread => {
            let octets = request.to_bytes();
            bench
                .proxy
                .accept_octets(bench.now, Duration::ZERO, from, octets);
            bench.proxy.process_accepted(bench.now);
            bench.settle();
        }
    }
    let sent = bench.sent();
    assert!(!sent.is_empty());
    match sent.iter().any(|sent| sent.message.is_request()) {
        true => None,
        false => Some(sent[0].status()),
    }
}

#[test]
fn calls_go_on_while_new_ones_are_refused_and_inventions_are_new_ones() {
    for handed in [Handed::Read, Handed::Unread] {
        let mut bench = bench();
        let (invite, ok) = call(&mut bench);
        bench.proxy.drain();
        let new = request(Method::Invite, "sip:bob@example.com", "new");
        assert_eq!(refusal(&mut bench, alice(), &new, handed), Some(503));

        // Both sides, and more often than once: routes that have come before are known without being read.
        for number in 0..6 {
            let reversed = number % 2 == 1;
            let from = if reversed { bob() } else { alice() };
            let genuine = another(&invite, &ok, number, reversed);
            let refused = refusal(&mut bench, from, &genuine, handed);
            assert_eq!(refused, None, "{handed:?} {number}");
        }
        // By way of a strict router (RFC 3261 section 16.4).
        let mut strict = another(&invite, &ok, 7, false);
        let route = strict.header(Name::Route).expect("a Route").to_owned();
        strict.set_request_uri(route.trim_matches(['<', '>']));
        strict.replace(Name::Route, format!("<{BOB}>"));
        assert_eq!(refusal(&mut bench, alice(), &strict, handed), None);

        let genuine = another(&invite, &ok, 8, false);
        let with_route = |change: &dyn Fn(&str) -> String| {
            let mut invented = genuine.clone();
            invented.replace(Name::Route, change(&route));
            invented
        };
        // Who sends everything by us may say so before the route set.
        let mut by_us = another(&invite, &ok, 9, false);
        by_us.push_front(Name::Route, "<sip:192.0.2.1;lr>");
        assert_eq!(refusal(&mut bench, alice(), &by_us, handed), None);
        let mut without = genuine.clone();
        without.remove_all(Name::Route);
        let mut of_another = genuine.clone();
        of_another.replace(Name::CallId, "another");
        let unmarked = with_route(&|route| match route.split_once(";call=") {
            Some((before, _)) => format!("{before}>"),
            None => panic!("no mark: {route}"),
        });
        let spoiled = with_route(&|route| route.replace(";call=", ";call=0"));
        for invented in [without, of_another, unmarked, spoiled] {
            let refused = refusal(&mut bench, alice(), &invented, handed);
            assert_eq!(refused, Some(503), "{handed:?} {invented:#?}");
        }
        // What ends a call is let through, however it looks.
        let bye = request(Method::Bye, "sip:bob@example.com", "another");
        assert_ne!(refusal(&mut bench, alice(), &bye, handed), Some(503));
        assert_eq!(bench.proxy.statistics().overload.draining, 5);
    }
}
