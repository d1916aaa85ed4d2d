//! What is read at a glance is what the index has and the rules let pass.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::{ConnectionId, Method, Name, Transport, plain_call_id};

const REGISTER: &str = "REGISTER sip:example.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.9:5062;branch=z9hG4bK1\r\n\
    Max-Forwards: 70\r\n\
    From: <sip:alice@example.com>;tag=a\r\n\
    To: <sip:alice@example.com>\r\n\
    Call-ID: 1@host\r\n\
    CSeq: 7 REGISTER\r\n\
    Contact: <sip:alice@192.0.2.9:5062;transport=udp>\r\n\
    Expires: 600\r\n\
    User-Agent: Phone 1.0\r\n\
    Content-Length: 0\r\n\r\n";

fn flow(remote: &str) -> Flow {
    Flow {
        transport: Transport::Udp,
        local: "192.0.2.2:5060".parse().expect("an address"),
        remote: remote.parse().expect("an address"),
        connection: ConnectionId(7),
        stream: 0,
    }
}

/// Compares what is read at a glance with what the index has. Returns whether a glance was enough.
fn compare(octets: &[u8], remote: &str) -> bool {
    if let Some(call_id) = plain_call_id(octets)
        && octets.starts_with(b"REGISTER ")
        && let Ok(message) = Message::read(Bytes::copy_from_slice(octets))
    {
        assert_eq!(message.call_id(), Some(call_id), "{message}");
    }
    let Ok(register) = PlainRegister::read(Bytes::copy_from_slice(octets)) else {
        return false;
    };
    let request = Message::read(Bytes::copy_from_slice(octets)).expect("a message");
    assert_eq!(request.validate(), Ok(()), "{request}");
    assert_eq!(request.method(), Some(&Method::Register));
    let uri = std::str::from_utf8(register.request_uri()).expect("text");
    assert_eq!(request.request_uri(), Some(uri));
    let (one, other) = (request.top_via().expect("a Via"), register.via());
    assert!(request.has_one_via());
    assert_eq!((one.host(), one.port()), (other.host(), other.port()));
    assert_eq!(one.branch(), other.branch());
    assert_eq!(one.has_rport(), other.has_rport());
    assert_eq!(one.transport_name(), other.transport_name());
    assert!(one.maddr().is_none() && other.maddr().is_none());
    assert_eq!(request.header_bytes(Name::To), Some(register.to()));
    assert_eq!(request.to_tag(), None);
    assert_eq!(request.call_id(), Some(register.call_id()));
    assert_eq!(request.cseq_number(), Some(register.cseq_number()));
    let user_agent = request.header(Name::UserAgent).unwrap_or_default();
    assert_eq!(user_agent, register.user_agent());
    assert_eq!(request.max_forwards(), register.max_forwards());
    let has_credentials = [Name::Authorization, Name::ProxyAuthorization]
        .into_iter()
        .any(|name| request.contains(name));
    assert_eq!(has_credentials, register.has_credentials());
    let contacts: Vec<_> = request.contacts().collect();
    let [Ok(crate::Contact::Address(contact))] = contacts.as_slice() else {
        panic!("{request}");
    };
    assert_eq!(contact.uri(), register.contact());
    assert!(contact.parse_uri().is_ok());
    let mut parameters = contact.parameters();
    assert!(parameters.all(|parameter| parameter.name.eq_ignore_ascii_case("expires")));
    let expires = match register.expires() {
        Expires::Unsaid => None,
        Expires::Malformed => Some(None),
        Expires::Seconds(seconds) => Some(Some(seconds)),
    };
    let expected = match contact.parameters().contains("expires") {
        true => Some(contact.expires()),
        false => request.contains(Name::Expires).then(|| request.expires()),
    };
    assert_eq!(expires, expected);
    for name in [
        Name::Require,
        Name::Path,
        Name::Route,
        Name::ProxyRequire,
        Name::MaxBreadth,
    ] {
        assert!(!request.contains(name));
    }
    assert_eq!(register.octets().len(), request.wire_length());

    let flow = flow(remote);
    let noted = register.message(&flow).expect("a message");
    let (mut head, mut expected) = (BytesMut::new(), BytesMut::new());
    register.write_ok_head(&mut head, flow.remote, "4711");
    noted.write_response_head(&mut expected, 200, "OK", "4711");
    assert_eq!(head, expected);
    true
}

fn changed(from: &str, to: &str) -> String {
    assert!(REGISTER.contains(from), "{from}");
    REGISTER.replace(from, to)
}

#[test]
fn most_are_read_at_a_glance() {
    for text in [
        REGISTER.to_owned(),
        changed(";branch", ";rport;branch"),
        changed("branch=z9hG4bK1", "branch=z9hG4bK1;RPORT;x=y"),
        changed("192.0.2.9:5062;branch", "phone.example.com;branch"),
        changed("Expires: 600\r\n", ""),
        changed("Expires: 600", "Expires: soon"),
        changed("udp>", "udp>;expires=70"),
        changed("Max-Forwards: 70\r\n", "Subject: x, y\r\nX-Mine:\r\n"),
        changed("Call-ID: 1@host", "i:1@host  "),
        changed("From: <sip", "f:  \"A, B\" <sip"),
        changed("CSeq: 7", "cseq :7").replace("cseq :", "cseq: "),
        changed("Content-Length: 0\r\n\r\n", "Content-Length: 1\r\n\r\nabc"),
        changed("Content-Length: 0\r\n\r\n", "\r\nabc"),
        changed("Expires: 600", "Supported: path, outbound"),
        changed("Expires: 600", "Authorization: Digest a=b"),
        changed("Phone", "Ph\u{f6}ne"),
    ] {
        for remote in ["192.0.2.9:5062", "192.0.2.8:40000", "[2001:db8::1]:5060"] {
            assert!(compare(text.as_bytes(), remote), "{text}");
        }
    }
}

