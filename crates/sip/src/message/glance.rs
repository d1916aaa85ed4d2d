//! What is seen of a request at a glance: enough to refuse it, which is to cost next to nothing.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;

use crate::line::{LineEnd, line_end};
use crate::name::NameCode;
use crate::syntax::{self, trim, trim_end};
use crate::transaction::MAGIC_COOKIE;
use crate::via::KnownParameters;
use crate::{Host, Method, Name, Via};

use super::index::read_start_line;
use super::plain_via::PlainVia;
use super::{Start, plain_tag, split_cseq};

/// What an answer to a request, and the name of its transaction, are made of: for who refuses so many requests
/// that there is no time for an index of each.
///
/// What the octets say here is what [`Message::read`](crate::Message::read) would find. Whether the rest keeps the rules
/// nobody has looked.
#[derive(Clone, Debug)]
pub struct Glance<'a> {
    method: Method,
    /// The topmost Via, and where its parameters are in the first of `vias`.
    top_via: Via<'a>,
    parameters: Range<usize>,
    vias: [&'a [u8]; MAXIMUM_VIAS],
    via_count: usize,
    from: &'a [u8],
    to: &'a [u8],
    to_tag: Option<&'a [u8]>,
    call_id: &'a str,
    cseq: &'a [u8],
    cseq_number: u32,
    has_credentials: bool,
}

/// How many fields of Via a request has at most that is seen at a glance.
const MAXIMUM_VIAS: usize = 8;

/// How many lines.
const MAXIMUM_LINES: usize = 100;

impl<'a> Glance<'a> {
    /// Looks at octets that are one message. `None` where they are no request that can be answered, and for a request
    /// that takes more than a glance: it may have old ways of naming its transaction, fields over several lines, or
    /// anything else that hardly anybody sends.
    pub fn of(octets: &'a [u8]) -> Option<Glance<'a>> {
        if u32::try_from(octets.len()).is_err() {
            return None;
        }
        let start_line = whole_line(octets, 0)?;
        let Start::Request { method, .. } = read_start_line(&octets[..start_line.end])? else {
            return None;
        };
        let mut vias = [&b""[..]; MAXIMUM_VIAS];
        let mut via_count = 0;
        let (mut from, mut to, mut call_id, mut cseq) = (None, None, None, None);
        let mut has_credentials = false;
        let mut at = start_line.next;
        let mut is_whole = false;
        for _ in 0..MAXIMUM_LINES {
            let end = whole_line(octets, at)?;
            let line = &octets[at..end.end];
            at = end.next;
            let (name, value) = match line {
                [] => {
                    is_whole = true;
                    break;
                }
                [b' ' | b'\t', ..] => return None,
                // Most of these are none of ours, and those that are look like this.
                [b'V', b'i', b'a', b':', value @ ..] => (Name::Via, value),
                [b'F', b'r', b'o', b'm', b':', value @ ..] => (Name::From, value),
                [b'T', b'o', b':', value @ ..] => (Name::To, value),
                [b'C', b'S', b'e', b'q', b':', value @ ..] => (Name::CSeq, value),
                [b'C', b'a', b'l', b'l', b'-', b'I', b'D', b':', value @ ..] => {
                    (Name::CallId, value)
                }
                [b'C', b'o', b'n', b't', ..] => continue,
                [first, ..] if !b"vftciap".contains(&first.to_ascii_lowercase()) => continue,
                _ => {
                    let (name, value) = line.split_at(syntax::find_near(b':', line)?);
                    match NameCode::of(trim_end(name)).name() {
                        Some(name) => (name, &value[1..]),
                        None => continue,
                    }
                }
            };
            let place = match name {
                Name::Via => {
                    *vias.get_mut(via_count)? = trim(value);
                    via_count += 1;
                    continue;
                }
                Name::From => &mut from,
                Name::To => &mut to,
                Name::CallId => &mut call_id,
                Name::CSeq => &mut cseq,
                Name::Authorization | Name::ProxyAuthorization => {
                    has_credentials = true;
                    continue;
                }
                _ => continue,
            };
            if place.replace(trim(value)).is_some() {
                return None;
            }
        }
        if !is_whole {
            return None;
        }
        let (top_via, parameters) = plain_top_via(vias[0])?;
        let (to, cseq) = (to?, cseq?);
        Some(Glance {
            method,
            top_via,
            parameters,
            vias,
            via_count,
            from: from?,
            to,
            to_tag: plain_tag(to)?,
            call_id: std::str::from_utf8(call_id?).ok()?,
            cseq,
            cseq_number: syntax::number(split_cseq(cseq)?.0)?,
            has_credentials,
        })
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The tag in To.
    pub fn to_tag(&self) -> Option<&'a str> {
        std::str::from_utf8(self.to_tag?).ok()
    }

    /// Call-ID (RFC 3261 section 20.8).
    pub fn call_id(&self) -> &'a str {
        self.call_id
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> u32 {
        self.cseq_number
    }

    /// Whether there are credentials, for us or for others.
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The topmost Via.
    pub(crate) fn top_via(&self) -> &Via<'a> {
        &self.top_via
    }

