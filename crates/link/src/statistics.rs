//! What a link has done.

use crate::{DropCause, Verdict};

/// Counters of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStatistics {
    /// Packets that were offered.
    pub offered_packets: u64,
    /// Bytes of these.
    pub offered_bytes: u64,
    /// Packets that were lost on their way.
    pub lost_packets: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Packets that found no room in the queue.
    pub queue_full_packets: u64,
    /// Bytes of these.
    pub queue_full_bytes: u64,
    /// Packets that came while the link was down.
    pub down_packets: u64,
    /// Bytes of these.
    pub down_bytes: u64,
    /// Packets that arrive twice.
    pub duplicated_packets: u64,
}

impl LinkStatistics {
    pub(crate) fn count(&mut self, verdict: &Verdict, bytes: usize) {
        let bytes = bytes as u64;
        self.offered_packets += 1;
        self.offered_bytes += bytes;
        let (dropped_packets, dropped_bytes) = match verdict.drop_cause() {
            None => {
                self.duplicated_packets += u64::from(verdict.deliveries().count() > 1);
                return;
            }
            Some(DropCause::Lost) => (&mut self.lost_packets, &mut self.lost_bytes),
            Some(DropCause::QueueFull) => {
                (&mut self.queue_full_packets, &mut self.queue_full_bytes)
            }
            Some(DropCause::Down) => (&mut self.down_packets, &mut self.down_bytes),
        };
        *dropped_packets += 1;
        *dropped_bytes += bytes;
    }
}
