//! Which packets the management of a queue drops or marks.

use crate::model::support::{arrivals, assert_binomial, assert_chi_square, link, milliseconds};
use link::{
    Bottleneck, CoDel, Drd, DropCause, Link, LinkConfig, Management, Packet, Red, Unit, Verdict,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// 1000 bytes take a millisecond.
const RATE: u64 = 8_000_000;

fn config(management: Management, ecn: bool) -> LinkConfig {
    LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: 10_000,
            management,
            ecn,
            ..Bottleneck::new(RATE)
        }),
        ..LinkConfig::default()
    }
}

fn is_managed(verdict: Verdict) -> bool {
    assert_ne!(verdict.drop_cause(), Some(DropCause::QueueFull));
    verdict.drop_cause() == Some(DropCause::QueueManagement)
}

fn marked(verdict: Verdict) -> bool {
    verdict.deliveries().any(|delivery| delivery.marked)
}

const CAPABLE: Packet = Packet {
    bytes: 1000,
    ecn_capable: true,
    class: 0,
};

/// A link whose queue always has so many packets when one comes: one leaves and one comes each
/// millisecond, and more until the queue is so long after each drop.
fn at_length(
    management: Management,
    ecn: bool,
    length: u64,
    packets: usize,
    packet: Packet,
) -> (Link, Vec<Verdict>) {
    // Filled with drop-tail, so that it has that length at once.
    let mut link = link(&config(Management::DropTail, ecn), 1);
    let start = Instant::now();
    for _ in 0..length {
        let _ = link.offer(start, packet);
    }
    link.set_config(config(management, ecn));
    let mut now = start;
    let mut verdicts = Vec::new();
    while verdicts.len() < packets {
        if link.queue(now).packets > length {
            now += Duration::from_millis(1);
        }
        verdicts.push(link.offer(now, packet));
        assert!(link.queue(now).packets >= length);
    }
    (link, verdicts)
}

#[test]
fn drd_drops_in_proportion_to_the_queue() {
    const PACKETS: usize = 20_000;
    let drd = Drd {
        minimum: 10,
        maximum: 30,
        unit: Unit::Packets,
    };
    for (length, probability) in [
        (5, 0.0),
        (10, 0.0),
        (15, 0.2375),
        (20, 0.475),
        (29, 0.9025),
        (30, 0.95),
        (500, 0.95),
    ] {
        let at = |ecn, packet| at_length(Management::Drd(drd), ecn, length, PACKETS, packet).1;
        let verdicts = at(true, Packet::from(1000));
        let dropped = verdicts
            .iter()
            .filter(|&&verdict| is_managed(verdict))
            .count();
        assert_binomial(dropped, PACKETS, probability);

        // What can be marked is, below the maximum.
        let verdicts = at(true, CAPABLE);
        let dropped = verdicts
            .iter()
            .filter(|&&verdict| is_managed(verdict))
            .count();
        let marked = verdicts.iter().filter(|&&verdict| marked(verdict)).count();
        let (drops, marks) = if length < 30 {
            (0.0, probability)
        } else {
            (probability, 0.0)
        };
        assert_binomial(dropped, PACKETS, drops);
        assert_binomial(marked, PACKETS, marks);
    }
}

#[test]
fn drd_counts_bytes_when_asked_to() {
    let drd = Drd {
        minimum: 10_000,
        maximum: 30_000,
        unit: Unit::Bytes,
    };
    let (_, verdicts) = at_length(Management::Drd(drd), false, 20, 10_000, 1000.into());
    let dropped = verdicts
        .iter()
        .filter(|&&verdict| is_managed(verdict))
        .count();
    assert_binomial(dropped, verdicts.len(), 0.475);
}

/// With a steady queue the average stands, and drops come after 1 to 1/pb packets, each number as
/// likely (Floyd and Jacobson, section 7, method 2).
#[test]
fn red_spreads_drops_evenly() {
    let red = Red {
        probability: 0.1,
        // Follows at once, so that the average is the queue.
        weight: 1.0,
        ..Red::new(10, 30, Unit::Packets)
    };
    // In the middle: pb is 0.05.
    let (_, verdicts) = at_length(Management::Red(red), false, 20, 100_000, 1000.into());
    let drops = verdicts.iter().enumerate();
    let drops: Vec<usize> = drops
        .filter_map(|(number, &verdict)| is_managed(verdict).then_some(number))
        .collect();
    let mut gaps = [0; 20];
    for pair in drops.windows(2) {
        gaps[pair[1] - pair[0] - 1] += 1;
    }
    assert_chi_square(&gaps, &[0.05; 20]);
}

