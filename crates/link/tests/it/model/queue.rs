//! The rate: constant, saved up, recorded.

use crate::model::support::{arrivals, link, milliseconds};
use link::{Bottleneck, LinkConfig, OPPORTUNITY_BYTES, Rate, Trace};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn config(bottleneck: Bottleneck) -> LinkConfig {
    LinkConfig {
        bottleneck: Some(bottleneck),
        ..LinkConfig::default()
    }
}

#[test]
fn a_rate_is_kept_to_the_nanosecond_for_ever() {
    // None of these divides a second.
    for bits_per_second in [7, 56_000, 999_983, 2_999_999_999, 123_456_789_012] {
        for bytes in [40_usize, 1500] {
            let mut link = link(&config(Bottleneck::new(bits_per_second)), 1);
            let start = Instant::now();
            let mut last = start;
            const PACKETS: usize = 1000;
            for number in 1..=PACKETS {
                last = arrivals(link.offer(start, bytes))[0];
                let exact = (number * bytes) as u128 * 8_000_000_000;
                let exact = exact.div_ceil(bits_per_second.into());
                assert_eq!((last - start).as_nanos(), exact);
            }
            // Also when packets come while others wait.
            let next = arrivals(link.offer(last - Duration::from_nanos(1), bytes))[0];
            let all = (PACKETS + 1) * bytes;
            let exact = (all as u128 * 8_000_000_000).div_ceil(bits_per_second.into());
            assert_eq!((next - start).as_nanos(), exact);
        }
    }
}

#[test]
fn a_link_that_is_always_busy_carries_its_rate() {
    // 100 kByte/s, and a packet of 1000 bytes every 5 ms: twice as much.
    let bottleneck = Bottleneck {
        queue_bytes: 32_000,
        ..Bottleneck::new(800_000)
    };
    let mut link = link(&config(bottleneck), 1);
    let start = Instant::now();
    let end = start + Duration::from_secs(100);
    let arrived = (0..20_000)
        .flat_map(|n| arrivals(link.offer(start + milliseconds(5 * n), 1000)))
        .filter(|&arrival| arrival <= end)
        .count();
    assert_eq!(arrived, 10_000, "to the packet");
    let statistics = link.statistics();
    assert_eq!(statistics.queue_maximum.packets, 32);
    assert_eq!(statistics.queue_maximum.bytes, 32_000);
    let all = statistics.delivered_packets + statistics.queue_full_packets;
    assert_eq!(all, 20_000);
    // A full queue holds packets for 32 packets' time.
    assert_eq!(statistics.delay_maximum, milliseconds(320));
    assert_eq!(statistics.delay_total, statistics.queue_delay_total);
}

#[test]
fn overhead_takes_time_but_no_room() {
    let bottleneck = |overhead_bytes| Bottleneck {
        overhead_bytes,
        queue_bytes: 1000,
        ..Bottleneck::new(8_000_000)
    };
    for (overhead, microseconds) in [(28, 1028), (-14, 986), (-2000, 0), (i32::MIN, 0)] {
        let mut link = link(&config(bottleneck(overhead)), 1);
        let now = Instant::now();
        let arrival = arrivals(link.offer(now, 1000))[0];
        assert_eq!((arrival - now).as_micros(), microseconds);
    }
}

#[test]
fn what_is_saved_up_leaves_at_once() {
    let bottleneck = Bottleneck {
        burst_bytes: 3000,
        ..Bottleneck::new(8_000_000)
    };
    let mut link = link(&config(bottleneck), 1);
    let start = Instant::now() + Duration::from_secs(1);
    let mut after = |microseconds: u64, bytes: usize| {
        let now = start + Duration::from_micros(microseconds);
        (arrivals(link.offer(now, bytes))[0] - now).as_micros()
    };
    // The burst is saved at the beginning.
    assert_eq!(after(0, 4000), 1000);
    // After 2 ms of rest, 2000 bytes are.
    assert_eq!(after(3000, 1500), 0);
    assert_eq!(after(3000, 1500), 1000);
    // After a long rest no more than the burst.
    assert_eq!(after(1_000_000, 3000), 0);
    assert_eq!(after(1_000_000, 100), 100);
    assert_eq!(after(1_001_600, 2000), 500);
}

#[test]
fn what_waits_can_be_asked_for() {
    let mut link = link(&config(Bottleneck::new(8_000_000)), 1);
    let start = Instant::now();
    for _ in 0..5 {
        let _ = link.offer(start, 1000);
    }
    let length = |milliseconds| link.queue(start + Duration::from_micros(milliseconds));
    assert_eq!((length(0).packets, length(0).bytes), (5, 5000));
    assert_eq!((length(2999).packets, length(3000).packets), (3, 2));
    assert_eq!(length(5000).bytes, 0);
}

