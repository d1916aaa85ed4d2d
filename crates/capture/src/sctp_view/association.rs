//! One association as a capture shows it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sctp::packet::{Chunk, ChunkType, Data, ForwardTsn, IData, IForwardTsn};

use super::change::{Change, Requests, note_asconf_ack, note_responses};
use super::flight::Flight;
use crate::{Endpoint, Event, SctpPacket, Time};

/// An association.
#[derive(Debug)]
pub struct Association {
    /// The end that sent the INIT, or the first packet seen.
    pub source: Endpoint,
    /// The other one.
    pub destination: Endpoint,
    /// The ports of the UDP datagrams that it was in (RFC 6951).
    pub udp: Option<(u16, u16)>,
    /// The file that it is followed in.
    pub file: usize,
    /// Its first packet.
    pub began: Time,
    /// Its last packet.
    pub latest: Time,
    /// How it began.
    pub beginning: Beginning,
    /// How it ended.
    pub ending: Ending,
    /// From `source` to `destination`.
    pub forward: Direction,
    /// The other way.
    pub backward: Direction,
    paths: Vec<Path>,
    changes: Vec<Change>,
    /// Packets on paths beyond those that are counted.
    pub unplaced_packets: u64,
    /// By how many tags its packets are known.
    pub(super) tags: usize,
}

/// How an association began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// Before the capture.
    Before,
    /// An INIT was sent.
    Init,
    /// All of the handshake was seen: nanoseconds from the INIT to the COOKIE ACK.
    Handshake(i64),
}

/// How an association ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It did not.
    Open,
    /// A SHUTDOWN was sent; its end was not seen.
    ShuttingDown,
    /// SHUTDOWN COMPLETE was sent.
    Shutdown,
    /// An ABORT was sent.
    Aborted,
}

/// One direction of an association.
#[derive(Debug, Default)]
pub struct Direction {
    /// Packets.
    pub packets: u64,
    /// Octets of them, from the common header on.
    pub octets: u64,
    /// Chunks by type.
    pub chunks: BTreeMap<u8, u64>,
    /// DATA and I-DATA chunks whose TSN was not sent before.
    pub tsns: u64,
    /// DATA and I-DATA chunks whose TSN was.
    pub retransmitted_tsns: u64,
    /// TSNs that the other end says it has received twice.
    pub duplicates_reported: u64,
    /// TSNs that were skipped by FORWARD-TSN or I-FORWARD-TSN before the other end had received them.
    pub abandoned_tsns: u64,
    /// Requests to reset streams (RFC 6525).
    pub stream_resets: u64,
    /// Requests for more streams (RFC 6525).
    pub stream_additions: u64,
    /// Requests to add or delete an address, or to make it primary (RFC 5061).
    pub address_changes: u64,
    requests: Requests,
    flight: Flight,
    /// HEARTBEATs that wait for an answer: what they carry, hashed, when they were sent, and the path.
    heartbeats: Vec<(u64, Time, usize)>,
}

impl Direction {
    /// Chunks of one type.
    pub fn chunks_of(&self, chunk_type: ChunkType) -> u64 {
        self.chunks.get(&chunk_type.0).copied().unwrap_or(0)
    }
}

/// A way between an address of one end and an address of the other, in one direction.
#[derive(Debug)]
pub struct Path {
    /// Where from.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// Whether it leads from the association's `source` to its `destination`.
    pub is_forward: bool,
    /// Packets.
    pub packets: u64,
    /// DATA and I-DATA chunks, those sent again included.
    pub data_chunks: u64,
    /// DATA and I-DATA chunks whose TSN was sent before, on whatever path.
    pub retransmitted_tsns: u64,
    /// HEARTBEATs.
    pub heartbeats: u64,
    /// HEARTBEATs that were answered.
    pub heartbeats_answered: u64,
    /// From a DATA chunk or HEARTBEAT to its acknowledgement, as seen where the capture was taken.
    pub round_trip: RoundTrips,
}

/// Round-trip times in nanoseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// How many were measured.
    pub count: u64,
    smallest: u64,
    largest: u64,
    total: u64,
}

