//! What a link has done.

use crate::histogram::DelayHistogram;
use crate::{Alteration, DropCause};
use serde::{Serialize, Serializer};
use std::time::Duration;

/// Counters of one direction of a link, or of one class of its traffic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LinkStatistics {
    /// Packets that were offered.
    pub offered_packets: u64,
    /// Bytes of these.
    pub offered_bytes: u64,
    /// Packets that arrive or will, each copy counted.
    pub delivered_packets: u64,
    /// Bytes of these.
    pub delivered_bytes: u64,
    /// Packets that were lost on their way.
    pub lost_packets: u64,
    /// Bytes of these.
    pub lost_bytes: u64,
    /// Packets that found no room in the queue.
    pub queue_full_packets: u64,
    /// Bytes of these.
    pub queue_full_bytes: u64,
    /// Packets that the management of the queue dropped.
    pub queue_management_packets: u64,
    /// Bytes of these.
    pub queue_management_bytes: u64,
    /// Packets that came while the link was down.
    pub down_packets: u64,
    /// Bytes of these.
    pub down_bytes: u64,
    /// Packets that the management of the queue marked instead of dropping them. (Some may have been
    /// lost on their way.)
    pub marked_packets: u64,
    /// Packets that arrive twice.
    pub duplicated_packets: u64,
    /// Packets that arrive with flipped bits, each copy counted.
    pub altered_packets: u64,
    /// Packets that went ahead of others without delay.
    pub reordered_packets: u64,
    /// Time from the offer to the arrival, summed over all that arrives.
    #[serde(rename = "delay_total_us", serialize_with = "microseconds")]
    pub delay_total: Duration,
    /// The longest of these times.
    #[serde(rename = "delay_maximum_us", serialize_with = "microseconds")]
    pub delay_maximum: Duration,
    /// Time from the offer until a packet had left the queue, summed over all that left it.
    #[serde(rename = "queue_delay_total_us", serialize_with = "microseconds")]
    pub queue_delay_total: Duration,
    /// Packets that left the queue.
    pub queue_left_packets: u64,
    /// The longest queue, the packet that is leaving included.
    pub queue_maximum: QueueLength,
    /// How the times from the offer to the arrival are spread.
    pub delays: DelayHistogram,
}

/// How much waits before the bottleneck, the packet that is leaving included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct QueueLength {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl LinkStatistics {
    /// The mean time from the offer to the arrival.
    pub fn mean_delay(&self) -> Option<Duration> {
        let nanoseconds = self
            .delay_total
            .as_nanos()
            .checked_div(self.delivered_packets.into())?;
        u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
    }

    /// Packets that do not arrive, whatever the cause.
    pub fn dropped_packets(&self) -> u64 {
        self.lost_packets
            + self.queue_full_packets
            + self.queue_management_packets
            + self.down_packets
    }

    pub(crate) fn offered(&mut self, bytes: u64) {
        self.offered_packets += 1;
        self.offered_bytes = self.offered_bytes.saturating_add(bytes);
    }

    pub(crate) fn dropped(&mut self, cause: DropCause, bytes: u64) {
        let (packets, sum) = match cause {
            DropCause::Lost => (&mut self.lost_packets, &mut self.lost_bytes),
            DropCause::QueueFull => (&mut self.queue_full_packets, &mut self.queue_full_bytes),
            DropCause::QueueManagement => (
                &mut self.queue_management_packets,
                &mut self.queue_management_bytes,
            ),
            DropCause::Down => (&mut self.down_packets, &mut self.down_bytes),
        };
        *packets += 1;
        *sum = sum.saturating_add(bytes);
    }

    /// Times are nanoseconds.
    pub(crate) fn left_queue(&mut self, waited: u64, length: QueueLength, marked: bool) {
        self.queue_left_packets += 1;
        add(&mut self.queue_delay_total, waited);
        let maximum = &mut self.queue_maximum;
        maximum.packets = maximum.packets.max(length.packets);
        maximum.bytes = maximum.bytes.max(length.bytes);
        self.marked_packets += u64::from(marked);
    }

    /// Times are nanoseconds.
    pub(crate) fn delivered(&mut self, bytes: u64, delay: u64, alteration: Option<Alteration>) {
        self.delivered_packets += 1;
        self.delivered_bytes = self.delivered_bytes.saturating_add(bytes);
        self.altered_packets += u64::from(alteration.is_some());
        add(&mut self.delay_total, delay);
        self.delay_maximum = self.delay_maximum.max(Duration::from_nanos(delay));
        self.delays.count(delay);
    }
}

fn add(sum: &mut Duration, nanoseconds: u64) {
    *sum = sum.saturating_add(Duration::from_nanos(nanoseconds));
}

fn microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_nanos() as f64 / 1000.0)
}
