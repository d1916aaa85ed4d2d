//! The header fields of a message that group it with others, found in one quick look.
//!
//! [`sip::Scan`] reads what a server has to understand; here a hundred thousand messages are looked at for seven of
//! their fields. What is not written as nearly everybody writes it is left to the reader of `sip`, so that both agree.

use sip::{MAXIMUM_FIELDS, Parameters, Scan, ScannedField, StartLine};

use super::line_feeds::LineFeeds;
use super::message::{MethodCode, Unseen};

/// What the first line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start<'m> {
    Request,
    Response { status: u16, reason: &'m [u8] },
}

/// The first field of each name that matters.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Fields<'m> {
    pub(super) call_id: Option<&'m [u8]>,
    pub(super) cseq: Option<&'m [u8]>,
    pub(super) from: Option<&'m [u8]>,
    pub(super) to: Option<&'m [u8]>,
    pub(super) r_seq: Option<&'m [u8]>,
    pub(super) content_type: Option<&'m [u8]>,
    /// The topmost Via value.
    pub(super) via: Option<&'m [u8]>,
    pub(super) vias: usize,
    pub(super) has_body: bool,
}

/// Content-Length, as far as it says whether there is a body (RFC 3261 section 18.3).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Missing,
    Zero,
    /// There is a body if anything follows: also where it is no number, or stands there twice.
    Other,
}

/// A name that matters.
#[derive(Clone, Copy)]
enum Wanted {
    Via,
    From,
    To,
    CallId,
    CSeq,
    RSeq,
    ContentType,
    ContentLength,
}

impl<'m> Fields<'m> {
    /// Goes once over the first line and all fields of a message.
    pub(super) fn of(octets: &'m [u8]) -> Result<(Start<'m>, Fields<'m>), Unseen> {
        let begin = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(Unseen::Unreadable)?;
        let octets = &octets[begin..];
        let mut line_feeds = LineFeeds::of(octets);
        let mut end = line_feeds.next().unwrap_or(octets.len());
        let start = match quick_start(without_return(&octets[..end])) {
            Some(start) => start,
            None => thorough_start(octets)?,
        };
        let mut fields = Fields::default();
        let mut length = Length::Missing;
        let mut count = 0;
        let mut begin = end + 1;
        while begin < octets.len() {
            end = line_feeds.next().unwrap_or(octets.len());
            // A line that begins with white space continues the one before it (section 7.3.1), but for the empty one.
            let mut line = without_return(&octets[begin..end]);
            if line.is_empty() {
                begin = end + 1;
                break;
            }
            while let Some(b' ' | b'\t') = octets.get(end + 1) {
                end = line_feeds.next().unwrap_or(octets.len());
                line = without_return(&octets[begin..end]);
            }
            begin = end + 1;
            count += 1;
            if count > MAXIMUM_FIELDS {
                return Err(Unseen::Unreadable);
            }
            let named = match usual(line) {
                Usual::Wanted(wanted, value) => Some((wanted, trimmed(value))),
                Usual::Unwanted => None,
                Usual::Unknown => wanted(line),
            };
            let Some((wanted, value)) = named else {
                continue;
            };
            let place = match wanted {
                Wanted::Via => {
                    fields.add_via(value);
                    continue;
                }
                Wanted::ContentLength => {
                    length = match (length, value) {
                        (Length::Missing, [b'0']) => Length::Zero,
                        (Length::Missing, [b'1'..=b'9', ..]) => Length::Other,
                        (Length::Missing, _) => thorough_length(value),
                        _ => Length::Other,
                    };
                    continue;
                }
                Wanted::CallId => &mut fields.call_id,
                Wanted::CSeq => &mut fields.cseq,
                Wanted::From => &mut fields.from,
                Wanted::To => &mut fields.to,
                Wanted::RSeq => &mut fields.r_seq,
                Wanted::ContentType => &mut fields.content_type,
            };
            place.get_or_insert(value);
        }
        fields.has_body = begin < octets.len() && length != Length::Zero;
        Ok((start, fields))
    }

    fn add_via(&mut self, value: &'m [u8]) {
        if !value.is_empty() && memchr::memchr(b',', value).is_none() {
            self.via.get_or_insert(value);
            self.vias += 1;
            return;
        }
        let field = ScannedField {
            name_text: b"",
            value,
        };
        for value in field.values() {
            self.via.get_or_insert(value);
            self.vias += 1;
        }
    }
}

