//! Messages in a stream of octets (RFC 3261 sections 7.5 and 18.3), found without copying any.
//!
//! `sip::framing` does the same for servers, lenient and for octets that trickle in; here whole reads
//! with dozens of messages in them are cut, and what breaks the rules ends a connection that is ours
//! alone.

use memchr::memchr_iter;
use memchr::memmem;

/// How much of a message is held while the rest is not here.
const MAX_HEADER: usize = 64 * 1024;
const MAX_BODY: usize = 256 * 1024;

/// The longest that an incomplete message can be.
pub(super) const MAX_MESSAGE: usize = MAX_HEADER + MAX_BODY;

/// What is at the front of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message of so many octets.
    Message(usize),
    /// So many octets of empty lines: keep-alives (RFC 5626 section 3.5.1).
    KeepAlive(usize),
}

/// The stream cannot be cut any further: no usable Content-Length, or more than the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Cuts one stream; knows how far it has looked into a message that is not complete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Framer {
    /// Up to where no end of the header section was found.
    searched: usize,
    /// The length of the message, where its header section is complete.
    length: Option<usize>,
}

impl Framer {
    /// What is at the front of what has come and not been taken yet; `None` where more has to come. What
    /// is given is to be taken off the front before the next call.
    pub(super) fn next(&mut self, octets: &[u8]) -> Result<Option<Frame>, Broken> {
        if self.length.is_none() && self.searched == 0 {
            let empty = octets
                .iter()
                .take_while(|octet| matches!(octet, b'\r' | b'\n'));
            match empty.count() {
                0 => {}
                count => return Ok(Some(Frame::KeepAlive(count))),
            }
        }
        let length = match self.length {
            Some(length) => length,
            None => match self.measure(octets)? {
                Some(length) => length,
                None => return Ok(None),
            },
        };
        if octets.len() < length {
            self.length = Some(length);
            return Ok(None);
        }
        *self = Framer::default();
        Ok(Some(Frame::Message(length)))
    }

    /// The length of a message by its header section, once that is complete.
    fn measure(&mut self, octets: &[u8]) -> Result<Option<usize>, Broken> {
        // The end may straddle what was there and what has come since.
        let from = self.searched.saturating_sub(3);
        let Some(end) = memmem::find(&octets[from..], b"\r\n\r\n") else {
            self.searched = octets.len();
            return match octets.len() > MAX_HEADER {
                true => Err(Broken),
                false => Ok(None),
            };
        };
        let header = from + end + 4;
        let body = content_length(&octets[..header]).ok_or(Broken)?;
        match header > MAX_HEADER || body > MAX_BODY {
            true => Err(Broken),
            false => Ok(Some(header + body)),
        }
    }
}

/// The value of the one Content-Length, which a stream needs (RFC 3261 section 20.14).
fn content_length(header: &[u8]) -> Option<usize> {
    let mut found = None;
    for end in memchr_iter(b'\n', header) {
        let line = &header[end + 1..];
        let Some(b'c' | b'C' | b'l' | b'L') = line.first() else {
            continue;
        };
        let Some(value) = value_of_length(line) else {
            continue;
        };
        let length = number(value)?;
        if found.replace(length).is_some_and(|other| other != length) {
            return None;
        }
    }
    found
}

/// What follows the name, if it is that of Content-Length, long or compact, and its colon.
fn value_of_length(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"content-length";
    let rest = match line.get(..NAME.len()) {
        Some(name) if name.eq_ignore_ascii_case(NAME) => &line[NAME.len()..],
        _ => match line {
            [b'l' | b'L', rest @ ..] => rest,
            _ => return None,
        },
    };
    let blank = rest
        .iter()
        .take_while(|octet| matches!(octet, b' ' | b'\t'));
    rest[blank.count()..].strip_prefix(b":")
}

