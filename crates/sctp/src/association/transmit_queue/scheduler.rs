//! The stream schedulers of RFC 8260 section 3: whose turn it is to send.
//!
//! A scheduler ranks the streams that have something to send; the one of the lowest rank has the next
//! turn, and is ranked anew after it. How long a turn lasts is the queue's business: it ends between
//! messages, or, where messages may be interleaved, between fragments, or with the packet.

use std::fmt;

use crate::StreamScheduler;

/// A stream that has something to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) stream: u16,
    /// What the user has set for it: its weight, or its priority.
    pub(super) value: u16,
    /// The place of its next message in the order in which all messages came.
    pub(super) arrival: u64,
}

/// Chooses the stream that sends next.
pub(super) trait Scheduler: fmt::Debug + Send {
    /// The rank of a stream that has something to send from now on, or still has after its turn. The
    /// lowest goes first.
    fn rank(&mut self, candidate: Candidate) -> u128;

    /// That much user data of `stream`, whose weight or priority is `value`, was sent in a turn of the
    /// rank `rank`.
    fn sent(&mut self, _stream: u16, _value: u16, _rank: u128, _bytes: usize) {}
}

/// The scheduler of that name.
pub(super) fn scheduler(name: StreamScheduler) -> Box<dyn Scheduler> {
    match name {
        StreamScheduler::FirstComeFirstServed => Box::new(FirstComeFirstServed),
        StreamScheduler::RoundRobin | StreamScheduler::RoundRobinPerPacket => {
            Box::new(RoundRobin::default())
        }
        StreamScheduler::Priority => Box::new(Priority),
        StreamScheduler::FairCapacity => Box::new(FairCapacity::default()),
        StreamScheduler::WeightedFairQueueing => Box::new(WeightedFairQueueing::default()),
    }
}

/// Section 3.1.
#[derive(Debug)]
struct FirstComeFirstServed;

impl Scheduler for FirstComeFirstServed {
    fn rank(&mut self, candidate: Candidate) -> u128 {
        candidate.arrival.into()
    }
}

/// Sections 3.2 and 3.3: whoever has had a turn goes to the end of the line, where newcomers go, too.
#[derive(Debug, Default)]
struct RoundRobin {
    turns: u128,
}

impl Scheduler for RoundRobin {
    fn rank(&mut self, _: Candidate) -> u128 {
        self.turns += 1;
        self.turns
    }
}

/// Section 3.4: the lowest value is the highest priority (section 4.3.2). Among streams of one priority
/// the message that came first is sent first, as without priorities.
#[derive(Debug)]
struct Priority;

impl Scheduler for Priority {
    fn rank(&mut self, candidate: Candidate) -> u128 {
        u128::from(candidate.value) << 64 | u128::from(candidate.arrival)
    }
}

/// Section 3.5: weighted fair queueing where all weights are the same.
#[derive(Debug, Default)]
struct FairCapacity(WeightedFairQueueing);

impl Scheduler for FairCapacity {
    fn rank(&mut self, candidate: Candidate) -> u128 {
        self.0.rank(candidate)
    }

    fn sent(&mut self, stream: u16, _: u16, rank: u128, bytes: usize) {
        self.0.sent(stream, 1, rank, bytes);
    }
}

/// Section 3.6, as start-time fair queueing (Goyal, Vin, Cheng 1996): a stream's virtual time runs on by
/// the bytes that it sends, divided by its weight, and the stream whose time is earliest sends. One
/// that had nothing to send joins the others at their time, so it has not saved up anything.
#[derive(Debug, Default)]
struct WeightedFairQueueing {
    /// The virtual time at which the latest turn began.
    now: u128,
    /// The virtual time of each stream up to the highest that was ever ranked.
    times: Vec<u128>,
}

impl WeightedFairQueueing {
    /// Virtual time for a byte at the weight 1: so much that it can be divided by every weight.
    const BYTE: u128 = 1 << 16;

    fn time_of(&mut self, stream: u16) -> Option<&mut u128> {
        let index = usize::from(stream);
        if index >= self.times.len() {
            self.times.resize(index + 1, 0);
        }
        self.times.get_mut(index)
    }
}

impl Scheduler for WeightedFairQueueing {
    fn rank(&mut self, candidate: Candidate) -> u128 {
        let now = self.now;
        let Some(time) = self.time_of(candidate.stream) else {
            return now;
        };
        *time = now.max(*time);
        *time
    }

    fn sent(&mut self, stream: u16, value: u16, rank: u128, bytes: usize) {
        self.now = rank;
        let weight = u128::from(value.max(1));
        if let Some(time) = self.time_of(stream) {
            *time += bytes as u128 * Self::BYTE / weight;
        }
    }
}
