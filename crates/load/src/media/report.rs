//! What a call's media did, and what all of them did.

use std::time::Duration;

use hdrhistogram::Histogram;

use media::reception::Counts;

/// A sample of times in four numbers: many calls keep one each, so there is no room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// All of them together.
    pub sum: Duration,
    /// The shortest; zero without any.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        self.min = if self.count == 0 {
            time
        } else {
            self.min.min(time)
        };
        self.max = self.max.max(time);
        self.sum = self.sum.saturating_add(time);
        self.count += 1;
    }

    /// The mean, if there is any.
    pub fn mean(&self) -> Option<Duration> {
        let seconds = self.sum.as_secs_f64() / self.count as f64;
        (self.count > 0).then(|| Duration::from_secs_f64(seconds))
    }

    /// Adds a sample.
    pub fn merge(&mut self, other: &Times) {
        if other.count > 0 {
            self.min = if self.count == 0 {
                other.min
            } else {
                self.min.min(other.min)
            };
            self.max = self.max.max(other.max);
            self.sum = self.sum.saturating_add(other.sum);
            self.count += other.count;
        }
    }
}

/// What one call's media did, as seen from here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MediaReport {
    /// Packets sent.
    pub sent: u64,
    /// How long after its time a packet left: what the generator itself adds to the jitter that the other
    /// side measures.
    pub lateness: Times,
    /// Packets sent back to where they came from.
    pub echoed: u64,
    /// Packets received, each counted once.
    pub received: u64,
    /// Packets between the lowest and the highest number received: what must have been sent at least.
    pub expected: u64,
    /// Whether it had keys of SRTP.
    pub is_protected: bool,
    /// Packets of RTP and RTCP that were not protected by these keys, or came twice (RFC 3711 section 3.3.2).
    pub rejected: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Interarrival jitter at the end (RFC 3550 section 6.4.1).
    pub jitter: Duration,
    /// The largest that it has been.
    pub jitter_max: Duration,
    /// From the moment at which a packet was complete, as the other side's sender reports tell it, to its
    /// arrival. It means something only if both sides go by the same clock.
    pub one_way: Times,
    /// Round trips by reports (RFC 3550 section 6.4.1: A − LSR − DLSR).
    pub round_trip: Times,
    /// Round trips of our own packets that came back as they were.
    pub echo: Times,
    /// What the other side last said that it lost of ours.
    pub lost_there: Option<i32>,
    /// The jitter that it last told.
    pub jitter_there: Option<Duration>,
    /// How many packets it last said to have sent: what it lost at the very end no receiver can see.
    pub sent_there: Option<u32>,
}

impl MediaReport {
    /// Packets that were sent to us and have not come.
    pub fn lost(&self) -> u64 {
        let sent = u64::from(self.sent_there.unwrap_or(0));
        self.expected.max(sent).saturating_sub(self.received)
    }

    pub(super) fn set_counts(&mut self, counts: &Counts) {
        self.received = counts.received;
        self.expected = counts.expected;
        self.duplicates = counts.duplicates;
        self.reordered = counts.reordered;
    }
}

/// What the media of many calls did.
#[derive(Clone, Debug)]
pub struct MediaStatistics {
    /// How many calls had media.
    pub calls: u64,
    /// Calls that sent packets and heard none.
    pub deaf: u64,
    /// Calls of which each packet came.
    pub without_loss: u64,
    /// Calls that had keys of SRTP.
    pub protected: u64,
    /// Sums of what the calls counted. `jitter_max` is the largest of all; what only one call can have
    /// (`jitter`, `is_protected`, what the other side told) is left out.
    pub sum: MediaReport,
    /// Packets lost on the way to us.
    pub lost: u64,
    /// Jitter of each call at its end, microseconds.
    pub jitter: Histogram<u64>,
    /// Mean round trip of each call by reports, microseconds.
    pub round_trip: Histogram<u64>,
    /// Mean one-way delay of each call, microseconds.
    pub one_way: Histogram<u64>,
}

