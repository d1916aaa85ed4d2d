//! Calls as ladder diagrams.

use std::net::IpAddr;

use report::{Arrow, ArrowKind, Ladder};

use super::stream_label;
use crate::analysis::{KeptCall, Labels};
use crate::chunks::{ChunkArrow, ChunkArrows};
use crate::{Endpoint, M3uaAssociation, Results, Time};

/// Messages drawn of one call.
const MOST_ARROWS: usize = 500;

/// Associations with M3UA that are drawn on a page.
const MOST_M3UA: usize = 20;

impl Results {
    /// Ladders of the calls that were asked for by Call-ID.
    /// And those of the associations with M3UA that were asked for.
    pub fn named_ladders(&self, chunks: Option<&ChunkArrows>) -> Vec<Ladder> {
        let mut ladders = self.ladders(&self.named, chunks);
        let wanted = self.m3ua_wanted.iter();
        ladders.extend(wanted.filter_map(|number| self.m3ua_ladder(*number, chunks)));
        ladders
    }

    /// Ladders of the first associations with M3UA, without those that were asked for.
    pub fn m3ua_ladders(&self, chunks: Option<&ChunkArrows>) -> Vec<Ladder> {
        (1..=MOST_M3UA)
            .filter(|number| !self.m3ua_wanted.contains(number))
            .filter_map(|number| self.m3ua_ladder(number, chunks))
            .collect()
    }

    /// Ladders of calls that failed, in the order in which they ended.
    pub fn failed_ladders(&self, chunks: Option<&ChunkArrows>) -> Vec<Ladder> {
        self.ladders(&self.failed, chunks)
    }

    /// Ladders of the calls with the longest set-up, the longest first.
    pub fn slowest_ladders(&self, chunks: Option<&ChunkArrows>) -> Vec<Ladder> {
        self.ladders(&self.slowest, chunks)
    }

    /// The messages of an association with M3UA; they are numbered from 1 on.
    fn m3ua_ladder(&self, number: usize, chunks: Option<&ChunkArrows>) -> Option<Ladder> {
        let association = self.m3ua.associations().get(number.checked_sub(1)?)?;
        let (arrows, omitted) = association.arrows();
        let steps = arrows.iter().map(|arrow| Step {
            time: arrow.time,
            source: arrow.source,
            destination: arrow.destination,
            packet: arrow.packet,
            label: arrow.label.to_string(),
            kind: arrow.kind,
            is_repeated: false,
        });
        let (source, destination) = (association.source, association.destination);
        let title = format!("M3UA {number}: {source} ↔ {destination}");
        let steps = with_chunks(steps.collect(), chunks, &ends_of(association));
        Some(draw_steps(title, steps, omitted))
    }

    /// Between whom, and when, the calls to be drawn were: what SCTP chunks are looked for.
    pub fn drawn_calls(&self) -> impl Iterator<Item = (Vec<Endpoint>, Time, Time)> {
        let calls = [&self.named, &self.failed, &self.slowest];
        let calls = calls.into_iter().flatten().filter_map(|call| {
            let entries = &call.exchange.entries;
            let (first, last) = (entries.first()?, entries.last()?);
            Some((call.exchange.ends.clone(), first.sent, last.sent))
        });
        let m3ua = self.m3ua.associations().iter().filter_map(|association| {
            let (arrows, _) = association.arrows();
            let (first, last) = (arrows.first()?, arrows.last()?);
            Some((ends_of(association), first.time, last.time))
        });
        calls.chain(m3ua)
    }

    fn ladders(&self, calls: &[KeptCall], chunks: Option<&ChunkArrows>) -> Vec<Ladder> {
        calls
            .iter()
            .map(|call| draw(call, &self.labels, chunks))
            .collect()
    }
}

/// One line of a diagram before it is drawn.
struct Step {
    time: Time,
    source: Endpoint,
    destination: Endpoint,
    /// The number of the packet in its file.
    packet: u64,
    label: String,
    kind: ArrowKind,
    is_repeated: bool,
}

fn draw(call: &KeptCall, labels: &Labels, chunks: Option<&ChunkArrows>) -> Ladder {
    let exchange = &call.exchange;
    let steps: Vec<Step> = exchange
        .entries
        .iter()
        .filter_map(|entry| {
            let end = |at: u8| exchange.ends.get(usize::from(at)).copied();
            let mut label = labels.text(entry.label);
            if entry.flags.has_session_description {
                label.push_str(" (SDP)");
            }
            Some(Step {
                time: entry.sent,
                source: end(entry.source)?,
                destination: end(entry.destination)?,
                packet: entry.packet,
                label,
                kind: match entry.status() {
                    None => ArrowKind::Request,
                    Some(100..=299) => ArrowKind::Good,
                    Some(_) => ArrowKind::Bad,
                },
                is_repeated: entry.flags.is_retransmission,
            })
        })
        .collect();
    let mut steps = with_chunks(steps, chunks, &exchange.ends);
    let streams = call.session.iter().flat_map(|session| &session.rtp);
    steps.extend(streams.map(|stream| Step {
        time: stream.began,
        source: stream.source,
        destination: stream.destination,
        packet: stream.packet,
        label: stream_label(stream),
        kind: ArrowKind::Transport,
        is_repeated: false,
    }));
    steps.sort_by_key(|step| step.time);
    draw_steps(title(call), steps, exchange.omitted)
}

