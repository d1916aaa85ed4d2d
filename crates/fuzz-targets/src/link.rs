//! Builds links from arbitrary bytes, as words and as numbers of any kind, and offers them packets of any
//! size at any time: nothing panics, words that are read mean what they are shown as, nothing arrives
//! before it was sent, and every packet is accounted for.

use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use link::{
    Bottleneck, Chance, CoDel, Corruption, Distribution, Drd, FourStates, GilbertElliott, Jitter,
    Link, LinkConfig, LinkWords, Loss, Management, Packet, Periodic, Rate, Red, Reordering,
    Schedule, Table, Trace, Unit,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    // What is missing at the end of an input is not there.
    let _ = play(&mut input);
}

fn play(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let config = if input.arbitrary()? {
        match words(input)? {
            Some(config) => config,
            None => return Ok(()),
        }
    } else {
        numbers(input)?
    };
    let other = numbers(input)?;
    let start = Instant::now();
    let schedule = Schedule::new()
        .down(duration(input)?, duration(input)?)
        .config(duration(input)?, None, other.clone());
    let mut link = Link::new(config, ChaCha12Rng::seed_from_u64(input.arbitrary()?))
        .with_classes([&other])
        .with_schedule(&schedule, start);
    let mut now = start;
    while !input.is_empty() {
        // Not beyond what the clock can show.
        now += Duration::from_nanos(input.arbitrary::<u64>()? >> input.int_in_range(10..=63)?);
        let packet = Packet {
            bytes: input.arbitrary::<usize>()? >> input.int_in_range(0..=63)?,
            ecn_capable: input.arbitrary()?,
            class: input.int_in_range(0..=2)?,
        };
        let verdict = link.offer(now, packet);
        let mut bytes = [0; 64];
        for delivery in verdict.deliveries() {
            assert!(delivery.at >= now);
            assert!(packet.ecn_capable || !delivery.marked);
            if let Some(alteration) = delivery.alteration {
                alteration.apply(&mut bytes[..packet.bytes.min(64)]);
            }
        }
        let statistics = link.statistics();
        assert_eq!(
            statistics.delivered_packets + statistics.dropped_packets(),
            statistics.offered_packets + statistics.duplicated_packets
        );
        if input.ratio(1_u8, 16_u8)? {
            link.set_config(numbers(input)?);
        }
    }
    Ok(())
}

/// A link in words of arbitrary text.
fn words(input: &mut Unstructured<'_>) -> arbitrary::Result<Option<LinkConfig>> {
    let words = LinkWords {
        delay: input.arbitrary()?,
        jitter: input.arbitrary()?,
        loss: input.arbitrary()?,
        duplicate: input.arbitrary()?,
        corrupt: input.arbitrary()?,
        reorder: input.arbitrary()?,
        bandwidth: input.arbitrary()?,
        queue: input.arbitrary()?,
    };
    // Each file is a table and a trace.
    let mut files = |_: &str| Ok("1 2 3".to_owned());
    let Ok(config) = words.over(&LinkConfig::default(), &mut files) else {
        return Ok(None);
    };
    let again = LinkWords::from(&config).over(&LinkConfig::default(), &mut files);
    assert_eq!(again.as_ref(), Ok(&config));
    Ok(Some(config))
}

fn numbers(input: &mut Unstructured<'_>) -> arbitrary::Result<LinkConfig> {
    Ok(LinkConfig {
        bottleneck: match input.arbitrary()? {
            true => Some(bottleneck(input)?),
            false => None,
        },
        loss: loss(input)?,
        corrupt: Corruption {
            chance: chance(input)?,
            bits: input.arbitrary()?,
        },
        duplicate: chance(input)?,
        delay: duration(input)?,
        jitter: Jitter {
            amount: duration(input)?,
            distribution: match input.int_in_range(0..=4)? {
                0 => Distribution::Uniform,
                1 => Distribution::Normal,
                2 => Distribution::Pareto,
                3 => Distribution::ParetoNormal,
                _ => match Table::parse("t", input.arbitrary()?) {
                    Ok(table) => Distribution::Table(table),
                    Err(_) => Distribution::Uniform,
                },
            },
            correlation: input.arbitrary()?,
            reorders: input.arbitrary()?,
        },
        reorder: Reordering {
            chance: chance(input)?,
            gap: input.arbitrary()?,
        },
    })
}

fn loss(input: &mut Unstructured<'_>) -> arbitrary::Result<Loss> {
    Ok(match input.int_in_range(0..=4)? {
        0 => Loss::None,
        1 => Loss::Random(chance(input)?),
        2 => Loss::GilbertElliott(GilbertElliott {
            to_bad: input.arbitrary()?,
            to_good: input.arbitrary()?,
            loss_in_bad: input.arbitrary()?,
            loss_in_good: input.arbitrary()?,
        }),
        3 => Loss::Markov(FourStates {
            p13: input.arbitrary()?,
            p31: input.arbitrary()?,
            p32: input.arbitrary()?,
            p23: input.arbitrary()?,
            p14: input.arbitrary()?,
        }),
        _ => Loss::Periodic(Periodic {
            every: input.arbitrary()?,
            first: input.arbitrary()?,
        }),
    })
}

fn bottleneck(input: &mut Unstructured<'_>) -> arbitrary::Result<Bottleneck> {
    Ok(Bottleneck {
        rate: match Trace::parse("t", input.arbitrary()?) {
            Ok(trace) => Rate::Trace(trace),
            Err(_) => Rate::Constant(input.arbitrary()?),
        },
        burst_bytes: input.arbitrary()?,
        overhead_bytes: input.arbitrary()?,
        queue_packets: input.arbitrary()?,
        queue_bytes: input.arbitrary()?,
        management: match input.int_in_range(0..=3)? {
            0 => Management::DropTail,
            1 => Management::Red(Red {
                minimum: input.arbitrary()?,
                maximum: input.arbitrary()?,
                unit: unit(input)?,
                probability: input.arbitrary()?,
                weight: input.arbitrary()?,
                mean_bytes: input.arbitrary()?,
                gentle: input.arbitrary()?,
            }),
            2 => Management::Drd(Drd {
                minimum: input.arbitrary()?,
                maximum: input.arbitrary()?,
                unit: unit(input)?,
            }),
            _ => Management::CoDel(CoDel {
                target: duration(input)?,
                interval: duration(input)?,
                mtu: input.arbitrary()?,
            }),
        },
        ecn: input.arbitrary()?,
    })
}

fn unit(input: &mut Unstructured<'_>) -> arbitrary::Result<Unit> {
    Ok(match input.arbitrary()? {
        true => Unit::Packets,
        false => Unit::Bytes,
    })
}

fn chance(input: &mut Unstructured<'_>) -> arbitrary::Result<Chance> {
    Ok(Chance {
        probability: input.arbitrary()?,
        correlation: input.arbitrary()?,
    })
}

fn duration(input: &mut Unstructured<'_>) -> arbitrary::Result<Duration> {
    input.arbitrary()
}
