//! Lines as nearly all are written, read and held against the rules in one pass.

use crate::name::NameCode;
use crate::name_addr::PlainAddress;
use crate::runs::Runs;
use crate::syntax::{self, CALL_ID, TOKEN, find_control};
use crate::uri::PlainUri;
use crate::{Method, Name};

use super::index::received_span;
use super::plain_via::PlainVia;
use super::top_via::TopVia;
use super::validate::{ACTED_UPON, IS_ONCE, IS_THERE, MAGIC_COOKIE};
use super::{Field, PlacedCSeq, Source, Start};

/// What has been seen of a message's lines, beside where they are.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Whether there was a line of which was not seen that it keeps the rules.
    is_doubtful: bool,
    /// A [bit](NameCode::bit) for each name.
    names: u64,
    /// Those of more than one field.
    repeated: u64,
    /// The first Via field, where it has one value, unless something is doubtful.
    top_via: Option<TopVia>,
    /// The first CSeq, unless something is doubtful.
    cseq: Option<PlacedCSeq>,
    content_length: Option<usize>,
}

impl Findings {
    /// Reads the start line of a message. `None` where that takes more than a glance. What follows it begins behind the
    /// second part.
    #[inline]
    pub(super) fn read_start_line(runs: &mut Runs<'_>) -> Option<(Start, usize)> {
        let received = runs.text();
        let (start, end) = match received {
            [b'S', b'I', b'P', b'/', ..] => read_status_line(received)?,
            _ => read_request_line(runs)?,
        };
        (received.get(end..)?.first_chunk() == Some(b"\r\n")).then_some((start, end + 2))
    }

    /// Reads the field that begins at a place. `None` where that takes more than a glance.
    #[inline]
    pub(super) fn read_field(&mut self, runs: &mut Runs<'_>, start: usize) -> Option<Field> {
        let received = runs.text();
        let line = received.get(start..)?;
        let (name, name_length) = usual_name(line)?;
        let value_start = start + name_length + 2;
        let [b':', b' ', first, ..] = line.get(name_length..)? else {
            return None;
        };
        if *first <= b' ' {
            return None;
        }
        let mut head = 0;
        let mut has_lone_tag = false;
        let end = match name {
            Name::Via => {
                let via = PlainVia::read_at(runs, value_start)?;
                head = via.parameters().start;
                let end = value_start + via.end();
                if self.top_via.is_none() {
                    self.top_via = Some(TopVia::Plain {
                        start: value_start as u32,
                        source: Source::Received,
                        via,
                    });
                }
                end
            }
            Name::From | Name::To | Name::Contact | Name::Route | Name::RecordRoute => {
                let address = PlainAddress::read(runs, value_start)?;
                head = address.head_end - value_start;
                has_lone_tag = address.has_lone_tag;
                address.end
            }
            Name::CallId => runs.end(value_start, CALL_ID),
            Name::CSeq => {
                let (number, end) = number_at(received, value_start)?;
                if number >= 1 << 31 || received.get(end) != Some(&b' ') {
                    return None;
                }
                let method_start = end + 1;
                let method_end = runs.end(method_start, TOKEN);
                if method_end == method_start {
                    return None;
                }
                if self.cseq.is_none() {
                    self.cseq = Some(PlacedCSeq {
                        number: number as u32,
                        method_start: method_start as u32,
                        method_end: method_end as u32,
                    });
                }
                method_end
            }
            Name::MaxForwards => {
                let (number, end) = number_at(received, value_start)?;
                if number > u8::MAX.into() {
                    return None;
                }
                end
            }
            Name::ContentLength => {
                let (number, end) = number_at(received, value_start)?;
                self.content_length = Some(usize::try_from(number).ok()?);
                end
            }
            _ => {
                let end = value_start + find_control(received.get(value_start..)?)?;
                if *received.get(end - 1)? <= b' ' {
                    return None;
                }
                end
            }
        };
        let [b'\r', b'\n', next, ..] = received.get(end..)? else {
            return None;
        };
        // White space would continue the line (RFC 3261 section 7.3.1).
        if end == value_start || matches!(next, b' ' | b'\t') {
            return None;
        }
        Some(Field {
            start: start as u32,
            end: (end + 2) as u32,
            value_start: value_start as u32,
            value_end: end as u32,
            name_length: name_length as u16,
            head: u16::try_from(head).unwrap_or_default(),
            name: name.code(),
            source: Source::Received,
            has_lone_tag,
        })
    }

