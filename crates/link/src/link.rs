//! One direction of a link.

use crate::line::{Arrival, Line};
use crate::queue::Queue;
use crate::schedule::{Schedule, Timetable};
use crate::time::LONGEST;
use crate::{Delivery, DropCause, LinkConfig, LinkStatistics, Packet, QueueLength, Verdict};
use rand_chacha::ChaCha12Rng;
use std::time::{Duration, Instant};

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    is_up: bool,
    /// What times are counted from: when the schedule or the first packet was.
    beginning: Option<Instant>,
    timetable: Timetable,
    config: LinkConfig,
    /// Number of the next packet, counted from 0.
    number: u64,
    queue: Queue,
    first: Line,
    /// Of the classes after the first.
    others: Vec<Line>,
    rng: ChaCha12Rng,
}

impl Link {
    /// A link that is up and takes all its randomness from `rng`. Probabilities outside 0 to 1
    /// count as the nearer end of that range, and what is no number as 0.
    pub fn new(config: LinkConfig, mut rng: ChaCha12Rng) -> Link {
        let first = Line::new(&config, &mut rng);
        Link {
            is_up: true,
            beginning: None,
            timetable: Timetable::default(),
            number: 0,
            queue: Queue::new(config.bottleneck.clone(), &mut rng),
            first,
            others: Vec::new(),
            config,
            rng,
        }
    }

    /// The link with classes of traffic besides the first, numbered from 1: all share its queue and
    /// its rate, but each meets losses, delays and all the rest of its own, as its configuration says,
    /// whatever that says of a bottleneck. The numbers of packets that losses go by are those of the
    /// class. A packet of a class that is not there is treated as the first.
    pub fn with_classes<'a>(mut self, classes: impl IntoIterator<Item = &'a LinkConfig>) -> Link {
        for config in classes {
            self.others.push(Line::new(config, &mut self.rng));
        }
        self
    }

    /// The link with changes to come, their times counted from `start`: what it is to be like at the
    /// times that the schedule names, in the place of what it is like now.
    pub fn with_schedule(mut self, schedule: &Schedule, start: Instant) -> Link {
        self.beginning.get_or_insert(start);
        let start = self.nanoseconds(start);
        self.timetable = schedule.timetable(&self.config, start);
        self
    }

    /// Says what becomes of a packet that is sent `now`, which must not be before the time of the
    /// packet before.
    pub fn offer(&mut self, now: Instant, packet: impl Into<Packet>) -> Verdict {
        self.offer_packet(now, packet.into())
    }

    fn offer_packet(&mut self, now: Instant, packet: Packet) -> Verdict {
        let time = self.nanoseconds(now);
        if self.timetable.is_due(time) {
            self.change(time);
        }
        let number = self.number;
        self.number = number.wrapping_add(1);
        let line = match packet.class.checked_sub(1) {
            Some(other) => self.others.get_mut(other).unwrap_or(&mut self.first),
            None => &mut self.first,
        };
        let bytes = packet.bytes as u64;
        line.statistics.offered(bytes);
        let fate = line.next_fate();
        let passed = if self.is_up {
            self.queue.pass(time, number, &packet)
        } else {
            Err(DropCause::Down)
        };
        let passed = match passed {
            Ok(passed) => passed,
            Err(cause) => {
                line.statistics.dropped(cause, bytes);
                return Verdict::dropped(cause);
            }
        };
        let waited = passed.leaves.saturating_sub(time);
        let length = self.queue.last_length();
        line.statistics.left_queue(waited, length, passed.marked);
        let Some((first, second)) = line.carry(&fate, passed.leaves) else {
            line.statistics.dropped(DropCause::Lost, bytes);
            return Verdict::dropped(DropCause::Lost);
        };
        let mut deliver = |arrival: Arrival| {
            let delay = arrival.at.saturating_sub(time);
            line.statistics.delivered(bytes, delay, arrival.alteration);
            Delivery {
                at: now + Duration::from_nanos(delay),
                marked: passed.marked,
                alteration: arrival.alteration,
            }
        };
        Verdict::delivered(deliver(first), second.map(deliver))
    }

    /// Treats packets otherwise from now on, until the schedule says something else. The fates that
    /// the seed stands for go on where they are, and what waits in the queue leaves when that was said.
    pub fn set_config(&mut self, config: LinkConfig) {
        if config.bottleneck != self.config.bottleneck {
            self.queue.set(config.bottleneck.clone());
        }
        self.first.set(&config);
        self.config = config;
    }

    /// Treats packets of a class otherwise from now on; of a class that is not there, nothing.
    pub fn set_class(&mut self, class: usize, config: LinkConfig) {
        match class.checked_sub(1) {
            None => self.set_config(config),
            Some(other) => {
                if let Some(line) = self.others.get_mut(other) {
                    line.set(&config);
                }
            }
        }
    }

    /// How packets are treated now, those of the first class.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Takes the link down, so that it drops what is offered, or brings it up again, until the schedule
    /// says something else. What was offered before is on its way.
    pub fn set_up(&mut self, up: bool) {
        self.is_up = up;
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Makes the changes of the schedule whose time has come. Packets that are offered do so too.
    pub fn advance(&mut self, now: Instant) {
        let time = self.nanoseconds(now);
        if self.timetable.is_due(time) {
            self.change(time);
        }
    }

    /// When the schedule next changes something.
    pub fn next_change(&self) -> Option<Instant> {
        let change = self.timetable.next_change()?;
        Some(self.beginning? + Duration::from_nanos(change))
    }

    /// What the link has done so far, to packets of the first class.
    pub fn statistics(&self) -> &LinkStatistics {
        &self.first.statistics
    }

    /// What the link has done so far to packets of a class.
    pub fn class_statistics(&self, class: usize) -> Option<&LinkStatistics> {
        match class.checked_sub(1) {
            None => Some(self.statistics()),
            Some(other) => self.others.get(other).map(|line| &line.statistics),
        }
    }

    /// What waits in the queue; takes as long as the queue is long.
    pub fn queue(&self, now: Instant) -> QueueLength {
        self.beginning.map_or(QueueLength::default(), |beginning| {
            self.queue.length(since(beginning, now))
        })
    }

    /// Nanoseconds since the beginning, which is now if it has not been yet.
    fn nanoseconds(&mut self, now: Instant) -> u64 {
        since(*self.beginning.get_or_insert(now), now)
    }

    #[cold]
    fn change(&mut self, time: u64) {
        if let Some(change) = self.timetable.change(time) {
            self.set_up(change.is_up);
            self.set_config(change.config);
        }
    }
}

fn since(beginning: Instant, now: Instant) -> u64 {
    let since = now.saturating_duration_since(beginning);
    let seconds = since.as_secs().saturating_mul(1_000_000_000);
    seconds
        .saturating_add(since.subsec_nanos().into())
        .min(LONGEST)
}
