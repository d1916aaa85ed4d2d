//! Registrations: with a password, renewed, taken back, tried again.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sip::{Message, Method, Name};
use ua::{AccountConfig, Credentials, RegistrationState, UaEvent};

use crate::network::{Network, Phone, Script, response, two};

const SECOND: Duration = Duration::from_secs(1);

/// A phone whose account is at a registrar.
fn registering(script: Script, password: Option<&str>) -> (Network, Phone) {
    let (mut network, mut alice, _) = two(1);
    let registrar = network.script(script);
    let config = AccountConfig {
        credentials: password.map(|password| Credentials {
            username: "alice".to_owned(),
            password: password.to_owned(),
        }),
        ..AccountConfig::new(format!("sip:alice@{registrar}"))
    };
    alice.account = network.ua(alice).add_account(config);
    network.with(alice, |ua, now| ua.register(now, alice.account));
    (network, alice)
}

fn states(network: &Network, phone: Phone) -> Vec<RegistrationState> {
    let its = network.of(phone).into_iter();
    its.filter_map(|event| match event {
        UaEvent::Registration { state, .. } => Some(state.clone()),
        _ => None,
    })
    .collect()
}

fn granted(request: &Message, expires: u32) -> Message {
    let contact = request.header(Name::Contact).unwrap_or_default().to_owned();
    let mut response = response(request, 200, "OK");
    response.replace(Name::Contact, format!("{contact};expires={expires}"));
    response
}

#[test]
fn a_registration_is_challenged_granted_renewed_and_taken_back() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (mut network, alice) = registering(
        {
            let seen = Rc::clone(&seen);
            Box::new(move |request| {
                seen.borrow_mut().push(request.clone());
                if !request.contains(Name::Authorization) {
                    let challenge = "Digest realm=\"h\", nonce=\"n\", algorithm=MD5, qop=\"auth\"";
                    return vec![
                        response(request, 401, "Unauthorized")
                            .with(Name::WwwAuthenticate, challenge),
                    ];
                }
                vec![granted(request, 120)]
            })
        },
        Some("secret"),
    );
    network.run(SECOND);
    assert_eq!(
        states(&network, alice),
        [RegistrationState::Registered {
            expires: 120,
            flows: 1
        }]
    );
    network.run(120 * SECOND);
    assert_eq!(states(&network, alice).len(), 2, "renewed before it ended");
    network.with(alice, |ua, now| ua.unregister(now, alice.account));
    network.run(300 * SECOND);
    assert_eq!(
        states(&network, alice).last(),
        Some(&RegistrationState::Unregistered)
    );
    let seen = seen.borrow();
    let numbers: Vec<u32> = seen.iter().filter_map(Message::cseq_number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert!(seen.iter().all(|one| one.call_id() == seen[0].call_id()));
    assert_eq!(seen.last().and_then(Message::expires), Some(0));
}

#[test]
fn a_wrong_password_is_told_and_not_tried_for_ever() {
    let count = Rc::new(RefCell::new(0));
    let (mut network, alice) = registering(
        {
            let count = Rc::clone(&count);
            Box::new(move |request| {
                *count.borrow_mut() += 1;
                let challenge = "Digest realm=\"h\", nonce=\"n\", algorithm=MD5, qop=\"auth\"";
                vec![response(request, 401, "Unauthorized").with(Name::WwwAuthenticate, challenge)]
            })
        },
        Some("wrong"),
    );
    network.run(SECOND);
    let failed = RegistrationState::Failed {
        status: 401,
        reason: "Unauthorized".to_owned(),
    };
    assert_eq!(states(&network, alice), [failed]);
    assert_eq!(*count.borrow(), 2);
    network.run(600 * SECOND);
    assert!(*count.borrow() < 20, "{}", count.borrow());
}

