//! User messages of SCTP put together from their fragments (RFC 9260 section 6.9, RFC 8260 section 2.2).

mod interleaved;

use std::borrow::Cow;
use std::collections::BTreeMap;

use ahash::RandomState;
use lru::LruCache;
use sctp::packet::{Chunk, Data, IData, Packet, Ssn, Tsn};

use crate::settings::Settings;
use crate::{UserMessage, Warning};

use interleaved::Interleaved;

/// How many runs of TSNs with others missing between them are remembered.
const MOST_RUNS: usize = 64;

/// A TSN so far from the last one is of another association with the same tag.
const FARTHEST: u32 = 1 << 20;

/// How many TSNs later a fragment without its others is let go.
const LONGEST_WAIT: i64 = 1 << 14;

/// The longest user message that is put together.
const LONGEST_MESSAGE: usize = 1 << 20;

/// All directions of all associations in a capture.
pub(crate) struct Associations {
    table: LruCache<DirectionKey, Direction, RandomState>,
    held: usize,
    most_directions: usize,
    most_octets: usize,
}

/// What tells the directions of associations apart. Not the addresses: an association may use several
/// (RFC 9260 section 1.4), and a message repeated on another path is the same message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DirectionKey {
    verification_tag: u32,
    source_port: u16,
    destination_port: u16,
}

/// What one end sends.
#[derive(Default)]
struct Direction {
    /// The last TSN seen, and its number when they are counted without wrapping around.
    last: Option<(Tsn, i64)>,
    /// The TSNs that have been seen: first and last of each run, in order.
    runs: Vec<(i64, i64)>,
    /// Fragments of messages that are not whole yet.
    fragments: BTreeMap<i64, Fragment>,
    /// Octets of them.
    fragment_octets: usize,
    /// Messages in I-DATA that are not whole yet.
    interleaved: Interleaved,
}

struct Fragment {
    beginning: bool,
    ending: bool,
    octets: Vec<u8>,
}

impl Associations {
    pub(crate) fn new(settings: &Settings) -> Associations {
        Associations {
            table: LruCache::unbounded_with_hasher(settings.hasher()),
            held: 0,
            most_directions: settings.limits.associations,
            most_octets: settings.limits.user_message_octets,
        }
    }

    /// Takes in a packet, and gives the user messages that it completes. What is repeated is not given again.
    pub(crate) fn read(
        &mut self,
        packet: Packet<'_>,
        encapsulated: bool,
        found: &mut dyn FnMut(UserMessage, Ssn, &[u8]),
        warn: &mut dyn FnMut(Warning),
    ) {
        let header = packet.header();
        let key = DirectionKey {
            verification_tag: header.verification_tag,
            source_port: header.source_port,
            destination_port: header.destination_port,
        };
        for chunk in packet.chunks() {
            let Ok(chunk @ (Chunk::Data(_) | Chunk::IData(_))) = chunk else {
                continue;
            };
            let direction = self.table.get_or_insert_mut(key, Direction::default);
            let before = direction.held();
            let (message, ssn) = match &chunk {
                Chunk::Data(data) => (direction.read(data), data.ssn),
                // Half of the number is enough to order messages that are near each other.
                Chunk::IData(data) => (direction.read_interleaved(data), Ssn(data.mid.0 as u16)),
                _ => continue,
            };
            self.held = (self.held + direction.held()).saturating_sub(before);
            if let Some((mut message, octets)) = message {
                message.encapsulated = encapsulated;
                found(message, ssn, &octets);
            }
        }
        while self.table.len() > self.most_directions || self.held > self.most_octets {
            let Some((_, direction)) = self.table.pop_lru() else {
                break;
            };
            self.held = self.held.saturating_sub(direction.held());
            if direction.held() > 0 {
                warn(Warning::Dropped("an unfinished user message of SCTP"));
            }
        }
    }
}

impl Direction {
    fn held(&self) -> usize {
        self.fragment_octets + self.interleaved.held()
    }