/// A line without the carriage return that stands before its line feed.
#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What is known of a field whose name is written as nearly everybody writes it.
enum Usual<'m> {
    /// It matters, and this is behind the colon.
    Wanted(Wanted, &'m [u8]),
    Unwanted,
    /// It may be written otherwise.
    Unknown,
}

#[inline]
fn usual(line: &[u8]) -> Usual<'_> {
    /// The beginning of a name, as a number: one comparison tells them apart.
    const fn word(name: [u8; 4]) -> u32 {
        u32::from_le_bytes(name)
    }
    const VIA: u32 = word(*b"Via:");
    const FROM: u32 = word(*b"From");
    const TO: u32 = word(*b"To: ");
    const CALL_ID: u32 = word(*b"Call");
    const CSEQ: u32 = word(*b"CSeq");
    const CONTENT: u32 = word(*b"Cont");
    const MAX_FORWARDS: u32 = word(*b"Max-");
    const ROUTE: u32 = word(*b"Rout");
    const RECORD_ROUTE: u32 = word(*b"Reco");
    const USER_AGENT: u32 = word(*b"User");
    const ALLOW: u32 = word(*b"Allo");
    const SUPPORTED: u32 = word(*b"Supp");

    let Some((&name, behind)) = line.split_first_chunk::<4>() else {
        return Usual::Unknown;
    };
    match (u32::from_le_bytes(name), behind) {
        (VIA, value) => Usual::Wanted(Wanted::Via, value),
        (TO, value) => Usual::Wanted(Wanted::To, value),
        (FROM, [b':', value @ ..]) => Usual::Wanted(Wanted::From, value),
        (CSEQ, [b':', value @ ..]) => Usual::Wanted(Wanted::CSeq, value),
        (CALL_ID, [b'-', b'I', b'D', b':', value @ ..]) => Usual::Wanted(Wanted::CallId, value),
        (CONTENT, [b'a', b'c', b't', b':', ..])
        | (ROUTE, [b'e', b':', ..])
        | (RECORD_ROUTE | MAX_FORWARDS | USER_AGENT | ALLOW | SUPPORTED, _) => Usual::Unwanted,
        (CONTENT, [b'e', b'n', b't', b'-', rest @ ..]) => match rest {
            [b'L', b'e', b'n', b'g', b't', b'h', b':', value @ ..] => {
                Usual::Wanted(Wanted::ContentLength, value)
            }
            [b'T', b'y', b'p', b'e', b':', value @ ..] => Usual::Wanted(Wanted::ContentType, value),
            _ => Usual::Unknown,
        },
        _ => Usual::Unknown,
    }
}

/// The name of a field, where it matters, and its value without the white space around it.
#[inline]
fn wanted(line: &[u8]) -> Option<(Wanted, &[u8])> {
    // Most names begin otherwise.
    if !matches!(
        line.first(),
        Some(
            b'V' | b'v'
                | b'T'
                | b't'
                | b'F'
                | b'f'
                | b'I'
                | b'i'
                | b'C'
                | b'c'
                | b'L'
                | b'l'
                | b'R'
                | b'r'
        )
    ) {
        return None;
    }
    let colon = line.iter().position(|octet| *octet == b':')?;
    let mut name = &line[..colon];
    if let [.., b' ' | b'\t' | b'\r' | b'\n'] = name {
        name = name.trim_ascii_end();
    }
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let wanted = match name.len() {
        1 => match name[0] | 0x20 {
            b'v' => Wanted::Via,
            b'f' => Wanted::From,
            b't' => Wanted::To,
            b'i' => Wanted::CallId,
            b'c' => Wanted::ContentType,
            b'l' => Wanted::ContentLength,
            _ => return None,
        },
        2 if is(b"To") => Wanted::To,
        3 if is(b"Via") => Wanted::Via,
        4 if is(b"From") => Wanted::From,
        4 if is(b"CSeq") => Wanted::CSeq,
        4 if is(b"RSeq") => Wanted::RSeq,
        7 if is(b"Call-ID") => Wanted::CallId,
        12 if is(b"Content-Type") => Wanted::ContentType,
        14 if is(b"Content-Length") => Wanted::ContentLength,
        _ => return None,
    };
    Some((wanted, trimmed(&line[colon + 1..])))
}