#[test]
fn another_rate_counts_for_what_comes_then() {
    let mut link = link(&config(Bottleneck::new(8_000_000)), 1);
    let start = Instant::now();
    let after = |arrivals: Vec<Instant>| (arrivals[0] - start).as_micros();
    assert_eq!(after(arrivals(link.offer(start, 1000))), 1000);
    link.set_config(config(Bottleneck::new(80_000_000)));
    assert_eq!(after(arrivals(link.offer(start, 1000))), 1100);
    let trace = Trace::parse("t", "1\n2\n").unwrap();
    link.set_config(config(Bottleneck::with_rate(Rate::Trace(trace))));
    // The opportunity at 1 ms was before the packets ahead had left.
    assert_eq!(after(arrivals(link.offer(start, 1000))), 2000);
    link.set_config(config(Bottleneck::new(8_000_000)));
    assert_eq!(after(arrivals(link.offer(start, 1000))), 3000);
}

#[test]
fn a_trace_with_one_line_is_a_constant_rate() {
    let trace = Trace::parse("12Mbps", "1\n").unwrap();
    assert_eq!(trace.mean_bits_per_second(), 12_000_000.0);
    let mut link = link(&config(Bottleneck::with_rate(Rate::Trace(trace))), 1);
    let start = Instant::now();
    let after: Vec<u128> = (0..5)
        .map(|_| (arrivals(link.offer(start, 750))[0] - start).as_millis())
        .collect();
    assert_eq!(after, [1, 1, 2, 2, 3]);
    // Years later it is where it would be.
    let later = start + Duration::from_secs(1_000_000_000) + Duration::from_micros(300);
    let arrival = arrivals(link.offer(later, 1500))[0];
    assert_eq!((arrival - later).as_micros(), 700);
}

#[test]
fn traces_that_are_none_are_refused() {
    for (text, why) in [
        ("", "no lines"),
        ("0\n", "lasts no time"),
        ("1\n\n2\n", "not a number of milliseconds"),
        ("5\n4\n", "after a later time"),
        ("99999999999999\n", "longer than a year"),
        ("-1\n", "not a number of milliseconds"),
    ] {
        let wrong = Trace::parse("name", text).unwrap_err().to_string();
        assert!(wrong.contains(why) && wrong.contains("name"), "{wrong}");
    }
}

/// `mm-link`, written down again: at each opportunity, in their order, what has come by then leaves.
fn reference(lines: &[u64], packets: &[(u64, u64)]) -> Vec<u64> {
    let period = *lines.last().unwrap();
    let opportunities = (0..).flat_map(|round| lines.iter().map(move |line| round * period + line));
    let mut left: Vec<u64> = packets.iter().map(|&(_, bytes)| bytes).collect();
    let mut leaves = Vec::new();
    for opportunity in opportunities {
        let mut room = OPPORTUNITY_BYTES;
        while let Some(&(came, _)) = packets.get(leaves.len()) {
            if came >= opportunity || room == 0 {
                break;
            }
            let rest = &mut left[leaves.len()];
            let part = room.min(*rest);
            room -= part;
            *rest -= part;
            if *rest == 0 {
                leaves.push(opportunity);
            }
        }
        if leaves.len() == packets.len() {
            return leaves;
        }
    }
    leaves
}

proptest! {
    /// Over any time, no more leaves than the rate allows and what was saved up, and no time is
    /// wasted.
    #[test]
    fn bursts_keep_within_their_bounds(
        burst_bytes in 0..20_000_u64,
        packets in prop::collection::vec((0..5000_u64, 1..1501_usize), 1..200),
    ) {
        let bottleneck = Bottleneck { burst_bytes, ..Bottleneck::new(8_000_000) };
        let mut link = link(&config(bottleneck), 0);
        let start = Instant::now();
        let mut now = start;
        // A byte is a microsecond: tokens of the bucket, at most the burst, negative while packets
        // wait.
        let mut tokens = burst_bytes as i64;
        for (gap, bytes) in packets {
            now += Duration::from_micros(gap);
            tokens = (tokens + gap as i64).min(burst_bytes as i64) - bytes as i64;
            let arrival = arrivals(link.offer(now, bytes))[0];
            prop_assert_eq!((arrival - now).as_micros() as i64, (-tokens).max(0));
        }
    }

    #[test]
    fn traces_are_played_as_by_mahimahi(
        gaps in prop::collection::vec(0..5_u64, 1..20),
        packets in prop::collection::vec((0..20_u64, 1..6000_u64), 1..60),
    ) {
        let mut time = 0;
        let mut lines: Vec<u64> = gaps.iter().map(|gap| { time += gap; time }).collect();
        if time == 0 {
            lines.push(1);
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let trace = Trace::parse("t", &text).unwrap();
        let mut link = link(&config(Bottleneck::with_rate(Rate::Trace(trace))), 0);
        let start = Instant::now();
        let mut now = 0;
        let packets: Vec<(u64, u64)> = packets
            .iter()
            .map(|&(gap, bytes)| { now += gap; (now, bytes) })
            .collect();
        // The link begins with its first packet.
        let first = packets[0].0;
        let packets: Vec<(u64, u64)> =
            packets.iter().map(|&(came, bytes)| (came - first, bytes)).collect();
        let leaves: Vec<u64> = packets
            .iter()
            .map(|&(came, bytes)| {
                let arrival = arrivals(link.offer(start + milliseconds(came), bytes as usize))[0];
                (arrival - start).as_millis() as u64
            })
            .collect();
        prop_assert_eq!(leaves, reference(&lines, &packets));
    }
}
