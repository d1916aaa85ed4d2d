//! Acoustic echo cancellation: what a speaker plays is taken out of what a microphone beside it captures, by AEC3 of WebRTC
//! in the crate `sonora`.

use std::fmt;

use sonora::config::EchoCanceller as Aec3;
use sonora::{AudioProcessing, Config, StreamConfig};

/// Frames a second: AEC3 takes 10 ms at a time.
const FRAMES: u32 = 100;

/// Takes the echo of what is played out of what is captured. It finds the delay between the two by itself, up to half a second.
pub struct EchoCanceller {
    processing: Box<AudioProcessing>,
    /// Of each, what is no frame yet.
    played: Framer,
    captured: Framer,
}

impl fmt::Debug for EchoCanceller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = (self.played.rate(), self.captured.rate());
        write!(formatter, "EchoCanceller{rates:?}")
    }
}

impl EchoCanceller {
    /// For samples that are played and captured at these rates: multiples of 100, from 8,000 a second.
    pub fn new(played_rate: u32, captured_rate: u32) -> EchoCanceller {
        let config = Config {
            echo_canceller: Some(Aec3::default()),
            ..Config::default()
        };
        let processing = AudioProcessing::builder()
            .config(config)
            .render_config(StreamConfig::new(played_rate, 1))
            .capture_config(StreamConfig::new(captured_rate, 1))
            .build();
        EchoCanceller {
            processing: Box::new(processing),
            played: Framer::new(played_rate),
            captured: Framer::new(captured_rate),
        }
    }

    /// What is about to be played. It has to be told before its echo is captured.
    pub fn play(&mut self, samples: &[i16]) {
        let processing = &mut self.processing;
        self.played.push(samples, |frame, scratch| {
            // The same comes back: nothing else of the processing is in use.
            let _ = processing.process_render_i16(frame, scratch);
        });
    }

    /// What was captured. Appends it without the echo, in frames of 10 ms: the last samples may come with those that follow.
    pub fn capture(&mut self, samples: &[i16], into: &mut Vec<i16>) {
        let processing = &mut self.processing;
        self.captured.push(samples, |frame, clean| {
            match processing.process_capture_i16(frame, clean) {
                Ok(()) => into.extend_from_slice(clean),
                // A rate that it does not know.
                Err(_) => into.extend_from_slice(frame),
            }
        });
    }
}

/// Cuts samples into frames.
struct Framer {
    waiting: Vec<i16>,
    scratch: Vec<i16>,
}

impl Framer {
    fn new(rate: u32) -> Framer {
        Framer {
            waiting: Vec::new(),
            scratch: vec![0; (rate / FRAMES).max(1) as usize],
        }
    }

    fn rate(&self) -> u32 {
        self.scratch.len() as u32 * FRAMES
    }

