//! How the clocks differ that several files of one experiment were captured by.
//!
//! A message that two files have was captured twice on its way: the difference of both times is that of the
//! clocks and the time it was under way. Messages of the other direction have the latter with the opposite
//! sign, so the quickest of both directions tell them apart.

use ahash::RandomState;
use hashbrown::HashMap;

use crate::{Endpoint, Event, EventKind, SummaryStart, Time};

/// Compares the clocks of files by what they have in common. Its memory does not grow with the files.
#[derive(Debug)]
pub struct Clocks {
    hasher: RandomState,
    files: Vec<Sample>,
}

/// How the clock of a file differs from that of the reference.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClockOffset {
    /// Nanoseconds by which this clock is ahead; 0 where nothing tells.
    pub nanoseconds: i64,
    /// By how many nanoseconds that may be wrong; `None` where nothing tells.
    pub uncertainty: Option<i64>,
    /// Messages that both files have, as far as they were compared.
    pub messages: usize,
    /// The file that it was compared with: the reference, or one whose offset is known.
    pub compared_with: Option<usize>,
}

/// Messages of one file, chosen by their hash, so that every file chooses the same ones.
#[derive(Debug)]
struct Sample {
    messages: HashMap<u64, Message, RandomState>,
    /// Only messages whose hash ends with so many zero bits are kept.
    zero_bits: u32,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    time: Time,
    /// Which of two opposite ways it went.
    is_upward: bool,
    /// The file has it more than once: no telling which is which.
    is_repeated: bool,
}

impl Clocks {
    /// Messages kept of each file.
    const MOST: usize = 16_384;

    /// For so many files.
    pub fn new(files: usize, seed: u64) -> Clocks {
        // The choice of messages follows the hash: it must not change from run to run, or results would.
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let table = RandomState::with_seeds(seed, !seed, 5, 6);
        let sample = || Sample {
            messages: HashMap::with_hasher(table.clone()),
            zero_bits: 0,
        };
        Clocks {
            hasher,
            files: (0..files).map(|_| sample()).collect(),
        }
    }

    /// Takes note of a message of SIP or M3UA; everything else is passed over.
    pub fn observe(&mut self, event: &Event<'_>) {
        let ends = (event.source, event.destination);
        let fingerprint = match &event.kind {
            EventKind::Sip { octets, .. } | EventKind::M3ua { octets, .. } => {
                self.hasher.hash_one((ends, octets))
            }
            EventKind::SipSummary { summary, .. } => match summary.start {
                SummaryStart::Request { method, uri } => self.hasher.hash_one((ends, method, uri)),
                SummaryStart::Response { status, reason, .. } => {
                    self.hasher.hash_one((ends, status, reason))
                }
            },
            EventKind::Sctp(_) | EventKind::Rtp(_) | EventKind::Warning(_) => return,
        };
        if let Some(sample) = self.files.get_mut(event.file) {
            sample.add(fingerprint, event.time, is_upward(ends));
        }
    }

    /// The offsets of all files. The first one is the reference; others are compared with the file that they
    /// have most in common with among those that are known.
    pub fn offsets(&self) -> Vec<ClockOffset> {
        let mut offsets = vec![ClockOffset::default(); self.files.len()];
        if offsets.is_empty() {
            return offsets;
        }
        offsets[0].uncertainty = Some(0);
        let mut known = vec![0];
        let mut unknown: Vec<usize> = (1..self.files.len()).collect();
        loop {
            let best = unknown
                .iter()
                .flat_map(|file| known.iter().map(move |other| (*file, *other)))
                .map(|(file, other)| (self.common(file, other), file, other))
                .max_by_key(|(common, ..)| common.count());
            let Some((common, file, other)) = best else {
                break;
            };
            let Some((nanoseconds, uncertainty)) = common.offset() else {
                break;
            };
            let base = offsets[other];
            offsets[file] = ClockOffset {
                nanoseconds: base.nanoseconds.saturating_add(nanoseconds),
                uncertainty: uncertainty
                    .zip(base.uncertainty)
                    .map(|(here, there)| here.saturating_add(there)),
                messages: common.count(),
                compared_with: Some(other),
            };
            unknown.retain(|one| *one != file);
            known.push(file);
        }
        offsets
    }

    /// The differences of the times of all messages that both files have.
    fn common(&self, file: usize, other: usize) -> Common {
        let (here, there) = (&self.files[file], &self.files[other]);
        let mut common = Common::default();
        for (fingerprint, message) in &here.messages {
            let Some(twin) = there.messages.get(fingerprint) else {
                continue;
            };
            if message.is_repeated || twin.is_repeated {
                continue;
            }
            let way = match message.is_upward {
                true => &mut common.upward,
                false => &mut common.downward,
            };
            way.push(message.time - twin.time);
        }
        common
    }
}

