//! How random words become decisions.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// Random numbers that belong to packets by their number: as many for each packet, and the same
/// ones whether those of the packets before were drawn or not. So a part that is switched off costs
/// nothing and, switched on later, goes on where it would be.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    rng: ChaCha12Rng,
    numbers_per_packet: u32,
    /// The packet whose numbers come next.
    next: u64,
}

impl Dice {
    /// Dice of which each packet has so many throws of 64 bits.
    pub(crate) fn new(numbers_per_packet: u32, rng: &mut ChaCha12Rng) -> Dice {
        Dice {
            rng: ChaCha12Rng::from_rng(rng),
            numbers_per_packet,
            next: 0,
        }
    }

    /// The numbers of a packet, all of which must be drawn.
    pub(crate) fn throw<const NUMBERS: usize>(&mut self, packet: u64) -> [u64; NUMBERS] {
        debug_assert_eq!(NUMBERS, self.numbers_per_packet as usize);
        if packet != self.next {
            // A number of 64 bits is two words.
            let words = u128::from(packet) * u128::from(2 * self.numbers_per_packet);
            self.rng.set_word_pos(words);
        }
        self.next = packet.wrapping_add(1);
        std::array::from_fn(|_| self.rng.next_u64())
    }
}

/// A number in [0, 1): the 53 highest bits make every multiple of 2^-53 equally likely.
pub(crate) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number from 0 to `maximum`, all equally likely but for a share of `maximum` / 2^64, which for
/// seconds counted in nanoseconds is below 2^-32.
pub(crate) fn up_to(word: u64, maximum: u64) -> u64 {
    let product = u128::from(word) * (u128::from(maximum) + 1);
    (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_packets_whichever_are_drawn() {
        let dice = || Dice::new(3, &mut ChaCha12Rng::seed_from_u64(1));
        let mut all = dice();
        let numbers: Vec<[u64; 3]> = (0..1000).map(|packet| all.throw(packet)).collect();
        let mut some = dice();
        for packet in [0, 1, 5, 6, 7, 99, 100, 999, 3] {
            assert_eq!(some.throw::<3>(packet), numbers[packet as usize]);
        }
    }
}
