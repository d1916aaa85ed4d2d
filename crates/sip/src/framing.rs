//! Messages in a stream of octets (RFC 3261 sections 7.5 and 18.3).

use bytes::{Buf, Bytes};

use crate::Name;
use crate::content_length::ContentLength;
use crate::name::NameCode;
use crate::simd;
use crate::syntax;

/// How much of a stream is held while a message is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingLimits {
    /// Octets of the start line and the header section.
    pub header_bytes: usize,
    /// Octets of the body.
    pub body_bytes: usize,
}

impl Default for FramingLimits {
    fn default() -> FramingLimits {
        FramingLimits {
            header_bytes: 32 * 1024,
            body_bytes: 256 * 1024,
        }
    }
}

/// Why a stream cannot be read on: where the next message begins is not known any more, so the
/// connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The header section is longer than the limit.
    #[error("header section longer than the limit")]
    HeaderTooLarge,
    /// The body is longer than the limit.
    #[error("body longer than the limit")]
    BodyTooLarge,
    /// Content-Length is missing, is not a number, or is there twice (RFC 3261 section 18.3).
    #[error("no usable Content-Length")]
    ContentLength,
}

/// What was found in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One whole message.
    Message(Bytes),
    /// The second of two CRLF in a row: together they are a keep-alive ping, to be answered with one
    /// CRLF (RFC 5626 section 3.5.1).
    Ping,
    /// A CRLF: a keep-alive pong, or the first half of a ping (RFC 5626 section 3.5.1).
    Pong,
}

/// Cuts a stream into messages by their Content-Length.
///
/// It knows how far it has looked into the message that is arriving, so that octets which trickle in
/// are each looked at once.
#[derive(Debug, Default)]
pub struct StreamReader {
    limits: FramingLimits,
    progress: Progress,
    /// Whether the last frame was the first CRLF of what may become a ping.
    after_line_end: bool,
}

/// What is at the front of the buffer.
enum Step {
    /// A whole message of so many octets.
    Message {
        length: usize,
    },
    /// What was there, and is taken.
    Ping,
    Pong,
}

/// How much of the message at the front of the buffer is known.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// The header section is not complete.
    Header(Header),
    /// The header section is complete: the length of the message.
    Body { message_length: usize },
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::Header(Header::default())
    }
}

/// How far a header section is known.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    /// Where the last field begins whose first line is complete: the lines behind may continue it.
    field_start: usize,
    /// Where the line begins that is not complete.
    line_start: usize,
    /// Up to where line ends have been looked for.
    searched: usize,
    /// What the fields before the last one say.
    content_length: ContentLength,
}

impl StreamReader {
    /// A reader at the beginning of a stream.
    pub fn new(limits: FramingLimits) -> StreamReader {
        StreamReader {
            limits,
            ..StreamReader::default()
        }
    }

    /// Takes the next frame off the front of what has been received and not been taken yet. `None`:
    /// more octets are needed; never more than the limits together are waiting then. What is not taken
    /// has to be at the front of what is handed in next.
    ///
    /// After an error the connection is of no more use. What could not be cut is still in the
    /// buffer: [`Message::read`](crate::Message::read) may find a request in it that can be
    /// answered with a 400 before the connection is closed.
    #[inline]
    pub fn next<B>(&mut self, received: &mut B) -> Result<Option<Frame>, FramingError>
    where
        B: Buf + AsRef<[u8]>,
    {
        Ok(match self.proceed(received)? {
            Some(Step::Message { length }) => {
                // A copy of its own: some messages are kept for long, and must not keep alive what else was received with
                // them. It is made where it is wanted: handed on from here it would have to wait until the processor has
                // fetched all the memory that it goes to.
                let message = Bytes::copy_from_slice(&received.as_ref()[..length]);
                received.advance(length);
                Some(Frame::Message(message))
            }
            Some(Step::Ping) => Some(Frame::Ping),
            Some(Step::Pong) => Some(Frame::Pong),
            None => None,
        })
    }

    /// What comes next, which is still in the buffer where it is a message.
    fn proceed<B>(&mut self, received: &mut B) -> Result<Option<Step>, FramingError>
    where
        B: Buf + AsRef<[u8]>,
    {
        if let Progress::Header(Header { line_start: 0, .. }) = self.progress {
            match *received.as_ref() {
                [b'\r', b'\n', ..] => {
                    received.advance(2);
                    self.progress = Progress::default();
                    self.after_line_end = !self.after_line_end;
                    return Ok(Some(if self.after_line_end {
                        Step::Pong
                    } else {
                        Step::Ping
                    }));
                }
                [] | [b'\r'] => return Ok(None),
                _ => self.after_line_end = false,
            }
        }
        let message_length = match &mut self.progress {
            Progress::Body { message_length } => *message_length,
            Progress::Header(header) => {
                let received = received.as_ref();
                let header_length = header.read(received);
                if header_length.unwrap_or(received.len()) > self.limits.header_bytes {
                    return Err(FramingError::HeaderTooLarge);
                }
                let Some(header_length) = header_length else {
                    return Ok(None);
                };
                let ContentLength::Is(body_length) = header.content_length else {
                    return Err(FramingError::ContentLength);
                };
                if body_length > self.limits.body_bytes {
                    return Err(FramingError::BodyTooLarge);
                }
                let message_length = header_length + body_length;
                self.progress = Progress::Body { message_length };
                message_length
            }
        };
        if received.as_ref().len() < message_length {
            return Ok(None);
        }
        self.progress = Progress::default();
        Ok(Some(Step::Message {
            length: message_length,
        }))
    }
}