    /// Hands over each frame that is complete, and room for another one.
    fn push(&mut self, samples: &[i16], mut take: impl FnMut(&[i16], &mut [i16])) {
        self.waiting.extend_from_slice(samples);
        let frames = self.waiting.chunks_exact(self.scratch.len());
        let rest = frames.remainder().len();
        for frame in frames {
            take(frame, &mut self.scratch);
        }
        self.waiting.drain(..self.waiting.len() - rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something like speech: syllables of a voice whose pitch wanders, with two formants, hisses and pauses.
    struct Voice {
        rate: u32,
        at: usize,
        phase: f64,
        pitch: f64,
        noise: u32,
        formants: [[f64; 2]; 2],
    }

    impl Voice {
        fn new(rate: u32, pitch: f64) -> Voice {
            Voice {
                rate,
                at: 0,
                phase: 0.0,
                pitch,
                noise: 1,
                formants: [[0.0; 2]; 2],
            }
        }

        /// Uniform from -1 to 1.
        fn noise(&mut self) -> f64 {
            self.noise = self
                .noise
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            f64::from(self.noise >> 8) / f64::from(1 << 23) - 1.0
        }

        fn say(&mut self, count: usize) -> Vec<f64> {
            (0..count).map(|_| self.next()).collect()
        }

        fn next(&mut self) -> f64 {
            let time = self.at as f64 / f64::from(self.rate);
            self.at += 1;
            let syllable = (time * 4.0).floor();
            let within = (time * 4.0).fract();
            // One syllable in five is a pause, one a hiss.
            let kind = (syllable as u64).wrapping_mul(2_654_435_761) >> 3 & 7;
            let loudness = (within * std::f64::consts::PI).sin();
            let pitch = self.pitch * (1.0 + 0.15 * (time * 1.7).sin());
            self.phase += pitch / f64::from(self.rate);
            let pulse = if self.phase >= 1.0 {
                1.0
            } else {
                0.02 * self.noise()
            };
            self.phase = self.phase.fract();
            let source = match kind {
                0 => 0.0,
                1 => 0.1 * self.noise(),
                _ => pulse,
            };
            let wander = (syllable * 2.399).sin();
            let centres = [500.0 + 200.0 * wander, 1_500.0 + 500.0 * wander];
            let mut sum = 0.0;
            for (state, centre) in self.formants.iter_mut().zip(centres) {
                let radius = (-std::f64::consts::PI * 100.0 / f64::from(self.rate)).exp();
                let turn = std::f64::consts::TAU * centre / f64::from(self.rate);
                let sample =
                    source + 2.0 * radius * turn.cos() * state[0] - radius * radius * state[1];
                *state = [sample, state[0]];
                sum += sample;
            }
            sum * loudness * 1_000.0
        }
    }

    /// A room: the direct sound after a delay, 10 dB down, and reflections that die away within 60 ms.
    fn room(rate: u32, delay_ms: usize) -> Vec<f64> {
        let per_ms = rate as usize / 1_000;
        let mut response = vec![0.0; (delay_ms + 60) * per_ms];
        let mut noise = Voice::new(rate, 100.0);
        for (at, tap) in response.iter_mut().skip(delay_ms * per_ms).enumerate() {
            let decay = (-(at as f64) / (12.0 * per_ms as f64)).exp();
            *tap = if at == 0 {
                0.3
            } else {
                0.02 * decay * noise.noise()
            };
        }
        response
    }

    fn convolve(samples: &[f64], response: &[f64]) -> Vec<f64> {
        let at = |index: usize| {
            let past = samples.get(..=index).unwrap_or_default().iter().rev();
            past.zip(response).map(|(sample, tap)| sample * tap).sum()
        };
        (0..samples.len()).map(at).collect()
    }

    fn decibels(samples: &[f64]) -> f64 {
        let power: f64 = samples.iter().map(|sample| sample * sample).sum();
        10.0 * (power / samples.len().max(1) as f64).max(1e-3).log10()
    }

    fn rounded(samples: &[f64]) -> Vec<i16> {
        samples.iter().map(|sample| *sample as i16).collect()
    }

    /// Plays and captures as a phone does, in turns of 20 ms.
    fn through(played: &[i16], captured: &[i16], played_rate: u32, captured_rate: u32) -> Vec<f64> {
        let mut canceller = EchoCanceller::new(played_rate, captured_rate);
        let mut clean = Vec::new();
        let turns = played.chunks(played_rate as usize / 50);
        for (played, captured) in turns.zip(captured.chunks(captured_rate as usize / 50)) {
            canceller.play(played);
            canceller.capture(captured, &mut clean);
        }
        clean.into_iter().map(f64::from).collect()
    }

    #[test]
    fn an_echo_is_taken_out() {
        const RATE: u32 = 16_000;
        for delay in [30, 120] {
            let far = Voice::new(RATE, 110.0).say(RATE as usize * 10);
            let echo = convolve(&far, &room(RATE, delay));
            let clean = through(&rounded(&far), &rounded(&echo), RATE, RATE);
            assert_eq!(clean.len(), echo.len());
            let last = RATE as usize * 5;
            let loss = decibels(&echo[last..]) - decibels(&clean[last..]);
            assert!(loss > 15.0, "{delay} ms: ERLE of {loss:.1} dB");
        }
    }

    #[test]
    fn who_speaks_meanwhile_is_heard() {
        const RATE: u32 = 16_000;
        let count = RATE as usize * 12;
        let far = Voice::new(RATE, 110.0).say(count);
        let echo = convolve(&far, &room(RATE, 60));
        let talks_from = RATE as usize * 6;
        let near: Vec<f64> = Voice::new(RATE, 210.0).say(count);
        let mixed: Vec<f64> = echo
            .iter()
            .zip(&near)
            .enumerate()
            .map(|(at, (echo, near))| echo + if at >= talks_from { *near } else { 0.0 })
            .collect();
        let clean = through(&rounded(&far), &rounded(&mixed), RATE, RATE);
        let (near, clean) = (&near[talks_from..], &clean[talks_from..]);
        let lost = decibels(near) - decibels(clean);
        assert!(lost < 6.0, "{lost:.1} dB of the near end are gone");
    }

    #[test]
    fn without_echo_nothing_is_lost() {
        for rate in [8_000, 48_000] {
            let near = Voice::new(rate, 150.0).say(rate as usize * 5);
            let silence = vec![0; 16_000 * 5];
            let clean = through(&silence, &rounded(&near), 16_000, rate);
            let change = decibels(&clean) - decibels(&near);
            assert!(change.abs() < 2.0, "{rate}: {change:.1} dB");
        }
    }

    #[test]
    fn samples_come_in_any_pieces() {
        let mut canceller = EchoCanceller::new(16_000, 8_000);
        let mut clean = Vec::new();
        for size in [0, 1, 79, 81, 1_000, 3] {
            canceller.play(&vec![100; size]);
            canceller.capture(&vec![100; size], &mut clean);
        }
        // The last ones are no frame.
        assert_eq!(clean.len(), 1_164 / 80 * 80);
    }
}
