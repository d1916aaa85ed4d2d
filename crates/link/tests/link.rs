//! What a link does against what it says it does: each impairment against its distribution, and the
//! promises about seeds and order.

use link::{Link, LinkConfig};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use std::time::{Duration, Instant};

const PACKETS: usize = 100_000;
const PROBABILITIES: [f64; 5] = [0.01, 0.1, 0.3, 0.5, 0.9];

#[test]
fn loss_is_within_binomial_bounds() {
    for (seed, loss) in (0..).zip(PROBABILITIES) {
        let config = LinkConfig {
            loss,
            ..LinkConfig::default()
        };
        let lost = lost_packets(config, seed);
        let count = lost.iter().filter(|&&lost| lost).count();
        assert_binomial(count, PACKETS, loss);
    }
}

#[test]
fn losses_are_independent_of_each_other() {
    for (seed, loss) in (0..).zip(PROBABILITIES) {
        let config = LinkConfig {
            loss,
            ..LinkConfig::default()
        };
        let lost = lost_packets(config, seed);
        for lag in [1, 2, 7] {
            let after_a_loss: Vec<bool> = lost
                .iter()
                .zip(&lost[lag..])
                .filter_map(|(&earlier, &later)| earlier.then_some(later))
                .collect();
            let count = after_a_loss.iter().filter(|&&lost| lost).count();
            assert_binomial(count, after_a_loss.len(), loss);
        }
    }
}

#[test]
fn duplication_is_within_binomial_bounds_and_spares_the_lost() {
    let config = LinkConfig {
        loss: 0.3,
        duplicate: 0.2,
        ..LinkConfig::default()
    };
    let mut link = link(config, 1);
    let now = Instant::now();
    let mut copies = [0; 3];
    for _ in 0..PACKETS {
        copies[link.offer(now, 100).deliveries().count()] += 1;
    }
    let [lost, once, twice] = copies;
    assert_binomial(lost, PACKETS, 0.3);
    assert_binomial(twice, once + twice, 0.2);

    let statistics = link.statistics();
    assert_eq!(statistics.offered_packets, PACKETS as u64);
    assert_eq!(statistics.offered_bytes, 100 * PACKETS as u64);
    assert_eq!(statistics.lost_packets, lost as u64);
    assert_eq!(statistics.lost_bytes, 100 * lost as u64);
    assert_eq!(statistics.duplicated_packets, twice as u64);
}

#[test]
fn probabilities_of_none_and_all_are_exact() {
    let count_lost = |loss| {
        let config = LinkConfig {
            loss,
            ..LinkConfig::default()
        };
        lost_packets(config, 2).iter().filter(|&&lost| lost).count()
    };
    assert_eq!(count_lost(0.0), 0);
    assert_eq!(count_lost(-1.0), 0);
    assert_eq!(count_lost(f64::NAN), 0);
    assert_eq!(count_lost(1.0), PACKETS);
    assert_eq!(count_lost(7.0), PACKETS);
}