impl Sample {
    fn add(&mut self, fingerprint: u64, time: Time, is_upward: bool) {
        if fingerprint.trailing_zeros() < self.zero_bits {
            return;
        }
        if let Some(known) = self.messages.get_mut(&fingerprint) {
            known.is_repeated = true;
            return;
        }
        let message = Message {
            time,
            is_upward,
            is_repeated: false,
        };
        self.messages.insert(fingerprint, message);
        while self.messages.len() > Clocks::MOST && self.zero_bits < 63 {
            self.zero_bits += 1;
            let zero_bits = self.zero_bits;
            self.messages
                .retain(|fingerprint, _| fingerprint.trailing_zeros() >= zero_bits);
        }
    }
}

/// Differences of times, by the way that the messages went.
#[derive(Debug, Default)]
struct Common {
    upward: Vec<i64>,
    downward: Vec<i64>,
}

impl Common {
    fn count(&self) -> usize {
        self.upward.len() + self.downward.len()
    }

    /// The offset, and by how much it may be wrong.
    fn offset(&self) -> Option<(i64, Option<i64>)> {
        let range = |way: &[i64]| Some((*way.iter().min()?, *way.iter().max()?));
        match (range(&self.upward), range(&self.downward)) {
            (None, None) => None,
            // The clocks cannot be told from the time under way.
            (Some((least, _)), None) | (None, Some((least, _))) => Some((least, None)),
            (Some(upward), Some(downward)) => Some(between(upward, downward)),
        }
    }
}

/// One way lengthens the difference and the other shortens it: the offset is above all of the one and below
/// all of the other.
fn between(upward: (i64, i64), downward: (i64, i64)) -> (i64, Option<i64>) {
    let (low, high) = if upward.0 >= downward.1 {
        (downward.1, upward.0)
    } else if downward.0 >= upward.1 {
        (upward.1, downward.0)
    } else {
        // They overlap where a clock was set, runs fast, or both files come from one host.
        (upward.0.min(downward.0), upward.1.max(downward.1))
    };
    let half = high.saturating_sub(low) / 2;
    (low.saturating_add(half), Some(half))
}

/// Whether a message goes from the lower to the higher of its ends. Hosts tell ways apart better than ports,
/// since every user has one.
fn is_upward((source, destination): (Endpoint, Endpoint)) -> bool {
    source < destination
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::Carrier;

    fn endpoint(host: u8) -> Endpoint {
        Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
            port: 5060,
        }
    }

    fn see(clocks: &mut Clocks, file: usize, time: i64, (from, to): (u8, u8), text: &str) {
        clocks.observe(&Event {
            time: Time(time),
            file,
            packet: 1,
            source: endpoint(from),
            destination: endpoint(to),
            kind: EventKind::Sip {
                carrier: Carrier::Udp,
                octets: text.as_bytes(),
                cut: false,
            },
        });
    }

    /// Host 1 captures by a clock that is right, host 2 by one that is 1000 ahead; a message takes 10 or more.
    fn two_hosts(both_ways: bool) -> Vec<ClockOffset> {
        let mut clocks = Clocks::new(2, 7);
        for number in 0..100 {
            let sent = number * 500;
            let text = format!("there {number}");
            see(&mut clocks, 0, sent, (1, 2), &text);
            see(&mut clocks, 1, sent + 1000 + 10 + number % 7, (1, 2), &text);
            if both_ways {
                let text = format!("back {number}");
                see(&mut clocks, 1, sent + 1000 + 50, (2, 1), &text);
                see(&mut clocks, 0, sent + 50 + 10 + number % 5, (2, 1), &text);
            }
        }
        clocks.offsets()
    }

    #[test]
    fn both_directions_tell_the_clock_from_the_way() {
        let offsets = two_hosts(true);
        assert_eq!(offsets[0].nanoseconds, 0);
        assert_eq!(offsets[1].nanoseconds, 1000);
        assert_eq!(offsets[1].uncertainty, Some(10));
        assert_eq!(offsets[1].messages, 200);
    }

    #[test]
    fn one_direction_leaves_doubt() {
        let offsets = two_hosts(false);
        assert_eq!(offsets[1].nanoseconds, 1010);
        assert_eq!(offsets[1].uncertainty, None);
    }

    #[test]
    fn files_without_a_common_message_are_taken_as_they_are() {
        let mut clocks = Clocks::new(2, 7);
        see(&mut clocks, 0, 0, (1, 2), "one");
        see(&mut clocks, 1, 99, (1, 2), "other");
        let offset = clocks.offsets()[1];
        assert_eq!((offset.nanoseconds, offset.messages), (0, 0));
    }

    #[test]
    fn large_files_choose_the_same_messages() {
        let mut clocks = Clocks::new(2, 7);
        for number in 0..100_000 {
            let text = number.to_string();
            see(&mut clocks, 0, number, (1, 2), &text);
            if number > 50_000 {
                see(&mut clocks, 1, number + 5, (1, 2), &text);
            }
        }
        assert!(
            clocks
                .files
                .iter()
                .all(|file| file.messages.len() <= Clocks::MOST)
        );
        assert!(clocks.offsets()[1].messages > 1000);
    }
}
