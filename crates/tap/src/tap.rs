//! A capture of packets beside live traffic.

use crate::Record;
use crate::capture_writer::{append_prelude, append_record};
use crate::live::Live;
use std::io;
use std::path::Path;

/// A capture of live traffic in a file. Clones write to the same file.
///
/// Recording copies the packet and never waits for the file, which a thread writes every second
/// and whenever much has gathered. When the file does not keep up, packets are left out of the
/// capture and counted. When writing fails the log says so, once, and the capture ends there; the
/// traffic goes on.
///
/// The file is complete when the last clone is dropped, and up to any moment by [`Tap::flush`].
#[derive(Debug, Clone)]
pub struct Tap {
    live: Live,
}

/// What a [`Tap`] or [`MessageTap`](crate::MessageTap) has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapStatistics {
    /// Packets or messages that were recorded.
    pub recorded: u64,
    /// Those that were left out: the file did not keep up, or could not be written any more, or the
    /// packet was too long for IP.
    pub dropped: u64,
    /// Those that were left out because the file had reached its largest size.
    pub beyond_limit: u64,
}

impl Tap {
    /// Begins a capture in a new file; one that is there is overwritten. `interface` is the name by
    /// which Wireshark shows where it was taken.
    ///
    /// # Errors
    ///
    /// When the file or the thread cannot be made.
    pub fn create(path: impl AsRef<Path>, interface: &str) -> io::Result<Tap> {
        Tap::with_limit(path, interface, u64::MAX)
    }

    /// As [`Tap::create`], for a file of about `limit` bytes at most: what comes later is left out.
    ///
    /// # Errors
    ///
    /// When the file or the thread cannot be made.
    pub fn with_limit(path: impl AsRef<Path>, interface: &str, limit: u64) -> io::Result<Tap> {
        let mut prelude = Vec::new();
        append_prelude(interface, &mut prelude);
        let live = Live::create(path.as_ref(), &prelude, limit)?;
        Ok(Tap { live })
    }

    /// Records one packet.
    pub fn record(&self, record: &Record<'_>) {
        self.live
            .record(record.packet.len(), |out| append_record(record, "", out));
    }

    /// Waits until all that was recorded before is in the file.
    ///
    /// # Errors
    ///
    /// When it could not be written, now or earlier.
    pub fn flush(&self) -> io::Result<()> {
        self.live.flush()
    }

    /// What was recorded and left out so far.
    pub fn statistics(&self) -> TapStatistics {
        self.live.statistics()
    }
}
