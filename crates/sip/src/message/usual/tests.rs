use bytes::Bytes;
use proptest::prelude::*;

use super::super::index::{read_line_by_line, read_start_line as read_any_start_line};
use super::*;
use crate::Message;

/// A message of which nothing is known but where its lines are.
fn unknown(message: &Message) -> Message {
    let mut unknown = message.clone();
    for at in 0..unknown.0.fields.len() {
        let field = unknown.0.fields[at].without_head();
        unknown.0.fields.set(at, field);
    }
    unknown.0.is_proved = false;
    unknown.0.seen = Seen::nothing();
    if let Start::Request { places, .. } = &mut unknown.0.start {
        *places = None;
    }
    unknown
}

/// What is said of what may be remembered from reading.
fn said(message: &Message) -> String {
    let routes = message.routes().map(|route| {
        let route = route.ok()?;
        let (name, parameters) = (route.display_name(), route.parameters().text());
        let uri = format!("{} {:?}", route.uri(), route.parse_uri());
        Some(format!(
            "{name:?} {uri} {} {parameters:?}",
            route.is_in_brackets()
        ))
    });
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        message.parse_request_uri(),
        routes.collect::<Vec<_>>(),
        message.cseq(),
        message.cseq_parts(),
        message.cseq_number(),
        message.top_branch(),
        message.from_tag(),
        message.to_tag(),
        message.max_forwards(),
    )
}

/// What is seen at a glance is what is found by whoever looks closer. Returns whether the message was seen to keep the
/// rules.
fn compare(octets: &[u8]) -> bool {
    let Ok(message) = Message::read(Bytes::copy_from_slice(octets)) else {
        return false;
    };
    let (fields, length) = read_line_by_line(octets);
    let without_heads = message.0.fields.iter().map(Field::without_head);
    assert!(
        without_heads.map(|field| format!("{field:?}")).eq(fields),
        "{message}"
    );
    assert_eq!(message.0.received.len(), length, "{message}");
    let unknown = unknown(&message);
    assert_eq!(message.validate(), unknown.check_rules(), "{message}");
    compare_with_index(&message, octets);
    let vias = [&message, &unknown].map(|message| {
        let via = message.top_via()?;
        let branch = via.branch().map(str::to_owned);
        let flags = (via.has_rport(), via.has_received(), via.maddr().is_some());
        let parameters = via.parameters().text().to_vec();
        let sent_by = (via.host().to_string(), via.port());
        Some((
            via.transport_name().to_owned(),
            sent_by,
            branch,
            flags,
            parameters,
        ))
    });
    assert_eq!(vias[0], vias[1], "{message}");
    assert_eq!(message.has_one_via(), unknown.has_one_via(), "{message}");
    assert_eq!(message.from_tag(), unknown.from_tag(), "{message}");
    assert_eq!(message.to_tag(), unknown.to_tag(), "{message}");
    assert_eq!(
        message.from_tag_bytes(),
        unknown.from_tag().map(str::as_bytes)
    );
    assert_eq!(said(&message), said(&unknown), "{message}");
    for name in [Name::Via, Name::Contact, Name::Route, Name::RecordRoute] {
        let (one, other) = (message.values(name), unknown.values(name));
        assert!(one.eq(other), "{message}");
    }
    let mut shortened = [message.clone(), unknown.clone()];
    for name in [Name::Via, Name::Route, Name::RecordRoute].repeat(4) {
        let [one, other] = &mut shortened;
        // What was asked of it is remembered: without that, its Via fields are taken apart.
        other.0.seen = Seen::nothing();
        let is_removed = one.remove_first_value(name);
        assert_eq!(is_removed, other.remove_first_value(name), "{message}");
        assert_eq!(one.to_bytes(), other.to_bytes(), "{message}");
        assert_eq!(said(one), said(other), "{message}");
        assert!(one.values(name).eq(other.values(name)), "{message}");
    }
    if let Some((start, end)) = read_usual_start_line(&message.0.received) {
        let line = &message.0.received[..end - 2];
        let mut start = start;
        if let Start::Request { places, .. } = &mut start {
            *places = None;
        }
        let any = read_any_start_line(line).expect("a start line");
        assert_eq!(format!("{start:?}"), format!("{any:?}"), "{message}");
    }
    message.0.is_proved
}

