use bytes::Bytes;

use super::*;
use crate::{MAXIMUM_FIELDS, ReadError, Violation};

const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
    v: SIP/2.0/UDP bigbox3.atlanta.com;branch=z9hG4bK77ef.1 ,\r\n  SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\n\
    X-Unknown:  kept \r\n\tas it is\r\n\
    MAX-forwards : 70\r\n\
    Route: <sip:a;lr>\r\n\
    Subject: one,two\r\n\
    route: <sip:b;lr>, <sip:c,d@e;lr>\r\n\
    To: Bob <sip:bob@biloxi.com>\r\n\
    f: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
    i: a84b4c76e66710\r\n\
    CSeq: 314159 INVITE\r\n\
    Timestamp: 54.2\r\n\
    Content-Type: text/plain\r\n\
    l: 5\r\n\
    \r\n\
    hello";

fn read(text: &str) -> Message {
    Message::read(Bytes::from(text.to_owned())).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text(message: &Message) -> String {
    let wire = message.to_bytes();
    assert_eq!(wire.len(), message.wire_length());
    String::from_utf8(wire.into()).expect("text")
}

/// What INVITE becomes when lines of it are replaced.
fn invite_with(replacements: &[(&str, &str)]) -> String {
    replacements
        .iter()
        .fold(INVITE.to_owned(), |text, (line, replacement)| {
            assert!(text.contains(line), "{line}");
            text.replace(line, replacement)
        })
}

#[test]
fn nothing_is_copied_where_nothing_was_edited() {
    let octets = Bytes::from_static(INVITE.as_bytes());
    let message = Message::read(octets.clone()).expect("a message");
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(message.to_bytes().as_ptr(), octets.as_ptr());
    assert_eq!(
        message.body_bytes().as_ptr(),
        octets[octets.len() - 5..].as_ptr()
    );
}

#[test]
fn values_of_all_forms() {
    let message = read(INVITE);
    let routes: Vec<_> = message.text_values(Name::Route).collect();
    assert_eq!(routes, ["<sip:a;lr>", "<sip:b;lr>", "<sip:c,d@e;lr>"]);
    assert_eq!(message.headers(Name::Route).count(), 2);
    assert_eq!(message.vias().count(), 2);
    // A comma separates nothing where the field is no list.
    assert_eq!(
        message.text_values(Name::Subject).collect::<Vec<_>>(),
        ["one,two"]
    );
    assert_eq!(
        message.header(Name::Other("x-unknown")),
        Some("kept \r\n\tas it is")
    );
    assert_eq!(
        message.header(Name::Other("Call-ID")),
        Some("a84b4c76e66710")
    );
    assert!(!message.contains(Name::Contact) && !message.contains(Name::Other("X-None")));
    let names: Vec<_> = message
        .fields()
        .map(|(name, _)| name.as_str().to_owned())
        .collect();
    assert_eq!(names[..3], ["Via", "X-Unknown", "Max-Forwards"]);
    assert_eq!(names.len(), 13);
}

/// What a proxy does with a request (RFC 3261 section 16.6) leaves all other lines alone.
#[test]
fn forwarding_edits_keep_every_other_line() {
    let mut message = read(INVITE);
    message.set_top_via_parameter("received", Some("192.0.2.1"));
    message.push_front(Name::Via, "SIP/2.0/TCP proxy;branch=z9hG4bKx");
    message.replace(Name::MaxForwards, "69");
    assert!(message.remove_first_value(Name::Route));
    message.push_front(Name::RecordRoute, "<sip:proxy;lr>");
    message.set_request_uri("sip:bob@192.0.2.4");
    let expected = invite_with(&[
        (
            "INVITE sip:bob@biloxi.com SIP/2.0\r\n",
            "INVITE sip:bob@192.0.2.4 SIP/2.0\r\nRecord-Route: <sip:proxy;lr>\r\n",
        ),
        ("v: SIP", "Via: SIP/2.0/TCP proxy;branch=z9hG4bKx\r\nv: SIP"),
        ("z9hG4bK77ef.1 ,", "z9hG4bK77ef.1;received=192.0.2.1 ,"),
        ("MAX-forwards : 70", "MAX-forwards: 69"),
        ("Route: <sip:a;lr>\r\n", ""),
    ]);
    assert_eq!(text(&message), expected);
    let again = read(&expected);
    assert_eq!(again.validate(), Ok(()));
    assert_eq!(again.request_uri(), Some("sip:bob@192.0.2.4"));
    assert_eq!(
        again.top_via().expect("Via").transport(),
        message.top_via().expect("Via").transport()
    );
}

#[test]
fn first_values_are_taken_away_one_by_one() {
    let mut message = read(INVITE);
    assert!(message.remove_first_value(Name::Via));
    assert_eq!(
        text(&message),
        invite_with(&[(
            "v: SIP/2.0/UDP bigbox3.atlanta.com;branch=z9hG4bK77ef.1 ,\r\n  ",
            "v: "
        )])
    );
    assert!(message.remove_first_value(Name::Via));
    assert!(!message.remove_first_value(Name::Via));
    assert!(message.top_via().is_none());
    for expected in ["<sip:b;lr>", "<sip:c,d@e;lr>"] {
        assert!(message.remove_first_value(Name::Route));
        assert_eq!(message.text_values(Name::Route).next(), Some(expected));
    }
    assert!(message.remove_first_value(Name::Route));
    assert!(!message.contains(Name::Route));
    // All of a field that is no list is one value.
    assert!(message.remove_first_value(Name::Subject));
    assert!(!message.contains(Name::Subject));
}

/// A peer decides how long a list is: taking it apart must not cost more memory than it has octets.
#[test]
fn a_long_list_is_taken_apart_in_its_place() {
    let routes: Vec<String> = (0..2_000)
        .map(|n| format!("<sip:p{n}.example;lr>"))
        .collect();
    let list = routes.join(", ");
    let mut message = read(&format!(
        "OPTIONS sip:a SIP/2.0\r\nroute :{list}\r\nTo: x\r\n\r\n"
    ));
    for (gone, left) in (1..).zip(&routes[1..]) {
        assert!(message.remove_first_value(Name::Route));
        assert_eq!(message.values(Name::Route).next(), Some(left.as_bytes()));
        if gone == routes.len() / 2 {
            let rest = routes[gone..].join(", ");
            let expected = format!("OPTIONS sip:a SIP/2.0\r\nroute: {rest}\r\nTo: x\r\n\r\n");
            assert_eq!(text(&message), expected);
        }
    }
    assert!(message.0.written.len() <= list.len() + "route: \r\n".len());
    assert!(message.remove_first_value(Name::Route));
    assert_eq!(text(&message), "OPTIONS sip:a SIP/2.0\r\nTo: x\r\n\r\n");
}

#[test]
fn empty_fields_do_not_count_as_values() {
    let mut message =
        read("OPTIONS sip:a SIP/2.0\r\nRoute:\r\nRoute: ,\r\nRoute: ,<sip:b>,\r\n\r\n");
    assert!(message.remove_first_value(Name::Route));
    assert_eq!(text(&message), "OPTIONS sip:a SIP/2.0\r\n\r\n");
    assert!(!message.remove_first_value(Name::Route));
}

#[test]
fn replacing_and_removing_reach_all_fields_of_a_name() {
    let mut message = read(INVITE);
    message.replace(Name::Route, "<sip:z;lr>");
    assert_eq!(
        text(&message),
        invite_with(&[
            ("Route: <sip:a;lr>", "Route: <sip:z;lr>"),
            ("route: <sip:b;lr>, <sip:c,d@e;lr>\r\n", "")
        ])
    );
    let mut message = read(INVITE);
    assert_eq!(message.remove_all(Name::Route), 2);
    assert_eq!(message.remove_all(Name::Route), 0);
    message.replace(Name::Route, "<sip:z;lr>");
    assert_eq!(
        message.text_values(Name::Route).collect::<Vec<_>>(),
        ["<sip:z;lr>"]
    );
    // New fields stand before a Content-Length at the end.
    assert!(text(&message).contains("\r\nRoute: <sip:z;lr>\r\nl: 5\r\n\r\nhello"));
}

#[test]
fn fields_are_copied_as_written() {
    let mut message = Message::request(Method::Options, "sip:bob@biloxi.com");
    message.copy_fields(&read(INVITE), Name::Route);
    message.copy_fields(&read(INVITE), Name::Other("x-unknown"));
    assert_eq!(
        text(&message),
        "OPTIONS sip:bob@biloxi.com SIP/2.0\r\nRoute: <sip:a;lr>\r\nroute: <sip:b;lr>, <sip:c,d@e;lr>\r\n\
         X-Unknown: kept \r\n\tas it is\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn no_value_brings_in_a_field() {
    let mut message = Message::request(Method::Options, "sip:a\r\nX: 1");
    message.push_back(Name::Subject, "a\r\nX: 2\r\n\r\n");
    message.push_back(Name::Subject, "folded\r\n here\rX: 3\nX: 4");
    message.push_back(Name::Subject, "\r\n\r\n");
    let again = read(&text(&message));
    assert_eq!(again.fields().count(), 4);
    assert!(!again.contains(Name::Other("X")));
    assert_eq!(again.header(Name::Subject), Some("a  X: 2"));
    assert_eq!(
        again.headers(Name::Subject).nth(1),
        Some(&b"folded\r\n here X: 3 X: 4"[..])
    );
}

/// A header field may be folded, a start line may not (RFC 3261 section 7.1): what continued it would be a field.
#[test]
fn no_value_folds_a_start_line() {
    let mut message = Message::request(Method::from_name("A\r\n B"), "sip:a\r\n X: 1");
    assert!(text(&message).starts_with("A   B sip:a   X: 1 SIP/2.0\r\nContent-Length"));
    message.set_request_uri("sip:b\r\n\tX: 1");
    assert!(text(&message).contains(" sip:b  \tX: 1 SIP/2.0\r\nContent-Length"));
    let response = Message::response_to(&read(INVITE), 486, "Busy\r\n Here\n");
    assert!(text(&response).starts_with("SIP/2.0 486 Busy   Here \r\nv: "));
    assert_eq!(read(&text(&response)).validate(), Ok(()));
}

/// Whatever the lines are and however they are ordered, those that no edit is about go out octet by octet as they came.
#[test]
fn lines_of_any_form_are_kept() {
    const VIA: &str =
        "v: SIP/2.0/UDP a;branch=z9hG4bK1, SIP / 2.0 / TCP b:5070 ;\r\n  branch=z9hG4bK2\r\n";
    const LINES: [&str; 11] = [
        VIA,
        "X-Unknown : \t kept, as \r\n\t it  is \r\n",
        "subject:\r\n",
        "Subject:  \r\n\t\r\n \r\n",
        "l : 3 \r\n",
        "P-A:\0\u{1}\u{fc}\u{7f};;,,\"\r\n",
        "m:<sip:a@b>\r\n",
        "K:100rel,timer\r\n",
        "Record-Route: <sip:a,b;lr>,\r\n\t<sip:c;lr>\r\n",
        "t: \"<,;\\\"\" <sip:b@b>\r\n ;x=\"y\"\r\n",
        "Max-Forwards:70\r\n",
    ];
    for first in 0..LINES.len() {
        for step in 1..LINES.len() {
            let lines = (0..LINES.len()).map(|at| LINES[(first + at * step) % LINES.len()]);
            let lines: String = lines.collect();
            let came = format!("invite  sip:a  SIP/2.0 \r\n{lines}\r\na\0b");
            let mut message = read(&came);
            assert_eq!(text(&message), came);
            message.set_max_forwards(69);
            message.push_front(Name::Via, "SIP/2.0/UDP p;branch=z9hG4bK0");
            message.push_front(Name::RecordRoute, "<sip:p;lr>");
            message.push_back(Name::Supported, "x");
            let sent = came
                .replace("v: ", "Via: SIP/2.0/UDP p;branch=z9hG4bK0\r\nv: ")
                .replace(
                    "Record-Route: ",
                    "Record-Route: <sip:p;lr>\r\nRecord-Route: ",
                )
                .replace("Forwards:70", "Forwards: 69")
                .replace("timer\r\n", "timer\r\nSupported: x\r\n");
            assert_eq!(text(&message), sent);
            // Taking off our Via gives back what it was put before.
            assert!(message.remove_first_value(Name::Via));
            assert!(text(&message).contains(VIA));
            message.set_top_via_parameter("received", Some("192.0.2.1"));
            let noted = VIA.replace("bK1,", "bK1;received=192.0.2.1,");
            assert!(text(&message).contains(&noted));
        }
    }
}

#[test]
fn bodies_change_with_their_length_and_type() {
    let mut message = read(INVITE);
    message.set_body(Some("application/sdp"), Bytes::from_static(b"v=0\r\n\r\n"));
    assert_eq!(
        text(&message),
        invite_with(&[
            ("text/plain", "application/sdp"),
            ("l: 5", "l: 7"),
            ("hello", "v=0\r\n\r\n")
        ])
    );
    message.set_body(None, Bytes::new());
    assert!(!message.contains(Name::ContentType));
    assert_eq!(
        (message.content_length(), message.body()),
        (Some(0), &b""[..])
    );

    let built = Message::request(Method::Message, "sip:a@b").with_body("text/plain", "hi");
    assert_eq!(
        text(&built),
        "MESSAGE sip:a@b SIP/2.0\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
    );
}

#[test]
fn content_length_is_added_where_it_is_missing() {
    let mut message = read("OPTIONS sip:a SIP/2.0\r\n\r\nhello");
    message.ensure_content_length();
    message.ensure_content_length();
    assert_eq!(
        text(&message),
        "OPTIONS sip:a SIP/2.0\r\nContent-Length: 5\r\n\r\nhello"
    );
}

/// RFC 3261 section 8.2.6.
#[test]
fn responses_take_from_the_request_what_they_must() {
    let mut response = Message::response_to(&read(INVITE), 180, "Ringing");
    response.set_to_tag("a6c85cf");
    response.set_to_tag("other");
    assert_eq!(
        text(&response),
        "SIP/2.0 180 Ringing\r\n\
         v: SIP/2.0/UDP bigbox3.atlanta.com;branch=z9hG4bK77ef.1 ,\r\n  SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\n\
         f: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
         To: Bob <sip:bob@biloxi.com>;tag=a6c85cf\r\n\
         i: a84b4c76e66710\r\n\
         CSeq: 314159 INVITE\r\n\
         Content-Length: 0\r\n\r\n"
    );
    assert_eq!(
        (response.status(), response.reason()),
        (Some(180), Some("Ringing"))
    );
    assert_eq!(response.validate(), Ok(()));
    // Section 8.2.6.1: a 100 has the Timestamp too.
    let trying = Message::response_to(&read(INVITE), 100, "Trying");
    assert_eq!(trying.header(Name::Timestamp), Some("54.2"));
}

#[test]
fn what_cannot_be_answered_is_not() {
    let violation = Violation {
        status: 400,
        reason: "Bad Request",
    };
    assert!(Message::rejection(&read(INVITE), &violation).is_some());
    for text in [
        invite_with(&[("INVITE", "ACK")]),
        invite_with(&[("v: ", "x: ")]),
        invite_with(&[("v: SIP/2.0/UDP", "v: UDP")]),
        invite_with(&[("INVITE sip:bob@biloxi.com SIP/2.0", "SIP/2.0 200 OK")]),
    ] {
        assert!(
            Message::rejection(&read(&text), &violation).is_none(),
            "{text}"
        );
    }
}

#[test]
fn start_lines() {
    for text in [
        "",
        "hello",
        "GET / HTTP/1.1",
        "INVITE sip:a",
        "INVITE SIP/2.0",
        " SIP/2.0",
        "INVITE  SIP/2.0",
        "INVITE \t SIP/2.0",
        "INVITE \r\r SIP/2.0",
        "SIP/2.0",
        "SIP/2.0 OK",
        "SIP/2 200 OK",
        "INVITE sip:a SIP/2",
        "INVITE sip:a SIP/2.0 x",
        "\u{0}\u{1}\u{2}",
        "SIP/2.0  ",
    ] {
        let text = format!("{text}\r\nTo: sip:a\r\n\r\n");
        assert_eq!(
            Message::read(text.clone().into()).err(),
            Some(ReadError::StartLine),
            "{text}"
        );
    }
    let message = read("SIP/2.0 200\r\n\r\n");
    assert_eq!((message.status(), message.reason()), (Some(200), Some("")));
    let message = read("sip/2.0 404 Not  here \r\n\r\n");
    assert_eq!(
        (message.status(), message.reason()),
        (Some(404), Some("Not  here "))
    );
}

#[test]
fn keep_alives_are_empty_and_line_ends_before_a_message_ignored() {
    for text in ["\r\n\r\n", "\r\n", "\n", ""] {
        assert_eq!(Message::read(text.into()).err(), Some(ReadError::Empty));
    }
    let message = read(&format!("\r\n\r\n{INVITE}"));
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(text(&message), INVITE);
}

#[test]
fn the_number_of_fields_is_bounded() {
    let with = |count| format!("OPTIONS sip:a SIP/2.0\r\n{}\r\n", "a:\r\n".repeat(count));
    assert!(Message::read(with(MAXIMUM_FIELDS).into()).is_ok());
    let error = Message::read(with(MAXIMUM_FIELDS + 1).into()).err();
    assert_eq!(error, Some(ReadError::TooManyFields));
}

/// RFC 3261 section 18.3.
#[test]
fn content_length_delimits_the_body() {
    let longer = read(&format!("{INVITE} and more"));
    assert_eq!(longer.body(), b"hello");
    assert_eq!(text(&longer), INVITE);
    let missing = read(&invite_with(&[("l: 5\r\n", "")]));
    assert_eq!(
        (missing.body(), missing.validate()),
        (&b"hello"[..], Ok(()))
    );
    let shorter = read(&INVITE[..INVITE.len() - 1]);
    assert_eq!(shorter.body(), b"hell");
    assert!(shorter.validate().is_err());
}

#[test]
fn octets_that_are_not_utf8_survive_and_hide_nothing() {
    let latin = INVITE.replace("Alice <", "\"J?rgen\" <").into_bytes();
    let latin: Vec<u8> = latin
        .into_iter()
        .map(|octet| if octet == b'?' { 0xfc } else { octet })
        .collect();
    let mut message = Message::read(latin.clone().into()).expect("a message");
    assert_eq!(message.validate(), Ok(()));
    assert_eq!(message.header(Name::From), None);
    assert!(message.header_bytes(Name::From).is_some());
    let from = message.from().expect("From");
    assert_eq!(
        (from.uri(), from.tag()),
        ("sip:alice@atlanta.com", Some("1928301774"))
    );
    message.replace(Name::MaxForwards, "69");
    let needle = b"f: \"J\xfcrgen\" <sip:alice@atlanta.com>;tag=1928301774\r\n";
    assert!(
        message
            .to_bytes()
            .windows(needle.len())
            .any(|window| window == needle)
    );
    let response = Message::response_to(&message, 200, "OK").to_bytes();
    assert!(
        response
            .windows(needle.len())
            .any(|window| window == needle)
    );
}

#[test]
fn violations() {
    for (line, replacement, expected) in [
        (
            "INVITE sip:bob@biloxi.com SIP/2.0",
            "INVITE sip:bob@biloxi.com SIP/3.0",
            (505, "Version Not Supported"),
        ),
        (
            "INVITE sip:bob@biloxi.com",
            "INVITE bob",
            (400, "Malformed Request-URI"),
        ),
        ("INVITE sip", "INV@ITE sip", (400, "Malformed Request-Line")),
        ("To: Bob", "Tom: Bob", (400, "Missing To")),
        (
            "Subject: one,two",
            "Subject one,two",
            (400, "Malformed Header Field"),
        ),
        (
            "Subject: one,two",
            ": one,two",
            (400, "Malformed Header Field"),
        ),
        (
            "Subject: one,two",
            "Sub ject: one,two",
            (400, "Malformed Header Field"),
        ),
        (
            "Subject: one,two\r\n",
            "Subject: one,two\n",
            (400, "Line Not Ended By CRLF"),
        ),
        (
            "Subject: one,two",
            "Subject: one\rX: two",
            (400, "Line Not Ended By CRLF"),
        ),
        ("\r\n\r\nhello", "\r\n", (400, "Header Section Not Ended")),
        ("v: SIP", "x: SIP", (400, "Missing Via")),
        ("v: SIP", "v: ,SIP", (400, "Malformed Via")),
        ("z9hG4bK77ef.1", "z9hG4bK", (400, "Empty Branch")),
        ("i: a84b4c76e66710", "i:", (400, "Malformed Call-ID")),
        ("i: a84b4c76e66710", "i: a b", (400, "Malformed Call-ID")),
        (
            "CSeq: 314159 INVITE",
            "CSeq: 2147483648 INVITE",
            (400, "Malformed CSeq"),
        ),
        (
            "CSeq: 314159 INVITE",
            "CSeq: -1 INVITE",
            (400, "Malformed CSeq"),
        ),
        (
            "CSeq: 314159 INVITE",
            "CSeq: 314159",
            (400, "Malformed CSeq"),
        ),
        (
            "CSeq: 314159 INVITE",
            "CSeq: 314159 ACK",
            (400, "CSeq Method Does Not Match"),
        ),
        (
            "CSeq: 314159 INVITE",
            "CSeq: 314159 invite",
            (400, "CSeq Method Does Not Match"),
        ),
        (
            "MAX-forwards : 70",
            "MAX-forwards : 256",
            (400, "Malformed Max-Forwards"),
        ),
        (
            "Bob <sip:bob@biloxi.com>",
            "Bob <bob@biloxi.com>",
            (400, "Malformed To"),
        ),
        ("f: Alice", "f: Ali;ce", (400, "Malformed From")),
        (
            "Route: <sip:a;lr>",
            "Route: sip:a",
            (400, "Malformed Route"),
        ),
        (
            "Subject: one,two",
            "Contact: *",
            (400, "Misplaced * In Contact"),
        ),
        (
            "Subject: one,two",
            "Contact: <sip:a>,",
            (400, "Malformed Contact"),
        ),
        ("Subject: one,two", "t: sip:a", (400, "Repeated To")),
        ("l: 5", "l: 5x", (400, "Malformed Content-Length")),
        (
            "l: 5",
            "l: 99999999999999999999999",
            (400, "Malformed Content-Length"),
        ),
        ("l: 5", "l: 6", (400, "Body Shorter Than Content-Length")),
    ] {
        let message = read(&invite_with(&[(line, replacement)]));
        let violation = message
            .validate()
            .err()
            .map(|violation| (violation.status, violation.reason));
        assert_eq!(violation, Some(expected), "{replacement}");
    }
    let register = |contact| {
        let text = invite_with(&[("INVITE", "REGISTER"), ("Subject: one,two", contact)]);
        read(&text).validate().is_ok()
    };
    assert!(register("Contact: *"));
    assert!(register("Contact: <sip:a>, sip:b;q=0.5"));
    assert!(!register("Contact: *\r\nContact: <sip:a>"));
    assert!(!register("Contact: <sip:a>, *"));
}

#[test]
fn tags_are_those_of_the_addresses() {
    for value in [
        "<sip:a@b>",
        "<sip:a@b>;tag=1",
        "<sip:a@b>;TAG=1",
        "<sip:a@b>;tag=",
        "<sip:a@b>;tag",
        "<sip:a@b> ;tag=1",
        "<sip:a@b>;tag=1;x=2",
        "<sip:a@b>;x=2;tag=1",
        "<sip:a@b>;tag=\"1\"",
        "<sip:a@b>x;tag=1",
        "<sip:a@b",
        "<sip:a<b>>;tag=1",
        "\"<sip:x>;tag=2\" <sip:a@b>;tag=1",
        "sip:a@b;tag=1",
        "<sip:\u{e4}>;tag=1",
        "",
    ] {
        let message = Message::request(Method::Bye, "sip:a")
            .with(Name::To, value)
            .with(Name::From, value);
        let parsed = NameAddr::parse(value.as_bytes()).ok();
        let tag = parsed.and_then(|address| address.tag());
        assert_eq!(
            (message.to_tag(), message.from_tag()),
            (tag, tag),
            "{value}"
        );
        assert_eq!(message.from_tag_bytes(), tag.map(str::as_bytes), "{value}");
    }
}

fn branches(message: &Message) -> (Option<&str>, Option<&str>) {
    let parsed = message.vias().next().and_then(Result::ok);
    let branch = parsed.and_then(|via| via.branch());
    (message.top_via().and_then(|via| via.branch()), branch)
}

/// Whatever is edited, what is known of the topmost Via is what stands there.
#[test]
fn edits_of_via_are_noticed() {
    let text = "OPTIONS sip:a@b SIP/2.0\r\nv: SIP/2.0/UDP [2001:db8::1]:5070 ;rport;branch=1,\r\n \
        SIP/2.0/TCP Host.example;branch=2\r\nVia:\r\nFrom: x\r\nVia: SIP/2.0/WS c;maddr=d;branch=3\r\n\r\n";
    let mut message = Message::read(Bytes::from(text)).expect("a message");
    let via = message.top_via().expect("a Via");
    assert_eq!(
        (via.host().to_string(), via.port(), via.transport_name()),
        ("[2001:db8::1]".to_owned(), Some(5070), "UDP")
    );
    assert!(via.has_rport() && !via.has_received() && via.maddr().is_none());
    let edits: [fn(&mut Message); 9] = [
        |message| message.set_top_via_parameter("branch", Some("11")),
        |message| message.push_front(Name::Via, "SIP/2.0/UDP x;branch=4;received=y"),
        |message| message.push_front(Name::From, "z"),
        |message| assert!(message.remove_first_value(Name::Via)),
        |message| assert!(message.remove_first_value(Name::Via)),
        |message| message.retain(Name::Via, |value| value.contains(&b'W')),
        |message| message.replace(Name::Via, "SIP/2.0/UDP y:1;branch=5"),
        |message| assert_eq!(message.remove_all(Name::Via), 1),
        |message| message.push_back(Name::Via, "SIP/2.0/UDP z;branch=6"),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        edit(&mut message);
        let count = message.values(Name::Via).count();
        assert_eq!(message.has_one_via(), count < 2, "{number}");
        let copy = message.clone();
        let (known, parsed) = branches(&copy);
        assert_eq!(known, parsed, "{number}");
        assert_eq!(branches(&message), (known, parsed), "{number}");
        assert_eq!(known.is_none(), number == 7, "{number}");
    }
    assert_eq!(branches(&message).0, Some("6"));
}

/// Each transaction keeps some; the next larger blocks of an allocator are a quarter larger.
#[test]
fn a_message_takes_no_more_than_256_octets_beside_its_text() {
    assert!(size_of::<super::Contents>() <= 256);
}
