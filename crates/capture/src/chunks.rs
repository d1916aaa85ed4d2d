//! SCTP control chunks beside the messages of calls, for ladder diagrams.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::IpAddr;

use sctp::packet::Chunk;

use crate::sctp_view::label_of;
use crate::{Endpoint, Event, EventKind, Time};

/// A packet of SCTP with control chunks, as an arrow.
#[derive(Clone, Debug)]
pub(crate) struct ChunkArrow {
    pub(crate) time: Time,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) packet: u64,
    /// It belongs to the handshake.
    sets_up: bool,
    pub(crate) label: String,
}

/// The control chunks that were sent between those who took part in calls.
#[derive(Debug)]
pub struct ChunkArrows {
    /// The calls; `None`: all, whichever they will be.
    wanted: Option<Vec<Wanted>>,
    /// In the order in which they were seen.
    arrows: VecDeque<ChunkArrow>,
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
    /// How long before a call the set-up of its association belongs to it.
    const BEFORE_NANOSECONDS: i64 = 5_000_000_000;
    /// How long after a call chunks belong to it: a SACK may be delayed by 200 ms (RFC 9260 section 6.2).
    const AFTER_NANOSECONDS: i64 = 250_000_000;

    /// Those of calls between these ends from one time to another: the first hundred thousand packets.
    pub fn of_calls(calls: impl IntoIterator<Item = (Vec<Endpoint>, Time, Time)>) -> ChunkArrows {
        let wanted = calls.into_iter().map(|(ends, first, last)| Wanted {
            ends,
            from: first,
            until: last.moved(Self::AFTER_NANOSECONDS),
        });
        ChunkArrows {
            wanted: Some(wanted.collect()),
            arrows: VecDeque::new(),
        }
    }

    /// Those of all calls, of which it is not known yet which are to be drawn: the last hundred thousand packets.
    pub fn latest() -> ChunkArrows {
        ChunkArrows {
            wanted: None,
            arrows: VecDeque::new(),
        }
    }

    /// Takes note of an SCTP packet with control chunks, of one of the calls; everything else is passed over.
    pub fn observe(&mut self, event: &Event<'_>) {
        let EventKind::Sctp(sctp) = &event.kind else {
            return;
        };
        let sets_up = sctp.packet.chunks().flatten().any(|chunk| sets_up(&chunk));
        let is_wanted = |wanted: &Wanted| {
            let from = match sets_up {
                true => wanted.from.moved(-Self::BEFORE_NANOSECONDS),
                false => wanted.from,
            };
            from <= event.time
                && event.time <= wanted.until
                && is_between(
                    &wanted.ends,
                    event.source.address,
                    event.destination.address,
                )
        };
        if let Some(wanted) = &self.wanted
            && (self.arrows.len() >= Self::MOST || !wanted.iter().any(is_wanted))
        {
            return;
        }
        let mut label = String::new();
        for chunk in sctp.packet.chunks().flatten() {
            // The messages in DATA are arrows themselves.
            if let Chunk::Data(_) | Chunk::IData(_) | Chunk::Pad(_) = chunk {
                continue;
            }
            let separator = if label.is_empty() { "" } else { " + " };
            let _ = write!(label, "{separator}{}", chunk.chunk_type());
            if let Some(requests) = label_of(&chunk) {
                let _ = write!(label, " ({requests})");
            }
        }
        if !label.is_empty() {
            if self.arrows.len() >= Self::MOST {
                self.arrows.pop_front();
            }
            self.arrows.push_back(ChunkArrow {
                time: event.time,
                source: event.source,
                destination: event.destination,
                packet: event.packet,
                sets_up,
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
        let until = last.moved(Self::AFTER_NANOSECONDS);
        self.arrows.iter().filter(move |arrow| {
            let from = match arrow.sets_up {
                true => first.moved(-Self::BEFORE_NANOSECONDS),
                false => first,
            };
            from <= arrow.time
                && arrow.time <= until
                && ends.contains(&arrow.source)
                && ends.contains(&arrow.destination)
        })
    }
}

/// Whether a chunk is part of the handshake.
fn sets_up(chunk: &Chunk<'_>) -> bool {
    matches!(
        chunk,
        Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_) | Chunk::CookieAck
    )
}

/// Whether both addresses are of those who took part.
fn is_between(ends: &[Endpoint], source: IpAddr, destination: IpAddr) -> bool {
    let takes_part = |address| ends.iter().any(|end| end.address == address);
    takes_part(source) && takes_part(destination)
}
