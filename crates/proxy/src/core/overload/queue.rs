//! Whether messages have to wait for the core, and for too long.

use std::time::{Duration, Instant};

/// Tells a standing queue from a burst, as CoDel does (RFC 8289 section 3): there is too much to do
/// where for a whole interval every message has waited longer than the target. It is over with the
/// first message that has not. What counts is the time that a message has really waited; how many
/// there are, how long each takes, and what else runs on the machine need not be known.
///
/// While there is too much to do, a queue that was gone is back at once. So for some intervals after one
/// has stood, the next is not given one to show itself: it would be longer by what comes in an interval.
#[derive(Debug, Default)]
pub(super) struct QueueDelay {
    /// When the interval is over, where every message so far has waited too long.
    over_at: Option<Instant>,
    /// Until when a message that has waited too long makes a standing queue by itself.
    suspected_until: Option<Instant>,
    is_standing: bool,
    /// The last wait.
    waited: Duration,
}

impl QueueDelay {
    /// Takes in how long the message that is taken up now has waited. Returns whether a queue stands.
    pub(super) fn note(
        &mut self,
        now: Instant,
        waited: Duration,
        target: Duration,
        interval: Duration,
    ) -> bool {
        self.waited = waited;
        if waited < target {
            self.over_at = None;
            self.is_standing = false;
            return false;
        }
        let over_at = *self.over_at.get_or_insert(now + interval);
        let is_suspected = self.suspected_until.is_some_and(|until| now < until);
        self.is_standing |= is_suspected || now >= over_at;
        if self.is_standing {
            self.suspected_until = Some(now + interval * SUSPICION);
        }
        self.is_standing
    }

    /// Whether a queue stood when the last message was taken up.
    pub(super) fn is_standing(&self) -> bool {
        self.is_standing
    }

    /// How long the last message waited.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }
}

/// For how many intervals after a queue has stood the next one is suspected.
const SUSPICION: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(50);
    const INTERVAL: Duration = Duration::from_millis(100);

    fn note(queue: &mut QueueDelay, begun: Instant, at: u64, waited: u64) -> bool {
        queue.note(
            begun + Duration::from_millis(at),
            Duration::from_millis(waited),
            TARGET,
            INTERVAL,
        )
    }

    #[test]
    fn a_burst_is_no_standing_queue() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note(&mut queue, begun, 0, 90));
        assert!(!note(&mut queue, begun, 60, 90));
        assert!(!note(&mut queue, begun, 99, 40));
        assert!(!note(&mut queue, begun, 120, 90));
        assert!(!note(&mut queue, begun, 219, 90));
    }

    #[test]
    fn a_queue_stands_until_a_message_finds_it_short() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note(&mut queue, begun, 0, 60));
        assert!(note(&mut queue, begun, 100, 70));
        assert!(note(&mut queue, begun, 150, 51));
        assert!(!note(&mut queue, begun, 151, 49));
        assert!(!queue.is_standing());
    }

    #[test]
    fn a_queue_that_comes_back_stands_at_once_and_one_that_stays_away_is_forgotten() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note(&mut queue, begun, 0, 60));
        assert!(note(&mut queue, begun, 100, 60));
        assert!(!note(&mut queue, begun, 101, 49));
        assert!(note(&mut queue, begun, 1_000, 60));
        assert!(!note(&mut queue, begun, 1_001, 49));
        // Nothing stood for ten intervals.
        assert!(!note(&mut queue, begun, 2_000, 60));
        assert!(note(&mut queue, begun, 2_100, 60));
    }
}
