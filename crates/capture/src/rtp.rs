//! RTP streams of calls (RFC 3550): which they are is told by the session descriptions of the calls.

use std::net::IpAddr;
use std::time::Duration;

use ahash::RandomState;
use hashbrown::HashMap;
use lru::LruCache;
use measures::Delays;
use media::reception::{Arrival, Reception};
use media::rtp::RtpPacket;
use sip::sdp::{Section, SessionDescription};

use crate::{Endpoint, Event, Time};

/// Calls whose media is followed; the ones that were touched least lately give way.
const MOST_CALLS: usize = 50_000;

/// Streams of one call, addresses that it names, and payload types that it gives a meaning.
const MOST_STREAMS: usize = 32;
const MOST_ENDS: usize = 32;
const MOST_CODECS: usize = 128;

/// Session descriptions of a call that are remembered, so that one is read once on all hops.
const MOST_DESCRIPTIONS: usize = 8;

/// The longest name of an encoding: others mean nothing.
const LONGEST_ENCODING: usize = 64;

/// The longest description that is kept, and octets of those of all calls that have had no packet yet.
const LONGEST_DESCRIPTION: usize = 16 * 1024;
const MOST_UNREAD: usize = 64 << 20;

/// Packets of one stream are never captured so much out of order.
const ANOTHER_TIME: Duration = Duration::from_secs(10);

/// Payload types of one stream that are named.
const MOST_PAYLOAD_TYPES: usize = 4;

/// Packets of one sender to one receiver with one SSRC.
#[derive(Clone, Debug, PartialEq)]
pub struct RtpStream {
    /// Who sent them.
    pub source: Endpoint,
    /// Whom they were sent to.
    pub destination: Endpoint,
    /// The synchronization source.
    pub ssrc: u32,
    /// Its encodings by name, the first one first; a payload type without a name as its number.
    pub codec: Box<str>,
    /// The first packet.
    pub began: Time,
    /// The last one.
    pub latest: Time,
    /// The number of the first packet in its file.
    pub packet: u64,
    /// Packets that came, each counted once.
    pub packets: u64,
    /// Packets from the first number to the highest.
    pub expected: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// The mean and the largest interarrival jitter (RFC 3550 section 6.4.1); `None` where the clock of the codec is not known.
    pub jitter: Option<(Duration, Duration)>,
    /// The longest time from one packet to the next.
    pub longest_gap: Duration,
}

impl RtpStream {
    /// Packets that did not come.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// These in percent of those expected.
    pub fn lost_percent(&self) -> f64 {
        match self.expected {
            0 => 0.0,
            expected => 100.0 * self.lost() as f64 / expected as f64,
        }
    }
}

/// The RTP of calls that are over.
#[derive(Clone, Debug, Default)]
pub struct RtpTotals {
    /// Streams.
    pub streams: u64,
    /// Packets that came, each counted once.
    pub packets: u64,
    /// Packets that did not come.
    pub lost: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// The mean jitter of each stream.
    pub jitter: Delays,
}

impl RtpTotals {
    /// Adds the streams of a call.
    pub(crate) fn add(&mut self, streams: &[RtpStream]) {
        for stream in streams {
            self.streams += 1;
            self.packets += stream.packets;
            self.lost += stream.lost();
            self.duplicates += stream.duplicates;
            self.reordered += stream.reordered;
            if let Some((mean, _)) = stream.jitter {
                self.jitter.record(mean);
            }
        }
    }
}

/// The streams of open calls.
#[derive(Debug)]
pub(crate) struct RtpStreams {
    /// Where media of which call is received: of several, the one that named the address last.
    ends: HashMap<Endpoint, u64, RandomState>,
    /// The call of each stream, which keeps it although another call names its address.
    streams: HashMap<StreamKey, u64, RandomState>,
    calls: LruCache<u64, CallMedia, RandomState>,
    hasher: RandomState,
    /// Octets of descriptions that were not read.
    unread: usize,
    /// Packets of streams beyond those that are followed.
    pub(crate) unfollowed: u64,
}

/// Sender, receiver and SSRC.
type StreamKey = (Endpoint, Endpoint, u32);

/// The media of one call.
#[derive(Debug, Default)]
struct CallMedia {
    descriptions: Vec<u64>,
    /// Descriptions that are read when a packet comes: nearly all are of calls whose media is not in the capture.
    unread: Vec<Box<[u8]>>,
    ends: Vec<Endpoint>,
    codecs: Codecs,
    streams: Vec<Stream>,
}

/// What payload types mean.
#[derive(Debug, Default)]
struct Codecs(Vec<NamedCodec>);