/// Who does not look at values finds the same lines, and in the end the same values.
fn compare_with_index(message: &Message, octets: &[u8]) {
    let indexed = Message::index(Bytes::copy_from_slice(octets)).expect("a message");
    assert!(!indexed.0.is_proved && indexed.0.fields.iter().all(|field| field.head == 0));
    let fields = indexed.0.fields.iter().map(|field| format!("{field:?}"));
    let without_heads = message.0.fields.iter().map(Field::without_head);
    let expected = without_heads.map(|field| format!("{field:?}"));
    assert!(fields.eq(expected), "{message}");
    assert_eq!(said(message), said(&indexed), "{message}");
    assert_eq!(message.validate(), indexed.validate(), "{message}");
    assert_eq!(message.body(), indexed.body(), "{message}");
    let edited = [message.clone(), indexed].map(|mut message| {
        message.push_front(Name::Via, "SIP/2.0/UDP x;branch=z9hG4bK7");
        message.remove_first_value(Name::Route);
        message.set_max_forwards(7);
        message.to_bytes()
    });
    assert_eq!(edited[0], edited[1], "{message}");
}

const INVITE: &str = "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.9:5062;rport;branch=z9hG4bK1\r\n\
    Via: SIP/2.0/TCP host.example.com;branch=z9hG4bK2;received=192.0.2.1\r\n\
    Max-Forwards: 70\r\n\
    Record-Route: <sip:192.0.2.1:5060;lr>\r\n\
    Route: <sip:p2.example.com;lr;x=y>\r\n\
    From: \"Alice, \\\"A\\\" \u{e4}\" <sip:alice@example.com>;tag=a-1\r\n\
    To: Bob B <sip:bob@example.com>\r\n\
    Call-ID: 1@host\r\n\
    CSeq: 7 INVITE\r\n\
    Contact: <sip:alice@192.0.2.9:5062>;expires=5;+sip.x=[::1]\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 4\r\n\r\nbody";

