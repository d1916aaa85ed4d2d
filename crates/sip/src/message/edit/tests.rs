use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use crate::{Method, syntax};

/// An edit of any message.
type Edit = fn(&mut Message);

const EDITS: [Edit; 18] = [
    |message| message.set_max_forwards(7),
    |message| message.set_max_forwards(255),
    |message| message.push_back(Name::MaxForwards, "8"),
    |message| message.push_front(Name::MaxForwards, " 9 "),
    |message| message.push_front(Name::Other("max-forwards"), "10"),
    |message| message.replace(Name::MaxForwards, "many"),
    |message| assert!(message.remove_all(Name::MaxForwards) < 20),
    |message| message.retain(Name::MaxForwards, |value| value.len() < 2),
    |message| {
        message.remove_first_value(Name::MaxForwards);
    },
    |message| message.push_front(Name::Other("X-Mine"), "a\r\nb"),
    |message| message.push_front(Name::To, "<sip:c@d>\r\n;tag=1"),
    |message| message.push_back(Name::CallId, "1"),
    |message| message.replace(Name::CallId, "2"),
    |message| message.set_request_uri("sip:a\r\nX: y"),
    |message| message.set_request_uri("sip:c@d"),
    |message| {
        message.remove_first_value(Name::Other("X-Mine"));
    },
    |message| message.overwrite_values(Name::MaxForwards, |_, value| value.fill(b'1')),
    |message| *message = message.clone(),
];

/// What is remembered of a message is what stands there.
fn check(message: &Message) {
    let written = message.header_bytes(Name::MaxForwards);
    assert_eq!(
        message.max_forwards(),
        written.and_then(syntax::number::<u8>)
    );
    let octets = message.to_bytes();
    let mut gathered = BytesMut::new();
    message.write_to(&mut gathered);
    assert_eq!(
        (&octets, octets.len()),
        (&gathered.freeze(), message.wire_length())
    );
    let read = Message::read(octets).expect("a message");
    assert!(read.fields().eq(message.fields()), "{message}");
    assert_eq!(read.max_forwards(), message.max_forwards());
    assert_eq!(read.request_uri(), message.request_uri());
    assert_eq!(read.method(), message.method());
}

#[test]
fn values_are_overwritten_one_by_one_as_they_are_read() {
    let text = "SIP/2.0 200 OK\r\nRecord-Route: <sip:a,b>,\r\n <sip:c>\r\nX: y\r\n\
        record-route:<sip:d> \r\nContent-Length: 0\r\n\r\n";
    let mut message = Message::read(text.into()).expect("a message");
    message.push_back(Name::RecordRoute, "<sip:e>");
    let read: Vec<Vec<u8>> = message
        .values(Name::RecordRoute)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(read.len(), 4);
    message.overwrite_values(Name::RecordRoute, |number, value| {
        assert_eq!(value, read[number]);
        value[1] = b'0' + number as u8;
    });
    check(&message);
    let written: Vec<&[u8]> = message.values(Name::RecordRoute).collect();
    assert_eq!(
        written,
        [&b"<0ip:a,b>"[..], b"<1ip:c>", b"<2ip:d>", b"<3ip:e>"]
    );
    assert_eq!(message.header(Name::Other("X")), Some("y"));
}

#[test]
fn a_number_takes_the_place_of_all_fields_of_its_name() {
    let text = "PING sip:a@b SIP/2.0\r\nmax-forwards: 1\r\nX: y\r\nMax-Forwards: 2\r\n\r\n";
    let mut message = Message::read(Bytes::from(text)).expect("a message");
    message.set_max_forwards(70);
    let expected = "PING sip:a@b SIP/2.0\r\nmax-forwards: 70\r\nX: y\r\n\r\n";
    assert_eq!(message.to_bytes(), expected);
    message.set_request_uri("sip:c@d");
    assert_eq!(message.to_bytes(), expected.replace("a@b", "c@d"));
    let mut built = Message::request(Method::Options, "sip:a\nb").with(Name::MaxForwards, "1");
    built.push_back(Name::MaxForwards, "2");
    built.set_max_forwards(3);
    let expected = "OPTIONS sip:a b SIP/2.0\r\nMax-Forwards: 3\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(built.to_bytes(), expected);
}

proptest! {
    #[test]
    fn edits_leave_no_wrong_memory(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\n", "Max-Forwards: 70\r\n", "max-forwards : 7 \r\n",
                "Max-Forwards: 256\r\n", "Max-Forwards:\r\n", "Max-Forwards: 1\r\n 2\r\n", "To: <sip:a@b>\r\n",
                "t: <sip:c@d>\r\n", "Call-ID: 1\r\n", "X-Mine: z\r\n", "X: y\r\n z\r\n", "no field\r\n",
                "Content-Length: 0\r\n",
            ]),
            0..8,
        ),
        edits in prop::collection::vec(prop::sample::select(EDITS.to_vec()), 0..8),
        start in prop::sample::select(vec!["BYE sip:a@b SIP/2.0\r\n", "PING  sip:a@b SIP/2.0\r\n", "SIP/2.0 200 OK\r\n"]),
    ) {
        let text = format!("{start}{}\r\n", lines.concat());
        let mut message = Message::read(Bytes::from(text)).expect("a message");
        check(&message);
        for edit in edits {
            edit(&mut message);
            check(&message);
        }
    }
}
