//! TCP connections put together from their segments (RFC 9293).

use ahash::RandomState;
use bytes::Bytes;
use etherparse::TcpSlice;
use lru::LruCache;

use crate::channel::Found;
use crate::content::{Content, Part};
use crate::settings::Settings;
use crate::tls::KeyLog;
use crate::{Endpoint, Time, Warning};

/// A segment so far from where the connection was is of another connection between the same ports.
const FARTHEST: u32 = 64 << 20;

/// How many octets of one direction wait for those before them.
const MOST_PENDING_OCTETS: usize = 1 << 20;

/// How many segments of one direction wait for those before them.
const MOST_PENDING_SEGMENTS: usize = 1024;

/// How many packets of the receiver are seen, after it acknowledged what was not captured, before that is
/// given up: a capture of several queues is not quite in order.
const PATIENCE_PACKETS: u8 = 16;

/// How long is waited where no acknowledgements are captured, in nanoseconds.
const PATIENCE_NANOSECONDS: i64 = 3_000_000_000;

/// A segment of TCP on its way.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) time: Time,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) tcp: &'a TcpSlice<'a>,
    /// How many octets of it are not in the capture.
    pub(crate) missing: usize,
}

/// Who hears of what is found: source, destination, and what it is.
pub(crate) type Hear<'a> = dyn FnMut(Endpoint, Endpoint, Found) + 'a;

/// Who takes what one end sends, in order.
type HandOn<'a> = dyn FnMut(Part<'_>) + 'a;

/// All connections of a capture.
pub(crate) struct Connections {
    table: LruCache<[Endpoint; 2], Connection, RandomState>,
    held: usize,
    keys: KeyLog,
    most_connections: usize,
    most_octets: usize,
}

/// A connection; the first direction is the one from the lesser endpoint.
#[derive(Default)]
struct Connection {
    directions: [Direction; 2],
    content: Content,
}

/// The segments that one end sends, put in order.
#[derive(Default)]
struct Direction {
    /// The sequence number of its first octet, where the SYN was captured.
    initial: Option<u32>,
    /// The sequence number that is expected.
    next: Option<u32>,
    /// What the other end has acknowledged.
    acknowledged: Option<u32>,
    /// Segments beyond what is expected, in order.
    pending: Vec<Pending>,
    pending_octets: usize,
    /// Since when segments are pending.
    pending_since: Time,
    /// Packets seen since what is missing was acknowledged.
    packets_waited: u8,
    finished: bool,
}

/// A segment that waits for those before it.
struct Pending {
    sequence: u32,
    octets: Bytes,
    missing: u32,
}

/// What a segment carries.
#[derive(Clone, Copy)]
struct Data<'a> {
    sequence: u32,
    octets: &'a [u8],
    /// How many octets after those are not in the capture.
    missing: u32,
}

impl Data<'_> {
    fn length(self) -> u32 {
        (self.octets.len() as u32).saturating_add(self.missing)
    }
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Connections {
        Connections {
            table: LruCache::unbounded_with_hasher(settings.hasher()),
            held: 0,
            keys: settings.keys.clone(),
            most_connections: settings.limits.connections,
            most_octets: settings.limits.connection_octets,
        }
    }

    /// Takes in a segment.
    pub(crate) fn read(&mut self, segment: Segment<'_>, found: &mut Hear<'_>) {
        let Segment {
            source,
            destination,
            tcp,
            ..
        } = segment;
        let (key, from) = if source <= destination {
            ([source, destination], 0)
        } else {
            ([destination, source], 1)
        };
        let says_nothing = tcp.payload().is_empty() && !tcp.syn();
        if says_nothing && !self.table.contains(&key) {
            return;
        }
        let connection = self.table.get_or_insert_mut(key, Connection::default);
        let before = connection.held();
        connection.read(segment, from, &self.keys, &mut |what| {
            found(source, destination, what);
        });
        let is_over = tcp.rst()
            || connection
                .directions
                .iter()
                .all(|direction| direction.finished);
        if is_over {
            connection.finish(key, &self.keys, found);
        }
        self.held = (self.held + connection.held()).saturating_sub(before);
        if is_over {
            // What is repeated of it late shall not be taken for something new: it is remembered as long
            // as there is room.
            self.table.demote(&key);
        }
        self.keep_bounds(found);
    }

    /// Adds secrets of TLS connections.
    pub(crate) fn add_keys(&mut self, lines: &[u8]) {
        self.keys.add(lines);
    }

    /// Gives what waits for octets that will not come any more: at the end of the capture.
    pub(crate) fn finish(&mut self, found: &mut Hear<'_>) {
        while let Some((key, mut connection)) = self.table.pop_lru() {
            connection.finish(key, &self.keys, found);
        }
        self.held = 0;
    }

    fn keep_bounds(&mut self, found: &mut Hear<'_>) {
        while self.table.len() > self.most_connections || self.held > self.most_octets {
            let Some((key, connection)) = self.table.pop_lru() else {
                break;
            };
            self.held = self.held.saturating_sub(connection.held());
            if connection.held() > 0 {
                let [source, destination] = key;
                let dropped = Warning::Dropped("the unfinished message of a TCP connection");
                found(source, destination, Found::Warning(dropped));
            }
        }
    }
}

