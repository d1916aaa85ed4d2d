//! Where lines end, found for many of them at a time.

use wide::u8x16;

/// Octets that are compared at once: a bit each.
const BLOCK: usize = 64;

/// The places of all line feeds in octets, one after the other. Nothing is looked at beyond the block that has the
/// one that was asked for, so a long body costs nothing.
#[derive(Debug)]
pub(super) struct LineFeeds<'m> {
    octets: &'m [u8],
    /// The line feeds of the block that was compared last, but for those that were handed out.
    found: u64,
    /// Where the next block begins.
    next: usize,
}

impl<'m> LineFeeds<'m> {
    pub(super) fn of(octets: &'m [u8]) -> LineFeeds<'m> {
        LineFeeds {
            octets,
            found: 0,
            next: 0,
        }
    }
}

impl Iterator for LineFeeds<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            let rest = self.octets.get(self.next..)?;
            self.found = match rest.first_chunk() {
                Some(block) => line_feeds(block),
                None if rest.is_empty() => return None,
                None => {
                    let mut block = [0; BLOCK];
                    block[..rest.len()].copy_from_slice(rest);
                    line_feeds(&block)
                }
            };
            self.next += BLOCK;
        }
        let at = self.found.trailing_zeros() as usize;
        self.found &= self.found - 1;
        Some(self.next - BLOCK + at)
    }
}

/// The line feeds of a block, a bit each, that of the first octet the lowest.
#[inline]
fn line_feeds(block: &[u8; BLOCK]) -> u64 {
    let mut found = 0;
    for (place, octets) in block.as_chunks().0.iter().enumerate() {
        let is_equal = u8x16::new(*octets).simd_eq(u8x16::splat(b'\n'));
        found |= u64::from(is_equal.to_bitmask()) << (16 * place);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_line_feeds_are_found(
            octets in prop::collection::vec(prop::sample::select(vec![b'\n', b'\r', b'a', 0x0b, 0x8a, 0]), 0..300),
        ) {
            let found: Vec<usize> = LineFeeds::of(&octets).collect();
            let expected: Vec<usize> = (0..octets.len()).filter(|at| octets[*at] == b'\n').collect();
            prop_assert_eq!(found, expected);
        }
    }
}
