//! The queue before the bottleneck.

use crate::bottleneck::{Bottleneck, MAX_QUEUE_PACKETS, Management, Rate};
use crate::codel::{self, Decision, Head};
use crate::queue_length::Unit;
use crate::random::{Dice, unit};
use crate::red::{self, Seen};
use crate::statistics::QueueLength;
use crate::time::LONGEST;
use crate::trace::Cursor;
use crate::{DropCause, Packet};
use rand_chacha::ChaCha12Rng;
use std::collections::VecDeque;

/// The queue before the bottleneck. It knows when packets leave and how large they are. Times are
/// nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    bottleneck: Option<Bottleneck>,
    /// In the order of leaving; not longer than the bound on packets.
    waiting: VecDeque<QueuedPacket>,
    waiting_bytes: u64,
    server: Server,
    dice: Dice,
    average: red::Average,
    codel: codel::State,
}

#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    /// Of a packet that is dropped when its turn comes, that time.
    leaves: u64,
    bytes: u64,
}

/// A packet that has been let through.
pub(crate) struct Passed {
    pub(crate) leaves: u64,
    pub(crate) marked: bool,
}

impl Queue {
    pub(crate) fn new(bottleneck: Option<Bottleneck>, rng: &mut ChaCha12Rng) -> Queue {
        let mut queue = Queue {
            bottleneck: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            server: Server::default(),
            dice: Dice::new(1, rng),
            average: red::Average::default(),
            codel: codel::State::default(),
        };
        queue.set(bottleneck);
        queue
    }

    /// What waits leaves when that was said.
    pub(crate) fn set(&mut self, bottleneck: Option<Bottleneck>) {
        let rate_before = self.bottleneck.take().map(|before| before.rate);
        if let Some(bottleneck) = &bottleneck {
            self.server.set(bottleneck, rate_before.as_ref());
        }
        self.bottleneck = bottleneck;
    }

    /// What waits at a time.
    pub(crate) fn length(&self, now: u64) -> QueueLength {
        let waiting = self.waiting.iter().filter(|waiting| waiting.leaves > now);
        waiting.fold(QueueLength::default(), |length, waiting| QueueLength {
            packets: length.packets + 1,
            bytes: length.bytes.saturating_add(waiting.bytes),
        })
    }

    /// What waited after the last packet came.
    pub(crate) fn last_length(&self) -> QueueLength {
        QueueLength {
            packets: self.waiting.len() as u64,
            bytes: self.waiting_bytes,
        }
    }

    /// When a packet that comes now, the one of that number, has left.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        now: u64,
        number: u64,
        packet: &Packet,
    ) -> Result<Passed, DropCause> {
        // Taken out so that the parts can be told of it; it is put back in any case.
        let Some(bottleneck) = self.bottleneck.take() else {
            return Ok(Passed {
                leaves: now,
                marked: false,
            });
        };
        let passed = self.pass_bottleneck(&bottleneck, now, number, packet);
        self.bottleneck = Some(bottleneck);
        passed
    }

    fn pass_bottleneck(
        &mut self,
        bottleneck: &Bottleneck,
        now: u64,
        number: u64,
        packet: &Packet,
    ) -> Result<Passed, DropCause> {
        self.forget_what_has_left(now);
        let bytes = packet.bytes as u64;
        let can_be_marked = bottleneck.ecn && packet.ecn_capable;
        let decision = self.decide_on_arrival(bottleneck, now, number, bytes);

        let room = (bottleneck.queue_bytes as u64).saturating_sub(self.waiting_bytes);
        let most = bottleneck.queue_packets.min(MAX_QUEUE_PACKETS);
        let is_full = self.waiting.len() >= most || bytes > room;
        if is_full && !self.waiting.is_empty() {
            return Err(DropCause::QueueFull);
        }
        let mut marked = match decision {
            Decision::Pass => false,
            Decision::DropOrMark if can_be_marked => true,
            Decision::DropOrMark | Decision::Drop => return Err(DropCause::QueueManagement),
        };

        let begins = self.server.begin(bottleneck, now);
        if let Management::CoDel(settings) = &bottleneck.management {
            let leaving = self.waiting.front().map_or(0, |first| first.bytes);
            if self.waiting.is_empty() {
                self.codel.ran_empty();
            }
            let head = Head {
                now: begins,
                waited: begins.saturating_sub(now),
                backlog: self.waiting_bytes.saturating_sub(leaving),
                can_be_marked,
            };
            match self.codel.decide(settings, &head) {
                Decision::Pass => {}
                _ if can_be_marked => marked = true,
                _ => {
                    self.wait(begins, bytes);
                    return Err(DropCause::QueueManagement);
                }
            }
        }
        let on_the_link = bytes.saturating_add_signed(bottleneck.overhead_bytes.into());
        let leaves = self.server.finish(bottleneck, now, on_the_link);
        self.wait(leaves, bytes);
        Ok(Passed { leaves, marked })
    }

    fn wait(&mut self, leaves: u64, bytes: u64) {
        self.waiting.push_back(QueuedPacket { leaves, bytes });
        self.waiting_bytes = self.waiting_bytes.saturating_add(bytes);
    }

    fn forget_what_has_left(&mut self, now: u64) {
        while let Some(first) = self.waiting.front()
            && first.leaves <= now
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(first.bytes);
            self.waiting.pop_front();
        }
    }

    /// What those kinds of management say that look at a packet when it comes.
    fn decide_on_arrival(
        &mut self,
        bottleneck: &Bottleneck,
        now: u64,
        number: u64,
        bytes: u64,
    ) -> Decision {
        match &bottleneck.management {
            Management::DropTail | Management::CoDel(_) => Decision::Pass,
            Management::Red(red) => {
                let idle_packets = self.waiting.is_empty().then(|| {
                    let idle = now.saturating_sub(self.server.idle_since()) as f64;
                    idle / self.server.time_of(bottleneck, red.mean_bytes.into())
                });
                let seen = Seen {
                    length: self.length_in(red.unit),
                    idle_packets,
                    bytes,
                };
                let [word] = self.dice.throw(number);
                self.average.decide(red, &seen, unit(word))
            }
            Management::Drd(drd) => {
                let [word] = self.dice.throw(number);
                drd.decide(self.length_in(drd.unit), unit(word))
            }
        }
    }

    fn length_in(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Packets => self.waiting.len() as u64,
            Unit::Bytes => self.waiting_bytes,
        }
    }
}

