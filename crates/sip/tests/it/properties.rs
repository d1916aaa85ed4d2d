//! Properties of messages, URIs and framing that hold for any input.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use sip::{
    Contact, Frame, FramingLimits, Message, Method, Name, NameAddr, StreamReader, Uri, Via,
    Violation,
};

/// Octets that look like a message more often than not: pieces of messages in any order.
fn message_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "INVITE sip:bob@biloxi.com SIP/2.0\r\n",
            "SIP/2.0 200 OK\r\n",
            "\r\n",
            "\n",
            "\r",
            " ",
            ":",
            ",",
            ";",
            "=",
            "\"",
            "<",
            ">",
            "*",
            "%",
            "%41",
            "\\",
            "sip:",
            "@",
            "[::1]",
            "SIP/2.0/UDP host",
            "Via: ",
            "v:",
            "To: ",
            "f: Alice <sip:alice@atlanta.com>;tag=1\r\n",
            "Call-ID: 1\r\n",
            "CSeq: 1 INVITE\r\n",
            "Contact: ",
            "m: *\r\n",
            "Route: <sip:a;lr>,",
            "l: 3\r\n",
            "Content-Length: ",
            "0",
            "Max-Forwards: 70\r\n",
            "q=0.5",
            "expires=5",
            "rport",
            "received=192.0.2.1",
            "branch=z9hG4bK1",
            "X-Other: y\r\n",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Text of a token.
fn token() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9.!%*_+`'~-]{1,12}"
}

/// A field that validation knows nothing of, with the text of its line.
fn unknown_field() -> impl Strategy<Value = (String, Vec<u8>)> {
    (
        "X-[a-zA-Z0-9.!%*_+`'~-]{0,12}",
        " {0,2}:( |\r\n ){0,2}",
        "[ -~é€]{0,30}(\r\n [ -~]{0,8})?",
    )
        .prop_map(|(name, colon, value)| {
            let line = format!("{name}{colon}{value}\r\n");
            (name, line.into_bytes())
        })
}

/// Calls everything that reads a message.
fn look_at(message: &Message) {
    let _ = message.validate();
    let _ = (
        message.method(),
        message.request_uri(),
        message.status(),
        message.reason(),
    );
    let _ = (
        message.call_id(),
        message.cseq(),
        message.max_forwards(),
        message.expires(),
    );
    for address in message.from().into_iter().chain(message.to()) {
        let _ = (
            address.display_name(),
            address.tag(),
            address.parse_uri(),
            address.parameters().count(),
        );
    }
    for via in message.vias().flatten() {
        let _ = (
            via.branch(),
            via.received(),
            via.rport(),
            via.maddr(),
            via.ttl(),
            via.transport(),
        );
    }
    for contact in message.contacts().flatten() {
        if let Contact::Address(address) = contact {
            let _ = (address.q(), address.expires());
        }
    }
    for (name, value) in message.fields() {
        // A line without a proper name is found under no name.
        let values: Vec<_> = message.headers(name).collect();
        assert!(values.is_empty() || values.contains(&value));
        let _ = message.values(name).count();
    }
    let _ = format!("{message} {message:?}");
    let violation = Violation {
        status: 400,
        reason: "Bad Request",
    };
    if let Some(mut answer) = Message::rejection(message, &violation) {
        answer.set_to_tag("tag");
        let again = Message::read(answer.to_bytes()).expect("an answer is a message");
        assert_eq!(again.status(), Some(400));
        assert_eq!(again.top_via().is_some(), message.top_via().is_some());
    }
}

