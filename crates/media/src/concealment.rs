//! What is played in place of lost packets, for codecs that have nothing of their own: the last period of the voice,
//! repeated and fading, as ITU-T G.711 appendix I describes it.

use crate::pitch;

/// How long the last sound is repeated at its full level, in milliseconds (appendix I section I.2.7).
const FULL: usize = 10;
/// After this it is silent.
const SILENT: usize = 60;
/// How long the real sound fades in again after a gap, in milliseconds; it grows with the gap (section I.2.8).
const LEAST_FADE: usize = 4;
const MOST_FADE: usize = 10;

/// Conceals the gaps of one stream.
#[derive(Clone, Debug)]
pub struct Concealment {
    sample_rate: u32,
    /// The last samples that were played.
    history: Vec<i16>,
    gap: Option<Gap>,
}

/// A gap that is being concealed.
#[derive(Clone, Debug)]
struct Gap {
    /// The sound that is repeated.
    period: Vec<i16>,
    /// Samples that were made so far.
    length: usize,
}

impl Concealment {
    /// For a stream of so many samples a second.
    pub fn new(sample_rate: u32) -> Concealment {
        Concealment {
            sample_rate,
            history: Vec::new(),
            gap: None,
        }
    }

    /// Takes in samples that came. After a gap the made-up sound goes over into their beginning.
    pub fn received(&mut self, samples: &mut [i16]) {
        if let Some(gap) = self.gap.take() {
            let fade = (LEAST_FADE * self.per_millisecond() + gap.length / 5)
                .min(MOST_FADE * self.per_millisecond())
                .min(samples.len());
            let made_up: Vec<i16> = (gap.length..gap.length + fade)
                .map(|at| self.made_up(&gap, at))
                .collect();
            let mut mixed = Vec::with_capacity(fade);
            let (beginning, _) = samples.split_at_mut(fade);
            pitch::cross_fade(&made_up, beginning, &mut mixed);
            beginning.copy_from_slice(&mixed);
        }
        self.remember(samples);
    }

    /// Appends `count` samples in place of lost ones.
    pub fn lost(&mut self, count: usize, samples: &mut Vec<i16>) {
        let gap = match self.gap.take() {
            Some(gap) => gap,
            None => Gap {
                period: self.last_period(),
                length: 0,
            },
        };
        let begin = samples.len();
        samples.extend((gap.length..gap.length + count).map(|at| self.made_up(&gap, at)));
        self.gap = Some(Gap {
            length: gap.length + count,
            ..gap
        });
        self.remember(samples.get(begin..).unwrap_or_default());
    }

    /// The last period of the sound, whose end goes over into its beginning so that it repeats without a click.
    fn last_period(&self) -> Vec<i16> {
        let Some((length, _)) = pitch::period(&self.history, self.sample_rate) else {
            return Vec::new();
        };
        let begin = self.history.len() - length;
        let (before, period) = self.history.split_at(begin);
        let overlap = length / 4;
        let tail = period.len() - overlap;
        let (whole, end) = period.split_at(tail);
        let mut smooth = whole.to_vec();
        let earlier = before.get(before.len() - overlap..).unwrap_or_default();
        pitch::cross_fade(end, earlier, &mut smooth);
        smooth
    }

    fn made_up(&self, gap: &Gap, at: usize) -> i16 {
        if gap.period.is_empty() {
            return 0;
        }
        let sample = gap.period.get(at % gap.period.len()).copied();
        let (full, silent) = (
            FULL * self.per_millisecond(),
            SILENT * self.per_millisecond(),
        );
        let level = match at {
            at if at < full => 1.0,
            at if at < silent => 1.0 - (at - full) as f32 / (silent - full) as f32,
            _ => 0.0,
        };
        (f32::from(sample.unwrap_or(0)) * level) as i16
    }

    /// The last samples that were played, a few periods of a voice.
    pub fn played(&self) -> &[i16] {
        &self.history
    }

    fn remember(&mut self, samples: &[i16]) {
        let (_, longest) = pitch::period_range(self.sample_rate);
        let most = 2 * longest + longest / 4;
        self.history.extend_from_slice(samples);
        let surplus = self.history.len().saturating_sub(most);
        self.history.drain(..surplus);
    }

    fn per_millisecond(&self) -> usize {
        self.sample_rate as usize / 1000
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wave(from: usize, count: usize) -> Vec<i16> {
        let sample = |at: usize| {
            let turns = at as f64 * 200.0 / 8_000.0 * std::f64::consts::TAU;
            (turns.sin() * 10_000.0) as i16
        };
        (from..from + count).map(sample).collect()
    }

    fn largest_step(samples: &[i16]) -> i32 {
        let steps = samples
            .windows(2)
            .map(|two| i32::from(two[1]) - i32::from(two[0]));
        steps.map(i32::abs).max().unwrap_or(0)
    }

    #[test]
    fn a_voice_goes_on_through_a_lost_packet_without_a_click() {
        let mut concealment = Concealment::new(8_000);
        let mut played = wave(0, 800);
        concealment.received(&mut played);
        concealment.lost(160, &mut played);
        let mut next = wave(960, 160);
        concealment.received(&mut next);
        played.extend(next);
        // 10,000 · 2π · 200 / 8,000 is the steepest step of the wave itself.
        assert!(
            largest_step(&played) < 2 * 1_571,
            "{}",
            largest_step(&played)
        );
        let right = wave(800, 80);
        let error: i32 = played[800..880]
            .iter()
            .zip(&right)
            .map(|(one, other)| (i32::from(*one) - i32::from(*other)).abs())
            .max()
            .unwrap();
        assert!(
            error < 2_000,
            "the first ten milliseconds are like it: {error}"
        );
    }

    #[test]
    fn a_long_gap_fades_into_silence() {
        let mut concealment = Concealment::new(8_000);
        concealment.received(&mut wave(0, 800));
        let mut played = Vec::new();
        for _ in 0..5 {
            concealment.lost(160, &mut played);
        }
        assert_eq!(played.len(), 800);
        assert!(played[480..].iter().all(|sample| *sample == 0));
        assert!(played[..80].iter().any(|sample| *sample > 9_000));
    }

    #[test]
    fn there_is_silence_before_anything_came() {
        let mut concealment = Concealment::new(16_000);
        let mut played = Vec::new();
        concealment.lost(320, &mut played);
        assert_eq!(played, [0; 320]);
    }

    proptest! {
        #[test]
        fn any_order_of_packets_and_gaps_is_played(
            rate in prop::sample::select(&[8_000_u32, 16_000, 48_000][..]),
            steps in prop::collection::vec((any::<bool>(), 0_usize..700, any::<i16>()), 0..30),
        ) {
            let mut concealment = Concealment::new(rate);
            for (lost, count, level) in steps {
                let mut played = Vec::new();
                if lost {
                    concealment.lost(count, &mut played);
                } else {
                    played = vec![level; count];
                    concealment.received(&mut played);
                }
                prop_assert_eq!(played.len(), count);
            }
        }
    }
}
