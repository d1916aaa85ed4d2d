//! Which packets are lost.

use crate::random::happens;
use rand_chacha::ChaCha12Rng;

/// Loses each packet with the same probability, independent of all others.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    probability: f64,
    rng: ChaCha12Rng,
}

impl Loss {
    pub(crate) fn new(probability: f64, rng: ChaCha12Rng) -> Loss {
        Loss { probability, rng }
    }

    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
    }

    pub(crate) fn next_is_lost(&mut self) -> bool {
        happens(&mut self.rng, self.probability)
    }
}
