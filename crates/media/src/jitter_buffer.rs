//! Holds the packets of a stream until it is their turn, so that all but the latest ones are there in time.
//!
//! The delay follows the network: it covers all but the slowest few packets of the last seconds. The buffer knows
//! timestamps and payloads and nothing of codecs; [`Receiver`](crate::receiver::Receiver) decodes.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::arrival_delays::ArrivalDelays;

/// Bounds of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitterBufferConfig {
    /// It holds packets at least so long, for the computer is late at times, too.
    pub least: Duration,
    /// It holds packets no longer than this; what comes later is lost.
    pub most: Duration,
}

impl Default for JitterBufferConfig {
    fn default() -> JitterBufferConfig {
        JitterBufferConfig {
            least: Duration::from_millis(20),
            most: Duration::from_millis(300),
        }
    }
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitterBufferCounts {
    /// Given out.
    pub played: u64,
    /// Had not come when it was their turn.
    pub missing: u64,
    /// Came after their turn, and were thrown away.
    pub late: u64,
    /// Further copies.
    pub copies: u64,
    /// Thrown away because the buffer was full.
    pub overflows: u64,
}

/// What is to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playout {
    /// This payload; [`JitterBuffer::advance`] is told how long it was.
    Packet(Vec<u8>),
    /// Something that has not come.
    Missing,
    /// The other side sent nothing for this time, or nothing has come yet.
    Silence,
}

/// Whether the delay is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// It is.
    None,
    /// Sound is to be left out.
    Shorten,
    /// Sound is to be repeated.
    Lengthen,
}

/// The packets of one stream.
#[derive(Clone, Debug)]
pub struct JitterBuffer {
    config: JitterBufferConfig,
    clock_rate: u32,
    packets: BTreeMap<u64, Packet>,
    delays: ArrivalDelays,
    /// The timestamp of the packet that came last, counted on over its 32 bits.
    latest: Option<u64>,
    /// The timestamp that is to be played next; `None`: nothing is being played.
    next: Option<u64>,
    /// The sequence number up to which packets were played, or had no sound.
    last_played: Option<u16>,
    /// The numbers of packets without sound whose turn has not come.
    without_sound: VecDeque<u16>,
    /// The last packet in order had no sound.
    is_paused: bool,
    /// When the first packet came since nothing was being played.
    waiting_since: Option<Instant>,
    /// For how long nothing was there, in ticks.
    starved: u64,
    counts: JitterBufferCounts,
}

#[derive(Clone, Debug)]
struct Packet {
    sequence: u16,
    payload: Vec<u8>,
}

/// A timestamp so far from the last one that the source has begun anew, in seconds.
const JUMP: u64 = 10;
/// When nothing has come for so long, the next packet is waited for as the first one was, in seconds.
const PAUSE: u64 = 1;
/// Packets that are held at most, whatever their timestamps.
const MAX_PACKETS: usize = 256;
/// The first timestamp counts from here, so that earlier packets have room below it.
const ORIGIN: u64 = 1 << 32;
/// How much longer than its target the delay may be until it is shortened, and how much shorter.
const TOO_LONG: Duration = Duration::from_millis(15);
const TOO_SHORT: Duration = Duration::from_millis(5);

impl JitterBuffer {
    /// An empty buffer for a stream whose timestamps have this rate.
    pub fn new(config: JitterBufferConfig, clock_rate: u32, now: Instant) -> JitterBuffer {
        JitterBuffer {
            config,
            clock_rate: clock_rate.max(1),
            packets: BTreeMap::new(),
            delays: ArrivalDelays::new(now),
            latest: None,
            next: None,
            last_played: None,
            without_sound: VecDeque::new(),
            is_paused: false,
            waiting_since: None,
            starved: 0,
            counts: JitterBufferCounts::default(),
        }
    }

