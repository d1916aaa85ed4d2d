//! The pitch of a voice: after how many samples its wave repeats itself.

/// From 400 Hz, the highest pitch that is looked for, to 66 Hz, the lowest (ITU-T G.711 appendix I section I.2.1).
const HIGHEST: u32 = 400;
const LOWEST: u32 = 66;

/// The shortest and the longest period that is looked for at a sample rate, in samples.
pub(crate) fn period_range(sample_rate: u32) -> (usize, usize) {
    (
        (sample_rate / HIGHEST) as usize,
        (sample_rate / LOWEST) as usize,
    )
}

/// The period after which the end of `history` repeats itself best, in samples, and how well: 1 for a wave that repeats
/// itself exactly, 0 for noise. `None` when the history is too short.
pub(crate) fn period(history: &[i16], sample_rate: u32) -> Option<(usize, f32)> {
    let (shortest, longest) = period_range(sample_rate);
    // Looked at in steps of 1/8000 s at first, then around the best of them.
    let step = (sample_rate / 8_000).max(1) as usize;
    let window = longest;
    let template = history.get(history.len().checked_sub(window)?..)?;
    history.len().checked_sub(window + longest)?;
    let similarity = |lag: usize, step: usize| {
        let begin = history.len() - window - lag;
        let earlier = history.get(begin..begin + window).unwrap_or_default();
        let (mut product, mut energy, mut own) = (0.0_f32, 0.0_f32, 0.0_f32);
        for (one, other) in template.iter().zip(earlier).step_by(step) {
            let (one, other) = (f32::from(*one), f32::from(*other));
            product += one * other;
            energy += other * other;
            own += one * one;
        }
        if energy <= 0.0 || own <= 0.0 {
            0.0
        } else {
            product / (energy * own).sqrt()
        }
    };
    let best_of = |lags: &mut dyn Iterator<Item = usize>, step: usize| {
        let pairs = lags.map(|lag| (lag, similarity(lag, step)));
        pairs.fold((shortest, f32::MIN), |best, one| {
            if one.1 > best.1 { one } else { best }
        })
    };
    let (coarse, _) = best_of(&mut (shortest..=longest).step_by(step), step);
    let around = coarse.saturating_sub(step).max(shortest)..=(coarse + step).min(longest);
    Some(best_of(&mut around.into_iter(), 1))
}

/// Goes over from one sound to another along a straight line: `from` fades out while `to` fades in.
pub(crate) fn cross_fade(from: &[i16], to: &[i16], into: &mut Vec<i16>) {
    let length = from.len().min(to.len());
    let mixed = from.iter().zip(to).enumerate().map(|(index, (from, to))| {
        let share = (index + 1) as f32 / (length + 1) as f32;
        (f32::from(*from) * (1.0 - share) + f32::from(*to) * share) as i16
    });
    into.extend(mixed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_of_a_wave_is_found() {
        for (rate, hertz) in [
            (8_000, 100.0),
            (8_000, 250.0),
            (16_000, 180.0),
            (48_000, 120.0),
        ] {
            let wave = |at: u32| {
                let turns = f64::from(at) * hertz / f64::from(rate) * std::f64::consts::TAU;
                // With a harmonic, as voices have.
                (turns.sin() * 8_000.0 + (2.0 * turns).sin() * 3_000.0) as i16
            };
            let history: Vec<i16> = (0..rate / 10).map(wave).collect();
            let (found, similarity) = period(&history, rate).unwrap();
            let exact = f64::from(rate) / hertz;
            let multiple = (found as f64 / exact).round().max(1.0);
            assert!(
                (found as f64 - multiple * exact).abs() <= 1.5,
                "{hertz} Hz: {found}"
            );
            assert!(similarity > 0.98, "{similarity}");
        }
    }

    #[test]
    fn silence_and_short_histories_have_none() {
        assert_eq!(period(&[1; 100], 8_000), None);
        let (_, similarity) = period(&[0; 800], 8_000).unwrap();
        assert_eq!(similarity, 0.0);
    }

    #[test]
    fn a_fade_begins_near_the_one_and_ends_near_the_other() {
        let mut mixed = Vec::new();
        cross_fade(&[1_000; 9], &[0; 9], &mut mixed);
        assert_eq!((mixed[0], mixed[4], mixed[8]), (900, 500, 100));
    }
}
