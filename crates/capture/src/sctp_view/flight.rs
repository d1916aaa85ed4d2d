//! DATA chunks of one direction between being sent and being acknowledged.

use std::collections::VecDeque;

use sctp::packet::{GapAckBlock, Tsn};

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

    /// A SACK or NR-SACK from the other end: returns the round trip of the newest chunk that it acknowledges
    /// first, if that was sent once.
    pub(super) fn acknowledge(
        &mut self,
        cumulative_tsn_ack: Tsn,
        gap_ack_blocks: impl Iterator<Item = GapAckBlock>,
        time: Time,
    ) -> Option<RoundTrip> {
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
        let acknowledged = cumulative_tsn_ack.next().distance_from(self.first) as usize;
        if acknowledged <= self.sent.len() + Self::WIDEST_GAP {
            for mut sent in self.sent.drain(..acknowledged.min(self.sent.len())) {
                take(&mut sent);
            }
            self.first = cumulative_tsn_ack.next();
        }
        for block in gap_ack_blocks {
            let place = |offset: u16| {
                let tsn = cumulative_tsn_ack + u32::from(offset);
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

    /// A FORWARD-TSN or I-FORWARD-TSN: returns how many TSNs it skips for the first time, without those that
    /// the other end has received.
    pub(super) fn skip_to(&mut self, new_cumulative_tsn: Tsn) -> u64 {
        let next = new_cumulative_tsn.next();
        let skipped = next.distance_from(self.first) as usize;
        // What is further away is behind, or belongs to something else.
        if !self.has_begun || skipped > self.sent.len() + Self::WIDEST_GAP {
            return 0;
        }
        let known = self.sent.drain(..skipped.min(self.sent.len()));
        let received = known.flatten().filter(|sent| sent.is_acknowledged).count();
        self.first = next;
        (skipped - received) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledge(flight: &mut Flight, ack: u32, time: i64) -> Option<RoundTrip> {
        flight.acknowledge(Tsn(ack), std::iter::empty(), Time(time))
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
    fn what_is_skipped_and_was_not_received_is_abandoned_once() {
        let mut flight = Flight::default();
        assert_eq!(flight.skip_to(Tsn(7)), 0, "nothing was sent");
        for tsn in 7..=11 {
            flight.send(Tsn(tsn), Time(0), 0);
        }
        let received = GapAckBlock { start: 2, end: 2 };
        flight.acknowledge(Tsn(7), std::iter::once(received), Time(1));
        // 8 and 10, for 9 was received.
        assert_eq!(flight.skip_to(Tsn(10)), 2);
        assert_eq!(flight.skip_to(Tsn(10)), 0);
        assert_eq!(flight.skip_to(Tsn(8)), 0);
        // 11, and 12, which the capture lacks.
        assert_eq!(flight.skip_to(Tsn(12)), 2);
        assert_eq!(flight.len(), 0);
        assert_eq!(flight.skip_to(Tsn(1 << 30)), 0, "a jump");
    }

    #[test]
    fn a_jump_begins_anew() {
        let mut flight = Flight::default();
        flight.send(Tsn(1), Time(0), 0);
        flight.send(Tsn(1 << 30), Time(1), 0);
        assert!(flight.sent.len() <= 1);
    }
}
