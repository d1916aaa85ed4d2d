//! Descriptions with keys (RFC 4568), which leave over TLS alone.

use std::time::Duration;

use sip::{Method, Name, Transport};
use ua::{Description, EndReason, FirstHop, UaEvent};

use crate::network::{Network, Phone, offer, response, two, uri_of};

const SECOND: Duration = Duration::from_secs(1);

fn keys(words: &str) -> Description {
    Description::secret(offer(words))
}

/// A call whose offer has keys; how it ended, if it has.
fn call(network: &mut Network, caller: Phone, to: &str) -> Option<EndReason> {
    let number = network.with(caller, |ua, now| {
        ua.dial(now, caller.account, to, keys("offer"))
    });
    network.run(SECOND);
    network.end_of(caller, number).cloned()
}

fn refused(status: u16) -> impl Fn(&Option<EndReason>) -> bool {
    move |end| matches!(end, Some(EndReason::Refused { status: it, .. }) if *it == status)
}

#[test]
fn an_invite_with_keys_leaves_over_tls_alone() {
    let (mut network, alice, bob) = two(1);
    let end = call(&mut network, alice, &uri_of(bob));
    assert!(refused(503)(&end), "{end:?}");
    assert!(network.requests(Method::Invite).is_empty());
    network.transport = Transport::Tls;
    assert_eq!(call(&mut network, alice, &uri_of(bob)), None);
    assert_eq!(network.requests(Method::Invite).len(), 1);
    let is_secure = network.of(bob).into_iter().any(|event| {
        matches!(
            event,
            UaEvent::Incoming {
                is_secure: true,
                ..
            }
        )
    });
    assert!(is_secure);
}

#[test]
fn a_redirection_does_not_lead_keys_off_tls() {
    let (mut network, alice, bob) = two(1);
    let there = uri_of(bob);
    let redirecting = network.script(Box::new(move |request| match request.method() {
        Some(Method::Invite) => {
            let contact = format!("<{there}>");
            vec![response(request, 302, "Moved Temporarily").with(Name::Contact, contact)]
        }
        _ => Vec::new(),
    }));
    network.transport = Transport::Tls;
    network.in_clear.push(bob.address);
    // The scheme says nothing of it.
    let to = format!("sip:bob@{redirecting};transport=tls");
    let end = call(&mut network, alice, &to);
    assert!(refused(503)(&end), "{end:?}");
    assert_eq!(network.requests(Method::Invite).len(), 1);
}

#[test]
fn further_offers_and_answers_with_keys_need_tls_too() {
    let (mut network, alice, bob) = two(1);
    network.transport = Transport::Tls;
    let number = network.with(alice, |ua, now| {
        ua.dial(now, alice.account, &uri_of(bob), keys("offer"))
    });
    network.run(SECOND);
    let incoming = network.incoming(bob);
    network
        .with(bob, |ua, now| ua.answer(now, incoming, offer("answer")))
        .unwrap();
    network.run(SECOND);
    network.transport = Transport::Udp;
    network
        .with(alice, |ua, now| ua.offer(now, number, offer("hold")))
        .unwrap();
    network.run(SECOND);
    let refused = |network: &Network, phone: Phone, wanted: u16| {
        network
            .of(phone)
            .into_iter()
            .any(|event| matches!(event, UaEvent::OfferRefused { status, .. } if *status == wanted))
    };
    assert!(refused(&network, alice, 503));
    assert_eq!(network.requests(Method::Invite).len(), 1);
    // Bob has sent no keys that he has to keep secret; the answer to his offer would have Alice's.
    network
        .with(bob, |ua, now| ua.offer(now, incoming, offer("hold")))
        .unwrap();
    network.run(SECOND);
    assert!(refused(&network, bob, 488));
}

#[test]
fn the_first_hop_of_a_call_is_known_beforehand() {
    let (mut network, alice, bob) = two(1);
    let to = uri_of(bob);
    let hops = network.ua(alice).first_hops(alice.account, &to);
    assert_eq!(hops, [FirstHop::Uri(to)]);
}