impl Header {
    /// Goes over the lines that have come. The length of the start line and the header section with the empty line, once
    /// they are there.
    fn read(&mut self, received: &[u8]) -> Option<usize> {
        while let Some(new) = received.get(self.searched..)
            && !new.is_empty()
        {
            let (mut line_feeds, looked_at) = simd::equal_in_many(new, b'\n');
            while line_feeds != 0 {
                let end = self.searched + line_feeds.trailing_zeros() as usize;
                line_feeds &= line_feeds - 1;
                // What is folded belongs to the line before, as for the reader of messages.
                if !matches!(received.get(self.line_start), Some(b' ' | b'\t')) {
                    self.end_field(received);
                }
                if let [] | [b'\r'] = received[self.line_start..end] {
                    // Who asks again is told the same.
                    self.searched = self.line_start;
                    return Some(end + 1);
                }
                self.line_start = end + 1;
            }
            self.searched += looked_at;
        }
        None
    }

    /// Takes notice of the field that ends where the next one begins.
    #[inline]
    fn end_field(&mut self, received: &[u8]) {
        let field = &received[self.field_start..self.line_start];
        self.field_start = self.line_start;
        if may_be_content_length(field)
            && let Some(value) = content_length(field)
        {
            self.content_length.add(value);
        }
    }
}

/// Whether the name of a field may be Content-Length. Of few other fields it may.
#[inline]
fn may_be_content_length(field: &[u8]) -> bool {
    match field {
        [b'l' | b'L', ..] => true,
        [b'c' | b'C', ..] => field.first_chunk().is_some_and(|start: &[u8; 8]| {
            let lower_case = u64::from_le_bytes(*start) | u64::from_le_bytes([0x20; 8]);
            lower_case == u64::from_le_bytes(*b"content-")
        }),
        _ => false,
    }
}

