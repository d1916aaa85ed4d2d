//! What work takes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What repeated work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Work {
    /// Packets that it was done to.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
    /// What it took, nanoseconds.
    pub nanoseconds: u64,
}

impl Work {
    /// Adds a packet.
    pub fn add(&mut self, bytes: usize, time: Option<Duration>) {
        let nanoseconds = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }

    /// Nanoseconds a packet.
    pub fn nanoseconds_per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.nanoseconds as f64 / self.packets as f64)
    }

    /// Octets a second while it is done.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.nanoseconds > 0).then(|| self.bytes as f64 * 1e9 / self.nanoseconds as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_by_packet_and_by_time() {
        let mut work = Work::default();
        assert_eq!(
            (work.nanoseconds_per_packet(), work.bytes_per_second()),
            (None, None)
        );
        work.add(100, Some(Duration::from_nanos(200)));
        work.add(100, None);
        assert_eq!(work.nanoseconds_per_packet(), Some(100.0));
        assert_eq!(work.bytes_per_second(), Some(1e9));
    }
}
