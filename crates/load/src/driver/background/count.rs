//! Counters of background traffic: the datagrams of one run after the other.

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::Serialize;

/// The octets of a datagram that name its run.
pub(super) const MARK: usize = 4;

/// What is owed for longer is not made up for: the rate is a part of the link, not a total.
const LONGEST_DEBT: Duration = Duration::from_millis(50);

/// What became of the traffic beside a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackgroundTotal {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the system did not send: its queues were full, or see [`error`](BackgroundTotal::error).
    pub not_sent: u64,
    /// Datagrams for which the generator came too late, as where others had the processor.
    pub missed: u64,
    /// Datagrams received, where they were received here.
    pub received: Option<u64>,
    /// How long the run took.
    pub time: Duration,
    /// Octets of payload sent.
    pub octets: u64,
    /// What the system said to the first datagram that it refused for another reason than that its queues were
    /// full.
    pub error: Option<String>,
}

impl BackgroundTotal {
    /// Datagrams that the rate wants.
    pub fn due(&self) -> u64 {
        self.sent + self.not_sent + self.missed
    }

    /// Datagrams that were sent and have not come, where they were received here.
    pub fn lost(&self) -> Option<u64> {
        Some(self.sent.saturating_sub(self.received?))
    }

    /// Bits of payload sent a second.
    pub fn bits_per_second(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| self.octets as f64 * 8.0 / seconds)
    }

    /// Adds what became of it beside another run.
    pub fn merge(&mut self, other: &BackgroundTotal) {
        self.sent += other.sent;
        self.not_sent += other.not_sent;
        self.missed += other.missed;
        self.received = self
            .received
            .zip(other.received)
            .map(|(own, more)| own + more);
        self.time += other.time;
        self.octets += other.octets;
        self.error = self.error.take().or_else(|| other.error.clone());
    }

    /// The same for a document.
    pub fn summary(&self) -> BackgroundSummary {
        let lost = self.lost();
        BackgroundSummary {
            due: self.due(),
            sent: self.sent,
            not_sent: self.not_sent,
            received: self.received,
            lost,
            lost_percent: lost
                .filter(|_| self.sent > 0)
                .map(|lost| lost as f64 / self.sent as f64 * 100.0),
            seconds: self.time.as_secs_f64(),
            bits_per_second: self.bits_per_second(),
            error: self.error.clone(),
        }
    }
}

/// What became of the traffic beside a run, in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackgroundSummary {
    /// Datagrams that the rate wants.
    pub due: u64,
    /// Of these, sent.
    pub sent: u64,
    /// Of these, those that the system did not send.
    pub not_sent: u64,
    /// Datagrams received, where they were received here.
    pub received: Option<u64>,
    /// Of those sent, lost.
    pub lost: Option<u64>,
    /// The same in percent.
    pub lost_percent: Option<f64>,
    /// How long the run took.
    pub seconds: f64,
    /// Bits of payload sent a second.
    pub bits_per_second: Option<f64>,
    /// What the system said to the first datagram that it refused.
    pub error: Option<String>,
}

/// The datagrams of the run under way, or of the last one.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// Which run it is; 0 before the first.
    number: u32,
    is_under_way: bool,
    began: Option<Instant>,
    total: BackgroundTotal,
    /// Datagrams that have not been missed as a whole.
    missed: f64,
    /// When it was asked last what is owed.
    asked: Option<Instant>,
    /// Datagrams that are not owed as a whole.
    owed: f64,
    per_second: f64,
}

impl Count {
    pub(super) fn begin(&mut self, now: Instant) {
        self.number = self.number.wrapping_add(1).max(1);
        self.is_under_way = true;
        self.began = Some(now);
        self.total = BackgroundTotal::default();
        self.missed = 0.0;
    }

    pub(super) fn end(&mut self, now: Instant) {
        // Since then the sender may have had no processor.
        self.miss(now);
        self.is_under_way = false;
        let began = self.began.unwrap_or(now);
        self.total.time = now.saturating_duration_since(began);
    }

    pub(super) fn total(&self, is_received: bool) -> BackgroundTotal {
        let received = self.total.received.unwrap_or(0);
        BackgroundTotal {
            missed: self.missed as u64,
            received: is_received.then_some(received),
            ..self.total.clone()
        }
    }

    /// How many datagrams are to be sent now.
    pub(super) fn owed(&mut self, now: Instant, per_second: f64) -> usize {
        self.per_second = per_second;
        let passed = now.saturating_duration_since(self.asked.unwrap_or(now));
        self.miss(now);
        self.asked = Some(now);
        self.owed += per_second * passed.min(LONGEST_DEBT).as_secs_f64();
        let whole = self.owed.floor();
        self.owed -= whole;
        whole as usize
    }

