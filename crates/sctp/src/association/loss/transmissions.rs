//! What was sent on one path, in the order of time (RFC 8985 section 6.2, last paragraph): losses are
//! looked for at its front only, so that a SACK costs what it acknowledges and what is lost, not what is
//! outstanding.

use std::collections::VecDeque;
use std::time::Instant;

use crate::packet::Tsn;

/// A chunk left at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) tsn: Tsn,
    pub(crate) sent: Instant,
}

/// The transmissions of one path, the earliest one first. One that is over, for the chunk was acknowledged
/// or has left again since, stays until it is found to be so.
#[derive(Debug, Default)]
pub(super) struct Transmissions {
    queue: VecDeque<Transmission>,
    /// Above this length, those that are over are cleared out.
    limit: usize,
}

/// Up to this length it is not worth while to clear out.
const LEAST_LIMIT: usize = 128;

impl Transmissions {
    /// A chunk leaves.
    pub(super) fn push(&mut self, transmission: Transmission) {
        self.queue.push_back(transmission);
    }

    /// A chunk that had counted as lost is in flight again; chunks are told in descending order of the
    /// time at which they left.
    pub(super) fn restore(&mut self, transmission: Transmission) {
        self.queue.push_front(transmission);
    }

    /// Clears those that are over out, where many may be.
    pub(super) fn tidy(&mut self, is_in_flight: impl Fn(Transmission) -> bool) {
        if self.queue.len() > self.limit.max(LEAST_LIMIT) {
            self.queue
                .retain(|transmission| is_in_flight(*transmission));
            self.limit = self.queue.len().saturating_mul(2);
        }
    }

    /// The earliest one that is in flight.
    pub(super) fn earliest(
        &mut self,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> Option<Transmission> {
        while let Some(front) = self.queue.front() {
            if is_in_flight(*front) {
                return Some(*front);
            }
            self.queue.pop_front();
        }
        None
    }

    /// Those in flight, the latest one first.
    pub(super) fn latest_first(
        &self,
        is_in_flight: impl Fn(Transmission) -> bool,
    ) -> impl Iterator<Item = Transmission> {
        let transmissions = self.queue.iter().rev().copied();
        transmissions.filter(move |transmission| is_in_flight(*transmission))
    }
}
