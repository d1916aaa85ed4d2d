//! Comfort noise (RFC 3389): what is played while the other side sends nothing because nobody talks.

/// The static payload type at 8,000 Hz (RFC 3389 section 4).
pub const PAYLOAD_TYPE: u8 = 13;

/// Plays noise at the level that the other side has told.
#[derive(Clone, Debug)]
pub struct ComfortNoise {
    /// The largest sample.
    amplitude: f32,
    state: u32,
    last: f32,
}

impl ComfortNoise {
    /// The noise of a payload: its first octet is the level below the loudest, in decibels (RFC 3389 section 3.1).
    /// The spectrum that may follow is not looked at: the noise is that of a room. `None` for an empty payload.
    pub fn read(payload: &[u8]) -> Option<ComfortNoise> {
        let level = f32::from(payload.first()? & 0x7f);
        // A sample that is spread evenly has a third of the power of the loudest square wave.
        let amplitude = 32_767.0 * 3_f32.sqrt() * 10_f32.powf(-level / 20.0);
        Some(ComfortNoise {
            amplitude: amplitude.min(32_767.0),
            state: 0x2545_f491,
            last: 0.0,
        })
    }

    /// Appends `count` samples.
    pub fn play(&mut self, count: usize, samples: &mut Vec<i16>) {
        for _ in 0..count {
            // Nobody can predict or needs to predict noise: a plain xorshift is enough.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 17;
            self.state ^= self.state << 5;
            let white = (self.state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            // Rooms are quieter at high frequencies.
            self.last = 0.5 * self.last + 0.5 * white;
            samples.push((self.last * self.amplitude) as i16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_loud_as_it_is_told_to_be() {
        for level in [30_u8, 50, 70] {
            let mut samples = Vec::new();
            let mut noise = ComfortNoise::read(&[level, 1, 2, 3]).unwrap();
            noise.play(8_000, &mut samples);
            let power: f64 = samples.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / 8_000.0;
            let below = -10.0 * (power / f64::from(32_767_i32 * 32_767)).log10();
            // The filter takes three to five decibels.
            assert!(
                (f64::from(level)..f64::from(level) + 6.0).contains(&below),
                "{level}: {below}"
            );
        }
        assert!(ComfortNoise::read(&[]).is_none());
    }
}
