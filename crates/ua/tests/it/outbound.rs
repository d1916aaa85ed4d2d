//! Flows to two proxies (RFC 5626), GRUUs (RFC 5627).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sip::{ConnectionId, Flow, Message, Method, Name, Transport};
use ua::{AccountConfig, RegistrationState, UaConfig, UaEvent};

use crate::network::{Network, Phone, response};

const SECOND: Duration = Duration::from_secs(1);
const INSTANCE: &str = "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// What a proxy does.
#[derive(Clone, Default)]
struct Proxy {
    is_silent: Rc<RefCell<bool>>,
    seen: Rc<RefCell<Vec<Message>>>,
}

impl Proxy {
    /// A host that answers REGISTERs as a registrar with RFC 5626 does.
    fn start(
        network: &mut Network,
        more: &'static [(Name<'static>, &'static str)],
    ) -> (Proxy, SocketAddr) {
        let proxy = Proxy::default();
        let its = proxy.clone();
        let address = network.script(Box::new(move |request| {
            its.seen.borrow_mut().push(request.clone());
            if *its.is_silent.borrow() || request.method() == Some(&Method::Ack) {
                return Vec::new();
            }
            if request.method() != Some(&Method::Register) {
                return vec![response(request, 404, "Not Found")];
            }
            let contact = request.header(Name::Contact).unwrap_or_default().to_owned();
            let expires = request.expires().unwrap_or(0);
            let mut answer = response(request, 200, "OK");
            answer.remove_all(Name::Contact);
            if expires > 0 {
                let gruus = "pub-gruu=\"sip:alice@h;gr=urn:uuid:1\";temp-gruu=\"sip:tgruu.x@h;gr\"";
                answer.push_back(
                    Name::Contact,
                    format!("{contact};expires={expires};{gruus}"),
                );
            }
            for (name, value) in more {
                answer.push_back(*name, value);
            }
            vec![answer]
        }));
        (proxy, address)
    }

    fn registers(&self) -> Vec<Message> {
        let seen = self.seen.borrow();
        let registers = seen.iter();
        registers
            .filter(|message| message.method() == Some(&Method::Register))
            .cloned()
            .collect()
    }
}

