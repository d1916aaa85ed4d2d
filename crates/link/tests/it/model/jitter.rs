//! How delays are distributed.

use crate::model::support::{
    arrivals, assert_chi_square, assert_distributed, assert_mean, correlation, delays, link,
    milliseconds,
};
use link::{Distribution, Jitter, LinkConfig, Reordering, Table};
use std::time::{Duration, Instant};

const PACKETS: usize = 100_000;
const DELAY: f64 = 0.1;
const JITTER: f64 = 0.01;

fn config(distribution: Distribution, correlation: f64) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_secs_f64(DELAY),
        jitter: Jitter {
            amount: Duration::from_secs_f64(JITTER),
            distribution,
            correlation,
            reorders: true,
        },
        ..LinkConfig::default()
    }
}

/// Deviations from the delay, in jitters.
fn deviations(distribution: Distribution, correlation: f64, seed: u64) -> Vec<f64> {
    delays(&config(distribution, correlation), seed, PACKETS)
        .into_iter()
        .map(|delay| (delay - DELAY) / JITTER)
        .collect()
}

fn normal_below(x: f64) -> f64 {
    if x >= 4.0 {
        return 1.0;
    }
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Pareto with exponent 3, shifted and scaled as in NIST Net, cut off at 4.
fn pareto_below(x: f64) -> f64 {
    if x >= 4.0 {
        return 1.0;
    }
    1.0 - (x * 0.75 + 1.5).max(1.0).powi(-3)
}

#[test]
fn normal_jitter_is_normal() {
    let deviations = deviations(Distribution::Normal, 0.0, 1);
    // The clock's nanosecond moves values by at most 10^-7 jitters.
    assert_distributed(&deviations, 1.0, |x| normal_below(x + 1e-6));
    assert_mean(&deviations, 0.0, 1.0);
    let squares: Vec<f64> = deviations.iter().map(|x| x * x).collect();
    assert_mean(&squares, 1.0, 2.0_f64.sqrt());
    assert!(deviations.iter().all(|x| x.abs() <= 4.000_001));
}

#[test]
fn pareto_jitter_is_that_of_nist_net() {
    let deviations = deviations(Distribution::Pareto, 0.0, 2);
    assert_distributed(&deviations, 1.0, |x| pareto_below(x + 1e-6));
    // Of x from 1 to 4.5 the mean is 3/2 - 1/(2·4.5^2), and the mean square 3 - 2/4.5.
    let cut: f64 = 4.5;
    let mean = 1.5 - 0.5 / (cut * cut);
    let square = 3.0 - 2.0 / cut;
    let deviation = 4.0 / 3.0 * (square - mean * mean).sqrt();
    assert_mean(&deviations, (mean - 1.5) * 4.0 / 3.0, deviation);
    assert!(deviations.iter().all(|&x| x > -0.667));
}

#[test]
fn pareto_normal_jitter_is_a_quarter_of_one_and_three_of_the_other() {
    let deviations = deviations(Distribution::ParetoNormal, 0.0, 3);
    // Bins of equal share, their ends by bisection of the two distributions.
    let quantile = |below: fn(f64) -> f64, share: f64| {
        let (mut low, mut high) = (-4.0, 4.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if below(middle) < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    };
    let ends: Vec<f64> = (1..40)
        .map(|bin| {
            let share = f64::from(bin) / 40.0;
            0.25 * quantile(normal_below, share) + 0.75 * quantile(pareto_below, share)
        })
        .collect();
    let mut counts = vec![0; 40];
    for deviation in deviations {
        counts[ends.partition_point(|&end| end <= deviation)] += 1;
    }
    assert_chi_square(&counts, &[1.0 / 40.0; 40]);
}

#[test]
fn a_table_gives_each_of_its_values_as_often() {
    let text = "# an experiment\n-8192 -4096 0\n0 4096 16384\n";
    let table = Table::parse("experiment", text).unwrap();
    let deviations = deviations(Distribution::Table(table), 0.0, 4);
    let counts = [-1.0, -0.5, 0.0, 0.5, 2.0].map(|value| {
        deviations
            .iter()
            .filter(|&x| (x - value).abs() < 1e-5)
            .count()
    });
    assert_eq!(counts.iter().sum::<usize>(), PACKETS);
    let sixth = 1.0 / 6.0;
    assert_chi_square(&counts, &[sixth, sixth, 2.0 * sixth, sixth, sixth]);
}

#[test]
fn correlated_jitter_keeps_its_distribution() {
    for (seed, rho) in (10..).zip([0.25, 0.8]) {
        // Of so many packets in a row one is as good as independent.
        let share = (1.0 - rho) / (1.0 + rho);
        let normal = deviations(Distribution::Normal, rho, seed);
        assert_distributed(&normal, share, |x| normal_below(x + 1e-6));
        let tolerance = 5.0 / (PACKETS as f64 * share).sqrt();
        for lag in 1..4 {
            let found = correlation(&normal, lag);
            let expected = rho.powi(lag as i32);
            assert!(
                (found - expected).abs() < tolerance,
                "{found} for {expected}"
            );
        }

        let uniform = deviations(Distribution::Uniform, rho, seed);
        assert_distributed(&uniform, share, |x| (x + 1e-6 + 1.0) / 2.0);
        // Of a Gaussian copula with uniform margins.
        let expected = 6.0 / std::f64::consts::PI * (rho / 2.0).asin();
        let found = correlation(&uniform, 1);
        assert!(
            (found - expected).abs() < tolerance,
            "{found} for {expected}"
        );

        let pareto = deviations(Distribution::Pareto, rho, seed);
        assert_distributed(&pareto, share, |x| pareto_below(x + 1e-6));
        let found = correlation(&pareto, 1);
        assert!(found > 0.5 * rho && found < rho, "{found} for {rho}");
    }
}

#[test]
fn full_correlation_makes_one_delay() {
    let deviations = deviations(Distribution::Normal, 1.0, 5);
    assert!(deviations.iter().all(|&x| x == deviations[0]));
}

#[test]
fn packets_wait_for_those_before_unless_jitter_reorders() {
    let mut config = config(Distribution::Pareto, 0.0);
    let start = Instant::now();
    let arrivals = |config: &LinkConfig| -> Vec<Instant> {
        let mut link = link(config, 6);
        (0..10_000)
            .flat_map(|n| arrivals(link.offer(start + milliseconds(n), 1)))
            .collect()
    };
    let free = arrivals(&config);
    assert!(!free.is_sorted());
    config.jitter.reorders = false;
    let held = arrivals(&config);
    assert!(held.is_sorted());
    // Each arrives when it would, or with the latest before it.
    let latest = free.iter().scan(start, |latest, &arrival| {
        *latest = arrival.max(*latest);
        Some(*latest)
    });
    assert!(latest.eq(held));
}

#[test]
fn reordered_packets_take_no_delay() {
    let base = LinkConfig {
        delay: milliseconds(10),
        ..LinkConfig::default()
    };
    let ahead = |reorder: Reordering, seed| -> Vec<bool> {
        let config = LinkConfig {
            reorder,
            ..base.clone()
        };
        let delays = delays(&config, seed, PACKETS);
        delays.iter().map(|&delay| delay == 0.0).collect()
    };
    // Each fifth packet.
    let fifth = ahead("gap 5".parse().unwrap(), 1);
    let expected = (1..=PACKETS).map(|number| number % 5 == 0);
    assert!(fifth.into_iter().eq(expected));
    // A quarter of all.
    let quarter = ahead(0.25.into(), 2);
    crate::model::support::assert_binomial(crate::model::support::count(&quarter), PACKETS, 0.25);
    // Four, then a quarter of what follows until one goes.
    let both = ahead("25% gap 5".parse().unwrap(), 3);
    let waits = crate::model::support::runs(&both, false, 20);
    assert_eq!(waits[..3], [0; 3]);
    assert_chi_square(&waits[3..], &crate::model::support::geometric(0.75, 17));
}

#[test]
fn what_goes_ahead_does_not_hold_others_back() {
    let config = LinkConfig {
        delay: milliseconds(10),
        reorder: "gap 2".parse().unwrap(),
        ..LinkConfig::default()
    };
    let mut link = link(&config, 1);
    let start = Instant::now();
    let delays: Vec<u128> = (0..4)
        .map(|n| {
            let now = start + milliseconds(n);
            (arrivals(link.offer(now, 1))[0] - now).as_millis()
        })
        .collect();
    assert_eq!(delays, [10, 0, 10, 0]);
    assert_eq!(link.statistics().reordered_packets, 2);
}