    /// The response to it, which has no body (RFC 3261 section 8.2.6), along the way that it came from `source` (section
    /// 18.2.1, RFC 3581 section 4). `status` is status code and reason phrase, `tag` that of To where there is none,
    /// `fields` further header fields, as whole lines.
    pub(crate) fn response(
        &self,
        source: SocketAddr,
        status: &str,
        tag: &str,
        fields: &str,
    ) -> Vec<u8> {
        let vias = self.vias.iter().map(|via| via.len() + 8).sum::<usize>();
        let copied = self.from.len() + self.to.len() + self.call_id.len() + self.cseq.len();
        let length = vias + copied + status.len() + tag.len() + fields.len() + WRITTEN;
        let mut response = Vec::with_capacity(length);
        let [top, others @ ..] = &self.vias;
        let (before, rest) = top.split_at(self.parameters.start);
        let (parameters, behind) = rest.split_at(self.parameters.len());
        write(
            &mut response,
            &[b"SIP/2.0 ", status.as_bytes(), b"\r\nVia: ", before],
        );
        let has_rport = self.top_via.has_rport();
        let mut is_told = !has_rport;
        for parameter in parameters.split(|octet| *octet == b';').skip(1) {
            if !is_told && parameter.eq_ignore_ascii_case(b"rport") {
                is_told = true;
                push(&mut response, format_args!(";rport={}", source.port()));
            } else {
                write(&mut response, &[b";", parameter]);
            }
        }
        let ip = source.ip().to_canonical();
        if has_rport || self.top_via.host() != Host::Address(ip) {
            push(&mut response, format_args!(";received={ip}"));
        }
        write(&mut response, &[behind]);
        for via in others.iter().take(self.via_count.saturating_sub(1)) {
            write(&mut response, &[b"\r\nVia: ", via]);
        }
        write(
            &mut response,
            &[b"\r\nFrom: ", self.from, b"\r\nTo: ", self.to],
        );
        if self.to_tag.is_none() {
            write(&mut response, &[b";tag=", tag.as_bytes()]);
        }
        write(
            &mut response,
            &[
                b"\r\nCall-ID: ",
                self.call_id.as_bytes(),
                b"\r\nCSeq: ",
                self.cseq,
                b"\r\n",
                fields.as_bytes(),
                b"Content-Length: 0\r\n\r\n",
            ],
        );
        response
    }
}

/// Octets that a response has of its own, and for the names of its fields.
const WRITTEN: usize = 160;

fn write(response: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        response.extend_from_slice(part);
    }
}

fn push(response: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // A vector takes all that it is given.
    let _ = response.write_fmt(text);
}

/// A line that ends as it should.
#[inline]
fn whole_line(octets: &[u8], at: usize) -> Option<LineEnd> {
    line_end(octets, at).filter(|end| end.proper)
}

