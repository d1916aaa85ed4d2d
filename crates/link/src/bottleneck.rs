//! How much a link carries a second, and how much waits for it.

use crate::delay::LONGEST;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A link that carries no more than its rate: packets leave one after the other, and what comes
/// faster waits in a queue with room for so many packets and so many bytes. What finds no room is
/// dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bottleneck {
    /// Bits that leave a second; 0 counts as 1.
    pub bits_per_second: u64,
    /// Packets that wait, the one that is leaving included.
    pub queue_packets: usize,
    /// Bytes of the packets that wait, the one that is leaving included. A packet that finds
    /// nobody waiting is taken however large it is.
    pub queue_bytes: usize,
}

impl Bottleneck {
    /// A link of that rate with a queue of 1,000 packets, as a network card has it, and as many
    /// bytes as these may have.
    pub fn new(bits_per_second: u64) -> Bottleneck {
        Bottleneck {
            bits_per_second,
            queue_packets: 1000,
            queue_bytes: usize::MAX,
        }
    }
}

/// The queue before the bottleneck. It knows when packets leave and how large they are.
#[derive(Clone, Default, Debug)]
pub(crate) struct Queue {
    /// In the order of leaving; not longer than the bound on packets.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    leaves: Instant,
    bytes: usize,
}

impl Queue {
    /// When a packet that comes now has left; `None` when there is no room for it.
    pub(crate) fn pass(
        &mut self,
        bottleneck: &Bottleneck,
        now: Instant,
        bytes: usize,
    ) -> Option<Instant> {
        self.forget_what_has_left(now);
        let begins = self.waiting.back().map_or(now, |last| last.leaves);
        let room = bottleneck.queue_bytes.saturating_sub(self.waiting_bytes);
        let is_full = self.waiting.len() >= bottleneck.queue_packets || bytes > room;
        if is_full && !self.waiting.is_empty() {
            return None;
        }
        let leaves = begins + time_to_leave(bytes, bottleneck.bits_per_second);
        self.waiting.push_back(Waiting { leaves, bytes });
        self.waiting_bytes += bytes;
        Some(leaves)
    }

    fn forget_what_has_left(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front()
            && first.leaves <= now
        {
            self.waiting_bytes -= first.bytes;
            self.waiting.pop_front();
        }
    }
}

/// Rounded up to the nanosecond.
fn time_to_leave(bytes: usize, bits_per_second: u64) -> Duration {
    let nanobits = bytes as u128 * 8 * 1_000_000_000;
    let nanoseconds = nanobits.div_ceil(bits_per_second.max(1).into());
    Duration::from_nanos(u64::try_from(nanoseconds).map_or(LONGEST, |time| time.min(LONGEST)))
}
