//! What came out of the transports, and what can be made of it.

use crate::FlowId;
use std::time::{Duration, Instant};

/// A message that a user has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When.
    pub at: Instant,
    /// When its sender sent it.
    pub sent: Instant,
    /// The receiver's flow.
    pub flow: FlowId,
    /// The stream; 0 over TCP.
    pub stream: u16,
    /// Its number on its flow, from 0.
    pub number: u64,
    /// How large it is.
    pub bytes: usize,
}

impl Delivery {
    /// How long it took.
    pub fn delay(&self) -> Duration {
        self.at.saturating_duration_since(self.sent)
    }
}

/// User bytes a second that came from `from` until before `to`.
pub fn goodput(deliveries: &[Delivery], from: Instant, to: Instant) -> f64 {
    let span = to.saturating_duration_since(from).as_secs_f64();
    if span == 0.0 {
        return 0.0;
    }
    let within = |delivery: &&Delivery| (from..to).contains(&delivery.at);
    let bytes: usize = deliveries
        .iter()
        .filter(within)
        .map(|delivery| delivery.bytes)
        .sum();
    bytes as f64 / span
}

/// User bytes a second in each of the bins of that width that lie between `from` and `to`.
pub fn binned(deliveries: &[Delivery], from: Instant, to: Instant, width: Duration) -> Vec<f64> {
    let span = to.saturating_duration_since(from);
    let bins = (span.as_nanos() / width.as_nanos().max(1)) as usize;
    let mut bytes = vec![0.0; bins];
    for delivery in deliveries {
        let Some(after) = delivery.at.checked_duration_since(from) else {
            continue;
        };
        let bin = (after.as_nanos() / width.as_nanos().max(1)) as usize;
        if let Some(bin) = bytes.get_mut(bin) {
            *bin += delivery.bytes as f64 / width.as_secs_f64();
        }
    }
    bytes
}

/// The delay that a part of them (0 to 1) does not exceed; `None` when there are none.
pub fn percentile(deliveries: &[Delivery], part: f64) -> Option<Duration> {
    let mut delays: Vec<Duration> = deliveries.iter().map(Delivery::delay).collect();
    let rank = (part.clamp(0.0, 1.0) * delays.len() as f64).ceil() as usize;
    let index = rank.max(1) - 1;
    if index >= delays.len() {
        return None;
    }
    let (_, delay, _) = delays.select_nth_unstable(index);
    Some(*delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliveries(start: Instant) -> Vec<Delivery> {
        (0..100)
            .map(|number| Delivery {
                at: start + Duration::from_millis(10 * number),
                sent: start + Duration::from_millis(9 * number),
                flow: FlowId::default(),
                stream: 0,
                number,
                bytes: 50,
            })
            .collect()
    }

    #[test]
    fn figures_of_an_even_flow() {
        let start = Instant::now();
        let all = deliveries(start);
        let end = start + Duration::from_secs(1);
        assert_eq!(goodput(&all, start, end), 5000.0);
        assert_eq!(goodput(&all, end, end), 0.0);
        let bins = binned(&all, start, end, Duration::from_millis(250));
        assert_eq!(bins, [5000.0; 4]);
        assert_eq!(percentile(&all, 0.5), Some(Duration::from_millis(49)));
        assert_eq!(percentile(&all, 0.0), Some(Duration::ZERO));
        assert_eq!(percentile(&all, 1.0), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
