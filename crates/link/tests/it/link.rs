//! What a link does against what it says it does: each impairment against its distribution, and the
//! promises about seeds and order.

use link::{Bottleneck, DropCause, Jitter, Link, LinkConfig, Verdict};
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
            loss: loss.into(),
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
            loss: loss.into(),
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
        loss: 0.3.into(),
        duplicate: 0.2.into(),
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
    let count_lost = |loss: f64| {
        let config = LinkConfig {
            loss: loss.into(),
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
        jitter: overtaking(jitter),
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
        jitter: overtaking(Duration::from_millis(4)),
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
        bottleneck: Some(Bottleneck::new(0)),
        delay: Duration::MAX,
        jitter: Duration::MAX.into(),
        ..LinkConfig::default()
    };
    let now = Instant::now();
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let mut link = link(config, 6);
    let latest = (0..100)
        .flat_map(|_| arrivals(link.offer(now, usize::MAX / 200)))
        .max();
    assert!(latest > Some(now + 50 * year));
}

#[test]
fn packets_overtake_only_where_that_is_allowed() {
    for reorders in [false, true] {
        let config = LinkConfig {
            delay: Duration::from_millis(20),
            jitter: Jitter {
                reorders,
                ..Duration::from_millis(20).into()
            },
            duplicate: 0.1.into(),
            ..LinkConfig::default()
        };
        let mut link = link(config, 7);
        let start = Instant::now();
        let arrivals: Vec<Instant> = (0..1000)
            .flat_map(|n| arrivals(link.offer(start + Duration::from_millis(n), 1)))
            .collect();
        assert_eq!(!arrivals.is_sorted(), reorders);
    }
}

#[test]
fn other_seeds_lose_other_packets() {
    let config = LinkConfig {
        loss: 0.5.into(),
        ..LinkConfig::default()
    };
    assert_ne!(lost_packets(config.clone(), 8), lost_packets(config, 9));
}

#[test]
fn packets_leave_one_after_the_other_at_the_rate() {
    let config = LinkConfig {
        bottleneck: Some(Bottleneck::new(8_000_000)),
        delay: Duration::from_millis(5),
        ..LinkConfig::default()
    };
    let mut link = link(config, 10);
    let start = Instant::now();
    let mut arrival_after = |sent: u64, bytes| {
        let sent = start + Duration::from_micros(sent);
        (arrivals(link.offer(sent, bytes))[0] - start).as_micros() - 5000
    };
    // A byte takes a microsecond.
    assert_eq!(arrival_after(0, 1000), 1000);
    assert_eq!(arrival_after(0, 500), 1500);
    assert_eq!(arrival_after(1499, 1), 1501);
    // The link was idle: what was not used is not saved up.
    assert_eq!(arrival_after(10_000, 1), 10_001);
}

#[test]
fn what_finds_no_room_in_the_queue_is_dropped() {
    let bottleneck = |queue_packets, queue_bytes| LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets,
            queue_bytes,
            ..Bottleneck::new(8_000_000)
        }),
        ..LinkConfig::default()
    };
    let start = Instant::now();
    let causes = |config, packets: &[(u64, usize)]| {
        let mut link = link(config, 11);
        let causes = packets.iter().map(|&(sent, bytes)| {
            let sent = start + Duration::from_micros(sent);
            link.offer(sent, bytes).drop_cause()
        });
        let causes = causes.collect::<Vec<_>>();
        (causes, *link.statistics())
    };
    const FULL: Option<DropCause> = Some(DropCause::QueueFull);

    // At the time 100 the first packet has left, one byte before it has not.
    let by_packets = [(0, 100), (0, 100), (0, 1), (99, 1), (100, 1), (100, 1)];
    let (dropped, statistics) = causes(bottleneck(2, usize::MAX), &by_packets);
    assert_eq!(dropped, [None, None, FULL, FULL, None, FULL]);
    assert_eq!(statistics.queue_full_packets, 3);
    assert_eq!(statistics.queue_full_bytes, 3);
    assert_eq!(statistics.lost_packets, 0);

    // A packet larger than the queue goes when nobody waits; smaller ones find room that larger
    // ones do not find.
    let by_bytes = [(0, 300), (0, 1), (300, 100), (300, 101), (300, 100)];
    let (dropped, _) = causes(bottleneck(10, 200), &by_bytes);
    assert_eq!(dropped, [None, FULL, None, FULL, None]);
}

#[test]
fn a_link_that_is_down_takes_nothing() {
    let mut link = link(LinkConfig::default(), 12);
    let now = Instant::now();
    assert!(link.is_up());
    link.set_up(false);
    assert_eq!(link.offer(now, 10).drop_cause(), Some(DropCause::Down));
    link.set_up(true);
    assert!(arrivals(link.offer(now, 20)) == [now]);
    let statistics = link.statistics();
    assert_eq!((statistics.down_packets, statistics.down_bytes), (1, 10));
    assert_eq!(
        (statistics.offered_packets, statistics.offered_bytes),
        (2, 30)
    );
}

