use std::time::Duration;

use super::*;

/// Text with LF as a description on the wire.
fn wire(text: &str) -> Vec<u8> {
    let lines = text.trim().lines().map(str::trim);
    lines.fold(Vec::new(), |mut octets, line| {
        octets.extend_from_slice(line.as_bytes());
        octets.extend_from_slice(b"\r\n");
        octets
    })
}

fn read(text: &str) -> SessionDescription {
    let octets = wire(text);
    let read = SessionDescription::read(&octets).expect("a description");
    assert_eq!(read.to_bytes(), octets);
    read
}

#[track_caller]
fn refused(text: &str) -> (usize, SdpProblem) {
    let error = SessionDescription::read(&wire(text)).expect_err("it is refused");
    (error.line, error.problem)
}

/// RFC 8866 section 5.
const EXAMPLE: &str = "v=0
    o=jdoe 3724394400 3724394405 IN IP4 198.51.100.1
    s=Call to John Smith
    i=SDP Offer #1
    u=http://www.jdoe.example.com/home.html
    e=Jane Doe <jane@jdoe.example.com>
    p=+1 617 555-6011
    c=IN IP4 198.51.100.1
    t=0 0
    m=audio 49170 RTP/AVP 0
    m=audio 49180 RTP/AVP 0
    m=video 51372 RTP/AVP 99
    c=IN IP6 2001:db8::2
    a=rtpmap:99 h263-1998/90000";

#[test]
fn the_example_of_rfc_8866_says_what_it_says() {
    let description = read(EXAMPLE);
    let origin = description.origin().expect("an origin");
    assert_eq!(origin.username, "jdoe");
    assert_eq!(origin.session_id, 3_724_394_400);
    assert_eq!(origin.session_version, 3_724_394_405);
    assert_eq!(origin.address.ip(), Some([198, 51, 100, 1].into()));
    assert_eq!(description.session().text(b's'), Some("Call to John Smith"));
    let [first, _, video] = description.media() else {
        panic!("three media")
    };
    let audio = first.media_line().expect("a medium");
    assert_eq!((audio.kind, audio.port, audio.ports), ("audio", 49_170, 1));
    assert_eq!(audio.protocol, "RTP/AVP");
    assert_eq!(audio.payload_types().collect::<Vec<_>>(), [0]);
    let address = |media| description.connection(media).map(|there| there.address());
    assert_eq!(address(first).as_deref(), Some("198.51.100.1"));
    assert_eq!(address(video).as_deref(), Some("2001:db8::2"));
    let maps: Vec<RtpMap<'_>> = video.rtp_maps().collect();
    let expected = RtpMap {
        payload_type: 99,
        encoding: "h263-1998",
        clock_rate: 90_000,
        parameters: None,
    };
    assert_eq!(maps, [expected]);
}

/// RFC 8866 section 6.7.
#[test]
fn a_direction_of_the_session_holds_for_media_that_have_none() {
    let description = read(
        "v=0
        o=jdoe 3724395000 3724395001 IN IP6 2001:db8::1
        s=-
        c=IN IP6 2001:db8::1
        t=0 0
        a=inactive
        m=audio 49170 RTP/AVP 0
        a=sendrecv
        m=audio 49180 RTP/AVP 0
        m=video 51372 RTP/AVP 99
        a=rtpmap:99 h263-1998/90000",
    );
    let directions: Vec<Direction> = description
        .media()
        .iter()
        .map(|media| description.direction(media))
        .collect();
    assert_eq!(
        directions,
        [
            Direction::SendReceive,
            Direction::Inactive,
            Direction::Inactive
        ]
    );
    assert_eq!(Direction::SendOnly.reversed(), Direction::ReceiveOnly);
}

