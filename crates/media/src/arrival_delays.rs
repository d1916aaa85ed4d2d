//! How late packets come, compared with the fastest of the last seconds: what a jitter buffer has to make good.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Packets among which the fastest one is looked for: five seconds of them.
const WINDOW: u64 = 250;
/// Width and number of the bins of the histogram.
const BIN: Duration = Duration::from_millis(5);
const BINS: usize = 100;
/// What is left of a packet's weight with each further one: half of it after a good two seconds.
const FORGETTING: f32 = 0.995;
/// The part of the packets that must be in time.
const IN_TIME: f32 = 0.97;

/// Delays of the packets of one stream.
#[derive(Clone, Debug)]
pub(crate) struct ArrivalDelays {
    /// The clock that delays are counted from.
    epoch: Instant,
    packets: u64,
    /// Packets that may become the fastest: number and delay in nanoseconds, both ascending.
    fastest: VecDeque<(u64, i64)>,
    weights: [f32; BINS],
}

impl ArrivalDelays {
    /// No packet has come; delays are counted from any moment near the first one.
    pub(crate) fn new(epoch: Instant) -> ArrivalDelays {
        ArrivalDelays {
            epoch,
            packets: 0,
            fastest: VecDeque::new(),
            weights: [0.0; BINS],
        }
    }

    /// A packet came that was sent at `sent`, by its sender's clock.
    pub(crate) fn arrived(&mut self, now: Instant, sent: Duration) {
        let delay = self.delay(now, sent);
        self.packets += 1;
        while self
            .fastest
            .back()
            .is_some_and(|(_, other)| *other >= delay)
        {
            self.fastest.pop_back();
        }
        self.fastest.push_back((self.packets, delay));
        while self
            .fastest
            .front()
            .is_some_and(|(number, _)| number + WINDOW <= self.packets)
        {
            self.fastest.pop_front();
        }
        let behind = delay.saturating_sub(self.least()).max(0);
        let bin = (behind / BIN.as_nanos() as i64) as usize;
        for weight in &mut self.weights {
            *weight *= FORGETTING;
        }
        if let Some(weight) = self.weights.get_mut(bin.min(BINS - 1)) {
            *weight += 1.0 - FORGETTING;
        }
    }

    /// By how much almost all packets are slower than the fastest, at most.
    pub(crate) fn spread(&self) -> Duration {
        let all: f32 = self.weights.iter().sum();
        let mut sum = 0.0;
        let below = self.weights.iter().take_while(|weight| {
            sum += **weight;
            sum < all * IN_TIME
        });
        BIN * (below.count() as u32 + 1)
    }

    /// How long after the fastest packets what was sent at `sent` is played if it is played now.
    pub(crate) fn behind_fastest(&self, now: Instant, sent: Duration) -> Duration {
        let behind = self.delay(now, sent).saturating_sub(self.least());
        Duration::from_nanos(behind.max(0) as u64)
    }

    fn least(&self) -> i64 {
        self.fastest.front().map_or(0, |(_, delay)| *delay)
    }

    fn delay(&self, now: Instant, sent: Duration) -> i64 {
        let since = now.saturating_duration_since(self.epoch).as_nanos();
        i64::try_from(since)
            .unwrap_or(i64::MAX)
            .saturating_sub(i64::try_from(sent.as_nanos()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_spread_covers_almost_all() {
        let epoch = Instant::now();
        let mut delays = ArrivalDelays::new(epoch);
        for number in 0..1_000_u32 {
            let sent = 20 * MS * number;
            let late = if number % 10 == 0 { 42 * MS } else { 3 * MS };
            delays.arrived(epoch + sent + 100 * MS + late, sent);
        }
        assert_eq!(delays.spread(), 40 * MS, "39 ms are in the eighth bin");
        let sent = 20 * MS * 1_000;
        assert_eq!(
            delays.behind_fastest(epoch + sent + 153 * MS, sent),
            50 * MS
        );
        assert_eq!(delays.behind_fastest(epoch + sent, sent), Duration::ZERO);
    }

    #[test]
    fn a_path_that_has_become_slower_is_the_measure_after_seconds() {
        let epoch = Instant::now();
        let mut delays = ArrivalDelays::new(epoch);
        for number in 0..2_000_u32 {
            let sent = 20 * MS * number;
            let path = if number < 500 { 20 * MS } else { 180 * MS };
            delays.arrived(epoch + sent + path, sent);
        }
        assert_eq!(delays.spread(), 5 * MS);
    }
}
