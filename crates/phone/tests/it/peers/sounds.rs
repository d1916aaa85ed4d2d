//! What is sent in calls, and what is to be found in recordings of them.

use std::path::Path;
use std::process::Command;

use media::wav::{self, Sound};
use test_support::{require_command, wait_until};

use super::LIMIT;
use crate::calls::share;

/// Longer than any call that has a tone.
const TONE_SECONDS: u32 = 20;
/// What is spoken (the first of the Harvard sentences, IEEE 1969).
const SENTENCES: &str = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. \
    It is easy to tell the depth of a well. These days a chicken leg is a rare dish.";
/// The loudest sample of what is spoken.
const PEAK: f32 = 16_000.0;

/// Writes a tone as a WAV file.
pub(crate) fn write_tone(path: &Path, hertz: f32, sample_rate: u32) {
    let step = std::f32::consts::TAU * hertz / sample_rate as f32;
    let samples = 0..sample_rate * TONE_SECONDS;
    let samples = samples.map(|at| (9_000.0 * (step * at as f32).sin()) as i16);
    let sound = Sound {
        sample_rate,
        samples: samples.collect(),
    };
    std::fs::write(path, sound.to_wav()).expect("a file");
}

/// How much of the clearest quarter of a second is the tone, from 0 to 1.
pub(crate) fn tone_share(sound: &Sound, hertz: f32) -> f32 {
    let window = sound.sample_rate as usize / 4;
    let shares = sound.samples.chunks_exact(window);
    let shares = shares.map(|samples| share(samples, hertz, sound.sample_rate));
    shares.fold(0.0, f32::max)
}

/// A recording, once the program that writes it has completed it.
pub(crate) fn read_when_complete(path: &Path) -> Sound {
    let mut found = None;
    wait_until(LIMIT, || {
        let file = std::fs::read(path).unwrap_or_default();
        let sound = wav::read(&file).ok();
        found = sound.filter(|sound| !sound.samples.is_empty());
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("there is no recording in {}", path.display()))
}

/// Spoken sentences with silence around them, about 10 seconds at a rate. `None` where flite cannot be had, which speaks
/// them: its voice loses little by G.711 alone, other than recordings with a faint noise.
pub(crate) fn speech(sample_rate: u32) -> Option<Sound> {
    let program = require_command("flite", "flite")?;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("speech.wav");
    let mut flite = Command::new(program);
    flite
        .args(["-voice", "kal16", "-t", SENTENCES, "-o"])
        .arg(&path);
    let status = flite.status().expect("it runs");
    assert!(status.success(), "flite speaks: {status}");
    let file = std::fs::read(&path).expect("flite has spoken");
    let spoken = wav::read(&file)
        .expect("it is a sound")
        .at_rate(sample_rate);
    let peak = spoken.iter().map(|sample| sample.unsigned_abs()).max();
    let gain = PEAK / f32::from(peak.unwrap_or(1).max(1));
    let pause = vec![0; sample_rate as usize / 2];
    let mut samples = pause.clone();
    samples.extend(
        spoken
            .iter()
            .map(|sample| (f32::from(*sample) * gain) as i16),
    );
    samples.extend(pause);
    Some(Sound {
        sample_rate,
        samples,
    })
}

/// The level of samples.
pub(crate) fn decibels(samples: &[i16]) -> f64 {
    let power: f64 = samples.iter().map(|one| f64::from(*one).powi(2)).sum();
    10.0 * (power / samples.len().max(1) as f64).max(1e-3).log10()
}

/// How alike the loudness of both is over time, at the best of delays up to a second: 1 is the same.
pub(crate) fn likeness(one: &Sound, other: &Sound) -> f64 {
    const SLOTS_A_SECOND: usize = 50;
    let envelope = |sound: &Sound| -> Vec<f64> {
        let slots = sound
            .samples
            .chunks(sound.sample_rate as usize / SLOTS_A_SECOND);
        let loudness = |slot: &[i16]| slot.iter().map(|one| f64::from(*one).abs()).sum();
        slots.map(loudness).collect()
    };
    let (one, other) = (envelope(one), envelope(other));
    let at = |delay: usize| {
        let pairs = || one.iter().zip(other.iter().skip(delay));
        let count = pairs().count().max(1) as f64;
        let means = pairs().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let means = (means.0 / count, means.1 / count);
        let sums = pairs().fold([0.0_f64; 3], |sums, (one, other)| {
            let (one, other) = (one - means.0, other - means.1);
            [
                sums[0] + one * other,
                sums[1] + one * one,
                sums[2] + other * other,
            ]
        });
        sums[0] / (sums[1] * sums[2]).sqrt().max(1e-9)
    };
    (0..SLOTS_A_SECOND).map(at).fold(0.0, f64::max)
}
