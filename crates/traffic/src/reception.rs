//! The receiver's side of a run: what became of its packets.

use std::time::Duration;

use measures::{DelaySummary, Delays};
use perf::SequenceTracker;
use serde::{Deserialize, Serialize};

use crate::cipher::Cipher;
use crate::clock::Timestamp;
use crate::composer::Packets;
use crate::encryption::Encryption;
use crate::header::{HEADER_OCTETS, Header, Kind};
use crate::work::Work;

/// Seconds of which there is a record of their own; what comes later is summed up in the last one.
const MAX_SECONDS: usize = 3_600;

/// What a receiver reports of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiverReport {
    /// Packets that came, each counted once.
    pub received: u64,
    /// Octets in them, headers included.
    pub bytes: u64,
    /// The highest number that came.
    pub highest: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Further copies, and packets too late to tell.
    pub duplicates: u64,
    /// Packets whose authentication tag did not fit.
    pub forged: u64,
    /// Packets that were cut or drawn out, or of another encryption.
    pub malformed: u64,
    /// Interarrival jitter at the end (RFC 3550 section 6.4.1), milliseconds.
    pub jitter_ms: f64,
    /// Whether both sides have the same clock, which one-way delays need.
    pub same_clock: bool,
    /// From making a packet to having it decrypted; only with the same clock.
    #[serde(with = "measures::MillisecondKeys")]
    pub one_way: DelaySummary,
    /// What decryption took.
    pub opening: Work,
    /// Packets sent back.
    pub echoed: u64,
    /// From the first arrival to the last, seconds.
    pub seconds: f64,
    /// Datagrams for which the receiver's socket had no room: lost by the receiver, not by the network.
    pub overruns: u64,
    /// Second by second from the first arrival.
    pub per_second: Vec<Second>,
}

/// What came in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Second {
    /// Packets, each counted once.
    pub received: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Mean one-way delay, milliseconds.
    pub one_way_ms: Option<f64>,
    /// The longest.
    pub one_way_max_ms: Option<f64>,
}

/// Follows the packets of a run.
#[derive(Debug)]
pub struct Reception {
    packets: Packets,
    cipher: Cipher,
    /// Every how many packets one is sent back; 0 for none.
    echo: u32,
    tracker: SequenceTracker,
    first: Option<Timestamp>,
    last: Timestamp,
    one_way: Option<Delays>,
    per_second: Vec<Sums>,
    report: ReceiverReport,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    received: u64,
    reordered: u64,
    one_way: Duration,
    one_way_max: Duration,
}

impl Reception {
    /// Expects packets. Every `echo`-th one is sent back; none for 0. With the same clock on both sides
    /// one-way delays are measured.
    pub fn new(packets: Packets, echo: u32, same_clock: bool) -> Reception {
        Reception {
            cipher: Cipher::new(packets.encryption, &packets.key),
            packets,
            echo,
            tracker: SequenceTracker::new(),
            first: None,
            last: Timestamp(0),
            one_way: same_clock.then(Delays::new),
            per_second: Vec::new(),
            report: ReceiverReport {
                same_clock,
                ..ReceiverReport::default()
            },
        }
    }

    /// A packet came that names this experiment and run; it is decrypted in place. Appends the answer to
    /// `echo` if it is one that is sent back.
    pub fn handle(
        &mut self,
        arrived: Timestamp,
        clock: impl Fn() -> Timestamp,
        packet: &mut [u8],
        echo: &mut Vec<u8>,
    ) {
        let fits = Header::read(packet).filter(|header| {
            header.kind == Kind::Data
                && header.experiment == self.packets.experiment
                && header.run == self.packets.run
                && header.encryption == self.packets.encryption
                && header.number > 0
                && header.length as usize == packet.len()
                && packet.len() == self.packets.wire_size()
        });
        let Some(header) = fits else {
            self.report.malformed += 1;
            return;
        };
        let octets = packet.len();
        let before = clock();
        let opened = self.cipher.open(packet).map(|text| text.len());
        let after = clock();
        let Ok(text) = opened else {
            self.report.forged += 1;
            return;
        };
        if self.packets.encryption != Encryption::None {
            self.report.opening.add(text, after.since(before));
        }

        let reordered_before = self.tracker.reception().reordered;
        let sent = Duration::from_nanos(header.timestamp.0);
        let now = Duration::from_nanos(arrived.0);
        if !self.tracker.arrived(header.number, sent, now) {
            return;
        }
        self.report.bytes += octets as u64;
        let first = *self.first.get_or_insert(arrived);
        self.last = self.last.max(arrived);
        let is_late = self.tracker.reception().reordered > reordered_before;
        let delay = after.since(header.timestamp);
        if let (Some(times), Some(delay)) = (&mut self.one_way, delay) {
            times.record(delay);
        }
        let second = self.second(arrived.since(first).unwrap_or_default());
        second.received += 1;
        second.reordered += u64::from(is_late);
        if let Some(delay) = delay {
            second.one_way = second.one_way.saturating_add(delay);
            second.one_way_max = second.one_way_max.max(delay);
        }
        if self.echo > 0 && header.number.is_multiple_of(u64::from(self.echo)) {
            self.send_back(header, packet, echo);
        }
    }