    /// Notes a field. `is_usual`: [`read_field`](Findings::read_field) has read it.
    #[inline]
    pub(super) fn note(&mut self, name: NameCode, is_usual: bool) {
        let bit = name.bit();
        self.repeated |= self.names & bit;
        self.names |= bit;
        self.is_doubtful |= !is_usual && (bit & ACTED_UPON != 0 || name == NameCode::MALFORMED);
    }

    /// The value of Content-Length, where it is known that there is no other such field than that which was read, or none
    /// at all.
    #[inline]
    pub(super) fn content_length(&self) -> Option<Option<usize>> {
        let is_repeated = self.repeated & NameCode::of_known(Name::ContentLength).bit() != 0;
        (!self.is_doubtful && !is_repeated).then_some(self.content_length)
    }

    /// The first Via, where it is known.
    pub(super) fn top_via(&self) -> Option<TopVia> {
        match self.is_doubtful {
            true => None,
            false => self.top_via.clone(),
        }
    }

    /// The first CSeq, where it is known.
    pub(super) fn cseq(&self) -> Option<PlacedCSeq> {
        self.cseq.filter(|_| !self.is_doubtful)
    }

    /// Whether a message keeps the rules whose start line and lines have been read so. `false` where that has not been
    /// seen.
    pub(super) fn are_proof(&self, received: &[u8], start: &Start, body_start: usize) -> bool {
        let cseq_method = self.cseq.and_then(|cseq| received.get(cseq.method()));
        let is_for_method = match start {
            Start::Request { method, .. } => Some(method.as_str().as_bytes()) == cseq_method,
            Start::Response { .. } => true,
        };
        // A branch of nothing but the cookie names no transaction.
        let has_branch = match &self.top_via {
            Some(TopVia::Plain { start, via, .. }) => via.branch().is_none_or(|branch| {
                let start = *start as usize;
                branch.len() != MAGIC_COOKIE.len()
                    || received.get(start + branch.start..start + branch.end) != Some(MAGIC_COOKIE)
            }),
            _ => false,
        };
        !self.is_doubtful
            && self.names & IS_THERE == IS_THERE
            && self.repeated & IS_ONCE == 0
            && is_for_method
            && has_branch
            && self
                .content_length
                .is_none_or(|length| length <= received.len() - body_start)
    }
}

/// `SIP/2.0 200 OK`, and where it ends.
#[inline]
fn read_status_line(received: &[u8]) -> Option<(Start, usize)> {
    const VERSION: &[u8] = b"SIP/2.0 ";
    let [
        one @ b'1'..=b'6',
        two @ b'0'..=b'9',
        three @ b'0'..=b'9',
        b' ',
        ..,
    ] = received.strip_prefix(VERSION)?
    else {
        return None;
    };
    let digit = |digit: &u8| u16::from(digit - b'0');
    let status = digit(one) * 100 + digit(two) * 10 + digit(three);
    let reason_start = VERSION.len() + "200 ".len();
    let end = reason_start + find_control(received.get(reason_start..)?)?;
    let reason = received_span(reason_start, end);
    Some((Start::Response { status, reason }, end))
}

/// `METHOD sip:user@host;parameters SIP/2.0`, and where it ends.
#[inline]
fn read_request_line(runs: &mut Runs<'_>) -> Option<(Start, usize)> {
    let received = runs.text();
    const SCHEME: &[u8] = b" sip:";
    const VERSION: &[u8] = b" SIP/2.0";
    let method_length = syntax::find_near(b' ', received.get(..LONGEST_METHOD + 1)?)?;
    let method = Method::known(&received[..method_length])?;
    let uri_start = method_length + 1;
    if !received.get(method_length..)?.starts_with(SCHEME) {
        return None;
    }
    let uri = PlainUri::read(runs, method_length + SCHEME.len())?;
    if !received.get(uri.end..)?.starts_with(VERSION) {
        return None;
    }
    let start = Start::Request {
        method,
        uri: received_span(uri_start, uri.end),
    };
    Some((start, uri.end + VERSION.len()))
}

/// How long the longest method is that is known.
const LONGEST_METHOD: usize = "SUBSCRIBE".len();

/// The number that stands at a place, of ten digits at the most, and where it ends.
#[inline]
fn number_at(text: &[u8], start: usize) -> Option<(u64, usize)> {
    const MAXIMUM_DIGITS: usize = 10;
    let (mut number, mut at) = (0, start);
    while let Some(digit) = text.get(at).map(|octet| octet.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number * 10 + u64::from(digit);
        at += 1;
        if at - start > MAXIMUM_DIGITS {
            return None;
        }
    }
    (at > start).then_some((number, at))
}

