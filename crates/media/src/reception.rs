//! What becomes of one source's packets: RFC 3550 appendices A.1, A.3 and A.8.

use std::time::{Duration, Instant};

/// How far a sequence number may be ahead of the highest one (RFC 3550 appendix A.1).
const MAX_DROPOUT: u16 = 3_000;
/// How far it may be behind.
const MAX_MISORDER: u16 = 100;
/// A timestamp so many seconds from where the last one leads to is of another beginning, or the clock was set: no network
/// delays a packet so long.
const JUMP: f64 = 10.0;
/// How many packets in sequence make a source valid of which the signalling knows nothing.
const MIN_SEQUENTIAL: u8 = 2;

/// The packets of one source as they come.
#[derive(Clone, Debug)]
pub struct Reception {
    /// Ticks a second of the timestamp.
    clock_rate: u32,
    /// In sequence, until the source is valid.
    probation: u8,
    base: u16,
    highest: u16,
    /// How often sequence numbers have begun again.
    cycles: u32,
    /// The number that would show that the source has begun anew.
    expected_after_jump: Option<u16>,
    received: u64,
    expected_before: u64,
    received_before: u64,
    /// A bit for each of the last 128 numbers, the highest one's first: more than [`MAX_MISORDER`].
    seen: u128,
    duplicates: u64,
    reordered: u64,
    /// What was counted before the source began anew.
    earlier: Counts,
    last_arrival: Option<Instant>,
    last_timestamp: u32,
    /// Ticks of the timestamp.
    jitter: f64,
    jitter_max: f64,
}

/// What a packet is to its source's others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// One that counts.
    New,
    /// One that has come before.
    Copy,
    /// One of a source that is not known to be one yet, or may have begun anew.
    NotValid,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came, each counted once.
    pub received: u64,
    /// Packets from the first number to the highest.
    pub expected: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Came after one with a higher number.
    pub reordered: u64,
}

impl Counts {
    /// Adds those of another source, or time.
    pub fn add(&mut self, other: &Counts) {
        self.received += other.received;
        self.expected += other.expected;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
    }
}

impl Reception {
    /// A source whose timestamps have this rate, and whose first packet has this number; `known` when signalling has told of it, so that its
    /// first packet counts.
    pub fn new(clock_rate: u32, sequence: u16, known: bool) -> Reception {
        let mut reception = Reception {
            clock_rate: clock_rate.max(1),
            probation: if known { 0 } else { MIN_SEQUENTIAL },
            base: sequence,
            highest: sequence,
            cycles: 0,
            expected_after_jump: None,
            received: 0,
            expected_before: 0,
            received_before: 0,
            seen: 0,
            duplicates: 0,
            reordered: 0,
            earlier: Counts::default(),
            last_arrival: None,
            last_timestamp: 0,
            jitter: 0.0,
            jitter_max: 0.0,
        };
        if !known {
            reception.highest = sequence.wrapping_sub(1);
        }
        reception
    }

    /// A packet came: it is [counted](Reception::counted), and [jitter](Reception::measure_jitter) is measured.
    pub fn arrived(&mut self, now: Instant, sequence: u16, timestamp: u32) -> Arrival {
        let arrival = self.counted(sequence);
        if arrival != Arrival::NotValid {
            let before = self.last_arrival.replace(now);
            let elapsed = before.map(|before| now.saturating_duration_since(before));
            self.measure_jitter(elapsed, timestamp);
        }
        arrival
    }

    /// A packet with this number came. This is `update_seq` of RFC 3550 appendix A.1, which takes no notice of copies.
    pub fn counted(&mut self, sequence: u16) -> Arrival {
        if self.probation > 0 {
            if sequence == self.highest.wrapping_add(1) {
                self.probation -= 1;
                self.highest = sequence;
                if self.probation > 0 {
                    return Arrival::NotValid;
                }
                self.begin(sequence);
            } else {
                self.probation = MIN_SEQUENTIAL - 1;
                self.highest = sequence;
                return Arrival::NotValid;
            }
        }
        let ahead = sequence.wrapping_sub(self.highest);
        let mut is_copy = false;
        if ahead < MAX_DROPOUT {
            if sequence < self.highest {
                self.cycles = self.cycles.wrapping_add(1);
            }
            is_copy = ahead == 0 && self.seen & 1 != 0;
            self.seen = self.seen.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.highest = sequence;
        } else if ahead <= u16::MAX - MAX_MISORDER + 1 {
            if self.expected_after_jump != Some(sequence) {
                self.expected_after_jump = Some(sequence.wrapping_add(1));
                return Arrival::NotValid;
            }
            self.earlier = self.counts();
            self.begin(sequence);
            self.seen = 1;
        } else {
            let behind = u32::from(ahead.wrapping_neg());
            let bit = 1_u128.checked_shl(behind).unwrap_or(0);
            is_copy = self.seen & bit != 0;
            self.seen |= bit;
            self.reordered += u64::from(!is_copy);
            // A number below the first one was on its way before it.
            if !is_copy && u64::from(behind) >= self.expected() {
                self.base = sequence;
                // So that the highest number stays above it.
                self.cycles = self.cycles.wrapping_add(u32::from(sequence > self.highest));
            }
        }
        self.received += 1;
        self.duplicates += u64::from(is_copy);
        match is_copy {
            true => Arrival::Copy,
            false => Arrival::New,
        }
    }