    /// How many came, for who waits for the last ones.
    pub fn received(&self) -> u64 {
        self.tracker.reception().received
    }

    /// What became of the packets until now.
    pub fn report(&self) -> ReceiverReport {
        let seen = self.tracker.reception();
        let has_clock = self.one_way.is_some();
        let summed = |sums: &Sums| {
            let mean = sums.one_way.as_secs_f64() * 1e3 / sums.received.max(1) as f64;
            let max = sums.one_way_max.as_secs_f64() * 1e3;
            let has_delay = has_clock && sums.received > 0;
            Second {
                received: sums.received,
                reordered: sums.reordered,
                one_way_ms: has_delay.then_some(mean),
                one_way_max_ms: has_delay.then_some(max),
            }
        };
        let span = self.first.and_then(|first| self.last.since(first));
        ReceiverReport {
            received: seen.received,
            highest: seen.expected,
            reordered: seen.reordered,
            duplicates: seen.duplicates,
            jitter_ms: seen.jitter_ms,
            one_way: self
                .one_way
                .as_ref()
                .map(Delays::milliseconds)
                .unwrap_or_default(),
            seconds: span.unwrap_or_default().as_secs_f64(),
            per_second: self.per_second.iter().map(summed).collect(),
            ..self.report.clone()
        }
    }

    fn second(&mut self, since_first: Duration) -> &mut Sums {
        let index = usize::try_from(since_first.as_secs()).unwrap_or(usize::MAX);
        let index = index.min(MAX_SECONDS - 1);
        if self.per_second.len() <= index {
            self.per_second.resize(index + 1, Sums::default());
        }
        &mut self.per_second[index]
    }