/// Edits of all kinds.
fn edit(message: &mut Message, name: Name<'_>, value: &str) {
    message.set_top_via_parameter("rport", Some("5060"));
    message.push_front(name, value);
    message.remove_first_value(name);
    message.push_back(name, value);
    message.set_to_tag("tag");
    message.replace(Name::MaxForwards, "69");
    message.remove_first_value(Name::Route);
    message.set_request_uri("sip:carol@chicago.com");
    message.ensure_content_length();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8 * ProptestConfig::default().cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_octets_never_panic(octets in vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::read(octets.clone().into()) {
            look_at(&message);
        }
        let _ = NameAddr::parse(&octets).map(|address| address.display_name().is_some());
        let _ = Via::parse(&octets).map(|via| via.branch().is_some());
    }

    #[test]
    fn octets_like_a_message_never_panic(octets in message_like(), value in "\\PC{0,10}") {
        // White space that continues no line would come to continue one that an edit puts in front.
        let continues = matches!(octets.first(), Some(b' ' | b'\t'));
        let octets = [b"INVITE sip:bob@biloxi.com SIP/2.0\r\n", &octets[..]].concat();
        let message = Message::read(octets.clone().into()).expect("there is a start line");
        look_at(&message);
        // Nothing is lost but what follows the body.
        assert!(octets.starts_with(&message.to_bytes()));
        let mut edited = message.clone();
        edit(&mut edited, Name::Route, &value);
        let wire = edited.to_bytes();
        assert_eq!(wire.len(), edited.wire_length());
        let again = Message::read(wire).expect("an edited message is a message");
        look_at(&again);
        assert!(continues || again.fields().count() == edited.fields().count());
    }

    #[test]
    fn arbitrary_text_as_a_uri_never_panics(text in "(sips?:)?\\PC{0,40}", other in "sips?:[a-c%41@;=?&]{0,20}") {
        for text in [&*text, &*other] {
            if let Ok(uri) = Uri::parse(text) {
                assert!(uri.is_equivalent(&uri), "{}", uri);
                assert_eq!(uri.as_str(), text);
                if let Ok(other) = Uri::parse(&other) {
                    assert_eq!(uri.is_equivalent(&other), other.is_equivalent(&uri));
                }
            }
        }
    }

    /// The canonical form of an address of record is a URI of the same user, and its own canonical
    /// form where nothing in it was decoded to what a URI must escape.
    #[test]
    fn addresses_of_record_differ_as_their_users(one in "[a-b%;]{0,2}(%[4-6][0-9a-f]|%25|%ff|%00){0,3}", other in "[a-b]{0,2}(%[4-6][0-9a-f]|%25|%ff){0,3}") {
        let uris = [format!("sip:{one}x@Example.com;a"), format!("sip:{other}x@example.COM")];
        if let [Ok(Uri::Sip(one)), Ok(Uri::Sip(other))] = [Uri::parse(&uris[0]), Uri::parse(&uris[1])] {
            let same_user = one.user_unescaped() == other.user_unescaped();
            assert_eq!(one.address_of_record() == other.address_of_record(), same_user);
        }
    }

    #[test]
    fn what_is_written_is_read_back(
        method in token(),
        user in "[a-z]{1,8}",
        display_name in "[ -~]{0,20}",
        tag in token(),
        call_id in "[a-zA-Z0-9@.<>-]{1,20}",
        number in 0_u32..1 << 31,
        body in vec(any::<u8>(), 0..50),
        unknown in vec(("X-[a-z]{1,5}", "[!-~]([ -~]{0,20}[!-~])?"), 0..5),
    ) {
        let uri = format!("sip:{user}@example.com");
        let quoted = display_name.replace('\\', "\\\\").replace('"', "\\\"");
        let mut message = Message::request(Method::from_name(&method), &uri)
            .with(Name::Via, "SIP/2.0/SCTP client.example.com;branch=z9hG4bK1;rport")
            .with(Name::From, format!("\"{quoted}\" <{uri}>;tag={tag}"))
            .with(Name::To, &uri)
            .with(Name::CallId, &call_id)
            .with(Name::CSeq, format!("{number} {method}"))
            .with_body("application/octet-stream", body.clone());
        for (name, value) in &unknown {
            message.push_back(Name::Other(name), value);
        }
        let again = Message::read(message.to_bytes()).expect("a message");
        assert_eq!(again.validate(), Ok(()));
        for message in [&message, &again] {
            assert_eq!(message.method().map(Method::as_str), Some(&*method));
            assert_eq!(message.request_uri(), Some(&*uri));
            let from = message.from().expect("From");
            assert_eq!(from.display_name().as_deref(), Some(&*display_name));
            assert_eq!((from.uri(), from.tag()), (&*uri, Some(&*tag)));
            assert_eq!(message.call_id(), Some(&*call_id));
            assert_eq!(message.cseq(), Some((number, Method::from_name(&method))));
            assert_eq!(message.body(), body);
            for (name, _) in &unknown {
                let values: Vec<_> = message.headers(Name::Other(name)).collect();
                let written: Vec<_> = unknown
                    .iter()
                    .filter(|(other, _)| other == name)
                    .map(|(_, value)| value.as_bytes())
                    .collect();
                assert_eq!(values, written);
            }
        }
    }

    #[test]
    fn edits_leave_every_other_line_alone(
        fields in vec(unknown_field(), 0..12),
        known in prop::sample::subsequence(vec!["v: SIP/2.0/UDP a;branch=z9hG4bK1\r\n", "Max-Forwards: 70\r\n", "Route: <sip:a;lr>,<sip:b;lr>\r\n", "To: sip:b\r\n"], 0..=4),
        seed in any::<u64>(),
    ) {
        let mut lines: Vec<Vec<u8>> = fields.into_iter().map(|(_, line)| line).collect();
        for (index, line) in known.iter().enumerate() {
            let at = (seed >> (8 * index)) as usize % (lines.len() + 1);
            lines.insert(at, line.as_bytes().to_vec());
        }
        let octets = [&b"INVITE sip:bob@biloxi.com SIP/2.0\r\n"[..], &lines.concat(), b"\r\nbody"].concat();
        let message = Message::read(octets.clone().into()).expect("a message");
        assert_eq!(message.to_bytes(), octets);
        let mut edited = message.clone();
        edit(&mut edited, Name::Via, "SIP/2.0/UDP proxy;branch=z9hG4bK2");
        let wire = edited.to_bytes();
        let mut at = 0;
        for line in lines.iter().filter(|line| line.starts_with(b"X-")) {
            let found = wire[at..].windows(line.len()).position(|window| window == line);
            at += found.expect("the line is there, and in its place") + line.len();
        }
        assert!(wire.ends_with(b"\r\n\r\nbody"));
    }

    #[test]
    fn any_split_of_a_stream_gives_the_same_frames(
        bodies in vec((vec(any::<u8>(), 0..30), 0_usize..3), 0..8),
        cuts in vec(1_usize..40, 1..20),
    ) {
        let mut stream = Vec::new();
        let mut messages = Vec::new();
        for (body, line_ends) in bodies {
            stream.extend(b"\r\n".repeat(line_ends));
            let message = Message::request(Method::Message, "sip:a@b").with_body("a/b", body);
            stream.extend(message.to_bytes());
            messages.push(message.to_bytes());
        }
        let mut reader = StreamReader::new(FramingLimits { header_bytes: 200, body_bytes: 30 });
        let mut received = BytesMut::new();
        let mut found: Vec<Bytes> = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            received.extend_from_slice(piece);
            while let Some(frame) = reader.next(&mut received).expect("a clean stream") {
                if let Frame::Message(message) = frame {
                    found.push(message);
                }
            }
            assert!(received.len() < 230);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(found, messages);
    }

    #[test]
    fn arbitrary_streams_neither_panic_nor_grow(pieces in vec(message_like(), 0..10)) {
        let limits = FramingLimits { header_bytes: 300, body_bytes: 100 };
        let mut reader = StreamReader::new(limits);
        let mut received = BytesMut::new();
        'stream: for piece in pieces {
            received.extend_from_slice(&piece);
            loop {
                match reader.next(&mut received) {
                    Ok(Some(Frame::Message(message))) => assert!(message.len() <= 400),
                    Ok(Some(Frame::Ping | Frame::Pong)) => {}
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
            assert!(received.len() <= 400);
        }
    }
}
