//! What becomes of a packet.

use std::time::Instant;

/// What becomes of one packet: it arrives once, twice, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the link has already counted the packet as treated like this"]
pub struct Verdict {
    deliveries: [Option<Instant>; 2],
}

impl Verdict {
    pub(crate) fn dropped() -> Verdict {
        Verdict {
            deliveries: [None, None],
        }
    }

    pub(crate) fn delivered(first: Instant, second: Option<Instant>) -> Verdict {
        Verdict {
            deliveries: [Some(first), second],
        }
    }

    /// When the packet arrives: no time when it is lost, two when it is duplicated. The second time
    /// may be before the first.
    pub fn deliveries(&self) -> impl Iterator<Item = Instant> + use<> {
        self.deliveries.into_iter().flatten()
    }

    /// Whether the packet never arrives.
    pub fn is_dropped(&self) -> bool {
        self.deliveries == [None, None]
    }
}