/// The first value of a Via field where it has the usual form, and where its parameters are. One that somebody has added
/// to before us, or that is to lead elsewhere, is left to others.
fn plain_top_via(value: &[u8]) -> Option<(Via<'_>, Range<usize>)> {
    let plain = PlainVia::read(value)?;
    let text = |range: &Range<usize>| value.get(range.clone());
    let host = match plain.ip() {
        Some(address) => Host::Address(address),
        None => Host::Name(std::str::from_utf8(text(&plain.host())?).ok()?),
    };
    let parameters = text(&plain.parameters())?;
    let known = KnownParameters {
        branch: plain.branch().as_ref().and_then(text),
        has_rport: plain.has_rport,
        has_received: false,
        has_maddr: false,
    };
    let is_usual = !plain.has_received && !plain.has_maddr;
    let via = Via::of_parts(
        text(&plain.transport())?,
        host,
        plain.port,
        parameters,
        known,
    );
    // A port that is there already is somebody else's.
    let has_port = plain.has_rport && via.parameter("rport").is_some_and(|port| !port.is_empty());
    let names_transaction = via
        .branch()
        .and_then(|branch| branch.strip_prefix(MAGIC_COOKIE))
        .is_some_and(|rest| !rest.is_empty());
    (is_usual && !has_port && names_transaction).then_some((via, plain.parameters()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::transaction::note_source;
    use crate::{ConnectionId, Flow, Message, Transport, Violation};

    const UNAVAILABLE: Violation = Violation {
        status: 503,
        reason: "Service Unavailable",
    };

    fn flow(remote: &str) -> Flow {
        Flow {
            transport: Transport::Udp,
            local: "192.0.2.2:5060".parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            connection: ConnectionId(7),
            stream: 0,
        }
    }

    /// What a response made at a glance says is what one says that is made of the message. Returns whether a glance was
    /// enough.
    fn compare(octets: &[u8], remote: &str) -> bool {
        let Some(glance) = Glance::of(octets) else {
            return false;
        };
        let flow = flow(remote);
        let mut request = Message::read(Bytes::copy_from_slice(octets)).expect("a message");
        assert_eq!(request.method(), Some(glance.method()));
        assert_eq!(request.call_id(), Some(glance.call_id()));
        assert_eq!(request.cseq_number(), Some(glance.cseq_number()));
        assert_eq!(request.to_tag(), glance.to_tag());
        let has_credentials = [Name::Authorization, Name::ProxyAuthorization]
            .into_iter()
            .any(|name| request.contains(name));
        assert_eq!(has_credentials, glance.has_credentials());
        let (one, other) = (request.top_via().expect("a Via"), glance.top_via());
        assert_eq!((one.host(), one.port()), (other.host(), other.port()));
        assert_eq!(one.branch(), other.branch());

        note_source(&mut request, &flow);
        if let Some(mut expected) = Message::rejection(&request, &UNAVAILABLE) {
            expected.set_to_tag("4711");
            expected.push_back(Name::RetryAfter, "5");
            let response = glance.response(
                flow.remote,
                "503 Service Unavailable",
                "4711",
                "Retry-After: 5\r\n",
            );
            let response = Message::read(Bytes::from(response)).expect("a message");
            let fields = |message: &Message| {
                let fields = message.fields();
                let mut fields: Vec<_> = fields
                    .map(|(name, value)| (name.as_str().to_owned(), value.to_vec()))
                    .collect();
                // Those of one name keep their order.
                fields.sort_by(|one, other| one.0.cmp(&other.0));
                fields
            };
            assert_eq!(fields(&response), fields(&expected));
            assert_eq!(response.status(), Some(503));
            assert!(response.body().is_empty());
        }
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
    fn an_answer_at_a_glance_is_the_answer() {
        let changed = |from: &str, to: &str| {
            assert!(INVITE.contains(from));
            INVITE.replace(from, to)
        };
        for text in [
            INVITE.to_owned(),
            changed(";branch=z9hG4bK1", ";rport;branch=z9hG4bK1;x=y"),
            changed(";branch=z9hG4bK1", ";branch=z9hG4bK1;RPORT, SIP/2.0/UDP d"),
            changed("192.0.2.9", "phone.example.com"),
            changed("com>\r\nCall", "com>;tag=b\r\nCall"),
            changed("Max-Forwards: 70", "Authorization: Digest a=b"),
            changed("INVITE", "ACK"),
            changed("To: ", "t\t:"),
            changed("Call-ID:", "call-id :"),
        ] {
            for remote in ["192.0.2.9:5062", "192.0.2.8:40000", "[2001:db8::1]:5060"] {
                assert!(compare(text.as_bytes(), remote), "{text}");
            }
        }
    }

    #[test]
    fn what_is_unusual_takes_more_than_a_glance() {
        for (from, to) in [
            ("INVITE sip:bob@example.com SIP/2.0", "SIP/2.0 200 OK"),
            (
                "Via: SIP/2.0/UDP 192.0.2.9",
                "Via: SIP / 2.0 / UDP 192.0.2.9",
            ),
            (";branch=z9hG4bK1", ";branch=z9hG4bK1;received=192.0.2.1"),
            (";branch=z9hG4bK1", ";branch=z9hG4bK1;rport=5"),
            (";branch=z9hG4bK1", ";branch=1"),
            (";branch=z9hG4bK1", ";branch=z9hG4bK1;maddr=192.0.2.1"),
            ("<sip:bob@example.com>", "Bob <sip:bob@example.com>;x=y"),
            ("tag=a\r\n", "tag=a\r\n ;x=y\r\n"),
            ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
            ("Max-Forwards: 70\r\n", &"Subject: x\r\n".repeat(100)),
            ("\r\n\r\nbody", "\r\n"),
            ("Call-ID: 1@host\r\n", ""),
            ("Call-ID: 1@host\r\n", "Call-ID: 1@host\r\ni: 2\r\n"),
            ("CSeq: 7", "CSeq: x"),
            ("Max-Forwards: 70\r\n", &"Via: a\r\n".repeat(7)),
        ] {
            assert!(INVITE.contains(from));
            let text = INVITE.replacen(from, to, 1);
            assert!(Glance::of(text.as_bytes()).is_none(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_seen_as_it_is_read(
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