impl MediaStatistics {
    /// No call yet.
    pub fn new() -> MediaStatistics {
        MediaStatistics {
            calls: 0,
            deaf: 0,
            without_loss: 0,
            protected: 0,
            sum: MediaReport::default(),
            lost: 0,
            jitter: histogram(),
            round_trip: histogram(),
            one_way: histogram(),
        }
    }

    /// Adds a call that has ended.
    pub fn record(&mut self, report: &MediaReport) {
        self.calls += 1;
        self.deaf += u64::from(report.sent > 0 && report.received == 0 && report.echo.count == 0);
        self.without_loss += u64::from(report.received > 0 && report.lost() == 0);
        self.protected += u64::from(report.is_protected);
        self.lost += report.lost();
        if report.received > 0 {
            record(&mut self.jitter, report.jitter);
        }
        if let Some(mean) = report.round_trip.mean() {
            record(&mut self.round_trip, mean);
        }
        if let Some(mean) = report.one_way.mean() {
            record(&mut self.one_way, mean);
        }
        self.sum.add(report);
    }

    /// Adds the calls of another worker.
    pub fn merge(&mut self, other: &MediaStatistics) {
        self.calls += other.calls;
        self.deaf += other.deaf;
        self.without_loss += other.without_loss;
        self.protected += other.protected;
        self.lost += other.lost;
        self.sum.add(&other.sum);
        for (ours, theirs) in [
            (&mut self.jitter, &other.jitter),
            (&mut self.round_trip, &other.round_trip),
            (&mut self.one_way, &other.one_way),
        ] {
            // Both have the same bounds, so nothing can be out of them.
            let added = ours.add(theirs);
            debug_assert!(added.is_ok());
        }
    }
}

impl Default for MediaStatistics {
    fn default() -> Self {
        Self::new()
    }
}

impl MediaReport {
    /// Sums up.
    fn add(&mut self, other: &MediaReport) {
        self.sent += other.sent;
        self.lateness.merge(&other.lateness);
        self.echoed += other.echoed;
        self.received += other.received;
        self.expected += other.expected;
        self.rejected += other.rejected;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.jitter_max = self.jitter_max.max(other.jitter_max);
        self.one_way.merge(&other.one_way);
        self.round_trip.merge(&other.round_trip);
        self.echo.merge(&other.echo);
    }
}

/// Up to an hour in microseconds, to three figures.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these bounds are in order")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let ms = Duration::from_millis;
        let mut times = Times::default();
        assert_eq!(times.mean(), None);
        for time in [3, 1, 5] {
            times.add(ms(time));
        }
        let mut others = Times::default();
        others.add(ms(7));
        others.merge(&times);
        assert_eq!((others.min, others.max), (ms(1), ms(7)));
        assert_eq!(others.mean(), Some(ms(4)));
        others.merge(&Times::default());
        assert_eq!(others.min, ms(1));
    }

    #[test]
    fn what_the_sender_counted_tells_of_losses_at_the_end() {
        let mut report = MediaReport {
            received: 90,
            expected: 95,
            ..MediaReport::default()
        };
        assert_eq!(report.lost(), 5);
        report.sent_there = Some(100);
        assert_eq!(report.lost(), 10);
        report.sent_there = Some(3);
        assert_eq!(report.lost(), 5, "an early report");
    }

    #[test]
    fn calls_add_up() {
        let report = MediaReport {
            sent: 10,
            received: 9,
            expected: 10,
            jitter: Duration::from_millis(2),
            jitter_max: Duration::from_millis(4),
            ..MediaReport::default()
        };
        let mut one = MediaStatistics::new();
        one.record(&report);
        let mut other = MediaStatistics::new();
        other.record(&MediaReport {
            sent: 5,
            ..MediaReport::default()
        });
        one.merge(&other);
        assert_eq!(
            (one.calls, one.deaf, one.without_loss, one.lost),
            (2, 1, 0, 1)
        );
        assert_eq!((one.sum.sent, one.sum.received), (15, 9));
        assert_eq!(one.jitter.len(), 1);
        assert_eq!(one.sum.jitter_max, Duration::from_millis(4));
    }
}
