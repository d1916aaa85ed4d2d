//! What differs while so little is in flight that no SACKs come to tell of losses.

use std::time::{Duration, Instant};

/// With fewer packets in flight than this, three SACKs never report a gap (RFC 5827 section 3, RFC 7765).
const THIN_PACKETS: usize = 4;

/// So often T3-rtx expires without the timeout being doubled (Linux's `tcp_thin_linear_timeouts`).
pub(crate) const MAX_LINEAR_TIMEOUTS: u32 = 6;

/// Whether less is in flight than it takes to detect losses by SACKs: in bytes, as RFC 5827 section 3.1
/// counts, for a packet of signalling is rarely full.
pub(crate) fn is_thin(flight: usize, pmdcs: usize) -> bool {
    flight < THIN_PACKETS * pmdcs
}

/// RTO Restart (RFC 7765): T3-rtx expires an RTO after the earliest chunk in flight was sent, and not an
/// RTO after the SACK for those before it; if that time is over, then after a whole RTO.
pub(crate) fn restarted(now: Instant, rto: Duration, earliest_sent: Instant) -> Instant {
    let expires = earliest_sent + rto;
    if expires > now { expires } else { now + rto }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_counts_from_the_earliest_chunk() {
        let now = Instant::now();
        let rto = Duration::from_secs(1);
        let sent = now + Duration::from_millis(300);
        let sack = now + Duration::from_millis(500);
        assert_eq!(restarted(sack, rto, sent), sent + rto);
        assert_eq!(restarted(sack + rto, rto, sent), sack + rto + rto);
    }
}
