//! Congestion control (RFC 9260 section 7): how many bytes may be in flight on one path.
//!
//! One trait, one file a controller. A controller knows one path's numbers and nothing of chunks.

mod rfc9260;

use std::fmt;

pub(crate) use rfc9260::Rfc9260;

/// What a SACK acknowledged on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckedBytes {
    /// Bytes newly acknowledged: chunks with header and padding.
    pub(crate) acknowledged: usize,
    /// Bytes in flight before the SACK arrived.
    pub(crate) flight_before: usize,
    /// Whether nothing is in flight any more.
    pub(crate) all_acknowledged: bool,
    /// Whether the association was in Fast Recovery when the SACK arrived (section 7.2.4).
    pub(crate) in_fast_recovery: bool,
}

/// The congestion control of one path.
pub(crate) trait CongestionController: fmt::Debug + Send {
    /// The congestion window, in bytes.
    fn cwnd(&self) -> usize;

    /// The slow-start threshold, in bytes.
    fn ssthresh(&self) -> usize;

    /// Whether one more packet may leave when `flight` bytes are in flight. A packet that may
    /// leave may exceed the window by less than its own size (section 6.1 B).
    fn allows(&self, flight: usize) -> bool;

    /// A SACK acknowledged chunks sent on this path.
    fn on_acknowledged(&mut self, acked: AckedBytes);

    /// Fast retransmit found a loss, and the association was not in Fast Recovery.
    fn on_fast_retransmit(&mut self);

    /// T3-rtx expired.
    fn on_timeout(&mut self);

    /// The path carries `pmdcs` bytes of DATA chunks in a packet from now on. That alone lets no
    /// more bytes into flight (RFC 8899 section 3).
    fn set_pmdcs(&mut self, pmdcs: usize);

    /// Nothing was sent on this path for one more RTO.
    fn on_idle(&mut self);
}
