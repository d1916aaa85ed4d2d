//! Copies and flipped bits.

use crate::model::support::{assert_binomial, assert_chi_square, assert_share, count, link};
use link::{Alteration, Chance, Corruption, Delivery, LinkConfig, MAX_FLIPPED_BITS, Packet};
use std::time::Instant;

const PACKETS: usize = 100_000;

fn deliveries(config: &LinkConfig, seed: u64) -> Vec<Vec<Delivery>> {
    let mut link = link(config, seed);
    let now = Instant::now();
    (0..PACKETS)
        .map(|_| link.offer(now, 100).deliveries().collect())
        .collect()
}

#[test]
fn duplication_follows_its_chance() {
    let config = LinkConfig {
        duplicate: Chance {
            probability: 0.2,
            correlation: 0.5,
        },
        ..LinkConfig::default()
    };
    let twice: Vec<bool> = deliveries(&config, 1)
        .iter()
        .map(|deliveries| deliveries.len() == 2)
        .collect();
    assert_share(count(&twice), PACKETS, 0.2, 3.0);
    let after: Vec<bool> = twice
        .windows(2)
        .filter(|pair| pair[0])
        .map(|pair| pair[1])
        .collect();
    assert_binomial(count(&after), after.len(), 0.6);
}

#[test]
fn copies_are_spoiled_each_by_itself() {
    let config = LinkConfig {
        duplicate: 1.0.into(),
        corrupt: 0.3.into(),
        ..LinkConfig::default()
    };
    let mut counts = [0; 4];
    let mut same = 0;
    for deliveries in deliveries(&config, 2) {
        let [first, second] = deliveries[..] else {
            panic!("not twice");
        };
        let spoiled = |delivery: Delivery| usize::from(delivery.alteration.is_some());
        counts[2 * spoiled(first) + spoiled(second)] += 1;
        same += usize::from(first.alteration.is_some() && first.alteration == second.alteration);
    }
    assert_chi_square(&counts, &[0.49, 0.21, 0.21, 0.09]);
    assert_eq!(same, 0);
}

#[test]
fn spoiling_follows_its_chance_and_is_counted() {
    let config = LinkConfig {
        corrupt: Corruption {
            chance: Chance {
                probability: 0.1,
                correlation: 0.4,
            },
            bits: 3,
        },
        ..LinkConfig::default()
    };
    let mut link = link(&config, 3);
    let now = Instant::now();
    let spoiled: Vec<bool> = (0..PACKETS)
        .map(|_| {
            let mut deliveries = link.offer(now, 100).deliveries();
            let alteration = deliveries.next().and_then(|delivery| delivery.alteration);
            if let Some(alteration) = alteration {
                assert_eq!(alteration.places(100).count(), 3);
            }
            alteration.is_some()
        })
        .collect();
    assert_share(count(&spoiled), PACKETS, 0.1, 1.4 / 0.6);
    assert_eq!(link.statistics().altered_packets, count(&spoiled) as u64);
    assert_eq!(link.statistics().delivered_packets, PACKETS as u64);
}

#[test]
fn each_bit_is_as_likely_to_flip() {
    const BYTES: usize = 5;
    for bits in [1, 2, 7] {
        let mut counts = vec![0; BYTES * 8];
        for seed in 0..20_000 {
            let mut bytes = [0; BYTES];
            Alteration::new(seed, bits).apply(&mut bytes);
            let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(flipped, bits);
            for place in Alteration::new(seed, bits).places(BYTES) {
                assert_eq!(bytes[place / 8] >> (place % 8) & 1, 1);
                counts[place] += 1;
            }
        }
        assert_chi_square(&counts, &[1.0 / (BYTES as f64 * 8.0); BYTES * 8]);
    }
}

#[test]
fn applied_twice_nothing_has_changed() {
    let original: Vec<u8> = (0..=255).collect();
    for seed in 0..1000 {
        let alteration = Alteration::new(seed, seed as u32 % 70);
        let mut bytes = original.clone();
        alteration.apply(&mut bytes);
        assert_ne!(bytes, original);
        alteration.apply(&mut bytes);
        assert_eq!(bytes, original);
    }
}

#[test]
fn short_packets_flip_what_they_have() {
    let most = Alteration::new(1, MAX_FLIPPED_BITS);
    most.apply(&mut []);
    let mut byte = [0b1010_0101];
    most.apply(&mut byte);
    assert_eq!(byte, [!0b1010_0101]);
}

#[test]
fn classes_share_the_queue_and_nothing_else() {
    let shared = LinkConfig {
        bottleneck: Some(link::Bottleneck::new(8_000_000)),
        ..LinkConfig::default()
    };
    let lossy = LinkConfig {
        loss: 1.0.into(),
        ..LinkConfig::default()
    };
    let late = LinkConfig {
        delay: crate::model::support::milliseconds(50),
        ..LinkConfig::default()
    };
    let mut link = link(&shared, 1).with_classes([&lossy, &late]);
    let now = Instant::now();
    let mut after = |class| {
        let packet = Packet {
            class,
            ..Packet::from(1000)
        };
        let mut deliveries = link.offer(now, packet).deliveries();
        deliveries
            .next()
            .map(|delivery| (delivery.at - now).as_millis())
    };
    // A packet takes a millisecond to leave, also one that is lost after that.
    assert_eq!(after(0), Some(1));
    assert_eq!(after(1), None);
    assert_eq!(after(2), Some(53));
    assert_eq!(after(99), Some(4), "as the first class");
    assert_eq!(link.statistics().offered_packets, 2);
    let lost = |class| {
        link.class_statistics(class)
            .map(|counts| counts.lost_packets)
    };
    assert_eq!(
        [lost(0), lost(1), lost(2), lost(3)],
        [Some(0), Some(1), Some(0), None]
    );

    link.set_class(1, LinkConfig::default());
    let packet = Packet {
        class: 1,
        ..Packet::from(1000)
    };
    assert!(!link.offer(now, packet).is_dropped());
}
