//! One direction of a link, or the link of a rule, with what it has done.

use std::time::{Duration, Instant};

use link::{Link, LinkConfig, Verdict};
use measures::Delays;

use crate::statistics::LineSnapshot;

/// A link model and the count of what went through.
#[derive(Clone, Debug)]
pub(super) struct Line {
    link: Link,
    delivered_packets: u64,
    delivered_bytes: u64,
    too_long_packets: u64,
    delays: Delays,
}

impl Line {
    pub(super) fn new(link: Link) -> Line {
        Line {
            link,
            delivered_packets: 0,
            delivered_bytes: 0,
            too_long_packets: 0,
            delays: Delays::default(),
        }
    }

    /// Says what becomes of a packet.
    pub(super) fn offer(&mut self, now: Instant, packet: link::Packet) -> Verdict {
        self.link.offer(now, packet)
    }

    /// Counts a packet that has come out.
    pub(super) fn count_delivery(&mut self, bytes: usize, took: Duration) {
        self.delivered_packets += 1;
        self.delivered_bytes += bytes as u64;
        self.delays.record(took);
    }

    /// Counts a packet that the line cannot take.
    pub(super) fn count_too_long(&mut self) {
        self.too_long_packets += 1;
    }

    pub(super) fn set_config(&mut self, config: LinkConfig) {
        self.link.set_config(config);
    }

    pub(super) fn set_up(&mut self, up: bool) {
        self.link.set_up(up);
    }

    pub(super) fn snapshot(&mut self, now: Instant) -> LineSnapshot {
        // The schedule may have changed it since the last packet.
        self.link.advance(now);
        LineSnapshot {
            is_up: self.link.is_up(),
            config: self.link.config().clone(),
            queue: self.link.queue(now),
            link: *self.link.statistics(),
            delivered_packets: self.delivered_packets,
            delivered_bytes: self.delivered_bytes,
            too_long_packets: self.too_long_packets,
            delay: self.delays.microseconds(),
        }
    }
}
