//! The messages of RFC 3261 section 24.2 and of RFC 3665, all of them: read, validated, written.

use bytes::Bytes;
use sip::{Message, Method, Name, Transport};

/// The messages of a file, each followed by a line of equals signs. Bodies that the RFC does not
/// show are filled up to their Content-Length.
fn messages(file: &'static str) -> Vec<Message> {
    file.split_terminator("=====\r\n")
        .map(|text| {
            let header = Message::read(Bytes::from_static(text.as_bytes())).expect(text);
            let missing = header.content_length().unwrap_or(0) - header.body().len();
            let octets = [text.as_bytes(), &vec![b'x'; missing]].concat();
            let message = Message::read(octets.clone().into()).expect(text);
            assert_eq!(message.validate(), Ok(()), "{text}");
            assert_eq!(message.to_bytes(), octets);
            message
        })
        .collect()
}

#[test]
fn rfc3261_section_24() {
    let messages = messages(include_str!("../examples/rfc3261.txt"));
    assert_eq!(messages.len(), 16);

    let invite = &messages[4];
    assert_eq!(invite.method(), Some(&Method::Invite));
    assert_eq!(invite.request_uri(), Some("sip:bob@biloxi.com"));
    let vias: Vec<_> = invite.vias().map(|via| via.expect("Via")).collect();
    assert_eq!(vias[0].branch(), Some("z9hG4bK77ef4c2312983.1"));
    assert_eq!(
        vias[1]
            .received()
            .map(|address| address.to_string())
            .as_deref(),
        Some("192.0.2.1")
    );
    assert_eq!(invite.max_forwards(), Some(69));
    assert_eq!(invite.from().expect("From").tag(), Some("1928301774"));
    assert_eq!(
        invite.to().expect("To").display_name().as_deref(),
        Some("Bob")
    );
}

#[test]
fn rfc3665() {
    let messages = messages(include_str!("../examples/rfc3665.txt"));
    assert_eq!(messages.len(), 178);
    let requests = messages
        .iter()
        .filter(|message| message.is_request())
        .count();
    let responses = messages
        .iter()
        .filter(|message| message.status().is_some())
        .count();
    assert_eq!(requests + responses, 178);
    for message in &messages {
        let (number, method) = message.cseq().expect("CSeq");
        assert!(number > 0 && !matches!(method, Method::Other(_)));
        assert!(message.from().is_some_and(|from| from.tag().is_some()));
        assert!(message.to().is_some_and(|to| to.parse_uri().is_ok()));
        let transport = message.top_via().expect("Via").transport();
        assert!(matches!(
            transport,
            Some(Transport::Udp | Transport::Tcp | Transport::Tls)
        ));
        for route in message.routes().chain(message.record_routes()) {
            let uri = route.expect("an address").parse_uri().expect("a URI");
            assert!(
                uri.as_sip()
                    .is_some_and(|uri| uri.parameters().contains("lr"))
            );
        }
        for field in message.values(Name::WwwAuthenticate) {
            assert!(field.starts_with(b"Digest realm="));
        }
    }
}
