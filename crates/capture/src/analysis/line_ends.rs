//! Where lines end, found for many of them at a time.

use std::ops::ControlFlow;

use crate::octets::{BLOCK, places_in_block};

/// Calls `each` with the place of every line feed, one after the other, and last of all with the end of the octets, until
/// it breaks off. Nothing is looked at beyond the block that has the place at which it did, so a long body costs nothing.
#[inline(always)]
pub(super) fn each_line_end<B>(
    octets: &[u8],
    mut each: impl FnMut(usize) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut block_begin = 0;
    while let Some(rest) = octets.get(block_begin..) {
        let mut ends = match rest.first_chunk() {
            Some(block) => places_in_block(block, b'\n'),
            None => last_line_feeds(octets, rest.len()) | 1 << rest.len(),
        };
        while ends != 0 {
            each(block_begin + ends.trailing_zeros() as usize)?;
            ends &= ends - 1;
        }
        block_begin += BLOCK;
    }
    ControlFlow::Continue(())
}

/// The line ends of octets, one after the other, found for a block of them at a time. What follows the last line feed is
/// no line here.
pub(super) struct LineEnds<'o> {
    octets: &'o [u8],
    /// Where the block begins that was looked at last.
    block_begin: usize,
    /// The line feeds in it that have not been told.
    ends: u64,
}

impl<'o> LineEnds<'o> {
    #[inline(always)]
    pub(super) fn of(octets: &'o [u8]) -> LineEnds<'o> {
        LineEnds {
            octets,
            block_begin: 0,
            ends: line_feeds(octets, octets),
        }
    }
}

/// The line feeds of the first block of what is left of the octets.
#[inline(always)]
fn line_feeds(octets: &[u8], rest: &[u8]) -> u64 {
    match rest.first_chunk() {
        Some(block) => places_in_block(block, b'\n'),
        None => last_line_feeds(octets, rest.len()),
    }
}

impl Iterator for LineEnds<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.ends == 0 {
            self.block_begin += BLOCK;
            self.ends = line_feeds(self.octets, self.octets.get(self.block_begin..)?);
        }
        let end = self.block_begin + self.ends.trailing_zeros() as usize;
        self.ends &= self.ends - 1;
        Some(end)
    }
}

/// The line feeds of so many last octets, fewer than a block has.
fn last_line_feeds(octets: &[u8], last: usize) -> u64 {
    match octets.last_chunk() {
        // Those before them come again.
        Some(block) if last > 0 => places_in_block(block, b'\n') >> (BLOCK - last),
        _ => {
            let mut block = [0; BLOCK];
            block[..last].copy_from_slice(&octets[octets.len() - last..]);
            places_in_block(&block, b'\n')
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_line_ends_are_found(
            octets in prop::collection::vec(prop::sample::select(vec![b'\n', b'\r', b'a', 0x0b, 0x8a, 0]), 0..300),
            most in 0_usize..400,
        ) {
            let mut found = Vec::new();
            let _ = each_line_end(&octets, |end| {
                found.push(end);
                match found.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            let line_feeds = (0..octets.len()).filter(|at| octets[*at] == b'\n');
            let expected: Vec<usize> = line_feeds.chain([octets.len()]).take(most.max(1)).collect();
            prop_assert_eq!(found, expected);
            let line_feeds: Vec<usize> = (0..octets.len()).filter(|at| octets[*at] == b'\n').collect();
            prop_assert_eq!(LineEnds::of(&octets).collect::<Vec<usize>>(), line_feeds);
        }
    }
}
