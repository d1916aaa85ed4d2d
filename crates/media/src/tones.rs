//! Tones of a telephone: those that tell of a call's progress, as each country has them (ITU-T E.180 supplement 2), and
//! those of keys (ITU-T Q.23).

use std::fmt;
use std::str::FromStr;

/// What a tone tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tone {
    /// The other side is being alerted.
    Ringback,
    /// The other side is busy.
    Busy,
    /// The call failed for another reason.
    Congestion,
    /// A second call comes in.
    CallWaiting,
}

/// A country whose tones are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Country {
    /// Germany, and the recommendation for Europe.
    #[default]
    De,
    /// France.
    Fr,
    /// The United Kingdom.
    Gb,
    /// Italy.
    It,
    /// Japan.
    Jp,
    /// The United States and Canada.
    Us,
}

/// Frequencies that sound together, in hertz, and for how long they sound and pause, in milliseconds, over and over.
struct Pattern {
    hertz: &'static [f32],
    cadence: &'static [u32],
}

const fn pattern(hertz: &'static [f32], cadence: &'static [u32]) -> Pattern {
    Pattern { hertz, cadence }
}

impl Country {
    fn pattern(self, tone: Tone) -> Pattern {
        match (self, tone) {
            (Country::De, Tone::Ringback) => pattern(&[425.0], &[1000, 4000]),
            (Country::De, Tone::Busy) => pattern(&[425.0], &[480, 480]),
            (Country::De, Tone::Congestion) => pattern(&[425.0], &[240, 240]),
            (Country::De, Tone::CallWaiting) => pattern(&[425.0], &[200, 200, 200, 5000]),
            (Country::Fr, Tone::Ringback) => pattern(&[440.0], &[1500, 3500]),
            (Country::Fr, Tone::Busy) => pattern(&[440.0], &[500, 500]),
            (Country::Fr, Tone::Congestion) => pattern(&[440.0], &[250, 250]),
            (Country::Fr, Tone::CallWaiting) => pattern(&[440.0], &[300, 10_000]),
            (Country::Gb, Tone::Ringback) => pattern(&[400.0, 450.0], &[400, 200, 400, 2000]),
            (Country::Gb, Tone::Busy) => pattern(&[400.0], &[375, 375]),
            (Country::Gb, Tone::Congestion) => pattern(&[400.0], &[400, 350, 225, 525]),
            (Country::Gb, Tone::CallWaiting) => pattern(&[400.0], &[100, 2500]),
            (Country::It, Tone::Ringback) => pattern(&[425.0], &[1000, 4000]),
            (Country::It, Tone::Busy) => pattern(&[425.0], &[500, 500]),
            (Country::It, Tone::Congestion) => pattern(&[425.0], &[200, 200]),
            (Country::It, Tone::CallWaiting) => {
                pattern(&[425.0], &[400, 100, 250, 100, 150, 14_000])
            }
            (Country::Jp, Tone::Ringback) => pattern(&[384.0, 416.0], &[1000, 2000]),
            (Country::Jp, Tone::Busy | Tone::Congestion) => pattern(&[400.0], &[500, 500]),
            (Country::Jp, Tone::CallWaiting) => pattern(&[400.0], &[500, 4000]),
            (Country::Us, Tone::Ringback) => pattern(&[440.0, 480.0], &[2000, 4000]),
            (Country::Us, Tone::Busy) => pattern(&[480.0, 620.0], &[500, 500]),
            (Country::Us, Tone::Congestion) => pattern(&[480.0, 620.0], &[250, 250]),
            (Country::Us, Tone::CallWaiting) => pattern(&[440.0], &[300, 10_000]),
        }
    }
}

impl fmt::Display for Country {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Country::De => "de",
            Country::Fr => "fr",
            Country::Gb => "gb",
            Country::It => "it",
            Country::Jp => "jp",
            Country::Us => "us",
        })
    }
}

impl FromStr for Country {
    type Err = String;

    fn from_str(text: &str) -> Result<Country, String> {
        use Country::{De, Fr, Gb, It, Jp, Us};
        [De, Fr, Gb, It, Jp, Us]
            .into_iter()
            .find(|country| country.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                format!("tones of \"{text}\" are not known: there are de, fr, gb, it, jp and us")
            })
    }
}

/// Generates a tone.
#[derive(Clone, Debug)]
pub struct ToneGenerator {
    sample_rate: u32,
    hertz: Vec<f32>,
    /// Lengths of sound and pause by turns, in samples; empty for a tone without pauses.
    cadence: Vec<u64>,
    at: u64,
}

