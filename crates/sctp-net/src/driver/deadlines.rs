//! When each endpoint wants to be woken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The next deadline of each SCTP port, in order.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_port: BTreeMap<u16, Instant>,
    in_order: BTreeSet<(Instant, u16)>,
}

impl Deadlines {
    /// Replaces a port's deadline.
    pub(super) fn set(&mut self, port: u16, deadline: Option<Instant>) {
        if self.by_port.get(&port).copied() == deadline {
            return;
        }
        if let Some(old) = self.by_port.remove(&port) {
            self.in_order.remove(&(old, port));
        }
        if let Some(new) = deadline {
            self.by_port.insert(port, new);
            self.in_order.insert((new, port));
        }
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|&(deadline, _)| deadline)
    }

    /// Takes a port whose deadline has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u16> {
        let &(deadline, port) = self.in_order.first()?;
        if deadline > now {
            return None;
        }
        self.set(port, None);
        Some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ports_come_in_the_order_of_their_latest_deadlines() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut deadlines = Deadlines::default();
        deadlines.set(1, Some(at(10)));
        deadlines.set(2, Some(at(20)));
        deadlines.set(3, Some(at(30)));
        deadlines.set(1, Some(at(25)));
        deadlines.set(3, None);
        assert_eq!(deadlines.next(), Some(at(20)));
        assert_eq!(deadlines.pop_due(at(19)), None);
        assert_eq!(deadlines.pop_due(at(25)), Some(2));
        assert_eq!(deadlines.pop_due(at(25)), Some(1));
        assert_eq!(deadlines.next(), None);
    }
}