/// What a payload type means to one receiver.
#[derive(Debug)]
struct NamedCodec {
    receiver: Endpoint,
    payload_type: u8,
    encoding: Box<str>,
    clock_rate: u32,
}

#[derive(Debug)]
struct Stream {
    seen: RtpStream,
    /// When the latest packet but one came, and the longest gap up to it.
    before: (Time, Duration),
    /// The file that it is followed in: another one may have the same packets.
    file: usize,
    reception: Reception,
    has_clock: bool,
    payload_types: Vec<u8>,
    /// When the last packet came whose jitter was measured.
    measured: Option<Time>,
    /// The sum of the jitter at each packet, and their number.
    jitters: (Duration, u32),
}

impl RtpStreams {
    pub(crate) fn new(hasher: RandomState) -> RtpStreams {
        RtpStreams {
            ends: HashMap::with_hasher(hasher.clone()),
            streams: HashMap::with_hasher(hasher.clone()),
            calls: LruCache::unbounded_with_hasher(hasher.clone()),
            hasher,
            unread: 0,
            unfollowed: 0,
        }
    }

    /// Takes note of a message of a call that has a session description.
    pub(crate) fn learn(&mut self, call: u64, message: &[u8]) {
        let Some(description) = description(message) else {
            return;
        };
        let hash = self.hasher.hash_one(description);
        let known = self.calls.get_or_insert_mut(call, CallMedia::default);
        if known.descriptions.contains(&hash) {
            return;
        }
        if known.descriptions.len() >= MOST_DESCRIPTIONS {
            known.descriptions.remove(0);
        }
        known.descriptions.push(hash);
        let mut names_any = false;
        for_each_receiver(description, &mut |end| {
            if known.ends.contains(&end) || known.ends.len() < MOST_ENDS {
                names_any = true;
                self.ends.insert(end, call);
                if !known.ends.contains(&end) {
                    known.ends.push(end);
                }
            }
        });
        if names_any && description.len() <= LONGEST_DESCRIPTION {
            // One call does not take the room of all others.
            if known.unread.len() >= MOST_DESCRIPTIONS {
                known.read(&mut self.unread);
            }
            self.unread += description.len();
            known.unread.push(description.into());
        }
        while self.calls.len() > MOST_CALLS || self.unread > MOST_UNREAD {
            if let Some((oldest, media)) = self.calls.pop_lru() {
                self.forget(oldest, &media);
            } else {
                return;
            }
        }
    }

    /// Takes a packet that may be one of RTP. Whether it is one of a call.
    pub(crate) fn observe(&mut self, event: &Event<'_>, packet: &RtpPacket<'_>) -> bool {
        let key = (event.source, event.destination, packet.ssrc);
        let known = self.streams.get(&key).copied();
        // Behind a NAT, only the address that sends may be one that was named.
        let by_end = |end| self.ends.get(end).copied();
        let call = known
            .or_else(|| by_end(&event.destination))
            .or_else(|| by_end(&event.source));
        let Some(call) = call else {
            return false;
        };
        let Some(media) = self.calls.get_mut(&call) else {
            return false;
        };
        media.read(&mut self.unread);
        match media.observe(event, packet) {
            true if known.is_none() => drop(self.streams.insert(key, call)),
            true => {}
            false => self.unfollowed += 1,
        }
        true
    }

    /// The streams of a call so far.
    pub(crate) fn of(&self, call: u64) -> Vec<RtpStream> {
        let media = self.calls.peek(&call);
        media.map_or_else(Vec::new, CallMedia::results)
    }

    /// The streams of a call that is over, of which nothing more is known then.
    pub(crate) fn take(&mut self, call: u64) -> Vec<RtpStream> {
        let Some(media) = self.calls.pop(&call) else {
            return Vec::new();
        };
        self.forget(call, &media);
        media.results()
    }

    /// Forgets all calls.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.streams.clear();
        self.calls.clear();
        self.unread = 0;
    }

    fn forget(&mut self, call: u64, media: &CallMedia) {
        let unread = media.unread.iter().map(|description| description.len());
        self.unread = self.unread.saturating_sub(unread.sum());
        for stream in &media.streams {
            let seen = &stream.seen;
            let key = (seen.source, seen.destination, seen.ssrc);
            self.streams.remove(&key);
        }
        for end in &media.ends {
            if self.ends.get(end) == Some(&call) {
                self.ends.remove(end);
            }
        }
    }
}

