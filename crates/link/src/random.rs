//! How random words become decisions.

use rand::Rng;
use rand_chacha::ChaCha12Rng;

/// True with the given probability; takes one word whatever the probability is.
pub(crate) fn happens(rng: &mut ChaCha12Rng, probability: f64) -> bool {
    // The 53 highest bits make every multiple of 2^-53 in [0, 1) equally likely.
    let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    unit < probability
}

/// A number from 0 to `maximum`, all equally likely but for a share of `maximum` / 2^64, which for
/// seconds counted in nanoseconds is below 2^-32; takes one word whatever the maximum is.
pub(crate) fn up_to(rng: &mut ChaCha12Rng, maximum: u64) -> u64 {
    let product = u128::from(rng.next_u64()) * (u128::from(maximum) + 1);
    (product >> 64) as u64
}