/// The level of each frequency: a tenth of the loudest.
const AMPLITUDE: f32 = 3_276.0;

/// Frequencies of rows and columns of keys (ITU-T Q.23).
const ROWS: [f32; 4] = [697.0, 770.0, 852.0, 941.0];
const COLUMNS: [f32; 4] = [1209.0, 1336.0, 1477.0, 1633.0];

impl ToneGenerator {
    /// A tone of a call's progress.
    pub fn progress(tone: Tone, country: Country, sample_rate: u32) -> ToneGenerator {
        let Pattern { hertz, cadence } = country.pattern(tone);
        let samples = |ms: &u32| u64::from(*ms) * u64::from(sample_rate) / 1000;
        ToneGenerator {
            sample_rate,
            hertz: hertz.to_vec(),
            cadence: cadence.iter().map(samples).collect(),
            at: 0,
        }
    }

    /// One frequency without pauses.
    pub fn steady(hertz: f32, sample_rate: u32) -> ToneGenerator {
        ToneGenerator {
            sample_rate,
            hertz: vec![hertz],
            cadence: Vec::new(),
            at: 0,
        }
    }

    /// The two frequencies of a key; `None` when there is no such key.
    pub fn key(sign: char, sample_rate: u32) -> Option<ToneGenerator> {
        let place = "123A456B789C*0#D".find(sign.to_ascii_uppercase())?;
        let hertz = vec![*ROWS.get(place / 4)?, *COLUMNS.get(place % 4)?];
        Some(ToneGenerator {
            sample_rate,
            hertz,
            cadence: Vec::new(),
            at: 0,
        })
    }

    /// Appends the next `count` samples.
    pub fn play(&mut self, count: usize, samples: &mut Vec<i16>) {
        let whole: u64 = self.cadence.iter().sum();
        for _ in 0..count {
            let mut place = if whole == 0 { 0 } else { self.at % whole };
            let mut sounds = true;
            for length in &self.cadence {
                if place < *length {
                    break;
                }
                place -= length;
                sounds = !sounds;
            }
            let level = if sounds { self.level() } else { 0.0 };
            samples.push(level as i16);
            self.at += 1;
        }
    }

    fn level(&self) -> f32 {
        let seconds = self.at as f64 / f64::from(self.sample_rate.max(1));
        let wave = |hertz: &f32| {
            let turns = (seconds * f64::from(*hertz)).fract();
            (turns * std::f64::consts::TAU).sin() as f32 * AMPLITUDE
        };
        self.hertz.iter().map(wave).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The power of a frequency in the samples (Goertzel).
    fn power(samples: &[i16], hertz: f32, sample_rate: u32) -> f32 {
        let factor = 2.0 * (std::f32::consts::TAU * hertz / sample_rate as f32).cos();
        let (mut one, mut two) = (0.0_f32, 0.0_f32);
        for sample in samples {
            let next = f32::from(*sample) + factor * one - two;
            (one, two) = (next, one);
        }
        (one * one + two * two - factor * one * two) / (samples.len() as f32).powi(2)
    }

    #[test]
    fn a_key_has_its_two_frequencies_and_no_others() {
        let mut samples = Vec::new();
        ToneGenerator::key('8', 8_000)
            .unwrap()
            .play(800, &mut samples);
        for hertz in ROWS.into_iter().chain(COLUMNS) {
            let is_there = power(&samples, hertz, 8_000) > 100_000.0;
            assert_eq!(is_there, [852.0, 1336.0].contains(&hertz), "{hertz}");
        }
        assert!(ToneGenerator::key('x', 8_000).is_none());
    }

    #[test]
    fn a_busy_tone_pauses_as_often_as_it_sounds() {
        let mut samples = Vec::new();
        let mut generator = ToneGenerator::progress(Tone::Busy, Country::Us, 8_000);
        generator.play(16_000, &mut samples);
        let loud = |from: usize| samples[from..from + 3_000].iter().any(|s| s.abs() > 3_000);
        assert_eq!(
            [loud(0), loud(4_500), loud(8_500), loud(12_500)],
            [true, false, true, false]
        );
    }

    #[test]
    fn countries_are_named() {
        assert_eq!("GB".parse(), Ok(Country::Gb));
        assert!("xx".parse::<Country>().is_err());
    }
}
