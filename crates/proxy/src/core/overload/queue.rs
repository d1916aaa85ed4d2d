//! Whether messages have to wait for the core, and for too long.

use std::time::{Duration, Instant};

/// Tells a standing queue from a burst, as CoDel does (RFC 8289 section 3): there is too much to do
/// where for a whole interval every message has waited longer than the target. It is over with the
/// first message that has not. What counts is the time that a message has really waited; how many
/// there are, how long each takes, and what else runs on the machine need not be known.
///
/// Where few messages wait, it is not for what there is to do, but for a process that was stopped, by others who had the
/// processor or with the whole machine, however many times in a row: a queue that stands is one of many messages, as CoDel
/// leaves one alone that is no longer than a packet (RFC 8289 section 5.6).
///
/// While there is too much to do, a queue that was gone is back at once. So for some intervals after one
/// has stood, the next is not given one to show itself: it would be longer by what comes in an interval.
#[derive(Debug, Default)]
pub(super) struct QueueDelay {
    /// When the interval is over, where every message so far has waited too long.
    over_at: Option<Instant>,
    /// How many messages have waited too long since the last one that has not.
    late: u32,
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
            self.late = 0;
            self.is_standing = false;
            return false;
        }
        self.late = self.late.saturating_add(1);
        let over_at = *self.over_at.get_or_insert(now + interval);
        let is_suspected = self.suspected_until.is_some_and(|until| now < until);
        self.is_standing |= is_suspected || now >= over_at && self.late >= MANY;
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

/// So many messages in a row that have waited too long are many. A worker that can do a thousand a second, which is little,
/// has done them before the interval is over.
const MANY: u32 = 64;

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

    /// Many that have come together and have waited so long. Returns whether a queue stands behind the last one.
    fn note_many(queue: &mut QueueDelay, begun: Instant, at: u64, waited: u64) -> bool {
        (1..MANY).for_each(|_| {
            note(queue, begun, at, waited);
        });
        note(queue, begun, at, waited)
    }

    #[test]
    fn a_burst_is_no_standing_queue() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note_many(&mut queue, begun, 0, 90));
        assert!(!note_many(&mut queue, begun, 60, 90));
        assert!(!note(&mut queue, begun, 99, 40));
        assert!(!note_many(&mut queue, begun, 120, 90));
        assert!(!note_many(&mut queue, begun, 219, 90));
    }

    #[test]
    fn a_queue_stands_until_a_message_finds_it_short() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note_many(&mut queue, begun, 0, 60));
        assert!(note(&mut queue, begun, 100, 70));
        assert!(note(&mut queue, begun, 150, 51));
        assert!(!note(&mut queue, begun, 151, 49));
        assert!(!queue.is_standing());
    }

    #[test]
    fn a_few_messages_that_wait_again_and_again_are_no_standing_queue() {
        const CALLERS: u32 = 8;
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        for pause in 0..(MANY / CALLERS).into() {
            for _ in 0..CALLERS {
                assert!(!queue.is_standing());
                note(&mut queue, begun, pause * 60, 60);
            }
        }
        // There is a limit to what a pause is taken for.
        assert!(queue.is_standing());
    }

    #[test]
    fn many_that_wait_stand_no_sooner_than_an_interval_shows() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        for _ in 0..10 {
            assert!(!note_many(&mut queue, begun, 0, 60));
        }
        assert!(!note(&mut queue, begun, 99, 60));
        assert!(note(&mut queue, begun, 100, 60));
    }

    #[test]
    fn a_queue_that_comes_back_stands_at_once_and_one_that_stays_away_is_forgotten() {
        let begun = Instant::now();
        let mut queue = QueueDelay::default();
        assert!(!note_many(&mut queue, begun, 0, 60));
        assert!(note(&mut queue, begun, 100, 60));
        assert!(!note(&mut queue, begun, 101, 49));
        assert!(note(&mut queue, begun, 1_000, 60));
        assert!(!note(&mut queue, begun, 1_001, 49));
        // Nothing stood for ten intervals.
        assert!(!note_many(&mut queue, begun, 2_000, 60));
        assert!(note(&mut queue, begun, 2_100, 60));
    }
}
