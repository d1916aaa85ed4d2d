//! Congestion control (RFC 9260 section 7): how many bytes may be in flight on one path.
//!
//! One trait, one file a controller. A controller knows its path's numbers and nothing of chunks; a coupled
//! one knows what the controllers of the association's other paths tell of theirs, too.

mod algorithm;
mod balia;
mod coupled;
mod cubic;
mod hystart;
mod lia;
mod olia;
mod resource_pooling;
mod rfc9260;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

pub use algorithm::{CongestionControl, UnknownCongestionControl};
pub(crate) use coupled::{CoupledPath, CoupledPaths};

/// What a SACK acknowledged on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckedBytes {
    /// Bytes newly acknowledged: chunks with header and padding.
    pub(crate) acknowledged: usize,
    /// Bytes in flight before the SACK arrived.
    pub(crate) flight_before: usize,
    /// Whether nothing is in flight any more.
    pub(crate) all_acknowledged: bool,
}

/// Round-trip times of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathRtt {
    /// SRTT (RFC 9260 section 6.3.1).
    pub(crate) smoothed: Duration,
    /// The latest measurement.
    pub(crate) latest: Duration,
    /// The least measurement.
    pub(crate) min: Duration,
}

/// What a controller is told of its path with every event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathConditions<'a> {
    /// When the event happens.
    pub(crate) now: Instant,
    /// `None` before the first measurement.
    pub(crate) rtt: Option<PathRtt>,
    /// Whether the path recovers from a loss for which its window was reduced already (section 7.2.4).
    pub(crate) in_recovery: bool,
    /// All paths of the association, for coupled controllers; empty for others.
    pub(crate) coupled: &'a CoupledPaths,
}

/// The congestion control of one path.
pub(crate) trait CongestionController: fmt::Debug + Send {
    /// The congestion window, in bytes.
    fn cwnd(&self) -> usize;

    /// The slow-start threshold, in bytes.
    fn ssthresh(&self) -> usize;

    /// One more packet may leave while fewer bytes are in flight than this. It may exceed the window by
    /// less than its own size (section 6.1 B).
    fn flight_limit(&self) -> usize;

    /// A SACK acknowledged chunks sent on this path.
    fn on_acknowledged(&mut self, acked: AckedBytes, path: &PathConditions<'_>);

    /// A loss was found by acknowledgements, and the path was not in recovery.
    fn on_congestion_event(&mut self, path: &PathConditions<'_>);

    /// T3-rtx expired.
    fn on_timeout(&mut self, path: &PathConditions<'_>);

    /// What was sent here holds up other paths, and goes out again on one of these: the window is reduced as for a loss
    /// (Raiciu 2012, section 4.2). `is_lost` says that it is overdue: it counts as lost, which nothing else will find
    /// out. That it had arrived is not found out either, so there is nothing to undo.
    fn on_penalty(&mut self, is_lost: bool, path: &PathConditions<'_>);

    /// The latest loss or timeout was none: what the window was reduced for had arrived. The window is
    /// again at least what it was before (RFC 4015 section 3, RFC 9438 section 4.9).
    fn on_spurious_loss(&mut self);

    /// The path carries `pmdcs` bytes of DATA chunks in a packet from now on. That alone lets no
    /// more bytes into flight (RFC 8899 section 3).
    fn set_pmdcs(&mut self, pmdcs: usize);

    /// Nothing was sent on this path for one more RTO.
    fn on_idle(&mut self);

    /// Bytes that are acknowledged between two losses, on average. `None` where nothing was lost yet.
    fn acked_between_losses(&self) -> Option<u64>;

    /// What the controllers of other paths have to know, without the round-trip time, where controllers are
    /// coupled.
    fn coupled(&self) -> Option<CoupledPath> {
        None
    }
}