impl Connection {
    fn held(&self) -> usize {
        let pending = self.directions.iter().map(Direction::held);
        self.content.held() + pending.sum::<usize>()
    }

    /// Gives what waits, and lets go of everything but what tells repetitions.
    fn finish(&mut self, [a, b]: [Endpoint; 2], keys: &KeyLog, found: &mut Hear<'_>) {
        let ends = [[a, b], [b, a]];
        for (from, direction) in self.directions.iter_mut().enumerate() {
            let [source, destination] = ends[from];
            let mut found = |what| found(source, destination, what);
            direction.give_up_waiting(&mut |part| self.content.push(from, part, keys, &mut found));
            direction.finished = true;
        }
        self.content = Content::default();
    }

    fn read(
        &mut self,
        segment: Segment<'_>,
        from: usize,
        keys: &KeyLog,
        found: &mut dyn FnMut(Found),
    ) {
        let tcp = segment.tcp;
        let mut sequence = tcp.sequence_number();
        if tcp.syn() {
            sequence = sequence.wrapping_add(1);
            let is_other = self.directions[from]
                .initial
                .or(self.directions[from].next)
                .is_some_and(|known| known != sequence);
            if is_other {
                *self = Connection::default();
            }
        }
        let content = &mut self.content;
        let mut hand_on = |part: Part<'_>| content.push(from, part, keys, found);
        let [a, b] = &mut self.directions;
        let (direction, other) = if from == 0 { (a, b) } else { (b, a) };
        if tcp.syn() {
            direction.initial = Some(sequence);
            direction.next.get_or_insert(sequence);
        }
        if tcp.ack() {
            other.acknowledge(tcp.acknowledgment_number());
        }
        let data = Data {
            sequence,
            octets: tcp.payload(),
            missing: segment.missing as u32,
        };
        direction.read(data, segment.time, &mut hand_on);
        direction.finished |= tcp.fin() && direction.pending.is_empty();
        if direction.has_waited_enough(segment.time) {
            direction.give_up_waiting(&mut hand_on);
        }
        other.packets_waited += u8::from(other.is_overdue() && other.packets_waited < u8::MAX);
    }
}

impl Direction {
    fn held(&self) -> usize {
        self.pending.capacity() * size_of::<Pending>() + self.pending_octets
    }

    fn acknowledge(&mut self, sequence: u32) {
        if self
            .acknowledged
            .is_none_or(|known| is_before(known, sequence))
        {
            self.acknowledged = Some(sequence);
        }
    }

    /// Takes in what a segment carries: hands it on when it is expected, or lets it wait.
    fn read(&mut self, data: Data<'_>, time: Time, hand_on: &mut HandOn<'_>) {
        if data.length() == 0 {
            return;
        }
        let next = *self.next.get_or_insert(data.sequence);
        if distance(next, data.sequence).unsigned_abs() > FARTHEST {
            self.give_up_waiting(hand_on);
            hand_on(Part::Gap(0));
            self.next = Some(data.sequence);
        }
        if self.is_expected(data) {
            self.hand_on(data, hand_on);
            self.hand_on_pending(hand_on);
        } else if self.next.is_some_and(|next| is_before(next, data.sequence)) {
            self.keep(data, time);
        }
    }

