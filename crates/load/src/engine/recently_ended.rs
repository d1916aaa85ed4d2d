//! Answers of sessions that have ended, for retransmissions of their peers.
//!
//! Over UDP a server transaction lives on for 64·T1 after its final response (Timers J and L, RFC 3261
//! section 17.2.2 and RFC 6026 section 8.11), which at ten thousand calls a second would be hundreds of
//! thousands of idle sessions. An ended session takes a few octets in the place of each: a response without a body can be
//! written again from the request. A response in which a script has said more is kept: peers may take a different one
//! for another response (section 17.2.2), as SIPp does. Peers determine its length, so octets are bounded as well as
//! their number.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::identity::SessionId;
use super::time::Time;

/// The answer of a session that has ended.
#[derive(Clone, Debug)]
pub(super) enum EndedSession {
    /// We were called: how its last request was answered, and which INVITE is not to begin it once more.
    Answered(Answered),
    /// We called and were refused: the ACK, for each time that the refusal comes again (Timer D, RFC 3261
    /// section 17.1.1.2).
    Refused {
        /// The sequence number of the INVITE.
        cseq: u32,
        ack: Box<[u8]>,
    },
}

/// How a session's last request was answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) session: SessionId,
    /// The sequence number of the INVITE that began it; nothing where none did.
    pub(super) invite: Option<u32>,
    /// The sequence number of the last other request.
    pub(super) cseq: u32,
    /// The hash of its branch.
    pub(super) branch: u64,
    pub(super) status: u16,
    /// The response, where it cannot be made of the request once more.
    pub(super) response: Option<Box<[u8]>>,
}

impl EndedSession {
    /// How much of messages it keeps.
    fn octets(&self) -> usize {
        match self {
            EndedSession::Answered(answered) => {
                answered.response.as_ref().map_or(0, |octets| octets.len())
            }
            EndedSession::Refused { ack, .. } => ack.len(),
        }
    }
}

/// Octets of messages for each session, on average: their usual length. Longer ones have the
/// room of others.
const OCTETS_PER_SESSION: usize = 512;

/// RecentlyEnded by the hash of their Call-IDs, with the caller's tag where we were called.
#[derive(Debug)]
pub(super) struct RecentlyEnded {
    by_call_id: HashMap<u64, (Time, EndedSession), ahash::RandomState>,
    /// In the order in which they expire, since all live equally long.
    expiring: VecDeque<(Time, u64)>,
    maximum: usize,
    /// How much of messages all of them keep.
    octets: usize,
}

impl RecentlyEnded {
    pub(super) fn new(maximum: usize, hasher: ahash::RandomState) -> RecentlyEnded {
        RecentlyEnded {
            by_call_id: HashMap::with_hasher(hasher),
            expiring: VecDeque::new(),
            maximum: maximum.max(1),
            octets: 0,
        }
    }

    /// Keeps a ended. The oldest ones give way where there are too many.
    pub(super) fn insert(&mut self, now: Time, expires: Time, call_id: u64, ended: EndedSession) {
        self.expire(now);
        let octets = ended.octets();
        let maximum_octets = self.maximum.saturating_mul(OCTETS_PER_SESSION);
        while !self.expiring.is_empty()
            && (self.expiring.len() >= self.maximum || self.octets + octets > maximum_octets)
        {
            self.remove_first();
        }
        self.octets += octets;
        if let Some((_, replaced)) = self.by_call_id.insert(call_id, (expires, ended)) {
            self.octets -= replaced.octets();
        }
        self.expiring.push_back((expires, call_id));
    }

    pub(super) fn get(&self, now: Time, call_id: u64) -> Option<&EndedSession> {
        let (expires, ended) = self.by_call_id.get(&call_id)?;
        (*expires > now).then_some(ended)
    }

    /// Forgets answers that no peer may need any more: a few at a time, more than are added.
    fn expire(&mut self, now: Time) {
        for _ in 0..4 {
            match self.expiring.front() {
                Some((expires, _)) if *expires <= now => self.remove_first(),
                _ => return,
            }
        }
    }

    fn remove_first(&mut self) {
        let Some((expires, call_id)) = self.expiring.pop_front() else {
            return;
        };
        // A later one may have taken its place.
        if self
            .by_call_id
            .get(&call_id)
            .is_some_and(|(present, _)| *present == expires)
            && let Some((_, removed)) = self.by_call_id.remove(&call_id)
        {
            self.octets -= removed.octets();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAXIMUM: usize = 10;

    fn recently_ended() -> RecentlyEnded {
        RecentlyEnded::new(MAXIMUM, ahash::RandomState::with_seeds(1, 2, 3, 4))
    }

    fn refused(octets: usize) -> EndedSession {
        EndedSession::Refused {
            cseq: 1,
            ack: vec![b'a'; octets].into(),
        }
    }

    fn answered(octets: usize) -> EndedSession {
        EndedSession::Answered(Answered {
            session: SessionId {
                index: 0,
                generation: 0,
            },
            invite: None,
            cseq: 1,
            branch: 1,
            status: 200,
            response: (octets > 0).then(|| vec![b'r'; octets].into()),
        })
    }

    fn at(seconds: u64) -> Time {
        Time::START.after(std::time::Duration::from_secs(seconds))
    }

    #[test]
    fn long_messages_displace_the_oldest_ones() {
        let mut recently_ended = recently_ended();
        for call in 0..4 {
            recently_ended.insert(at(0), at(32), call, answered(OCTETS_PER_SESSION));
        }
        let half = MAXIMUM / 2 * OCTETS_PER_SESSION;
        recently_ended.insert(at(1), at(33), 4, refused(half));
        assert!((0..=4).all(|call| recently_ended.get(at(1), call).is_some()));
        recently_ended.insert(at(1), at(33), 5, refused(2 * OCTETS_PER_SESSION));
        assert!(recently_ended.get(at(1), 0).is_none());
        assert!((1..=5).all(|call| recently_ended.get(at(1), call).is_some()));
        // One that is longer than all of them may be is alone.
        recently_ended.insert(at(1), at(33), 6, answered(3 * half));
        assert!((0..=5).all(|call| recently_ended.get(at(1), call).is_none()));
        assert!(recently_ended.get(at(1), 6).is_some());
        recently_ended.insert(at(2), at(34), 7, answered(0));
        assert!(recently_ended.get(at(2), 6).is_none());
        assert_eq!(recently_ended.octets, 0);
    }

    proptest! {
        /// Whatever is kept, replaced and forgotten: what is counted is what is there, and no more than is allowed.
        #[test]
        fn octets_are_bounded(
            steps in prop::collection::vec((0_u64..8, 0_u64..20, 0_usize..4_000, any::<bool>()), 1..100),
        ) {
            let mut recently_ended = recently_ended();
            let mut now = 0;
            for (passes, call, octets, is_refused) in steps {
                now += passes;
                let ended = if is_refused { refused(octets) } else { answered(octets) };
                recently_ended.insert(at(now), at(now + 32), call, ended);
                prop_assert!(recently_ended.get(at(now), call).is_some());
                let kept = recently_ended.by_call_id.values().map(|(_, ended)| ended.octets());
                prop_assert_eq!(kept.sum::<usize>(), recently_ended.octets);
                prop_assert!(recently_ended.octets <= MAXIMUM * OCTETS_PER_SESSION);
                prop_assert!(recently_ended.expiring.len() <= MAXIMUM);
            }
        }
    }
}
