//! Another number of samples a second: of a whole sound, and of a stream.

use std::fmt;

use audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, Fft, FixedAsync, FixedSync, Resampler, SincInterpolationParameters,
    SincInterpolationType, WindowFunction,
};

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

/// Samples of the lower rate on which each sample of the other rate depends: it is late by half of them, which is 4 ms at
/// 8,000 a second.
const FILTER_SAMPLES: usize = 64;
/// Places between two samples where the filter is known: enough for ratios of 2, 3 and 6, which are those of the codecs.
const FILTER_PLACES: usize = 48;

/// Converts a stream as it comes. What it gives is late by a few milliseconds, and has no seams.
pub struct StreamResampler {
    from: u32,
    to: u32,
    /// `None` when the rates are the same.
    filter: Option<Box<Async<f32>>>,
    waiting: Vec<f32>,
}

impl fmt::Debug for StreamResampler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StreamResampler({} to {})", self.from, self.to)
    }
}

impl StreamResampler {
    /// From one number of samples a second to another, neither of which is 0.
    pub fn new(from: u32, to: u32) -> StreamResampler {
        let ratio = f64::from(to) / f64::from(from);
        // When there are fewer samples after it, the filter covers as much time before it.
        let samples = FILTER_SAMPLES * (from / to.max(1)).max(1) as usize;
        let is_of_a_codec = to.is_multiple_of(from.max(1)) || from.is_multiple_of(to.max(1));
        let parameters = SincInterpolationParameters::new(samples, WindowFunction::Blackman2)
            .oversampling_factor(FILTER_PLACES)
            .interpolation(match is_of_a_codec {
                true => SincInterpolationType::Nearest,
                false => SincInterpolationType::Cubic,
            });
        let chunk = (from as usize / 50).max(1);
        let filter = Async::new_sinc(ratio, 1.0, &parameters, chunk, 1, FixedAsync::Input);
        StreamResampler {
            from,
            to,
            filter: filter.ok().filter(|_| from != to).map(Box::new),
            waiting: Vec::new(),
        }
    }

    /// The two rates.
    pub fn rates(&self) -> (u32, u32) {
        (self.from, self.to)
    }

    /// Appends what the next samples become; the last ones of them may come with those that follow.
    pub fn push(&mut self, samples: &[i16], into: &mut Vec<i16>) {
        let Some(filter) = &mut self.filter else {
            into.extend_from_slice(samples);
            return;
        };
        self.waiting
            .extend(samples.iter().map(|sample| f32::from(*sample)));
        let mut taken = 0;
        loop {
            let chunk = filter.input_frames_next();
            let Some(input) = self.waiting.get(taken..taken + chunk) else {
                break;
            };
            let adapter = InterleavedSlice::new(input, 1, chunk).ok();
            let output = adapter.and_then(|adapter| filter.process(&adapter, None).ok());
            let output = output.map(|output| output.take_data()).unwrap_or_default();
            into.extend(output.into_iter().map(|sample| sample.round() as i16));
            taken += chunk;
        }
        self.waiting.drain(..taken);
    }
}

/// Converts a stream whose rate changes when its codec does.
#[derive(Debug, Default)]
pub struct RateConverter(Option<StreamResampler>);

impl RateConverter {
    /// The next samples at another rate.
    pub fn next(&mut self, samples: &[i16], from: u32, to: u32) -> Vec<i16> {
        let current = self.0.take().filter(|one| one.rates() == (from, to));
        let resampler = self
            .0
            .insert(current.unwrap_or_else(|| StreamResampler::new(from, to)));
        let mut converted = Vec::with_capacity(samples.len() * to as usize / from.max(1) as usize);
        resampler.push(samples, &mut converted);
        converted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, hertz: f64, samples: usize) -> Vec<i16> {
        let wave = |at: usize| {
            let turns = at as f64 * hertz / f64::from(rate);
            ((turns * std::f64::consts::TAU).sin() * 10_000.0) as i16
        };
        (0..samples).map(wave).collect()
    }

