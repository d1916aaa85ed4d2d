//! The lexer of values: where runs of octets of one class end.

use crate::simd::{self, Block};
use crate::syntax::{Classes, is};

/// Finds the ends of the tokens, hosts and the like of a text, one behind the other. The octets of a window are classified
/// together, and that is kept: most tokens are short, and one begins close behind another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    /// Where the octets begin of which something is known.
    start: usize,
    /// Those of them that end most runs, a bit each: no letters, digits, hyphens or dots.
    marks: u32,
}

/// Of how many octets something is known.
const WINDOW: usize = simd::TWO;

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer {
            text,
            // No text is so long.
            start: usize::MAX / 2,
            marks: 0,
        }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The octet at a place, unless the text has ended.
    #[inline]
    pub(crate) fn octet(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// Where the octets of a class that begin at a place end. Letters, digits, hyphens and dots are in every class that is
    /// asked for here.
    #[inline]
    pub(crate) fn end(&mut self, start: usize, class: Classes) -> usize {
        self.end_and_octet(start, class).0
    }

    /// [`end`](Lexer::end), and the octet there: a zero, which is in no class, where the text has ended.
    #[inline(always)]
    pub(crate) fn end_and_octet(&mut self, start: usize, class: Classes) -> (usize, u8) {
        let mut at = start;
        loop {
            if at.wrapping_sub(self.start) >= WINDOW {
                self.look(at);
            }
            let marks = self.marks >> (at - self.start);
            if marks == 0 {
                at = self.start + WINDOW;
                continue;
            }
            at += marks.trailing_zeros() as usize;
            match self.text.get(at) {
                Some(octet) if is(*octet, class) => at += 1,
                Some(octet) => return (at, *octet),
                None => return (self.text.len(), 0),
            }
        }
    }

    /// Looks at the octets from a place on.
    #[inline]
    fn look(&mut self, at: usize) {
        self.start = at;
        self.marks = match self.text.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(window) => marks(window),
            None => marks_of_last(self.text.get(at..).unwrap_or_default()),
        };
    }
}

#[inline(always)]
fn marks(window: &[u8; WINDOW]) -> u32 {
    match window.as_chunks() {
        ([first, second], []) => {
            let (first, second): (&Block, &Block) = (first, second);
            simd::uncommon(first) | simd::uncommon(second) << simd::LENGTH
        }
        _ => u32::MAX,
    }
}

/// The end of the text is marked, too.
#[inline(never)]
fn marks_of_last(rest: &[u8]) -> u32 {
    let length = rest.len().min(WINDOW - 1);
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        // They overlap.
        let last = simd::uncommon(last) << (length - simd::LENGTH);
        return simd::uncommon(first) | last | u32::MAX << length;
    }
    let mut window = [0; WINDOW];
    window[..length].copy_from_slice(&rest[..length]);
    marks(&window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{ASCII_VALUE, HOST, PARAMETER, TOKEN, USER, VALUE, WORDS};

    /// Wherever it begins, in a text of any length, whatever ends it, and whatever has been looked at before.
    #[test]
    fn runs_end_at_the_first_octet_of_another_class() {
        for class in [TOKEN, HOST, USER, PARAMETER, VALUE, ASCII_VALUE, WORDS] {
            for octet in (0..=u8::MAX).filter(|octet| octet.is_ascii_alphanumeric()) {
                assert!(is(octet, class) && is(b'-', class) && is(b'.', class));
            }
            for length in 0..70 {
                for at in 0..=length {
                    let mut text = b"a.%~-Z/0_:;b@=\xff9-----------------------------".repeat(3);
                    text.truncate(length);
                    if let Some(octet) = text.get_mut(at) {
                        *octet = b'\r';
                    }
                    let mut lexer = Lexer::new(&text);
                    for start in [0, at / 2, at, at + 1, 3, length, length + 1, 0] {
                        let run = text.get(start..).unwrap_or_default();
                        let run_length = run.iter().take_while(|octet| is(**octet, class)).count();
                        let end = (start + run_length).min(length);
                        assert_eq!(lexer.end(start, class), end, "{length} {at} {start}");
                        let octet = text.get(end).copied().unwrap_or_default();
                        assert_eq!(lexer.end_and_octet(start, class), (end, octet));
                    }
                }
            }
        }
    }
}
