//! Messages as nearly everybody writes them: each line with a known name, spelled as in its RFC, a colon, a space and
//! a value that ends with the line.
//!
//! A generator reads messages all day, and most of them are such. They are gone over with fewer comparisons than a
//! [`Scan`](sip::Scan) makes, which knows all other ways to write the same. What is found here is what it would find;
//! where anything is unusual nothing is.

use sip::{Method, StartLine};

use super::received::{Fields, Received};

/// More fields than these are unusual.
const MOST_FIELDS: usize = 64;

/// The most digits of numbers that fit into 32 bits whatever they are.
const DIGITS: usize = 9;

/// A line whose name is known.
#[derive(Clone, Copy)]
enum Field {
    Via,
    RecordRoute,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    Expires,
    ContentLength,
    /// Nobody here asks for it.
    Other,
}

/// Reads a message. `None` where it is none, or an unusual one.
pub(super) fn read(octets: &[u8]) -> Option<Received<'_>> {
    let mut rest = octets;
    let start = start_line(next_line(&mut rest)?)?;
    let mut vias = Fields::default();
    let mut record_routes = Fields::default();
    let (mut from, mut to, mut call_id, mut cseq_value) = (None, None, None, None);
    let (mut contact, mut expires, mut length) = (None, None, None);
    let mut fields = 0;
    loop {
        let line = next_line(&mut rest)?;
        if line.is_empty() {
            break;
        }
        fields += 1;
        if fields > MOST_FIELDS {
            return None;
        }
        let (field, name) = field(line)?;
        let value = line.strip_prefix(name)?;
        let ends = [value.first()?, value.last()?];
        if ends.iter().any(|octet| octet.is_ascii_whitespace()) {
            return None;
        }
        match field {
            Field::Other => {}
            Field::Via => vias.push(value),
            Field::RecordRoute => record_routes.push(value),
            Field::From => from = from.or(Some(value)),
            Field::To => to = to.or(Some(value)),
            Field::CallId => call_id = call_id.or(Some(value)),
            Field::CSeq => cseq_value = cseq_value.or(Some(value)),
            Field::Contact => contact = contact.or(Some(value)),
            Field::Expires => expires = expires.or(Some(value)),
            Field::ContentLength if length.is_some() => return None,
            Field::ContentLength => length = Some(number(value)? as usize),
        }
    }
    let cseq_value = cseq_value?;
    let space = cseq_value.iter().position(|octet| *octet == b' ')?;
    let cseq = number(cseq_value.get(..space)?)?;
    let cseq_method = method(cseq_value.get(space + 1..)?)?;
    if let StartLine::Request { method, .. } = &start
        && *method != cseq_method
    {
        return None;
    }
    if vias.is_empty() {
        return None;
    }
    Some(Received {
        octets,
        start,
        vias,
        record_routes,
        from: from?,
        to: to?,
        call_id: call_id?,
        cseq_value,
        cseq,
        cseq_method,
        contact,
        expires,
        min_expires: None,
        is_challenge: false,
        body: match length {
            Some(length) => rest.get(..length).unwrap_or(rest),
            None => rest,
        },
    })
}

/// Takes off a line that ends with CRLF.
#[inline(always)]
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\n', rest)?;
    let (line, behind) = rest.split_at_checked(end + 1)?;
    *rest = behind;
    line.strip_suffix(b"\r\n")
}

