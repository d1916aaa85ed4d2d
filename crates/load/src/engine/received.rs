//! A received message: the values that transactions, dialogs and steps need, found in one pass of sip's scanner.

use sip::{CSeq, Method, Name, NameAddr, Scanner, StartLine, Uri, Via, list_values, tag_of};

/// Fields of one name that are kept where they are found. More than these are looked for again.
const KEPT_FIELDS: usize = 4;

/// A message that has come. Everything is borrowed from its octets.
#[derive(Clone, Debug)]
pub(super) struct Received<'a> {
    pub(super) octets: &'a [u8],
    pub(super) start: StartLine<'a>,
    pub(super) vias: Fields<'a>,
    /// The topmost Via, where it is one.
    pub(super) top_via: Option<Via<'a>>,
    pub(super) record_routes: Fields<'a>,
    pub(super) from: &'a [u8],
    pub(super) to: &'a [u8],
    pub(super) call_id: &'a [u8],
    /// The whole value of CSeq.
    pub(super) cseq_value: &'a [u8],
    pub(super) cseq: u32,
    pub(super) cseq_method: Method,
    pub(super) contact: Option<&'a [u8]>,
    pub(super) expires: Option<&'a [u8]>,
    pub(super) min_expires: Option<&'a [u8]>,
    pub(super) is_challenge: bool,
    pub(super) body: &'a [u8],
    /// Whether it is none of SIP's, but a [command](super::commands).
    pub(super) is_command: bool,
}

/// What stands before a command, so that it is read as a message is. No message begins with the first octet.
const COMMAND: &[u8] = b"\x1bCOMMAND sip:twin SIP/2.0\r\n";

/// The values of the fields of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    kept: [&'a [u8]; KEPT_FIELDS],
    count: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn push(&mut self, value: &'a [u8]) {
        if let Some(place) = self.kept.get_mut(self.count) {
            *place = value;
        }
        self.count += 1;
    }

    pub(super) fn first(&self) -> Option<&'a [u8]> {
        (self.count > 0).then_some(self.kept[0])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Why octets are no message that could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

impl<'a> Received<'a> {
    /// Reads a message. It must have the mandatory header fields (RFC 3261 section 8.1.1): Via, From,
    /// To, Call-ID and CSeq, and in a request the CSeq's method has to be that of the request.
    pub(super) fn read(octets: &'a [u8]) -> Result<Received<'a>, Unreadable> {
        // Line ends before the start line are not the message's (section 7.5).
        let start = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(Unreadable)?;
        let octets = octets.get(start..).unwrap_or_default();
        let is_command = octets.starts_with(COMMAND);
        let (start, mut scanner) = Scanner::new(scanned(octets)).map_err(|_| Unreadable)?;
        let mut vias = Fields::default();
        let mut record_routes = Fields::default();
        let (mut from, mut to, mut call_id, mut cseq) = (None, None, None, None);
        let (mut contact, mut expires, mut min_expires) = (None, None, None);
        let mut is_challenge = false;
        while let Some(field) = scanner.next_field().map_err(|_| Unreadable)? {
            match field.name() {
                Some(Name::Via) => vias.push(field.value()),
                Some(Name::RecordRoute) => record_routes.push(field.value()),
                Some(Name::From) => from = from.or(Some(field.value())),
                Some(Name::To) => to = to.or(Some(field.value())),
                Some(Name::CallId) => call_id = call_id.or(Some(field.value())),
                Some(Name::CSeq) => cseq = cseq.or_else(|| parsed_cseq(field.value())),
                Some(Name::Contact) => contact = contact.or(Some(field.value())),
                Some(Name::Expires) => expires = expires.or(Some(field.value())),
                Some(Name::MinExpires) => min_expires = min_expires.or(Some(field.value())),
                Some(Name::WwwAuthenticate | Name::ProxyAuthenticate) => is_challenge = true,
                _ => {}
            }
        }
        if is_command {
            // Of a message it has no more than the Call-ID.
            cseq = cseq.or(Some((&b""[..], (0, Method::from_name("COMMAND")))));
            from = from.or(Some(b""));
            to = to.or(Some(b""));
        }
        let (cseq_value, (cseq, cseq_method)) = cseq.ok_or(Unreadable)?;
        if !is_command
            && let StartLine::Request { method, .. } = &start
            && *method != cseq_method
        {
            return Err(Unreadable);
        }
        let top_via = match vias.first() {
            None if is_command => None,
            first => list_values(first.ok_or(Unreadable)?).next(),
        };
        Ok(Received {
            octets,
            start,
            vias,
            top_via: top_via.and_then(|value| Via::parse(value).ok()),
            record_routes,
            from: from.ok_or(Unreadable)?,
            to: to.ok_or(Unreadable)?,
            call_id: call_id
                .filter(|call_id| !call_id.is_empty())
                .ok_or(Unreadable)?,
            cseq_value,
            cseq,
            cseq_method,
            contact,
            expires,
            min_expires,
            is_challenge,
            body: scanner.body(),
            is_command,
        })
    }

    /// A command as [`read`](Received::read) takes it: with line ends of SIP, and an empty line behind the fields. A Call-ID
    /// may have something before `///`, which is the sender's alone.
    pub(super) fn text_of_command(octets: &[u8]) -> Vec<u8> {
        let mut text = COMMAND.to_vec();
        let mut body = octets;
        for line in octets.split_inclusive(|octet| *octet == b'\n') {
            body = body.get(line.len()..).unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            let field = line.trim_end();
            if field.is_empty() {
                break;
            }
            let is_call_id = |name: &str| Name::parse(name.trim()) == Name::CallId;
            match field.split_once(':') {
                Some((name, value)) if is_call_id(name) => {
                    let value = value.rsplit("///").next().unwrap_or_default();
                    text.extend_from_slice(format!("{name}: {}", value.trim()).as_bytes());
                }
                _ => text.extend_from_slice(field.as_bytes()),
            }
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(body);
        text
    }

    /// Its text: of a command, what has been sent.
    pub(super) fn text(&self) -> &'a [u8] {
        self.octets.strip_prefix(COMMAND).unwrap_or(self.octets)
    }

    /// Whether it is a command that says that the call has been given up at the other side.
    pub(super) fn aborts_call(&self) -> bool {
        let mut aborts = false;
        self.each_named("internal-cmd", |value| {
            aborts |= value.trim_ascii() == b"abort_call";
        });
        self.is_command && aborts
    }

    /// The name of the generator that has sent a command, where it says so.
    pub(super) fn sender(&self) -> &'a [u8] {
        self.from.trim_ascii()
    }

