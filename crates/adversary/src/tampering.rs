//! Two engines that talk to each other while their packets are changed.

use crate::chunks::{self, Chunk};
use crate::lists::{Few, Many};
use crate::pair::{Call, Pair, Setup, Source};
use arbitrary::Arbitrary;
use bytes::{Bytes, BytesMut};
use sctp::packet::{CommonHeader, Packet, checksum};
use std::collections::VecDeque;
use std::time::Duration;

/// What users say, and what is done to some of the packets; the others arrive as they are, in
/// order.
#[derive(Arbitrary, Debug, Clone)]
pub struct Tampering {
    setup: Setup,
    events: Many<Event>,
}

#[derive(Arbitrary, Debug, Clone)]
enum Event {
    /// A user speaks.
    Say(bool, Call),
    /// So many packets arrive untouched.
    Pass(u8),
    /// The next packet is changed.
    Change(Change),
}

#[derive(Arbitrary, Debug, Clone)]
pub(crate) enum Change {
    Lose,
    Repeat(u8),
    /// It arrives after so many later ones.
    HoldBack(u8),
    /// It comes back to where it came from.
    Reflect,
    From(Source),
    /// Bits of a byte behind the common header.
    Flip(u16, u8),
    /// Two bytes behind the common header.
    Put(u16, u16),
    /// A chunk is left out, and perhaps put at the end.
    Take(u8, bool),
    /// Chunks are put at the front, or at the end.
    Add(bool, Few<Chunk>),
    Truncate(u16),
    /// Everybody waits.
    Pass(u8),
}

impl Tampering {
    /// Plays it out.
    ///
    /// # Panics
    ///
    /// When an engine does what it must not.
    pub fn play(&self) {
        let mut pair = Pair::new(&self.setup);
        for event in self.events.iter() {
            match event {
                Event::Say(side, call) => pair.call(usize::from(*side), call),
                Event::Pass(packets) => {
                    for _ in 0..=*packets % 8 {
                        if let Some(side) = next_arrival(&mut pair) {
                            pair.deliver(side, 0);
                        }
                    }
                }
                Event::Change(change) => {
                    if let Some(side) = next_arrival(&mut pair) {
                        change.happen(&mut pair, side);
                    }
                }
            }
        }
        pair.end();
    }
}

/// Where the next packet arrives: at the side that more wait for. When there is none on the wire,
/// time passes until somebody has something to do.
pub(crate) fn next_arrival(pair: &mut Pair) -> Option<usize> {
    if pair.wire.iter().all(VecDeque::is_empty) {
        let next = pair.next_timeout()?;
        pair.pass(next.saturating_duration_since(pair.now));
    }
    let side = (0..2).max_by_key(|&side| pair.wire[side].len())?;
    (!pair.wire[side].is_empty()).then_some(side)
}

impl Change {
    pub(crate) fn happen(&self, pair: &mut Pair, side: usize) {
        let Some((from, packet)) = pair.wire[side].pop_front() else {
            return;
        };
        match self {
            Change::Lose => {}
            Change::Repeat(times) => {
                for _ in 0..=*times % 32 {
                    pair.arrive(side, from, packet.clone());
                }
            }
            Change::HoldBack(packets) => {
                let wire = &mut pair.wire[side];
                let place = usize::from(*packets).min(wire.len());
                wire.insert(place, (from, packet));
            }
            Change::Reflect => {
                let back = pair.source(1 - side, Source::PEER);
                pair.arrive(1 - side, back, packet);
            }
            Change::From(source) => {
                let from = pair.source(side, *source);
                pair.arrive(side, from, packet);
            }
            Change::Pass(steps) => {
                pair.wire[side].push_front((from, packet));
                pair.pass(Duration::from_millis(u64::from(*steps).pow(2)));
            }
            change => {
                let packet = change.apply(pair, side, &packet);
                pair.arrive(side, from, packet);
            }
        }
    }

    /// The packet as it is after the change, with its checksum right again.
    fn apply(&self, pair: &Pair, side: usize, packet: &[u8]) -> Bytes {
        let (header, body) = packet.split_at(CommonHeader::LENGTH.min(packet.len()));
        let mut body = body.to_vec();
        let place = |place: u16| {
            usize::from(place)
                .checked_rem(body.len())
                .unwrap_or_default()
        };
        match self {
            Change::Flip(at, bits) => {
                let at = place(*at);
                body.iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= bits);
            }
            Change::Put(at, value) => {
                let at = place(*at);
                let bytes = body.iter_mut().skip(at).zip(value.to_be_bytes());
                bytes.for_each(|(byte, value)| *byte = value);
            }
            Change::Take(which, at_the_end) => {
                let packet = Packet::read(packet).expect("the engine's");
                let mut chunks: Vec<&[u8]> = packet
                    .chunks()
                    .raw()
                    .flatten()
                    .map(|chunk| chunk.bytes())
                    .collect();
                if let Some(which) = usize::from(*which).checked_rem(chunks.len()) {
                    let taken = chunks.remove(which);
                    chunks.extend(at_the_end.then_some(taken));
                }
                body = chunks.into_iter().fold(Vec::new(), |mut body, chunk| {
                    body.extend_from_slice(chunk);
                    body.resize(body.len().next_multiple_of(4), 0);
                    body
                });
            }
            Change::Add(at_the_end, added) => {
                let numbers = &pair.engines[side].numbers;
                let added = chunks::packet([0; 2], 0, added, numbers);
                let added = added.slice(CommonHeader::LENGTH..);
                body = if *at_the_end {
                    [&body[..], &added].concat()
                } else {
                    [&added, &body[..]].concat()
                };
            }
            Change::Truncate(length) => body.truncate(place(*length)),
            _ => {}
        }
        let mut packet = BytesMut::from(header);
        packet.extend_from_slice(&body);
        checksum::fill(&mut packet);
        packet.freeze()
    }
}
