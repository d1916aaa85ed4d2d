//! Whether something happens to a packet.

use crate::words::{self, WordsError};
use std::fmt;
use std::str::FromStr;

/// How likely something is to happen to a packet, and how much that depends on whether it happened
/// to the packet before.
///
/// With a correlation *c* a packet shares the fate of the one before with probability *c*, and has
/// one of its own otherwise. So the share of packets to which it happens is the probability,
/// whatever the correlation is, the correlation between a packet and the *k*-th after it is *c*^*k*,
/// and it happens to 1 / ((1 − *c*)(1 − probability)) packets in a row on average.
///
/// In words: `10%`, or `10% 25%` with a correlation.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Chance {
    /// From 0 to 1. What is outside counts as the nearer end, and what is no number as 0.
    pub probability: f64,
    /// From 0 to 1, likewise.
    pub correlation: f64,
}

impl Chance {
    /// Something that happens to a packet independent of all others.
    pub fn independent(probability: f64) -> Chance {
        Chance {
            probability,
            correlation: 0.0,
        }
    }

    /// Whether it never happens.
    pub(crate) fn is_none(&self) -> bool {
        // What is no number never happens either.
        self.probability.is_nan() || self.probability <= 0.0
    }
}

impl From<f64> for Chance {
    /// A probability, from 0 to 1.
    fn from(probability: f64) -> Chance {
        Chance::independent(probability)
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words::show_probability(self.probability))?;
        if self.correlation != 0.0 {
            write!(f, " {}", words::show_probability(self.correlation))?;
        }
        Ok(())
    }
}

impl FromStr for Chance {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Chance, WordsError> {
        let mut words = words::Words::new(text);
        let chance = Chance {
            probability: words.value("a probability such as 10%", words::probability)?,
            correlation: words.next_if_ok(words::probability).unwrap_or_default(),
        };
        words.end()?;
        Ok(chance)
    }
}

/// What a chance remembers of the packet before.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memory {
    happened: Option<bool>,
}

impl Memory {
    /// Whether it happens to the next packet, decided by a number in [0, 1).
    pub(crate) fn happens(&mut self, chance: &Chance, unit: f64) -> bool {
        let probability = chance.probability;
        let correlation = chance.correlation.min(1.0);
        let likely = match self.happened {
            // What is certain stays certain.
            Some(happened) if correlation > 0.0 && probability > 0.0 && probability < 1.0 => {
                let own = probability * (1.0 - correlation);
                if happened { own + correlation } else { own }
            }
            _ => probability,
        };
        let happens = unit < likely;
        self.happened = Some(happens);
        happens
    }
}
