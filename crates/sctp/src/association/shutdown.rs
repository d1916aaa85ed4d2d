//! The graceful end of an association (RFC 9260 section 9.2): its timers and what is to be sent.
//! Which state follows which is decided where chunks are handled.

use std::time::{Duration, Instant};

use super::sent::PathIndex;
use crate::EndpointConfig;

/// The shutdown of one association.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// The user asked for it before the association was up.
    requested: bool,
    /// A SHUTDOWN or SHUTDOWN ACK, by the state, should go out.
    due: bool,
    /// Where it goes, when that is not where data goes.
    path: Option<PathIndex>,
    /// T2-shutdown.
    t2: Option<Instant>,
    /// T5-shutdown-guard.
    t5: Option<Instant>,
}

impl Shutdown {
    /// Remembers that the user asked for it, until the association is up.
    pub(crate) fn request(&mut self) {
        self.requested = true;
    }

    /// Whether the user asked for it.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested
    }

    /// SHUTDOWN-SENT or SHUTDOWN-ACK-SENT is entered: the chunk is to go out.
    pub(crate) fn send(&mut self) {
        self.due = true;
    }

    /// The chunk is to go out on `path`: as an answer, or because it was not answered elsewhere.
    pub(crate) fn send_on(&mut self, path: PathIndex) {
        self.due = true;
        self.path = Some(path);
    }

    /// When the chunk goes out, it goes on `path`.
    pub(crate) fn answer_on(&mut self, path: PathIndex) {
        self.path = Some(path);
    }

    /// The path for the chunk, when it is not the one that data goes to.
    pub(crate) fn path(&self) -> Option<PathIndex> {
        self.path
    }

    /// Starts the guard over the whole sequence (five times RTO.Max), if it does not run yet: a
    /// peer that answers all the time, but never lets it end, cannot keep the association.
    pub(crate) fn start_guard(&mut self, now: Instant, config: &EndpointConfig) {
        self.t5.get_or_insert(now + config.rto_max * 5);
    }

    /// Whether the chunk should go out now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// The chunk went out; T2 runs for `rto`.
    pub(crate) fn sent(&mut self, now: Instant, rto: Duration) {
        self.due = false;
        self.t2 = Some(now + rto);
    }

    /// When T2 or T5 expires.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        [self.t2, self.t5].into_iter().flatten().min()
    }

    /// Whether the guard has run out.
    pub(crate) fn guard_expired(&self, now: Instant) -> bool {
        self.t5.is_some_and(|t5| t5 <= now)
    }

    /// Whether T2 has expired; it stops then.
    pub(crate) fn take_t2_expired(&mut self, now: Instant) -> bool {
        let expired = self.t2.is_some_and(|t2| t2 <= now);
        if expired {
            self.t2 = None;
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmits_by_t2_within_the_guard() {
        let config = EndpointConfig::default();
        let now = Instant::now();
        let mut shutdown = Shutdown::default();
        shutdown.send();
        shutdown.start_guard(now, &config);
        assert!(shutdown.is_due());
        shutdown.sent(now, Duration::from_secs(1));
        assert!(!shutdown.is_due());
        assert_eq!(shutdown.timeout(), Some(now + Duration::from_secs(1)));
        assert!(!shutdown.take_t2_expired(now));
        assert!(shutdown.take_t2_expired(now + Duration::from_secs(1)));
        assert_eq!(shutdown.timeout(), Some(now + config.rto_max * 5));
        shutdown.start_guard(now + Duration::from_secs(9), &config);
        assert!(
            shutdown.guard_expired(now + config.rto_max * 5),
            "started once"
        );
    }
}
