//! The few values of a request that its refusal needs, for an overloaded server: it has no time to index what it refuses.

use std::net::SocketAddr;

use crate::name::NameCode;
use crate::name_addr::tag_of;
use crate::scanner::{HeaderField, Scanner};
use crate::start_line::StartLine;
use crate::{CSeq, Message, Method, Name, Via, list_values};

/// What names a request and its transaction, and what a response to it copies, found in one pass over its octets.
///
/// Each value is what [`Message::read`] would find. Whether the message keeps the rules is not checked.
#[derive(Clone, Debug)]
pub struct Peek<'a> {
    method: Method,
    top_via: Via<'a>,
    to_tag: Option<&'a str>,
    call_id: &'a str,
    cseq: CSeq<'a>,
    has_credentials: bool,
    /// The fields that a response copies.
    fields: Vec<HeaderField<'a>>,
}

/// Room for the fields that a response copies.
const USUAL_FIELDS: usize = 8;

impl<'a> Peek<'a> {
    /// Looks at octets that are one message. `None` where they are no request that can be answered, where its branch does
    /// not name its transaction (RFC 3261 section 17.2.3), and where lines do not end as they should or From, To, Call-ID
    /// or CSeq are repeated: such a request has to be read to be refused.
    pub fn read(octets: &'a [u8]) -> Option<Peek<'a>> {
        let (StartLine::Request { method, .. }, mut scanner) = Scanner::new(octets).ok()? else {
            return None;
        };
        let mut fields = Vec::with_capacity(USUAL_FIELDS);
        let mut names = 0;
        let mut has_credentials = false;
        while let Some(field) = scanner.next_field().ok()? {
            match field.name() {
                Some(Name::Via) => {}
                Some(Name::From | Name::To | Name::CallId | Name::CSeq) => {
                    let bit = field.code().bit();
                    if names & bit != 0 {
                        return None;
                    }
                    names |= bit;
                }
                Some(Name::Authorization | Name::ProxyAuthorization) => {
                    has_credentials = true;
                    continue;
                }
                _ => continue,
            }
            fields.push(field);
        }
        let flaws = scanner.line_flaws();
        if flaws.line_ends || flaws.unterminated {
            return None;
        }
        let value = |name| Some(fields_of(&fields, name).next()?.value());
        let vias = fields_of(&fields, Name::Via);
        let top_via = vias.flat_map(|field| list_values(field.value())).next()?;
        let top_via = Via::parse(top_via).ok().filter(Via::names_transaction)?;
        value(Name::From)?;
        Some(Peek {
            method,
            top_via,
            to_tag: tag_of(value(Name::To)?),
            call_id: std::str::from_utf8(value(Name::CallId)?).ok()?,
            cseq: CSeq::parse(value(Name::CSeq)?)?,
            has_credentials,
            fields,
        })
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The tag in To.
    pub fn to_tag(&self) -> Option<&'a str> {
        self.to_tag
    }

    /// Call-ID (RFC 3261 section 20.8).
    pub fn call_id(&self) -> &'a str {
        self.call_id
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> u32 {
        self.cseq.number()
    }

    /// Whether there are credentials, for us or for others.
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The topmost Via, whose branch names the transaction.
    pub(crate) fn top_via(&self) -> &Via<'a> {
        &self.top_via
    }

    /// The response to the request, which came from `source`, as [`Message::response_to`] makes it.
    pub fn response(&self, source: SocketAddr, status: u16, reason: &str) -> Message {
        let fields = |name| fields_of(&self.fields, name);
        let mut response = Message::response_to_fields(status, reason, fields);
        response.note_source(source);
        response
    }
}

