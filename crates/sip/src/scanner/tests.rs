use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{Message, Method, list_values};

/// What a message says, found by a reader that does one thing after the other: lines first, then folds, then fields.
#[derive(Debug, PartialEq)]
struct Reference {
    is_request: bool,
    /// Method and Request-URI, or status code and reason phrase.
    start: (String, Vec<u8>),
    /// The names as written, and the values.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    has_improper_line_end: bool,
    is_unterminated: bool,
}

/// A line, its line end, and whether it has a CR within.
type Line<'a> = (&'a [u8], &'a [u8]);

fn lines(octets: &[u8]) -> impl Iterator<Item = Line<'_>> {
    octets.split_inclusive(|octet| *octet == b'\n').map(|line| {
        let end = match line {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            _ => 0,
        };
        line.split_at(line.len() - end)
    })
}

fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|octet| !is_space(*octet));
    let end = text.iter().rposition(|octet| !is_space(*octet));
    start
        .zip(end)
        .map_or(b"", |(start, end)| &text[start..=end])
}

fn is_sip_version(word: &str) -> bool {
    let lower = word.to_lowercase();
    let number = lower
        .strip_prefix("sip/")
        .and_then(|number| number.split_once('.'));
    number.is_some_and(|(major, minor)| {
        [major, minor]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|octet| octet.is_ascii_digit()))
    })
}

fn reference_start(line: &[u8]) -> Option<(bool, (String, Vec<u8>))> {
    let space = line.iter().position(|octet| *octet == b' ')?;
    let first = String::from_utf8_lossy(&line[..space]).into_owned();
    if is_sip_version(&first) {
        let code_start = space + line[space..].iter().position(|octet| *octet != b' ')?;
        let code_end = line[code_start..]
            .iter()
            .position(|octet| *octet == b' ')
            .map_or(line.len(), |length| code_start + length);
        let code = std::str::from_utf8(&line[code_start..code_end]).ok()?;
        let is_number = code.bytes().all(|octet| octet.is_ascii_digit());
        let status = code.parse().unwrap_or(u16::MAX);
        let reason = line.get(code_end + 1..).unwrap_or_default();
        return is_number.then(|| (false, (status.to_string(), reason.to_vec())));
    }
    let end = line.iter().rposition(|octet| !is_space(*octet))? + 1;
    let version_start = line[..end].iter().rposition(|octet| *octet == b' ')? + 1;
    let uri = trimmed(line.get(space..version_start)?);
    let is_request = !first.is_empty()
        && !uri.is_empty()
        && std::str::from_utf8(&line[..space]).is_ok()
        && is_sip_version(std::str::from_utf8(&line[version_start..end]).ok()?);
    is_request.then(|| (true, (first, uri.to_vec())))
}

fn reference(octets: &[u8]) -> Result<Reference, ReadError> {
    let begin = octets
        .iter()
        .position(|octet| !matches!(octet, b'\r' | b'\n'));
    let octets = &octets[begin.ok_or(ReadError::Empty)?..];
    let (mut has_improper_line_end, mut is_unterminated) = (false, true);
    let mut note = |(line, end): Line<'_>| {
        let has_end = !end.is_empty();
        // The CR at the end of the octets may be half of a line end.
        let inner = if has_end { line } else { b"" };
        has_improper_line_end |= end == b"\n" || inner.contains(&b'\r');
    };
    let mut lines = lines(octets);
    let start_line = lines.next().ok_or(ReadError::Empty)?;
    note(start_line);
    let (is_request, start) = reference_start(start_line.0).ok_or(ReadError::StartLine)?;
    let mut at = start_line.0.len() + start_line.1.len();
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut pending = &b""[..];
    let mut is_first = true;
    for line in lines {
        let (text, end) = line;
        let continues = matches!(text.first(), Some(b' ' | b'\t')) && !is_first;
        if text.is_empty() && !end.is_empty() {
            note(line);
            at += end.len();
            is_unterminated = false;
            break;
        }
        note(line);
        at += text.len() + end.len();
        match texts.last_mut() {
            Some(last) if continues => {
                last.extend_from_slice(pending);
                last.extend_from_slice(text);
            }
            _ => texts.push(text.to_vec()),
        }
        pending = end;
        is_first = false;
    }
    if texts.len() > MAXIMUM_FIELDS {
        return Err(ReadError::TooManyFields);
    }
    let fields: Vec<(Vec<u8>, Vec<u8>)> = texts
        .iter()
        .map(|text| match text.iter().position(|octet| *octet == b':') {
            Some(colon) => {
                let name = &text[..colon];
                let end = name.iter().rposition(|octet| !is_space(*octet));
                let name = end.map_or(&b""[..], |end| &name[..=end]);
                (name.to_vec(), trimmed(&text[colon + 1..]).to_vec())
            }
            None => (Vec::new(), trimmed(text).to_vec()),
        })
        .collect();
    let lengths: Vec<_> = fields
        .iter()
        .filter(|(name, _)| {
            name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"l")
        })
        .map(|(_, value)| {
            let text = std::str::from_utf8(value).ok()?;
            let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
            text.parse::<usize>().ok().filter(|_| is_number)
        })
        .collect();
    let rest = &octets[at..];
    let body = match lengths[..] {
        [Some(length)] => &rest[..length.min(rest.len())],
        _ => rest,
    };
    Ok(Reference {
        is_request,
        start,
        fields,
        body: body.to_vec(),
        has_improper_line_end,
        is_unterminated,
    })
}

