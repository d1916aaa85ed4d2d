//! Minimum round-trip time: the fastest path that has room.

use super::{Candidate, Scheduler, WaitingData, fastest_with_room};
use crate::association::path_id::PathId;

#[derive(Debug)]
pub(super) struct MinRtt;

impl Scheduler for MinRtt {
    fn next(&mut self, paths: &[Candidate], _data: &WaitingData) -> Option<PathId> {
        fastest_with_room(paths).map(|path| path.id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{candidate, waiting};
    use super::*;

    #[test]
    fn the_fastest_path_goes_first() {
        let slow = Candidate {
            srtt: Duration::from_millis(20),
            ..candidate(0)
        };
        let fast = candidate(1);
        let next = MinRtt.next(&[slow, fast], &waiting(1000, 1 << 20));
        assert_eq!(next, Some(fast.id));
    }
}
