//! What happens first of several things that happen at one time.

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

/// How the simulation chooses among datagrams that arrive and hosts whose time has come: the
/// first (what arrives before who waits, earlier hosts before later ones), or by chance.
#[derive(Clone, Default, Debug)]
pub(crate) struct Schedule {
    chance: Option<ChaCha12Rng>,
}

impl Schedule {
    pub(crate) fn random(rng: ChaCha12Rng) -> Schedule {
        Schedule { chance: Some(rng) }
    }

    /// A number below `choices`, of which there is at least one.
    pub(crate) fn choose(&mut self, choices: usize) -> usize {
        match &mut self.chance {
            Some(rng) if choices > 1 => rng.random_range(0..choices),
            _ => 0,
        }
    }
}
