//! What becomes of a packet.

use std::time::Instant;

/// What becomes of one packet: it arrives once, twice, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the link has already counted the packet as treated like this"]
pub struct Verdict {
    outcome: Result<[Option<Instant>; 2], DropCause>,
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropCause {
    /// The link was down.
    Down,
    /// There was no room in the queue.
    QueueFull,
    /// It was lost on its way.
    Lost,
}

impl Verdict {
    pub(crate) fn dropped(cause: DropCause) -> Verdict {
        Verdict {
            outcome: Err(cause),
        }
    }

    pub(crate) fn delivered(first: Instant, second: Option<Instant>) -> Verdict {
        Verdict {
            outcome: Ok([Some(first), second]),
        }
    }

    /// When the packet arrives: no time when it does not, two when it is duplicated. The second
    /// time may be before the first.
    pub fn deliveries(&self) -> impl Iterator<Item = Instant> + use<> {
        self.outcome.unwrap_or_default().into_iter().flatten()
    }

    /// Whether the packet never arrives.
    pub fn is_dropped(&self) -> bool {
        self.outcome.is_err()
    }

    /// Why the packet never arrives; `None` when it does.
    pub fn drop_cause(&self) -> Option<DropCause> {
        self.outcome.err()
    }
}