/// A value without the white space around it.
#[inline]
fn trimmed(value: &[u8]) -> &[u8] {
    // One space before it and none behind, as nearly everybody writes it.
    match value {
        [b' ', inner @ ..] if matches!(inner, [b'!'..=b'~', .., b'!'..=b'~'] | [b'!'..=b'~']) => {
            inner
        }
        _ => trimmed_of_any(value),
    }
}

fn trimmed_of_any(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = value {
        value = rest;
    }
    value
}

/// The first line, where it is as RFC 3261 wants it.
fn quick_start(line: &[u8]) -> Option<Start<'_>> {
    if let Some(rest) = line.strip_prefix(b"SIP/2.0 ") {
        let &[
            a @ b'1'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            ref rest @ ..,
        ] = rest
        else {
            return None;
        };
        let digit = |octet: u8| u16::from(octet - b'0');
        return Some(Start::Response {
            status: 100 * digit(a) + 10 * digit(b) + digit(c),
            reason: rest.strip_prefix(b" ")?,
        });
    }
    let before = line.strip_suffix(b" SIP/2.0")?;
    let method = before
        .iter()
        .position(|octet| !octet.is_ascii_uppercase())?;
    let is_usual = method > 0
        && before[method] == b' '
        && before.get(method + 1).is_some_and(u8::is_ascii_graphic)
        // No version, which begins a response.
        && method < 32;
    is_usual.then_some(Start::Request)
}

/// Any other first line.
fn thorough_start(octets: &[u8]) -> Result<Start<'_>, Unseen> {
    match Scan::begin(octets) {
        Ok((StartLine::Request { .. }, _)) => Ok(Start::Request),
        Ok((StartLine::Response { status, reason }, _)) => Ok(Start::Response { status, reason }),
        Err(_) => Err(Unseen::Unreadable),
    }
}

/// A Content-Length that is not written as usual.
fn thorough_length(value: &[u8]) -> Length {
    match value.iter().all(|octet| *octet == b'0') && !value.is_empty() {
        true => Length::Zero,
        false => Length::Other,
    }
}

/// The number and the method of a CSeq, and how the method is written where it is an unknown one.
pub(super) fn sequence(value: &[u8]) -> Option<(u32, MethodCode, Option<String>)> {
    if let Some((number, code)) = quick_sequence(value) {
        return Some((number, code, None));
    }
    let field = ScannedField {
        name_text: b"",
        value,
    };
    let (number, method) = field.cseq()?;
    let code = MethodCode::of(&method);
    let name = (code == MethodCode::Other).then(|| method.as_str().to_owned());
    Some((number, code, name))
}

fn quick_sequence(value: &[u8]) -> Option<(u32, MethodCode)> {
    let mut number = 0_u32;
    let mut rest = value;
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        number = number
            .checked_mul(10)?
            .checked_add(u32::from(digit - b'0'))?;
        rest = behind;
    }
    let method = rest
        .strip_prefix(b" ")
        .filter(|_| rest.len() < value.len())?;
    let code = match method {
        b"INVITE" => MethodCode::Invite,
        b"ACK" => MethodCode::Ack,
        b"BYE" => MethodCode::Bye,
        b"CANCEL" => MethodCode::Cancel,
        b"REGISTER" => MethodCode::Register,
        b"OPTIONS" => MethodCode::Options,
        _ => return None,
    };
    Some((number, code))
}

/// The branch parameter of a Via value (RFC 3261 section 8.1.1.7).
pub(super) fn branch(via: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b';', via)?;
    let parameters = &via[start..];
    if let Some(branch) = quick_branch(parameters) {
        return Some(branch);
    }
    Some(Parameters::parse(parameters).get("branch")?.as_bytes())
}

/// The branch where it is the first parameter, and nothing is unusual about it.
fn quick_branch(parameters: &[u8]) -> Option<&[u8]> {
    let value = parameters.strip_prefix(b";branch=")?;
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    let value = &value[..end];
    let is_usual = |octet: &u8| IS_USUAL_IN_BRANCH[usize::from(*octet)];
    (!value.is_empty() && value.iter().all(is_usual)).then_some(value)
}

