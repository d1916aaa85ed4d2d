//! Requests that follow another one over the same hops: its CANCEL, and the ACK to its failure.

use crate::scanner::Scanner;
use crate::start_line::StartLine;
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

/// Writes as much of a request as its CANCEL and ACK are made of, for a transaction that keeps it for them alone. `false`
/// where it is none.
pub(crate) fn write_follower_fields(written: &mut Vec<u8>, request: &[u8]) -> bool {
    written.clear();
    let Ok((StartLine::Request { method, uri }, mut scanner)) = Scanner::new(request) else {
        return false;
    };
    for part in [method.as_str().as_bytes(), b" ", uri, b" SIP/2.0\r\n"] {
        written.extend_from_slice(part);
    }
    let mut has_via = false;
    while let Ok(Some(field)) = scanner.next_field() {
        let is_needed = match field.name() {
            Some(Name::Via) => !std::mem::replace(&mut has_via, true),
            Some(Name::Route | Name::From | Name::To | Name::CallId | Name::CSeq) => true,
            _ => false,
        };
        if is_needed {
            for part in [field.name_text(), b": ", field.value(), b"\r\n"] {
                written.extend_from_slice(part);
            }
        }
    }
    written.extend_from_slice(b"\r\n");
    true
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
    fn the_kept_of_a_request_has_the_same_followers() {
        let mut kept = Vec::new();
        assert!(write_follower_fields(&mut kept, INVITE.as_bytes()));
        assert!(kept.len() < INVITE.len());
        let whole = read(INVITE);
        let kept = Message::read(Bytes::from(kept)).expect("a message");
        assert_eq!(cancel_of(&kept).to_bytes(), cancel_of(&whole).to_bytes());
        let response = read("SIP/2.0 486 Busy Here\r\nTo: <sip:bob@biloxi.com>;tag=9\r\n\r\n");
        assert_eq!(
            ack_to_failure(&kept, &response).to_bytes(),
            ack_to_failure(&whole, &response).to_bytes()
        );
        for other in ["", "SIP/2.0 200 OK\r\n\r\n"] {
            assert!(!write_follower_fields(&mut Vec::new(), other.as_bytes()));
        }
    }

    #[test]
    fn cancel() {
        let cancel = cancel_of(&read(INVITE));
        assert_follows(&cancel, Method::Cancel);
        assert_eq!(value(&cancel, Name::To), "Bob <sip:bob@biloxi.com>");
    }
}