impl RoundTrips {
    fn record(&mut self, nanoseconds: i64) {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(0);
        self.smallest = match self.count {
            0 => nanoseconds,
            _ => self.smallest.min(nanoseconds),
        };
        self.largest = self.largest.max(nanoseconds);
        self.total = self.total.saturating_add(nanoseconds);
        self.count += 1;
    }

    /// Adds those of others.
    pub(super) fn add(&mut self, others: &RoundTrips) {
        if others.count == 0 {
            return;
        }
        self.smallest = match self.count {
            0 => others.smallest,
            _ => self.smallest.min(others.smallest),
        };
        self.largest = self.largest.max(others.largest);
        self.total = self.total.saturating_add(others.total);
        self.count += others.count;
    }

    /// Smallest, mean and largest, in milliseconds; `None` without a measure.
    pub fn milliseconds(&self) -> Option<(f64, f64, f64)> {
        (self.count > 0).then(|| {
            (
                self.smallest as f64 / 1e6,
                self.total as f64 / self.count as f64 / 1e6,
                self.largest as f64 / 1e6,
            )
        })
    }
}

/// Paths of an association; each end may have some addresses.
const MOST_PATHS: usize = 64;

/// Changes of addresses and streams that are remembered of an association.
const MOST_CHANGES: usize = 64;

/// HEARTBEATs that may wait for an answer.
const MOST_HEARTBEATS: usize = 64;

impl Association {
    pub(super) fn new(event: &Event<'_>, udp: Option<(u16, u16)>) -> Association {
        Association {
            source: event.source,
            destination: event.destination,
            udp,
            file: event.file,
            began: event.time,
            latest: event.time,
            beginning: Beginning::Before,
            ending: Ending::Open,
            forward: Direction::default(),
            backward: Direction::default(),
            paths: Vec::new(),
            changes: Vec::new(),
            unplaced_packets: 0,
            tags: 0,
        }
    }

    /// Its paths, in the order in which they came up.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The changes of addresses and streams that its ends asked for: the first ones.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// DATA chunks that are remembered until they are acknowledged.
    pub(super) fn outstanding(&self) -> usize {
        self.forward.flight.len() + self.backward.flight.len()
    }

    /// Forgets them.
    pub(super) fn forget_outstanding(&mut self) {
        self.forward.flight = Flight::default();
        self.backward.flight = Flight::default();
    }

    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
        sctp: &SctpPacket<'_>,
        chunks: &[Chunk<'_>],
        is_forward: bool,
    ) {
        self.latest = self.latest.max(event.time);
        let Some(at) = self.path(event, is_forward) else {
            self.unplaced_packets += 1;
            return;
        };
        self.paths[at].packets += 1;
        let direction = match is_forward {
            true => &mut self.forward,
            false => &mut self.backward,
        };
        direction.packets += 1;
        direction.octets += sctp.packet.bytes().len() as u64;
        for chunk in chunks {
            self.observe_chunk(event.time, chunk, is_forward, at);
        }
    }

