//! All runs of an engine, by place.

use super::buffers::Buffers;
use super::identity::RunName;
use super::run::{Run, State};

/// All runs. Their places are used again, the last one freed first, so that a few runs stay in the
/// processor's cache.
///
/// They stand in pieces of memory of one size, none of which ever moves: to move those of ten thousand calls that are
/// held would keep the next ones waiting for longer than anything else does.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pieces: Vec<Vec<Run>>,
    places: u32,
    free: Vec<u32>,
}

/// Runs of a piece, as a power of two.
const PIECE_BITS: u32 = 8;
const PIECE: usize = 1 << PIECE_BITS;

impl Runs {
    /// A place for a run.
    pub(super) fn allocate(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        let index = self.places;
        self.places += 1;
        if self.pieces.len() <= piece_of(index) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(Run::new());
        }
        index
    }

    /// Frees a place.
    pub(super) fn release(&mut self, index: u32, buffers: &mut Buffers) {
        if let Some(run) = self.get_mut(index) {
            run.reset(buffers);
            self.free.push(index);
        }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.places as usize - self.free.len()
    }

    /// How many places there are.
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    pub(super) fn get(&self, index: u32) -> Option<&Run> {
        self.at(index).filter(|run| run.state != State::Free)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Run> {
        self.fresh(index).filter(|run| run.state != State::Free)
    }

    /// The place of a run that has just been allocated.
    pub(super) fn fresh(&mut self, index: u32) -> Option<&mut Run> {
        let piece = self.pieces.get_mut(piece_of(index))?;
        piece.get_mut(index as usize % PIECE)
    }

    /// The name of the run at a place.
    pub(super) fn name(&self, index: u32) -> RunName {
        RunName {
            index,
            generation: self.at(index).map_or(0, |run| run.generation),
        }
    }

    /// The place of a run that is still under way.
    pub(super) fn find(&self, name: RunName) -> Option<u32> {
        let run = self.get(name.index)?;
        (run.generation == name.generation).then_some(name.index)
    }

    fn at(&self, index: u32) -> Option<&Run> {
        self.pieces
            .get(piece_of(index))?
            .get(index as usize % PIECE)
    }
}

fn piece_of(index: u32) -> usize {
    (index >> PIECE_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_names_are_not() {
        let (mut runs, mut buffers) = (Runs::default(), Buffers::default());
        for expected in 0..3 * PIECE as u32 {
            let index = runs.allocate();
            assert_eq!(index, expected);
            assert!(runs.get(index).is_none());
            runs.fresh(index).unwrap().state = State::Running;
            runs.fresh(index).unwrap().number = index.into();
        }
        assert_eq!((runs.len(), runs.places()), (3 * PIECE, 3 * PIECE as u32));
        let numbers = (0..runs.places()).filter_map(|index| Some(runs.get(index)?.number));
        assert!(numbers.eq(0..3 * PIECE as u64));
        let name = runs.name(300);
        assert_eq!(runs.find(name), Some(300));
        runs.release(300, &mut buffers);
        runs.release(300, &mut buffers);
        assert_eq!((runs.find(name), runs.len()), (None, 3 * PIECE - 1));
        assert_eq!(runs.allocate(), 300);
        runs.fresh(300).unwrap().state = State::Running;
        assert_eq!(runs.find(name), None);
        assert_eq!(runs.find(runs.name(300)), Some(300));
        assert!(runs.get(3 * PIECE as u32).is_none() && runs.get(u32::MAX).is_none());
    }

    /// A call that is held is two of them.
    #[test]
    fn a_run_takes_few_octets() {
        assert!(size_of::<Run>() <= 832, "{}", size_of::<Run>());
    }
}