/// The value of a field, where it is Content-Length.
fn content_length(field: &[u8]) -> Option<&[u8]> {
    let (name, value) = field.split_at(syntax::find_near(b':', field)?);
    let is_length = NameCode::of(syntax::trim_end(name)) == Name::ContentLength.code();
    is_length.then(|| syntax::trim(&value[1..]))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::line_ends::LineEnds;

    const LIMITS: FramingLimits = FramingLimits {
        header_bytes: 100,
        body_bytes: 10,
    };

    /// All frames of a stream that arrives in pieces of a size, and how it ends. They are the same when each piece is read
    /// where it has come, and what is left of it kept.
    fn frames(stream: &[u8], piece: usize) -> (Vec<Frame>, Option<FramingError>) {
        let mut reader = StreamReader::new(LIMITS);
        let mut received = BytesMut::new();
        let (mut frames, mut end) = (Vec::new(), None);
        let mut in_place = StreamReader::new(LIMITS);
        let mut left = Vec::new();
        for piece in stream.chunks(piece) {
            received.extend_from_slice(piece);
            let first = frames.len();
            end = read_on(&mut reader, &mut received, &mut frames);
            assert!(received.len() <= LIMITS.header_bytes + LIMITS.body_bytes || end.is_some());

            let came = [&left[..], piece].concat();
            let (mut rest, mut same) = (&came[..], Vec::new());
            assert_eq!(read_on(&mut in_place, &mut rest, &mut same), end);
            assert_eq!(same, frames[first..]);
            left = rest.to_vec();
            assert_eq!(left, received);
            if end.is_some() {
                break;
            }
        }
        (frames, end)
    }

    fn read_on<B>(
        reader: &mut StreamReader,
        received: &mut B,
        frames: &mut Vec<Frame>,
    ) -> Option<FramingError>
    where
        B: Buf + AsRef<[u8]>,
    {
        loop {
            match reader.next(received) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    fn message(text: &'static str) -> Frame {
        Frame::Message(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn messages_and_keep_alives_however_they_are_cut() {
        let stream = b"\r\n\r\n\r\nA\r\nl:2\r\n\r\nhi\r\nB\r\nContent-Length\t:\r\n 0\r\n\r\nC\nL: 1\n\nx\r\n\r\n";
        let expected = [
            Frame::Pong,
            Frame::Ping,
            Frame::Pong,
            message("A\r\nl:2\r\n\r\nhi"),
            Frame::Pong,
            message("B\r\nContent-Length\t:\r\n 0\r\n\r\n"),
            message("C\nL: 1\n\nx"),
            Frame::Pong,
            Frame::Ping,
        ];
        for piece in 1..=stream.len() {
            assert_eq!(frames(stream, piece), (expected.to_vec(), None), "{piece}");
        }
    }

    #[test]
    fn half_a_message_waits() {
        for stream in [
            "A\r\nl: 2\r\n\r\nh",
            "A\r\nl: 0\r\n\r",
            "A\r\nl: 0\r\n",
            "A",
            "\r",
        ] {
            assert_eq!(frames(stream.as_bytes(), 1), (vec![], None), "{stream}");
        }
    }

    #[test]
    fn without_a_length_the_stream_is_lost() {
        for header in [
            "",
            "l: five\r\n",
            "l: -1\r\n",
            "l: 1\r\nContent-Length: 1\r\n",
            "l:\r\n",
            "l: 1 1\r\n",
            "l: 99999999999999999999\r\n",
            "Subject: x\r\n l: 5\r\n",
        ] {
            let stream = format!("A\r\n{header}\r\n");
            let error = frames(stream.as_bytes(), 3).1;
            assert_eq!(error, Some(FramingError::ContentLength), "{header}");
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let long_line = "a".repeat(1000);
        assert_eq!(
            frames(long_line.as_bytes(), 1).1,
            Some(FramingError::HeaderTooLarge)
        );
        let many_lines = "a: b\r\n".repeat(100);
        assert_eq!(
            frames(many_lines.as_bytes(), 7).1,
            Some(FramingError::HeaderTooLarge)
        );
        let long_body = b"A\r\nl: 11\r\n\r\n";
        assert_eq!(frames(long_body, 1).1, Some(FramingError::BodyTooLarge));
    }

    /// A request that breaks the framing can still be answered (RFC 4475 section 3.1.2.3).
    #[test]
    fn what_could_not_be_cut_is_still_there() {
        let mut received = BytesMut::from("OPTIONS sip:a SIP/2.0\r\nl: -5\r\nFrom: sip:a\r\n\r\n");
        let mut reader = StreamReader::new(FramingLimits::default());
        assert_eq!(reader.next(&mut received), Err(FramingError::ContentLength));
        assert_eq!(reader.next(&mut received), Err(FramingError::ContentLength));
        let message = crate::Message::read(received.freeze());
        assert!(message.is_ok_and(|message| message.from().is_some()));
    }

    /// The value of the one Content-Length in a header section, found without regard to how that has come.
    fn single_content_length(header: &[u8]) -> Option<usize> {
        let mut lengths = Vec::new();
        let mut at = 0;
        while let Some(mut end) = LineEnds::new(header).next_from(at) {
            while let Some(b' ' | b'\t') = header.get(end.next) {
                end = LineEnds::new(header).next_from(end.next)?;
            }
            let line = &header[at..end.end];
            at = end.next;
            if let Some(colon) = line.iter().position(|&octet| octet == b':')
                && NameCode::of(syntax::trim_end(&line[..colon])) == Name::ContentLength.code()
            {
                lengths.push(syntax::number(syntax::trim(&line[colon + 1..])));
            }
        }
        match lengths[..] {
            [length] => length,
            _ => None,
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            failure_persistence: None,
            ..proptest::prelude::ProptestConfig::default()
        })]

        #[test]
        fn whatever_the_lines_are_their_length_is_found(
            lines in proptest::collection::vec(
                proptest::sample::select(vec![
                    "l: 1\r\n", "L:\t\r\n 2\n", "Content-Length : 3\r\n", "Content-Length: x\r\n", "Contact: <sip:a>\r\n",
                    "Contact: l\r\n l: 4\r\n", "content-length\r\n\t:\r\n 5\r\n", "call-id\r\n", "X: y\n", "\tz: \r\n",
                    "C\rl: 6\r\n",
                ]),
                0..5,
            ),
            piece in 1..20_usize,
        ) {
            let header = format!("A\r\n{}\r\n", lines.concat());
            let expected = match single_content_length(header.as_bytes()) {
                Some(length) => vec![header.len() + length],
                None => Vec::new(),
            };
            let stream = format!("{header}{}", "b".repeat(9));
            let (found, error) = frames(stream.as_bytes(), piece);
            let found: Vec<usize> = found
                .iter()
                .map(|frame| match frame {
                    Frame::Message(octets) => octets.len(),
                    Frame::Ping | Frame::Pong => 0,
                })
                .collect();
            proptest::prop_assert_eq!(error.is_some(), expected.is_empty());
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
