//! Copies of chunks on further paths, for the redundant scheduler: a chunk in flight on one path is sent on each
//! other one, too, and whichever comes first counts.
//!
//! A copy counts in the flight of its path, until the chunk is acknowledged. That says only that the chunk arrived by one
//! of the paths. A Duplicate TSN of a SACK (RFC 9260 section 3.3.4) tells that it arrived by two: only what is reported so
//! lets the windows of the paths grow, that of the chunk itself included, and proves them.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Sender, authenticate};
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::packet::{PacketWriter, Tsn, TsnList};
use crate::{AssociationConfig, PathScheduler};

/// Copies of acknowledged chunks that are remembered, in case that a SACK reports them as duplicates.
const MAX_UNREPORTED: usize = 512;

/// The copies on all paths.
#[derive(Debug, Default)]
pub(super) struct Copies {
    of_paths: Vec<PathCopies>,
    /// Chunks that a SACK has reported as duplicates.
    reported: VecDeque<Tsn>,
}

#[derive(Debug)]
struct PathCopies {
    path: PathId,
    /// Chunks below it are not copied any more.
    next: Tsn,
    /// Chunks that were sent again elsewhere since.
    again: VecDeque<Tsn>,
    /// In the order in which they were sent.
    in_flight: VecDeque<Copy>,
    /// Copies of chunks that are acknowledged, the oldest one first.
    unreported: VecDeque<Copy>,
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    tsn: Tsn,
    /// The path of the chunk itself.
    original: PathId,
    /// With header and padding.
    chunk_size: usize,
}

/// Whether chunks are copied.
pub(super) fn is_redundant(config: &AssociationConfig) -> bool {
    config.cmt && config.path_scheduler == PathScheduler::Redundant
}

impl Copies {
    fn on(&mut self, path: PathId, first: Tsn) -> Option<&mut PathCopies> {
        let position = match self.of_paths.iter().position(|copies| copies.path == path) {
            Some(position) => position,
            None => {
                self.of_paths.push(PathCopies {
                    path,
                    next: first,
                    again: VecDeque::new(),
                    in_flight: VecDeque::new(),
                    unreported: VecDeque::new(),
                });
                self.of_paths.len() - 1
            }
        };
        self.of_paths.get_mut(position)
    }

    /// What is in flight on a path, in bytes of chunks.
    #[cfg(test)]
    pub(super) fn flight_on(&self, path: PathId) -> usize {
        let there = self.of_paths.iter().filter(|copies| copies.path == path);
        there
            .flat_map(|copies| &copies.in_flight)
            .map(|copy| copy.chunk_size)
            .sum()
    }

    /// Whether nothing was ever copied.
    fn is_empty(&self) -> bool {
        self.of_paths.is_empty()
    }

    /// The chunk `tsn` was sent again on `path`: it is copied anew.
    pub(super) fn retransmitted(&mut self, tsn: Tsn, path: PathId) {
        let others = self.of_paths.iter_mut();
        for copies in others.filter(|copies| copies.path != path && tsn < copies.next) {
            copies.again.push_back(tsn);
        }
    }

    /// The peer has received the chunk `tsn`, of which there were copies, once more: so it came by the path of the chunk
    /// itself, unless that is known already, and by that of a copy.
    fn reported(&mut self, tsn: Tsn, paths: &mut Paths) {
        let found = self.of_paths.iter_mut().find_map(|copies| {
            let position = copies.unreported.iter().position(|copy| copy.tsn == tsn)?;
            let copy = copies.unreported.remove(position)?;
            Some((copies.path, copy))
        });
        let Some((path, copy)) = found else {
            return;
        };
        let is_first = !self.reported.contains(&tsn);
        if is_first {
            self.reported.push_back(tsn);
            let excess = self.reported.len().saturating_sub(MAX_UNREPORTED);
            self.reported.drain(..excess);
        }
        for id in [Some(path), is_first.then_some(copy.original)]
            .into_iter()
            .flatten()
        {
            if let Some(path) = paths.get_mut(id) {
                path.copy_arrived(copy.chunk_size);
            }
        }
    }

    /// The path is removed.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.of_paths.retain(|copies| copies.path != path);
    }
}

impl Sender {
    /// Whether a chunk that is in flight elsewhere has not been sent on `path` yet.
    pub(crate) fn has_copy_for(&mut self, path: PathId) -> bool {
        self.next_copy(path).is_some()
    }

