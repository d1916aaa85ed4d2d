//! Sums over associations.

use super::association::{Association, Beginning, Ending, RoundTrips};

/// What associations did, all together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SctpTotals {
    /// How many there were.
    pub associations: u64,
    /// Those of which all of the handshake was seen.
    pub handshakes: u64,
    /// Those that were shut down.
    pub shut_down: u64,
    /// Those that were aborted.
    pub aborted: u64,
    /// DATA and I-DATA chunks whose TSN was not sent before.
    pub tsns: u64,
    /// DATA and I-DATA chunks whose TSN was.
    pub retransmitted_tsns: u64,
    /// TSNs that an end says it has received twice.
    pub duplicates_reported: u64,
    /// TSNs that were skipped before they were received.
    pub abandoned_tsns: u64,
    /// Requests to reset streams.
    pub stream_resets: u64,
    /// Requests for more streams.
    pub stream_additions: u64,
    /// Requests to change addresses.
    pub address_changes: u64,
    /// Round-trip times of all paths.
    pub round_trip: RoundTrips,
}

impl SctpTotals {
    pub(super) fn add(&mut self, association: &Association) {
        self.associations += 1;
        let is_whole = matches!(association.beginning, Beginning::Handshake(_));
        self.handshakes += u64::from(is_whole);
        self.shut_down += u64::from(association.ending == Ending::Shutdown);
        self.aborted += u64::from(association.ending == Ending::Aborted);
        for direction in [&association.forward, &association.backward] {
            self.tsns += direction.tsns;
            self.retransmitted_tsns += direction.retransmitted_tsns;
            self.duplicates_reported += direction.duplicates_reported;
            self.abandoned_tsns += direction.abandoned_tsns;
            self.stream_resets += direction.stream_resets;
            self.stream_additions += direction.stream_additions;
            self.address_changes += direction.address_changes;
        }
        for path in association.paths() {
            self.round_trip.add(&path.round_trip);
        }
    }
}
