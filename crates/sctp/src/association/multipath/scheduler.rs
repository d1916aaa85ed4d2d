//! Path schedulers: which path the next new data goes to. A scheduler knows the numbers of the paths, and how
//! much waits.

mod blest;
mod blocking;
mod ecf;
mod min_rtt;
mod redundant;
mod round_robin;

use std::fmt;
use std::time::{Duration, Instant};

use crate::PathScheduler;
use crate::association::path_id::PathId;

/// A path that new data may go to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) id: PathId,
    /// The round-trip time, smoothed.
    pub(super) srtt: Duration,
    /// How much it varies.
    pub(super) rttvar: Duration,
    /// How long the round trip of a packet takes that leaves now.
    pub(super) rtt: Duration,
    /// How long after it was sent something should have been heard of a packet.
    pub(super) overdue: Duration,
    /// The congestion window, in bytes.
    pub(super) cwnd: usize,
    /// Bytes a second that it is known to carry.
    pub(super) rate: f64,
    /// The slow-start threshold, in bytes.
    pub(super) ssthresh: usize,
    /// Bytes of DATA chunks in flight.
    pub(super) flight: usize,
    /// Bytes of DATA chunks that a packet carries.
    pub(super) packet: usize,
    /// Bytes that are acknowledged between two losses; `None` where nothing was lost yet.
    pub(super) acked_between_losses: Option<u64>,
    /// When the window was reduced last; where it never was, when data was sent last.
    pub(super) tried: Option<Instant>,
    /// Whether a packet may leave now.
    pub(super) has_room: bool,
}

/// What waits to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingData {
    pub(super) now: Instant,
    /// Bytes of user messages that were not sent yet.
    pub(super) unsent: usize,
    /// Bytes that may be sent and not acknowledged for good at a time.
    pub(super) window: usize,
}

/// Chooses among paths.
pub(super) trait Scheduler: fmt::Debug + Send {
    /// The path of the next packet with new data; `None` when it is better to wait, or no path has room.
    /// `paths` are at least one.
    fn next(&mut self, paths: &[Candidate], data: &WaitingData) -> Option<PathId>;
}

/// The scheduler of that name.
pub(super) fn scheduler(name: PathScheduler) -> Box<dyn Scheduler> {
    match name {
        PathScheduler::RoundRobin => Box::new(round_robin::RoundRobin::default()),
        PathScheduler::MinRtt => Box::new(min_rtt::MinRtt),
        PathScheduler::Ecf => Box::new(ecf::Ecf::default()),
        PathScheduler::Blest => Box::new(blest::Blest::default()),
        PathScheduler::Redundant => Box::new(redundant::Redundant),
    }
}

/// The fastest path, whether it has room or not.
fn fastest<'a>(paths: impl IntoIterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
    paths.into_iter().min_by_key(|path| (path.srtt, path.id))
}

/// The fastest path that has room.
pub(super) fn fastest_with_room<'a>(
    paths: impl IntoIterator<Item = &'a Candidate>,
) -> Option<&'a Candidate> {
    paths
        .into_iter()
        .filter(|path| path.has_room)
        .min_by_key(|path| (path.srtt, path.id))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A path of 10 ms and 10 packets.
    pub(in super::super) fn candidate(number: u16) -> Candidate {
        let mut id = PathId::FIRST;
        for _ in 0..number {
            id = id.next().expect("few are counted");
        }
        Candidate {
            id,
            srtt: Duration::from_millis(10),
            rttvar: Duration::from_millis(1),
            rtt: Duration::from_millis(10),
            overdue: Duration::from_millis(14),
            cwnd: 10_000,
            rate: 1e6,
            ssthresh: 10_000,
            flight: 0,
            packet: 1000,
            acked_between_losses: None,
            tried: None,
            has_room: true,
        }
    }

    /// So many bytes wait, and so many may be under way.
    pub(super) fn waiting(unsent: usize, window: usize) -> WaitingData {
        WaitingData {
            now: Instant::now(),
            unsent,
            window,
        }
    }

    #[test]
    fn no_scheduler_takes_a_path_without_room() {
        for name in PathScheduler::ALL {
            let full = Candidate {
                has_room: false,
                ..candidate(0)
            };
            let slow = Candidate {
                srtt: Duration::from_millis(11),
                ..candidate(1)
            };
            let mut scheduler = scheduler(name);
            let data = waiting(1 << 20, 1 << 20);
            let next = scheduler.next(&[full, slow], &data);
            assert_eq!(next, Some(slow.id), "{name}");
            assert_eq!(scheduler.next(&[full], &data), None, "{name}");
        }
    }
}
