//! In which order packets arrive.

/// Holds back what would overtake, unless that is allowed. Times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    overtaking_allowed: bool,
    latest_arrival: u64,
}

impl Order {
    pub(crate) fn new(overtaking_allowed: bool) -> Order {
        Order {
            overtaking_allowed,
            latest_arrival: 0,
        }
    }

    pub(crate) fn set_overtaking_allowed(&mut self, allowed: bool) {
        self.overtaking_allowed = allowed;
    }

    /// When a packet arrives that would arrive then.
    pub(crate) fn arrival(&mut self, arrival: u64) -> u64 {
        if self.overtaking_allowed {
            return arrival;
        }
        self.latest_arrival = self.latest_arrival.max(arrival);
        self.latest_arrival
    }
}
