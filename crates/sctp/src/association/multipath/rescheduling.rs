//! Chunk rescheduling (Adhari 2011; opportunistic retransmission in MPTCP, Raiciu 2012): when the window lets
//! nothing new leave because of chunks that are still under way on other paths, they go out again on a path that
//! has nothing else to do.

use std::time::{Duration, Instant};

use super::scheduler::fastest_with_room;
use crate::association::Association;
use crate::association::path_id::PathId;

/// How a path takes its time, as far as a chunk in flight there is concerned.
#[derive(Debug, Clone, Copy)]
struct Pace {
    path: PathId,
    srtt: Duration,
    /// How much later than that an acknowledgement may come.
    slack: Duration,
}

impl Pace {
    /// When something should have been heard of a chunk.
    fn overdue_at(&self, sent: Instant) -> Instant {
        sent + self.srtt + self.slack
    }

    /// Whether a chunk is better sent again on a path of that round-trip time: because it would be acknowledged
    /// sooner, or because it is overdue where it is.
    fn is_late(&self, sent: Instant, now: Instant, other: Duration) -> bool {
        now + other < sent + self.srtt || now >= self.overdue_at(sent)
    }
}

impl Association {
    /// Marks chunks to be sent again on the path that is returned, if everything waits for them.
    pub(super) fn reschedule(&mut self, now: Instant) -> Option<PathId> {
        let multipath = self.multipath.as_deref_mut()?;
        let fast = *fastest_with_room(&multipath.candidates)?;
        let paces: Vec<Pace> = self
            .paths
            .iter()
            .filter(|path| path.id() != fast.id && path.flight() > 0)
            .map(|path| Pace {
                path: path.id(),
                srtt: path.round_trip(),
                slack: (path.round_trip() / 4).max(path.round_trip_variation() * 4),
            })
            .collect();
        let mut wake: Option<Instant> = None;
        let is_late = |path, sent| {
            let Some(pace) = paces.iter().find(|pace| pace.path == path) else {
                return false;
            };
            let is_late = pace.is_late(sent, now, fast.srtt);
            if !is_late {
                let overdue_at = pace.overdue_at(sent);
                wake = Some(wake.map_or(overdue_at, |earliest| earliest.min(overdue_at)));
            }
            is_late
        };
        let any = self
            .sender
            .reschedule(now, fast.id, &mut self.paths, is_late);
        multipath.wake = wake;
        any.then_some(fast.id)
    }
}