#[test]
fn red_leaves_short_queues_and_drops_long_ones() {
    let red = Red {
        weight: 1.0,
        ..Red::new(10, 30, Unit::Packets)
    };
    let dropped = |red: Red, length, packet| {
        let (_, verdicts) = at_length(Management::Red(red), true, length, 5000, packet);
        let marked = verdicts.iter().filter(|&&verdict| marked(verdict)).count();
        let dropped = verdicts
            .iter()
            .filter(|&&verdict| is_managed(verdict))
            .count();
        (dropped, marked)
    };
    assert_eq!(dropped(red, 9, 1000.into()), (0, 0));
    assert_eq!(dropped(red, 30, 1000.into()), (5000, 0));
    // Above the maximum nothing is marked (RFC 3168, section 7), between the two all is.
    assert_eq!(dropped(red, 30, CAPABLE), (5000, 0));
    let (drops, marks) = dropped(red, 20, CAPABLE);
    assert_eq!(drops, 0);
    // One in 1/pb/2 = 50 on average, spread evenly over 1 to 100.
    assert!((80..=120).contains(&marks), "{marks}");

    let gentle = Red {
        gentle: true,
        ..red
    };
    let (drops, _) = dropped(gentle, 45, CAPABLE);
    // Halfway to twice the maximum pb is 0.51: every second packet, or the one before.
    assert!((2500..5000).contains(&drops), "{drops}");
    assert_eq!(dropped(gentle, 60, CAPABLE), (5000, 0));
}

#[test]
fn red_drops_bytes_not_packets_when_asked_to() {
    let red = Red {
        probability: 0.1,
        weight: 1.0,
        mean_bytes: 1000,
        ..Red::new(10_000, 30_000, Unit::Bytes)
    };
    let mut link = link(&config(Management::DropTail, false), 1);
    let start = Instant::now();
    for _ in 0..20 {
        let _ = link.offer(start, 1000);
    }
    link.set_config(config(Management::Red(red), false));
    let mut now = start;
    let mut since = 0;
    // Of small packets and of large ones: drops, how many are expected, and their variance.
    let mut drops = [(0.0, 0.0, 0.0); 2];
    for number in 0..200_000_usize {
        while link.queue(now).bytes >= 20_500 {
            now += Duration::from_micros(100);
        }
        let bytes = [300, 1500][number % 2];
        let above = (link.queue(now).bytes as f64 - 10_000.0) / 20_000.0;
        let likely = 0.1 * above * bytes as f64 / 1000.0;
        let room = 1.0 - f64::from(since) * likely;
        let likely = if room > likely { likely / room } else { 1.0 };
        let dropped = is_managed(link.offer(now, bytes));
        since = if dropped { 0 } else { since + 1 };
        let (drops, expected, variance) = &mut drops[number % 2];
        *drops += f64::from(u8::from(dropped));
        *expected += likely;
        *variance += likely * (1.0 - likely);
    }
    for (drops, expected, variance) in drops {
        let deviation: f64 = drops - expected;
        assert!(
            deviation.abs() < 5.0 * f64::sqrt(variance),
            "{drops} of {expected}"
        );
    }
    assert!(drops[1].0 > 5.0 * drops[0].0);
}

