//! DATA chunks of one direction between being sent and being acknowledged.

use std::collections::VecDeque;

use sctp::packet::{Sack, Tsn};

use crate::Time;

/// What is on its way in one direction of an association.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// The TSN of the first entry of `sent`; nothing below it is outstanding.
    first: Tsn,
    sent: VecDeque<Option<Sent>>,
    has_begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    time: Time,
    path: usize,
    /// It was sent again: which time is acknowledged nobody knows (Karn's algorithm).
    is_repeated: bool,
    is_acknowledged: bool,
}

/// A round trip: on which path, and how many nanoseconds.
pub(super) type RoundTrip = (usize, i64);

impl Flight {
    /// TSNs that a capture may lack in a row; what is beyond is a jump that belongs to something else.
    const WIDEST_GAP: usize = 1_024;

    /// TSNs that are remembered until they are acknowledged.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// A DATA chunk is seen. Whether it was before.
    pub(super) fn send(&mut self, tsn: Tsn, time: Time, path: usize) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            self.first = tsn;
        }
        if tsn < self.first {
            return true;
        }
        let at = tsn.distance_from(self.first) as usize;
        if at >= self.sent.len() + Self::WIDEST_GAP {
            // The association has begun anew, or the SACKs are not in the capture.
            self.sent.clear();
            self.first = tsn;
            return self.send_at(0, time, path);
        }
        self.send_at(at, time, path)
    }

    fn send_at(&mut self, at: usize, time: Time, path: usize) -> bool {
        if self.sent.len() <= at {
            self.sent.resize(at + 1, None);
        }
        match &mut self.sent[at] {
            Some(sent) => {
                sent.is_repeated = true;
                true
            }
            none => {
                *none = Some(Sent {
                    time,
                    path,
                    is_repeated: false,
                    is_acknowledged: false,
                });
                false
            }
        }
    }

    /// A SACK from the other end: returns the round trip of the newest chunk that it acknowledges first,
    /// if that was sent once.
    pub(super) fn acknowledge(&mut self, sack: &Sack<'_>, time: Time) -> Option<RoundTrip> {
        if !self.has_begun {
            return None;
        }
        let mut newest: Option<Sent> = None;
        let mut take = |sent: &mut Option<Sent>| {
            if let Some(sent) = sent
                && !sent.is_acknowledged
            {
                sent.is_acknowledged = true;
                if newest.is_none_or(|newest| newest.time <= sent.time) {
                    newest = Some(*sent);
                }
            }
        };
        let acknowledged = sack.cumulative_tsn_ack.next().distance_from(self.first) as usize;
        if acknowledged <= self.sent.len() + Self::WIDEST_GAP {
            for mut sent in self.sent.drain(..acknowledged.min(self.sent.len())) {
                take(&mut sent);
            }
            self.first = sack.cumulative_tsn_ack.next();
        }
        for block in sack.gap_ack_blocks.iter() {
            let place = |offset: u16| {
                let tsn = sack.cumulative_tsn_ack + u32::from(offset);
                tsn.distance_from(self.first) as usize
            };
            let (start, end) = (place(block.start), place(block.end));
            if start <= end && end < self.sent.len() {
                for sent in self.sent.range_mut(start..=end) {
                    take(sent);
                }
            }
        }
        let newest = newest.filter(|sent| !sent.is_repeated)?;
        Some((newest.path, time - newest.time))
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use sctp::packet::{Chunk, GapAckBlocks, Packet, PacketWriter, TsnList};

    use super::*;

    /// A SACK as it lies in a packet.
    fn acknowledge(flight: &mut Flight, ack: u32, time: i64) -> Option<RoundTrip> {
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1200);
        let sack = Sack {
            cumulative_tsn_ack: Tsn(ack),
            a_rwnd: 1000,
            gap_ack_blocks: GapAckBlocks::default(),
            duplicate_tsns: TsnList::default(),
        };
        writer.chunk(&Chunk::Sack(sack)).expect("it fits");
        let buffer = writer.finish();
        let packet = Packet::read(&buffer).expect("a packet");
        match packet.chunks().next() {
            Some(Ok(Chunk::Sack(sack))) => flight.acknowledge(&sack, Time(time)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_round_trip_ends_with_the_sack() {
        let mut flight = Flight::default();
        assert!(!flight.send(Tsn(u32::MAX), Time(10), 0));
        assert!(!flight.send(Tsn(0), Time(20), 1));
        assert_eq!(acknowledge(&mut flight, 0, 50), Some((1, 30)));
        assert_eq!(acknowledge(&mut flight, 0, 60), None);
    }

    #[test]
    fn what_is_sent_again_is_no_measure() {
        let mut flight = Flight::default();
        assert!(!flight.send(Tsn(7), Time(10), 0));
        assert!(flight.send(Tsn(7), Time(20), 0));
        assert_eq!(acknowledge(&mut flight, 7, 50), None);
        assert!(flight.send(Tsn(7), Time(60), 0), "acknowledged already");
    }

    #[test]
    fn a_jump_begins_anew() {
        let mut flight = Flight::default();
        flight.send(Tsn(1), Time(0), 0);
        flight.send(Tsn(1 << 30), Time(1), 0);
        assert!(flight.sent.len() <= 1);
    }
}
