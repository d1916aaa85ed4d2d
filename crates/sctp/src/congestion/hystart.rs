//! Hybrid slow start (Ha and Rhee: Taming the elephants, 2011; RFC 9438 section 4.10): the first slow start ends
//! when the path is full, before it overflows the queue of the bottleneck.

use std::time::{Duration, Instant};

use super::PathRtt;

/// Acknowledgements belong to one train that are no further apart than this, and than an eighth of a round trip.
const TRAIN_GAP: Duration = Duration::from_millis(2);

/// By how much round-trip times must have grown: an eighth, within these bounds.
const DIVISOR: u32 = 8;
const LEAST: Duration = Duration::from_millis(4);
const MOST: Duration = Duration::from_millis(16);

/// How many measurements of a round trip are taken: the least of them is not one that waited for others.
const SAMPLES: u32 = 8;

/// The state of one slow start.
#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    round: Option<Round>,
}

/// A round trip.
#[derive(Debug, Clone)]
struct Round {
    /// Bytes still to be acknowledged.
    left: usize,
    began: Instant,
    /// The latest acknowledgement, while there was no gap before any.
    train: Option<Instant>,
    least_rtt: Duration,
    samples: u32,
}

impl HyStart {
    /// A SACK acknowledged that many bytes of those in flight. Tells whether slow start is to end: the path is
    /// full when acknowledgements come without a gap for half a round trip, for as many packets again were
    /// sent since the first of them; or when all round-trip times have grown.
    pub(super) fn on_acknowledged(
        &mut self,
        now: Instant,
        acknowledged: usize,
        flight_before: usize,
        rtt: PathRtt,
    ) -> bool {
        let round = self.round.take().filter(|round| round.left > 0);
        let mut round = round.unwrap_or(Round {
            left: flight_before,
            began: now,
            train: Some(now),
            least_rtt: Duration::MAX,
            samples: 0,
        });
        round.left = round.left.saturating_sub(acknowledged);
        let ends = round.has_full_train(now, rtt.min) || round.has_grown_rtt(rtt);
        self.round = Some(round);
        ends
    }
}

impl Round {
    fn has_full_train(&mut self, now: Instant, min_rtt: Duration) -> bool {
        let gap = TRAIN_GAP.min(min_rtt / 8);
        self.train = self
            .train
            .filter(|last| now.saturating_duration_since(*last) <= gap)
            .map(|_| now);
        self.train.is_some() && now.saturating_duration_since(self.began) > min_rtt / 2
    }

    fn has_grown_rtt(&mut self, rtt: PathRtt) -> bool {
        if self.samples >= SAMPLES {
            return false;
        }
        self.samples += 1;
        self.least_rtt = self.least_rtt.min(rtt.latest);
        let threshold = (rtt.min / DIVISOR).clamp(LEAST, MOST);
        self.samples == SAMPLES && self.least_rtt >= rtt.min.saturating_add(threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of so many packets, acknowledged so many microseconds apart and after `rtt` milliseconds at
    /// least. Tells after which of them slow start ends.
    fn round(
        hystart: &mut HyStart,
        packets: usize,
        apart: u64,
        rtt: u64,
        min: u64,
    ) -> Option<usize> {
        let start = Instant::now();
        let [rtt, min] = [rtt, min].map(Duration::from_millis);
        (0..packets).find(|number| {
            let now = start + Duration::from_micros(apart) * *number as u32;
            let measured = PathRtt {
                smoothed: rtt,
                latest: rtt + Duration::from_millis(5) * (*number as u32 % 2),
                min,
            };
            hystart.on_acknowledged(now, 1000, packets * 1000, measured)
        })
    }

    #[test]
    fn ends_when_the_least_round_trip_of_a_round_has_grown_by_an_eighth() {
        let mut hystart = HyStart::default();
        for milliseconds in [100, 103, 112] {
            assert_eq!(round(&mut hystart, 10, 3000, milliseconds, 100), None);
        }
        assert_eq!(round(&mut hystart, 10, 3000, 113, 100), Some(7));
    }

    #[test]
    fn thresholds_are_at_least_4_and_at_most_16_milliseconds() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 10, 3000, 5, 2), None);
        assert_eq!(round(&mut hystart, 10, 3000, 6, 2), Some(7));
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 10, 3000, 315, 300), None);
        assert_eq!(round(&mut hystart, 10, 3000, 316, 300), Some(7));
    }

    #[test]
    fn ends_when_acknowledgements_come_for_half_a_round_trip_without_a_gap() {
        let mut hystart = HyStart::default();
        // 40 packets, a millisecond apart, are less than half of 100 ms; 80 are more.
        assert_eq!(round(&mut hystart, 40, 1000, 100, 100), None);
        assert_eq!(round(&mut hystart, 80, 1000, 100, 100), Some(51));
        // Gaps of 2.5 ms mean nothing.
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 80, 2500, 100, 100), None);
    }
}