#[test]
fn jitter_is_uniform_around_the_delay() {
    const BINS: usize = 20;
    let (delay, jitter) = (Duration::from_millis(50), Duration::from_millis(10));
    let config = LinkConfig {
        delay,
        jitter,
        reorder: true,
        ..LinkConfig::default()
    };
    let mut bins = [0_usize; BINS];
    for delay_met in delays(config, 3) {
        assert!(delay_met >= delay - jitter && delay_met <= delay + jitter);
        let position = (delay_met - (delay - jitter)).as_secs_f64() / (2.0 * jitter.as_secs_f64());
        bins[((position * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    for count in bins {
        assert_binomial(count, PACKETS, 1.0 / BINS as f64);
    }
}

#[test]
fn no_packet_arrives_before_it_was_sent() {
    let config = LinkConfig {
        delay: Duration::from_millis(1),
        jitter: Duration::from_millis(4),
        reorder: true,
        ..LinkConfig::default()
    };
    let at_once = delays(config, 4)
        .iter()
        .filter(|&&delay| delay == Duration::ZERO)
        .count();
    // Deviations from -4 ms to -1 ms, of -4 ms to 4 ms.
    assert_binomial(at_once, PACKETS, 3.0 / 8.0);
}

#[test]
fn without_jitter_the_delay_is_exact() {
    let delay = Duration::from_nanos(1_234_567);
    let config = LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    assert!(delays(config, 5).iter().all(|&met| met == delay));
}

#[test]
fn the_longest_times_do_not_overflow() {
    let config = LinkConfig {
        delay: Duration::MAX,
        jitter: Duration::MAX,
        ..LinkConfig::default()
    };
    let now = Instant::now();
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let mut link = link(config, 6);
    let latest = (0..100).flat_map(|_| link.offer(now, 1).deliveries()).max();
    assert!(latest > Some(now + 50 * year));
}

#[test]
fn packets_overtake_only_where_that_is_allowed() {
    for reorder in [false, true] {
        let config = LinkConfig {
            delay: Duration::from_millis(20),
            jitter: Duration::from_millis(20),
            reorder,
            duplicate: 0.1,
            ..LinkConfig::default()
        };
        let mut link = link(config, 7);
        let start = Instant::now();
        let arrivals: Vec<Instant> = (0..1000)
            .flat_map(|n| {
                link.offer(start + Duration::from_millis(n), 1)
                    .deliveries()
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(!arrivals.is_sorted(), reorder);
    }
}

#[test]
fn other_seeds_lose_other_packets() {
    let config = LinkConfig {
        loss: 0.5,
        ..LinkConfig::default()
    };
    assert_ne!(lost_packets(config, 8), lost_packets(config, 9));
}

/// A seed that someone wrote down stands for the same losses in every later version.
#[test]
fn the_losses_of_a_seed_never_change() {
    let config = LinkConfig {
        loss: 0.3,
        ..LinkConfig::default()
    };
    let lost: Vec<usize> = lost_packets(config, 1)
        .iter()
        .take(30)
        .enumerate()
        .filter_map(|(number, &lost)| lost.then_some(number))
        .collect();
    assert_eq!(lost, [3, 4, 5, 7, 11, 13, 20]);
}

proptest! {
    #[test]
    fn a_perfect_link_changes_nothing(
        seed: u64,
        packets in prop::collection::vec((0..1_000_000_u64, 0..65_536_usize), 0..100),
    ) {
        let mut link = link(LinkConfig::default(), seed);
        let mut now = Instant::now();
        for (gap, bytes) in packets {
            now += Duration::from_nanos(gap);
            let deliveries: Vec<_> = link.offer(now, bytes).deliveries().collect();
            prop_assert_eq!(deliveries, [now]);
        }
    }

    #[test]
    fn seed_and_number_alone_fix_the_fate(
        seed: u64,
        packets in prop::collection::vec((0..1_000_000_u64, 0..65_536_usize), 0..100),
    ) {
        let config = LinkConfig {
            loss: 0.4,
            delay: Duration::from_millis(30),
            jitter: Duration::from_millis(30),
            reorder: true,
            duplicate: 0.4,
        };
        let (mut steady, mut varied) = (link(config, seed), link(config, seed));
        let start = Instant::now();
        let mut now = start;
        for (gap, bytes) in packets {
            now += Duration::from_nanos(gap);
            let expected: Vec<_> = delays_of(&mut steady, start, 1);
            prop_assert_eq!(delays_of(&mut varied, now, bytes), expected);
        }
    }

    #[test]
    fn other_impairments_do_not_change_which_packets_are_lost(seed: u64) {
        let alone = LinkConfig { loss: 0.3, ..LinkConfig::default() };
        let together = LinkConfig {
            jitter: Duration::from_millis(5),
            duplicate: 0.5,
            reorder: true,
            ..alone
        };
        let (mut alone, mut together) = (link(alone, seed), link(together, seed));
        let now = Instant::now();
        for _ in 0..100 {
            let dropped = alone.offer(now, 1).is_dropped();
            prop_assert_eq!(together.offer(now, 1).is_dropped(), dropped);
        }
    }
}

fn link(config: LinkConfig, seed: u64) -> Link {
    Link::new(config, ChaCha12Rng::seed_from_u64(seed))
}

/// Which of the packets are lost.
fn lost_packets(config: LinkConfig, seed: u64) -> Vec<bool> {
    let mut link = link(config, seed);
    let now = Instant::now();
    (0..PACKETS)
        .map(|_| link.offer(now, 100).is_dropped())
        .collect()
}

/// The delays of the packets, none of which may be lost or duplicated.
fn delays(config: LinkConfig, seed: u64) -> Vec<Duration> {
    let mut link = link(config, seed);
    let now = Instant::now();
    let delays: Vec<_> = (0..PACKETS)
        .flat_map(|_| delays_of(&mut link, now, 100))
        .collect();
    assert_eq!(delays.len(), PACKETS);
    delays
}

fn delays_of(link: &mut Link, now: Instant, bytes: usize) -> Vec<Duration> {
    let verdict = link.offer(now, bytes);
    verdict.deliveries().map(|arrival| arrival - now).collect()
}

/// Five standard deviations: a right link fails once in two million seeds, and the seeds are fixed.
fn assert_binomial(count: usize, trials: usize, probability: f64) {
    let expected = trials as f64 * probability;
    let deviation = (expected * (1.0 - probability)).sqrt();
    assert!(
        (count as f64 - expected).abs() <= 5.0 * deviation,
        "{count} of {trials}, expected {expected} with a standard deviation of {deviation}"
    );
}
