//! Whether messages have to wait for the core, and for too long.

use std::time::{Duration, Instant};

/// Tells a standing queue from a burst, as CoDel does (RFC 8289 section 3): there is too much to do
/// where for a whole interval every message has waited longer than the target. It is over with the
/// first message that has not. What counts is the time that a message has really waited; how many
/// there are, how long each takes, and what else runs on the machine need not be known.
#[derive(Debug, Default)]
pub(super) struct QueueDelay {
    /// When the interval is over, where every message so far has waited too long.
    over_at: Option<Instant>,
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
        self.is_standing |= now >= over_at;
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
        assert!(!note(&mut queue, begun, 152, 60));
    }
}
