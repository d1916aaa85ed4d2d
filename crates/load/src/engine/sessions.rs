//! All sessions of an engine: by place, by Call-ID, by deadline, by connection.

use timer_wheel::TimerWheel;

use super::buffers::Buffers;
use super::call_ids::CallIds;
use super::config::ConnectionId;
use super::identity::{NOBODY, SessionId};
use super::session::{Session, State};
use super::time::Time;

/// All sessions. Their places are used again, the last one freed first, so that a few sessions stay in the
/// processor's cache.
///
/// They stand in chunks of memory of one size, none of which ever moves: to move those of ten thousand calls that are
/// held would keep the next ones waiting for longer than anything else does.
#[derive(Debug)]
pub(super) struct Sessions {
    chunks: Vec<Vec<Session>>,
    places: u32,
    free: Vec<u32>,
    by_call_id: CallIds,
    deadlines: TimerWheel<Time>,
    /// By connection, if it can be lost: the session that began last on it. The others follow from one to the
    /// next in the order in which they began: neighbours begin, and as a rule end, one after the other, so that they
    /// are in the processor's cache.
    newest: Vec<u32>,
    in_flight: usize,
    begun: u64,
}

/// Sessions of a chunk, as a power of two.
const CHUNK_BITS: u32 = 8;
const CHUNK: usize = 1 << CHUNK_BITS;

impl Sessions {
    pub(super) fn new() -> Sessions {
        Sessions {
            chunks: Vec::new(),
            places: 0,
            free: Vec::new(),
            by_call_id: CallIds::default(),
            deadlines: TimerWheel::new(),
            newest: Vec::new(),
            in_flight: 0,
            begun: 0,
        }
    }

    /// A place for a session.
    pub(super) fn allocate(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        let index = self.places;
        self.places += 1;
        if self.chunks.len() <= chunk_of(index) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Session::new());
        }
        index
    }

    /// Frees a place.
    pub(super) fn release(&mut self, index: u32, buffers: &mut Buffers) {
        self.leave_connection(index);
        self.leave_flight(index);
        let Some(session) = self.get_mut(index) else {
            return;
        };
        let filed = session
            .notes
            .is_filed
            .then_some(session.call_id_fingerprint);
        session.reset(buffers);
        self.free.push(index);
        if let Some(fingerprint) = filed {
            self.by_call_id.remove(fingerprint, index);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places as usize - self.free.len()
    }

    /// How many places there are.
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    /// The number of the next session that begins.
    pub(super) fn next_number(&mut self) -> u64 {
        self.begun += 1;
        self.begun
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
        let chunk = self.chunks.get_mut(chunk_of(index))?;
        chunk.get_mut(index as usize % CHUNK)
    }

    /// The identity of the session at a place.
    pub(super) fn id(&self, index: u32) -> SessionId {
        SessionId {
            index,
            generation: self.at(index).map_or(0, |session| session.generation),
        }
    }

    /// The place of a session that has not ended.
    pub(super) fn find(&self, id: SessionId) -> Option<u32> {
        let session = self.get(id.index)?;
        (session.generation == id.generation).then_some(id.index)
    }

    fn at(&self, index: u32) -> Option<&Session> {
        self.chunks
            .get(chunk_of(index))?
            .get(index as usize % CHUNK)
    }

    // By Call-ID.

    /// Files a session under the fingerprint of its Call-ID.
    pub(super) fn file(&mut self, index: u32, fingerprint: u64) {
        if let Some(session) = self.get_mut(index) {
            session.call_id_fingerprint = fingerprint;
            session.notes.is_filed = true;
            self.by_call_id.insert(fingerprint, index);
        }
    }

    /// Whether any session may have a Call-ID with this fingerprint.
    pub(super) fn may_have(&self, fingerprint: u64) -> bool {
        self.by_call_id.find(fingerprint, |_| true).is_some()
    }

    /// The session that is filed under a Call-ID and meets a condition.
    pub(super) fn find_filed(
        &self,
        fingerprint: u64,
        call_id: &[u8],
        is_it: impl Fn(&Session) -> bool,
    ) -> Option<u32> {
        self.by_call_id.find(fingerprint, |index| {
            self.get(index).is_some_and(|session| {
                session.call_id_fingerprint == fingerprint
                    && session.dialog.get(session.dialog.call_id) == call_id
                    && is_it(session)
            })
        })
    }

    // By deadline.

    /// Has a session come up when something of it is due.
    pub(super) fn arm(&mut self, index: u32) {
        if let Some(next) = self.get(index).map(Session::next)
            && next.is_known()
        {
            // The place of a session, which the next one takes over with this entry, is looked at once every half second
            // (Timer A) however many sessions there are.
            self.deadlines.set_if_earlier(index, next.rounded_up());
        }
    }

    /// The next session of which something is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        self.deadlines.pop_due(now)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.deadlines.first()
    }

    // By connection.

    /// Notes that a session is on its connection, where that is one that can be lost.
    pub(super) fn join_connection(&mut self, index: u32) {
        let Some(session) = self.get(index) else {
            return;
        };
        let place = session.connection.0 as usize;
        if self.newest.len() <= place {
            self.newest.resize(place + 1, NOBODY);
        }
        let Some(newest) = self.newest.get_mut(place) else {
            return;
        };
        let older = std::mem::replace(newest, index);
        if let Some(session) = self.get_mut(index) {
            session.older = older;
            session.newer = NOBODY;
            session.notes.is_on_connection = true;
        }
        if let Some(older) = self.get_mut(older) {
            older.newer = index;
        }
    }

    /// Notes that a session is not on its connection any more.
    pub(super) fn leave_connection(&mut self, index: u32) {
        let Some(session) = self
            .get_mut(index)
            .filter(|session| session.notes.is_on_connection)
        else {
            return;
        };
        session.notes.is_on_connection = false;
        let (connection, older, newer) = (session.connection, session.older, session.newer);
        if let Some(older) = self.get_mut(older) {
            older.newer = newer;
        }
        match self.get_mut(newer) {
            Some(newer) => newer.older = older,
            None => {
                if let Some(newest) = self.newest.get_mut(connection.0 as usize) {
                    *newest = older;
                }
            }
        }
    }

    /// The sessions that wait for a response on a connection, the newest first.
    pub(super) fn waiting_on(&self, connection: ConnectionId) -> Vec<u32> {
        let mut waiting = Vec::new();
        let newest = self.newest.get(connection.0 as usize);
        let mut next = newest.copied().unwrap_or(NOBODY);
        while let Some(session) = self.get(next) {
            if session.invite_client.is_pending() || session.non_invite_client.is_pending() {
                waiting.push(next);
            }
            next = session.older;
        }
        waiting
    }

    // In flight.

    /// How many of our users' attempts have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Counts a session as in flight.
    pub(super) fn enter_flight(&mut self, index: u32) {
        if let Some(session) = self.get_mut(index) {
            session.notes.is_in_flight = true;
            self.in_flight += 1;
        }
    }

    /// Counts a session as ended.
    pub(super) fn leave_flight(&mut self, index: u32) {
        if let Some(session) = self.get_mut(index)
            && std::mem::take(&mut session.notes.is_in_flight)
        {
            self.in_flight -= 1;
        }
    }
}