impl CallMedia {
    /// Reads the descriptions that wait for it; `unread` counts the octets of those of all calls.
    fn read(&mut self, unread: &mut usize) {
        for description in self.unread.drain(..) {
            *unread = unread.saturating_sub(description.len());
            self.codecs.read(&description);
        }
    }

    /// False where the call has too many streams.
    fn observe(&mut self, event: &Event<'_>, packet: &RtpPacket<'_>) -> bool {
        let (encoding, clock_rate) = self.codecs.of(event, packet.payload_type);
        let place = self.streams.iter().position(|stream| {
            let seen = &stream.seen;
            seen.ssrc == packet.ssrc
                && seen.source == event.source
                && seen.destination == event.destination
        });
        let at = match place {
            Some(at) => at,
            None if self.streams.len() < MOST_STREAMS => {
                self.streams.push(Stream::new(event, packet, clock_rate));
                self.streams.len() - 1
            }
            None => return false,
        };
        if let Some(stream) = self.streams.get_mut(at)
            && stream.file == event.file
        {
            stream.observe(event.time, packet, &encoding);
        }
        true
    }

    fn results(&self) -> Vec<RtpStream> {
        self.streams.iter().map(Stream::result).collect()
    }
}

impl Codecs {
    /// Adds those of a description.
    fn read(&mut self, description: &[u8]) {
        let Ok(description) = SessionDescription::read(description) else {
            return;
        };
        for section in description.media() {
            self.add(&description, section);
        }
    }

    fn add(&mut self, description: &SessionDescription, section: &Section) {
        let address = description
            .connection(section)
            .and_then(|connection| connection.ip());
        let (Some(address), Some(line)) = (address, section.media_line()) else {
            return;
        };
        let receiver = Endpoint {
            address,
            port: line.port,
        };
        for map in section.rtp_maps() {
            let is_known = |codec: &NamedCodec| {
                codec.receiver == receiver && codec.payload_type == map.payload_type
            };
            self.0.retain(|codec| !is_known(codec));
            if self.0.len() < MOST_CODECS && map.encoding.len() <= LONGEST_ENCODING {
                self.0.push(NamedCodec {
                    receiver,
                    payload_type: map.payload_type,
                    encoding: map.encoding.into(),
                    clock_rate: map.clock_rate,
                });
            }
        }
    }

    /// The name of a payload type, and its clock: as the receiver has said, else anyone of the call, else as RFC 3551 says.
    fn of(&self, event: &Event<'_>, payload_type: u8) -> (Box<str>, Option<u32>) {
        let mut named = self
            .0
            .iter()
            .filter(|codec| codec.payload_type == payload_type);
        let found = named
            .clone()
            .find(|codec| codec.receiver == event.destination)
            .or_else(|| named.next());
        match (found, usual_codec(payload_type)) {
            (Some(codec), _) => (codec.encoding.clone(), Some(codec.clock_rate)),
            (None, Some((encoding, clock_rate))) => (encoding.into(), Some(clock_rate)),
            (None, None) => (payload_type.to_string().into(), None),
        }
    }
}

impl Stream {
    fn new(event: &Event<'_>, packet: &RtpPacket<'_>, clock_rate: Option<u32>) -> Stream {
        Stream {
            seen: RtpStream {
                source: event.source,
                destination: event.destination,
                ssrc: packet.ssrc,
                codec: Box::default(),
                began: event.time,
                latest: event.time,
                packet: event.packet,
                packets: 0,
                expected: 0,
                duplicates: 0,
                reordered: 0,
                jitter: None,
                longest_gap: Duration::ZERO,
            },
            before: (event.time, Duration::ZERO),
            file: event.file,
            reception: Reception::new(clock_rate.unwrap_or(1), packet.sequence, true),
            has_clock: clock_rate.is_some(),
            payload_types: Vec::new(),
            measured: None,
            jitters: (Duration::ZERO, 0),
        }
    }