/// The average of the paper, computed again over a queue that fills, empties, and rests.
#[test]
fn reds_average_is_that_of_the_paper() {
    let weight = 0.05;
    let red = Red {
        // Dropped with certainty as soon as the average passes this.
        weight,
        ..Red::new(4, 5, Unit::Packets)
    };
    let red = Red {
        probability: 1.0,
        ..red
    };
    let mut link = link(&config(Management::Red(red), false), 1);
    let start = Instant::now();
    let mut queue: VecDeque<Duration> = VecDeque::new();
    let (mut average, mut free) = (0.0_f64, Duration::ZERO);
    let mut now = Duration::ZERO;
    let mut drops = 0;
    for number in 0..20_000_u64 {
        // Bursts of 40 packets, then rests of different lengths.
        now += match number % 40 {
            0 => Duration::from_micros(30_000 + 700 * (number % 97)),
            _ => Duration::from_micros(300),
        };
        while queue.front().is_some_and(|&leaves| leaves <= now) {
            queue.pop_front();
        }
        if queue.is_empty() {
            let idle = (now - free).as_secs_f64() / 0.001;
            average *= (1.0 - weight).powf(idle);
        } else {
            average += weight * (queue.len() as f64 - average);
        }
        let dropped = is_managed(link.offer(start + now, 1000));
        drops += u64::from(dropped);
        if average < 4.0 {
            assert!(!dropped, "{number}: {average}");
        } else if average >= 5.0 {
            assert!(dropped, "{number}: {average}");
        }
        if !dropped {
            free = free.max(now) + milliseconds(1);
            queue.push_back(free);
        }
    }
    assert!((1000..19_000).contains(&drops), "{drops}");
}

/// RFC 8289, section 5, as it stands there: over a queue that holds packets, with a link that takes the
/// next one when it is free.
struct Reference {
    target: u64,
    interval: u64,
    mtu: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// When a packet came, and its number.
    queue: VecDeque<(u64, usize)>,
    /// Of the packet, the backlog that it is judged by.
    backlogs: Vec<u64>,
    backlog_is_that_found: bool,
    dropped: Vec<usize>,
}

impl Reference {
    fn do_dequeue(&mut self, now: u64) -> (Option<usize>, bool) {
        let Some((came, number)) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        let backlog = if self.backlog_is_that_found {
            self.backlogs[number]
        } else {
            self.queue.len() as u64 * 1000
        };
        let mut ok_to_drop = false;
        if now - came < self.target || backlog <= self.mtu {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(number), ok_to_drop)
    }

    fn control_law(&self, time: u64, count: u32) -> u64 {
        time + (self.interval as f64 / f64::from(count).sqrt()) as u64
    }

    fn dequeue(&mut self, now: u64) -> Option<usize> {
        let (mut packet, mut ok_to_drop) = self.do_dequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.dropped.extend(packet);
                self.count += 1;
                (packet, ok_to_drop) = self.do_dequeue(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            self.dropped.extend(packet);
            (packet, _) = self.do_dequeue(now);
            self.dropping = true;
            let delta = self.count - self.last_count;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16 * self.interval {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.last_count = self.count;
        }
        packet
    }

    /// Which of packets that come at these times, in nanoseconds, are dropped, when each takes so long
    /// to leave.
    fn run(&mut self, comes: &[u64], takes: u64) {
        let mut free = 0;
        // When the packet that is leaving has left.
        let mut next = 0;
        loop {
            let link_is_free_at = free;
            // All that come before the link is free, then the link.
            while next < comes.len() && (comes[next] < link_is_free_at || self.queue.is_empty()) {
                let came = comes[next];
                if came >= link_is_free_at && self.queue.is_empty() {
                    // The link found nothing in between.
                    if came > link_is_free_at {
                        let nothing = self.dequeue(link_is_free_at);
                        assert_eq!(nothing, None);
                    }
                    free = came;
                }
                self.backlogs.push(self.queue.len() as u64 * 1000);
                self.queue.push_back((came, next));
                next += 1;
                if free == came {
                    break;
                }
            }
            if self.queue.is_empty() {
                return;
            }
            if self.dequeue(free).is_some() {
                free += takes;
            }
        }
    }
}

fn reference(backlog_is_that_found: bool) -> Reference {
    Reference {
        target: 5_000_000,
        interval: 100_000_000,
        mtu: 1500,
        first_above_time: 0,
        drop_next: 0,
        count: 0,
        last_count: 0,
        dropping: false,
        queue: VecDeque::new(),
        backlogs: Vec::new(),
        backlog_is_that_found,
        dropped: Vec::new(),
    }
}

/// Times at which packets come, in nanoseconds: load that swings between 50 % and 150 %, in one round
/// a second, unevenly.
fn swinging(seed: u64, packets: usize) -> Vec<u64> {
    let mut state = seed;
    let mut now = 1_000_000_000_u64;
    (0..packets)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let phase = now as f64 / 1e9 * std::f64::consts::TAU;
            let mean = 1_000_000.0 / (1.0 + 0.5 * phase.sin());
            let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
            now += (2.0 * mean * share) as u64 + 1;
            now
        })
        .collect()
}

