//! SCTP control chunks beside the messages of calls, for ladder diagrams.

use std::fmt::Write as _;
use std::net::IpAddr;

use sctp::packet::Chunk;

use crate::{Endpoint, Seen, Time, What};

/// A packet of SCTP with control chunks, as an arrow.
#[derive(Clone, Debug)]
pub(crate) struct ChunkArrow {
    pub(crate) time: Time,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) packet: u64,
    pub(crate) label: String,
}

/// The control chunks that were sent while certain calls lasted, between those who took part.
#[derive(Debug)]
pub struct ChunkArrows {
    wanted: Vec<Wanted>,
    arrows: Vec<ChunkArrow>,
}

#[derive(Debug)]
struct Wanted {
    ends: Vec<Endpoint>,
    from: Time,
    until: Time,
}

impl ChunkArrows {
    /// Arrows kept in all.
    const MOST: usize = 100_000;
    /// How long before and after a call its association's chunks belong to it: the set-up before the first
    /// message, the SACK after the last.
    const MARGIN_NANOSECONDS: i64 = 500_000_000;

    /// For calls between these ends from one time to another.
    pub fn new(calls: impl IntoIterator<Item = (Vec<Endpoint>, Time, Time)>) -> ChunkArrows {
        let wanted = calls.into_iter().map(|(ends, first, last)| Wanted {
            ends,
            from: first.moved(-Self::MARGIN_NANOSECONDS),
            until: last.moved(Self::MARGIN_NANOSECONDS),
        });
        ChunkArrows {
            wanted: wanted.collect(),
            arrows: Vec::new(),
        }
    }

    /// Takes note of an SCTP packet of one of the calls; everything else is passed over.
    pub fn see(&mut self, seen: &Seen<'_>) {
        let What::Sctp(sctp) = &seen.what else {
            return;
        };
        let is_wanted = |wanted: &Wanted| {
            wanted.from <= seen.time
                && seen.time <= wanted.until
                && is_between(&wanted.ends, seen.source.address, seen.destination.address)
        };
        if self.arrows.len() >= Self::MOST || !self.wanted.iter().any(is_wanted) {
            return;
        }
        let mut label = String::new();
        for chunk in sctp.packet.chunks().flatten() {
            // The messages in DATA are arrows themselves.
            if let Chunk::Data(_) = chunk {
                continue;
            }
            let separator = if label.is_empty() { "" } else { " + " };
            let _ = write!(label, "{separator}{}", chunk.chunk_type());
        }
        if !label.is_empty() {
            self.arrows.push(ChunkArrow {
                time: seen.time,
                source: seen.source,
                destination: seen.destination,
                packet: seen.packet,
                label,
            });
        }
    }

    /// The arrows of a call.
    pub(crate) fn between<'c>(
        &'c self,
        ends: &'c [Endpoint],
        first: Time,
        last: Time,
    ) -> impl Iterator<Item = &'c ChunkArrow> {
        let from = first.moved(-Self::MARGIN_NANOSECONDS);
        let until = last.moved(Self::MARGIN_NANOSECONDS);
        self.arrows.iter().filter(move |arrow| {
            from <= arrow.time
                && arrow.time <= until
                && ends.contains(&arrow.source)
                && ends.contains(&arrow.destination)
        })
    }
}

/// Whether both addresses are of those who took part.
fn is_between(ends: &[Endpoint], source: IpAddr, destination: IpAddr) -> bool {
    let takes_part = |address| ends.iter().any(|end| end.address == address);
    takes_part(source) && takes_part(destination)
}