/// What a line says, by as few octets as tell names apart, and how it has to begin then.
#[inline(always)]
fn field(line: &[u8]) -> Option<(Field, &'static [u8])> {
    let at = |place: usize| line.get(place).copied().unwrap_or_default();
    Some(match at(0) {
        b'V' => (Field::Via, b"Via: "),
        b'F' => (Field::From, b"From: "),
        b'T' => (Field::To, b"To: "),
        b'C' => match (at(1), at(4), at(8)) {
            (b'a', ..) => (Field::CallId, b"Call-ID: "),
            (b'S', ..) => (Field::CSeq, b"CSeq: "),
            (b'o', b'a', _) => (Field::Contact, b"Contact: "),
            (b'o', b'e', b'L') => (Field::ContentLength, b"Content-Length: "),
            (b'o', b'e', _) => (Field::Other, b"Content-Type: "),
            _ => return None,
        },
        b'M' => (Field::Other, b"Max-Forwards: "),
        b'A' => match at(1) {
            b'l' => (Field::Other, b"Allow: "),
            _ => (Field::Other, b"Authorization: "),
        },
        b'D' => (Field::Other, b"Date: "),
        b'E' => (Field::Expires, b"Expires: "),
        b'R' => match at(1) {
            b'e' => (Field::RecordRoute, b"Record-Route: "),
            _ => (Field::Other, b"Route: "),
        },
        b'S' => match at(1) {
            b'e' => (Field::Other, b"Server: "),
            _ => (Field::Other, b"Supported: "),
        },
        b'U' => (Field::Other, b"User-Agent: "),
        _ => return None,
    })
}

fn start_line(line: &[u8]) -> Option<StartLine<'_>> {
    if let Some(rest) = line.strip_prefix(b"SIP/2.0 ") {
        let (status, reason) = rest.split_at_checked(3)?;
        return Some(StartLine::Response {
            status: u16::try_from(number(status)?).ok()?,
            reason: reason.strip_prefix(b" ")?,
        });
    }
    let line = line.strip_suffix(b" SIP/2.0")?;
    let space = memchr::memchr(b' ', line)?;
    let (name, uri) = (line.get(..space)?, line.get(space + 1..)?);
    let ends = [uri.first()?, uri.last()?];
    if ends.iter().any(|octet| octet.is_ascii_whitespace()) {
        return None;
    }
    Some(StartLine::Request {
        method: method(name)?,
        uri,
    })
}

#[inline(always)]
fn method(name: &[u8]) -> Option<Method> {
    Some(match name {
        b"INVITE" => Method::Invite,
        b"ACK" => Method::Ack,
        b"BYE" => Method::Bye,
        b"CANCEL" => Method::Cancel,
        b"REGISTER" => Method::Register,
        b"OPTIONS" => Method::Options,
        b"MESSAGE" => Method::Message,
        _ => return None,
    })
}

fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, octet| {
        let digit = octet.wrapping_sub(b'0');
        (digit < 10).then_some(number * 10 + u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is found is what is found in any other way.
    fn compare(octets: &[u8]) -> bool {
        let usual = read(octets);
        if let Some(usual) = &usual {
            assert_eq!(Received::scan(octets).as_ref(), Ok(usual));
        }
        usual.is_some()
    }

    const INVITE: &str = "INVITE sip:b@x SIP/2.0\r\n\
        Via: SIP/2.0/UDP a:5060;branch=z9hG4bK1\r\n\
        Via: SIP/2.0/UDP b\r\n\
        Max-Forwards: 70\r\n\
        Record-Route: <sip:p;lr>\r\n\
        Route: <sip:q;lr>\r\n\
        From: <sip:a@x>;tag=1\r\n\
        To: <sip:b@x>\r\n\
        Call-ID: c\r\n\
        CSeq: 7 INVITE\r\n\
        Contact: <sip:a@a>\r\n\
        Allow: INVITE\r\n\
        Supported: path\r\n\
        User-Agent: u\r\n\
        Content-Type: application/sdp\r\n\
        Content-Length: 4\r\n\
        \r\n\
        bodybehind";

    const OK: &str = "SIP/2.0 200 All is well\r\n\
        Via: SIP/2.0/TCP a;branch=z9hG4bK1\r\n\
        From: <sip:a@x>;tag=1\r\n\
        To: <sip:b@x>;tag=2\r\n\
        Call-ID: c\r\n\
        CSeq: 2147483 REGISTER\r\n\
        Contact: <sip:a@a>\r\n\
        Expires: 3600\r\n\
        Server: s\r\n\
        \r\n";

    #[test]
    fn what_is_usual_is_read() {
        for text in [INVITE, OK] {
            assert!(compare(text.as_bytes()), "{text}");
        }
        let invite = read(INVITE.as_bytes()).unwrap();
        assert_eq!((invite.body, invite.cseq), (&b"body"[..], 7));
        assert_eq!(read(OK.as_bytes()).unwrap().expires, Some(&b"3600"[..]));
    }

    #[test]
    fn what_is_not_is_left_to_others() {
        for (usual, other) in [
            ("Via: SIP", "Via : SIP"),
            ("Via: SIP", "v: SIP"),
            ("From: ", "from: "),
            ("To: ", "To:  "),
            ("To: ", "To:"),
            ("Call-ID: c", "Call-ID: c "),
            ("Call-ID: c", "Call-ID: c\r\n d"),
            ("Call-ID: c\r\n", "Call-ID: c\n"),
            ("Call-ID: c\r\n", ""),
            ("CSeq: 7 INVITE", "CSeq: 7  INVITE"),
            ("CSeq: 7 INVITE", "CSeq: 7 BYE"),
            ("CSeq: 7 INVITE", "CSeq: 4294967295 INVITE"),
            ("INVITE sip:b@x", "INVITE  sip:b@x"),
            ("INVITE sip:b@x SIP/2.0", "\r\nINVITE sip:b@x SIP/2.0"),
            ("INVITE sip:b@x SIP/2.0", "INVITE sip:b@x SIP/2.1"),
            (
                "Content-Length: 4",
                "Content-Length: 4\r\nContent-Length: 4",
            ),
            ("Content-Length: 4", "l: 4"),
            ("Allow: INVITE", "Proxy-Authenticate: Digest"),
            ("Allow: INVITE", "X: y"),
            ("\r\n\r\nbodybehind", ""),
        ] {
            let text = INVITE.replace(usual, other);
            assert_ne!(text, INVITE, "{usual}");
            assert!(!compare(text.as_bytes()), "{text}");
        }
        assert!(!compare(b""));
        assert!(!compare(OK.replace("200 All is well", "200").as_bytes()));
    }

    proptest! {
        /// However lines of both kinds are mixed, cut and changed.
        #[test]
        fn any_mixture_is_read_alike_or_left_alone(
            start in prop::sample::select(vec![
                "INVITE sip:b@x SIP/2.0\r\n", "INVITE  sip:b SIP/2.0 \r\n", "SIP/2.0 200 OK\r\n", "SIP/2.0 200 \r\n",
                "sip/2.0 200 OK\r\n", "BYE a b SIP/2.0\r\n", "invite x SIP/2.0\r\n", "SIP/2.0 x SIP/2.0\r\n",
            ]),
            places in prop::collection::vec(0..40_usize, 0..30),
            has_end in any::<bool>(),
            flip in prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let usual = INVITE.split_inclusive("\r\n").chain(OK.split_inclusive("\r\n"));
            let unusual = [
                "v: a\r\n", " folded\r\n", "\tfolded\r\n", "l: 3\r\n", "From:x\r\n", "CSEQ: 1 INVITE\r\n", "X\r\n",
                "To: a\n", "Call-ID: a\rb\r\n", "Contact: \r\n", "Expires: 1\r\n", "CSeq: 1 INVITE\r\n",
            ];
            let lines: Vec<&str> = usual.filter(|line| *line != "\r\n").chain(unusual).collect();
            let mut text = start.to_owned();
            for place in places {
                text.push_str(lines[place % lines.len()]);
            }
            if has_end {
                text.push_str("\r\nbody of it");
            }
            let mut octets = text.into_bytes();
            if let Some((place, octet)) = flip {
                let place = place.index(octets.len());
                octets[place] = octet;
            }
            compare(&octets);
        }

        /// Whole messages with one octet changed.
        #[test]
        fn a_changed_octet_is_seen_alike(place in any::<prop::sample::Index>(), octet in any::<u8>(), is_ok in any::<bool>()) {
            let mut octets = if is_ok { OK } else { INVITE }.as_bytes().to_vec();
            let place = place.index(octets.len());
            octets[place] = octet;
            compare(&octets);
        }
    }
}
