//! Redundant: every path takes everything. A message goes to the fastest path that has room first; its copies
//! on the others are made elsewhere.

use super::{Candidate, Scheduler, WaitingData, fastest_with_room};
use crate::association::path_id::PathId;

#[derive(Debug)]
pub(super) struct Redundant;

impl Scheduler for Redundant {
    fn next(&mut self, paths: &[Candidate], _data: &WaitingData) -> Option<PathId> {
        fastest_with_room(paths).map(|path| path.id)
    }
}
