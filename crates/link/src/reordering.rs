//! Which packets go ahead of those before them.

use crate::chance::{Chance, Memory};
use crate::random::{Dice, unit};
use crate::words::{Words, WordsError, probability};
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::str::FromStr;

/// Packets that take no delay, and so overtake those on their way: netem's reordering
/// (`reorder PROBABILITY CORRELATION gap DISTANCE`). It needs a delay to be seen.
///
/// Whether jitter lets packets overtake each other is [`crate::Jitter::reorders`].
///
/// In words: `25% 50%`, `gap 5` (each fifth packet), `25% gap 5` (of each fifth and those after it,
/// until one went ahead, a quarter).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reordering {
    /// How likely a packet is to go ahead when it is one of those that may.
    pub chance: Chance,
    /// So many packets after one that went ahead, or after the first, the next one may. 0 counts as
    /// 1: each packet may.
    pub gap: u64,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering {
            chance: Chance::default(),
            gap: 1,
        }
    }
}

impl From<f64> for Reordering {
    /// Each packet with this probability, independent of all others.
    fn from(probability: f64) -> Reordering {
        Reordering {
            chance: Chance::independent(probability),
            ..Reordering::default()
        }
    }
}

impl fmt::Display for Reordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chance.fmt(f)?;
        if self.gap != 1 {
            write!(f, " gap {}", self.gap)?;
        }
        Ok(())
    }
}

impl FromStr for Reordering {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Reordering, WordsError> {
        let mut words = Words::new(text);
        let mut reordering = match words.next_if_ok(probability) {
            Some(probability) => Reordering::from(probability),
            None => Reordering::from(1.0),
        };
        reordering.chance.correlation = words.next_if_ok(probability).unwrap_or_default();
        if words.next_if("gap") {
            reordering.gap = words.value("a number of packets", |word| match word.parse() {
                Ok(gap) if gap > 0 => Ok(gap),
                _ => Err(format!("\"{word}\" is not a number of packets above 0")),
            })?;
        } else if text.trim().is_empty() {
            return Err(WordsError::new(
                "nothing is said: a probability such as 25% or a gap such as gap 5 is expected",
            ));
        }
        words.end()?;
        Ok(reordering)
    }
}

/// Lets packets go ahead.
#[derive(Clone, Debug)]
pub(crate) struct Reorderer {
    reordering: Reordering,
    dice: Dice,
    memory: Memory,
    /// Packets since one went ahead.
    since: u64,
}

impl Reorderer {
    pub(crate) fn new(reordering: Reordering, rng: &mut ChaCha12Rng) -> Reorderer {
        Reorderer {
            reordering,
            dice: Dice::new(1, rng),
            memory: Memory::default(),
            since: 0,
        }
    }

    pub(crate) fn set(&mut self, reordering: Reordering) {
        self.reordering = reordering;
    }

    pub(crate) fn is_off(&self) -> bool {
        self.reordering.chance.is_none()
    }

    /// Whether the packet of that number goes ahead.
    pub(crate) fn goes_ahead(&mut self, packet: u64) -> bool {
        let [word] = self.dice.throw(packet);
        if self.since.saturating_add(1) < self.reordering.gap {
            self.since += 1;
            return false;
        }
        let goes = self.memory.happens(&self.reordering.chance, unit(word));
        self.since = if goes { 0 } else { self.since + 1 };
        goes
    }
}