fn chunk_of(index: u32) -> usize {
    (index >> CHUNK_BITS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_identities_are_not() {
        let (mut sessions, mut buffers) = (Sessions::new(), Buffers::default());
        for expected in 0..3 * CHUNK as u32 {
            let index = sessions.allocate();
            assert_eq!(index, expected);
            assert!(sessions.get(index).is_none());
            sessions.fresh(index).unwrap().state = State::Running;
            sessions.fresh(index).unwrap().number = index.into();
        }
        assert_eq!(
            (sessions.len(), sessions.places()),
            (3 * CHUNK, 3 * CHUNK as u32)
        );
        let numbers = (0..sessions.places()).filter_map(|index| Some(sessions.get(index)?.number));
        assert!(numbers.eq(0..3 * CHUNK as u64));
        let id = sessions.id(300);
        assert_eq!(sessions.find(id), Some(300));
        sessions.release(300, &mut buffers);
        sessions.release(300, &mut buffers);
        assert_eq!((sessions.find(id), sessions.len()), (None, 3 * CHUNK - 1));
        assert_eq!(sessions.allocate(), 300);
        sessions.fresh(300).unwrap().state = State::Running;
        assert_eq!(sessions.find(id), None);
        assert_eq!(sessions.find(sessions.id(300)), Some(300));
        assert!(sessions.get(3 * CHUNK as u32).is_none() && sessions.get(u32::MAX).is_none());
    }

    fn begun(sessions: &mut Sessions, connection: u32) -> u32 {
        let index = sessions.allocate();
        let session = sessions.fresh(index).unwrap();
        session.state = State::Running;
        session.connection = ConnectionId(connection);
        session.non_invite_client.state = super::super::session::ClientState::Calling;
        sessions.join_connection(index);
        index
    }

    #[test]
    fn a_connection_has_its_sessions_the_last_ones_first() {
        let (mut sessions, mut buffers) = (Sessions::new(), Buffers::default());
        let [a, b, c] = [3; 3].map(|connection| begun(&mut sessions, connection));
        let other = begun(&mut sessions, 0);
        assert_eq!(sessions.waiting_on(ConnectionId(3)), [c, b, a]);
        sessions.release(b, &mut buffers);
        assert_eq!(sessions.waiting_on(ConnectionId(3)), [c, a]);
        sessions.leave_connection(c);
        sessions.release(c, &mut buffers);
        assert_eq!(sessions.waiting_on(ConnectionId(3)), [a]);
        sessions.release(a, &mut buffers);
        assert!(sessions.waiting_on(ConnectionId(3)).is_empty());
        assert_eq!(sessions.waiting_on(ConnectionId(0)), [other]);
        assert!(sessions.waiting_on(ConnectionId(9)).is_empty());
    }

    #[test]
    fn what_a_session_is_counted_for_ends_with_it() {
        let (mut sessions, mut buffers) = (Sessions::new(), Buffers::default());
        let index = begun(&mut sessions, 0);
        sessions.enter_flight(index);
        sessions.file(index, 7);
        assert!(sessions.may_have(7) && !sessions.may_have(8));
        assert_eq!(sessions.find_filed(7, b"", |_| true), Some(index));
        assert_eq!(sessions.find_filed(7, b"x", |_| true), None);
        assert_eq!(sessions.in_flight(), 1);
        sessions.release(index, &mut buffers);
        assert_eq!((sessions.in_flight(), sessions.may_have(7)), (0, false));
    }

    /// A call that is held is two of them.
    #[test]
    fn a_session_takes_few_octets() {
        assert!(size_of::<Session>() <= 832, "{}", size_of::<Session>());
    }
}