#[test]
fn a_longer_interval_is_asked_for_where_the_registrar_wants_that() {
    let (mut network, alice) = registering(
        Box::new(|request| {
            if request.expires() < Some(1_800) {
                return vec![
                    response(request, 423, "Interval Too Brief").with(Name::MinExpires, "1800"),
                ];
            }
            vec![granted(request, 1_800)]
        }),
        None,
    );
    network.run(SECOND);
    assert_eq!(
        states(&network, alice),
        [RegistrationState::Registered {
            expires: 1_800,
            flows: 1
        }]
    );
}

#[test]
fn a_registrar_that_asks_for_more_each_time_is_left_alone() {
    let (mut network, alice) = registering(
        Box::new(|request| {
            let more = request.expires().unwrap_or(0) + 1;
            let refusal = response(request, 423, "Interval Too Brief");
            vec![refusal.with(Name::MinExpires, more.to_string())]
        }),
        None,
    );
    network.run(20 * SECOND);
    let failed = RegistrationState::Failed {
        status: 423,
        reason: "Interval Too Brief".to_owned(),
    };
    assert_eq!(states(&network, alice), [failed]);
    assert_eq!(network.requests(Method::Register).len(), 2);
    // The next attempt has one more go, too.
    network.run(60 * SECOND);
    assert_eq!(network.requests(Method::Register).len(), 4);
}

#[test]
fn bindings_that_are_not_told_say_nothing_of_the_registration() {
    let (mut network, alice) = registering(
        Box::new(|request| match request.contains(Name::Contact) {
            true => vec![granted(request, 600)],
            false => vec![response(request, 403, "Forbidden")],
        }),
        None,
    );
    network.run(SECOND);
    network.with(alice, |ua, now| ua.fetch_bindings(now, alice.account));
    network.run(SECOND);
    assert_eq!(states(&network, alice).len(), 1);
    let failed = UaEvent::BindingsFailed {
        account: alice.account,
        status: 403,
        reason: "Forbidden".to_owned(),
    };
    assert!(network.of(alice).contains(&&failed));
}

#[test]
fn another_address_of_ours_takes_the_place_of_the_one_that_is_bound() {
    let (mut network, alice) = registering(Box::new(|request| vec![granted(request, 600)]), None);
    network.run(SECOND);
    let moved = ([10, 0, 0, 77], 5060).into();
    network.moved.insert(alice.address, moved);
    let registrar = ([10, 0, 0, 3], 5060).into();
    let elsewhere = ([10, 0, 0, 99], 5060).into();
    for remote in [elsewhere, registrar] {
        network.with(alice, |ua, now| ua.handle_address_change(now, remote));
        network.run(SECOND);
    }
    let registers = network.requests(Method::Register);
    assert_eq!(registers.len(), 2, "the way to others is not that one");
    let contacts: Vec<String> = registers[1]
        .text_values(Name::Contact)
        .map(str::to_owned)
        .collect();
    let before = format!("<sip:alice@{};transport=udp>;expires=0", alice.address);
    assert_eq!(
        contacts,
        [format!("<sip:alice@{moved};transport=udp>"), before]
    );
    assert_eq!(states(&network, alice).len(), 2, "bound anew");
    // It is removed once.
    network.run(590 * SECOND);
    let last = network.requests(Method::Register);
    assert_eq!(last.last().unwrap().text_values(Name::Contact).count(), 1);
}

/// An address that Alice's host gets.
const MOVED: ([u8; 4], u16) = ([10, 0, 0, 77], 5060);

/// A registrar that hears nobody but Alice at her other address.
fn hears_from_elsewhere() -> Script {
    let there = SocketAddr::from(MOVED).to_string();
    Box::new(move |request| {
        let contact = request.header(Name::Contact).unwrap_or_default();
        match contact.contains(&there) {
            true => vec![granted(request, 600)],
            false => Vec::new(),
        }
    })
}

