//! The values of SIP header fields, read from anything.

use sip::digest::{Authorization, Challenge, Confirmation};
use sip::sdp::{Section, SessionDescription};
use sip::{Message, Name, NameAddr, Uri, Via};

/// Reads octets as a URI, and asks it for everything.
pub fn uri(octets: &[u8]) {
    let Some(uri) = std::str::from_utf8(octets)
        .ok()
        .and_then(|text| Uri::parse(text).ok())
    else {
        return;
    };
    assert_eq!(uri.as_str().as_bytes(), octets);
    assert!(uri.is_equivalent(&uri));
    let _ = uri.scheme();
    let address = uri.address_of_record();
    if let Some(sip) = uri.as_sip() {
        let _ = (sip.user_unescaped(), sip.password(), sip.port());
        let _ = sip.parameters().count();
        let without = sip.without_headers();
        let again = Uri::parse(without).expect("the same without headers");
        assert_eq!(again.address_of_record(), address);
    }
}

/// Reads octets as a session description, and asks it for everything.
pub fn session_description(octets: &[u8]) {
    let Ok(description) = SessionDescription::read(octets) else {
        return;
    };
    let written = description.to_bytes();
    // Nothing is lost but how lines have ended.
    let bare = |octets: &[u8]| {
        let mut octets = octets.to_vec();
        octets.retain(|octet| !matches!(octet, b'\r' | b'\n'));
        octets
    };
    assert_eq!(bare(octets), bare(&written));
    let again = SessionDescription::read(&written);
    assert_eq!(again.as_ref(), Ok(&description));
    assert!(description.origin().is_some());
    for media in description.media() {
        let line = media.media_line().expect("it was checked");
        assert!(line.formats().next().is_some());
        let _ = (line.payload_types().count(), description.direction(media));
        let connection = description.connection(media);
        let _ = connection.map(|there| (there.ip(), there.to_string()));
        for map in media.rtp_maps() {
            let mut other = Section::media(&line);
            other.push_rtp_map(&map);
            assert_eq!(other.rtp_maps().next(), Some(map));
        }
        for format in line.formats() {
            let _ = media.format_parameters(format);
        }
        let _ = media.packet_time();
    }
}

/// Reads octets as the value of each header field that has a type, and asks it for everything.
pub fn header(octets: &[u8]) {
    if let Ok(via) = Via::parse(octets) {
        let _ = (via.transport(), via.host().address(), via.port());
        let _ = (via.branch(), via.received(), via.has_rport(), via.rport());
        let _ = (via.maddr(), via.ttl(), via.parameter("x"));
    }
    if let Ok(address) = NameAddr::parse(octets) {
        let _ = (
            address.display_name(),
            address.tag(),
            address.parameter("x"),
        );
        assert!(address.q() <= 1000);
        let _ = address.expires();
        uri(address.uri().as_bytes());
    }
    if let Ok(challenge) = Challenge::parse(octets) {
        let _ = format!("{challenge:?}");
    }
    if let Ok(given) = Authorization::parse(octets) {
        // What is written can be read, and says the same; but for an algorithm that we do not know.
        let written = given.to_string();
        let again = Authorization::parse(written.as_bytes()).expect("what was written");
        if given.algorithm.is_some() {
            assert_eq!(again.to_string(), written);
        }
    }
    let _ = Confirmation::parse(octets);
    field(octets);
}

/// The same through a message, where a value is cut at its commas and folded.
fn field(octets: &[u8]) {
    let mut message = Message::request(sip::Method::Options, "sip:example.com");
    for name in [
        Name::CSeq,
        Name::Route,
        Name::Contact,
        Name::MaxForwards,
        Name::Expires,
        Name::ContentLength,
        Name::Other("X"),
    ] {
        message.push_back(name, octets);
    }
    let written = message.to_bytes();
    assert_eq!(written.len(), message.wire_length());
    let read = Message::read(written).expect("what was written");
    let _ = read.validate();
    let _ = (read.cseq(), read.max_forwards(), read.expires());
    let _ = read.content_length();
    let _ = read.routes().count() + read.contacts().count();
    // A value does not get out of its field.
    assert_eq!(read.fields().count(), message.fields().count());
    let values = |message: &Message| message.values(Name::Other("X")).count();
    assert_eq!(values(&read), values(&message));
}
