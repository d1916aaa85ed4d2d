//! How losses are found and mended: the decisions, apart from the chunks that they are about.
//!
//! - `gap_reports`: by counting miss indications (RFC 9260 section 7.2.4),
//! - `rack`, `transmissions` and `probe`: by time, and by probes (RFC 8985), put together for all paths by
//!   `rack_tlp`; `recovery`: when a path reduces its window, and when that was wrong,
//! - `prr`: how much may be sent meanwhile (RFC 6937),
//! - `f_rto`: whether T3-rtx expired for nothing (RFC 5682),
//! - `thin`: what differs while little is in flight.

pub(crate) mod f_rto;
pub(crate) mod gap_reports;
mod probe;
pub(crate) mod prr;
mod rack;
pub(crate) mod rack_tlp;
mod recovery;
pub(crate) mod thin;
mod transmissions;

/// Why a chunk is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// T3-rtx expired (RFC 9260 section 6.3.3).
    Timeout,
    /// Miss indications (RFC 9260 section 7.2.4).
    FastRetransmit,
    /// Something that was sent later has arrived (RFC 8985 section 6.2).
    Rack,
    /// The same, but the peer may have had no room to report it: it has left the flight, and is lost only if it is not
    /// reported when there is room.
    Unreported,
    /// It is not known to be lost: it goes again as a tail loss probe (RFC 8985 section 7.3).
    Probe,
}