#[test]
fn what_most_send_is_seen_to_keep_the_rules() {
    let changed = |from: &str, to: &str| {
        assert!(INVITE.contains(from), "{from}");
        compare(INVITE.replace(from, to).as_bytes())
    };
    for (from, to) in [
        ("", ""),
        (
            "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0",
            "SIP/2.0 180 Ringing",
        ),
        ("body", "body and more"),
        ("Content-Length: 4", "Content-Length:     4"),
        ("tag=a-1", "x=y;tag=a-1;TAG=b"),
        ("Max-Forwards: 70", "X-Mine : 1\r\n 2"),
        ("INVITE", "ACK"),
        ("Route: <sip:p2.example.com;lr;x=y>", "Subject:"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1, SIP/2.0/UDP x"),
        (
            "rport;branch=z9hG4bK1",
            "branch=1,SIP/2.0/UDP x;a=b:5, SIP/2.0/WS y:6",
        ),
        (
            "lr;x=y>",
            "lr;x=y>, <sip:p3.example.com;lr>;a=b,\"C\" <sip:c>",
        ),
        ("192.0.2.1:5060;lr>", "192.0.2.1;lr>, <sip:192.0.2.2;lr>"),
    ] {
        assert!(changed(from, to), "{to}");
    }
    for (from, to) in [
        (
            "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0",
            "SIP/2.0 700 Ringing",
        ),
        (
            "INVITE sip:bob@192.0.2.4:5070;transport=tcp",
            "INVITE sip:bob@a?x=y",
        ),
        ("INVITE sip", "INVITE  sip"),
        ("SIP/2.0\r\n", "SIP/3.0\r\n"),
        ("7 INVITE", "7 BYE"),
        ("7 INVITE", "7 "),
        ("7 INVITE", "2147483648 INVITE"),
        ("7 INVITE", "7  INVITE"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1\r\n ;rport"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1, x"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1,"),
        ("lr;x=y>", "lr;x=y>, sip:p3.example.com"),
        ("lr;x=y>", "lr;x=y>,"),
        ("192.0.2.1:5060;lr>", "192.0.2.1;lr>,, <sip:192.0.2.2;lr>"),
        (
            "9:5062>;expires=5;+sip.x=[::1]",
            "9>, <sip:alice@192.0.2.8>",
        ),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1, "),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1,,SIP/2.0/UDP x"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1 ,SIP/2.0/UDP x"),
        ("rport;branch=z9hG4bK1", "branch=z9hG4bK1,  SIP/2.0/UDP x"),
        ("Max-Forwards: 70", "Max-Forwards: 256"),
        ("Max-Forwards: 70", "Max-Forwards: 70\r\nMax-Forwards: 70"),
        ("Max-Forwards: 70", "max-forwards: 70"),
        ("Max-Forwards: 70", "no field"),
        ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
        ("tag=a-1", "tag=\"a\""),
        ("Alice, \\", "Alice, \r\n \\"),
        ("Call-ID: 1@host\r\n", ""),
        ("Call-ID: 1@host", "Call-ID: 1 host"),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Content-Length: 4", "Content-Length: 4\r\nl: 4"),
        ("Content-Length: 4", "Content-Length: -4"),
        ("Content-Length: 4", "Content-Length:     5"),
        ("Content-Length: 4", "Content-Length:  \r\n 4"),
        ("Content-Length: 4", "Content-Length:   "),
        ("Content-Length: 4", "Content-Length:  \t4"),
        ("Content-Length: 4", "Content-Length:  4 "),
        ("<sip:alice@192.0.2.9:5062>;expires=5;+sip.x=[::1]", "*"),
        ("\r\n\r\nbody", ""),
    ] {
        assert!(!changed(from, to), "{to}");
    }
}

/// RFC 4475 and RFC 5118.
#[test]
fn torture_changes_nothing() {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let mut count = 0;
    for folder in ["torture", "torture-ipv6"] {
        for file in std::fs::read_dir(format!("{tests}/{folder}")).expect("a folder") {
            let octets = std::fs::read(file.expect("a file").path()).expect("octets");
            compare(&octets);
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

const LINES: [&str; 54] = [
    "Via: SIP/2.0/UDP 192.0.2.9:5062;rport;branch=z9hG4bK1\r\n",
    "Via: SIP/2.0/TCP a.example;branch=z9hG4bK2;received=1.2.3.4\r\n",
    "Via: SIP/2.0/UDP a;branch=z9hG4bK\r\n",
    "Via: SIP/2.0/UDP [::1]:5060;branch=z9hG4bK3\r\n",
    "Via: SIP/2.0/UDP a;branch=1, SIP/2.0/UDP b\r\n",
    "Via: SIP/2.0/UDP a:1;branch=1,SIP/2.0/UDP b;rport, SIP/2.0/UDP c\r\n",
    "Via: SIP/2.0/UDP a;branch=1,, SIP/2.0/UDP b\r\n",
    "Via: SIP/2.0/UDP a;branch=1, SIPb\r\n",
    "Via: SIP/2.0/UDP a;branch=1, \r\n",
    "v: SIP/2.0/UDP a;branch=z9hG4bK4\r\n",
    "Via: SIP/2.0/UDP a\r\n ;branch=z9hG4bK5\r\n",
    "Via: \r\n",
    "From: <sip:alice@example.com>;tag=1\r\n",
    "From: <sip:alice@example.com>;tag=1;x=y\r\n",
    "From: sip:alice@example.com;tag=1\r\n",
    "f: \"A\" <sip:a>;tag=\"1\"\r\n",
    "To: <sip:bob@example.com>\r\n",
    "To: Bob <sip:bob@example.com>;tag=2\r\n",
    "To: Bob <sip:bob@example.com>;x=\u{e4};tag=2\r\n",
    "To: Bob <sips:bob@example.com?x=y>;TAG=2\r\n",
    "t: \"<sip:bob@example.com>\r\n",
    "Call-ID: 1@a\r\n",
    "Call-ID: 1 a\r\n",
    "i: 2\r\n",
    "CSeq: 1 INVITE\r\n",
    "CSeq: 1 ACK\r\n",
    "CSeq: 99999999999 INVITE\r\n",
    "CSeq:\t1\t INVITE\r\n",
    "Max-Forwards: 70\r\n",
    "Max-Forwards: 256\r\n",
    "Contact: <sip:a@b:5>;q=0.1\r\n",
    "Contact: *\r\n",
    "Contact: <sip:a@b>, <sip:c@d>\r\n",
    "Route: <sip:a;lr>\r\n",
    "Route: <sip:a;lr>, <sip:b;lr>\r\n",
    "Route: <sip:a;lr>;x,<sip:b;lr>, \"C\" <sip:c:5>;tag=1\r\n",
    "Route: <sip:a;lr>, sip:b\r\n",
    "Record-Route: <sip:a@1.2.3.4;lr>, <sip:a:5060;lr>\r\n",
    "Record-Route: <sip:a@1.2.3.4;lr>,\r\n",
    "Record-Route: <sip:a@1.2.3.4;lr>\r\n",
    "Record-Route: sip:a\r\n",
    "Content-Length: 4\r\n",
    "Content-Length: 5\r\n",
    "Content-Length:     4\r\n",
    "Content-Length:  \r\n",
    "CSeq: 1 \r\n",
    "Content-Length: 18446744073709551616\r\n",
    "l: 4\r\n",
    "Content-Type: a/b\r\n",
    "Expires: 5\r\n",
    "Supported: path \r\n",
    "X-Mine: 1\r\n",
    " folded\r\n",
    "no field\n",
];

proptest! {
    #[test]
    fn whatever_lines_there_are_the_rules_are_the_same(
        start in prop::sample::select(vec![
            "INVITE sip:b@c SIP/2.0\r\n", "INVITE sip:b@1.2.3.4:5060;a=b SIP/2.0\r\n", "SIP/2.0 200 OK\r\n",
            "INVITE sips:b@c SIP/2.0\r\n", "ACK sip:c SIP/2.0\r\n", "FOO sip:c SIP/2.0\r\n", "SIP/2.0 099 \r\n",
            "SIP/2.0 200\r\n", "INVITE sip:b@c SIP/2.0\n", "INVITE sip:b@c SIP/1.0\r\n", "SIP/2.0 200 \r\r\n",
        ]),
        // Most messages have the fields that all must have.
        base in prop::sample::subsequence(vec![0_usize, 12, 16, 21, 24, 28, 41], 5..=7),
        others in prop::collection::vec(0..LINES.len(), 0..4),
        end in prop::sample::select(vec!["\r\n", "\r\nbody", "\r\nbodies", "\nbody", ""]),
    ) {
        let lines = base.into_iter().chain(others).map(|line| LINES[line]);
        compare([start].into_iter().chain(lines).chain([end]).collect::<String>().as_bytes());
    }

    #[test]
    fn any_octet_may_be_another_one(
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        cut in any::<bool>(),
        is_response in any::<bool>(),
    ) {
        let mut octets = INVITE.as_bytes().to_vec();
        if is_response {
            let line = INVITE.find("\r\n").expect("a line");
            octets.splice(..line, *b"SIP/2.0 200 OK");
        }
        let at = at.index(octets.len());
        octets[at] = octet;
        if cut {
            octets.truncate(at + 1);
        }
        compare(&octets);
    }
}

/// Whatever is edited, what is remembered from reading is what stands there.
#[test]
fn edits_are_noticed() {
    let text = INVITE.replace(
        "Route: <sip:p2.example.com;lr;x=y>",
        "Route: <sip:p2.example.com;lr;x=y>;z\r\nRoute: <sip:a@p3.example.com>",
    );
    let read = |text: &str| Message::read(Bytes::copy_from_slice(text.as_bytes()));
    let mut message = read(&text).expect("a message");
    let edits: [fn(&mut Message); 12] = [
        |_| {},
        |message| message.push_front(Name::Via, "SIP/2.0/UDP x;branch=z9hG4bK7"),
        |message| assert!(message.remove_first_value(Name::Route)),
        |message| message.push_front(Name::Route, "<sip:p4.example.com>, <sip:p5.example.com>"),
        |message| assert!(message.remove_first_value(Name::Route)),
        |message| message.retain(Name::Route, |value| value.contains(&b'@')),
        |message| message.replace(Name::Route, "<sip:p6.example.com:70>"),
        |message| assert_eq!(message.remove_all(Name::Route), 1),
        |message| message.set_request_uri("sip:carol@example.net;lr"),
        |message| message.replace(Name::CSeq, "8 ACK"),
        |message| message.push_back(Name::From, "<sip:b>;tag=2"),
        |message| assert!(message.remove_first_value(Name::CSeq)),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        edit(&mut message);
        let copy = message.clone();
        let again = Message::read(message.to_bytes()).expect("a message");
        for known in [&message, &copy, &again] {
            assert_eq!(said(known), said(&unknown(known)), "{number}");
            assert_eq!(known.cseq_parts().is_none(), number == 11, "{number}");
            assert_eq!(known.routes().next().is_none(), number >= 7, "{number}");
        }
        assert_eq!(said(&message), said(&again), "{number}");
    }
}