    /// Whether data begins at or before what is expected, and ends after it.
    fn is_expected(&self, data: Data<'_>) -> bool {
        self.next.is_some_and(|next| {
            !is_before(next, data.sequence)
                && is_before(next, data.sequence.wrapping_add(data.length()))
        })
    }

    /// Hands on the new part of data that is expected.
    fn hand_on(&mut self, data: Data<'_>, hand_on: &mut HandOn<'_>) {
        let next = self.next.unwrap_or(data.sequence);
        let known = next.wrapping_sub(data.sequence);
        let fresh = data.octets.get(known as usize..).unwrap_or_default();
        if !fresh.is_empty() {
            hand_on(Part::Octets(fresh));
        }
        if data.missing > 0 {
            hand_on(Part::Gap(u64::from(data.missing)));
        }
        self.next = Some(data.sequence.wrapping_add(data.length()));
    }

    /// Hands on what has waited for what came now.
    fn hand_on_pending(&mut self, hand_on: &mut HandOn<'_>) {
        while let Some(first) = self.pending.first() {
            if self
                .next
                .is_some_and(|next| is_before(next, first.sequence))
            {
                break;
            }
            let pending = self.pending.remove(0);
            self.pending_octets -= pending.octets.len();
            let data = Data {
                sequence: pending.sequence,
                octets: &pending.octets,
                missing: pending.missing,
            };
            if self.is_expected(data) {
                self.hand_on(data, hand_on);
            }
        }
        if self.pending.is_empty() {
            self.pending = Vec::new();
            self.packets_waited = 0;
        }
    }

    /// Lets data wait for what is before it.
    fn keep(&mut self, data: Data<'_>, time: Time) {
        let at = self
            .pending
            .partition_point(|pending| is_before(pending.sequence, data.sequence));
        let is_known = self.pending.get(at).is_some_and(|pending| {
            pending.sequence == data.sequence && pending.octets.len() >= data.octets.len()
        });
        if is_known {
            return;
        }
        if self.pending.is_empty() {
            self.pending_since = time;
        }
        self.pending_octets += data.octets.len();
        let pending = Pending {
            sequence: data.sequence,
            octets: Bytes::copy_from_slice(data.octets),
            missing: data.missing,
        };
        self.pending.insert(at, pending);
    }

    /// Whether the receiver has what was not captured.
    fn is_overdue(&self) -> bool {
        match (self.pending.first(), self.acknowledged) {
            (Some(first), Some(acknowledged)) => !is_before(acknowledged, first.sequence),
            _ => false,
        }
    }

    /// Whether it is time to go on without what is missing.
    fn has_waited_enough(&self, now: Time) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let is_late = match self.acknowledged {
            Some(_) => self.is_overdue() && self.packets_waited >= PATIENCE_PACKETS,
            None => now - self.pending_since > PATIENCE_NANOSECONDS,
        };
        is_late
            || self.pending_octets > MOST_PENDING_OCTETS
            || self.pending.len() > MOST_PENDING_SEGMENTS
    }

    /// Goes on with what is pending, and tells what is missing before it.
    fn give_up_waiting(&mut self, hand_on: &mut HandOn<'_>) {
        while let (Some(first), Some(next)) = (self.pending.first(), self.next) {
            hand_on(Part::Gap(u64::from(first.sequence.wrapping_sub(next))));
            self.next = Some(first.sequence);
            self.hand_on_pending(hand_on);
        }
    }
}

/// Whether a sequence number comes before another, the nearer way around (RFC 9293 section 3.4).
fn is_before(a: u32, b: u32) -> bool {
    distance(a, b) > 0
}

/// How far it is from one sequence number to another.
fn distance(a: u32, b: u32) -> i32 {
    b.wrapping_sub(a) as i32
}
