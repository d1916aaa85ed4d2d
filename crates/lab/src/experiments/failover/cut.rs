//! The primary path is cut after a known packet, and then restored.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sctp::packet::{Chunk, Packet as SctpPacket};
use sctp::{Event, PathChange};
use sim::{LinkId, Sent, Simulation};
use sim_transport::{FlowId, Load, Packet, TcpConfig, TransportHost};

use super::timing::{INTERVAL, Timing};
use crate::context::Context;
use crate::pair::{NetworkConfig, Pair, address};

/// From one host to the other.
pub(super) const DELAY: Duration = Duration::from_millis(10);
pub(super) const MESSAGE: usize = 100;
/// Packets with data that the primary path carries before it is cut.
pub(super) const PACKETS: usize = 500;
/// The user is silent at last, so that all that was said can arrive.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// What was observed; times are since the beginning.
pub(super) struct Observation {
    pub(super) timing: Timing,
    pub(super) cut: Duration,
    pub(super) mended: Duration,
    /// Messages that were sent.
    pub(super) sent: u64,
    /// Messages that came, with their numbers.
    pub(super) arrivals: Vec<(Duration, u64)>,
    /// DATA chunks that went out.
    pub(super) chunks: Vec<SentChunk>,
    /// The error counter of the primary path whenever it changed.
    pub(super) errors: Vec<(Duration, u32)>,
    /// What the sender was told of the primary path.
    pub(super) changes: Vec<(Duration, PathChange)>,
}

/// A DATA chunk that went out.
pub(super) struct SentChunk {
    pub(super) at: Duration,
    /// 0 is the primary path.
    pub(super) path: usize,
    /// Which path it went over the time before, if this is not the first time.
    pub(super) before: Option<usize>,
    /// Whether something that was sent again was in the same packet: what is new may fill up such a
    /// packet, wherever that goes.
    pub(super) fills_up: bool,
}

/// The chunks of one packet that goes over a path; `last_path` knows where each TSN went last.
pub(super) fn chunks_of_packet(
    at: Duration,
    path: usize,
    tsns: &[u32],
    last_path: &mut BTreeMap<u32, usize>,
) -> Vec<SentChunk> {
    let fills_up = tsns.iter().any(|tsn| last_path.contains_key(tsn));
    tsns.iter()
        .map(|tsn| SentChunk {
            at,
            path,
            before: last_path.insert(*tsn, path),
            fills_up,
        })
        .collect()
}

impl Observation {
    /// Each time that an error was counted on the primary path, from the cut until it was mended.
    pub(super) fn expiries(&self) -> impl Iterator<Item = Duration> {
        let outage = self.cut..self.mended;
        let counts = self
            .errors
            .iter()
            .filter(move |(at, _)| outage.contains(at));
        counts.filter(|(_, errors)| *errors > 0).map(|(at, _)| *at)
    }

    /// Notes the error counter of the primary path, if it has changed.
    pub(super) fn note_errors(&mut self, at: Duration, count: u32) {
        if self.errors.last().is_none_or(|(_, last)| *last != count) {
            self.errors.push((at, count));
        }
    }

    /// When the primary path was given up.
    pub(super) fn inactive(&self) -> Option<Duration> {
        let mut changes = self.changes.iter();
        let inactive = changes.find(|(_, change)| *change == PathChange::Unreachable)?;
        Some(inactive.0)
    }

    /// When data went over the other path that had not been anywhere before, but for what fills up
    /// a packet of what is sent again.
    pub(super) fn moved(&self) -> Option<Duration> {
        let mut chunks = self.chunks.iter();
        let moved =
            chunks.find(|chunk| chunk.at > self.cut && chunk.path == 1 && !chunk.fills_up)?;
        Some(moved.at)
    }

    /// When data went over the primary path again after it was mended.
    pub(super) fn returned(&self) -> Option<Duration> {
        let mut chunks = self.chunks.iter();
        let returned = chunks.find(|chunk| chunk.at > self.mended && chunk.path == 0)?;
        Some(returned.at)
    }

    /// What was sent again.
    pub(super) fn sent_again(&self) -> impl Iterator<Item = &SentChunk> {
        self.chunks.iter().filter(|chunk| chunk.before.is_some())
    }

    /// The longest time in which nothing came, while the user spoke.
    pub(super) fn longest_silence(&self) -> Duration {
        let pairs = self.arrivals.windows(2);
        let silences = pairs.map(|pair| pair[1].0 - pair[0].0);
        silences.max().unwrap_or_default()
    }

    /// Whether every message came once and in order.
    pub(super) fn is_whole(&self) -> bool {
        let numbers = self.arrivals.iter().map(|(_, number)| *number);
        numbers.eq(0..self.sent)
    }
}

