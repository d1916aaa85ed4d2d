//! Octets that are compared many at a time.

use wide::u8x16;

/// Octets that are compared at once.
pub(super) const CHUNK: usize = 16;

/// So many octets, compared all at once.
#[derive(Clone, Copy)]
pub(super) struct Chunk(u8x16);

impl Chunk {
    #[inline]
    pub(super) fn of(octets: &[u8; CHUNK]) -> Chunk {
        Chunk(u8x16::new(*octets))
    }

    /// The chunk at a place; `None` where fewer octets are left.
    #[inline]
    pub(super) fn at(octets: &[u8], place: usize) -> Option<Chunk> {
        octets.get(place..)?.first_chunk().map(Chunk::of)
    }

    /// Where this octet is, a bit each, that of the first octet the lowest.
    #[inline]
    pub(super) fn places(self, octet: u8) -> u32 {
        self.0.simd_eq(u8x16::splat(octet)).to_bitmask()
    }

    /// Where octets are that are no printable ASCII, or a space.
    #[inline]
    pub(super) fn not_graphic(self) -> u32 {
        let clamped = self.0.max(u8x16::splat(b'!')).min(u8x16::splat(b'~'));
        !clamped.simd_eq(self.0).to_bitmask() & 0xffff
    }
}

/// The bits of the first so many octets of a chunk.
#[inline]
pub(super) fn first(octets: usize) -> u32 {
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
    }
}
