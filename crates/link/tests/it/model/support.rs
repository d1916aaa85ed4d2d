//! What the tests share: links, and tests of samples.

use link::{Link, LinkConfig, Verdict};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use std::time::{Duration, Instant};

pub(crate) fn link(config: &LinkConfig, seed: u64) -> Link {
    Link::new(config.clone(), ChaCha12Rng::seed_from_u64(seed))
}

/// Which of so many packets, offered at one time, are dropped.
pub(crate) fn dropped(config: &LinkConfig, seed: u64, packets: usize) -> Vec<bool> {
    let mut link = link(config, seed);
    let now = Instant::now();
    (0..packets)
        .map(|_| link.offer(now, 100).is_dropped())
        .collect()
}

/// The delays of so many packets, offered at one time, none of which may be dropped or duplicated, in
/// seconds.
pub(crate) fn delays(config: &LinkConfig, seed: u64, packets: usize) -> Vec<f64> {
    let mut link = link(config, seed);
    let now = Instant::now();
    let delays = (0..packets).map(|_| {
        let arrivals = arrivals(link.offer(now, 100));
        assert_eq!(arrivals.len(), 1);
        (arrivals[0] - now).as_secs_f64()
    });
    delays.collect()
}

pub(crate) fn arrivals(verdict: Verdict) -> Vec<Instant> {
    verdict.deliveries().map(|delivery| delivery.at).collect()
}

pub(crate) fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn count(happened: &[bool]) -> usize {
    happened.iter().filter(|&&happened| happened).count()
}

/// Five standard deviations, which a right sample exceeds once in two million.
const DEVIATIONS: f64 = 5.0;

pub(crate) fn assert_binomial(count: usize, trials: usize, probability: f64) {
    assert_share(count, trials, probability, 1.0);
}

/// The same for trials whose sum varies so many times as much as if they were independent.
pub(crate) fn assert_share(count: usize, trials: usize, probability: f64, variance: f64) {
    let expected = trials as f64 * probability;
    let deviation = (expected * (1.0 - probability) * variance).sqrt();
    assert!(
        (count as f64 - expected).abs() <= DEVIATIONS * deviation,
        "{count} of {trials}, expected {expected} with a standard deviation of {deviation}"
    );
}

pub(crate) fn assert_mean(values: &[f64], mean: f64, deviation: f64) {
    let found = self::mean(values);
    let deviation = deviation / (values.len() as f64).sqrt();
    assert!(
        (found - mean).abs() <= DEVIATIONS * deviation,
        "{found}, expected {mean} with a standard deviation of {deviation}"
    );
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Pearson's correlation of values with those so many later.
pub(crate) fn correlation(values: &[f64], lag: usize) -> f64 {
    let mean = mean(values);
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let pairs = values.iter().zip(&values[lag..]);
    let covariance: f64 = pairs.map(|(x, y)| (x - mean) * (y - mean)).sum();
    covariance / variance
}

/// Whether counts are those of a sample with these probabilities, by the chi-square test. Its
/// statistic exceeds *k* + 2√(*kt*) + 2*t* with a probability below e^−*t* (Laurent and Massart 2000).
pub(crate) fn assert_chi_square(counts: &[usize], probabilities: &[f64]) {
    assert_eq!(counts.len(), probabilities.len());
    let (counts, probabilities) = with_neighbours(counts, probabilities);
    let all = counts.iter().sum::<usize>() as f64;
    let statistic: f64 = counts
        .iter()
        .zip(&probabilities)
        .map(|(&count, probability)| {
            let expected = all * probability;
            (count as f64 - expected).powi(2) / expected
        })
        .sum();
    let degrees = counts.len() as f64 - 1.0;
    let bound = degrees + 2.0 * (degrees * RARE).sqrt() + 2.0 * RARE;
    assert!(
        statistic <= bound,
        "{statistic} above {bound}: {counts:?} for {probabilities:?}"
    );
}

/// Puts together what is expected too seldom for the test.
fn with_neighbours(counts: &[usize], probabilities: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let all = counts.iter().sum::<usize>() as f64;
    let mut together: Vec<(usize, f64)> = Vec::new();
    for (&count, &probability) in counts.iter().zip(probabilities) {
        match together.last_mut() {
            Some(last) if all * last.1 < 5.0 => *last = (last.0 + count, last.1 + probability),
            _ => together.push((count, probability)),
        }
    }
    if let [.., before, last] = &mut together[..]
        && all * last.1 < 5.0
    {
        *before = (before.0 + last.0, before.1 + last.1);
        together.pop();
    }
    assert!(together.len() > 1, "there is nothing to compare");
    together.into_iter().unzip()
}

/// Whether values are a sample of a distribution, by the test of Kolmogorov and Smirnov, with
/// Massart's bound on the distance. Values are exact to 10^-6. Only `share` of them need be independent.
pub(crate) fn assert_distributed(values: &[f64], share: f64, below: impl Fn(f64) -> f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let all = values.len() as f64;
    let distances = values.iter().map(|&value| {
        let at_or_below = values.partition_point(|&other| other <= value) as f64 / all;
        let strictly_below = values.partition_point(|&other| other < value) as f64 / all;
        // Where many values are the same the distribution jumps.
        let distance = (at_or_below - below(value)).abs();
        distance.max((strictly_below - below(value - 3e-6)).abs())
    });
    let distance = distances.fold(0.0, f64::max);
    let bound = (RARE / (2.0 * all * share)).sqrt();
    assert!(distance <= bound, "distance {distance} above {bound}");
}

/// e^−15 is one in three million.
const RARE: f64 = 15.0;

/// How often runs of `which` are 1, 2, … long, those from `longest` on together.
pub(crate) fn runs(values: &[bool], which: bool, longest: usize) -> Vec<usize> {
    let mut counts = vec![0; longest];
    // The first and the last run may be longer than what is seen of them.
    let mut runs: Vec<usize> = Vec::new();
    for run in values.chunk_by(|one, other| one == other) {
        if run[0] == which {
            runs.push(run.len());
        }
    }
    for run in runs {
        counts[run.min(longest) - 1] += 1;
    }
    counts
}

/// The probabilities of such counts when a run goes on with this probability.
pub(crate) fn geometric(goes_on: f64, longest: usize) -> Vec<f64> {
    let mut probabilities: Vec<f64> = (0..longest as i32 - 1)
        .map(|length| goes_on.powi(length) * (1.0 - goes_on))
        .collect();
    probabilities.push(goes_on.powi(longest as i32 - 1));
    probabilities
}