pub(super) fn observe(
    context: &Context,
    number: u64,
    timing: &Timing,
) -> anyhow::Result<Observation> {
    let networks = [NetworkConfig {
        delay: DELAY,
        ..NetworkConfig::default()
    }; 2];
    let mut pair = Pair::new(
        context,
        number,
        &networks,
        &timing.config,
        TcpConfig::default(),
    );
    pair.simulation.record();
    let flow = pair.open_sctp(Load::Paced {
        message: MESSAGE,
        interval: INTERVAL,
        remaining: None,
        streams: 1,
        unordered: false,
    })?;
    let mut errors = Errors::of(&pair, flow);

    let (mut seen, mut packets) = (0, 0);
    let start = pair.start;
    // Twice the time that the packets take, if all goes well.
    let latest = start + INTERVAL * PACKETS as u32 * 2;
    pair.simulation.run(latest, |simulation| {
        errors.look(simulation);
        let trace = simulation.trace();
        let new = trace.get(seen..).unwrap_or_default();
        packets += new.iter().filter(|sent| is_data_to_primary(sent)).count();
        seen = trace.len();
        packets >= PACKETS
    })?;
    anyhow::ensure!(
        packets >= PACKETS,
        "{packets} packets with data of {PACKETS}"
    );
    let cut = pair.simulation.now();
    set_up(&mut pair.simulation, pair.links[0], false);
    let mended = cut + timing.outage;
    pair.simulation
        .run(mended, |simulation| errors.look(simulation))?;
    set_up(&mut pair.simulation, pair.links[0], true);
    let end = mended + timing.after;
    pair.simulation
        .run(end, |simulation| errors.look(simulation))?;
    let now = pair.simulation.now();
    pair.client().set_load(now, flow, Load::None);
    pair.simulation
        .run(end + SILENCE, |simulation| errors.look(simulation))?;

    let since = |at: Instant| at - start;
    let client = pair.simulation.host(pair.client);
    let sent = client.flow_state(flow).map_or(0, |state| state.sent);
    let primary = address(0, 2);
    let changes = client
        .events()
        .iter()
        .filter_map(|(at, _, event)| match event {
            Event::PathStateChanged { path, change, .. } if path.remote == primary => {
                Some((since(*at), *change))
            }
            _ => None,
        });
    Ok(Observation {
        timing: timing.clone(),
        cut: since(cut),
        mended: since(mended),
        sent,
        arrivals: pair
            .deliveries()
            .iter()
            .map(|delivery| (since(delivery.at), delivery.number))
            .collect(),
        chunks: chunks(pair.simulation.trace(), start),
        changes: changes.filter(|(at, _)| *at > since(cut)).collect(),
        errors: errors.changes,
    })
}

fn set_up(simulation: &mut Simulation<TransportHost>, links: [LinkId; 2], up: bool) {
    for link in links {
        simulation.network_mut().link_mut(link).set_up(up);
    }
}

/// Looks at the error counter of the primary path after each thing that happens.
struct Errors {
    start: Instant,
    client: sim::HostId,
    flow: FlowId,
    changes: Vec<(Duration, u32)>,
}

impl Errors {
    fn of(pair: &Pair, flow: FlowId) -> Errors {
        Errors {
            start: pair.start,
            client: pair.client,
            flow,
            changes: Vec::new(),
        }
    }

    /// Always `false`: there is more to see.
    fn look(&mut self, simulation: &Simulation<TransportHost>) -> bool {
        let primary = address(0, 2);
        let status = simulation.host(self.client).sctp_status(self.flow);
        let count = status.and_then(|status| {
            let mut paths = status.paths.iter();
            let path = paths.find(|path| path.address.remote == primary)?;
            Some(path.error_count)
        });
        if let Some(count) = count
            && self.changes.last().is_none_or(|(_, last)| *last != count)
        {
            self.changes.push((simulation.now() - self.start, count));
        }
        false
    }
}

fn is_data_to_primary(sent: &Sent<Packet>) -> bool {
    sent.datagram.destination == address(0, 2) && tsns(sent).next().is_some()
}

/// The DATA chunks of a trace that went to the server.
fn chunks(trace: &[Sent<Packet>], start: Instant) -> Vec<SentChunk> {
    let mut last_path = BTreeMap::new();
    let mut chunks = Vec::new();
    for sent in trace {
        let path = [0, 1]
            .into_iter()
            .find(|network| sent.datagram.destination == address(*network, 2));
        let Some(path) = path.map(usize::from) else {
            continue;
        };
        let tsns: Vec<u32> = tsns(sent).collect();
        chunks.extend(chunks_of_packet(
            sent.at - start,
            path,
            &tsns,
            &mut last_path,
        ));
    }
    chunks
}

/// The TSNs of the DATA chunks in a packet.
pub(super) fn tsns(sent: &Sent<Packet>) -> impl Iterator<Item = u32> {
    let packet = match &sent.datagram.payload {
        Packet::Sctp(packet) => SctpPacket::read(packet).ok(),
        Packet::Tcp(_) => None,
    };
    let chunks = packet.into_iter().flat_map(|packet| packet.chunks());
    chunks.flatten().filter_map(|chunk| match chunk {
        Chunk::Data(data) => Some(data.tsn.0),
        _ => None,
    })
}
