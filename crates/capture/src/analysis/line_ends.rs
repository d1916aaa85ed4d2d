//! Where lines end, found for many of them at a time.

use std::ops::ControlFlow;

use super::octets::{BLOCK, places_in_block};

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
            None => last_line_ends(octets, rest.len()),
        };
        while ends != 0 {
            each(block_begin + ends.trailing_zeros() as usize)?;
            ends &= ends - 1;
        }
        block_begin += BLOCK;
    }
    ControlFlow::Continue(())
}

/// The line feeds of so many last octets, fewer than a block has, and their end.
fn last_line_ends(octets: &[u8], last: usize) -> u64 {
    let found = match octets.last_chunk() {
        // Those before them come again.
        Some(block) if last > 0 => places_in_block(block, b'\n') >> (BLOCK - last),
        _ => {
            let mut block = [0; BLOCK];
            block[..last].copy_from_slice(&octets[octets.len() - last..]);
            places_in_block(&block, b'\n')
        }
    };
    found | 1 << last
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
        }
    }
}