    /// The status of a response.
    pub(super) fn status(&self) -> Option<u16> {
        match self.start {
            StartLine::Request { .. } => None,
            StartLine::Response { status, .. } => Some(status),
        }
    }

    /// The method of a request.
    pub(super) fn method(&self) -> Option<&Method> {
        match &self.start {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Response { .. } => None,
        }
    }

    /// The Request-URI.
    pub(super) fn uri(&self) -> Option<&'a [u8]> {
        match self.start {
            StartLine::Request { uri, .. } => Some(uri),
            StartLine::Response { .. } => None,
        }
    }

    /// The tag of To.
    pub(super) fn tag_of_to(&self) -> Option<&'a [u8]> {
        tag_of(self.to).map(str::as_bytes)
    }

    /// The tag of From.
    pub(super) fn tag_of_from(&self) -> Option<&'a [u8]> {
        tag_of(self.from).map(str::as_bytes)
    }

    /// The branch of the topmost Via; nothing where it has none.
    pub(super) fn branch(&self) -> &'a [u8] {
        let branch = self.top_via.as_ref().and_then(Via::branch);
        branch.unwrap_or_default().as_bytes()
    }

    /// The URI of the first Contact.
    pub(super) fn contact_uri(&self) -> Option<&'a [u8]> {
        let first = list_values(self.contact?).next();
        first.and_then(address_uri)
    }

    /// Goes over the values of the fields of a name of which those kept are these.
    pub(super) fn each_field(
        &self,
        name: Name<'static>,
        kept: &Fields<'a>,
        mut visit: impl FnMut(&'a [u8]),
    ) {
        if kept.count <= KEPT_FIELDS {
            for value in kept.kept.iter().take(kept.count) {
                visit(value);
            }
            return;
        }
        self.each_named(name.as_str(), visit);
    }

    /// Goes over the values of the fields of any name, long or compact, in any case.
    pub(super) fn each_named(&self, name: &str, mut visit: impl FnMut(&'a [u8])) {
        let wanted = Name::parse(name);
        let Ok((_, mut scanner)) = Scanner::new(scanned(self.octets)) else {
            return;
        };
        while let Ok(Some(field)) = scanner.next_field() {
            let name = std::str::from_utf8(field.name_text()).unwrap_or_default();
            if Name::parse(name) == wanted {
                visit(field.value());
            }
        }
    }
}

/// A message, and of a command what is read as one.
fn scanned(octets: &[u8]) -> &[u8] {
    match octets.starts_with(COMMAND) {
        true => octets.get(1..).unwrap_or_default(),
        false => octets,
    }
}

/// The value of CSeq and what it says.
fn parsed_cseq(value: &[u8]) -> Option<(&[u8], (u32, Method))> {
    let cseq = CSeq::parse(value)?;
    Some((value, (cseq.number(), cseq.method())))
}

/// The URI of an address, where it can stand in a request line.
pub(super) fn address_uri(value: &[u8]) -> Option<&[u8]> {
    let uri = NameAddr::parse(value).ok()?.uri().as_bytes();
    uri.iter().all(u8::is_ascii_graphic).then_some(uri)
}

/// The user part of a SIP URI.
pub(super) fn user_of(uri: &[u8]) -> Option<&[u8]> {
    let uri = Uri::parse(std::str::from_utf8(uri).ok()?).ok()?;
    uri.as_sip()?.user().map(str::as_bytes)
}

/// A number of seconds (RFC 3261 section 20.19).
pub(super) fn seconds(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RINGING: &[u8] = b"SIP/2.0 180 Ringing\r\n\
        Via: SIP/2.0/UDP a;x=y;Branch=z9hG4bK1;received=1.2.3.4, SIP/2.0/UDP b;branch=z9hG4bK2\r\n\
        v: SIP/2.0/UDP c\r\n\
        From: \"A > B\" <sip:a;tag=no@x>;tag=1\r\n\
        t: <sip:b@x>;x=1; TAG = 2 ;y\r\n\
        Call-ID: abc\r\n\
        CSeq: 17 INVITE\r\n\
        X-Mine: one\r\n\
        \ttwo\r\n\
        x-mine : three\r\n\
        Contact: \"B\" <sip:b@1.2.3.4:5070;lr>;expires=5\r\n\
        \r\n\
        X-Mine: body";

    #[test]
    fn what_is_asked_for_is_found() {
        let received = Received::read(RINGING).unwrap();
        assert_eq!(received.status(), Some(180));
        assert_eq!(
            (received.cseq, &received.cseq_method),
            (17, &Method::Invite)
        );
        assert_eq!(received.branch(), b"z9hG4bK1");
        assert_eq!(received.tag_of_from(), Some(&b"1"[..]));
        assert_eq!(received.tag_of_to(), Some(&b"2"[..]));
        assert_eq!(received.contact_uri(), Some(&b"sip:b@1.2.3.4:5070;lr"[..]));
        let mut found = Vec::new();
        received.each_named("X-MINE", |value| found.push(value));
        assert_eq!(found, [&b"one\r\n\ttwo"[..], b"three"]);
        found.clear();
        received.each_field(Name::Via, &received.vias, |value| found.push(value));
        assert_eq!(found.len(), 2);
        assert_eq!(user_of(b"sip:user7@1.2.3.4"), Some(&b"user7"[..]));
        assert_eq!(user_of(b"sip:1.2.3.4"), None);
    }

    #[test]
    fn many_fields_are_all_gone_over() {
        let vias: String = (0..20)
            .map(|at| format!("v: SIP/2.0/UDP h{at}\r\n"))
            .collect();
        let text = format!(
            "BYE sip:a SIP/2.0\r\n{vias}f: <sip:a>\r\nt: <sip:b>\r\ni: 1\r\nCSeq: 1 BYE\r\n\r\n"
        );
        let received = Received::read(text.as_bytes()).unwrap();
        let mut found = Vec::new();
        received.each_field(Name::Via, &received.vias, |value| found.push(value));
        assert_eq!(found.len(), 20);
        assert_eq!(found[19], b"SIP/2.0/UDP h19");
        assert_eq!((received.tag_of_to(), received.branch()), (None, &b""[..]));
    }

    #[test]
    fn commands_have_a_call_id_and_no_more() {
        for (text, body) in [
            ("Call-ID: 7@a\r\nFrom: m\r\nX: y\r\n\r\nv=0", "v=0"),
            ("call-id: 3pcc///7@a\nFrom: m\nx: y\n\nv=0\n", "v=0\n"),
            ("i:7@a\r\nFrom: m\r\nX: y", ""),
            // The first empty line ends the fields, whichever line ends the body has.
            ("i:7@a\nFrom: m\nX: y\n\nv=0\r\n\r\ns", "v=0\r\n\r\ns"),
            ("i:7@a\r\nFrom: m\r\nX: y\r\n\r\nv=0\n\ns", "v=0\n\ns"),
            ("i:7@a\nFrom: m\nX: y\n\n", ""),
            ("i:7@a\nFrom: m\r\nX: y\n\r\nv=0\n\n", "v=0\n\n"),
        ] {
            let text = Received::text_of_command(text.as_bytes());
            let command = Received::read(&text).expect("a command");
            assert!(command.is_command && !command.aborts_call());
            assert_eq!(command.call_id, b"7@a");
            assert_eq!(command.sender(), b"m");
            assert_eq!(command.body, body.as_bytes());
            let mut found = Vec::new();
            command.each_named("x", |value| found.push(value));
            assert_eq!(found, [b"y"]);
            assert!(!command.text().starts_with(b"\x1b"));
        }
        let abort = Received::text_of_command(b"call-id: 7\ninternal-cmd: abort_call\n\n");
        assert!(Received::read(&abort).unwrap().aborts_call());
        assert!(Received::read(&Received::text_of_command(b"From: m\r\n\r\n")).is_err());
        assert!(Received::read(&Received::text_of_command(b"\xff")).is_err());
    }

    #[test]
    fn what_cannot_be_answered_is_not_read() {
        let whole = std::str::from_utf8(RINGING).unwrap();
        for gone in ["From", "t:", "Call-ID", "CSeq"] {
            let text = whole.replace(gone, "X-Gone:");
            assert!(Received::read(text.as_bytes()).is_err(), "{gone}");
        }
        let text = whole.replace("SIP/2.0 180 Ringing", "BYE sip:a SIP/2.0");
        assert!(Received::read(text.as_bytes()).is_err());
        assert!(Received::read(b"").is_err());
        assert!(Received::read(b"GET / HTTP/1.1\r\n\r\n").is_err());
    }
}