    /// Decibels of the tone above all else in the samples, at its best phase and level.
    fn purity(samples: &[i16], rate: u32, hertz: f64) -> (f64, f64) {
        let turn = |at: usize| std::f64::consts::TAU * hertz * at as f64 / f64::from(rate);
        let (mut sine, mut cosine) = (0.0, 0.0);
        for (at, sample) in samples.iter().enumerate() {
            sine += f64::from(*sample) * turn(at).sin();
            cosine += f64::from(*sample) * turn(at).cos();
        }
        let half = samples.len() as f64 / 2.0;
        let (sine, cosine) = (sine / half, cosine / half);
        let signal = (sine * sine + cosine * cosine) / 2.0;
        let rest: f64 = samples
            .iter()
            .enumerate()
            .map(|(at, sample)| {
                let expected = sine * turn(at).sin() + cosine * turn(at).cos();
                (f64::from(*sample) - expected).powi(2)
            })
            .sum();
        let noise = rest / samples.len() as f64;
        (10.0 * (signal / noise).log10(), signal.sqrt())
    }

    #[test]
    fn a_stream_in_packets_has_no_seams() {
        for (from, to) in [
            (8_000, 16_000),
            (16_000, 8_000),
            (48_000, 16_000),
            (16_000, 48_000),
            (8_000, 48_000),
            (48_000, 8_000),
            (44_100, 48_000),
        ] {
            let mut resampler = StreamResampler::new(from, to);
            let mut converted = Vec::new();
            for packet in tone(from, 1_000.0, from as usize).chunks(from as usize / 50) {
                resampler.push(packet, &mut converted);
            }
            assert!(converted.len().abs_diff(to as usize) <= to as usize / 50 + 4);
            // Whole periods, behind the beginning.
            let middle = &converted[to as usize / 4..to as usize * 3 / 4];
            let (purity, level) = purity(middle, to, 1_000.0);
            assert!(purity > 55.0, "{from} to {to}: {purity} dB");
            let loss = level * std::f64::consts::SQRT_2 / 10_000.0;
            assert!((0.99..1.01).contains(&loss), "{from} to {to}: {loss}");
        }
    }

    #[test]
    fn a_stream_is_late_by_no_more_than_five_milliseconds() {
        for (from, to) in [
            (8_000, 16_000),
            (16_000, 8_000),
            (48_000, 16_000),
            (8_000, 48_000),
        ] {
            let mut resampler = StreamResampler::new(from, to);
            let mut samples = vec![0; from as usize / 5];
            let at = samples.len() / 2;
            samples[at] = 20_000;
            let mut converted = Vec::new();
            for packet in samples.chunks(from as usize / 50) {
                resampler.push(packet, &mut converted);
            }
            let loudest = (0..converted.len()).max_by_key(|at| converted[*at].unsigned_abs());
            let delay = loudest.unwrap() as f64 / f64::from(to) - 0.1;
            assert!((0.0..0.005).contains(&delay), "{from} to {to}: {delay} s");
        }
    }

    #[test]
    fn what_the_lower_rate_does_not_have_is_filtered_out() {
        let mut resampler = StreamResampler::new(48_000, 8_000);
        let mut converted = Vec::new();
        resampler.push(&tone(48_000, 6_000.0, 48_000), &mut converted);
        let loudest = converted[800..]
            .iter()
            .map(|sample| sample.unsigned_abs())
            .max();
        assert!(loudest.unwrap() < 20, "{loudest:?}");
    }

    #[test]
    fn streams_of_one_rate_are_left_alone() {
        let mut converted = Vec::new();
        StreamResampler::new(8_000, 8_000).push(&[1, 2, 3], &mut converted);
        assert_eq!(converted, [1, 2, 3]);
    }

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
