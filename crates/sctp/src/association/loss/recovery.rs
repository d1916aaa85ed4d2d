//! When one path reduces its window for a loss, and whether that was wrong.

use std::collections::HashMap;
use std::time::Instant;

use super::Loss;
use crate::packet::Tsn;

/// Lost chunks whose fate is watched. Beyond it a recovery is never found to be spurious.
const MAX_WATCHED: usize = 1024;

/// The recovery of one path.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// When the window was reduced last.
    since: Option<Instant>,
    active: bool,
    /// The chunks that were lost since, and of which nobody knows whether they had arrived.
    lost: HashMap<Tsn, LostChunk>,
    /// They were too many for all to be watched.
    overflowed: bool,
}

#[derive(Debug, Clone, Copy)]
struct LostChunk {
    loss: Loss,
    /// It was sent again since.
    resent: bool,
}

/// What a report says that something had arrived which was taken for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spurious {
    pub(super) loss: Loss,
    /// All that was lost in this recovery had arrived.
    pub(super) all: bool,
}

impl Recovery {
    /// Whether the path recovers. That ends when something is acknowledged that was sent since it began.
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether the loss of what was sent at `sent` is a further sign of congestion: not that of something
    /// that was in flight already when the window was reduced last. The loss of a retransmission is one
    /// (RFC 8985 section 9.3).
    pub(super) fn is_begun_by(&self, sent: Instant) -> bool {
        self.since.is_none_or(|since| sent >= since)
    }

    /// The window is reduced `now`, and there is something to recover from.
    pub(super) fn begin(&mut self, now: Instant) {
        self.reduced(now);
        self.active = true;
    }

    /// The window is reduced `now` for something that has been repaired.
    pub(super) fn reduced(&mut self, now: Instant) {
        self.since = Some(now);
        self.lost.clear();
        self.overflowed = false;
    }

    /// A chunk is taken for lost.
    pub(super) fn chunk_lost(&mut self, tsn: Tsn, loss: Loss) {
        if self.lost.len() >= MAX_WATCHED {
            self.overflowed = true;
        } else {
            let lost = LostChunk {
                loss,
                resent: false,
            };
            self.lost.insert(tsn, lost);
        }
    }

    /// A chunk is sent, maybe again.
    pub(super) fn chunk_sent(&mut self, tsn: Tsn) {
        if !self.lost.is_empty()
            && let Some(lost) = self.lost.get_mut(&tsn)
        {
            lost.resent = true;
        }
    }

    /// The peer has a chunk twice. Where it was sent again, it had arrived; if not, the network has doubled it.
    pub(super) fn chunk_came_twice(&mut self, tsn: Tsn) -> Option<Spurious> {
        self.lost.get(&tsn).filter(|lost| lost.resent)?;
        self.chunk_had_arrived(tsn)
    }

    /// The peer has a chunk without its having been sent again.
    pub(super) fn chunk_had_arrived(&mut self, tsn: Tsn) -> Option<Spurious> {
        let LostChunk { loss, .. } = self.lost.remove(&tsn)?;
        let all = self.lost.is_empty() && !self.overflowed;
        Some(Spurious { loss, all })
    }

    /// Something that was sent at `sent` is acknowledged; tells whether that ends the recovery.
    pub(super) fn acknowledged(&mut self, sent: Instant) -> bool {
        let ends = self.active && self.is_begun_by(sent);
        self.active &= !ends;
        ends
    }

    /// The window is what it was before.
    pub(super) fn undo(&mut self) {
        self.active = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn reduces_once_for_what_was_in_flight_and_again_for_what_was_sent_since() {
        let start = Instant::now();
        let later = start + Duration::from_millis(1);
        let mut recovery = Recovery::default();
        assert!(recovery.is_begun_by(start));
        recovery.begin(later);
        assert!(!recovery.is_begun_by(start));
        assert!(recovery.is_begun_by(later));
        assert!(!recovery.acknowledged(start) && recovery.is_active());
        assert!(recovery.acknowledged(later) && !recovery.is_active());
        assert!(!recovery.acknowledged(later), "it is over");
        assert!(!recovery.is_begun_by(start));
    }

    #[test]
    fn is_spurious_when_all_had_arrived() {
        let mut recovery = Recovery::default();
        recovery.begin(Instant::now());
        recovery.chunk_lost(Tsn(1), Loss::Rack);
        recovery.chunk_lost(Tsn(2), Loss::Timeout);
        assert_eq!(recovery.chunk_had_arrived(Tsn(3)), None);
        let spurious = |loss, all| Some(Spurious { loss, all });
        assert_eq!(
            recovery.chunk_had_arrived(Tsn(1)),
            spurious(Loss::Rack, false)
        );
        assert_eq!(recovery.chunk_had_arrived(Tsn(1)), None, "said once");
        assert_eq!(
            recovery.chunk_had_arrived(Tsn(2)),
            spurious(Loss::Timeout, true)
        );
    }

    #[test]
    fn what_was_not_sent_again_cannot_come_twice() {
        let mut recovery = Recovery::default();
        recovery.begin(Instant::now());
        recovery.chunk_lost(Tsn(1), Loss::Rack);
        recovery.chunk_sent(Tsn(2));
        assert_eq!(recovery.chunk_came_twice(Tsn(1)), None);
        recovery.chunk_sent(Tsn(1));
        assert!(recovery.chunk_came_twice(Tsn(1)).is_some());
    }

    #[test]
    fn too_many_losses_are_not_watched() {
        let mut recovery = Recovery::default();
        recovery.begin(Instant::now());
        for tsn in 0..=MAX_WATCHED as u32 {
            recovery.chunk_lost(Tsn(tsn), Loss::Rack);
        }
        assert_eq!(recovery.lost.len(), MAX_WATCHED);
        let all_spurious = (0..=MAX_WATCHED as u32)
            .filter_map(|tsn| recovery.chunk_had_arrived(Tsn(tsn)))
            .any(|spurious| spurious.all);
        assert!(!all_spurious);
    }
}
