//! In which order packets arrive.

use std::time::{Duration, Instant};

/// Turns delays into arrival times, and holds back what would overtake unless that is allowed.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    overtaking_allowed: bool,
    latest_arrival: Option<Instant>,
}

impl Order {
    pub(crate) fn new(overtaking_allowed: bool) -> Order {
        Order {
            overtaking_allowed,
            latest_arrival: None,
        }
    }

    pub(crate) fn set_overtaking_allowed(&mut self, allowed: bool) {
        self.overtaking_allowed = allowed;
    }

    pub(crate) fn arrival(&mut self, now: Instant, delay: Duration) -> Instant {
        let arrival = now + delay;
        if self.overtaking_allowed {
            return arrival;
        }
        let arrival = self
            .latest_arrival
            .map_or(arrival, |latest| arrival.max(latest));
        self.latest_arrival = Some(arrival);
        arrival
    }
}
