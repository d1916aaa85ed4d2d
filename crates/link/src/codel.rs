//! Controlled delay.

use crate::time::nanoseconds;
use crate::words::{Words, WordsError, bytes, duration, show_bytes, show_duration};
use std::fmt;
use std::time::Duration;

/// CoDel (RFC 8289): when packets have waited longer than the target for an interval, one is dropped,
/// and as long as that does not help the next ones after interval/√2, interval/√3, …
///
/// All is as in section 5 of the RFC, but for one thing that a model without packets cannot know:
/// whether the queue that a packet leaves behind is no more than one packet of full size. It looks at
/// the queue that the packet found instead; where the queue stands these are the same.
///
/// With ECN a packet that can be marked is marked instead (section 5.7 leaves that open), and counts
/// as if it were dropped.
///
/// In words, after the queue's bounds: `codel`, `codel target 5ms interval 100ms mtu 1500B`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDel {
    /// How long packets may wait.
    pub target: Duration,
    /// For how long they may wait longer; of the order of the longest usual round trip.
    pub interval: Duration,
    /// Bytes of a packet of full size. A queue that is no longer is left alone.
    pub mtu: u32,
}

impl Default for CoDel {
    /// 5 ms, 100 ms (RFC 8289, sections 4.2 and 4.3) and 1500 bytes.
    fn default() -> CoDel {
        CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: 1500,
        }
    }
}

impl CoDel {
    pub(crate) fn read(words: &mut Words<'_>) -> Result<CoDel, WordsError> {
        let mut codel = CoDel::default();
        if words.next_if("target") {
            codel.target = words.value("a time such as 5ms", duration)?;
        }
        if words.next_if("interval") {
            codel.interval = words.value("a time such as 100ms", duration)?;
        }
        if words.next_if("mtu") {
            let bytes = words.value("a size such as 1500B", bytes)?;
            codel.mtu = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        Ok(codel)
    }
}

impl fmt::Display for CoDel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = CoDel::default();
        f.write_str("codel")?;
        if self.target != default.target {
            write!(f, " target {}", show_duration(self.target))?;
        }
        if self.interval != default.interval {
            write!(f, " interval {}", show_duration(self.interval))?;
        }
        if self.mtu != default.mtu {
            write!(f, " mtu {}", show_bytes(self.mtu.into()))?;
        }
        Ok(())
    }
}

/// What the management of a queue decides about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// It goes on.
    Pass,
    /// It is dropped, or marked when it can be.
    DropOrMark,
    /// It is dropped.
    Drop,
}

/// What CoDel remembers, under the RFC's names. Times are nanoseconds.
#[derive(Clone, Default, Debug)]
pub(crate) struct State {
    /// When packets will have waited too long for an interval, if they do now.
    first_above_time: Option<u64>,
    /// When the next packet is to be dropped, while dropping.
    drop_next: u64,
    /// Packets dropped since dropping began.
    count: u64,
    /// `count` when dropping last began.
    last_count: u64,
    dropping: bool,
    /// What was dropped just before, so that this packet leaves the queue at the same time.
    after: After,
}

#[derive(Clone, Copy, Default, Debug)]
enum After {
    #[default]
    Nothing,
    /// A drop in the course of dropping.
    Drop,
    /// The drop that dropping begins with.
    FirstDrop,
}

/// A packet at the head of the queue. Times are nanoseconds.
pub(crate) struct Head {
    pub(crate) now: u64,
    pub(crate) waited: u64,
    /// Bytes that wait besides it.
    pub(crate) backlog: u64,
    pub(crate) can_be_marked: bool,
}

impl State {
    /// There was nothing left in the queue to take.
    pub(crate) fn ran_empty(&mut self) {
        self.first_above_time = None;
        self.dropping = false;
        self.after = After::Nothing;
    }

    /// Whether a packet goes when its turn has come.
    pub(crate) fn decide(&mut self, codel: &CoDel, head: &Head) -> Decision {
        let interval = nanoseconds(codel.interval);
        let ok_to_drop = self.waited_too_long(codel, interval, head);
        match std::mem::take(&mut self.after) {
            After::FirstDrop => return Decision::Pass,
            // The rest of the loop of RFC 8289, section 5.5, after its `dodequeue`.
            After::Drop if ok_to_drop => self.drop_next = self.next_drop(self.drop_next, interval),
            After::Drop | After::Nothing => {}
        }
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
                return Decision::Pass;
            }
            if head.now < self.drop_next {
                return Decision::Pass;
            }
            self.count = self.count.saturating_add(1);
            if head.can_be_marked {
                self.drop_next = self.next_drop(self.drop_next, interval);
            } else {
                self.after = After::Drop;
            }
            return Decision::DropOrMark;
        }
        if !ok_to_drop {
            return Decision::Pass;
        }
        self.dropping = true;
        let delta = self.count - self.last_count.min(self.count);
        let since = head.now.saturating_sub(self.drop_next);
        self.count = if delta > 1 && since < interval.saturating_mul(16) {
            delta
        } else {
            1
        };
        self.drop_next = self.next_drop(head.now, interval);
        self.last_count = self.count;
        if !head.can_be_marked {
            self.after = After::FirstDrop;
        }
        Decision::DropOrMark
    }

    /// RFC 8289, section 5.6: `dodequeue`.
    fn waited_too_long(&mut self, codel: &CoDel, interval: u64, head: &Head) -> bool {
        if head.waited < nanoseconds(codel.target) || head.backlog <= codel.mtu.into() {
            self.first_above_time = None;
            return false;
        }
        let since = self
            .first_above_time
            .get_or_insert(head.now.saturating_add(interval));
        head.now >= *since
    }

    /// RFC 8289, section 5.6: `control_law`.
    fn next_drop(&self, after: u64, interval: u64) -> u64 {
        let step = interval as f64 / (self.count.max(1) as f64).sqrt();
        after.saturating_add(step as u64)
    }
}