fn codel_drops(comes: &[u64], codel: CoDel) -> Vec<usize> {
    let mut link = link(&config(Management::CoDel(codel), false), 1);
    let start = Instant::now();
    // So that the link's times are those of the reference.
    let mut drops = Vec::new();
    for (number, &came) in comes.iter().enumerate() {
        let now = start + Duration::from_nanos(came);
        if is_managed(link.offer(now, 1000)) {
            drops.push(number);
        }
    }
    drops
}

#[test]
fn codel_drops_what_the_rfcs_code_drops() {
    for seed in 0..20 {
        let comes = swinging(seed, 20_000);
        let mut reference = reference(true);
        reference.run(&comes, 1_000_000);
        let drops = codel_drops(&comes, CoDel::default());
        assert!(drops.len() > 50, "{}", drops.len());
        assert_eq!(drops, reference.dropped, "seed {seed}");
    }
}

/// What the model cannot know matters little.
#[test]
fn codel_drops_about_as_much_with_the_queue_behind() {
    let (mut ours, mut theirs) = (0, 0);
    for seed in 0..20 {
        let comes = swinging(seed, 20_000);
        let mut reference = reference(false);
        reference.run(&comes, 1_000_000);
        theirs += reference.dropped.len();
        ours += codel_drops(&comes, CoDel::default()).len();
    }
    let ratio = ours as f64 / theirs as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{ours} and {theirs}");
}

#[test]
fn codel_drops_after_intervals_over_the_square_root_of_their_number() {
    // Twice as much as leaves, for ever: the law runs free.
    let comes: Vec<u64> = (0..8000).map(|number| number * 500_000).collect();
    let mut link = link(&config(Management::CoDel(CoDel::default()), false), 1);
    let start = Instant::now();
    let mut left = Duration::ZERO;
    let mut drops = Vec::new();
    for came in comes {
        let verdict = link.offer(start + Duration::from_nanos(came), 1000);
        match arrivals(verdict).first() {
            Some(&arrival) => left = arrival - start,
            // It left the queue when the one before had left the link.
            None => drops.push(left.as_secs_f64()),
        }
    }
    // The queue stands above the target from 5 ms on, so dropping begins an interval later.
    assert!((drops[0] - 0.11).abs() < 0.005, "{}", drops[0]);
    let mut expected = drops[0];
    for (count, &drop) in (1..).zip(&drops[1..40]) {
        expected += 0.1 / f64::from(count).sqrt();
        // Packets leave a millisecond apart.
        assert!(
            (drop - expected).abs() < 0.0021,
            "{count}: {drop} for {expected}"
        );
    }
}

#[test]
fn codel_marks_what_can_be_marked_as_often() {
    let mut link = link(&config(Management::CoDel(CoDel::default()), true), 1);
    let start = Instant::now();
    let mut marks = Vec::new();
    for number in 0..8000_u64 {
        let now = start + Duration::from_micros(500 * number);
        let verdict = link.offer(now, CAPABLE);
        assert!(!is_managed(verdict));
        if marked(verdict) {
            marks.push((arrivals(verdict)[0] - start).as_secs_f64());
        }
    }
    assert_eq!(link.statistics().marked_packets, marks.len() as u64);
    let mut expected = marks[0];
    for (count, &mark) in (1..).zip(&marks[1..40]) {
        expected += 0.1 / f64::from(count).sqrt();
        assert!(
            (mark - expected).abs() < 0.0021,
            "{count}: {mark} for {expected}"
        );
    }
}

#[test]
fn codel_leaves_a_queue_of_one_packet_alone() {
    // 1000 bytes take 10 ms, twice the target, and come just as fast.
    let mut config = config(Management::CoDel(CoDel::default()), false);
    if let Some(bottleneck) = &mut config.bottleneck {
        bottleneck.rate = link::Rate::Constant(800_000);
    }
    let mut link = link(&config, 1);
    let start = Instant::now();
    for number in 0..1000 {
        // Always one that leaves and one that waits.
        let now = start + Duration::from_millis(10 * number);
        assert!(!link.offer(now, 1000).is_dropped());
        if number == 0 {
            assert!(!link.offer(now, 1000).is_dropped());
        }
    }
}