static IS_USUAL_IN_BRANCH: [bool; 256] = {
    let mut is_usual = [false; 256];
    let mut octet = b'!';
    while octet <= b'~' {
        is_usual[octet as usize] = !matches!(octet, b'"' | b'=' | b',');
        octet += 1;
    }
    is_usual
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sip::Name;

    use super::*;

    /// The same by the reader of `sip`.
    fn thoroughly(octets: &[u8]) -> Result<(Start<'_>, Fields<'_>), Unseen> {
        let (start, mut scan) = Scan::begin(octets).map_err(|_| Unseen::Unreadable)?;
        let mut fields = Fields::default();
        while let Some(field) = scan.next_field().map_err(|_| Unseen::Unreadable)? {
            let place = match field.name() {
                Some(Name::Via) => {
                    fields.add_via(field.value);
                    continue;
                }
                Some(Name::CSeq) => &mut fields.cseq,
                Some(Name::CallId) => &mut fields.call_id,
                Some(Name::From) => &mut fields.from,
                Some(Name::To) => &mut fields.to,
                Some(Name::RSeq) => &mut fields.r_seq,
                Some(Name::ContentType) => &mut fields.content_type,
                _ => continue,
            };
            place.get_or_insert(field.value);
        }
        fields.has_body = !scan.body().is_empty();
        let start = match start {
            StartLine::Request { .. } => Start::Request,
            StartLine::Response { status, reason } => Start::Response { status, reason },
        };
        Ok((start, fields))
    }

    #[test]
    fn usual_and_unusual_messages_are_read_as_by_a_server() {
        for text in [
            "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nTo: <sip:b@x>\r\n\
             f: <sip:a@x>;tag=1\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\nContent-Length: 3\r\n\r\nv=0",
            "\r\n\r\nSIP/2.0 180 Ringing\r\nv: a, b\r\n\tc\r\ni : x \r\nContent-Length: 0\r\n\r\nbody",
            "SIP/2.0 99 x\r\nContent-Length: 00\r\n\r\nbody",
            "SIP/2.0 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\nbody",
            "SIP/2.0 200\r\nl: \r\n\r\nbody",
            "SIP/2.0 200 OK\n folded\r\nTo: x\n\n\n",
            "SIP/2.0  200 OK\r\nTo: x\ry\r\n\r",
            "INVITE  SIP/2.0\r\nTo: x\r\n\r\n",
            "INVITE sip:b  SIP/2.0\r\nTo: x\r\n\r\n",
            "invite sip:b SIP/2.0 \r\nTo: x\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "",
        ] {
            assert_eq!(
                Fields::of(text.as_bytes()),
                thoroughly(text.as_bytes()),
                "{text:?}"
            );
        }
        let many = format!("BYE sip:a SIP/2.0\r\n{}", "a: b\r\n".repeat(MAXIMUM_FIELDS));
        for text in [format!("{many}\r\n"), format!("{many}a: b\r\n\r\n")] {
            assert_eq!(Fields::of(text.as_bytes()), thoroughly(text.as_bytes()));
        }
    }

    #[test]
    fn numbers_methods_and_branches_are_read() {
        assert_eq!(sequence(b"7 INVITE"), Some((7, MethodCode::Invite, None)));
        assert_eq!(sequence(b"7  ACK"), Some((7, MethodCode::Ack, None)));
        let other = Some("FETCH".to_owned());
        assert_eq!(sequence(b"8\tFETCH"), Some((8, MethodCode::Other, other)));
        assert_eq!(sequence(b"99999999999 INVITE"), None);
        assert_eq!(sequence(b" INVITE"), None);
        assert_eq!(
            branch(b"SIP/2.0/UDP a;branch=z9hG4bK1;rport"),
            Some(&b"z9hG4bK1"[..])
        );
        assert_eq!(branch(b"SIP/2.0/UDP a;rport ; Branch = x"), Some(&b"x"[..]));
        assert_eq!(branch(b"SIP/2.0/UDP a"), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_as_by_a_server(parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"SIP/2.0 180 Ringing"[..], b"ACK sip:a SIP/2.0", b"\r\n", b"\r\n", b"\n", b"\r", b" ", b":", b": ",
                b"Via", b"i", b"Content-Length", b"l", b"0", b"7", b"\xff", b"abc", b"To", b"Call-ID", b"CSeq", b",",
            ]),
            0..40,
        )) {
            let octets = parts.concat();
            prop_assert_eq!(Fields::of(&octets), thoroughly(&octets));
        }
    }
}
