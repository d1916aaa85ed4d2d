//! Going over a message once, without making an index of it.

use crate::line::{LineEnd, line_end};
use crate::name::NameCode;
use crate::syntax::{self, find_near, trim_end, trim_start};
use crate::{Method, Name};

use super::index::read_start_line;
use super::{Start, read_cseq};
use crate::list::first_value;
use crate::scanner::{MAXIMUM_FIELDS, ReadError};
use crate::start_line::StartLine;

/// Goes over the header fields of a message, one after the other, as [`Message::read`] would understand
/// them, and keeps nothing: for who looks at many messages and at few fields of each.
///
/// [`Message::read`]: crate::Message::read
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    /// From the start line on.
    octets: &'a [u8],
    /// Where the next line begins; behind the empty line once that was seen.
    at: usize,
    fields: usize,
    /// The value of Content-Length, where there is one such field.
    content_length: ContentLength,
    ended: bool,
}

/// A field of a message that is scanned.
#[derive(Clone, Copy, Debug)]
pub struct ScannedField<'a> {
    /// Its name as written; empty where the line is no field.
    pub name_text: &'a [u8],
    /// Its value, without the white space around it. It may be folded.
    pub value: &'a [u8],
}

impl<'a> ScannedField<'a> {
    /// Its name; `None` for one that has no variant of its own, or a line that is no field.
    #[inline]
    pub fn name(&self) -> Option<Name<'static>> {
        NameCode::of(self.name_text).name()
    }

    /// The values of a comma-separated list, without empty ones (RFC 3261 section 7.3.1).
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.value;
        let is_one = memchr::memchr(b',', rest).is_none();
        std::iter::from_fn(move || {
            if is_one {
                let value = std::mem::take(&mut rest);
                return (!value.is_empty()).then_some(value);
            }
            let first = first_value(rest)?;
            let value = &rest[first.value];
            rest = &rest[first.rest_start..];
            Some(value)
        })
    }

    /// The value as that of CSeq: the sequence number and the method (RFC 3261 section 20.16).
    pub fn cseq(&self) -> Option<(u32, Method)> {
        let (number, method) = read_cseq(self.value)?;
        Some((number, Method::from_octets(method)?))
    }
}

/// What Content-Length says (RFC 3261 section 18.3).
#[derive(Clone, Copy, Debug)]
enum ContentLength {
    Missing,
    Is(usize),
    /// It is no number, or there are several: the body is what there is.
    Unusable,
}

impl<'a> Scan<'a> {
    /// Reads the start line. Line ends before it are left out (RFC 3261 section 7.5).
    ///
    /// # Errors
    ///
    /// When the octets do not begin with a start line of SIP.
    pub fn begin(octets: &'a [u8]) -> Result<(StartLine<'a>, Scan<'a>), ReadError> {
        if u32::try_from(octets.len()).is_err() {
            return Err(ReadError::TooLarge);
        }
        let start = octets
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'));
        let octets = &octets[start.ok_or(ReadError::Empty)?..];
        let end = line_at(octets, 0);
        let text = |start: u32, end: u32| &octets[start as usize..end as usize];
        let start_line = match read_start_line(&octets[..end.end]).ok_or(ReadError::StartLine)? {
            Start::Request { method, uri, .. } => StartLine::Request {
                method,
                uri: text(uri.start, uri.end),
            },
            Start::Response { status, reason } => StartLine::Response {
                status,
                reason: text(reason.start, reason.end),
            },
        };
        let scan = Scan {
            octets,
            at: end.next,
            fields: 0,
            content_length: ContentLength::Missing,
            ended: false,
        };
        Ok((start_line, scan))
    }