    fn send_back(&mut self, header: Header, packet: &[u8], echo: &mut Vec<u8>) {
        let start = echo.len();
        let header = Header {
            kind: Kind::Echo,
            ..header
        };
        echo.extend(header.to_octets());
        echo.extend_from_slice(packet.get(HEADER_OCTETS..).unwrap_or_default());
        if let Some(packet) = echo.get_mut(start..) {
            self.cipher.seal(packet);
        }
        self.report.echoed += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::cipher::Key;
    use crate::composer::{Composer, Echoes};
    use crate::payload::Payload;

    fn packets(encryption: Encryption) -> Packets {
        Packets {
            experiment: 9,
            run: 2,
            size: 100,
            encryption,
            key: Key([3; 32]),
        }
    }

    /// Packets that were made a millisecond apart.
    fn made(encryption: Encryption, count: u64) -> Vec<Vec<u8>> {
        let mut composer = Composer::new(packets(encryption), Payload::pattern(1));
        (0..count)
            .map(|number| {
                let mut packet = Vec::new();
                composer.write(|| at(number), &mut packet);
                packet
            })
            .collect()
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn the_fate_of_each_packet_is_told() {
        for encryption in Encryption::ALL {
            let mut sent = made(encryption, 10);
            let mut reception = Reception::new(packets(encryption), 3, true);
            let mut echo = Vec::new();
            // Number 4 is lost, 6 comes after 7, 8 comes twice.
            for (time, number) in [1, 2, 3, 5, 7, 6, 8, 8, 9, 10].into_iter().enumerate() {
                let now = at(20 + time as u64);
                let mut packet = sent[number - 1].clone();
                reception.handle(now, || now, &mut packet, &mut echo);
            }
            let report = reception.report();
            assert_eq!((report.received, report.highest), (9, 10), "{encryption}");
            assert_eq!((report.reordered, report.duplicates), (1, 1));
            assert_eq!((report.forged, report.malformed), (0, 0));
            assert_eq!(report.echoed, 3);
            assert_eq!(report.bytes, 9 * packets(encryption).wire_size() as u64);
            assert_eq!(report.one_way.count, 9);
            assert!(
                (report.one_way.max.unwrap() - 20.0).abs() < 0.1,
                "{report:?}"
            );
            assert_eq!(report.per_second.len(), 1);
            assert!((report.seconds - 0.009).abs() < 1e-9);
            assert_eq!(report.opening.packets > 0, encryption != Encryption::None);

            let mut echoes = Echoes::new(packets(encryption));
            let size = packets(encryption).wire_size();
            for packet in echo.chunks_mut(size) {
                echoes.handle(|| at(50), packet);
            }
            let round_trips = echoes.round_trips().milliseconds();
            assert_eq!((round_trips.count, echoes.strange()), (3, 0));
            assert!(
                (round_trips.max.unwrap() - 48.0).abs() < 0.1,
                "{round_trips:?}"
            );
            // What we sent is no echo.
            echoes.handle(|| at(50), &mut sent[0]);
            assert_eq!(echoes.strange(), 1);
        }
    }

    #[test]
    fn work_is_measured_by_the_clock() {
        let clock = Cell::new(0);
        let tick = || {
            clock.set(clock.get() + 100);
            Timestamp(clock.get())
        };
        let mut composer = Composer::new(packets(Encryption::Aes256Gcm), Payload::pattern(1));
        let mut packet = Vec::new();
        composer.write(tick, &mut packet);
        assert_eq!(composer.sealing().nanoseconds_per_packet(), Some(100.0));
        assert_eq!(composer.sealing().bytes, 60);
        let mut reception = Reception::new(packets(Encryption::Aes256Gcm), 0, true);
        reception.handle(tick(), tick, &mut packet, &mut Vec::new());
        assert_eq!(
            reception.report().opening.nanoseconds_per_packet(),
            Some(100.0)
        );
    }

    #[test]
    fn what_does_not_belong_is_told_apart() {
        let mut reception = Reception::new(packets(Encryption::Aes256Gcm), 1, false);
        let mut echo = Vec::new();
        let mut other = made(Encryption::None, 1).remove(0);
        let mut changed = made(Encryption::Aes256Gcm, 1).remove(0);
        *changed.last_mut().unwrap() ^= 1;
        let mut cut = made(Encryption::Aes256Gcm, 1).remove(0);
        cut.pop();
        for packet in [&mut other, &mut changed, &mut cut] {
            reception.handle(at(0), || at(0), packet, &mut echo);
        }
        let report = reception.report();
        assert_eq!(
            (report.received, report.forged, report.malformed),
            (0, 1, 2)
        );
        assert_eq!(report.one_way, DelaySummary::default());
        assert!(echo.is_empty(), "a stranger is not answered");
    }

    #[test]
    fn the_record_of_seconds_is_bounded() {
        let mut reception = Reception::new(packets(Encryption::None), 0, true);
        let sent = made(Encryption::None, 3);
        for (packet, second) in sent.iter().zip([0, 3_000, 1_000_000]) {
            let now = at(second * 1000);
            reception.handle(now, || now, &mut packet.clone(), &mut Vec::new());
        }
        assert_eq!(reception.report().per_second.len(), MAX_SECONDS);
        assert_eq!(reception.report().received, 3);
    }

    proptest! {
        /// Whatever becomes of packets on the way, each is counted once, and what is missing was lost.
        #[test]
        fn every_packet_is_accounted_for(
            fates in prop::collection::vec((0_usize..3, 0_u64..40), 1..120),
            which in 0_usize..4,
        ) {
            let encryption = Encryption::ALL[which];
            let sent = made(encryption, fates.len() as u64);
            let mut arrivals: Vec<(u64, usize)> = fates
                .iter()
                .enumerate()
                .flat_map(|(index, (copies, delay))| {
                    std::iter::repeat_n((index as u64 + delay, index), *copies)
                })
                .collect();
            arrivals.sort();
            let mut reception = Reception::new(packets(encryption), 1, true);
            let mut echo = Vec::new();
            let mut last = 0;
            let mut late = 0;
            let mut seen = std::collections::HashSet::new();
            for (time, index) in &arrivals {
                reception.handle(at(*time), || at(*time), &mut sent[*index].clone(), &mut echo);
                if seen.insert(*index) {
                    late += u64::from(*index < last);
                    last = last.max(*index);
                }
            }
            let report = reception.report();
            let lost = fates.iter().filter(|(copies, _)| *copies == 0).count();
            prop_assert_eq!(report.received as usize, fates.len() - lost);
            prop_assert_eq!(report.duplicates as usize, arrivals.len() - seen.len());
            prop_assert_eq!(report.reordered, late);
            prop_assert_eq!(report.one_way.count, report.received);
            prop_assert_eq!(echo.len(), seen.len() * packets(encryption).wire_size());
        }
    }
}
