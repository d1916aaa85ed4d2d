//! What a signalling process has counted.

use crate::message::Kind;

/// Counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    received: Vec<u64>,
    sent: Vec<u64>,
    /// DATA received that was not for an active ASP, or without room in a pending AS.
    pub dropped: u64,
    /// Messages that were wrong and answered with an Error.
    pub refused: u64,
    /// Messages relayed from one peer to another.
    pub relayed: u64,
    /// Messages without a way to their destination.
    pub unroutable: u64,
    /// States of destinations that were told and not kept, as there are as many as may be.
    pub forgotten: u64,
    /// Messages that waited in a pending AS until T(r) expired.
    pub expired: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            received: vec![0; Kind::ALL.len()],
            sent: vec![0; Kind::ALL.len()],
            dropped: 0,
            refused: 0,
            relayed: 0,
            unroutable: 0,
            forgotten: 0,
            expired: 0,
        }
    }
}

impl Statistics {
    /// Messages of this kind that have come.
    pub fn received(&self, kind: Kind) -> u64 {
        self.received
            .get(kind as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Messages of this kind that were sent.
    pub fn sent(&self, kind: Kind) -> u64 {
        self.sent.get(kind as usize).copied().unwrap_or_default()
    }

    pub(crate) fn count_received(&mut self, kind: Kind) {
        if let Some(count) = self.received.get_mut(kind as usize) {
            *count += 1;
        }
    }

    pub(crate) fn count_sent(&mut self, kind: Kind) {
        if let Some(count) = self.sent.get_mut(kind as usize) {
            *count += 1;
        }
    }
}
