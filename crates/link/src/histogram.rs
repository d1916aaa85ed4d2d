//! How delays are spread.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// How many packets met which delay, in buckets each a quarter wider at most than the ones before: four
/// to a doubling, from 1 microsecond to over an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayHistogram {
    counts: [u64; BUCKETS],
}

/// Up to 2^32 microseconds.
const BUCKETS: usize = 4 * 32;

impl Default for DelayHistogram {
    fn default() -> DelayHistogram {
        DelayHistogram {
            counts: [0; BUCKETS],
        }
    }
}

impl DelayHistogram {
    #[inline]
    pub(crate) fn count(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds / 1000)] += 1;
    }

    /// Buckets that hold something: from which delay on, and how many packets.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|&(_, &count)| count > 0)
            .map(|(index, &count)| (Duration::from_micros(begin(index)), count))
    }

    /// The delay that a share of packets, from 0 to 1, did not exceed by more than the width of a
    /// bucket; `None` when there was no packet.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.counts.iter().sum();
        let mut rest = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        for (begin, count) in self.buckets() {
            if count >= rest {
                return Some(begin);
            }
            rest -= count;
        }
        None
    }
}

/// As a list of pairs: microseconds from which on, packets.
impl Serialize for DelayHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.buckets()
                .map(|(begin, count)| (begin.as_micros() as u64, count)),
        )
    }
}

/// The bucket of a delay: its two highest bits below the first choose among four to a doubling.
fn bucket(microseconds: u64) -> usize {
    let doubling = microseconds.max(1).ilog2();
    let quarter = if doubling >= 2 {
        (microseconds >> (doubling - 2)) & 3
    } else {
        (microseconds << (2 - doubling)) & 3
    };
    (4 * doubling as usize + quarter as usize).min(BUCKETS - 1)
}

/// The first microsecond of a bucket.
fn begin(bucket: usize) -> u64 {
    let (doubling, quarter) = (bucket / 4, bucket as u64 % 4);
    if bucket == 0 {
        return 0;
    }
    ((4 + quarter) << doubling).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_where_their_first_delay_is() {
        for microseconds in (1..10_000).chain([1 << 20, (1 << 20) - 1, 3 << 29, u64::MAX / 1000]) {
            let bucket = bucket(microseconds);
            assert!(begin(bucket) <= microseconds, "{microseconds}");
            assert!(
                bucket == BUCKETS - 1 || microseconds < begin(bucket + 1),
                "{microseconds}"
            );
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut histogram = DelayHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for microseconds in 1..=1000 {
            histogram.count(microseconds * 1000);
        }
        for share in [0.01, 0.5, 0.99, 1.0] {
            let quantile = histogram.quantile(share).unwrap().as_micros() as f64;
            assert!((quantile / (share * 1000.0) - 1.0).abs() <= 0.25, "{share}");
        }
    }
}