/// A seed that someone wrote down stands for the same losses in every later version.
#[test]
fn the_losses_of_a_seed_never_change() {
    let config = LinkConfig {
        loss: 0.3.into(),
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
            prop_assert_eq!(arrivals(link.offer(now, bytes)), [now]);
        }
    }

    #[test]
    fn seed_and_number_alone_fix_the_fate(
        seed: u64,
        packets in prop::collection::vec((0..1_000_000_u64, 0..65_536_usize), 0..100),
    ) {
        let config = LinkConfig {
            loss: 0.4.into(),
            delay: Duration::from_millis(30),
            jitter: overtaking(Duration::from_millis(30)),
            duplicate: 0.4.into(),
            ..LinkConfig::default()
        };
        let (mut steady, mut varied) = (link(config.clone(), seed), link(config, seed));
        let start = Instant::now();
        let mut now = start;
        for (gap, bytes) in packets {
            now += Duration::from_nanos(gap);
            let expected: Vec<_> = delays_of(&mut steady, start, 1);
            prop_assert_eq!(delays_of(&mut varied, now, bytes), expected);
        }
    }

    /// Whether the queue had room or not, and whether the link was up.
    #[test]
    fn rate_and_cuts_do_not_change_which_packets_are_lost(
        seed: u64,
        packets in prop::collection::vec((any::<bool>(), 0..100_u64, 1..2000_usize), 0..100),
    ) {
        let config = LinkConfig { loss: 0.4.into(), duplicate: 0.4.into(), ..LinkConfig::default() };
        let (mut free, mut bound) = (link(LinkConfig::default(), seed), link(config.clone(), seed));
        free.set_config(config.clone());
        bound.set_config(LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: 3,
                queue_bytes: 3000,
                ..Bottleneck::new(80_000_000)
            }),
            ..config
        });
        let mut now = Instant::now();
        for (is_up, gap, bytes) in packets {
            now += Duration::from_micros(gap);
            bound.set_up(is_up);
            let (expected, verdict) = (free.offer(now, bytes), bound.offer(now, bytes));
            match verdict.drop_cause() {
                Some(DropCause::Down) => prop_assert!(!is_up),
                Some(DropCause::QueueFull) => prop_assert!(is_up),
                cause => {
                    prop_assert_eq!(cause, expected.drop_cause());
                    let copies = |verdict: Verdict| verdict.deliveries().count();
                    prop_assert_eq!(copies(verdict), copies(expected));
                }
            }
        }
    }

    /// Over any time, no more leaves than the rate allows, nothing waits longer than a full queue
    /// takes to empty, and what is dropped would have been too much.
    #[test]
    fn the_queue_keeps_within_its_bounds(
        queue_packets in 1..20_usize,
        queue_bytes in 1500..20_000_usize,
        packets in prop::collection::vec((0..3000_u64, 1..1501_usize), 0..300),
    ) {
        let bottleneck = Bottleneck {
            queue_packets,
            queue_bytes,
            ..Bottleneck::new(8_000_000)
        };
        let config = LinkConfig { bottleneck: Some(bottleneck), ..LinkConfig::default() };
        let mut link = link(config, 0);
        let mut now = Instant::now();
        let mut idle_at = now;
        let mut waiting: Vec<(Instant, usize)> = Vec::new();
        for (gap, bytes) in packets {
            now += Duration::from_micros(gap);
            waiting.retain(|&(leaves, _)| leaves > now);
            let waiting_bytes: usize = waiting.iter().map(|&(_, bytes)| bytes).sum();
            let arrival = arrivals(link.offer(now, bytes)).pop();
            let fits = waiting.len() < queue_packets && waiting_bytes + bytes <= queue_bytes;
            prop_assert_eq!(arrival.is_some(), fits);
            if let Some(arrival) = arrival {
                idle_at = idle_at.max(now) + Duration::from_micros(bytes as u64);
                prop_assert_eq!(arrival, idle_at);
                waiting.push((arrival, bytes));
            }
        }
    }

    #[test]
    fn other_impairments_do_not_change_which_packets_are_lost(seed: u64) {
        let alone = LinkConfig { loss: 0.3.into(), ..LinkConfig::default() };
        let together = LinkConfig {
            jitter: overtaking(Duration::from_millis(5)),
            duplicate: 0.5.into(),
            ..alone.clone()
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

fn arrivals(verdict: Verdict) -> Vec<Instant> {
    verdict.deliveries().map(|delivery| delivery.at).collect()
}

/// Uniform jitter that lets packets overtake each other.
fn overtaking(amount: Duration) -> Jitter {
    Jitter {
        reorders: true,
        ..amount.into()
    }
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
    let arrivals = arrivals(link.offer(now, bytes));
    arrivals.iter().map(|&arrival| arrival - now).collect()
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
