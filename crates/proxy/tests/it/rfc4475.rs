//! The torture test messages of RFC 4475: the action that each prescribes, as the proxy and registrar
//! takes it. How they are read is tested in `sip`; the octets are those of the RFC's appendix A.

use std::sync::Arc;

use crate::common::{self, Bench, Sent, flow, listener, response, values};
use proxy::core::{AuthenticationPolicy, Policy};
use sip::{Flow, Message, Name, Transport};

macro_rules! torture {
    ($name:literal) => {
        include_bytes!(concat!("../../../sip/tests/torture/", $name, ".dat"))
    };
}

const HERE: &str = "udp:198.51.100.1:5060";

fn client() -> Flow {
    flow(HERE, "198.51.100.9:5060")
}

/// A proxy on the way, responsible for none of the RFC's domains.
fn on_the_way() -> Bench {
    with_domains(&["here.example"])
}

/// The proxy and registrar of example.com.
fn at_home() -> Bench {
    with_domains(&["example.com"])
}

fn with_domains(domains: &[&str]) -> Bench {
    let mut bench = Bench::open_relay(&[HERE, "tcp:198.51.100.1:5060"], domains);
    bench.local = listener(HERE).address;
    for (name, address) in [
        ("example.com", "203.0.113.1:5060"),
        ("example.net", "203.0.113.2:5060"),
        ("example.org", "203.0.113.3:5060"),
        ("services.example.com", "203.0.113.4:5060"),
        ("registrar.example.com", "203.0.113.5:5060"),
    ] {
        let address = address.parse().expect("an address");
        let hops = vec![(Transport::Udp, address)];
        bench.names.insert(name.to_owned(), hops);
    }
    bench
}

/// Hands a message in as the driver does, and returns what is sent but for a 100.
fn given(bench: &mut Bench, octets: &'static [u8]) -> Vec<Sent> {
    match Message::read(octets.into()) {
        Ok(message) => {
            bench.proxy.handle_message(bench.now, client(), message);
            bench.settle();
        }
        Err(_) => bench.receive_malformed(client(), octets),
    }
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.status() != Some(100));
    sent
}

/// The message goes on to this address, nothing in it changed but what a proxy changes.
fn forwarded(octets: &'static [u8], to: &str) -> Sent {
    let sent = given(&mut on_the_way(), octets);
    let [sent] = <[Sent; 1]>::try_from(sent).expect("one message");
    assert!(sent.message.is_request());
    sent.goes_to(to);
    let wire = sent.message.to_bytes();
    for line in untouched_lines(octets) {
        assert!(
            wire.windows(line.len()).any(|window| window == line),
            "{}",
            String::from_utf8_lossy(line)
        );
    }
    let received = Message::read(octets.into()).expect("a message");
    assert_eq!(sent.message.body(), received.body());
    sent
}

/// The header lines, folds included, that a proxy has no business with.
fn untouched_lines(octets: &[u8]) -> Vec<&[u8]> {
    let end = octets
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("an end of the header section");
    let mut starts = vec![0];
    for (place, pair) in octets[..end].windows(3).enumerate() {
        if pair.starts_with(b"\r\n") && !matches!(pair[2], b' ' | b'\t') {
            starts.push(place + 2);
        }
    }
    starts.push(end + 2);
    let lines = starts.windows(2).map(|pair| &octets[pair[0]..pair[1]]);
    let is_touched = |line: &&[u8]| {
        let name = line.split(|octet| *octet == b':').next().unwrap_or(line);
        let name = name.trim_ascii_end().to_ascii_lowercase();
        matches!(&name[..], b"via" | b"v" | b"max-forwards" | b"route")
    };
    lines.skip(1).filter(|line| !is_touched(line)).collect()
}

/// The message is answered so.
fn answered(mut bench: Bench, octets: &'static [u8], status: u16) -> Sent {
    let sent = given(&mut bench, octets);
    let [sent] = <[Sent; 1]>::try_from(sent).expect("one answer");
    sent.answers(status);
    assert!(
        values(&sent.message, Name::To)
            .iter()
            .all(|to| to.contains("tag="))
    );
    sent
}

fn dropped(octets: &'static [u8]) {
    for mut bench in [on_the_way(), at_home()] {
        assert!(given(&mut bench, octets).is_empty());
        bench.assert_idle();
    }
}