#[test]
fn what_is_unusual_takes_more_than_a_glance() {
    for (from, to) in [
        ("REGISTER sip:", "OPTIONS sip:"),
        ("sip:example.com SIP", "sip:example.com  SIP"),
        ("sip:example.com SIP", "sips:example.com SIP"),
        ("SIP/2.0\r\n", "SIP/3.0\r\n"),
        ("REGISTER sip:", "\r\nREGISTER sip:"),
        ("Via: ", "Via:  "),
        ("branch=z9hG4bK1", "branch=z9hG4bK1 "),
        ("branch=z9hG4bK1", "branch=z9hG4bK"),
        ("branch=z9hG4bK1", "branch=1"),
        ("branch=z9hG4bK1", "branch=z9hG4bK1;rport=5"),
        ("branch=z9hG4bK1", "branch=z9hG4bK1;received=192.0.2.1"),
        ("branch=z9hG4bK1", "branch=z9hG4bK1;maddr=192.0.2.1"),
        ("branch=z9hG4bK1", "branch=z9hG4bK1, SIP/2.0/UDP a"),
        ("Max-Forwards: 70", "Max-Forwards: x"),
        ("Max-Forwards: 70", "Via: SIP/2.0/UDP a;branch=z9hG4bK2"),
        ("Max-Forwards: 70", "Max-Forwards : 70"),
        ("Max-Forwards: 70", "Route: <sip:a;lr>"),
        ("Max-Forwards: 70", "Path: <sip:a;lr>"),
        ("Max-Forwards: 70", "Require: x"),
        ("Max-Forwards: 70", "Supported: GRUU"),
        ("Max-Forwards: 70", "no field"),
        ("Max-Forwards: 70", " folded: 1"),
        ("Max-Forwards: 70", "CSeq: 7 REGISTER"),
        ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
        ("Max-Forwards: 70\r\n", &"Subject: x\r\n".repeat(64)),
        ("tag=a\r\n", "tag=a\r\n ;x=y\r\n"),
        ("com>\r\nCall", "com>;tag=b\r\nCall"),
        ("com>\r\nCall", "com> \r\nCall"),
        ("7 REGISTER", "7 INVITE"),
        ("7 REGISTER", "2147483648 REGISTER"),
        ("1@host", ""),
        ("1@host", "a b"),
        (
            "Contact: <sip:alice@192.0.2.9:5062;transport=udp>",
            "Contact: *",
        ),
        ("Contact: <sip:", "Contact: <sips:"),
        ("Contact: <sip:", "Contact: \"A\" <sip:"),
        ("udp>", "udp>;q=0.5"),
        ("udp>", "udp>, <sip:b@192.0.2.9>"),
        ("Contact: <sip:alice@192.0.2.9:5062;transport=udp>\r\n", ""),
        ("Content-Length: 0", "Content-Length: 1"),
        ("Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n"),
    ] {
        let text = changed(from, to);
        assert!(!compare(text.as_bytes(), "192.0.2.9:5062"), "{text}");
    }
    assert_eq!(plain_call_id(REGISTER.as_bytes()), Some("1@host"));
    let long = changed("Phone", &"x".repeat(1 << 16));
    assert!(!compare(long.as_bytes(), "192.0.2.9:5062"));
}

proptest! {
    #[test]
    fn any_lines_are_read_as_by_the_index(
        lines in prop::collection::vec((0..12_usize, select(vec![
            "Via: SIP/2.0/UDP a;rport;branch=z9hG4bK2", "v: SIP/2.0/UDP a;branch=z9hG4bK2", "To:<sip:a@b>",
            "t: <sip:a@b;x=y> ", "Contact: <sip:a@b>;expires=\"1\"", "m: <sip:a@b>;expires=1;x", "Expires: 4294967296",
            "Expires:", "Call-ID:  x ", "CSeq: 07  REGISTER", "CSeq: 1 register", "Contact: <sip:a@b?c=d>",
            "From: sip:a@b", "From: A <sip:a@b>", "l: 0", "Content-Length: +1", "Max-Forwards: 256", "", " x", "x",
            "User-Agent: ", "Supported: ", "Contact: <sip:@b>", "To: <sip:a@b>;x",
        ])), 0..3),
        cut in 0..600_usize,
        octet: u8,
    ) {
        let mut all: Vec<&str> = REGISTER.split_inclusive("\r\n").map(|line| line.trim_end()).collect();
        // As it is, it is read in one pass.
        prop_assert!(compare((all.join("\r\n") + "\r\n").as_bytes(), "192.0.2.9:5062"));
        for (at, line) in &lines {
            all[at % 11] = line;
        }
        let text = all.join("\r\n") + "\r\n";
        let mut octets = text.into_bytes();
        compare(&octets, "192.0.2.9:5062");
        let at = cut % octets.len();
        octets[at] = octet;
        compare(&octets, "192.0.2.8:5062");
        octets.truncate(at);
        compare(&octets, "192.0.2.9:5062");
    }
}