/// The name with which a line may begin, and its length, where it is one of those that most messages have, spelled as in
/// the RFC. It may go on differently.
#[inline(always)]
pub(super) fn usual_name(line: &[u8]) -> Option<(Name<'static>, usize)> {
    const fn word(text: &[u8; 4]) -> u32 {
        u32::from_le_bytes(*text)
    }
    const VIA: u32 = word(b"Via:");
    const FROM: u32 = word(b"From");
    const TO: u32 = word(b"To: ");
    const CALL: u32 = word(b"Call");
    const CSEQ: u32 = word(b"CSeq");
    const CONT: u32 = word(b"Cont");
    const MAX: u32 = word(b"Max-");
    const RECORD: u32 = word(b"Reco");
    const ROUTE: u32 = word(b"Rout");
    const ALLOW: u32 = word(b"Allo");
    const USER: u32 = word(b"User");
    const SUPPORTED: u32 = word(b"Supp");
    Some(match u32::from_le_bytes(*line.first_chunk()?) {
        VIA => (Name::Via, 3),
        TO => (Name::To, 2),
        FROM => (Name::From, 4),
        CSEQ => (Name::CSeq, 4),
        CALL if line.starts_with(b"Call-ID") => (Name::CallId, 7),
        CONT if line.starts_with(b"Contact") => (Name::Contact, 7),
        CONT if line.starts_with(b"Content-Length") => (Name::ContentLength, 14),
        CONT if line.starts_with(b"Content-Type") => (Name::ContentType, 12),
        MAX if line.starts_with(b"Max-Forwards") => (Name::MaxForwards, 12),
        RECORD if line.starts_with(b"Record-Route") => (Name::RecordRoute, 12),
        ROUTE if line.starts_with(b"Route") => (Name::Route, 5),
        ALLOW if line.starts_with(b"Allow") => (Name::Allow, 5),
        USER if line.starts_with(b"User-Agent") => (Name::UserAgent, 10),
        SUPPORTED if line.starts_with(b"Supported") => (Name::Supported, 9),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::index::{read_line_by_line, read_start_line as read_any_start_line};
    use super::super::top_via::KnownVia;
    use super::*;
    use crate::Message;

    /// A message of which nothing is known but where its lines are.
    fn unknown(message: &Message) -> Message {
        let mut unknown = message.clone();
        for at in 0..unknown.0.fields.len() {
            let field = unknown.0.fields[at].without_head();
            unknown.0.fields.set(at, field);
        }
        unknown.0.is_proved = false;
        unknown.0.top_via = KnownVia::nothing();
        unknown.0.cseq = None;
        unknown
    }

    /// What is seen at a glance is what is found by whoever looks closer. Returns whether the message was seen to keep the
    /// rules.
    fn compare(octets: &[u8]) -> bool {
        let Ok(message) = Message::read(Bytes::copy_from_slice(octets)) else {
            return false;
        };
        let (fields, length) = read_line_by_line(octets);
        let without_heads = message.0.fields.iter().map(Field::without_head);
        assert!(
            without_heads.map(|field| format!("{field:?}")).eq(fields),
            "{message}"
        );
        assert_eq!(message.0.received.len(), length, "{message}");
        let unknown = unknown(&message);
        assert_eq!(message.validate(), unknown.check_rules(), "{message}");
        let vias = [&message, &unknown].map(|message| {
            let via = message.top_via()?;
            let branch = via.branch().map(str::to_owned);
            let flags = (via.has_rport(), via.has_received(), via.maddr().is_some());
            let parameters = via.parameters().text().to_vec();
            let sent_by = (via.host().to_string(), via.port());
            Some((
                via.transport_name().to_owned(),
                sent_by,
                branch,
                flags,
                parameters,
            ))
        });
        assert_eq!(vias[0], vias[1], "{message}");
        assert_eq!(message.has_one_via(), unknown.has_one_via(), "{message}");
        let cseqs = [&message, &unknown].map(Message::cseq_parts);
        assert_eq!(cseqs[0], cseqs[1], "{message}");
        assert_eq!(message.cseq(), unknown.cseq(), "{message}");
        assert_eq!(message.cseq_number(), unknown.cseq_number(), "{message}");
        assert_eq!(message.top_branch(), unknown.top_branch(), "{message}");
        assert_eq!(message.from_tag(), unknown.from_tag(), "{message}");
        assert_eq!(message.to_tag(), unknown.to_tag(), "{message}");
        assert_eq!(
            message.from_tag_bytes(),
            unknown.from_tag().map(str::as_bytes)
        );
        for name in [Name::Via, Name::Contact, Name::Route, Name::RecordRoute] {
            let (one, other) = (message.values(name), unknown.values(name));
            assert!(one.eq(other), "{message}");
        }
        if let Some((start, end)) = Findings::read_start_line(&mut Runs::new(&message.0.received)) {
            let line = &message.0.received[..end - 2];
            let any = read_any_start_line(line).expect("a start line");
            assert_eq!(format!("{start:?}"), format!("{any:?}"), "{message}");
        }
        message.0.is_proved
    }

    const INVITE: &str = "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9:5062;rport;branch=z9hG4bK1\r\n\
        Via: SIP/2.0/TCP host.example.com;branch=z9hG4bK2;received=192.0.2.1\r\n\
        Max-Forwards: 70\r\n\
        Record-Route: <sip:192.0.2.1:5060;lr>\r\n\
        Route: <sip:p2.example.com;lr;x=y>\r\n\
        From: \"Alice, \\\"A\\\" \u{e4}\" <sip:alice@example.com>;tag=a-1\r\n\
        To: Bob B <sip:bob@example.com>\r\n\
        Call-ID: 1@host\r\n\
        CSeq: 7 INVITE\r\n\
        Contact: <sip:alice@192.0.2.9:5062>;expires=5;+sip.x=[::1]\r\n\
        Content-Type: application/sdp\r\n\
        Content-Length: 4\r\n\r\nbody";

    #[test]
    fn what_most_send_is_seen_to_keep_the_rules() {
        let changed = |from: &str, to: &str| {
            assert!(INVITE.contains(from), "{from}");
            compare(INVITE.replace(from, to).as_bytes())
        };
        for (from, to) in [
            ("", ""),
            (
                "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0",
                "SIP/2.0 180 Ringing",
            ),
            ("body", "body and more"),
            ("tag=a-1", "x=y;tag=a-1;TAG=b"),
            ("Max-Forwards: 70", "X-Mine : 1\r\n 2"),
            ("INVITE", "ACK"),
            ("Route: <sip:p2.example.com;lr;x=y>", "Subject:"),
        ] {
            assert!(changed(from, to), "{to}");
        }
        for (from, to) in [
            (
                "INVITE sip:bob@192.0.2.4:5070;transport=tcp SIP/2.0",
                "SIP/2.0 700 Ringing",
            ),
            (
                "INVITE sip:bob@192.0.2.4:5070;transport=tcp",
                "INVITE sip:bob@a?x=y",
            ),
            ("INVITE sip", "INVITE  sip"),
            ("SIP/2.0\r\n", "SIP/3.0\r\n"),
            ("7 INVITE", "7 BYE"),
            ("7 INVITE", "7 "),
            ("7 INVITE", "2147483648 INVITE"),
            ("7 INVITE", "7  INVITE"),
            ("rport;branch=z9hG4bK1", "branch=z9hG4bK"),
            ("rport;branch=z9hG4bK1", "branch=z9hG4bK1\r\n ;rport"),
            ("rport;branch=z9hG4bK1", "branch=z9hG4bK1, SIP/2.0/UDP x"),
            ("rport;branch=z9hG4bK1", "branch=z9hG4bK1, x"),
            ("Max-Forwards: 70", "Max-Forwards: 256"),
            ("Max-Forwards: 70", "Max-Forwards: 70\r\nMax-Forwards: 70"),
            ("Max-Forwards: 70", "max-forwards: 70"),
            ("Max-Forwards: 70", "no field"),
            ("Max-Forwards: 70\r\n", "Max-Forwards: 70\n"),
            ("tag=a-1", "tag=\"a\""),
            ("Alice, \\", "Alice, \r\n \\"),
            ("Call-ID: 1@host\r\n", ""),
            ("Call-ID: 1@host", "Call-ID: 1 host"),
            ("Content-Length: 4", "Content-Length: 5"),
            ("Content-Length: 4", "Content-Length: 4\r\nl: 4"),
            ("Content-Length: 4", "Content-Length: -4"),
            ("<sip:alice@192.0.2.9:5062>;expires=5;+sip.x=[::1]", "*"),
            ("\r\n\r\nbody", ""),
        ] {
            assert!(!changed(from, to), "{to}");
        }
    }

    /// RFC 4475 and RFC 5118.
    #[test]
    fn torture_changes_nothing() {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
        let mut count = 0;
        for folder in ["torture", "torture-ipv6"] {
            for file in std::fs::read_dir(format!("{tests}/{folder}")).expect("a folder") {
                let octets = std::fs::read(file.expect("a file").path()).expect("octets");
                compare(&octets);
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    const LINES: [&str; 44] = [
        "Via: SIP/2.0/UDP 192.0.2.9:5062;rport;branch=z9hG4bK1\r\n",
        "Via: SIP/2.0/TCP a.example;branch=z9hG4bK2;received=1.2.3.4\r\n",
        "Via: SIP/2.0/UDP a;branch=z9hG4bK\r\n",
        "Via: SIP/2.0/UDP [::1]:5060;branch=z9hG4bK3\r\n",
        "Via: SIP/2.0/UDP a;branch=1, SIP/2.0/UDP b\r\n",
        "v: SIP/2.0/UDP a;branch=z9hG4bK4\r\n",
        "Via: SIP/2.0/UDP a\r\n ;branch=z9hG4bK5\r\n",
        "Via: \r\n",
        "From: <sip:alice@example.com>;tag=1\r\n",
        "From: <sip:alice@example.com>;tag=1;x=y\r\n",
        "From: sip:alice@example.com;tag=1\r\n",
        "f: \"A\" <sip:a>;tag=\"1\"\r\n",
        "To: <sip:bob@example.com>\r\n",
        "To: Bob <sip:bob@example.com>;tag=2\r\n",
        "To: Bob <sip:bob@example.com>;x=\u{e4};tag=2\r\n",
        "To: Bob <sips:bob@example.com?x=y>;TAG=2\r\n",
        "t: \"<sip:bob@example.com>\r\n",
        "Call-ID: 1@a\r\n",
        "Call-ID: 1 a\r\n",
        "i: 2\r\n",
        "CSeq: 1 INVITE\r\n",
        "CSeq: 1 ACK\r\n",
        "CSeq: 99999999999 INVITE\r\n",
        "CSeq:\t1\t INVITE\r\n",
        "Max-Forwards: 70\r\n",
        "Max-Forwards: 256\r\n",
        "Contact: <sip:a@b:5>;q=0.1\r\n",
        "Contact: *\r\n",
        "Contact: <sip:a@b>, <sip:c@d>\r\n",
        "Route: <sip:a;lr>\r\n",
        "Route: <sip:a;lr>, <sip:b;lr>\r\n",
        "Record-Route: <sip:a@1.2.3.4;lr>\r\n",
        "Record-Route: sip:a\r\n",
        "Content-Length: 4\r\n",
        "Content-Length: 5\r\n",
        "CSeq: 1 \r\n",
        "Content-Length: 18446744073709551616\r\n",
        "l: 4\r\n",
        "Content-Type: a/b\r\n",
        "Expires: 5\r\n",
        "Supported: path \r\n",
        "X-Mine: 1\r\n",
        " folded\r\n",
        "no field\n",
    ];

    proptest! {
        #[test]
        fn whatever_lines_there_are_the_rules_are_the_same(
            start in prop::sample::select(vec![
                "INVITE sip:b@c SIP/2.0\r\n", "INVITE sip:b@1.2.3.4:5060;a=b SIP/2.0\r\n", "SIP/2.0 200 OK\r\n",
                "INVITE sips:b@c SIP/2.0\r\n", "ACK sip:c SIP/2.0\r\n", "FOO sip:c SIP/2.0\r\n", "SIP/2.0 099 \r\n",
                "SIP/2.0 200\r\n", "INVITE sip:b@c SIP/2.0\n", "INVITE sip:b@c SIP/1.0\r\n", "SIP/2.0 200 \r\r\n",
            ]),
            // Most messages have the fields that all must have.
            base in prop::sample::subsequence(vec![0_usize, 8, 12, 17, 20, 24, 33], 5..=7),
            others in prop::collection::vec(0..LINES.len(), 0..4),
            end in prop::sample::select(vec!["\r\n", "\r\nbody", "\r\nbodies", "\nbody", ""]),
        ) {
            let lines = base.into_iter().chain(others).map(|line| LINES[line]);
            compare([start].into_iter().chain(lines).chain([end]).collect::<String>().as_bytes());
        }

        #[test]
        fn any_octet_may_be_another_one(
            at in any::<prop::sample::Index>(),
            octet in any::<u8>(),
            cut in any::<bool>(),
            is_response in any::<bool>(),
        ) {
            let mut octets = INVITE.as_bytes().to_vec();
            if is_response {
                let line = INVITE.find("\r\n").expect("a line");
                octets.splice(..line, *b"SIP/2.0 200 OK");
            }
            let at = at.index(octets.len());
            octets[at] = octet;
            if cut {
                octets.truncate(at + 1);
            }
            compare(&octets);
        }
    }
}