/// 3.1.1: what is valid goes on, however unusual it looks.
#[test]
fn valid_messages_are_forwarded_as_they_are() {
    // 3.1.1.1: along its Route, the value of which goes with it.
    let sent = forwarded(torture!("wsinv"), "udp:203.0.113.4:5060");
    assert_eq!(sent.value(Name::MaxForwards), "67");
    assert_eq!(sent.values(Name::Via).len(), 4);
    assert_eq!(sent.values(Name::Route).len(), 1);
    // 3.1.1.2
    forwarded(torture!("intmeth"), "udp:203.0.113.1:5060");
    // 3.1.1.3: it is for a user with this name at example.net, not for a sips URI.
    let sent = forwarded(torture!("esc01"), "udp:203.0.113.2:5060");
    assert_eq!(
        sent.message.request_uri(),
        Some("sip:sips%3Auser%40example.com@example.net")
    );
    // 3.1.1.5: no REGISTER, and no third Contact.
    forwarded(torture!("esc02"), "udp:203.0.113.5:5060");
    // 3.1.1.6
    forwarded(torture!("lwsdisp"), "udp:203.0.113.1:5060");
    // 3.1.1.7: too long for a datagram.
    let sent = forwarded(torture!("longreq"), "tcp:203.0.113.1:5060");
    assert_eq!(sent.values(Name::Via).len(), 35);
    // 3.1.1.9: the semicolon is the user's.
    let sent = forwarded(torture!("semiuri"), "udp:203.0.113.1:5060");
    assert_eq!(
        sent.message.request_uri(),
        Some("sip:user;par=u%40example.net@example.com")
    );
    // 3.1.1.10: Via values of transports that nobody knows.
    assert_eq!(
        forwarded(torture!("transports"), "udp:203.0.113.1:5060")
            .values(Name::Via)
            .len(),
        6
    );
    // 3.1.1.11: its Route is a strict router. It is too long for a datagram as well.
    let sent = forwarded(torture!("mpart01"), "tcp:127.0.0.1:5080");
    assert_eq!(sent.message.request_uri(), Some("sip:127.0.0.1:5080"));
    assert_eq!(sent.values(Name::Route), ["<sip:kumiko@example.org>"]);
}

/// 3.1.1.8: what comes behind the first message of a datagram is no part of it.
#[test]
fn what_is_behind_a_message_is_ignored() {
    let mut bench = at_home();
    let sent = given(&mut bench, torture!("dblreq"));
    assert_eq!(sent.len(), 1);
    sent[0].answers(200);
    assert_eq!(bench.proxy.statistics().requests, 1);
}

/// 3.1.1.12 and 3.1.1.13: reason phrases are for people. The rest of the response is what matters: here
/// it goes upstream.
#[test]
fn responses_with_unusual_reasons_are_forwarded() {
    for (octets, status) in [
        (&torture!("unreason")[..], 200),
        (torture!("noreason"), 100),
    ] {
        // To us it answers nothing.
        dropped(octets);
        let line_end = octets.windows(2).position(|pair| pair == b"\r\n");
        let status_line = &octets[..line_end.expect("a line")];
        let mut bench = on_the_way();
        let request = common::request(sip::Method::Invite, "sip:x@203.0.113.9", "c1");
        bench.receive(client(), request);
        let [_trying, forwarded] = bench.two();
        let answer = response(&forwarded.message, status, "x").to_bytes();
        let rest = answer.windows(2).position(|pair| pair == b"\r\n");
        let answer = [status_line, &answer[rest.expect("a line")..]].concat();
        let message = Message::read(answer.into()).expect("a message");
        bench.receive(flow(HERE, "203.0.113.9:5060"), message);
        let up = bench.sent();
        // A 100 is for us alone.
        assert_eq!(up.len(), usize::from(status == 200));
        for up in up {
            assert!(up.message.to_bytes().starts_with(status_line));
        }
    }
}

/// 3.1.2: what breaks a rule is answered so, and never goes on.
#[test]
fn invalid_requests_are_refused() {
    for (octets, status) in [
        (&torture!("badinv01")[..], 400),
        (torture!("clerr"), 400),
        (torture!("ncl"), 400),
        (torture!("scalar02"), 400),
        (torture!("quotbal"), 400),
        (torture!("ltgtruri"), 400),
        (torture!("lwsruri"), 400),
        (torture!("lwsstart"), 400),
        (torture!("trws"), 400),
        (torture!("escruri"), 400),
        (torture!("regbadct"), 400),
        (torture!("badaspec"), 400),
        (torture!("baddn"), 400),
        (torture!("badvers"), 505),
        (torture!("mismatch01"), 400),
        (torture!("mismatch02"), 501),
        // 3.2.1
        (torture!("badbranch"), 400),
        // 3.3.1
        (torture!("insuf"), 400),
        // 3.3.8
        (torture!("multi01"), 400),
        // 3.3.9
        (torture!("mcl01"), 400),
    ] {
        for mut bench in [on_the_way(), at_home()] {
            let sent = given(&mut bench, octets);
            assert_eq!(sent.len(), 1, "{}", String::from_utf8_lossy(octets));
            sent[0].answers(status);
        }
    }
}