const OUTBOUND: &[(Name<'static>, &str)] = &[(Name::Require, "outbound"), (Name::FlowTimer, "60")];

fn phone(
    network: &mut Network,
    proxies: &[SocketAddr],
    change: impl FnOnce(&mut AccountConfig),
) -> Phone {
    let config = UaConfig {
        instance: Some(INSTANCE.to_owned()),
        ..UaConfig::default()
    };
    let mut alice = network.phone("user", config);
    let mut account = AccountConfig::new("sip:alice@10.0.0.99:5060");
    account.outbound_proxies = proxies
        .iter()
        .map(|proxy| format!("sip:{proxy};lr"))
        .collect();
    change(&mut account);
    alice.account = network.ua(alice).add_account(account);
    network.with(alice, |ua, now| ua.register(now, alice.account));
    alice
}

fn states(network: &Network, phone: Phone) -> Vec<RegistrationState> {
    let events = network.of(phone).into_iter();
    events
        .filter_map(|event| match event {
            UaEvent::Registration { state, .. } => Some(state.clone()),
            _ => None,
        })
        .collect()
}

fn registered(flows: usize) -> RegistrationState {
    let expires = 600;
    RegistrationState::Registered { expires, flows }
}

/// A keep-alive's answer came along the flow to that proxy.
fn pong(network: &mut Network, alice: Phone, proxy: SocketAddr) {
    let flow = Flow {
        transport: network.transport,
        local: alice.address,
        remote: proxy,
        connection: ConnectionId(1),
        stream: 0,
    };
    network.with(alice, |ua, now| ua.handle_keep_alive(now, &flow, b"\r\n"));
}

#[test]
fn an_account_is_registered_along_two_flows_with_one_instance() {
    let mut network = Network::new(1);
    network.transport = Transport::Tcp;
    let (first, first_at) = Proxy::start(&mut network, OUTBOUND);
    let (second, second_at) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[first_at, second_at], |_| {});
    network.run(SECOND);
    assert_eq!(states(&network, alice), [registered(1), registered(2)]);
    let (one, other) = (&first.registers()[0], &second.registers()[0]);
    for (register, number) in [(one, "1"), (other, "2")] {
        let contact = register.header(Name::Contact).unwrap();
        assert!(
            contact.contains(&format!("+sip.instance=\"<{INSTANCE}>\"")),
            "{contact}"
        );
        assert!(contact.ends_with(&format!(";reg-id={number}")), "{contact}");
        let supported = register.header(Name::Supported).unwrap();
        for option in ["path", "outbound", "gruu"] {
            assert!(supported.contains(option), "{supported}");
        }
    }
    assert_ne!(
        one.call_id(),
        other.call_id(),
        "each registration has its own Call-ID"
    );
    network.with(alice, |ua, now| ua.unregister(now, alice.account));
    network.run(SECOND);
    assert_eq!(
        states(&network, alice).last(),
        Some(&RegistrationState::Unregistered)
    );
    for proxy in [first, second] {
        assert_eq!(proxy.registers().last().and_then(Message::expires), Some(0));
    }
}

#[test]
fn a_registrar_that_keeps_no_flows_apart_is_not_asked_for_a_second_one() {
    let mut network = Network::new(2);
    let (_, first_at) = Proxy::start(&mut network, &[]);
    let (second, second_at) = Proxy::start(&mut network, &[]);
    let alice = phone(&mut network, &[first_at, second_at], |_| {});
    network.run(SECOND);
    assert_eq!(states(&network, alice), [registered(1)]);
    assert!(second.registers().is_empty());
}

#[test]
fn when_the_first_proxy_is_silent_the_second_one_is_registered_with_and_called_by() {
    let mut network = Network::new(3);
    let (first, first_at) = Proxy::start(&mut network, OUTBOUND);
    *first.is_silent.borrow_mut() = true;
    let (second, second_at) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[first_at, second_at], |_| {});
    network.run(33 * SECOND);
    let failed = RegistrationState::FlowFailed { flow: 0, flows: 0 };
    assert_eq!(states(&network, alice), [failed, registered(1)]);
    network.with(alice, |ua, now| {
        ua.dial(
            now,
            alice.account,
            "sip:bob@h",
            crate::network::offer("offer"),
        )
    });
    network.run(SECOND);
    let methods: Vec<Method> = second
        .seen
        .borrow()
        .iter()
        .filter_map(|one| one.method().cloned())
        .collect();
    assert!(methods.contains(&Method::Invite), "{methods:?}");
    // When it failed none was registered: it is tried again after 30 to 60 s.
    let before = first.registers().len();
    network.run(27 * SECOND);
    assert_eq!(first.registers().len(), before);
    network.run(33 * SECOND);
    assert!(first.registers().len() > before);
}

#[test]
fn a_flow_without_a_pong_is_closed_and_formed_anew() {
    let mut network = Network::new(4);
    network.transport = Transport::Tcp;
    let (first, first_at) = Proxy::start(&mut network, OUTBOUND);
    let (_, second_at) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[first_at, second_at], |_| {});
    // Flow-Timer is 60: pings leave after 48 to 60 s.
    for _ in 0..63 {
        network.run(SECOND);
        pong(&mut network, alice, first_at);
        pong(&mut network, alice, second_at);
    }
    assert_eq!(states(&network, alice).len(), 2, "all pings were answered");
    let pings = network.keep_alives.len();
    assert!(pings >= 2, "{pings} pings");
    let before = first.registers().len();
    for _ in 0..75 {
        network.run(SECOND);
        pong(&mut network, alice, second_at);
    }
    let failed = RegistrationState::FlowFailed { flow: 0, flows: 1 };
    assert_eq!(states(&network, alice)[2..], [failed, registered(2)]);
    let registers = first.registers();
    assert_eq!(
        registers.len(),
        before + 1,
        "the flow had been of use: it is formed at once"
    );
    let contact = registers
        .last()
        .and_then(|one| one.header(Name::Contact))
        .unwrap();
    assert!(contact.ends_with(";reg-id=1"), "{contact}");
}

#[test]
fn what_was_taken_back_does_not_come_back() {
    let mut network = Network::new(9);
    network.transport = Transport::Tcp;
    let (proxy, address) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[address], |_| {});
    // The flow has been of use.
    for _ in 0..63 {
        network.run(SECOND);
        pong(&mut network, alice, address);
    }
    network.with(alice, |ua, now| ua.unregister(now, alice.account));
    network.run(SECOND);
    let pings = network.keep_alives.len();
    network.run(300 * SECOND);
    assert_eq!(network.keep_alives.len(), pings);
    assert_eq!(
        states(&network, alice).last(),
        Some(&RegistrationState::Unregistered)
    );
    assert_eq!(proxy.registers().last().and_then(Message::expires), Some(0));
}

