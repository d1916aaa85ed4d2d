//! Peeks at arbitrary bytes: where that is enough, the reader of whole messages reads them too, and finds the same.

use bytes::Bytes;
use sip::{MAGIC_COOKIE, Message, Name, Peek};

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    let Some(peek) = Peek::read(octets) else {
        return;
    };
    let message = Message::read(Bytes::copy_from_slice(octets)).expect("it was peeked at");
    assert_eq!(message.method(), Some(peek.method()));
    assert_eq!(message.call_id(), Some(peek.call_id()));
    assert_eq!(message.cseq_number(), Some(peek.cseq_number()));
    assert_eq!(message.to_tag(), peek.to_tag());
    let credentials = [Name::Authorization, Name::ProxyAuthorization];
    assert_eq!(
        credentials.into_iter().any(|name| message.contains(name)),
        peek.has_credentials()
    );
    // What names its transaction, and where an answer goes.
    let via = message.top_via().expect("a peek finds a Via");
    assert!(
        via.branch()
            .is_some_and(|branch| branch.len() > MAGIC_COOKIE.len())
    );
    let source = "192.0.2.7:5060".parse().expect("an address");
    let response = peek.response(source, 503, "Service Unavailable");
    let again = Message::read(response.to_bytes()).expect("a response is a message");
    assert_eq!(again.top_via().and_then(|via| via.branch()), via.branch());
}