    /// What is too late to be made up for; of the time before the run nothing.
    fn miss(&mut self, now: Instant) {
        let (Some(asked), Some(began), true) = (self.asked, self.began, self.is_under_way) else {
            return;
        };
        let passed = now.saturating_duration_since(asked.max(began));
        let late = passed.saturating_sub(LONGEST_DEBT);
        self.missed += self.per_second * late.as_secs_f64();
    }

    /// What a datagram that is sent now begins with.
    pub(super) fn mark(&self) -> [u8; MARK] {
        let number = if self.is_under_way { self.number } else { 0 };
        number.to_be_bytes()
    }

    pub(super) fn sent(&mut self, datagrams: usize, payload: usize) {
        if self.is_under_way {
            self.total.sent += datagrams as u64;
            self.total.octets += (datagrams * payload) as u64;
        }
    }

    pub(super) fn not_sent(&mut self, datagrams: usize, error: Option<&io::Error>) {
        if !self.is_under_way {
            return;
        }
        self.total.not_sent += datagrams as u64;
        let is_full = |error: &io::Error| {
            let kind = error.kind();
            kind == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(Errno::ENOBUFS as i32)
        };
        if let Some(error) = error.filter(|error| !is_full(error)) {
            self.total.error.get_or_insert_with(|| error.to_string());
        }
    }

    /// Counts what has come, if it is a datagram of this run.
    pub(super) fn received(&mut self, octets: &[u8]) {
        let is_ours = self.number > 0 && octets.starts_with(&self.number.to_be_bytes());
        if is_ours {
            *self.total.received.get_or_insert_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_other_runs_and_of_none_are_not_counted() {
        let now = Instant::now();
        let mut count = Count::default();
        let before = count.mark();
        count.received(&before);
        count.sent(1, 100);
        count.begin(now);
        let first = count.mark();
        count.sent(3, 100);
        count.received(&first);
        count.received(&before);
        count.received(b"other");
        count.end(now + Duration::from_secs(1));
        // What is under way when it is over comes later, and what follows is no part of it.
        let between = count.mark();
        count.sent(7, 100);
        count.received(&first);
        count.received(&between);
        let total = count.total(true);
        assert_eq!((total.sent, total.received), (3, Some(2)));
        assert_eq!(total.lost(), Some(1));
        assert_eq!(total.bits_per_second(), Some(2400.0));
        assert_eq!(count.total(false).lost(), None);
        count.begin(now + Duration::from_secs(2));
        count.received(&first);
        count.received(&count.mark());
        assert_eq!(count.total(true).received, Some(1));
    }

    #[test]
    fn what_is_owed_for_too_long_is_missed() {
        let began = Instant::now();
        let after = |milliseconds| began + Duration::from_millis(milliseconds);
        let mut count = Count::default();
        assert_eq!(count.owed(after(0), 1000.0), 0);
        // Before the run nothing is missed that anybody counts.
        assert_eq!(count.owed(after(500), 1000.0), 50);
        count.begin(after(500));
        assert_eq!(count.owed(after(550), 1000.0), 50);
        assert_eq!(count.total(true).missed, 0);
        assert_eq!(count.owed(after(650), 1000.0), 50);
        assert_eq!(count.total(true).missed, 50);
        count.end(after(800));
        assert_eq!(count.total(true).missed, 150);
        assert_eq!(count.total(true).due(), 150);
    }

    #[test]
    fn two_runs_are_put_together() {
        let one = |sent, received, error: Option<&str>| BackgroundTotal {
            sent,
            not_sent: 1,
            missed: 2,
            received,
            time: Duration::from_secs(1),
            octets: 1000,
            error: error.map(str::to_owned),
        };
        let mut both = one(10, Some(9), None);
        both.merge(&one(20, Some(20), Some("why")));
        assert_eq!((both.due(), both.lost()), (36, Some(1)));
        assert_eq!(both.bits_per_second(), Some(8000.0));
        assert_eq!(both.error.as_deref(), Some("why"));
        both.merge(&one(1, None, Some("other")));
        assert_eq!(both.lost(), None);
        assert_eq!(both.summary().error.as_deref(), Some("why"));
    }

    #[test]
    fn only_a_refusal_is_told() {
        let mut count = Count::default();
        count.begin(Instant::now());
        count.not_sent(2, None);
        count.not_sent(2, Some(&io::ErrorKind::WouldBlock.into()));
        count.not_sent(
            2,
            Some(&io::Error::from_raw_os_error(Errno::ENOBUFS as i32)),
        );
        assert_eq!(count.total(true).error, None);
        count.not_sent(2, Some(&io::Error::from_raw_os_error(Errno::EINVAL as i32)));
        count.not_sent(2, Some(&io::Error::from_raw_os_error(Errno::EPERM as i32)));
        let total = count.total(true);
        assert_eq!(total.not_sent, 10);
        assert!(
            total
                .error
                .is_some_and(|error| error.starts_with("Invalid argument"))
        );
    }
}
