//! Which packets arrive twice.

use crate::chance::{Chance, Memory};
use crate::random::{Dice, unit};
use rand_chacha::ChaCha12Rng;

/// Duplicates packets.
#[derive(Clone, Debug)]
pub(crate) struct Duplication {
    chance: Chance,
    dice: Dice,
    memory: Memory,
}

impl Duplication {
    pub(crate) fn new(chance: Chance, rng: &mut ChaCha12Rng) -> Duplication {
        Duplication {
            chance,
            dice: Dice::new(1, rng),
            memory: Memory::default(),
        }
    }

    pub(crate) fn set(&mut self, chance: Chance) {
        self.chance = chance;
    }

    pub(crate) fn is_off(&self) -> bool {
        self.chance.is_none()
    }

    /// Whether the packet of that number arrives twice.
    pub(crate) fn duplicates(&mut self, packet: u64) -> bool {
        let [word] = self.dice.throw(packet);
        self.memory.happens(&self.chance, unit(word))
    }
}