    /// A packet came.
    pub fn insert(&mut self, now: Instant, sequence: u16, timestamp: u32, payload: Vec<u8>) {
        let Some(place) = self.place(timestamp) else {
            self.begin_anew(now);
            return self.insert(now, sequence, timestamp, payload);
        };
        self.latest = Some(self.latest.map_or(place, |latest| latest.max(place)));
        self.delays.arrived(now, self.time(place));
        if self.next.is_some_and(|next| place < next) {
            self.counts.late += 1;
            return;
        }
        if self.packets.contains_key(&place) {
            self.counts.copies += 1;
            return;
        }
        if self.packets.len() >= MAX_PACKETS {
            self.packets.pop_first();
            self.counts.overflows += 1;
        }
        self.waiting_since.get_or_insert(now);
        self.packets.insert(place, Packet { sequence, payload });
    }

    /// A packet of the stream had no sound, but a key or the level of comfort noise: it has a number, and is not missing.
    pub fn pass_over(&mut self, sequence: u16) {
        if self.without_sound.len() >= MAX_PACKETS {
            self.without_sound.pop_front();
        }
        self.without_sound.push_back(sequence);
    }

    /// What is to be played from `now` on. After a packet, [`advance`](JitterBuffer::advance) is told how long it was; after
    /// all else, how much was played in its place.
    pub fn take(&mut self, now: Instant) -> Playout {
        let Some(next) = self.next.or_else(|| self.begin(now)) else {
            return Playout::Silence;
        };
        self.next = Some(next);
        if let Some(packet) = self.packets.remove(&next) {
            self.counts.played += 1;
            self.starved = 0;
            self.last_played = Some(packet.sequence);
            self.is_paused = false;
            return Playout::Packet(packet.payload);
        }
        self.skip_those_without_sound();
        let follows = |packet: &Packet| {
            self.last_played
                .is_some_and(|last| packet.sequence == last.wrapping_add(1))
        };
        match self.packets.first_key_value() {
            // No number is missing between the two: the other side paused.
            Some((_, packet)) if follows(packet) => Playout::Silence,
            None if self.is_paused => Playout::Silence,
            _ => {
                self.counts.missing += 1;
                Playout::Missing
            }
        }
    }

    /// So many ticks were played. A packet whose turn was in the middle of them is given out next.
    pub fn advance(&mut self, ticks: u32) {
        let Some(next) = self.next else {
            return;
        };
        let next = next + u64::from(ticks);
        self.next = Some(next);
        while let Some(entry) = self.packets.first_entry() {
            if *entry.key() >= next {
                break;
            }
            let begun = *entry.key() + u64::from(ticks) > next;
            let packet = entry.remove();
            if begun {
                self.packets.entry(next).or_insert(packet);
                break;
            }
            self.counts.late += 1;
        }
        if self.packets.is_empty() {
            self.starved += u64::from(ticks);
            if self.starved > PAUSE * u64::from(self.clock_rate) {
                self.next = None;
                self.waiting_since = None;
                self.starved = 0;
            }
        }
    }

    /// The payload that follows the missing one, if it is there: some codecs have redundancy in it.
    pub fn following(&self, ticks: u32) -> Option<&[u8]> {
        let place = self.next?.checked_add(u64::from(ticks))?;
        self.packets
            .get(&place)
            .map(|packet| packet.payload.as_slice())
    }

    /// Whether what is played `now` has the delay that it should have.
    pub fn correction(&self, now: Instant) -> Correction {
        let (delay, target) = (self.delay(now), self.target());
        if self.next.is_none() {
            Correction::None
        } else if delay > target + TOO_LONG {
            Correction::Shorten
        } else if delay + TOO_SHORT < target {
            Correction::Lengthen
        } else {
            Correction::None
        }
    }

    /// How long packets are to be held after the fastest ones have come.
    pub fn target(&self) -> Duration {
        self.delays
            .spread()
            .clamp(self.config.least, self.config.most)
    }

    /// How long after the fastest packets those are played that are played now.
    pub fn delay(&self, now: Instant) -> Duration {
        self.next.map_or(Duration::ZERO, |next| {
            self.delays.behind_fastest(now, self.time(next))
        })
    }