/// 3.1.2.5, 3.1.2.19: responses that break a rule; 3.3.10: one that would go on to a broadcast address,
/// if a response without a transaction went anywhere.
#[test]
fn invalid_responses_are_dropped() {
    dropped(torture!("scalarlg"));
    dropped(torture!("bigcode"));
    dropped(torture!("bcast"));
}

/// 3.1.2.12: the date is nothing to a proxy.
#[test]
fn a_bad_date_goes_on() {
    forwarded(torture!("baddate"), "udp:203.0.113.1:5060");
}

/// 3.3.2 and 3.3.3
#[test]
fn schemes_that_are_unknown_are_refused() {
    answered(on_the_way(), torture!("unkscm"), 416);
    answered(on_the_way(), torture!("novelsc"), 416);
}

/// 3.3.5
#[test]
fn extensions_that_a_proxy_would_have_to_know_are_named() {
    let sent = answered(on_the_way(), torture!("bext01"), 420);
    assert_eq!(
        sent.values(Name::Unsupported),
        ["noProxiesSupportThis", "norDoAnyProxiesSupportThis"]
    );
}

/// 3.3.6 and 3.3.15: what the bodies are is between the ends.
#[test]
fn bodies_are_none_of_our_business() {
    forwarded(torture!("invut"), "udp:203.0.113.1:5060");
    forwarded(torture!("sdp01"), "udp:203.0.113.1:5060");
}

/// 3.3.11: an OPTIONS that has no hop left is answered as if it was for us (RFC 3261 section 16.3).
#[test]
fn a_request_without_a_hop_left_goes_no_further() {
    answered(on_the_way(), torture!("zeromf"), 200);
}

/// 3.4.1: a client of RFC 2543.
#[test]
fn what_clients_of_rfc_2543_send_is_forwarded() {
    let sent = forwarded(torture!("inv2543"), "udp:203.0.113.1:5060");
    assert_eq!(sent.value(Name::MaxForwards), "70");
    assert_eq!(sent.values(Name::RecordRoute).len(), 2);
}

/// 3.3.7: credentials of a scheme that nobody knows are none to a registrar that asks for some, and are not a
/// proxy's business. (That a registrar which asks for none takes the request is among its other registrations.)
#[test]
fn credentials_of_an_unknown_scheme_are_asked_for_again_or_carried_through() {
    let asking = Bench::with(&[HERE], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            authentication: AuthenticationPolicy {
                register: true,
                ..AuthenticationPolicy::default()
            },
            ..Policy::default()
        });
    });
    let challenge = answered(asking, torture!("regaut01"), 401);
    assert!(!challenge.values(Name::WwwAuthenticate).is_empty());

    let sent = forwarded(torture!("regaut01"), "udp:203.0.113.1:5060");
    assert!(
        sent.value(Name::Authorization)
            .starts_with("NoOneKnowsThisScheme ")
    );
}

/// 3.1.1.4, 3.3.4, 3.3.7, 3.3.12 to 3.3.14: what the registrar does.
#[test]
fn registrations() {
    let sent = answered(at_home(), torture!("escnull"), 200);
    let contacts = sent.values(Name::Contact);
    assert!(contacts[0].starts_with("<sip:%00@host5.example.com>"));
    assert!(contacts[1].starts_with("<sip:%00%00@host5.example.com>"));

    answered(at_home(), torture!("unksm2"), 400);
    // Credentials of a scheme that nobody knows, where none are asked for.
    answered(at_home(), torture!("regaut01"), 200);

    // The parameter is the Contact's in the first, the URI's in the second.
    let sent = answered(at_home(), torture!("cparam01"), 200);
    let contact = sent.value(Name::Contact);
    assert!(
        contact.starts_with("<sip:+19725552222@gw1.example.net>"),
        "{contact}"
    );
    let sent = answered(at_home(), torture!("cparam02"), 200);
    let contact = sent.value(Name::Contact);
    assert!(contact.starts_with("<sip:+19725552222@gw1.example.net;unknownparam>"));

    let sent = answered(at_home(), torture!("regescrt"), 200);
    let contact = sent.value(Name::Contact);
    assert!(contact.starts_with("<sip:user@example.com?Route=%3Csip:sip.example.com%3E>"));
}
