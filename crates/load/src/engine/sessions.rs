//! All sessions of an engine, by place.

use super::buffers::Buffers;
use super::identity::SessionId;
use super::session::{Session, State};

/// All sessions. Their places are used again, the last one freed first, so that a few sessions stay in the
/// processor's cache.
///
/// They stand in parts of memory of one size, none of which ever moves: to move those of ten thousand calls that are
/// held would keep the next ones waiting for longer than anything else does.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    parts: Vec<Vec<Session>>,
    places: u32,
    free: Vec<u32>,
}

/// Sessions of a part, as a power of two.
const PIECE_BITS: u32 = 8;
const PIECE: usize = 1 << PIECE_BITS;

impl Sessions {
    /// A place for a session.
    pub(super) fn allocate(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        let index = self.places;
        self.places += 1;
        if self.parts.len() <= piece_of(index) {
            self.parts.push(Vec::with_capacity(PIECE));
        }
        if let Some(part) = self.parts.last_mut() {
            part.push(Session::new());
        }
        index
    }

    /// Frees a place.
    pub(super) fn release(&mut self, index: u32, buffers: &mut Buffers) {
        if let Some(session) = self.get_mut(index) {
            session.reset(buffers);
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

    pub(super) fn get(&self, index: u32) -> Option<&Session> {
        self.at(index)
            .filter(|session| session.state != State::Free)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Session> {
        self.fresh(index)
            .filter(|session| session.state != State::Free)
    }

    /// The place of a session that has just been allocated.
    pub(super) fn fresh(&mut self, index: u32) -> Option<&mut Session> {
        let part = self.parts.get_mut(piece_of(index))?;
        part.get_mut(index as usize % PIECE)
    }

    /// The name of the session at a place.
    pub(super) fn name(&self, index: u32) -> SessionId {
        SessionId {
            index,
            generation: self.at(index).map_or(0, |session| session.generation),
        }
    }

    /// The place of a session that is still under way.
    pub(super) fn find(&self, name: SessionId) -> Option<u32> {
        let session = self.get(name.index)?;
        (session.generation == name.generation).then_some(name.index)
    }

    fn at(&self, index: u32) -> Option<&Session> {
        self.parts.get(piece_of(index))?.get(index as usize % PIECE)
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
        let (mut sessions, mut buffers) = (Sessions::default(), Buffers::default());
        for expected in 0..3 * PIECE as u32 {
            let index = sessions.allocate();
            assert_eq!(index, expected);
            assert!(sessions.get(index).is_none());
            sessions.fresh(index).unwrap().state = State::Running;
            sessions.fresh(index).unwrap().number = index.into();
        }
        assert_eq!(
            (sessions.len(), sessions.places()),
            (3 * PIECE, 3 * PIECE as u32)
        );
        let numbers = (0..sessions.places()).filter_map(|index| Some(sessions.get(index)?.number));
        assert!(numbers.eq(0..3 * PIECE as u64));
        let name = sessions.name(300);
        assert_eq!(sessions.find(name), Some(300));
        sessions.release(300, &mut buffers);
        sessions.release(300, &mut buffers);
        assert_eq!((sessions.find(name), sessions.len()), (None, 3 * PIECE - 1));
        assert_eq!(sessions.allocate(), 300);
        sessions.fresh(300).unwrap().state = State::Running;
        assert_eq!(sessions.find(name), None);
        assert_eq!(sessions.find(sessions.name(300)), Some(300));
        assert!(sessions.get(3 * PIECE as u32).is_none() && sessions.get(u32::MAX).is_none());
    }

    /// A call that is held is two of them.
    #[test]
    fn a_session_takes_few_octets() {
        assert!(size_of::<Session>() <= 832, "{}", size_of::<Session>());
    }
}
