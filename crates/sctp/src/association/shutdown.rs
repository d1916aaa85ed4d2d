//! The graceful end of an association (RFC 9260 section 9.2): its timers and what is to be sent.
//! Which state follows which is decided where chunks are handled.

use std::time::{Duration, Instant};

use super::path_id::PathId;
use crate::AssociationConfig;

/// The shutdown of one association.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// The user asked for it before the association was up.
    requested: bool,
    /// A SHUTDOWN or SHUTDOWN ACK, by the state, should go out.
    due: bool,
    /// Where it goes, when that is not where data goes.
    path: Option<PathId>,
    /// T2-shutdown.
    t2: Option<Instant>,
    /// T5-shutdown-guard once a SHUTDOWN is out; before that, how long the peer may acknowledge nothing.
    guard: Option<Instant>,
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

    /// Data is still to be delivered before the end, and the peer has just acknowledged some, or the
    /// end is just wanted. A peer that goes on acknowledging has all the time that it needs. One that
    /// is silent is given up by the errors of its paths (section 8.1), at the latest after this time.
    /// So what it bounds is the patience with a peer that answers and acknowledges nothing.
    pub(crate) fn data_acknowledged(&mut self, now: Instant, config: &AssociationConfig) {
        let attempts = config.association_max_retrans.saturating_add(1);
        self.guard = Some(now + config.path.rto_max * attempts);
    }

    /// SHUTDOWN-SENT is entered: a SHUTDOWN is to go out. T5-shutdown-guard, five times RTO.Max, bounds
    /// what follows: a peer that answers all the time, but never lets it end, cannot keep the
    /// association.
    pub(crate) fn enter_sent(&mut self, now: Instant, config: &AssociationConfig) {
        self.send();
        self.guard = Some(now + config.path.rto_max * 5);
    }

    /// SHUTDOWN-ACK-SENT is entered, with all data delivered: a SHUTDOWN ACK is to go out. T5 belongs
    /// to the sender of a SHUTDOWN. On the answering side, T2 alone bounds the attempts.
    pub(crate) fn enter_ack_sent(&mut self) {
        self.send();
        self.guard = None;
    }

    /// The chunk is to go out, and T2 begins anew with it.
    fn send(&mut self) {
        self.due = true;
        self.t2 = None;
    }

    /// The same on `path`: as an answer, or because the chunk was not answered elsewhere.
    pub(crate) fn send_on(&mut self, path: PathId) {
        self.send();
        self.path = Some(path);
    }

    /// The chunk is to go out again, and T2 runs on: a peer that asks for it again and again does not
    /// keep T2 from expiring.
    pub(crate) fn repeat(&mut self) {
        self.due = true;
    }

    /// When the chunk goes out, it goes on `path`.
    pub(crate) fn answer_on(&mut self, path: PathId) {
        self.path = Some(path);
    }

    /// The path was removed: the chunk goes where data goes.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.path.take_if(|waiting| *waiting == path);
    }

    /// The path for the chunk, when it is not the one that data goes to.
    pub(crate) fn path(&self) -> Option<PathId> {
        self.path
    }

    /// Whether the chunk should go out now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// The chunk went out; T2 runs for `rto`, unless it runs already.
    pub(crate) fn sent(&mut self, now: Instant, rto: Duration) {
        self.due = false;
        self.t2.get_or_insert(now + rto);
    }

    /// When T2 or the guard expires.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        [self.t2, self.guard].into_iter().flatten().min()
    }

    /// Whether the guard has run out.
    pub(crate) fn guard_expired(&self, now: Instant) -> bool {
        self.guard.is_some_and(|guard| guard <= now)
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

    const RTO: Duration = Duration::from_secs(1);

    #[test]
    fn retransmits_by_t2_within_the_guard() {
        let config = AssociationConfig::default();
        let now = Instant::now();
        let mut shutdown = Shutdown::default();
        shutdown.enter_sent(now, &config);
        assert!(shutdown.is_due());
        shutdown.sent(now, RTO);
        assert!(!shutdown.is_due());
        assert_eq!(shutdown.timeout(), Some(now + RTO));
        assert!(!shutdown.take_t2_expired(now));
        assert!(shutdown.take_t2_expired(now + RTO));
        assert_eq!(shutdown.timeout(), Some(now + config.path.rto_max * 5));
        assert!(shutdown.guard_expired(now + config.path.rto_max * 5));
        shutdown.send_on(PathId::FIRST);
        assert_eq!(shutdown.timeout(), Some(now + config.path.rto_max * 5));
    }

    #[test]
    fn t2_alone_bounds_the_attempts_of_the_answering_side() {
        let config = AssociationConfig::default();
        let now = Instant::now();
        let mut shutdown = Shutdown::default();
        shutdown.data_acknowledged(now, &config);
        shutdown.enter_ack_sent();
        shutdown.sent(now, RTO);
        shutdown.repeat();
        shutdown.sent(now + RTO / 2, RTO);
        assert_eq!(
            shutdown.timeout(),
            Some(now + RTO),
            "an answer changes nothing"
        );
        assert!(shutdown.take_t2_expired(now + RTO));
        assert_eq!(shutdown.timeout(), None);
    }

    #[test]
    fn each_acknowledgement_gives_the_peer_all_its_time_again() {
        let config = AssociationConfig::default()
            .rto_max(RTO)
            .association_max_retrans(3);
        let now = Instant::now();
        let mut shutdown = Shutdown::default();
        for second in 0..100 {
            let now = now + RTO * second;
            shutdown.data_acknowledged(now, &config);
            assert_eq!(shutdown.timeout(), Some(now + 4 * RTO));
        }
    }
}