fn move_alice(network: &mut Network, alice: Phone) {
    network.moved.insert(alice.address, MOVED.into());
    let registrar = ([10, 0, 0, 3], 5060).into();
    network.with(alice, |ua, now| ua.handle_address_change(now, registrar));
}

#[test]
fn who_is_off_before_the_new_address_is_known_to_be_bound_takes_both_back() {
    let here = SocketAddr::from(([10, 0, 0, 1], 5060)).to_string();
    let (mut network, alice) = registering(
        Box::new(move |request| {
            let contact = request.header(Name::Contact).unwrap_or_default();
            match contact.contains(&here) || request.expires() == Some(0) {
                true => vec![granted(request, 600)],
                false => Vec::new(),
            }
        }),
        None,
    );
    network.run(SECOND);
    move_alice(&mut network, alice);
    network.run(SECOND);
    network.with(alice, |ua, now| ua.unregister(now, alice.account));
    network.run(SECOND);
    assert_eq!(
        states(&network, alice).last(),
        Some(&RegistrationState::Unregistered)
    );
    let registers = network.requests(Method::Register);
    // What was sent before comes again, and is not answered.
    let mut last = registers.iter().rev();
    let last = last.find(|one| one.expires() == Some(0)).unwrap();
    let contacts: Vec<&str> = last.text_values(Name::Contact).collect();
    assert!(
        contacts.len() == 2
            && contacts[0].contains(&SocketAddr::from(MOVED).to_string())
            && contacts[1].contains(&alice.address.to_string()),
        "{contacts:?}"
    );
}

#[test]
fn what_was_sent_from_the_address_before_is_not_waited_for() {
    let (mut network, alice) = registering(hears_from_elsewhere(), None);
    network.run(5 * SECOND);
    move_alice(&mut network, alice);
    // The first REGISTER would have failed after 32 s.
    network.run(60 * SECOND);
    let registered = RegistrationState::Registered {
        expires: 600,
        flows: 1,
    };
    assert_eq!(states(&network, alice), [registered]);
}

#[test]
fn what_has_failed_is_tried_at_once_from_another_address() {
    let (mut network, alice) = registering(hears_from_elsewhere(), None);
    network.run(33 * SECOND);
    assert_eq!(states(&network, alice).len(), 1, "it has failed");
    move_alice(&mut network, alice);
    network.run(SECOND);
    let registered = RegistrationState::Registered {
        expires: 600,
        flows: 1,
    };
    assert_eq!(states(&network, alice).last(), Some(&registered));
}

#[test]
fn a_registrar_that_is_silent_is_asked_again() {
    let (mut network, alice) = registering(Box::new(|_| Vec::new()), None);
    network.run(33 * SECOND);
    let failed = RegistrationState::Failed {
        status: 408,
        reason: "Request Timeout".to_owned(),
    };
    assert_eq!(states(&network, alice), [failed]);
    // Between 30 and 60 s, and as long as nobody answers (RFC 5626 section 4.5).
    network.run(29 * SECOND);
    assert_eq!(states(&network, alice).len(), 1);
    network.run(66 * SECOND);
    assert_eq!(states(&network, alice).len(), 2);
}

#[test]
fn calls_take_the_route_that_the_registrar_has_told() {
    let (mut network, alice) = registering(
        Box::new(|request| match request.method() {
            Some(Method::Register) => {
                vec![granted(request, 600).with(Name::ServiceRoute, "<sip:10.0.0.3:5060;lr>")]
            }
            Some(Method::Ack) => Vec::new(),
            _ => vec![response(request, 404, "Not Found")],
        }),
        None,
    );
    network.run(SECOND);
    network.with(alice, |ua, now| {
        ua.dial(
            now,
            alice.account,
            "sip:bob@192.0.2.1:5060",
            crate::network::offer("offer"),
        )
    });
    network.run(SECOND);
    let invites = network.requests(Method::Invite);
    assert_eq!(
        invites[0].header(Name::Route),
        Some("<sip:10.0.0.3:5060;lr>")
    );
}
