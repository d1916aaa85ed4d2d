//! Looks at arbitrary bytes at a glance: where that is enough, the reader of whole messages reads them too, and finds the
//! same.

use bytes::Bytes;
use sip::{Glance, Message, Name};

/// Feeds the target an input.
pub fn run(octets: &[u8]) {
    let Some(glance) = Glance::of(octets) else {
        return;
    };
    let message = Message::read(Bytes::copy_from_slice(octets)).expect("it was seen as a message");
    assert_eq!(message.method(), Some(glance.method()));
    assert_eq!(message.call_id(), Some(glance.call_id()));
    assert_eq!(message.cseq_number(), Some(glance.cseq_number()));
    assert_eq!(message.to_tag(), glance.to_tag());
    let credentials = [Name::Authorization, Name::ProxyAuthorization];
    assert_eq!(
        credentials.into_iter().any(|name| message.contains(name)),
        glance.has_credentials()
    );
    // What names its transaction, and where an answer goes.
    let via = message.top_via().expect("a glance finds a Via");
    assert!(
        via.branch()
            .is_some_and(|branch| branch.len() > "z9hG4bK".len())
    );
    assert!(via.received().is_none() && via.maddr().is_none());
}