    fn observe_chunk(&mut self, time: Time, chunk: &Chunk<'_>, is_forward: bool, at: usize) {
        let (here, there) = match is_forward {
            true => (&mut self.forward, &mut self.backward),
            false => (&mut self.backward, &mut self.forward),
        };
        *here.chunks.entry(chunk.chunk_type().0).or_default() += 1;
        let mut round_trip = None;
        match chunk {
            Chunk::Data(Data { tsn, .. }) | Chunk::IData(IData { tsn, .. }) => {
                let path = &mut self.paths[at];
                path.data_chunks += 1;
                if here.flight.send(*tsn, time, at) {
                    here.retransmitted_tsns += 1;
                    path.retransmitted_tsns += 1;
                } else {
                    here.tsns += 1;
                }
            }
            Chunk::Sack(sack) => {
                there.duplicates_reported += sack.duplicate_tsns.len() as u64;
                let blocks = sack.gap_ack_blocks.iter();
                round_trip = there
                    .flight
                    .acknowledge(sack.cumulative_tsn_ack, blocks, time);
            }
            Chunk::NrSack(sack) => {
                there.duplicates_reported += sack.duplicate_tsns.len() as u64;
                let (blocks, kept) = (sack.gap_ack_blocks.iter(), sack.nr_gap_ack_blocks.iter());
                let blocks = blocks.chain(kept);
                round_trip = there
                    .flight
                    .acknowledge(sack.cumulative_tsn_ack, blocks, time);
            }
            Chunk::ForwardTsn(ForwardTsn {
                new_cumulative_tsn, ..
            })
            | Chunk::IForwardTsn(IForwardTsn {
                new_cumulative_tsn, ..
            }) => here.abandoned_tsns += here.flight.skip_to(*new_cumulative_tsn),
            Chunk::Asconf(asconf) => {
                let changes = here.requests.of_asconf(asconf, time, is_forward);
                for change in changes {
                    here.address_changes += 1;
                    keep(&mut self.changes, change);
                }
            }
            Chunk::AsconfAck(ack) => note_asconf_ack(&mut self.changes, ack, is_forward),
            Chunk::ReConfig(re_config) => {
                note_responses(&mut self.changes, re_config, is_forward);
                for change in here.requests.of_re_config(re_config, time, is_forward) {
                    match change.request.is_reset() {
                        true => here.stream_resets += 1,
                        false => here.stream_additions += 1,
                    }
                    keep(&mut self.changes, change);
                }
            }
            Chunk::Heartbeat(heartbeat) => {
                self.paths[at].heartbeats += 1;
                if here.heartbeats.len() == MOST_HEARTBEATS {
                    here.heartbeats.remove(0);
                }
                let carried = heartbeat.info().map(hash).unwrap_or_default();
                here.heartbeats.push((carried, time, at));
            }
            Chunk::HeartbeatAck(heartbeat) => {
                let carried = heartbeat.info().map(hash).unwrap_or_default();
                let waiting = there
                    .heartbeats
                    .iter()
                    .position(|(sent, ..)| *sent == carried);
                if let Some(waiting) = waiting {
                    let (_, sent, path) = there.heartbeats.remove(waiting);
                    if let Some(path) = self.paths.get_mut(path) {
                        path.heartbeats_answered += 1;
                    }
                    round_trip = Some((path, time - sent));
                }
            }
            Chunk::Init(_) => {
                // Its requests are numbered from here on (RFC 5061 section 5.1, A2; RFC 6525 section 4.1).
                here.requests = Requests::default();
                if self.beginning == Beginning::Before {
                    self.beginning = Beginning::Init;
                }
            }
            Chunk::InitAck(_) => here.requests = Requests::default(),
            Chunk::CookieAck if self.beginning == Beginning::Init => {
                self.beginning = Beginning::Handshake(time - self.began);
            }
            // One behind its end answers what has come late.
            Chunk::Abort(_) if self.ending != Ending::Shutdown => self.ending = Ending::Aborted,
            Chunk::Shutdown(_) if self.ending == Ending::Open => {
                self.ending = Ending::ShuttingDown;
            }
            Chunk::ShutdownComplete(_) => self.ending = Ending::Shutdown,
            _ => {}
        }
        if let Some((path, nanoseconds)) = round_trip
            && let Some(path) = self.paths.get_mut(path)
        {
            path.round_trip.record(nanoseconds);
        }
    }

    fn path(&mut self, event: &Event<'_>, is_forward: bool) -> Option<usize> {
        let (source, destination) = (event.source.address, event.destination.address);
        let is_it = |path: &Path| {
            path.source == source
                && path.destination == destination
                && path.is_forward == is_forward
        };
        if let Some(at) = self.paths.iter().position(is_it) {
            return Some(at);
        }
        if self.paths.len() == MOST_PATHS {
            return None;
        }
        self.paths.push(Path {
            source,
            destination,
            is_forward,
            packets: 0,
            data_chunks: 0,
            retransmitted_tsns: 0,
            heartbeats: 0,
            heartbeats_answered: 0,
            round_trip: RoundTrips::default(),
        });
        Some(self.paths.len() - 1)
    }
}

fn keep(changes: &mut Vec<Change>, change: Change) {
    if changes.len() < MOST_CHANGES {
        changes.push(change);
    }
}

/// What a HEARTBEAT carries, in few octets. Two that are alike are told apart by nothing else either.
fn hash(info: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    info.hash(&mut hasher);
    hasher.finish()
}