/// What takes packets from the queue, one after the other.
#[derive(Clone, Debug)]
struct Server {
    /// When the last packet has left, or what is saved up has grown from; below 0 before the beginning,
    /// when everything is saved up.
    free: i64,
    /// What of the last nanosecond before that it used, in units of 1 / rate nanoseconds below a
    /// whole one: so a rate is kept to the nanosecond for ever.
    used: u64,
    /// How far what is saved up reaches back.
    saved: u64,
    cursor: Cursor,
    /// When the packet before left.
    last_left: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            free: i64::MIN,
            used: 0,
            saved: 0,
            cursor: Cursor::default(),
            last_left: 0,
        }
    }
}

impl Server {
    fn set(&mut self, bottleneck: &Bottleneck, rate_before: Option<&Rate>) {
        if rate_before != Some(&bottleneck.rate) {
            // Who has not been used has all saved up.
            if self.last_left > 0 {
                self.free = self.free.max(signed(self.last_left));
            }
            self.used = 0;
            self.cursor = Cursor::default();
        }
        self.saved = match bottleneck.rate {
            Rate::Constant(bits_per_second) => {
                time_to_leave(bottleneck.burst_bytes, bits_per_second.max(1), 0).0
            }
            Rate::Trace(_) => 0,
        };
    }

    /// When a packet that comes now begins to leave.
    fn begin(&mut self, bottleneck: &Bottleneck, now: u64) -> u64 {
        match &bottleneck.rate {
            Rate::Constant(_) => {
                let earliest = signed(now).saturating_sub_unsigned(self.saved);
                if self.free < earliest {
                    self.free = earliest;
                    self.used = 0;
                }
                unsigned(self.free).max(now)
            }
            // What left before by another rate is not overtaken.
            Rate::Trace(trace) => self.cursor.begin(trace, now.max(unsigned(self.free))),
        }
    }

    /// When the packet that has begun to leave has left.
    fn finish(&mut self, bottleneck: &Bottleneck, now: u64, bytes: u64) -> u64 {
        let left = match &bottleneck.rate {
            Rate::Constant(bits_per_second) => {
                let (time, used) = time_to_leave(bytes, (*bits_per_second).max(1), self.used);
                self.free = self.free.saturating_add_unsigned(time);
                self.used = used;
                let whole = self.free.saturating_add(i64::from(used > 0));
                unsigned(whole).max(now)
            }
            Rate::Trace(trace) => self.cursor.finish(trace, bytes),
        };
        self.last_left = left;
        left
    }

    fn idle_since(&self) -> u64 {
        self.last_left
    }

    /// Nanoseconds that a packet takes to leave, above 0.
    fn time_of(&self, bottleneck: &Bottleneck, bytes: u64) -> f64 {
        let bits_per_second = match &bottleneck.rate {
            Rate::Constant(bits_per_second) => (*bits_per_second).max(1) as f64,
            Rate::Trace(trace) => trace.mean_bits_per_second(),
        };
        bytes.max(1) as f64 * 8e9 / bits_per_second
    }
}

/// Times end long before the largest number.
fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn unsigned(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

/// Whole nanoseconds that bytes take to leave, and what they take of another one, in units of 1 / rate;
/// `used` of these are added.
fn time_to_leave(bytes: u64, bits_per_second: u64, used: u64) -> (u64, u64) {
    const NANOBITS_PER_BYTE: u64 = 8_000_000_000;
    let short = bytes.checked_mul(NANOBITS_PER_BYTE);
    if let Some(nanobits) = short.and_then(|nanobits| nanobits.checked_add(used)) {
        let time = nanobits / bits_per_second;
        return (time.min(LONGEST), nanobits % bits_per_second);
    }
    let nanobits = u128::from(bytes) * u128::from(NANOBITS_PER_BYTE) + u128::from(used);
    let rate = u128::from(bits_per_second);
    let time = u64::try_from(nanobits / rate).map_or(LONGEST, |time| time.min(LONGEST));
    // A remainder is below the rate.
    (time, (nanobits % rate) as u64)
}
