//! What is seen of a message by who but hands it on to somebody else.

use crate::line::{LineEnd, line_end};
use crate::runs::LineEnds;
use crate::syntax::{self, trim_end, trim_start};

use super::scan::Scan;

/// Whether octets begin with a start line of SIP, as [`Scan::begin`] finds out.
pub fn begins_as_message(octets: &[u8]) -> bool {
    begins_as_usual(octets).unwrap_or_else(|| Scan::begin(octets).is_ok())
}

/// [`begins_as_message`] of a first line as most are: `None` where it takes more than a glance.
fn begins_as_usual(octets: &[u8]) -> Option<bool> {
    const VERSION: &[u8] = b"SIP/2.0";
    let end = LineEnds::new(octets).first(0);
    if u32::try_from(octets.len()).is_err() || octets.get(end..end + 2)? != b"\r\n" {
        return None;
    }
    let line = &octets[..end];
    if let Some([b' ', status @ ..]) = line.strip_prefix(VERSION) {
        let is_usual = matches!(status, [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b' ', ..]);
        return is_usual.then_some(true);
    }
    let (before, version) = line.split_at_checked(line.len().checked_sub(VERSION.len())?)?;
    let method_length = syntax::find_near(b' ', before)?;
    let (method, uri) = before.split_at(method_length);
    let is_usual = version == VERSION
        && !method.is_empty()
        && method.iter().all(u8::is_ascii_uppercase)
        && matches!(uri, [b' ', first, .., b' '] if first.is_ascii_graphic());
    is_usual.then_some(true)
}

/// How many lines are looked through for a Call-ID.
const MAXIMUM_LINES: usize = 64;

/// The Call-ID of a message, as [`Message::call_id`](crate::Message::call_id) gives it, where it is written as most write
/// it, and no field stands before it that may be one.
pub fn plain_call_id(octets: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"Call-ID:";
    let mut line_ends = LineEnds::new(octets);
    let mut end_of = |at: usize| {
        let end = line_ends.first(at);
        match octets.get(end..end + 2) {
            Some(b"\r\n") => Some(LineEnd {
                end,
                next: end + 2,
                proper: true,
            }),
            _ => line_end(octets, at),
        }
    };
    let mut at = end_of(0)?.next;
    for _ in 0..MAXIMUM_LINES {
        let line = octets.get(at..)?;
        // White space continues the line before.
        let is_it = match line {
            [b'C' | b'c', b'a' | b'A', ..] => Some(line.starts_with(NAME)),
            [b'i' | b'I' | b' ' | b'\t' | b'\r' | b'\n', ..] => Some(false),
            _ => None,
        };
        let end = end_of(at).filter(|end| end.proper)?;
        match is_it {
            Some(true) => {
                let is_folded = matches!(octets.get(end.next), Some(b' ' | b'\t'));
                let value = octets.get(at + NAME.len()..end.end)?;
                let value = std::str::from_utf8(trim_end(trim_start(value))).ok()?;
                return (!is_folded).then_some(value);
            }
            Some(false) => return None,
            None => at = end.next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn most_are_told_at_a_glance() {
        for (line, begins) in [
            ("INVITE sip:bob@example.com SIP/2.0\r\n", Some(true)),
            ("SIP/2.0 200 OK\r\n", Some(true)),
            ("SIP/2.0 404 \r\n", Some(true)),
            ("INVITE sip:bob@example.com SIP/2.0\n", None),
            ("INVITE SIP/2.0\r\n", None),
            ("INVITE  SIP/2.0\r\n", None),
            ("SIP/2.0 2000 OK\r\n", None),
            ("invite sip:bob@example.com SIP/2.0\r\n", None),
            ("INVITE sip:bob@example.com", None),
        ] {
            assert_eq!(begins_as_usual(line.as_bytes()), begins, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_begins_as_a_message_is_what_a_scan_takes_for_one(
            parts in prop::collection::vec(select(vec![
                "INVITE", "FOO", "foo", " ", "sip:a@b", "\t", "SIP/2.0", "SIP/3.1", "sip/2.0", "200", "20", "\r\n", "\n",
                "\r", "\u{e4}", "\0", "",
            ]), 0..8),
        ) {
            let octets = parts.concat().into_bytes();
            prop_assert_eq!(begins_as_message(&octets), Scan::begin(&octets).is_ok());
        }
    }
}
