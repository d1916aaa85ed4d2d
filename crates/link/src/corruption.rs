//! Which packets arrive with flipped bits.

use crate::alteration::{Alteration, MAX_FLIPPED_BITS};
use crate::chance::{Chance, Memory};
use crate::random::{Dice, unit};
use crate::words::{Words, WordsError, probability};
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::str::FromStr;

/// How likely a packet is to be spoiled, and how much of it. A copy is spoiled or not by itself.
///
/// One flipped bit, which is what netem makes, is found by every checksum; several may make up for
/// each other in the Internet checksum (RFC 1071), and with a probability of 2^-32 in CRC32c.
///
/// In words: `0.1%`, `0.1% 25%` with a correlation, `0.1% bits 3`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corruption {
    /// How likely it is.
    pub chance: Chance,
    /// How many bits flip, from 1 to [`MAX_FLIPPED_BITS`].
    pub bits: u32,
}

impl Default for Corruption {
    fn default() -> Corruption {
        Corruption {
            chance: Chance::default(),
            bits: 1,
        }
    }
}

impl From<f64> for Corruption {
    /// One bit of each packet with this probability, independent of all others.
    fn from(probability: f64) -> Corruption {
        Corruption {
            chance: Chance::independent(probability),
            ..Corruption::default()
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chance.fmt(f)?;
        if self.bits != 1 {
            write!(f, " bits {}", self.bits)?;
        }
        Ok(())
    }
}

impl FromStr for Corruption {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Corruption, WordsError> {
        let mut words = Words::new(text);
        let mut corruption =
            Corruption::from(words.value("a probability such as 0.1%", probability)?);
        corruption.chance.correlation = words.next_if_ok(probability).unwrap_or_default();
        if words.next_if("bits") {
            corruption.bits = words.value("a number of bits", |word| match word.parse() {
                Ok(bits) if (1..=MAX_FLIPPED_BITS).contains(&bits) => Ok(bits),
                _ => Err(format!(
                    "\"{word}\" is not a number of bits from 1 to {MAX_FLIPPED_BITS}"
                )),
            })?;
        }
        words.end()?;
        Ok(corruption)
    }
}

/// Spoils packets.
#[derive(Clone, Debug)]
pub(crate) struct Spoiler {
    corruption: Corruption,
    dice: Dice,
    memory: Memory,
}

impl Spoiler {
    pub(crate) fn new(corruption: Corruption, rng: &mut ChaCha12Rng) -> Spoiler {
        Spoiler {
            corruption,
            dice: Dice::new(4, rng),
            memory: Memory::default(),
        }
    }

    pub(crate) fn set(&mut self, corruption: Corruption) {
        self.corruption = corruption;
    }

    pub(crate) fn is_off(&self) -> bool {
        self.corruption.chance.is_none()
    }

    /// How the packet of that number and its copy, should there be one, are altered.
    pub(crate) fn alterations(&mut self, packet: u64) -> [Option<Alteration>; 2] {
        let [happens, seed, copy_happens, copy_seed] = self.dice.throw(packet);
        let Corruption { chance, bits } = &self.corruption;
        // The next packet looks back on this one, not on a copy that there may not be.
        let copy_is_altered = self.memory.clone().happens(chance, unit(copy_happens));
        let is_altered = self.memory.happens(chance, unit(happens));
        [(is_altered, seed), (copy_is_altered, copy_seed)]
            .map(|(altered, seed)| altered.then(|| Alteration::new(seed, *bits)))
    }
}