/// RFC 3264 section 10.1.
#[test]
fn an_answer_of_rfc_3264() {
    let description = read(
        "v=0
        o=bob 2890844730 2890844731 IN IP4 host.example.com
        s=
        c=IN IP4 host.example.com
        t=0 0
        m=audio 65422 RTP/AVP 0
        a=rtpmap:0 PCMU/8000
        m=video 0 RTP/AVP 31
        m=video 53000 RTP/AVP 32
        a=rtpmap:32 MPV/90000
        m=audio 51434 RTP/AVP 110
        a=rtpmap:110 telephone-events/8000
        a=recvonly",
    );
    let ports: Vec<u16> = description
        .media()
        .iter()
        .filter_map(|media| Some(media.media_line()?.port))
        .collect();
    assert_eq!(ports, [65_422, 0, 53_000, 51_434]);
    let last = &description.media()[3];
    assert_eq!(description.direction(last), Direction::ReceiveOnly);
    let there = description.connection(last).expect("an address");
    assert_eq!(
        (there.ip(), there.address().as_str()),
        (None, "host.example.com")
    );
}

#[test]
fn attributes_are_read_when_they_are_asked_for() {
    let description = read(
        "v=0
        o=- 1 1 IN IP4 192.0.2.1
        s=-
        t=3724394400 3724398000
        r=604800 3600 0 90000
        z=3730928400 -1h 3749680800 0
        t=0 0
        k=clear:secret
        a=tool:x
        m=audio 5004/2 RTP/AVP 96  97
        i=a title
        c=IN IP4 233.252.0.1/127
        c=IN IP4 233.252.0.2/127
        b=AS:64
        a=rtpmap:96 L16/44100/2
        a=rtpmap:97 telephone-event/8000
        a=rtpmap:broken
        a=fmtp:97 0-15,66,70
        a=ptime:2.5
        a=x-y:\u{fc}:",
    );
    let media = &description.media()[0];
    let line = media.media_line().expect("a medium");
    assert_eq!((line.port, line.ports), (5004, 2));
    assert_eq!(line.formats().collect::<Vec<_>>(), ["96", "97"]);
    assert_eq!(media.format_parameters("97"), Some("0-15,66,70"));
    assert_eq!(media.format_parameters("9"), None);
    assert_eq!(media.packet_time(), Some(Duration::from_micros(2500)));
    let parameters: Vec<Option<&str>> = media.rtp_maps().map(|map| map.parameters).collect();
    assert_eq!(parameters, [Some("2"), None]);
    assert_eq!(media.connection().and_then(|there| there.ip()), None);
    assert_eq!(description.session().attribute("tool"), Some("x"));
    assert_eq!(description.direction(media), Direction::SendReceive);
}

#[test]
fn what_is_built_can_be_read() {
    let here = Connection::new("2001:db8::1".parse().expect("an address"));
    let mut offer = SessionDescription::new(&Origin::new(7, 8, here), here);
    let mut audio = Section::media(&Media::rtp_audio(49_170, "0 101"));
    audio.push_attribute("fmtp", Some("101 0-15\r\nm=audio 1 RTP/AVP 0"));
    audio.set_direction(Direction::SendOnly);
    audio.set_direction(Direction::Inactive);
    offer.push_media(audio);
    assert_eq!(
        offer.to_bytes(),
        wire(
            "v=0
            o=- 7 8 IN IP6 2001:db8::1
            s=-
            c=IN IP6 2001:db8::1
            t=0 0
            m=audio 49170 RTP/AVP 0 101
            a=fmtp:101 0-15m=audio 1 RTP/AVP 0
            a=inactive"
        )
    );
    assert_eq!(SessionDescription::read(&offer.to_bytes()), Ok(offer));
}

#[test]
fn lines_may_end_with_lf_and_the_last_one_without() {
    let strict = read(EXAMPLE);
    let text = String::from_utf8(wire(EXAMPLE)).expect("UTF-8");
    let tolerated = text.replace("\r\n", "\n");
    for text in [tolerated.as_str(), tolerated.trim_end()] {
        let read = SessionDescription::read(text.as_bytes());
        assert_eq!(read.as_ref(), Ok(&strict));
    }
}

