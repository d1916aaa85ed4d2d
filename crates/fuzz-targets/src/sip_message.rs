//! Reads arbitrary bytes as a SIP message, asks it for everything, edits it as a proxy does, and
//! reads the outcome again: an edit must change what it is about and nothing else.

use bytes::Bytes;
use sip::{MAXIMUM_FIELDS, Message, Name, NameAddr, Uri, Via};

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    let Ok(message) = Message::read(Bytes::copy_from_slice(octets)) else {
        return;
    };
    look_at(&message);
    assert!(
        is_part_of(&message.to_bytes(), octets),
        "nothing was edited"
    );
    answer(&message);
    forward(message);
}

fn look_at(message: &Message) {
    let _ = message.validate();
    let _ = message.is_request();
    let _ = message.method();
    let _ = message.status();
    let _ = message.reason();
    let _ = message.body();
    let _ = message.call_id();
    let _ = message.cseq();
    let _ = message.max_forwards();
    let _ = message.expires();
    let _ = message.content_length();
    if let Some(Ok(uri)) = message.request_uri().map(Uri::parse) {
        look_at_uri(&uri);
    }
    for address in [message.from(), message.to()].into_iter().flatten() {
        look_at_address(&address);
    }
    message.top_via().iter().for_each(look_at_via);
    message.vias().flatten().for_each(|via| look_at_via(&via));
    let _ = message.contacts();
    let routes = message.routes().chain(message.record_routes());
    routes.flatten().for_each(|route| look_at_address(&route));
    for (name, value) in message.fields() {
        assert!(value.len() <= message.wire_length());
        assert!(message.contains(name) || matches!(name, Name::Other(_)));
        let _ = message.header(name);
        let _ = message.headers(name).count();
        for value in message.values(name) {
            let _ = Via::parse(value);
            let _ = NameAddr::parse(value);
        }
    }
    let _ = format!("{message} {message:?}");
}

fn look_at_uri(uri: &Uri<'_>) {
    assert!(uri.is_equivalent(uri));
    let _ = uri.address_of_record();
    if let Some(uri) = uri.as_sip() {
        let _ = uri.user_unescaped();
        let _ = (uri.password(), uri.host().address(), uri.port());
        let _ = uri.parameter("transport");
        let _ = uri.without_headers();
    }
}

fn look_at_address(address: &NameAddr<'_>) {
    let _ = (address.display_name(), address.tag());
    let _ = (address.parameter("x"), address.q(), address.expires());
    if let Ok(uri) = address.parse_uri() {
        look_at_uri(&uri);
    }
}

fn look_at_via(via: &Via<'_>) {
    let _ = (via.transport(), via.host().address(), via.port());
    let _ = (via.branch(), via.received(), via.has_rport(), via.rport());
    let _ = (via.maddr(), via.ttl(), via.parameter("x"));
}

/// A response to it can be read.
fn answer(message: &Message) {
    if message.is_request() {
        let mut response = Message::response_to(message, 200, "OK");
        response.set_to_tag("tag");
        let again = read_again(&response);
        assert_eq!(again.status(), Some(200));
        assert_eq!(
            again.headers(Name::Via).count(),
            message.headers(Name::Via).count()
        );
    }
}

/// What a proxy does to a request on its way, and to the response on its way back.
fn forward(mut message: Message) {
    if message.fields().count() + 2 > MAXIMUM_FIELDS {
        return;
    }
    let (was_valid, body) = (message.validate().is_ok(), message.body_bytes());
    let others = |message: &Message| -> Vec<Vec<u8>> {
        let edited =
            [Name::Via, Name::Route, Name::MaxForwards].map(|name| name.as_str().to_owned());
        let fields = message.fields();
        let others = fields.filter(|(name, _)| !edited.contains(&name.as_str().to_owned()));
        others
            .map(|(name, value)| [name.as_str().as_bytes(), b":", value].concat())
            .collect()
    };
    let others_before = others(&message);
    let vias_before = message.values(Name::Via).count();
    let routes_before = message.values(Name::Route).count();

    message.set_top_via_parameter("received", Some("192.0.2.1"));
    message.push_front(Name::Via, "SIP/2.0/SCTP proxy.example;branch=z9hG4bKfuzz");
    message.replace(Name::MaxForwards, "69");
    message.remove_first_value(Name::Route);
    if message.is_request() {
        message.set_request_uri("sip:callee@192.0.2.2;transport=sctp");
    }

    if !was_valid {
        // A line that continues none, or has no end, may come to mean something else.
        let _ = Message::read(message.to_bytes());
        return;
    }
    let again = read_again(&message);
    assert_eq!(others(&again), others_before);
    assert_eq!(again.body(), body);
    assert_eq!(again.max_forwards(), Some(69));
    assert_eq!(again.values(Name::Via).count(), vias_before + 1);
    assert_eq!(
        again.values(Name::Route).count(),
        routes_before.saturating_sub(1)
    );
    assert_eq!(
        again
            .top_via()
            .and_then(|via| via.branch().map(str::to_owned))
            .as_deref(),
        Some("z9hG4bKfuzz")
    );
    assert_eq!(again.validate(), Ok(()));
}

/// What goes on the wire, read as its receiver reads it.
fn read_again(message: &Message) -> Message {
    let octets = message.to_bytes();
    assert_eq!(octets.len(), message.wire_length());
    Message::read(octets).expect("a message that was written can be read")
}

fn is_part_of(part: &[u8], whole: &[u8]) -> bool {
    part.is_empty() || whole.windows(part.len()).any(|window| window == part)
}