/// A number up to the end of its line. A line that begins with a blank continues the one before (RFC 3261
/// section 7.3.1), so that line ends before the number are blanks too.
fn number(value: &[u8]) -> Option<usize> {
    let blank = value.iter().take_while(|octet| octet.is_ascii_whitespace());
    let value = &value[blank.count()..];
    let digits = value.iter().take_while(|octet| octet.is_ascii_digit());
    let (digits, rest) = value.split_at(digits.count());
    let blank = rest
        .iter()
        .take_while(|octet| matches!(octet, b' ' | b'\t'));
    let ends = matches!(rest.get(blank.count()), Some(b'\r' | b'\n'));
    match ends && digits.len() < 10 {
        true => std::str::from_utf8(digits).ok()?.parse().ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;
    use sip::{FramingLimits, StreamReader};

    use super::*;

    /// Cuts a stream that comes in pieces of these sizes.
    fn cut(stream: &[u8], sizes: &[usize]) -> Result<Vec<Vec<u8>>, Broken> {
        let mut framer = Framer::default();
        let (mut here, mut taken) = (0, 0);
        let mut sizes = sizes.iter().cycle();
        let mut messages = Vec::new();
        while here < stream.len() {
            here = stream.len().min(here + sizes.next().unwrap_or(&1).max(&1));
            while let Some(frame) = framer.next(&stream[taken..here])? {
                match frame {
                    Frame::KeepAlive(length) => taken += length,
                    Frame::Message(length) => {
                        messages.push(stream[taken..taken + length].to_vec());
                        taken += length;
                    }
                }
            }
        }
        Ok(messages)
    }

    const TWO: &[u8] = b"\r\n\r\nBYE sip:a SIP/2.0\r\nContent-Length:  4 \r\nl2: x\r\n\r\nbody\r\n\
        ACK sip:a SIP/2.0\r\nL\t:\r\n 0\r\nX: y\r\n\r\n";

    #[test]
    fn messages_are_cut_wherever_the_stream_is() {
        for size in 1..TWO.len() {
            let messages = cut(TWO, &[size]).unwrap();
            assert_eq!(messages.len(), 2, "{size}");
            assert!(messages[0].ends_with(b"\r\n\r\nbody"));
            assert!(messages[1].starts_with(b"ACK"));
        }
    }

    #[test]
    fn a_stream_that_cannot_be_cut_is_given_up() {
        for header in [
            "",
            "l: five",
            "l: -1",
            "l: 1\r\nContent-Length: 2",
            "l:",
            "l: 1 1",
            "l: 99999999999",
            "l: 300000",
        ] {
            let stream = format!("A\r\n{header}\r\n\r\n");
            assert_eq!(cut(stream.as_bytes(), &[3]), Err(Broken), "{header}");
        }
        assert_eq!(cut(&[b'a'; MAX_HEADER + 1], &[1000]), Err(Broken));
    }

    proptest! {
        /// The servers' reader and this one agree on streams of proper messages.
        #[test]
        fn the_servers_reader_cuts_at_the_same_places(
            bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), any::<bool>(), 0..3_usize), 1..8),
            sizes in prop::collection::vec(1..60_usize, 1..10),
        ) {
            let mut stream = Vec::new();
            for (body, compact, empty) in &bodies {
                let name = if *compact { "l" } else { "Content-Length" };
                stream.extend(b"\r\n".repeat(*empty));
                stream.extend(format!("INVITE sip:a SIP/2.0\r\nVia: x\r\n{name}: {}\r\nCall-ID: y\r\n\r\n", body.len()).bytes());
                stream.extend(body);
            }
            let mut reader = StreamReader::new(FramingLimits::default());
            let mut octets = BytesMut::from(&stream[..]);
            let mut expected = Vec::new();
            while let Some(frame) = reader.next(&mut octets).unwrap() {
                if let sip::Frame::Message(message) = frame {
                    expected.push(message.to_vec());
                }
            }
            prop_assert_eq!(cut(&stream, &sizes), Ok(expected));
        }

        /// Whatever comes is cut or refused.
        #[test]
        fn any_octets_are_cut_or_refused(stream in prop::collection::vec(any::<u8>(), 0..300), size in 1..50_usize) {
            cut(&stream, &[size]).ok();
        }
    }
}
