//! Partial reliability as users see it (RFC 3758 section 4, RFC 7496): when a message is given up, and
//! how many were.

use std::time::Duration;

use derive_more::AddAssign;

/// When a message is given up although its association goes on: its PR-SCTP policy.
///
/// Giving up what was sent takes a peer that has the extension (RFC 3758); to any other peer a message
/// goes reliably, once a part of it has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PrPolicy {
    /// Never (RFC 6458 `SCTP_PR_SCTP_NONE`).
    #[default]
    Reliable,
    /// It is not sent, nor sent again, once this time has passed ("timed reliability", RFC 3758
    /// section 4.1; RFC 6458 `SCTP_PR_SCTP_TTL`).
    Timed(Duration),
    /// None of its chunks is sent again more often than this (RFC 7496 section 3.1,
    /// `SCTP_PR_SCTP_RTX`). 0 sends each chunk once.
    LimitedRetransmissions(u32),
    /// It gives way to messages of a higher priority, and to those that are sent otherwise, when the send
    /// buffer has no room for them (RFC 7496 section 3.2, `SCTP_PR_SCTP_PRIO`). 0 is the highest
    /// priority.
    Priority(u32),
}

/// Messages that were abandoned. Each is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign)]
pub struct AbandonedCount {
    /// Before any part was sent.
    pub unsent: u64,
    /// After a part was sent.
    pub sent: u64,
}

/// Messages that were abandoned, by their policy (RFC 7496 sections 4.3 and 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign)]
pub struct AbandonedMessages {
    /// [`PrPolicy::Timed`], and [`SendInfo::life_time`](crate::SendInfo::life_time).
    pub timed: AbandonedCount,
    /// [`PrPolicy::LimitedRetransmissions`].
    pub limited_retransmissions: AbandonedCount,
    /// [`PrPolicy::Priority`].
    pub priority: AbandonedCount,
}

impl AbandonedMessages {
    /// All policies together (`SCTP_PR_SCTP_ALL`).
    pub fn total(self) -> AbandonedCount {
        let mut total = self.timed;
        total += self.limited_retransmissions;
        total += self.priority;
        total
    }
}
