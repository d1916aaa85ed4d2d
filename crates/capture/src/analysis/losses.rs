//! Which messages of sessions were lost.

use super::session::{Milestone, Session};

/// How often each message of Adnan 2012's table is missing.
///
/// Adnan 2012 counts a session as lost when any of its messages did not reach where it should. A message
/// that the capture has of no session at all was not captured there, and counts for nothing; nor does a session
/// that was [declined](Session::is_declined), since what it lacks was never sent.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    sessions: u64,
    seen: [u64; 10],
    /// Sessions by the set of messages that they lack, a bit each.
    patterns: std::collections::BTreeMap<u16, u64>,
}

/// Of one message, how many sessions lack it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The message.
    pub milestone: Milestone,
    /// Sessions that have it.
    pub seen: u64,
    /// Sessions that lack it.
    pub missing: u64,
    /// Sessions that lack it and nothing that comes before it: the one that the session was lost with.
    pub first: u64,
}

impl Losses {
    pub(crate) fn add(&mut self, session: &Session) {
        self.sessions += 1;
        let mut pattern = 0;
        for milestone in Milestone::ALL {
            match session.timestamps.get(milestone) {
                Some(_) => self.seen[milestone as usize] += 1,
                None => pattern |= 1 << milestone as u16,
            }
        }
        *self.patterns.entry(pattern).or_default() += 1;
    }

    /// Sessions counted.
    pub fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Whether any session has this message.
    pub fn is_captured(&self, milestone: Milestone) -> bool {
        self.seen[milestone as usize] > 0
    }

    /// Sessions that lack a message that others have.
    pub fn lost_sessions(&self) -> u64 {
        let captured = self.captured();
        self.patterns
            .iter()
            .filter(|(pattern, _)| *pattern & captured != 0)
            .map(|(_, sessions)| sessions)
            .sum()
    }

    /// Messages that are missing in all: what Adnan 2012's figures 19 and 20 call lost sessions.
    pub fn missing_messages(&self) -> u64 {
        self.by_message().iter().map(|loss| loss.missing).sum()
    }

    /// Each message that the capture has of any session, in the order in which they happen.
    pub fn by_message(&self) -> Vec<Loss> {
        let mut before = 0;
        let mut losses = Vec::new();
        for milestone in Milestone::IN_TIME {
            if !self.is_captured(milestone) {
                continue;
            }
            let bit = 1 << milestone as u16;
            let first = self
                .patterns
                .iter()
                .filter(|(pattern, _)| *pattern & bit != 0 && *pattern & before == 0)
                .map(|(_, sessions)| sessions)
                .sum();
            before |= bit;
            losses.push(Loss {
                milestone,
                seen: self.seen[milestone as usize],
                missing: self.sessions - self.seen[milestone as usize],
                first,
            });
        }
        losses
    }

    fn captured(&self) -> u16 {
        Milestone::ALL
            .into_iter()
            .filter(|milestone| self.is_captured(*milestone))
            .fold(0, |captured, milestone| captured | 1 << milestone as u16)
    }
}