    /// Takes in an I-DATA chunk, and gives the message that it completes.
    fn read_interleaved<'d>(&mut self, data: &IData<'d>) -> Option<(UserMessage, Cow<'d, [u8]>)> {
        let number = self.number(data.tsn);
        if !self.is_new(number) {
            return None;
        }
        self.interleaved.read(data, number)
    }

    /// Takes in a chunk, and gives the message that it completes.
    fn read<'d>(&mut self, data: &Data<'d>) -> Option<(UserMessage, Cow<'d, [u8]>)> {
        let number = self.number(data.tsn);
        if !self.is_new(number) {
            return None;
        }
        let message = UserMessage {
            stream: data.stream,
            tsn: data.tsn,
            payload_protocol: data.ppid,
            fragments: 1,
            unordered: data.unordered,
            encapsulated: false,
        };
        if data.beginning && data.ending {
            return Some((message, Cow::Borrowed(data.user_data)));
        }
        let fragment = Fragment {
            beginning: data.beginning,
            ending: data.ending,
            octets: data.user_data.to_vec(),
        };
        self.fragment_octets += fragment.held();
        self.fragments.insert(number, fragment);
        // What was not completed for long misses a part that the capture does not have.
        while let Some(first) = self.fragments.first_entry()
            && *first.key() < number - LONGEST_WAIT
        {
            self.fragment_octets = self.fragment_octets.saturating_sub(first.remove().held());
        }
        let (message, octets) = self.complete(number, message)?;
        Some((message, Cow::Owned(octets)))
    }

    /// The TSN counted without wrapping around.
    fn number(&mut self, tsn: Tsn) -> i64 {
        let number = match self.last {
            Some((last, number)) => {
                let distance = tsn.0.wrapping_sub(last.0) as i32;
                if distance.unsigned_abs() > FARTHEST {
                    *self = Direction::default();
                    0
                } else {
                    number + i64::from(distance)
                }
            }
            None => 0,
        };
        self.last = Some((tsn, number));
        number
    }

    /// Whether a TSN is seen for the first time; it is remembered.
    fn is_new(&mut self, number: i64) -> bool {
        // Most come after the last one.
        if let Some(run) = self.runs.last_mut()
            && number == run.1 + 1
        {
            run.1 = number;
            return true;
        }
        let at = self.runs.partition_point(|run| run.1 < number);
        if self.runs.get(at).is_some_and(|run| run.0 <= number) {
            return false;
        }
        let follows = at > 0 && self.runs[at - 1].1 + 1 == number;
        let precedes = self.runs.get(at).is_some_and(|run| run.0 == number + 1);
        match (follows, precedes) {
            (true, true) => {
                self.runs[at - 1].1 = self.runs[at].1;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 = number,
            (false, true) => self.runs[at].0 = number,
            (false, false) => self.runs.insert(at, (number, number)),
        }
        if self.runs.len() > MOST_RUNS {
            // The oldest holes are taken for filled.
            self.runs[1].0 = self.runs[0].0;
            self.runs.remove(0);
        }
        true
    }

    /// The message around a fragment, when all of it is there.
    fn complete(
        &mut self,
        number: i64,
        mut message: UserMessage,
    ) -> Option<(UserMessage, Vec<u8>)> {
        // Fragments mostly come in order, so this is the way that ends soon.
        let (last, length) = self.reach(number, 1, |fragment| fragment.ending)?;
        let (first, before) = self.reach(number, -1, |fragment| fragment.beginning)?;
        let length = length + before;
        let mut octets = Vec::with_capacity(length);
        for number in first..=last {
            let fragment = self.fragments.remove(&number)?;
            self.fragment_octets = self.fragment_octets.saturating_sub(fragment.held());
            octets.extend_from_slice(&fragment.octets);
        }
        message.tsn = message.tsn - (number - first) as u32;
        message.fragments = (last - first + 1) as u32;
        Some((message, octets))
    }

    /// Goes from a fragment in a direction until one is the end there, and counts octets on the way. `None`
    /// when one is missing before. A message that grows too long is let go.
    fn reach(
        &mut self,
        from: i64,
        step: i64,
        is_end: impl Fn(&Fragment) -> bool,
    ) -> Option<(i64, usize)> {
        let mut at = from;
        let mut length = 0;
        loop {
            let fragment = self.fragments.get(&at)?;
            length += fragment.held();
            if is_end(fragment) {
                return Some((at, length));
            }
            if length > LONGEST_MESSAGE {
                self.fragments.clear();
                self.fragment_octets = 0;
                return None;
            }
            at += step;
        }
    }
}

impl Fragment {
    /// How much memory it takes.
    fn held(&self) -> usize {
        self.octets.len() + size_of::<(i64, Fragment)>()
    }
}