    /// What became of packets.
    pub fn counts(&self) -> JitterBufferCounts {
        self.counts
    }

    fn skip_those_without_sound(&mut self) {
        while let Some(next) = self.last_played.map(|last| last.wrapping_add(1)) {
            let Some(place) = self.without_sound.iter().position(|other| *other == next) else {
                break;
            };
            self.without_sound.remove(place);
            self.last_played = Some(next);
            self.is_paused = true;
        }
    }

    /// The timestamp to begin with, if the first packet has waited long enough.
    fn begin(&mut self, now: Instant) -> Option<u64> {
        let since = now.saturating_duration_since(self.waiting_since?);
        (since >= self.target())
            .then(|| self.packets.first_key_value().map(|(place, _)| *place))
            .flatten()
    }

    /// Where a timestamp is among those before it; `None` when it is too far from them.
    fn place(&self, timestamp: u32) -> Option<u64> {
        let Some(latest) = self.latest else {
            return Some(ORIGIN + u64::from(timestamp));
        };
        let distance = i64::from(timestamp.wrapping_sub(latest as u32) as i32);
        let is_near = distance.unsigned_abs() <= JUMP * u64::from(self.clock_rate);
        is_near
            .then(|| latest.checked_add_signed(distance))
            .flatten()
    }

    /// When the sender had sampled what has this place, by its own clock.
    fn time(&self, place: u64) -> Duration {
        let rate = u64::from(self.clock_rate);
        let (seconds, rest) = (place / rate, place % rate);
        Duration::from_secs(seconds) + Duration::from_nanos(rest * 1_000_000_000 / rate)
    }

    fn begin_anew(&mut self, now: Instant) {
        let counts = self.counts;
        *self = JitterBuffer::new(self.config, self.clock_rate, now);
        self.counts = counts;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TICKS: u32 = 160;

    /// A buffer that is asked every 20 ms, and packets that come with these delays; what is played.
    fn played(delays: &[Option<Duration>]) -> (Vec<Playout>, JitterBuffer) {
        let begin = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 8_000, begin);
        let mut arrivals: Vec<(Instant, u16)> = delays
            .iter()
            .enumerate()
            .filter_map(|(number, delay)| {
                Some((begin + 20 * MS * number as u32 + (*delay)?, number as u16))
            })
            .collect();
        arrivals.sort();
        let mut arrivals = arrivals.into_iter().peekable();
        let mut playouts = Vec::new();
        for turn in 0..delays.len() as u32 + 5 {
            let now = begin + 20 * MS * turn;
            while let Some((_, number)) = arrivals.next_if(|(at, _)| *at <= now) {
                // The timestamp passes its end on the way.
                let timestamp = (u32::MAX - 500).wrapping_add(TICKS * u32::from(number));
                buffer.insert(now, number, timestamp, vec![number as u8]);
            }
            playouts.push(buffer.take(now));
            buffer.advance(TICKS);
        }
        (playouts, buffer)
    }

    fn packet(number: u8) -> Playout {
        Playout::Packet(vec![number])
    }

    #[test]
    fn packets_are_played_in_order_after_the_delay() {
        let (playouts, buffer) = played(&[Some(MS); 20]);
        assert_eq!(playouts[0], Playout::Silence);
        let first = playouts.iter().position(|one| *one == packet(0)).unwrap();
        assert!((1..=2).contains(&first), "after 20 ms: turn {first}");
        for number in 0..20 {
            assert_eq!(playouts[first + usize::from(number)], packet(number));
        }
        assert_eq!(buffer.counts().played, 20);
    }

    #[test]
    fn packets_that_overtake_are_put_back_in_order() {
        let mut delays = vec![Some(MS); 12];
        delays[5] = Some(25 * MS);
        let (playouts, buffer) = played(&delays);
        let numbers: Vec<_> = playouts
            .into_iter()
            .filter(|one| matches!(one, Playout::Packet(_)))
            .collect();
        assert_eq!(numbers, (0..12).map(packet).collect::<Vec<_>>());
        assert_eq!(buffer.counts().late, 0);
    }