#[test]
fn all_flows_are_over_when_all_bindings_are_removed() {
    let mut network = Network::new(10);
    network.transport = Transport::Tcp;
    let (first, first_at) = Proxy::start(&mut network, OUTBOUND);
    let (_, second_at) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[first_at, second_at], |_| {});
    network.run(SECOND);
    network.with(alice, |ua, now| ua.unregister_all(now, alice.account));
    network.run(SECOND);
    assert_eq!(
        first
            .registers()
            .last()
            .and_then(|one| one.header(Name::Contact).map(str::to_owned)),
        Some("*".to_owned())
    );
    assert_eq!(
        states(&network, alice).last(),
        Some(&RegistrationState::Unregistered)
    );
}

#[test]
fn a_first_hop_that_does_not_know_flows_is_registered_with_as_before() {
    let mut network = Network::new(5);
    let seen: Rc<RefCell<Vec<Message>>> = Rc::default();
    let its = Rc::clone(&seen);
    let proxy = network.script(Box::new(move |request| {
        its.borrow_mut().push(request.clone());
        let contact = request.header(Name::Contact).unwrap_or_default();
        match contact.contains("reg-id") {
            true => vec![response(request, 439, "First Hop Lacks Outbound Support")],
            false => vec![response(request, 200, "OK")],
        }
    }));
    let alice = phone(&mut network, &[proxy], |_| {});
    network.run(SECOND);
    assert_eq!(states(&network, alice), [registered(1)]);
    assert_eq!(seen.borrow().len(), 2);
}

#[test]
fn a_server_that_is_busy_is_left_alone_for_as_long_as_it_says() {
    let mut network = Network::new(6);
    let count = Rc::new(RefCell::new(0));
    let its = Rc::clone(&count);
    let proxy = network.script(Box::new(move |request| {
        *its.borrow_mut() += 1;
        vec![response(request, 503, "Service Unavailable").with(Name::RetryAfter, "300 (upgrade)")]
    }));
    phone(&mut network, &[proxy], |_| {});
    network.run(299 * SECOND);
    assert_eq!(*count.borrow(), 1);
    network.run(2 * SECOND);
    assert_eq!(*count.borrow(), 2);
}

#[test]
fn calls_show_the_gruu_of_the_registration() {
    for (hides_user, contact) in [
        (false, "<sip:alice@h;gr=urn:uuid:1>"),
        (true, "<sip:tgruu.x@h;gr>"),
    ] {
        let mut network = Network::new(7);
        let (proxy, address) = Proxy::start(&mut network, OUTBOUND);
        let alice = phone(&mut network, &[address], |account| {
            account.hides_user = hides_user
        });
        network.run(SECOND);
        network.with(alice, |ua, now| {
            ua.dial(
                now,
                alice.account,
                "sip:bob@h",
                crate::network::offer("offer"),
            )
        });
        network.run(SECOND);
        let seen = proxy.seen.borrow();
        let invite = seen
            .iter()
            .find(|one| one.method() == Some(&Method::Invite));
        assert_eq!(
            invite.and_then(|one| one.header(Name::Contact)),
            Some(contact)
        );
        // A REGISTER never has a GRUU in its Contact (RFC 5627 section 4.1).
        let register = seen[0].header(Name::Contact).unwrap();
        assert!(!register.contains("gr="), "{register}");
    }
}

#[test]
fn without_a_registration_there_is_no_gruu() {
    let mut network = Network::new(8);
    let (proxy, address) = Proxy::start(&mut network, OUTBOUND);
    let alice = phone(&mut network, &[address], |_| {});
    network.run(SECOND);
    network.with(alice, |ua, now| ua.unregister(now, alice.account));
    network.run(SECOND);
    network.with(alice, |ua, now| {
        ua.dial(
            now,
            alice.account,
            "sip:bob@h",
            crate::network::offer("offer"),
        )
    });
    network.run(SECOND);
    let seen = proxy.seen.borrow();
    let invite = seen
        .iter()
        .find(|one| one.method() == Some(&Method::Invite));
    let contact = invite.and_then(|one| one.header(Name::Contact)).unwrap();
    assert!(contact.contains("@10.0.0."), "{contact}");
}
