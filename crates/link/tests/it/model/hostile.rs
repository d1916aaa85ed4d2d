//! Whatever is configured and offered: no panic, and what holds for every link.

use crate::model::support::link;
use link::{
    Bottleneck, Chance, CoDel, Corruption, Distribution, Drd, FourStates, GilbertElliott, Jitter,
    LinkConfig, Loss, Management, Packet, Periodic, Rate, Red, Reordering, Trace, Unit,
};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..=1.0_f64,
        any::<f64>(),
        prop::sample::select(vec![
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -1.0,
            0.0,
            1.0,
            2.0,
            f64::MAX,
            f64::MIN_POSITIVE
        ]),
    ]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..1_000_000_u64).prop_map(Duration::from_micros),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_secs),
        Just(Duration::MAX),
        Just(Duration::ZERO),
    ]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![0..2000_u64, any::<u64>(), Just(0), Just(u64::MAX)]
}

fn chance() -> impl Strategy<Value = Chance> {
    (number(), number()).prop_map(|(probability, correlation)| Chance {
        probability,
        correlation,
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    let five = || [number(), number(), number(), number(), number()];
    prop_oneof![
        Just(Loss::None),
        chance().prop_map(Loss::Random),
        five().prop_map(|[to_bad, to_good, loss_in_bad, loss_in_good, _]| {
            Loss::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                loss_in_bad,
                loss_in_good,
            })
        }),
        five().prop_map(|[p13, p31, p32, p23, p14]| Loss::Markov(FourStates {
            p13,
            p31,
            p32,
            p23,
            p14
        })),
        (size(), size()).prop_map(|(every, first)| Loss::Periodic(Periodic { every, first })),
    ]
}

fn management() -> impl Strategy<Value = Management> {
    let unit = || prop_oneof![Just(Unit::Packets), Just(Unit::Bytes)];
    let red = (
        size(),
        size(),
        unit(),
        number(),
        number(),
        any::<u32>(),
        any::<bool>(),
    );
    prop_oneof![
        Just(Management::DropTail),
        red.prop_map(
            |(minimum, maximum, unit, probability, weight, mean_bytes, gentle)| {
                Management::Red(Red {
                    minimum,
                    maximum,
                    unit,
                    probability,
                    weight,
                    mean_bytes,
                    gentle,
                })
            }
        ),
        (size(), size(), unit()).prop_map(|(minimum, maximum, unit)| Management::Drd(Drd {
            minimum,
            maximum,
            unit
        })),
        (duration(), duration(), any::<u32>()).prop_map(|(target, interval, mtu)| {
            Management::CoDel(CoDel {
                target,
                interval,
                mtu,
            })
        }),
    ]
}

fn bottleneck() -> impl Strategy<Value = Bottleneck> {
    let trace = Trace::parse("t", "0\n3\n3\n7\n").unwrap();
    let rate = prop_oneof![
        size().prop_map(Rate::Constant),
        Just(Rate::Constant(8_000_000)),
        Just(Rate::Trace(trace))
    ];
    let bounds = (size(), size());
    (
        rate,
        size(),
        any::<i32>(),
        bounds,
        management(),
        any::<bool>(),
    )
        .prop_map(
            |(rate, burst_bytes, overhead_bytes, (packets, bytes), management, ecn)| Bottleneck {
                rate,
                burst_bytes,
                overhead_bytes,
                queue_packets: packets as usize,
                queue_bytes: bytes as usize,
                management,
                ecn,
            },
        )
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let distribution = prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
        Just(Distribution::ParetoNormal)
    ];
    let jitter = (duration(), distribution, number(), any::<bool>());
    let corrupt = (chance(), any::<u32>());
    let reorder = (chance(), any::<u64>());
    (
        prop::option::of(bottleneck()),
        loss(),
        corrupt,
        chance(),
        duration(),
        jitter,
        reorder,
    )
        .prop_map(
            |(bottleneck, loss, corrupt, duplicate, delay, jitter, reorder)| {
                let (amount, distribution, correlation, reorders) = jitter;
                LinkConfig {
                    bottleneck,
                    loss,
                    corrupt: Corruption {
                        chance: corrupt.0,
                        bits: corrupt.1,
                    },
                    duplicate,
                    delay,
                    jitter: Jitter {
                        amount,
                        distribution,
                        correlation,
                        reorders,
                    },
                    reorder: Reordering {
                        chance: reorder.0,
                        gap: reorder.1,
                    },
                }
            },
        )
}

proptest! {
    #[test]
    fn no_link_breaks(
        seed: u64,
        configs in prop::collection::vec(config(), 1..4),
        packets in prop::collection::vec((size(), size(), any::<bool>(), 0..3_usize), 0..200),
    ) {
        let mut link = link(&configs[0], seed).with_classes(&configs[1..]);
        let mut now = Instant::now();
        for (number, (gap, bytes, ecn_capable, class)) in packets.into_iter().enumerate() {
            // Not beyond what the clock of the test can show.
            now += Duration::from_nanos(gap % (1 << 55));
            let before = *link.statistics();
            let packet = Packet { bytes: bytes as usize, ecn_capable, class };
            let verdict = link.offer(now, packet);
            prop_assert!(verdict.deliveries().all(|delivery| delivery.at >= now));
            prop_assert!(verdict.deliveries().all(|delivery| ecn_capable || !delivery.marked));
            prop_assert_eq!(verdict.is_dropped(), verdict.deliveries().count() == 0);
            let after = link.statistics();
            prop_assert!(after.offered_packets <= before.offered_packets + 1);
            let arrive_or_do_not = after.delivered_packets + after.dropped_packets();
            prop_assert_eq!(arrive_or_do_not, after.offered_packets + after.duplicated_packets);
            if number % 10 == 9 {
                link.set_config(configs[number / 10 % configs.len()].clone());
            }
            prop_assert!(serde_json::to_string(link.statistics()).is_ok());
        }
    }

    /// The same offers have the same fates.
    #[test]
    fn fates_depend_on_seed_and_offers_alone(
        seed: u64,
        config in config(),
        packets in prop::collection::vec((0..1_000_000_000_u64, 0..2000_usize), 0..100),
    ) {
        let start = Instant::now();
        let run = |start: Instant| {
            let mut link = link(&config, seed);
            let mut now = start;
            packets
                .iter()
                .map(|&(gap, bytes)| {
                    now += Duration::from_nanos(gap);
                    let verdict = link.offer(now, bytes);
                    let deliveries = verdict.deliveries();
                    deliveries
                        .map(|delivery| (delivery.at - start, delivery.alteration))
                        .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(run(start), run(start + Duration::from_nanos(123_456_789)));
    }
}
