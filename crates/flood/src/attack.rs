//! The attacker, without I/O.

use bytes::{Bytes, BytesMut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;
use sctp::packet::{
    Abort, Causes, Chunk, CommonHeader, CookieEcho, Init, Packet, PacketWriter, Parameter,
    Parameters, Tsn,
};
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// INITs, each from another peer that never answers.
    Init,
    /// INITs, and a COOKIE ECHO for each INIT ACK, from peers that are never heard of again.
    Cookie,
    /// One association, ended at once, and then its cookie again and again: as it was, with a bit
    /// turned, and from other ports.
    Replay,
}

/// A packet to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// Which of the attacker's addresses it comes from, counted from 0.
    pub source: usize,
    /// The SCTP packet.
    pub packet: Bytes,
}

/// What was sent, and what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// INITs sent.
    pub inits: u64,
    /// COOKIE ECHOs sent that answer an INIT ACK.
    pub cookies: u64,
    /// COOKIE ECHOs sent once more, as they were.
    pub replayed: u64,
    /// The same with a bit of the cookie turned.
    pub altered: u64,
    /// The same from another port.
    pub moved: u64,
    /// ABORTs and HEARTBEATs sent, to end the association whose cookie is to be replayed, and to see
    /// that it is gone.
    pub endings: u64,
    /// INIT ACKs received.
    pub init_acks: u64,
    /// COOKIE ACKs received, of associations that the attacker means to have.
    pub cookie_acks: u64,
    /// COOKIE ACKs received for cookies that were replayed, altered or moved: each one is a success
    /// of the attacker.
    pub accepted: u64,
    /// ABORTs received.
    pub aborts: u64,
    /// ERRORs received, such as that of a stale cookie.
    pub errors: u64,
    /// Other datagrams received.
    pub other: u64,
}

/// An attacker with some addresses. It keeps nothing of any association, but for the one cookie
/// that it replays.
#[derive(Debug)]
pub struct Attack {
    kind: Kind,
    target_port: u16,
    sources: usize,
    rng: ChaCha12Rng,
    buffer: BytesMut,
    stage: Stage,
    /// Nothing that comes is answered any more.
    is_silent: bool,
    /// How often the next packet was asked for while an answer is waited for.
    waited: u64,
    counts: Counts,
}

/// How far a replay is; other attacks stay at the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    Opening,
    /// The cookie is on its way for the first time.
    Echoed(Record),
    /// The association is to be gone before its cookie is replayed: a cookie that comes while it is up
    /// is rightly acknowledged (RFC 9260 section 5.2.4, D).
    Ending(Record),
    Replaying(Record, u64),
}

/// A COOKIE ECHO that can be sent again.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    source: usize,
    port: u16,
    verification_tag: u32,
    cookie: Bytes,
}

impl Attack {
    /// An attacker with so many addresses, at least one, of a listener on an SCTP port.
    pub fn new(kind: Kind, target_port: u16, sources: usize, rng: ChaCha12Rng) -> Attack {
        Attack {
            kind,
            target_port,
            sources: sources.max(1),
            rng,
            buffer: BytesMut::new(),
            stage: Stage::Opening,
            is_silent: false,
            waited: 0,
            counts: Counts::default(),
        }
    }

    /// The next packet of the flood; `None` while an answer is waited for: the cookie that is to be
    /// replayed, or word that the association is gone.
    pub fn next_attempt(&mut self) -> Option<Attempt> {
        if self.kind != Kind::Replay {
            return Some(self.init());
        }
        match self.stage.clone() {
            Stage::Opening => self.is_time_to_repeat().then(|| self.init()),
            Stage::Echoed(record) => self.is_time_to_repeat().then(|| self.echo(&record)),
            Stage::Ending(record) => self.ending(&record),
            Stage::Replaying(record, number) => {
                self.stage = Stage::Replaying(record.clone(), number + 1);
                Some(self.replay(record, number))
            }
        }
    }

