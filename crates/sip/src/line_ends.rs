//! Where lines end (RFC 3261 section 7).

use crate::simd;

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEnd {
    /// Behind the last octet of the line, its line end left out.
    pub(crate) end: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
    /// Whether it ends with CRLF and has no other CR or LF in it, as RFC 3261 section 7 demands. A
    /// lone LF is taken for a line end too, a lone CR is not.
    pub(crate) is_proper: bool,
}

/// Finds the ends of the lines of a text in their order. Octets are looked at in blocks that do not depend on where the
/// lines are, so that a processor looks far ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineEnds<'a> {
    text: &'a [u8],
    /// Where the block begins that was looked at last.
    block_start: usize,
    /// Which of its octets may end a line, a bit each: those up to CR, which are rare elsewhere.
    candidates: u64,
}

impl<'a> LineEnds<'a> {
    pub(crate) fn new(text: &'a [u8]) -> LineEnds<'a> {
        LineEnds {
            text,
            // No text is so long.
            block_start: usize::MAX / 2,
            candidates: 0,
        }
    }

    /// The end of the line that begins at a place. `None` where it does not end in this text.
    #[inline(always)]
    pub(crate) fn next_from(&mut self, start: usize) -> Option<LineEnd> {
        let mut at = start;
        let mut is_proper = true;
        loop {
            at = self.next_candidate(at);
            match self.text.get(at..)? {
                [b'\r', b'\n', ..] => {
                    return Some(LineEnd {
                        end: at,
                        next: at + 2,
                        is_proper,
                    });
                }
                [b'\n', ..] => {
                    return Some(LineEnd {
                        end: at,
                        next: at + 1,
                        is_proper: false,
                    });
                }
                // What follows this CR is not here yet.
                [] | [b'\r'] => return None,
                [b'\r', ..] => is_proper = false,
                _ => {}
            }
            at += 1;
        }
    }

    /// The place of the first octet up to CR from a place on; the end of the text where there is none.
    #[inline(always)]
    fn next_candidate(&mut self, start: usize) -> usize {
        const BOUND: u8 = b'\r' + 1;
        let mut at = start;
        loop {
            let offset = at.wrapping_sub(self.block_start);
            if offset < simd::MANY {
                let candidates = self.candidates >> offset;
                if candidates != 0 {
                    return at + candidates.trailing_zeros() as usize;
                }
                at = self.block_start + simd::MANY;
            }
            self.candidates = match self.text.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(many) => simd::below_in_many(many, BOUND),
                None if at >= self.text.len() => return self.text.len(),
                None => simd::below_in_last(&self.text[at..], BOUND),
            };
            self.block_start = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From wherever they are asked for, whatever is skipped, in a text of any length.
    #[test]
    fn candidates_are_the_octets_up_to_carriage_return() {
        let line = b"0123456789\x0e\xff \x80\r\n\tabc\0defghij-----------------------------------------------------";
        for length in 0..150 {
            let mut text = line.repeat(2);
            text.truncate(length);
            for start in 0..=length {
                for step in [1, 2, 40, 64, 100] {
                    let mut ends = LineEnds::new(&text);
                    let mut at = start;
                    while at <= length {
                        let found = text[at..].iter().position(|octet| *octet <= b'\r');
                        let end = found.map_or(length, |found| at + found);
                        assert_eq!(ends.next_candidate(at), end, "{length} {start} {step}");
                        assert_eq!(ends.next_candidate(at), end, "{length} {start} {step}");
                        at = end + step;
                    }
                }
            }
        }
    }

    #[test]
    fn a_lone_line_feed_ends_a_line_and_a_lone_carriage_return_does_not() {
        let end = |text: &str, from| {
            let end = LineEnds::new(text.as_bytes()).next_from(from)?;
            Some((end.end, end.next, end.is_proper))
        };
        assert_eq!(end("ab\r\ncd", 0), Some((2, 4, true)));
        assert_eq!(end("ab\ncd", 1), Some((2, 3, false)));
        assert_eq!(end("a\rb\0\r\n", 0), Some((4, 6, false)));
        for text in ["", "ab", "ab\r", "a\rb"] {
            assert_eq!(end(text, 0), None, "{text:?}");
        }
    }
}
