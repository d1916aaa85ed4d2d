//! What becomes of a packet.

use crate::Alteration;
use serde::Serialize;
use std::time::Instant;

/// What becomes of one packet: it arrives once, twice, or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the link has already counted the packet as treated like this"]
pub struct Verdict {
    outcome: Result<[Option<Delivery>; 2], DropCause>,
}

/// One arrival of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When it arrives.
    pub at: Instant,
    /// Whether it met congestion: the driver sets the CE codepoint (RFC 3168, section 5).
    pub marked: bool,
    /// Which bits flipped on the way; the driver applies it.
    pub alteration: Option<Alteration>,
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropCause {
    /// The link was down.
    Down,
    /// There was no room in the queue.
    QueueFull,
    /// The management of the queue dropped it before that was full.
    QueueManagement,
    /// It was lost on its way.
    Lost,
}

impl Verdict {
    pub(crate) fn dropped(cause: DropCause) -> Verdict {
        Verdict {
            outcome: Err(cause),
        }
    }

    pub(crate) fn delivered(first: Delivery, second: Option<Delivery>) -> Verdict {
        Verdict {
            outcome: Ok([Some(first), second]),
        }
    }

    /// The arrivals of the packet: none when it does not arrive, two when it is duplicated. The second
    /// may be before the first.
    pub fn deliveries(&self) -> impl Iterator<Item = Delivery> + use<> {
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
