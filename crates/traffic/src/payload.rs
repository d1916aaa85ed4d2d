//! What packets carry behind their headers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// The longest file that is carried.
const MAX_FILE_OCTETS: u64 = 1 << 30;

/// Octets of the pattern, which repeats.
const PATTERN_OCTETS: usize = 1 << 16;

/// A stream of octets that packets are filled from, over and over.
#[derive(Clone, Debug)]
pub struct Payload {
    octets: Arc<[u8]>,
    position: usize,
}

impl Payload {
    /// Octets that look random, so that nothing on the way can compress them; the same for the same seed.
    pub fn pattern(seed: u64) -> Payload {
        let mut octets = vec![0; PATTERN_OCTETS];
        ChaCha12Rng::seed_from_u64(seed).fill_bytes(&mut octets);
        Payload {
            octets: octets.into(),
            position: 0,
        }
    }

    /// The octets of a file, such as a recorded voice or electrocardiogram: each packet carries on where
    /// the one before ended.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is empty, or too large; the text names it.
    pub fn file(path: &Path) -> anyhow::Result<Payload> {
        let name = path.display();
        let metadata = fs::metadata(path).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        anyhow::ensure!(
            metadata.len() <= MAX_FILE_OCTETS,
            "{name}: it is longer than 1 GiB"
        );
        let octets = fs::read(path).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        anyhow::ensure!(!octets.is_empty(), "{name}: there is nothing in it");
        Ok(Payload {
            octets: octets.into(),
            position: 0,
        })
    }

    /// Appends the next octets.
    pub fn fill(&mut self, count: usize, into: &mut Vec<u8>) {
        let mut left = count;
        while left > 0 {
            let from = self.octets.get(self.position..).unwrap_or_default();
            let some = from.get(..left).unwrap_or(from);
            into.extend_from_slice(some);
            left -= some.len();
            self.position = if some.len() == from.len() {
                0
            } else {
                self.position + some.len()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_on_from_packet_to_packet() {
        let mut payload = Payload {
            octets: b"abcde"[..].into(),
            position: 0,
        };
        let mut taken = Vec::new();
        for count in [3, 3, 0, 5] {
            payload.fill(count, &mut taken);
        }
        assert_eq!(taken, b"abcdeabcdea");
    }

    #[test]
    fn patterns_follow_their_seed() {
        let take = |seed| {
            let mut taken = Vec::new();
            Payload::pattern(seed).fill(PATTERN_OCTETS + 10, &mut taken);
            taken
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        assert_eq!(take(1)[..10], take(1)[PATTERN_OCTETS..]);
    }

    #[test]
    fn a_file_that_cannot_be_carried_is_named() {
        let error = Payload::file(Path::new("/no/such.wav")).unwrap_err();
        assert!(error.to_string().starts_with("/no/such.wav: "), "{error}");
        let error = Payload::file(Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("nothing in it"), "{error}");
    }
}
