//! Requests that follow another one over the same hops: its CANCEL, and the ACK to its failure.

use crate::line::line_end;
use crate::name::NameCode;
use crate::syntax::{find_near, trim_end};
use crate::{Message, Method, Name};

/// The ACK to a final response other than 2xx (RFC 3261 section 17.1.1.3).
pub(crate) fn ack_to_failure(invite: &Message, response: &Message) -> Message {
    let mut ack = follower(invite, Method::Ack);
    ack.copy_fields(response, Name::To);
    ack
}

/// The CANCEL for a request (RFC 3261 section 9.1), Max-Forwards being 70. The one thing left to see
/// to is the time: it is sent when a provisional response has come and no final one has, to where the
/// request was sent.
///
/// The request is one that was sent, its Via on top; what it lacks, the CANCEL lacks too.
pub fn cancel_of(request: &Message) -> Message {
    let mut cancel = follower(request, Method::Cancel);
    cancel.copy_fields(request, Name::To);
    cancel
}

/// Writes what of a request the two are made of, for as long as nothing else is to come of it. `false` where it is none.
pub(crate) fn write_essence(essence: &mut Vec<u8>, request: &[u8]) -> bool {
    essence.clear();
    if request.starts_with(b"SIP/") {
        return false;
    }
    let mut at = 0;
    let (mut has_via, mut is_needed) = (false, true);
    while let Some(end) = line_end(request, at) {
        let line = &request[at..end.end];
        let has_begun = std::mem::replace(&mut at, end.next) > 0;
        is_needed = match line {
            [] => break,
            _ if !has_begun => true,
            // It goes on.
            [b' ' | b'\t', ..] => is_needed,
            [first, ..] if b"VvRrFfTtCcIi".contains(first) => {
                let name = &line[..find_near(b':', line).unwrap_or(0)];
                match NameCode::of(trim_end(name)).name() {
                    Some(Name::Via) => !std::mem::replace(&mut has_via, true),
                    Some(Name::Route | Name::From | Name::To | Name::CallId | Name::CSeq) => true,
                    _ => false,
                }
            }
            _ => false,
        };
        if is_needed {
            essence.extend_from_slice(line);
            essence.extend_from_slice(b"\r\n");
        }
    }
    essence.extend_from_slice(b"\r\n");
    at > 0
}

/// What both have in common: all that routes them as the request was routed.
fn follower(request: &Message, method: Method) -> Message {
    let mut message = Message::request(method.clone(), request.request_uri().unwrap_or_default());
    if let Some(via) = request.values(Name::Via).next() {
        message.push_back(Name::Via, via);
    }
    message.push_back(Name::MaxForwards, "70");
    for name in [Name::Route, Name::From, Name::CallId] {
        message.copy_fields(request, name);
    }
    if let Some((number, _)) = request.cseq() {
        message.push_back(Name::CSeq, format!("{number} {method}"));
    }
    message
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn read(text: &str) -> Message {
        Message::read(Bytes::from(text.to_owned())).expect("a message")
    }

    fn value(message: &Message, name: Name<'_>) -> String {
        message.header(name).unwrap_or_default().to_owned()
    }

    /// The example of RFC 3261 section 17.1.1.3, with a second Via and a route.
    const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff, SIP/2.0/UDP x;branch=z9hG4bK1\r\n\
        Route: <sip:p1.example.com;lr>\r\n\
        To: Bob <sip:bob@biloxi.com>\r\n\
        Route: <sip:p2.example.com;lr>\r\n\
        From: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\n\
        Max-Forwards: 7\r\n\
        Require: 100rel\r\n\
        Proxy-Require: foo\r\n\
        Call-ID: 987asjd97y7atg\r\n\
        CSeq: 986759 INVITE\r\n\
        Content-Length: 4\r\n\r\nbody";

    fn assert_follows(message: &Message, method: Method) {
        assert_eq!(message.validate(), Ok(()));
        assert_eq!(message.method(), Some(&method));
        assert_eq!(message.request_uri(), Some("sip:bob@biloxi.com"));
        let vias: Vec<_> = message.values(Name::Via).collect();
        assert_eq!(
            vias,
            [b"SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff"]
        );
        let routes: Vec<_> = message.text_values(Name::Route).collect();
        let expected = ["<sip:p1.example.com;lr>", "<sip:p2.example.com;lr>"];
        assert_eq!(routes, expected);
        let from = "Alice <sip:alice@atlanta.com>;tag=88sja8x";
        assert_eq!(value(message, Name::From), from);
        assert_eq!(value(message, Name::CallId), "987asjd97y7atg");
        assert_eq!(message.cseq(), Some((986_759, method)));
        assert_eq!(message.max_forwards(), Some(70));
        assert_eq!(message.body(), b"");
        for name in [Name::Require, Name::ProxyRequire] {
            assert!(!message.contains(name));
        }
    }

    #[test]
    fn ack_to_a_failure() {
        let response = read(
            "SIP/2.0 486 Busy Here\r\n\
             Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
             t: Bob <sip:bob@biloxi.com>;tag=99sa0xk\r\n\r\n",
        );
        let ack = ack_to_failure(&read(INVITE), &response);
        assert_follows(&ack, Method::Ack);
        let to = "Bob <sip:bob@biloxi.com>;tag=99sa0xk";
        assert_eq!(value(&ack, Name::To), to);
    }

    #[test]
    fn the_essence_of_a_request_has_the_same_followers() {
        let mut essence = Vec::new();
        assert!(write_essence(&mut essence, INVITE.as_bytes()));
        assert!(essence.len() < INVITE.len());
        let whole = read(INVITE);
        let essence = Message::read(Bytes::from(essence)).expect("a message");
        assert_eq!(cancel_of(&essence).to_bytes(), cancel_of(&whole).to_bytes());
        let response = read("SIP/2.0 486 Busy Here\r\nTo: <sip:bob@biloxi.com>;tag=9\r\n\r\n");
        assert_eq!(
            ack_to_failure(&essence, &response).to_bytes(),
            ack_to_failure(&whole, &response).to_bytes()
        );
        for other in ["", "SIP/2.0 200 OK\r\n\r\n"] {
            assert!(!write_essence(&mut Vec::new(), other.as_bytes()));
        }
    }

    #[test]
    fn cancel() {
        let cancel = cancel_of(&read(INVITE));
        assert_follows(&cancel, Method::Cancel);
        assert_eq!(value(&cancel, Name::To), "Bob <sip:bob@biloxi.com>");
    }
}
