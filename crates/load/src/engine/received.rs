//! A message that has come, read once for what transactions, dialogs and steps want to know of it.

use sip::{CSeq, Method, Name, Scanner, StartLine};

/// Fields of one name that are kept where they are found. More than these are looked for again.
const KEPT_FIELDS: usize = 4;

/// A message that has come. Everything is borrowed from its octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received<'a> {
    pub(super) octets: &'a [u8],
    pub(super) start: StartLine<'a>,
    pub(super) vias: Fields<'a>,
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
}

/// The values of the fields of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Reads a message. It has to have what every message has to have (RFC 3261 section 8.1.1): Via, From,
    /// To, Call-ID and CSeq, and in a request the CSeq's method has to be that of the request.
    pub(super) fn read(octets: &'a [u8]) -> Result<Received<'a>, Unreadable> {
        // Line ends before the start line are not the message's (section 7.5).
        let start = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(Unreadable)?;
        let octets = octets.get(start..).unwrap_or_default();
        let (start, mut scanner) = Scanner::new(octets).map_err(|_| Unreadable)?;
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
        let (cseq_value, (cseq, cseq_method)) = cseq.ok_or(Unreadable)?;
        if let StartLine::Request { method, .. } = &start
            && *method != cseq_method
        {
            return Err(Unreadable);
        }
        if vias.is_empty() {
            return Err(Unreadable);
        }
        Ok(Received {
            octets,
            start,
            vias,
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
        })
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
        parameter(self.to, b"tag")
    }

    /// The tag of From.
    pub(super) fn tag_of_from(&self) -> Option<&'a [u8]> {
        parameter(self.from, b"tag")
    }

    /// The branch of the topmost Via; nothing where it has none.
    pub(super) fn branch(&self) -> &'a [u8] {
        parameter_of_list(self.top_via(), b"branch").unwrap_or_default()
    }

    /// Who has sent a request, as the topmost Via has it: host and port.
    pub(super) fn sent_by(&self) -> &'a [u8] {
        let via = self.top_via();
        let end = memchr::memchr(b';', via).unwrap_or(via.len());
        let sent = via.get(..end).unwrap_or_default().trim_ascii_end();
        let begin = sent.iter().rposition(u8::is_ascii_whitespace);
        sent.get(begin.map_or(0, |space| space + 1)..)
            .unwrap_or_default()
    }

    fn top_via(&self) -> &'a [u8] {
        let via = self.vias.first().unwrap_or_default();
        let end = memchr::memchr(b',', via).unwrap_or(via.len());
        via.get(..end).unwrap_or_default()
    }

    /// The URI of the first Contact.
    pub(super) fn contact_uri(&self) -> Option<&'a [u8]> {
        self.contact.and_then(address_uri)
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
        let Ok((_, mut scanner)) = Scanner::new(self.octets) else {
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

/// The value of CSeq and what it says.
fn parsed_cseq(value: &[u8]) -> Option<(&[u8], (u32, Method))> {
    let cseq = CSeq::parse(value)?;
    Some((value, (cseq.number(), cseq.method())))
}

/// A parameter of a From, To or Contact: outside of the angle brackets.
pub(super) fn parameter<'a, const N: usize>(value: &'a [u8], name: &[u8; N]) -> Option<&'a [u8]> {
    let from = memchr::memrchr(b'>', value).map_or(0, |bracket| bracket + 1);
    parameter_of_list(value.get(from..)?, name)
}

/// A parameter behind a semicolon, in any case.
fn parameter_of_list<'a, const N: usize>(value: &'a [u8], name: &[u8; N]) -> Option<&'a [u8]> {
    let mut rest = value;
    loop {
        // Most parameters are behind nothing else.
        let semicolon = match rest.first()? {
            b';' => 0,
            _ => memchr::memchr(b';', rest)?,
        };
        rest = rest.get(semicolon + 1..)?;
        if let [b' ' | b'\t' | b'\r' | b'\n', ..] = rest {
            rest = rest.trim_ascii_start();
        }
        let Some((found, mut value)) = rest.split_first_chunk::<N>() else {
            continue;
        };
        if found != name && !found.eq_ignore_ascii_case(name) {
            continue;
        }
        if let [b' ' | b'\t' | b'\r' | b'\n', ..] = value {
            value = value.trim_ascii_start();
        }
        let Some(mut value) = value.strip_prefix(b"=") else {
            continue;
        };
        if let [b' ' | b'\t' | b'\r' | b'\n', ..] = value {
            value = value.trim_ascii_start();
        }
        return value.get(..end_of_value(value));
    }
}

/// Where the value of a parameter ends: sixteen octets are looked at together, since most values are longer.
fn end_of_value(value: &[u8]) -> usize {
    let ends = |octet: u8| matches!(octet, b';' | b',' | b' ' | b'\t' | b'\r' | b'\n');
    let (chunks, _) = value.as_chunks::<16>();
    let any = |chunk: &&[u8; 16]| chunk.iter().fold(false, |any, octet| any | ends(*octet));
    let clean = 16 * chunks.iter().take_while(|chunk| !any(chunk)).count();
    let rest = value.get(clean..).unwrap_or_default();
    let end = rest.iter().position(|octet| ends(*octet));
    clean + end.unwrap_or(rest.len())
}

/// The URI of an address: what is in angle brackets, or all before the parameters.
pub(super) fn address_uri(value: &[u8]) -> Option<&[u8]> {
    let uri = match memchr::memchr(b'<', value) {
        Some(open) => {
            let inside = value.get(open + 1..)?;
            let close = memchr::memchr(b'>', inside)?;
            inside.get(..close)?
        }
        None => {
            let end = value
                .iter()
                .position(|octet| matches!(octet, b';' | b','))
                .unwrap_or(value.len());
            value.get(..end)?.trim_ascii()
        }
    };
    let is_plain = !uri.is_empty() && uri.iter().all(|octet| octet.is_ascii_graphic());
    is_plain.then_some(uri)
}

/// The user part of a SIP URI.
pub(super) fn user_of(uri: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', uri)?;
    let rest = uri.get(colon + 1..)?;
    rest.get(..memchr::memchr(b'@', rest)?)
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
        assert_eq!(received.sent_by(), b"a");
        assert_eq!(received.tag_of_from(), Some(&b"1"[..]));
        assert_eq!(received.tag_of_to(), Some(&b"2"[..]));
        assert_eq!(received.contact_uri(), Some(&b"sip:b@1.2.3.4:5070;lr"[..]));
        assert_eq!(
            parameter(received.contact.unwrap(), b"expires"),
            Some(&b"5"[..])
        );
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
