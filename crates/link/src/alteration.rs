//! Bits that flip on the way.

/// Which bits of a packet arrive flipped. It is chosen when the packet is sent, and applied by
/// whoever has the packet: to all of it, or to what the link is to spoil of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alteration {
    seed: u64,
    bits: u32,
}

/// More bits than this are never flipped in one packet.
pub const MAX_FLIPPED_BITS: u32 = 64;

impl Alteration {
    /// Flips so many bits, at least one, at places that the seed chooses.
    pub fn new(seed: u64, bits: u32) -> Alteration {
        Alteration {
            seed,
            bits: bits.clamp(1, MAX_FLIPPED_BITS),
        }
    }

    /// Flips the bits. All are at different places, so bytes do change unless there are none; the
    /// same ones flip whenever there are as many bytes.
    pub fn apply(&self, bytes: &mut [u8]) {
        let (places, count) = self.choose(bytes.len());
        for place in &places[..count] {
            bytes[place / 8] ^= 1 << (place % 8);
        }
    }

    /// Places of the bits, counted from the first byte's lowest bit, in so many bytes.
    pub fn places(&self, bytes: usize) -> impl Iterator<Item = usize> + use<> {
        let (places, count) = self.choose(bytes);
        places.into_iter().take(count)
    }

    /// A sample without replacement, each one equally likely, by Floyd's algorithm ("Programming
    /// pearls: a sample of brilliance", Communications of the ACM 30(9), 1987).
    fn choose(&self, bytes: usize) -> ([usize; MAX_FLIPPED_BITS as usize], usize) {
        let bits = bytes.saturating_mul(8);
        let count = bits.min(self.bits as usize);
        let mut places = [0; MAX_FLIPPED_BITS as usize];
        let mut state = self.seed;
        for (chosen, last) in (bits - count..bits).enumerate() {
            let place = (u128::from(next(&mut state)) * (last as u128 + 1)) >> 64;
            let place = place as usize;
            places[chosen] = if places[..chosen].contains(&place) {
                last
            } else {
                place
            };
        }
        (places, count)
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), so that
/// an alteration is small enough to travel with its packet.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
