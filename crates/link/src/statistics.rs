//! What a link has done.

use crate::Verdict;

/// Counters of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStatistics {
    /// Packets that were offered.
    pub offered_packets: u64,
    /// Bytes of these.
    pub offered_bytes: u64,
    /// Packets that were lost.
    pub lost_packets: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Packets that arrive twice.
    pub duplicated_packets: u64,
}

impl LinkStatistics {
    pub(crate) fn count(&mut self, verdict: &Verdict, bytes: usize) {
        let bytes = bytes as u64;
        self.offered_packets += 1;
        self.offered_bytes += bytes;
        match verdict.deliveries().count() {
            0 => {
                self.lost_packets += 1;
                self.lost_bytes += bytes;
            }
            1 => {}
            _ => self.duplicated_packets += 1,
        }
    }
}