    fn observe(&mut self, time: Time, packet: &RtpPacket<'_>, encoding: &str) {
        let payload_type = packet.payload_type;
        if !self.payload_types.contains(&payload_type)
            && self.payload_types.len() < MOST_PAYLOAD_TYPES
        {
            self.payload_types.push(payload_type);
            let separator = if self.seen.codec.is_empty() { "" } else { ", " };
            self.seen.codec = format!("{}{separator}{encoding}", self.seen.codec).into();
        }
        // A packet that lies so far before the last one shows that another clock has written the last one's time.
        if self.seen.latest.since(time) > ANOTHER_TIME {
            (self.seen.latest, self.seen.longest_gap) = self.before;
        }
        self.before = (self.seen.latest, self.seen.longest_gap);
        self.seen.longest_gap = self.seen.longest_gap.max(time.since(self.seen.latest));
        self.seen.latest = self.seen.latest.max(time);
        let arrival = self.reception.counted(packet.sequence);
        // All packets of a key have one timestamp (RFC 4733 section 2.5.1.2), which tells nothing of when they were sent.
        if arrival == Arrival::NotValid || encoding.eq_ignore_ascii_case("telephone-event") {
            return;
        }
        // A clock that was set back tells nothing.
        let before = self.measured.replace(time);
        let before = before.filter(|before| *before <= time);
        let elapsed = before.map(|before| time.since(before));
        self.reception.measure_jitter(elapsed, packet.timestamp);
        let (jitter, _) = self.reception.jitter();
        self.jitters.0 = self.jitters.0.saturating_add(jitter);
        self.jitters.1 = self.jitters.1.saturating_add(1);
    }

    fn result(&self) -> RtpStream {
        let counts = self.reception.counts();
        let (_, jitter_max) = self.reception.jitter();
        let (total, samples) = self.jitters;
        RtpStream {
            packets: counts.received,
            expected: counts.expected,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            jitter: total
                .checked_div(samples)
                .filter(|_| self.has_clock)
                .map(|mean| (mean, jitter_max)),
            ..self.seen.clone()
        }
    }
}

/// The session description of a message: its body, or a part of it (RFC 2046 section 5.1).
fn description(message: &[u8]) -> Option<&[u8]> {
    let head = memchr::memmem::find(message, b"\r\n\r\n")? + 4;
    let body = message.get(head..)?;
    if body.starts_with(b"v=0") {
        return Some(body);
    }
    let begins = memchr::memmem::find(body, b"\nv=0")? + 1;
    let part = body.get(begins..)?;
    let ends = memchr::memmem::find(part, b"\r\n--").map_or(part.len(), |end| end + 2);
    part.get(..ends)
}

/// Where the media in RTP of a description are received. Only the lines that say so are looked at.
fn for_each_receiver(description: &[u8], each: &mut dyn FnMut(Endpoint)) {
    let mut of_session = None;
    let mut medium: Option<(u16, Option<IpAddr>)> = None;
    let mut end = |medium: Option<(u16, Option<IpAddr>)>, of_session: Option<IpAddr>| {
        if let Some((port @ 1.., own)) = medium
            && let Some(address) = own.or(of_session)
            && !address.is_unspecified()
        {
            each(Endpoint { address, port });
        }
    };
    let mut rest = description;
    while !rest.is_empty() {
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(length);
        rest = after;
        match line {
            [b'c', b'=', value @ ..] => match &mut medium {
                Some((_, own)) => *own = connection(value),
                None => of_session = connection(value),
            },
            [b'm', b'=', value @ ..] => {
                end(medium.take(), of_session);
                medium = rtp_port(value).map(|port| (port, None)).or(Some((0, None)));
            }
            _ => {}
        }
    }
    end(medium, of_session);
}

/// The address of a connection (RFC 8866 section 5.7): `IN IP4 192.0.2.1`.
fn connection(value: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(value).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The port of a medium in RTP (RFC 8866 section 5.14): `audio 49170/2 RTP/AVP 0`.
fn rtp_port(value: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(value).ok()?;
    let mut words = text.split_ascii_whitespace().skip(1);
    let (port, protocol) = (words.next()?, words.next()?);
    let port = port.split('/').next()?.parse().ok()?;
    protocol.contains("RTP/").then_some(port)
}

/// Payload types that mean something without being told (RFC 3551 section 6).
fn usual_codec(payload_type: u8) -> Option<(&'static str, u32)> {
    Some(match payload_type {
        0 => ("PCMU", 8000),
        3 => ("GSM", 8000),
        4 => ("G723", 8000),
        5 => ("DVI4", 8000),
        6 => ("DVI4", 16_000),
        7 => ("LPC", 8000),
        8 => ("PCMA", 8000),
        9 => ("G722", 8000),
        10 | 11 => ("L16", 44_100),
        12 => ("QCELP", 8000),
        13 => ("CN", 8000),
        14 => ("MPA", 90_000),
        15 => ("G728", 8000),
        16 => ("DVI4", 11_025),
        17 => ("DVI4", 22_050),
        18 => ("G729", 8000),
        25 => ("CelB", 90_000),
        26 => ("JPEG", 90_000),
        28 => ("nv", 90_000),
        31 => ("H261", 90_000),
        32 => ("MPV", 90_000),
        33 => ("MP2T", 90_000),
        34 => ("H263", 90_000),
        _ => return None,
    })
}
