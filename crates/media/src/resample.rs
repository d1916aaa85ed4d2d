//! Another number of samples a second.

use audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};

/// Samples that are converted at a time.
const CHUNK: usize = 1024;

/// A sound of `from` samples a second at `to` samples a second. It keeps its length in time; frequencies that the new
/// rate does not have are filtered out.
pub fn resample(samples: Vec<i16>, from: u32, to: u32) -> Vec<i16> {
    if from == to || samples.is_empty() {
        return samples;
    }
    let input: Vec<f32> = samples.iter().map(|sample| f32::from(*sample)).collect();
    let converted = (|| {
        let (from, to) = (from as usize, to as usize);
        let mut resampler = Fft::<f32>::new(from, to, CHUNK, 1, FixedSync::Both).ok()?;
        let adapter = InterleavedSlice::new(&input, 1, input.len()).ok()?;
        let output = resampler.process_all(&adapter, input.len(), None).ok()?;
        Some(output.take_data())
    })();
    let converted = converted.unwrap_or_default();
    converted
        .into_iter()
        .map(|sample| sample.round() as i16)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_keeps_its_pitch_its_level_and_its_length() {
        for (from, to) in [
            (8_000_u32, 16_000_u32),
            (48_000, 8_000),
            (44_100, 48_000),
            (16_000, 8_000),
        ] {
            let wave = |rate: u32, at: usize| {
                let turns = at as f64 * 440.0 / f64::from(rate);
                ((turns * std::f64::consts::TAU).sin() * 10_000.0) as i16
            };
            let samples = (0..from as usize).map(|at| wave(from, at)).collect();
            let converted = resample(samples, from, to);
            assert!(
                converted.len().abs_diff(to as usize) <= 2,
                "{from} to {to}: {}",
                converted.len()
            );
            let middle = &converted[to as usize / 4..to as usize * 3 / 4];
            let rising = middle
                .windows(2)
                .filter(|two| two[0] < 0 && two[1] >= 0)
                .count();
            assert!(
                rising.abs_diff(220) <= 1,
                "{from} to {to}: {rising} periods in half a second"
            );
            let power: f64 = middle.iter().map(|sample| f64::from(*sample).powi(2)).sum();
            let level = (power / middle.len() as f64).sqrt();
            assert!(
                (level - 10_000.0 / 2_f64.sqrt()).abs() < 50.0,
                "{from} to {to}: {level}"
            );
        }
    }

    #[test]
    fn odd_rates_and_lengths_are_converted() {
        assert_eq!(resample(vec![1, 2, 3], 8_000, 8_000), [1, 2, 3]);
        assert!(resample(Vec::new(), 8_000, 16_000).is_empty());
        assert_eq!(resample(vec![0; 7], 11_025, 8_000).len(), 6);
    }
}
