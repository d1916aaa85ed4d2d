//! Sound made shorter or longer by one period of the voice, without changing its pitch: so a jitter buffer that holds too
//! much, or too little, comes to its target and nobody hears it (overlap-add, as WSOLA does).

use crate::pitch;

/// How alike two periods have to be for one of them to be left out or repeated.
const LEAST_SIMILARITY: f32 = 0.7;
/// Below this mean level of a sample there is nothing to hear: any piece may be left out or repeated.
const QUIET: i64 = 60;

/// Leaves out one period of `samples`, which follow what was `played`; how many samples were left out: 0 when it would be
/// heard.
pub fn shorten(played: &[i16], samples: &mut Vec<i16>, sample_rate: u32) -> usize {
    let most = samples.len() / 2;
    let Some(period) = repeatable(played, samples, sample_rate, most) else {
        return 0;
    };
    // The last two periods become one, in which the earlier goes over into the later.
    let begin = samples.len() - 2 * period;
    let (earlier, later) = (
        samples
            .get(begin..begin + period)
            .unwrap_or_default()
            .to_vec(),
        samples.get(begin + period..).unwrap_or_default().to_vec(),
    );
    samples.truncate(begin);
    pitch::cross_fade(&earlier, &later, samples);
    period
}

/// Repeats the last period of `samples`, which follow what was `played`; how many samples were added: 0 when it would be
/// heard.
pub fn lengthen(played: &[i16], samples: &mut Vec<i16>, sample_rate: u32) -> usize {
    let most = samples.len() / 2;
    let Some(period) = repeatable(played, samples, sample_rate, most) else {
        return 0;
    };
    // Between the last two periods comes one in which the later goes over into the earlier, so that both joins are as they
    // were.
    let begin = samples.len() - 2 * period;
    let (earlier, later) = (
        samples
            .get(begin..begin + period)
            .unwrap_or_default()
            .to_vec(),
        samples.get(begin + period..).unwrap_or_default().to_vec(),
    );
    samples.truncate(begin + period);
    pitch::cross_fade(&later, &earlier, samples);
    samples.extend(later);
    period
}

/// The period that may be left out or repeated at the end of `samples`, of `most` samples.
fn repeatable(played: &[i16], samples: &[i16], sample_rate: u32, most: usize) -> Option<usize> {
    let (_, longest) = pitch::period_range(sample_rate);
    let level: i64 = samples.iter().map(|sample| i64::from(*sample).abs()).sum();
    if most > 0 && level / (samples.len() as i64) < QUIET {
        return Some(most.min(longest));
    }
    let all = [played, samples].concat();
    let (period, similarity) = pitch::period(&all, sample_rate)?;
    (similarity >= LEAST_SIMILARITY && period <= most).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(count: usize) -> Vec<i16> {
        let sample = |at: usize| {
            let turns = at as f64 * 160.0 / 8_000.0 * std::f64::consts::TAU;
            (turns.sin() * 10_000.0) as i16
        };
        (0..count).map(sample).collect()
    }

    fn largest_step(samples: &[i16]) -> i32 {
        let steps = samples
            .windows(2)
            .map(|two| i32::from(two[1]) - i32::from(two[0]));
        steps.map(i32::abs).max().unwrap_or(0)
    }

    #[test]
    fn a_voice_is_shortened_and_lengthened_by_its_period() {
        let mut shorter = wave(480);
        let left_out = shorten(&wave(300)[200..], &mut shorter, 8_000);
        assert_eq!(left_out % 50, 0, "a period has 50 samples");
        assert!(left_out > 0);
        assert_eq!(shorter.len(), 480 - left_out);
        assert!(largest_step(&shorter) < 1_500, "no click");

        let mut longer = wave(480);
        let added = lengthen(&wave(300)[200..], &mut longer, 8_000);
        assert_eq!(added % 50, 0);
        assert!(added > 0);
        assert_eq!(longer.len(), 480 + added);
        assert!(largest_step(&longer) < 1_500, "no click");
    }

    #[test]
    fn silence_is_cut_anywhere_and_noise_nowhere() {
        assert!(shorten(&[], &mut vec![0; 160], 8_000) > 0);
        let mut state = 1_u32;
        let mut noise: Vec<i16> = (0..480)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as i16
            })
            .collect();
        assert_eq!(shorten(&[], &mut noise, 8_000), 0);
        assert_eq!(lengthen(&[], &mut noise, 8_000), 0);
        assert_eq!(noise.len(), 480);
        assert_eq!(shorten(&[], &mut vec![9_000; 100], 8_000), 0, "too short");
        assert_eq!(shorten(&[], &mut Vec::new(), 8_000), 0);
    }
}