    /// The next header field; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// When there are more fields than [`MAXIMUM_FIELDS`](crate::MAXIMUM_FIELDS).
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<ScannedField<'a>>, ReadError> {
        if self.ended || self.at >= self.octets.len() {
            self.ended = true;
            return Ok(None);
        }
        let start = self.at;
        let mut end = line_at(self.octets, start);
        if end.end == start {
            self.at = end.next;
            self.ended = true;
            return Ok(None);
        }
        // A line that begins with white space continues the one before it (section 7.3.1).
        while matches!(self.octets.get(end.next), Some(b' ' | b'\t')) {
            end = line_at(self.octets, end.next);
        }
        if self.fields == MAXIMUM_FIELDS {
            return Err(ReadError::TooManyFields);
        }
        self.fields += 1;
        self.at = end.next;
        let line = &self.octets[start..end.end];
        let colon = find_near(b':', line);
        let name_text = trim_end(&line[..colon.unwrap_or(0)]);
        let value = trim_end(trim_start(&line[colon.map_or(0, |colon| colon + 1)..]));
        let field = ScannedField { name_text, value };
        if let Some(b'C' | b'c' | b'L' | b'l') = name_text.first()
            && let Some(Name::ContentLength) = field.name()
        {
            self.content_length = match self.content_length {
                ContentLength::Missing => {
                    syntax::number(value).map_or(ContentLength::Unusable, ContentLength::Is)
                }
                _ => ContentLength::Unusable,
            };
        }
        Ok(Some(field))
    }

    /// The body, once all fields were gone over; empty before.
    pub fn body(&self) -> &'a [u8] {
        if !self.ended {
            return b"";
        }
        let rest = self.octets.get(self.at..).unwrap_or_default();
        match self.content_length {
            ContentLength::Is(length) => &rest[..length.min(rest.len())],
            ContentLength::Missing | ContentLength::Unusable => rest,
        }
    }
}

/// The line that begins at `at`; the rest where it has no end.
#[inline(always)]
fn line_at(octets: &[u8], at: usize) -> LineEnd {
    line_end(octets, at).unwrap_or(LineEnd {
        end: octets.len(),
        next: octets.len(),
        proper: true,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::Message;

    /// What a scan finds is what the index has.
    fn compare(octets: &[u8]) {
        let message = Message::read(Bytes::copy_from_slice(octets));
        let scanned = Scan::begin(octets).and_then(|(start, mut scan)| {
            let mut fields = Vec::new();
            while let Some(field) = scan.next_field()? {
                fields.push((
                    field.name().map(|name| name.as_str().to_owned()),
                    field.value,
                ));
            }
            Ok((start, fields, scan.body()))
        });
        let (message, (start, fields, body)) = match (message, scanned) {
            (Ok(message), Ok(scanned)) => (message, scanned),
            (Err(read), Err(scanned)) => return assert_eq!(read, scanned),
            (read, scanned) => panic!("{read:?}, {scanned:?}"),
        };
        match start {
            StartLine::Request { method, uri } => {
                assert_eq!(message.method(), Some(&method));
                assert_eq!(message.request_uri(), std::str::from_utf8(uri).ok());
            }
            StartLine::Response { status, reason } => {
                assert_eq!(message.status(), Some(status));
                assert_eq!(message.reason(), std::str::from_utf8(reason).ok());
            }
        }
        let expected: Vec<_> = message
            .fields()
            .map(|(name, value)| match name {
                Name::Other(_) => (None, value),
                known => (Some(known.as_str().to_owned()), value),
            })
            .collect();
        assert_eq!(fields, expected);
        assert_eq!(body, message.body());
        let vias: Vec<&[u8]> = message.values(Name::Via).collect();
        let scanned = fields
            .iter()
            .filter(|(name, _)| name.as_deref() == Some("Via"));
        let scanned = scanned.flat_map(|&(_, value)| {
            ScannedField {
                name_text: b"",
                value,
            }
            .values()
        });
        assert_eq!(scanned.collect::<Vec<_>>(), vias);
    }

    #[test]
    fn a_scan_reads_what_the_index_has() {
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
        ] {
            compare(text.as_bytes());
        }
        let many = format!(
            "BYE sip:a SIP/2.0\r\n{}\r\n",
            "a: b\r\n".repeat(MAXIMUM_FIELDS + 1)
        );
        compare(many.as_bytes());
    }

    proptest! {
        #[test]
        fn any_octets_are_read_alike(parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"SIP/2.0 180 Ringing"[..], b"ACK sip:a SIP/2.0", b"\r\n", b"\n", b"\r", b" ", b":", b"Via",
                b"i", b"Content-Length", b"7", b"\xff", b"abc",
            ]),
            0..40,
        )) {
            compare(&parts.concat());
        }
    }
}
