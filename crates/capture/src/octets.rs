//! Octets that are compared many at a time.

use wide::u8x16;

/// Octets that are compared at once.
pub(crate) const CHUNK: usize = 16;

/// So many octets, compared all at once.
#[derive(Clone, Copy)]
pub(crate) struct Chunk(u8x16);

impl Chunk {
    #[inline]
    pub(crate) fn of(octets: &[u8; CHUNK]) -> Chunk {
        Chunk(u8x16::new(*octets))
    }

    /// The chunk at a place; `None` where fewer octets are left.
    #[inline]
    pub(crate) fn at(octets: &[u8], place: usize) -> Option<Chunk> {
        octets.get(place..)?.first_chunk().map(Chunk::of)
    }

    /// Where this octet is, a bit each, that of the first octet the lowest.
    #[inline]
    pub(crate) fn places(self, octet: u8) -> u32 {
        self.0.simd_eq(u8x16::splat(octet)).to_bitmask()
    }

    /// Where octets are that are no printable ASCII, or a space.
    #[inline]
    pub(crate) fn not_graphic(self) -> u32 {
        let clamped = self.0.max(u8x16::splat(b'!')).min(u8x16::splat(b'~'));
        !clamped.simd_eq(self.0).to_bitmask() & 0xffff
    }
}

/// Octets of a block: a bit of a number each.
pub(crate) const BLOCK: usize = 64;

/// Where this octet is in a block, a bit each, that of the first octet the lowest.
#[inline]
pub(crate) fn places_in_block(block: &[u8; BLOCK], octet: u8) -> u64 {
    let mut places = 0;
    for (at, octets) in block.as_chunks().0.iter().enumerate() {
        places |= u64::from(Chunk::of(octets).places(octet)) << (CHUNK * at);
    }
    places
}

/// Whether this octet is anywhere in a block.
#[inline]
pub(crate) fn is_in_block(block: &[u8; BLOCK], octet: u8) -> bool {
    let chunks = block.as_chunks::<CHUNK>().0.iter();
    let places = chunks.map(|octets| u8x16::new(*octets).simd_eq(u8x16::splat(octet)));
    places
        .fold(u8x16::ZERO, |any, places| any | places)
        .to_bitmask()
        != 0
}

/// Where this octet is among so many first ones, a bit each. What follows them is read along; `None` where too little
/// does, or they are too many.
#[inline]
pub(crate) fn places_in(octets: &[u8], length: usize, octet: u8) -> Option<u128> {
    let (block, rest) = octets.split_first_chunk()?;
    let places = u128::from(places_in_block(block, octet));
    match length {
        0..=BLOCK => Some(places & ((1 << length) - 1)),
        _ if length < 2 * BLOCK => {
            let further = u128::from(places_in_block(rest.first_chunk()?, octet));
            Some((places | further << BLOCK) & ((1 << length) - 1))
        }
        _ => None,
    }
}

/// Whether all octets are ASCII.
#[inline]
pub(crate) fn is_ascii(octets: &[u8]) -> bool {
    // The highest bit of each octet is what a bit mask is made of. The last ones may come twice.
    let has_other = |octets: &[u8; CHUNK]| u8x16::new(*octets).to_bitmask() != 0;
    match octets.last_chunk() {
        Some(last) => !octets.as_chunks().0.iter().any(has_other) && !has_other(last),
        None => octets.is_ascii(),
    }
}

/// The bits of the first so many octets of a chunk.
#[inline]
pub(crate) fn first(octets: usize) -> u32 {
    match octets {
        0..CHUNK => (1 << octets) - 1,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn octets_are_found_where_they_are(octets: [u8; CHUNK], octet: u8, many in 0_usize..40) {
            let bits = |is_one: &dyn Fn(u8) -> bool| {
                (0..CHUNK).fold(0, |bits, at| bits | u32::from(is_one(octets[at])) << at)
            };
            let chunk = Chunk::of(&octets);
            prop_assert_eq!(chunk.places(octet), bits(&|one| one == octet));
            prop_assert_eq!(chunk.places(octets[3]), bits(&|one| one == octets[3]));
            prop_assert_eq!(chunk.not_graphic(), bits(&|one| !one.is_ascii_graphic()));
            for at in 0..CHUNK {
                prop_assert_eq!(first(many) >> at & 1 == 1, at < many);
            }
        }

        #[test]
        fn ascii_is_told(octets in prop::collection::vec(0_u8..128, 0..50), at: prop::sample::Index, octet: u8) {
            let mut octets = octets;
            prop_assert!(is_ascii(&octets));
            if !octets.is_empty() {
                let at = at.index(octets.len());
                octets[at] = octet;
                prop_assert_eq!(is_ascii(&octets), octets.is_ascii());
            }
        }

        #[test]
        fn octets_are_found_anywhere(octets in prop::collection::vec(0_u8..60, BLOCK), octet in 0_u8..60) {
            let block = octets.first_chunk().unwrap();
            prop_assert_eq!(is_in_block(block, octet), octets.contains(&octet));
        }

        #[test]
        fn octets_are_found_among_the_first(
            octets in prop::collection::vec(0_u8..4, 0..200),
            length in 0_usize..200,
        ) {
            let length = length.min(octets.len());
            if let Some(places) = places_in(&octets, length, 2) {
                for at in 0..128 {
                    prop_assert_eq!(places >> at & 1 == 1, at < length && octets.get(at) == Some(&2));
                }
            } else {
                prop_assert!(length >= 2 * BLOCK || octets.len() < length.next_multiple_of(BLOCK).max(BLOCK));
            }
        }
    }
}
