//! Concurrent multipath transfer (CMT, Iyengar 2006; draft-tuexen-tsvwg-sctp-multipath): new data goes over
//! several paths at a time.
//!
//! - `scheduler`: which path takes the next new data, a file each;
//! - `buffer_splitting`: how much of the buffers a path may use;
//! - `split_fast_retransmit`: which missing chunks are counted as missing (SFR);
//! - `rescheduling`: chunks for which all others wait go out on another path.
//!
//! The window of each path grows by what is acknowledged on that path, whether the cumulative TSN moves or
//! not, as RFC 9260 section 7.2.1 has it. So nothing is to be done for the cwnd update (CUC): its
//! pseudo-cumulative TSN is [`OutstandingData::earliest_on_each`], which restarts T3-rtx.
//!
//! [`OutstandingData::earliest_on_each`]: super::outstanding::OutstandingData::earliest_on_each

mod buffer_splitting;
mod rescheduling;
mod scheduler;
pub(super) mod split_fast_retransmit;

use std::time::Instant;

use super::path::Path;
use super::path_id::PathId;
use super::path_list::Paths;
use super::{Association, Context};
use crate::{AssociationConfig, PathScheduler, PathState};
use buffer_splitting::has_share;
use scheduler::{Candidate, Scheduler, WaitingData, scheduler};

/// What concurrent multipath transfer keeps of an association.
#[derive(Debug)]
pub(super) struct Multipath {
    chosen: PathScheduler,
    scheduler: Box<dyn Scheduler>,
    /// Room for the paths among which it chooses, kept to be used again.
    candidates: Vec<Candidate>,
    /// When chunks that everything waits for are to be looked at again.
    wake: Option<Instant>,
}

impl Multipath {
    fn new(chosen: PathScheduler) -> Multipath {
        Multipath {
            chosen,
            scheduler: scheduler(chosen),
            candidates: Vec::new(),
            wake: None,
        }
    }
}

/// What the next packet with data may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It goes to this path.
    Path(PathId),
    /// Nothing is to be sent now, though there is a path.
    Wait,
    /// There are no several paths to choose from.
    Single,
}

impl Association {
    /// Which of several active paths the next packet with data goes to. What has to be sent again comes
    /// first, as far as the window of its path allows (section 6.1 C).
    pub(super) fn schedule_path(&mut self, context: &Context<'_>) -> Turn {
        let config = context.config;
        if !config.cmt || self.paths.len() < 2 || self.sender.next_destination().is_some() {
            return Turn::Single;
        }
        if let Some(path) = self.retransmitting_path(config) {
            return Turn::Path(path);
        }
        let multipath = self
            .multipath
            .get_or_insert_with(|| Box::new(Multipath::new(config.path_scheduler)));
        if multipath.chosen != config.path_scheduler {
            **multipath = Multipath::new(config.path_scheduler);
        }
        let candidates = &mut multipath.candidates;
        candidates.clear();
        candidates.extend(
            self.paths
                .iter()
                .filter(|path| is_candidate(path))
                .map(|path| candidate(path, config)),
        );
        let is_redundant = config.path_scheduler == PathScheduler::Redundant;
        if candidates.is_empty() || (candidates.len() < 2 && !is_redundant) {
            return Turn::Single;
        }
        let now = context.now;
        let count = candidates.len();
        for candidate in &mut *candidates {
            candidate.has_room &= has_share(candidate, count, self.sender.peer_window(), config);
        }
        let data = WaitingData {
            now,
            unsent: self.sender.unsent_bytes(),
            window: self.sender.shared_window(config),
        };
        if self.sender.forward_tsn_is_due() {
            // It waits for no window.
            return Turn::Single;
        }
        let is_blocked = self.sender.is_blocked(&self.paths);
        if !is_blocked {
            multipath.wake = None;
        }
        let next = if is_blocked {
            self.reschedule(now, config)
        } else if self.sender.unsent_bytes() > 0
            && let Some(path) = multipath.scheduler.next(candidates, &data)
        {
            Some(path)
        } else if is_redundant {
            // A path that may have failed gets copies: what is in them goes over another path anyway.
            let takes_copies = |path: &&Path| {
                path.has_source()
                    && matches!(
                        path.state(),
                        PathState::Active | PathState::PotentiallyFailed
                    )
                    && path.allows_packet(config)
            };
            let mut with_room = self.paths.iter().filter(takes_copies).map(Path::id);
            with_room.find(|path| self.sender.has_copy_for(*path))
        } else {
            None
        };
        next.map_or(Turn::Wait, Turn::Path)
    }

    /// The path on which something is to be sent again now.
    fn retransmitting_path(&mut self, config: &AssociationConfig) -> Option<PathId> {
        let probe = self.sender.probe_path(&self.paths).filter(|path| {
            self.paths.get(*path).is_some_and(|path| {
                self.sender
                    .wants_packet(path, &self.paths, path.pmdcs(), config)
            })
        });
        probe.or_else(|| {
            let path = self.sender.next_lost_path(&self.paths)?;
            let may = self.sender.may_retransmit_on(path, &self.paths, config);
            may.then_some(path)
        })
    }

    /// When something is to be looked at that everything waits for.
    pub(super) fn multipath_timeout(&self) -> Option<Instant> {
        self.multipath.as_ref()?.wake
    }

    /// It is looked at with the next packet that is asked for.
    pub(super) fn handle_multipath_timeout(&mut self, now: Instant) {
        if let Some(multipath) = &mut self.multipath {
            multipath.wake.take_if(|wake| *wake <= now);
        }
    }

    /// Has what is to be sent again go to the path that suits best for it, where several are in use.
    pub(super) fn route_retransmissions(&mut self, config: &AssociationConfig) {
        if config.cmt
            && self.sender.has_lost()
            && let Some(path) = retransmission_path(&self.paths)
        {
            self.sender.send_lost_on(path);
        }
    }
}

/// Whether new data may go there: a path that may have failed gets none (RFC 7829 section 3.2).
fn is_candidate(path: &Path) -> bool {
    path.state() == PathState::Active && path.has_source()
}

fn candidate(path: &Path, config: &AssociationConfig) -> Candidate {
    Candidate {
        id: path.id(),
        srtt: path.round_trip(),
        rttvar: path.round_trip_variation(),
        rtt: path.present_round_trip(),
        overdue: path.overdue(),
        cwnd: path.cwnd(),
        rate: path.rate(),
        ssthresh: path.ssthresh(),
        flight: path.flight(),
        packet: path.pmdcs(),
        acked_between_losses: path.acked_between_losses(),
        tried: path.tried(),
        has_room: path.allows_packet(config),
    }
}

/// The active path that carries most. RTX-SSTHRESH (Iyengar 2006) takes the largest ssthresh, but
/// that of a slow path with a long queue may well be larger than that of a fast one.
fn retransmission_path(paths: &Paths) -> Option<PathId> {
    paths
        .iter()
        .filter(|path| is_candidate(path))
        .max_by(|one, other| {
            let [one_rate, other_rate] = [one, other].map(|path| path.rate());
            // Among equals the first one.
            one_rate
                .total_cmp(&other_rate)
                .then(other.id().cmp(&one.id()))
        })
        .map(Path::id)
}
