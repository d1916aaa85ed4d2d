//! What a call plays, over and over.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use media::g711::{CLOCK_RATE, Law};
use media::wav::{self, WavError};

/// The longest file that is read.
const MAX_FILE_OCTETS: u64 = 256 << 20;

/// A sound, coded already by either law: all calls share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    pcmu: Arc<[u8]>,
    pcma: Arc<[u8]>,
}

impl Clip {
    /// A second of a sine tone, at a fifth of the loudest. It begins again without a click, since a whole
    /// number of waves fits.
    pub fn tone(hertz: u16) -> Clip {
        let sample = |index: u32| {
            let turns = f64::from(index) * f64::from(hertz) / f64::from(CLOCK_RATE);
            let level = (turns * std::f64::consts::TAU).sin() * f64::from(i16::MAX) / 5.0;
            level.round() as i16
        };
        let samples: Vec<i16> = (0..CLOCK_RATE).map(sample).collect();
        Clip::of(&samples)
    }

    /// The sound of a WAV file's contents.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn wav(file: &[u8]) -> Result<Clip, WavError> {
        Ok(Clip::of(&wav::read(file)?.at_rate(CLOCK_RATE)))
    }

    /// Reads a WAV file.
    ///
    /// # Errors
    ///
    /// When it cannot be read or played; the text names it.
    pub fn wav_file(path: &Path) -> Result<Clip, String> {
        let name = path.display();
        let metadata = fs::metadata(path).map_err(|error| format!("{name}: {error}"))?;
        if metadata.len() > MAX_FILE_OCTETS {
            return Err(format!("{name}: it is longer than 256 MiB"));
        }
        let file = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
        Clip::wav(&file).map_err(|error| format!("{name}: {error}"))
    }

    /// How many samples it has; at least one.
    pub fn samples(&self) -> usize {
        self.pcmu.len()
    }

    /// Appends samples from the one at `position` on, an octet each, beginning again at the end; returns
    /// the next position.
    pub(super) fn play(
        &self,
        codec: Law,
        mut position: usize,
        count: usize,
        into: &mut Vec<u8>,
    ) -> usize {
        let coded = match codec {
            Law::Pcmu => &self.pcmu,
            Law::Pcma => &self.pcma,
        };
        let mut left = count;
        while left > 0 {
            let from = coded.get(position..).unwrap_or_default();
            let some = from.get(..left).unwrap_or(from);
            into.extend_from_slice(some);
            left -= some.len();
            position = if some.len() == from.len() {
                0
            } else {
                position + some.len()
            };
        }
        position
    }

    /// There is at least one sample: a tone has a second of them, and a file without is refused.
    fn of(samples: &[i16]) -> Clip {
        let coded = |codec: Law| samples.iter().map(|one| codec.encode(*one)).collect();
        Clip {
            pcmu: coded(Law::Pcmu),
            pcma: coded(Law::Pcma),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_loud_enough_and_crosses_zero_as_often_as_it_should() {
        let clip = Clip::tone(400);
        let samples: Vec<i16> = clip.pcma.iter().map(|one| Law::Pcma.decode(*one)).collect();
        assert_eq!(samples.len(), 8000);
        let loudest = *samples.iter().max().unwrap();
        assert!((6000..7000).contains(&loudest), "{loudest}");
        let falling = samples
            .windows(2)
            .filter(|pair| pair[0] > 0 && pair[1] < 0)
            .count();
        assert_eq!(falling, 400);
    }

    #[test]
    fn it_plays_over_and_over() {
        let clip = Clip::of(&[0, 100, 200]);
        let mut played = Vec::new();
        assert_eq!(clip.play(Law::Pcmu, 2, 7, &mut played), 0);
        let decoded: Vec<i16> = played.iter().map(|one| Law::Pcmu.decode(*one)).collect();
        assert_eq!(decoded.len(), 7);
        assert_eq!(decoded[1], 0);
        assert_eq!(decoded[0], decoded[3]);
        assert_eq!(clip.play(Law::Pcmu, 0, 1, &mut played), 1);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Clip::wav_file(Path::new("/no/such.wav")).unwrap_err();
        assert!(error.starts_with("/no/such.wav: "), "{error}");
    }
}