#[test]
fn the_order_of_lines_is_fixed() {
    use SdpProblem::{Malformed, Missing, NoField, OutOfPlace};
    let head = "v=0\no=- 1 1 IN IP4 192.0.2.1\ns=-\n";
    let with = |rest: &str| refused(&format!("{head}{rest}"));
    // RFC 3264 section 9 itself has the time before the connection.
    assert_eq!(with("t=0 0\nc=IN IP4 192.0.2.4"), (5, OutOfPlace(b'c')));
    assert_eq!(with("c=IN IP4 192.0.2.4"), (5, Missing(b't')));
    assert_eq!(with("m=audio 1 RTP/AVP 0"), (4, Missing(b't')));
    assert_eq!(with("a=x\nt=0 0"), (4, Missing(b't')));
    assert_eq!(with("t=0 0\ns=-"), (5, OutOfPlace(b's')));
    assert_eq!(with("t=0 0\nx=-"), (5, OutOfPlace(b'x')));
    assert_eq!(with("x=0 0"), (4, OutOfPlace(b'x')));
    assert_eq!(with("t=0 0\nz=1 1"), (5, OutOfPlace(b'z')));
    assert_eq!(
        with("t=0 0\nm=audio 1 RTP/AVP 0\nt=0 0"),
        (6, OutOfPlace(b't'))
    );
    assert_eq!(
        with("t=0 0\nm=audio 1 RTP/AVP 0\na=x\nc=IN IP4 h"),
        (7, OutOfPlace(b'c'))
    );
    assert_eq!(with("t=0 0\n\na=x"), (5, NoField));
    assert_eq!(with("t = 0 0"), (4, NoField));
    assert_eq!(with("t=0"), (4, Malformed(b't')));
    assert_eq!(refused("o=x"), (1, Missing(b'v')));
    assert_eq!(refused("v=1"), (1, Malformed(b'v')));
    assert_eq!(refused("v=0"), (2, Missing(b'o')));
    assert_eq!(refused("v=0\ns=-"), (2, Missing(b'o')));
    let error = SessionDescription::read(b"v=0\r\ns=-\r\n").expect_err("no origin");
    assert_eq!(error.to_string(), "line 2: \"o=\" is missing");
}

#[test]
fn values_have_their_syntax() {
    let head = "v=0\no=- 1 1 IN IP4 192.0.2.1\ns=-\n";
    for bad in [
        "c=IN IP4",
        "c=IN IP4 a b",
        "b=AS",
        "b=AS:x",
        "t=0 0\na=",
        "t=0 0\na=x:",
        "t=0 0\na=:x",
        "t=0 0\nm=audio 1 RTP/AVP",
        "t=0 0\nm=audio 65536 RTP/AVP 0",
        "t=0 0\nm=audio 1/0 RTP/AVP 0",
        "t=0 0\nm=audio +1 RTP/AVP 0",
        "t=0 0\nm=audio 1 RTP//AVP 0",
        "i=",
    ] {
        let (line, problem) = refused(&format!("{head}{bad}"));
        assert_eq!(line, 3 + bad.lines().count(), "{bad}");
        assert!(
            matches!(problem, SdpProblem::Malformed(_)),
            "{bad}: {problem}"
        );
    }
    for origin in [
        "- 1 IN IP4 h",
        "- x 1 IN IP4 h",
        "- 99999999999999999999 1 IN IP4 h",
    ] {
        let refused = refused(&format!("v=0\no={origin}\ns=-\nt=0 0"));
        assert_eq!(refused, (2, SdpProblem::Malformed(b'o')));
    }
}

#[test]
fn descriptions_have_bounds() {
    let mut octets = wire(EXAMPLE);
    octets.resize(MAXIMUM_OCTETS + 1, b'x');
    let error = SessionDescription::read(&octets).expect_err("too long");
    assert_eq!(error.problem, SdpProblem::TooLong);
    let mut octets = wire(EXAMPLE);
    for _ in 0..MAXIMUM_LINES {
        octets.extend_from_slice(b"a=x\r\n");
    }
    let error = SessionDescription::read(&octets).expect_err("too many");
    assert_eq!(error.problem, SdpProblem::TooManyLines);
    assert_eq!(error.line, MAXIMUM_LINES + 1);
    let error = SessionDescription::read(b"v=0\0\r\n").expect_err("a NUL");
    assert_eq!(error.problem, SdpProblem::Control);
}