/// Puts SCTP control chunks between messages.
fn with_chunks(mut steps: Vec<Step>, chunks: Option<&ChunkArrows>, ends: &[Endpoint]) -> Vec<Step> {
    if let (Some(chunks), Some(first), Some(last)) = (chunks, steps.first(), steps.last()) {
        let between = chunks.between(ends, first.time, last.time);
        let between: Vec<Step> = between.map(step_of).collect();
        steps.extend(between);
        steps.sort_by_key(|step| step.time);
    }
    steps
}

/// The ends that the messages of an association went between: an end may have several addresses.
fn ends_of(association: &M3uaAssociation) -> Vec<Endpoint> {
    let (arrows, _) = association.arrows();
    let mut ends: Vec<Endpoint> = arrows
        .iter()
        .flat_map(|arrow| [arrow.source, arrow.destination])
        .collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Draws steps that are in the order of time; so many messages are left out already.
fn draw_steps(title: String, mut steps: Vec<Step>, omitted: u64) -> Ladder {
    let first = steps.first().map_or(Time::default(), |step| step.time);
    let left_out = steps.len().saturating_sub(MOST_ARROWS) as u64 + omitted;
    steps.truncate(MOST_ARROWS);

    let columns = Columns::of(steps.iter().map(|step| (step.source, step.destination)));
    let mut ladder = Ladder::new(title, columns.names());
    for step in steps {
        let (Some(from), Some(to)) = (columns.place(step.source), columns.place(step.destination))
        else {
            continue;
        };
        let milliseconds = (step.time - first) as f64 / 1e6;
        ladder.push(Arrow {
            time: format!("#{}  {milliseconds:.3} ms", step.packet),
            from,
            to,
            label: step.label,
            kind: step.kind,
            is_repeated: step.is_repeated,
        });
    }
    match left_out {
        0 => ladder,
        left_out => ladder.note(format!("{left_out} messages are left out.")),
    }
}

fn step_of(chunk: &ChunkArrow) -> Step {
    Step {
        time: chunk.time,
        source: chunk.source,
        destination: chunk.destination,
        packet: chunk.packet,
        label: chunk.label.clone(),
        kind: ArrowKind::Transport,
        is_repeated: false,
    }
}

fn title(call: &KeptCall) -> String {
    let call_ids = super::session_table::joined(&call.exchange.call_ids);
    let Some(session) = &call.session else {
        return match &*call.exchange.from {
            "" => call_ids,
            user => format!("{user}: {call_ids}"),
        };
    };
    let mut title = format!(
        "{}: {} → {}, {}",
        session.number,
        session.from,
        session.to,
        session.outcome.text()
    );
    if let Some(status) = session.outcome.status() {
        title.push_str(&format!(" {status}"));
    }
    if let Some(delay) = session.call_setup_delay() {
        let milliseconds = report::format_milliseconds(delay as f64 / 1e6);
        title.push_str(&format!(", set up in {milliseconds} ms"));
    }
    format!("{title} ({call_ids})")
}

/// One column a host; one an address and port where a host talks to itself.
pub(crate) struct Columns {
    by_port: bool,
    ends: Vec<Endpoint>,
}

impl Columns {
    /// Of messages between these ends.
    pub(crate) fn of(ways: impl Iterator<Item = (Endpoint, Endpoint)> + Clone) -> Columns {
        let by_port = ways
            .clone()
            .any(|(source, destination)| source.address == destination.address);
        let mut columns = Columns {
            by_port,
            ends: Vec::new(),
        };
        for end in ways.flat_map(|(source, destination)| [source, destination]) {
            if columns.place(end).is_none() {
                columns.ends.push(end);
            }
        }
        columns
    }

    /// Which column an end has.
    pub(crate) fn place(&self, end: Endpoint) -> Option<usize> {
        self.ends.iter().position(|known| {
            known.address == end.address && (!self.by_port || known.port == end.port)
        })
    }

    /// What stands above each.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |end: &Endpoint| match (self.by_port, end.address) {
            (true, _) => end.to_string(),
            (false, IpAddr::V4(address)) => address.to_string(),
            (false, IpAddr::V6(address)) => address.to_string(),
        };
        self.ends.iter().map(name).collect()
    }
}