fn fields_of<'f, 'a>(
    fields: &'f [HeaderField<'a>],
    name: Name<'static>,
) -> impl Iterator<Item = HeaderField<'a>> + use<'f, 'a> {
    let code = NameCode::of_known(name);
    fields
        .iter()
        .filter(move |field| field.code() == code)
        .copied()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    /// What is peeked at is what is read, and the response is the same. Returns whether a peek was enough.
    fn compare(octets: &[u8], source: &str) -> bool {
        let Some(peek) = Peek::read(octets) else {
            return false;
        };
        let source = source.parse().expect("an address");
        let mut request = Message::read(Bytes::copy_from_slice(octets)).expect("a message");
        assert_eq!(request.method(), Some(peek.method()));
        assert_eq!(request.call_id(), Some(peek.call_id()));
        assert_eq!(request.cseq_number(), Some(peek.cseq_number()));
        assert_eq!(request.to_tag(), peek.to_tag());
        let has_credentials = [Name::Authorization, Name::ProxyAuthorization]
            .into_iter()
            .any(|name| request.contains(name));
        assert_eq!(has_credentials, peek.has_credentials());
        let (one, other) = (request.top_via().expect("a Via"), peek.top_via());
        assert_eq!((one.host(), one.port()), (other.host(), other.port()));
        assert_eq!(one.branch(), other.branch());
        request.note_source(source);
        let expected = Message::response_to(&request, 503, "Service Unavailable");
        let response = peek.response(source, 503, "Service Unavailable");
        assert_eq!(response.to_bytes(), expected.to_bytes());
        true
    }

    const INVITE: &str = "INVITE sip:bob@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9:5062;branch=z9hG4bK1\r\n\
        v: SIP/2.0/TCP host.example.com;branch=z9hG4bK2, SIP/2.0/UDP c;branch=3\r\n\
        Max-Forwards: 70\r\n\
        From: <sip:alice@example.com>;tag=a\r\n\
        To: <sip:bob@example.com>\r\n\
        Call-ID: 1@host\r\n\
        CSeq: 7 INVITE\r\n\
        Content-Length: 4\r\n\r\nbody";

    #[test]
    fn a_peek_finds_what_a_reading_finds() {
        for (from, to) in [
            ("", ""),
            (";branch=z9hG4bK1", ";rport;branch=z9hG4bK1;x=y"),
            (";branch=z9hG4bK1", ";branch=z9hG4bK1;RPORT, SIP/2.0/UDP d"),
            (
                ";branch=z9hG4bK1",
                ";branch=z9hG4bK1;received=192.0.2.1;rport=5",
            ),
            (";branch=z9hG4bK1", " ; branch = z9hG4bK1"),
            ("192.0.2.9", "phone.example.com"),
            ("com>\r\nCall", "com>;tag=b\r\nCall"),
            (
                "<sip:bob@example.com>",
                "Bob <sip:bob@example.com>\r\n ;tag=x",
            ),
            ("Max-Forwards: 70", "Authorization: Digest a=b"),
            ("INVITE", "ACK"),
            ("To: ", "t\t:"),
            ("Call-ID:", "call-id :"),
        ] {
            let text = INVITE.replace(from, to);
            for source in ["192.0.2.9:5062", "192.0.2.8:40000", "[2001:db8::1]:5060"] {
                assert!(compare(text.as_bytes(), source), "{text}");
            }
        }
    }

    #[test]
    fn some_requests_have_to_be_read() {
        for (from, to) in [
            ("INVITE sip:bob@example.com SIP/2.0", "SIP/2.0 200 OK"),
            (";branch=z9hG4bK1", ";branch=1"),
            (";branch=z9hG4bK1", ";branch=z9hG4bK"),
            ("Via: SIP", "Via: , SIP / x"),
            ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
            ("\r\n\r\nbody", "\r\n"),
            ("Call-ID: 1@host\r\n", ""),
            ("Call-ID: 1@host\r\n", "Call-ID: 1@host\r\ni: 2\r\n"),
            ("CSeq: 7", "CSeq: x"),
        ] {
            assert!(INVITE.contains(from));
            let text = INVITE.replacen(from, to, 1);
            assert!(Peek::read(text.as_bytes()).is_none(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_peeked_at_as_they_are_read(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "INVITE sip:b@h SIP/2.0\r\n", "Via: SIP/2.0/UDP h;branch=z9hG4bK1", "v: SIP/2.0/TCP 192.0.2.9:1",
                    ";rport", ";rport=2", ";received=a", ";branch=", ", ", "\r\n", "\n", " ", "From: <sip:a>;tag=1\r\n",
                    "To: <sip:b>", ";tag=", "2", "t: b\r\n", "Call-ID: 1\r\n", "i:2\r\n", "CSeq: 1 INVITE\r\n",
                    "CSeq:  2\tX\r\n", "Proxy-Authorization: x\r\n", "\r\n\r\n", "l: 1\r\n", "\"", "\u{fc}",
                ]),
                0..30,
            ),
            is_whole in any::<bool>(),
        ) {
            let mut text = parts.concat();
            if is_whole {
                text = format!(
                    "INVITE sip:b@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1{text}\r\nFrom: <sip:a>;tag=1\r\n\
                     To: <sip:b>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n"
                );
            }
            compare(text.as_bytes(), "192.0.2.9:1");
        }
    }
}
