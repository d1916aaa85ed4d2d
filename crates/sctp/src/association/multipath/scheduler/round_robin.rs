//! Round robin: the paths take turns, a packet each, as far as they have room.

use super::{Candidate, Scheduler, WaitingData};
use crate::association::path_id::PathId;

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// The path that had the turn last, and its flight then: the turn is over when it has sent something.
    turn: Option<(PathId, usize)>,
}

impl Scheduler for RoundRobin {
    fn next(&mut self, paths: &[Candidate], _data: &WaitingData) -> Option<PathId> {
        let with_room = || paths.iter().filter(|path| path.has_room);
        if let Some((id, flight)) = self.turn
            && let Some(path) = with_room().find(|path| path.id == id)
            && path.flight <= flight
        {
            self.turn = Some((id, path.flight));
            return Some(id);
        }
        let previous = self.turn.map(|(id, _)| id);
        let next = with_room()
            .find(|path| Some(path.id) > previous)
            .or_else(|| with_room().next())?;
        self.turn = Some((next.id, next.flight));
        Some(next.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, waiting};
    use super::*;

    #[test]
    fn a_turn_is_a_packet() {
        let mut paths = [candidate(0), candidate(1), candidate(2)];
        paths[1].has_room = false;
        let data = waiting(1 << 20, 1 << 20);
        let mut scheduler = RoundRobin::default();
        let mut taken = Vec::new();
        for _ in 0..5 {
            let next = scheduler.next(&paths, &data);
            assert_eq!(scheduler.next(&paths, &data), next, "nothing was sent yet");
            let index = paths.iter().position(|path| Some(path.id) == next).unwrap();
            paths[index].flight += 1000;
            taken.push(index);
        }
        assert_eq!(taken, [0, 2, 0, 2, 0]);
    }
}