    /// The estimate of RFC 3550 appendix A.8, with a packet so long after the one that was measured last; `None` where this is the
    /// first one. Times are not rounded to ticks, of which one is 125 µs. A source that begins anew with other timestamps does not
    /// count: its first packet would outweigh all others.
    pub fn measure_jitter(&mut self, elapsed: Option<Duration>, timestamp: u32) {
        let before = std::mem::replace(&mut self.last_timestamp, timestamp);
        if let Some(elapsed) = elapsed {
            let sent = timestamp.wrapping_sub(before) as i32;
            let difference = elapsed.as_secs_f64() * f64::from(self.clock_rate) - f64::from(sent);
            if difference.abs() > JUMP * f64::from(self.clock_rate) {
                return;
            }
            self.jitter += (difference.abs() - self.jitter) / 16.0;
            self.jitter_max = self.jitter_max.max(self.jitter);
        }
    }

    /// What became of all packets.
    pub fn counts(&self) -> Counts {
        let mut counts = self.earlier;
        if self.probation == 0 {
            counts.add(&Counts {
                received: self.received - self.duplicates,
                expected: self.expected(),
                duplicates: self.duplicates,
                reordered: self.reordered,
            });
        }
        counts
    }

    /// Interarrival jitter now, in ticks of the timestamp (RFC 3550 section 6.4.1).
    pub fn jitter_ticks(&self) -> f64 {
        self.jitter
    }

    /// Interarrival jitter now, and the largest that it has been.
    pub fn jitter(&self) -> (Duration, Duration) {
        let time = |ticks: f64| Duration::from_secs_f64(ticks / f64::from(self.clock_rate));
        (time(self.jitter), time(self.jitter_max))
    }

    /// The highest number with its cycles above it.
    pub fn highest(&self) -> u32 {
        self.cycles << 16 | u32::from(self.highest)
    }

    /// Whether there is something to report.
    pub fn is_valid(&self) -> bool {
        self.probation == 0 && self.received > 0
    }

    /// Lost since the last time that this was asked for, in parts of 256, and since the beginning, by the
    /// definition of RFC 3550 appendix A.3: copies make up for losses.
    pub fn losses(&mut self) -> (u8, i32) {
        let expected = self.expected();
        let expected_since = expected - self.expected_before.min(expected);
        let received_since = self.received - self.received_before;
        self.expected_before = expected;
        self.received_before = self.received;
        let lost_since = expected_since.saturating_sub(received_since);
        let fraction = (lost_since << 8).checked_div(expected_since).unwrap_or(0);
        let cumulative = expected as i64 - self.received as i64;
        (
            u8::try_from(fraction).unwrap_or(u8::MAX),
            cumulative.clamp(-0x80_0000, 0x7f_ffff) as i32,
        )
    }

    /// `init_seq` of appendix A.1.
    fn begin(&mut self, sequence: u16) {
        self.base = sequence;
        self.highest = sequence;
        self.cycles = 0;
        self.expected_after_jump = None;
        self.received = 0;
        self.duplicates = 0;
        self.reordered = 0;
        self.expected_before = 0;
        self.received_before = 0;
        self.seen = 0;
    }