fn scanned(octets: &[u8]) -> Result<Reference, ReadError> {
    let (start, mut scanner) = Scanner::new(octets)?;
    let mut fields = Vec::new();
    while let Some(field) = scanner.next_field()? {
        fields.push((field.name_text().to_vec(), field.value().to_vec()));
    }
    let (is_request, start) = match start {
        StartLine::Request { method, uri } => (true, (method.as_str().to_owned(), uri.to_vec())),
        StartLine::Response { status, reason } => (false, (status.to_string(), reason.to_vec())),
    };
    Ok(Reference {
        is_request,
        start,
        fields,
        body: scanner.body().to_vec(),
        has_improper_line_end: scanner.line_flaws().line_ends,
        is_unterminated: scanner.line_flaws().unterminated,
    })
}

/// The scanner finds what the reference finds, and so does the index of a message.
fn compare(octets: &[u8]) {
    let expected = reference(octets);
    assert_eq!(
        scanned(octets),
        expected,
        "{:?}",
        String::from_utf8_lossy(octets)
    );
    assert_eq!(
        begins_with_start_line(octets),
        !matches!(expected, Err(ReadError::Empty | ReadError::StartLine))
    );
    let message = Message::read(Bytes::copy_from_slice(octets));
    let (message, expected) = match (message, expected) {
        (Ok(message), Ok(expected)) => (message, expected),
        (Err(read), Err(expected)) => return assert_eq!(read, expected),
        (read, expected) => panic!("{read:?}, {expected:?}"),
    };
    assert_eq!(message.is_request(), expected.is_request);
    let (first, second) = &expected.start;
    match message.method() {
        Some(method) => {
            assert_eq!(method, &Method::from_name(first));
            assert_eq!(message.request_uri_bytes(), Some(&second[..]));
        }
        None => {
            assert_eq!(
                message.status().map(|status| status.to_string()).as_ref(),
                Some(first)
            );
            assert_eq!(message.reason(), std::str::from_utf8(second).ok());
        }
    }
    assert_eq!(message.body(), expected.body);
    let fields: Vec<_> = message
        .fields()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_vec()))
        .collect();
    let expected_fields: Vec<_> = expected
        .fields
        .iter()
        .map(|(name, value)| {
            let name = std::str::from_utf8(name).unwrap_or_default();
            (Name::parse(name).as_str().to_owned(), value.clone())
        })
        .collect();
    assert_eq!(fields, expected_fields);
    let vias = expected.fields.iter().filter(|(name, _)| {
        std::str::from_utf8(name).is_ok_and(|name| Name::parse(name) == Name::Via)
    });
    let vias = vias.flat_map(|(_, value)| list_values(value));
    assert!(vias.eq(message.values(Name::Via)));
    assert_eq!(peek_call_id(octets), message.call_id());
}

#[test]
fn usual_and_unusual_messages_are_read_as_by_the_reference() {
    for text in [
        "",
        "\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "\r\nINVITE sip:b@x SIP/2.0\r\nv: SIP/2.0/UDP a;x=\"1,2\" , ,b,\r\nSubject: a\r\n\tb\r\nl: 3\r\n\r\nabcdef",
        "SIP/2.0 200 OK\nTo: <sip:a>\nX-Other : 1\nno field\n\nbody",
        "SIP/2.0 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nbody",
        "SIP/2.0 200 \r\nContent-Length: x\r\nlone\rCR: 1\r\n\r\nbody",
        "BYE sip:a SIP/2.0\r\nCall-ID: never ended",
        "BYE sip:a SIP/2.0\r\nCall-ID: ends with CR\r",
        "BYE sip:a SIP/2.0\r\n begins folded: 1\r\n\r\n",
        "INVITE  sip:b  SIP/2.0 \r\nTo: x\ry\r\n\r",
        "INVITE  SIP/2.0\r\nTo: x\r\n\r\n",
        "SIP/2.0  99999999 x\r\nCall-ID:\r\n\r\n",
        "SIP/2.0 180 Ringing",
        "SIP/2.0 180",
    ] {
        compare(text.as_bytes());
    }
    for count in [MAXIMUM_FIELDS, MAXIMUM_FIELDS + 1] {
        let many = format!("BYE sip:a SIP/2.0\r\n{}\r\n", "a: b\r\n".repeat(count));
        compare(many.as_bytes());
    }
}

proptest! {
    #[test]
    fn any_octets_are_read_as_by_the_reference(parts in prop::collection::vec(
        prop::sample::select(vec![
            &b"SIP/2.0 180 Ringing"[..], b"ACK sip:a SIP/2.0", b"\r\n", b"\r\n", b"\n", b"\r", b" ", b":", b": ", b"Via",
            b"v: a, b", b"i", b"Call-ID: ", b"Content-Length", b"l: ", b"7", b"\xff", b"abc", b"\t", b"\0", b",", b"\"", b"<",
            b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ]),
        0..40,
    )) {
        compare(&parts.concat());
        compare(&[&b"ACK sip:a SIP/2.0\r\n"[..], &parts.concat()].concat());
    }
}
