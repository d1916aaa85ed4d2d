//! Sixteen octets compared by one instruction (SIMD): most of the time of reading a message is spent on going over its octets.

use wide::{i8x16, u8x16};

/// Sixteen octets.
pub(crate) type Block = [u8; LENGTH];

/// How many octets a [`Block`] has.
pub(crate) const LENGTH: usize = 16;

/// Marks octets below a bound: a bit each, that of the first octet the lowest. The bound is not zero.
#[inline(always)]
pub(crate) fn below(block: &Block, bound: u8) -> u32 {
    within(u8x16::new(*block), 0, bound - 1).to_bitmask()
}

/// Marks octets of this value, as [`below`] does.
#[inline(always)]
pub(crate) fn equal(block: &Block, octet: u8) -> u32 {
    u8x16::new(*block).simd_eq(u8x16::splat(octet)).to_bitmask()
}

/// How many octets two blocks have.
pub(crate) const TWO: usize = 2 * LENGTH;

/// Marks octets of this value in two blocks, as [`below`] does.
#[inline(always)]
pub(crate) fn equal_in_two(two: &[u8; TWO], octet: u8) -> u32 {
    let (blocks, _) = two.as_chunks();
    let marks = blocks.iter().rev().map(|block| equal(block, octet));
    marks.fold(0, |all, marks| all << LENGTH | marks)
}

/// Marks octets of this value among the first 64, as [`below`] does. Beside it, how many have been looked at.
#[inline(always)]
pub(crate) fn equal_in_many(text: &[u8], octet: u8) -> (u64, usize) {
    match text.first_chunk() {
        Some(many) => (in_all(many, |block| equal(block, octet)), MANY),
        None => (equal_in_last(text, octet), text.len()),
    }
}

#[inline(never)]
fn equal_in_last(text: &[u8], octet: u8) -> u64 {
    in_all(&padded(text, !octet), |block| equal(block, octet))
}

/// Marks octets below a bound, as [`below`] does.
#[inline(always)]
pub(crate) fn below_in_many(many: &[u8; MANY], bound: u8) -> u64 {
    in_all(many, |block| below(block, bound))
}

/// [`below_in_many`] of a text that is shorter.
#[inline(never)]
pub(crate) fn below_in_last(text: &[u8], bound: u8) -> u64 {
    in_all(&padded(text, bound), |block| below(block, bound))
}

/// How many octets have a mark in a `u64`.
pub(crate) const MANY: usize = 64;

#[inline(always)]
fn in_all(many: &[u8; MANY], marks: impl Fn(&Block) -> u32) -> u64 {
    let (blocks, _) = many.as_chunks();
    let in_place = blocks
        .iter()
        .enumerate()
        .map(|(at, block)| u64::from(marks(block)) << (at * LENGTH));
    in_place.fold(0, |all, marks| all | marks)
}

/// A short text with octets behind it.
fn padded(text: &[u8], octet: u8) -> [u8; MANY] {
    let mut padded = [octet; MANY];
    padded[..text.len()].copy_from_slice(text);
    padded
}

/// Marks octets that are no letter of ASCII, no digit, no hyphen and no dot, as [`below`] does.
#[inline(always)]
pub(crate) fn uncommon(block: &Block) -> u32 {
    let octets = u8x16::new(*block);
    let lower_case = octets | u8x16::splat(0x20);
    // Hyphen, dot, slash and the digits are neighbours.
    let common = between(lower_case, b'a', b'z') | between(octets, b'-', b'9');
    let slashes = octets.simd_eq(u8x16::splat(b'/'));
    (common & !slashes).to_bitmask() ^ ALL
}

/// All marks.
const ALL: u32 = (1 << LENGTH) - 1;

/// All bits of those octets that are within these two.
#[inline(always)]
fn within(octets: u8x16, first: u8, last: u8) -> u8x16 {
    let moved = octets - u8x16::splat(first);
    moved.simd_eq(moved.min(u8x16::splat(last - first)))
}

/// [`within`] in fewer steps: the last one is moved to where the largest signed number is, so that only those below the
/// first are left to tell apart.
#[inline(always)]
fn between(octets: u8x16, first: u8, last: u8) -> u8x16 {
    let moved = (octets + u8x16::splat(LARGEST - last)).cast_signed();
    let below = LARGEST - (last - first) - 1;
    moved.simd_gt(i8x16::splat(below as i8)).cast_unsigned()
}

/// The largest signed number.
const LARGEST: u8 = i8::MAX as u8;

#[cfg(test)]
mod tests {
    use super::*;

    /// At every place, whatever the others are.
    #[test]
    fn each_octet_is_marked_for_itself() {
        for octet in 0..=u8::MAX {
            for at in 0..LENGTH {
                let mut block: Block = *b"a-Z.0/9~\r\n@`{[:,";
                block[at] = octet;
                let marks = |is_marked: &dyn Fn(u8) -> bool| {
                    let octets = block.iter().rev();
                    octets.fold(0, |marks, octet| marks << 1 | u32::from(is_marked(*octet)))
                };
                let is_common = |octet: u8| octet.is_ascii_alphanumeric() || b"-.".contains(&octet);
                assert_eq!(uncommon(&block), marks(&|octet| !is_common(octet)));
                for other in [1, b'\r' + 1, 0x80, octet.max(1), u8::MAX] {
                    assert_eq!(below(&block, other), marks(&|octet| octet < other));
                    assert_eq!(equal(&block, other), marks(&|octet| octet == other));
                }
            }
        }
    }
}