    #[test]
    fn a_lost_packet_is_missing_once() {
        let mut delays = vec![Some(MS); 12];
        delays[5] = None;
        let (playouts, buffer) = played(&delays);
        let at = playouts.iter().position(|one| *one == packet(4)).unwrap();
        assert_eq!(playouts[at + 1], Playout::Missing);
        assert_eq!(playouts[at + 2], packet(6));
        assert_eq!(buffer.counts().played, 11);
    }

    #[test]
    fn the_delay_grows_with_the_jitter_and_shrinks_after_it() {
        let begin = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 8_000, begin);
        for number in 0..200_u32 {
            let late = MS * (number * 37 % 80);
            buffer.insert(
                begin + 20 * MS * number + late,
                number as u16,
                TICKS * number,
                vec![0],
            );
        }
        let target = buffer.target();
        assert!((70 * MS..=90 * MS).contains(&target), "{target:?}");
        for number in 200..2_000_u32 {
            buffer.insert(
                begin + 20 * MS * number,
                number as u16,
                TICKS * number,
                vec![0],
            );
        }
        assert_eq!(buffer.target(), 20 * MS);
        assert!(buffer.counts().overflows > 0, "nobody played them");
    }

    #[test]
    fn a_pause_of_the_sender_is_silence_and_not_a_loss() {
        let begin = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 8_000, begin);
        buffer.insert(begin, 1, 0, vec![1]);
        let now = begin + 20 * MS;
        assert_eq!(buffer.take(now), packet(1));
        buffer.advance(TICKS);
        // The next one has the next number, but was sampled two packet times later.
        buffer.insert(now, 2, 3 * TICKS, vec![2]);
        for _ in 0..2 {
            assert_eq!(buffer.take(now), Playout::Silence);
            buffer.advance(TICKS);
        }
        assert_eq!(buffer.take(now), packet(2));
        assert_eq!(buffer.counts().missing, 0);
    }

    #[test]
    fn a_source_that_begins_anew_is_played_from_its_beginning() {
        let begin = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 8_000, begin);
        buffer.insert(begin, 1, 0, vec![1]);
        let later = begin + 20 * MS;
        buffer.insert(later, 7_000, 1 << 30, vec![2]);
        assert_eq!(buffer.take(later), Playout::Silence);
        assert_eq!(buffer.take(later + 20 * MS), packet(2));
    }

    #[test]
    fn what_is_played_too_late_or_too_early_is_corrected() {
        let begin = Instant::now();
        let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 8_000, begin);
        buffer.insert(begin, 0, 0, vec![0]);
        assert_eq!(
            buffer.correction(begin),
            Correction::None,
            "nothing is played yet"
        );
        assert_eq!(buffer.take(begin + 20 * MS), packet(0));
        assert_eq!(buffer.correction(begin + 20 * MS), Correction::None);
        assert_eq!(buffer.correction(begin + 60 * MS), Correction::Shorten);
        assert_eq!(buffer.correction(begin + 10 * MS), Correction::Lengthen);
    }

    proptest! {
        #[test]
        fn any_packets_in_any_order_leave_a_bounded_buffer(
            steps in prop::collection::vec(
                (any::<u16>(), any::<u32>(), 0_u64..500, any::<bool>(), any::<u16>()), 0..400),
        ) {
            let mut now = Instant::now();
            let mut buffer = JitterBuffer::new(JitterBufferConfig::default(), 48_000, now);
            for (sequence, timestamp, wait, take, ticks) in steps {
                now += Duration::from_millis(wait);
                buffer.insert(now, sequence, timestamp % 1_000_000, Vec::new());
                if take {
                    buffer.take(now);
                    buffer.advance(u32::from(ticks));
                }
                prop_assert!(buffer.packets.len() <= MAX_PACKETS);
                prop_assert!(buffer.target() <= Duration::from_millis(300));
            }
        }
    }
}
