//! What is left of a run whose peer may repeat itself.
//!
//! Over UDP a server transaction lives on for 64·T1 after its final response (Timers J and L, RFC 3261
//! section 17.2.2 and RFC 6026 section 8.11), which at ten thousand calls a second would be hundreds of
//! thousands of runs that do nothing. A remnant has a few octets in the place of each: enough to say the
//! same again, since a response without a body can be made from the request once more. Where a script has said more
//! in it, it is kept: peers may take for another response what is not the same (section 17.2.2), as SIPp does.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::identity::RunName;
use super::time::Time;

/// What is left of a run.
#[derive(Clone, Debug)]
pub(super) enum Remnant {
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

/// How a run's last request was answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) run: RunName,
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

/// Remnants by the hash of their Call-IDs, with the caller's tag where we were called.
#[derive(Debug)]
pub(super) struct Remnants {
    by_call_id: HashMap<u64, (Time, Remnant), ahash::RandomState>,
    /// In the order in which they expire, since all live equally long.
    expiring: VecDeque<(Time, u64)>,
    maximum: usize,
}

impl Remnants {
    pub(super) fn new(maximum: usize, hasher: ahash::RandomState) -> Remnants {
        Remnants {
            by_call_id: HashMap::with_hasher(hasher),
            expiring: VecDeque::new(),
            maximum,
        }
    }

    /// Keeps a remnant. The oldest ones give way where there are too many.
    pub(super) fn insert(&mut self, now: Time, expires: Time, call_id: u64, remnant: Remnant) {
        self.expire(now);
        while self.expiring.len() >= self.maximum.max(1) {
            self.remove_first();
        }
        self.by_call_id.insert(call_id, (expires, remnant));
        self.expiring.push_back((expires, call_id));
    }

    pub(super) fn get(&self, now: Time, call_id: u64) -> Option<&Remnant> {
        let (expires, remnant) = self.by_call_id.get(&call_id)?;
        (*expires > now).then_some(remnant)
    }

    /// Forgets what nobody may repeat any more: a few at a time, more than are added.
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
        {
            self.by_call_id.remove(&call_id);
        }
    }
}