    /// Appendix A.3, of the packets since the source began.
    fn expected(&self) -> u64 {
        if self.received == 0 {
            return 0;
        }
        let highest = i64::from(self.cycles) << 16 | i64::from(self.highest);
        u64::try_from(highest - i64::from(self.base) + 1).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn receive(numbers: impl IntoIterator<Item = u16>, known: bool) -> Reception {
        let mut numbers = numbers.into_iter().peekable();
        let mut reception = Reception::new(8_000, *numbers.peek().unwrap(), known);
        let now = Instant::now();
        for number in numbers {
            reception.arrived(now, number, 0);
        }
        reception
    }

    #[test]
    fn gaps_copies_and_late_ones_are_told_apart() {
        let mut reception = receive([10, 11, 14, 13, 14, 15], true);
        assert_eq!(
            reception.counts(),
            Counts {
                received: 5,
                expected: 6,
                duplicates: 1,
                reordered: 1
            }
        );
        // The report's own definition lets the copy make up for the loss.
        assert_eq!(reception.losses(), (0, 0));
        assert_eq!(reception.highest(), 15);
    }

    #[test]
    fn numbers_begin_again() {
        let mut reception = receive((0..200_000_u32).map(|n| n as u16), true);
        assert_eq!(reception.counts().received, 200_000);
        assert_eq!(reception.counts().expected, 200_000);
        assert_eq!(reception.highest(), 199_999);
        assert_eq!(reception.losses(), (0, 0));
        let across = receive([65_534, 65_535, 1, 0], true);
        assert_eq!(across.counts().expected, 4);
        assert_eq!(across.counts().reordered, 1);
        let back = receive([0, 65_535, 1], true);
        assert_eq!(back.counts().expected, 3);
    }

    #[test]
    fn the_fraction_is_since_the_last_report() {
        let mut reception = receive((0..100).filter(|n| n % 4 != 1), true);
        let (fraction, cumulative) = reception.losses();
        assert_eq!((fraction, cumulative), (64, 25));
        let now = Instant::now();
        for number in 100..200 {
            reception.arrived(now, number, 0);
        }
        assert_eq!(reception.losses(), (0, 25));
    }

    #[test]
    fn an_unknown_source_has_to_prove_itself() {
        let reception = receive([7, 900, 5], false);
        assert!(!reception.is_valid());
        assert_eq!(reception.counts(), Counts::default());
        let reception = receive([7, 8, 9], false);
        assert!(reception.is_valid());
        // The packets before it was valid do not count (appendix A.1).
        assert_eq!(reception.counts().received, 2);
        assert_eq!(reception.counts().expected, 2);
    }

    #[test]
    fn a_jump_counts_when_the_next_one_follows() {
        let mut numbers: Vec<u16> = (0..10).collect();
        numbers.extend([30_000, 10, 40_000, 40_001, 40_002]);
        let reception = receive(numbers, true);
        assert_eq!(reception.counts().received, 13);
        assert_eq!(reception.counts().expected, 13);
    }

    #[test]
    fn a_timestamp_far_away_is_no_jitter() {
        let start = Instant::now();
        let mut reception = Reception::new(8000, 0, true);
        let packets = [
            // Each 20 ms and 160 ticks after the one before it, but two jumps of the timestamp and one of the clock.
            (0, 0),
            (20, 160),
            (40, 0x8000_0000),
            (60, 0x8000_00a0),
            (80, 7),
            (100, 167),
            (4_000_000_000, 327),
            (4_000_000_020, 487),
        ];
        for (sequence, (milliseconds, timestamp)) in (0..).zip(packets) {
            let now = start + Duration::from_millis(milliseconds);
            reception.arrived(now, sequence, timestamp);
        }
        assert_eq!(reception.jitter(), (Duration::ZERO, Duration::ZERO));
        assert_eq!(reception.counts().received, 8);
    }

    #[test]
    fn jitter_is_a_sixteenth_of_the_difference() {
        let start = Instant::now();
        let mut reception = Reception::new(8_000, 0, true);
        let at = |ms| start + Duration::from_millis(ms);
        reception.arrived(at(0), 0, 0);
        reception.arrived(at(20), 1, 160);
        assert_eq!(reception.jitter_ticks(), 0.0);
        reception.arrived(at(56), 2, 320);
        // 16 ms late are 128 ticks.
        assert_eq!(reception.jitter_ticks(), 8.0);
        assert_eq!(reception.jitter().0, Duration::from_millis(1));
        reception.arrived(at(60), 3, 480);
        assert_eq!(reception.jitter_ticks(), 8.0 + (128.0 - 8.0) / 16.0);
    }

    proptest! {
        /// Near each other, each number counts once, and the rest is lost.
        #[test]
        fn each_number_counts_once(numbers in prop::collection::vec(500_u16..590, 1..200)) {
            let counts = receive(numbers.clone(), true).counts();
            let different: HashSet<u16> = numbers.iter().copied().collect();
            prop_assert_eq!(counts.received, different.len() as u64);
            prop_assert_eq!(counts.duplicates, (numbers.len() - different.len()) as u64);
            let span = numbers.iter().max().unwrap() - numbers.iter().min().unwrap() + 1;
            prop_assert_eq!(counts.expected, u64::from(span));
        }

        /// Whatever a stranger sends, nothing breaks, and no more is received than came.
        #[test]
        fn any_numbers_are_taken(numbers in prop::collection::vec(any::<u16>(), 1..300),
                                 timestamps in any::<u32>(), known in any::<bool>()) {
            let mut reception = Reception::new(8_000, numbers[0], known);
            let now = Instant::now();
            for number in &numbers {
                reception.arrived(now, *number, timestamps.wrapping_mul(u32::from(*number)));
            }
            let counts = reception.counts();
            prop_assert!(counts.received + counts.duplicates <= numbers.len() as u64);
            reception.losses();
        }
    }
}
