//! The IPv6 torture test messages of RFC 5118, each as the proxy and registrar takes it. The octets are
//! those of the RFC's appendix A with lines that end as SIP's do, and with a Content-Length that fits
//! the body in `ipv6-in-sdp`.

use crate::common::{self, Bench, Sent, flow, reread};
use sip::{Flow, Message, Name, Transport};

macro_rules! torture {
    ($name:literal) => {
        include_bytes!(concat!("../../../sip/tests/torture-ipv6/", $name, ".dat"))
    };
}

const HERE: &str = "udp:[2001:db8::10]:5060";
const OVER_IPV4: &str = "udp:192.0.2.99:5060";

fn client() -> Flow {
    flow(HERE, "[2001:db8::9:1]:5060")
}

fn bench(domains: &[&str]) -> Bench {
    let mut bench = Bench::open_relay(&[HERE, OVER_IPV4], domains);
    bench.local = "[2001:db8::10]:5060".parse().expect("an address");
    for name in ["example.com", "host.example.net"] {
        let address = "[2001:db8::77]:5060".parse().expect("an address");
        bench
            .names
            .insert(name.to_owned(), vec![(Transport::Udp, address)]);
    }
    bench
}

/// Hands a message in; returns what is sent but for a 100.
fn given(bench: &mut Bench, from: Flow, octets: &'static [u8]) -> Sent {
    let message = Message::read(octets.into()).expect("a message");
    bench.proxy.handle_message(bench.now, from, message);
    bench.settle();
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.status() != Some(100));
    let [sent] = <[Sent; 1]>::try_from(sent).expect("one message");
    sent
}

/// 4.1
#[test]
fn a_registration_with_ipv6_references() {
    let mut bench = bench(&["[2001:db8::10]", "example.com"]);
    let sent = given(&mut bench, client(), torture!("ipv6-good"));
    let contact = sent.answers(200).value(Name::Contact);
    assert!(
        contact.starts_with("<sip:caller@[2001:db8::1]>"),
        "{contact}"
    );
    sent.goes_to("udp:[2001:db8::9:1]:5060");
}

/// 4.2
#[test]
fn an_address_without_brackets_is_refused() {
    given(&mut bench(&["example.com"]), client(), torture!("ipv6-bad")).answers(400);
}

/// 4.3: to a host with another address than was meant. We are not its registrar.
#[test]
fn a_port_inside_of_the_brackets_is_a_part_of_the_address() {
    let mut bench = bench(&["[2001:db8::10]:5070"]);
    let sent = given(&mut bench, client(), torture!("port-ambiguous"));
    assert!(sent.message.is_request());
    sent.goes_to("udp:[2001:db8::10:5070]:5060");
}

/// 4.4
#[test]
fn a_port_outside_of_the_brackets_is_a_port() {
    let mut bench = bench(&["[2001:db8::10]:5070", "example.com"]);
    given(&mut bench, client(), torture!("port-unambiguous")).answers(200);
}

/// 4.5: `received` with and without brackets. What we write has none.
#[test]
fn received_may_have_brackets() {
    let from = flow(HERE, "[2001:db8::9:255]:5060");
    let mut bench = bench(&[]);
    let bye = given(&mut bench, from, torture!("via-received-param-with-delim"));
    // It is for us, and we have no dialogs.
    bye.answers(405).goes_to("udp:[2001:db8::9:255]:5060");
    let options = given(&mut bench, from, torture!("via-received-param-no-delim"));
    options.answers(200).goes_to("udp:[2001:db8::9:255]:5060");
    for answer in [bye, options] {
        let via = answer.value(Name::Via);
        assert!(via.contains(";received=2001:db8::9:255"), "{via}");
    }
}

/// 4.6 and 4.8: bodies go through as they are.
#[test]
fn addresses_in_session_descriptions_are_left_alone() {
    for octets in [&torture!("ipv6-in-sdp")[..], torture!("mult-ip-in-sdp")] {
        let mut bench = bench(&["[2001:db8::10]"]);
        let phone = flow(HERE, "[2001:db8::55]:5060");
        let register = common::register("user", 1, &["<sip:user@[2001:db8::55]>"]);
        let mut register = register;
        register.set_request_uri("sip:[2001:db8::10]");
        for name in [Name::To, Name::From] {
            let tag = if matches!(name, Name::From) {
                ";tag=1"
            } else {
                ""
            };
            register.replace(name, format!("<sip:user@[2001:db8::10]>{tag}"));
        }
        bench.receive(phone, register);
        bench.one().answers(200);
        let sent = given(&mut bench, client(), octets);
        sent.goes_along(phone);
        let received = Message::read(octets.into()).expect("a message");
        assert_eq!(sent.message.request_uri(), Some("sip:user@[2001:db8::55]"));
        assert_eq!(sent.message.body(), received.body());
        assert!(!received.body().is_empty());
    }
}

/// 4.7: the addresses of both families in one message, and in the answer that goes back.
#[test]
fn both_families_stand_in_one_message() {
    let mut bench = bench(&[]);
    let sent = given(&mut bench, client(), torture!("mult-ip-in-header"));
    sent.goes_to("udp:[2001:db8::77]:5060");
    let vias = sent.values(Name::Via);
    assert_eq!(vias.len(), 4);
    assert!(vias[3].starts_with("SIP/2.0/TCP [2001:db8::9:255]"));
    assert!(vias[3].ends_with("received=192.0.2.200"));
    let from = flow(HERE, "[2001:db8::77]:5060");
    bench.receive(from, common::response(&sent.message, 200, "x"));
    bench.one().answers(200).goes_to("udp:[2001:db8::9:1]:6050");
}

/// 4.9: an IPv4 address written as an IPv6 one.
#[test]
fn mapped_addresses_go_through() {
    let mut bench = bench(&[]);
    let from = flow(OVER_IPV4, "192.0.2.10:19823");
    let sent = given(&mut bench, from, torture!("ipv4-mapped-ipv6"));
    let vias = sent.values(Name::Via);
    assert!(vias[1].starts_with("SIP/2.0/UDP [::ffff:192.0.2.10]:19823"));
    assert_eq!(
        vias[2],
        "SIP/2.0/UDP [::ffff:192.0.2.2];branch=z9hG4bKas3-111"
    );
    assert_eq!(
        sent.value(Name::Contact),
        "\"T. desk phone\" <sip:ted@[::ffff:192.0.2.2]>"
    );
    let next_hop = flow(HERE, "[2001:db8::77]:5060");
    bench.receive(next_hop, common::response(&sent.message, 486, "x"));
    let [_ack, up] = bench.two();
    up.answers(486).goes_to("udp:192.0.2.10:19823");
}

/// 4.10: the colon too many that the grammar of RFC 3261 allowed, and the same without.
#[test]
fn a_colon_too_many_is_tolerated() {
    for octets in [
        &torture!("ipv6-bug-abnf-3-colons")[..],
        torture!("ipv6-correct-abnf-2-colons"),
    ] {
        let sent = given(&mut bench(&[]), client(), octets);
        assert!(sent.message.is_request(), "{sent:?}");
        sent.goes_to("udp:[2001:db8::c000:201]:5060");
        reread(&sent.message).validate().expect("a valid message");
    }
}