    /// Takes a packet that came to one of the addresses; says what answers it.
    pub fn handle_packet(&mut self, source: usize, packet: &[u8]) -> Option<Attempt> {
        let Ok(packet) = Packet::read(packet) else {
            self.counts.other += 1;
            return None;
        };
        let header = packet.header();
        if !PORTS.contains(&header.destination_port) {
            // Whoever listens to all of a host hears what others on it are told.
            return None;
        }
        match packet.chunks().next() {
            Some(Ok(Chunk::InitAck(ack))) => {
                self.counts.init_acks += 1;
                self.handle_init_ack(source, header, &ack)
            }
            Some(Ok(Chunk::CookieAck)) => self.handle_cookie_ack(source, header),
            Some(Ok(Chunk::Abort(abort))) => {
                self.counts.aborts += 1;
                self.handle_abort(source, header, abort.tag_reflected);
                None
            }
            Some(Ok(Chunk::Error(_))) => {
                self.counts.errors += 1;
                None
            }
            _ => {
                self.counts.other += 1;
                None
            }
        }
    }

    /// Whether packets that come are only counted, and not answered, from now on.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// What was sent, and what came of it, so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What was sent, or its answer, may have been lost.
    fn is_time_to_repeat(&mut self) -> bool {
        self.waited += 1;
        self.waited % WAITS_UNTIL_REPEATED == 1
    }

    fn init(&mut self) -> Attempt {
        self.counts.inits += 1;
        let source = self.rng.random_range(0..self.sources);
        let port = self.rng.random_range(PORTS);
        let init = Init {
            initiate_tag: self.rng.next_u32().max(1),
            a_rwnd: 65_536,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Tsn(self.rng.next_u32()),
            parameters: Parameters::new(&[]),
        };
        // Its tag is 0 (RFC 9260 section 8.5.1, A).
        let packet = self.packet(port, 0, &Chunk::Init(init));
        Attempt { source, packet }
    }

    /// All that a COOKIE ECHO needs stands in the INIT ACK.
    fn handle_init_ack(
        &mut self,
        source: usize,
        header: CommonHeader,
        ack: &Init<'_>,
    ) -> Option<Attempt> {
        if self.is_silent || self.kind == Kind::Init || !matches!(self.stage, Stage::Opening) {
            return None;
        }
        let mut parameters = ack.parameters.iter().filter_map(Result::ok);
        let cookie = parameters.find_map(|parameter| match parameter {
            Parameter::StateCookie(cookie) => Some(Bytes::copy_from_slice(cookie)),
            _ => None,
        })?;
        let record = Record {
            source,
            port: header.destination_port,
            verification_tag: ack.initiate_tag,
            cookie,
        };
        let attempt = self.echo(&record);
        if self.kind == Kind::Replay {
            self.stage = Stage::Echoed(record);
            self.waited = 1;
        }
        Some(attempt)
    }

    fn handle_cookie_ack(&mut self, source: usize, header: CommonHeader) -> Option<Attempt> {
        match &self.stage {
            Stage::Echoed(record) if record.is_of(source, header) && !self.is_silent => {
                self.counts.cookie_acks += 1;
                let record = record.clone();
                // Echoes that were repeated are given the time to be answered.
                self.waited = u64::from(self.counts.cookies > 1);
                self.stage = Stage::Ending(record.clone());
                Some(self.abort(&record))
            }
            Stage::Replaying(..) => {
                self.counts.accepted += 1;
                None
            }
            // Of an echo that was repeated, too.
            _ => {
                self.counts.cookie_acks += 1;
                None
            }
        }
    }

    /// Asks whether the association is gone, and ends it once more when no answer says so.
    fn ending(&mut self, record: &Record) -> Option<Attempt> {
        self.waited += 1;
        match self.waited % WAITS_UNTIL_REPEATED {
            0 => Some(self.abort(record)),
            1 => {
                self.counts.endings += 1;
                let mut writer = writer(&mut self.buffer, record, self.target_port);
                // It is small.
                let _ = writer.heartbeat(b"gone?");
                Some(Attempt {
                    source: record.source,
                    packet: writer.finish(),
                })
            }
            _ => None,
        }
    }

