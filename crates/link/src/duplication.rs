//! Which packets arrive twice.

use crate::random::happens;
use rand_chacha::ChaCha12Rng;

/// Duplicates each packet with the same probability, independent of all others.
#[derive(Clone, Debug)]
pub(crate) struct Duplication {
    probability: f64,
    rng: ChaCha12Rng,
}

impl Duplication {
    pub(crate) fn new(probability: f64, rng: ChaCha12Rng) -> Duplication {
        Duplication { probability, rng }
    }

    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
    }

    pub(crate) fn next_is_duplicated(&mut self) -> bool {
        happens(&mut self.rng, self.probability)
    }
}
