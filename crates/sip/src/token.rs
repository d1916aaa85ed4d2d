//! Random texts for branches, tags and Call-IDs.

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

/// 16 characters with 5 unpredictable bits each. They are lower-case letters and digits: a token
/// wherever RFC 3261 wants one, and the same whoever forgets about case.
pub(crate) fn token(rng: &mut ChaCha12Rng) -> String {
    let mut token = String::with_capacity(16);
    push_token(&mut token, rng);
    token
}

/// Appends a [`token`].
pub(crate) fn push_token(text: &mut String, rng: &mut ChaCha12Rng) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits: u128 = rng.random();
    let letter = |at| LETTERS[(bits >> (5 * at)) as usize % LETTERS.len()];
    let letters: [u8; 16] = std::array::from_fn(letter);
    // They are letters and digits.
    text.push_str(std::str::from_utf8(&letters).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn tokens_differ_and_repeat_with_the_seed() {
        let tokens = |seed| {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            [token(&mut rng), token(&mut rng)]
        };
        let [one, other] = tokens(1);
        assert_eq!(one.len(), 16);
        assert_ne!(one, other);
        assert_eq!(tokens(1), [one.clone(), other]);
        assert!(!tokens(2).contains(&one));
    }
}