    /// An ABORT with the tag of what it answers is that of nobody's packet, here of the HEARTBEAT (RFC
    /// 9260 section 8.4, 8): the association is gone.
    fn handle_abort(&mut self, source: usize, header: CommonHeader, tag_reflected: bool) {
        if let Stage::Ending(record) = &self.stage
            && tag_reflected
            && record.is_of(source, header)
            && record.verification_tag == header.verification_tag
        {
            // What is replayed is to raise it from the dead.
            self.stage = Stage::Replaying(record.clone(), 0);
        }
    }

    fn abort(&mut self, record: &Record) -> Attempt {
        self.counts.endings += 1;
        let abort = Abort {
            tag_reflected: false,
            causes: Causes::new(&[]),
        };
        Attempt {
            source: record.source,
            packet: self.packet(record.port, record.verification_tag, &Chunk::Abort(abort)),
        }
    }

    fn echo(&mut self, record: &Record) -> Attempt {
        self.counts.cookies += 1;
        self.send_cookie(record)
    }

    fn replay(&mut self, mut record: Record, number: u64) -> Attempt {
        match number % 3 {
            0 => self.counts.replayed += 1,
            1 => {
                self.counts.altered += 1;
                let mut cookie = record.cookie.to_vec();
                let bit = self.rng.random_range(0..(8 * cookie.len()).max(1));
                if let Some(byte) = cookie.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
                record.cookie = cookie.into();
            }
            _ => {
                self.counts.moved += 1;
                record.source = self.rng.random_range(0..self.sources);
                record.port = self.other_port(record.port);
            }
        }
        self.send_cookie(&record)
    }

    /// Any of our ports but this one of them.
    fn other_port(&mut self, port: u16) -> u16 {
        let all = u32::from(PORTS.end() - PORTS.start()) + 1;
        let offset = u32::from(port.saturating_sub(*PORTS.start()));
        let other = (offset + self.rng.random_range(1..all)) % all;
        PORTS.start() + other as u16
    }

    fn send_cookie(&mut self, record: &Record) -> Attempt {
        let cookie = Chunk::CookieEcho(CookieEcho {
            cookie: &record.cookie,
        });
        Attempt {
            source: record.source,
            packet: self.packet(record.port, record.verification_tag, &cookie),
        }
    }

    fn packet(&mut self, port: u16, verification_tag: u32, chunk: &Chunk<'_>) -> Bytes {
        let (buffer, target) = (&mut self.buffer, self.target_port);
        let mut writer = PacketWriter::new(buffer, port, target, verification_tag, LARGEST);
        // A cookie came in a packet that was no larger.
        let _ = writer.chunk(chunk);
        writer.finish()
    }
}

impl Record {
    /// Whether a packet goes to the peer that this is of.
    fn is_of(&self, source: usize, header: CommonHeader) -> bool {
        (self.source, self.port) == (source, header.destination_port)
    }
}

fn writer<'a>(buffer: &'a mut BytesMut, record: &Record, target_port: u16) -> PacketWriter<'a> {
    let tag = record.verification_tag;
    PacketWriter::new(buffer, record.port, target_port, tag, LARGEST)
}

/// The ports that packets come from: not those that the system gives to clients on the same host (RFC 6335
/// section 6).
const PORTS: RangeInclusive<u16> = 1024..=49_151;

/// How often the flood goes on waiting until it repeats what was not answered.
const WAITS_UNTIL_REPEATED: u64 = 1000;

/// The largest SCTP packet that there can be.
const LARGEST: usize = 65_535;

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Init => "init",
            Kind::Cookie => "cookie",
            Kind::Replay => "replay",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "init" => Ok(Kind::Init),
            "cookie" => Ok(Kind::Cookie),
            "replay" => Ok(Kind::Replay),
            _ => Err(format!(
                "\"{text}\" is not valid: use init, cookie or replay"
            )),
        }
    }
}