    /// Whether a packet of copies should leave on `path`.
    pub(crate) fn wants_copies(
        &mut self,
        path: PathId,
        paths: &Paths,
        config: &AssociationConfig,
    ) -> bool {
        is_redundant(config)
            && paths
                .get(path)
                .is_some_and(|path| path.allows_packet(config))
            && self.has_copy_for(path)
    }

    fn next_copy(&mut self, path: PathId) -> Option<Tsn> {
        let first = self.outstanding.cumulative_ack_point().next();
        let end = self.outstanding.next_tsn();
        let copies = self.copies.on(path, first)?;
        while let Some(tsn) = copies.again.front() {
            if *tsn >= first && self.outstanding.is_in_flight_beside(*tsn, path) {
                return Some(*tsn);
            }
            copies.again.pop_front();
        }
        if copies.next < first {
            copies.next = first;
        }
        while copies.next < end {
            if self.outstanding.is_in_flight_beside(copies.next, path) {
                return Some(copies.next);
            }
            copies.next = copies.next.next();
        }
        None
    }

    /// Writes copies into a packet that goes out on `path`; tells how many.
    pub(super) fn write_copies(
        &mut self,
        now: Instant,
        writer: &mut PacketWriter<'_>,
        path: PathId,
        paths: &mut Paths,
    ) -> u64 {
        let mut count = 0;
        while let Some(tsn) = self.next_copy(path)
            && let Some(original) = self.outstanding.last_path(tsn)
            && let Some(fragment) = self.outstanding.copy(tsn)
        {
            let chunk_size = fragment.chunk_size();
            if !authenticate(writer, fragment.shared_key)
                || fragment.write(tsn, false, writer).is_err()
            {
                break;
            }
            count += 1;
            if let Some(copies) = self.copies.on(path, tsn) {
                copies.in_flight.push_back(Copy {
                    tsn,
                    original,
                    chunk_size,
                });
                if copies.again.pop_front().is_none() {
                    copies.next = tsn.next();
                }
            }
            if let Some(path) = paths.get_mut(path) {
                path.chunk_retransmitted(now, chunk_size, false);
            }
        }
        count
    }

    /// The next copy on `path`, with header and padding, in bytes.
    pub(super) fn next_copy_size(&mut self, path: PathId) -> Option<usize> {
        if self.copies.is_empty() {
            return None;
        }
        let tsn = self.next_copy(path)?;
        self.outstanding.size_of_chunk(tsn)
    }

    /// A SACK was taken in, which lists these duplicates: copies of what is acknowledged are in flight no more.
    pub(super) fn acknowledge_copies(
        &mut self,
        now: Instant,
        duplicates: TsnList<'_>,
        paths: &mut Paths,
    ) {
        for copies in &mut self.copies.of_paths {
            let Some(path) = paths.get_mut(copies.path) else {
                continue;
            };
            let before = copies.in_flight.len();
            copies.in_flight.retain(|copy| {
                let is_acknowledged = self.outstanding.is_acknowledged(copy.tsn);
                if is_acknowledged {
                    path.chunk_left_flight(copy.chunk_size);
                    copies.unreported.push_back(*copy);
                }
                !is_acknowledged
            });
            // A path that gets no copies for long does not look at them.
            let outstanding = &self.outstanding;
            while let Some(front) = copies.again.front()
                && outstanding.is_acknowledged(*front)
            {
                copies.again.pop_front();
            }
            if copies.in_flight.len() < before {
                let in_flight = copies.in_flight.iter().map(|copy| copy.chunk_size).sum();
                path.copies_acknowledged(now, in_flight);
            }
            let excess = copies.unreported.len().saturating_sub(MAX_UNREPORTED);
            copies.unreported.drain(..excess);
        }
        for duplicate in duplicates.iter() {
            self.copies.reported(duplicate, paths);
        }
    }

    /// T3-rtx of `path` expired: its copies are lost.
    pub(super) fn lose_copies(&mut self, path: PathId, paths: &mut Paths) {
        let Some(copies) = self
            .copies
            .of_paths
            .iter_mut()
            .find(|copies| copies.path == path)
        else {
            return;
        };
        if let Some(path) = paths.get_mut(path) {
            for copy in &copies.in_flight {
                path.chunk_left_flight(copy.chunk_size);
            }
        }
        copies.in_flight.clear();
    }
}
