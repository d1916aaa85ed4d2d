//! The calls whose messages are kept to be drawn.

use super::exchange::Exchange;
use super::session::Session;

/// A call that is to be drawn.
#[derive(Debug)]
pub(crate) struct KeptCall {
    pub(crate) exchange: Box<Exchange>,
    /// `None` for registrations and whatever else is no call.
    pub(crate) session: Option<Session>,
}

/// Which calls to keep, and those kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Whether failed and slow calls are wanted.
    pub(crate) wants_worst: bool,
    /// Failed calls kept.
    pub(crate) most_failed: usize,
    /// Call-IDs that are wanted by name.
    pub(crate) wanted: Vec<String>,
    pub(crate) named: Vec<KeptCall>,
    pub(crate) failed: Vec<KeptCall>,
    /// Failed calls beyond those kept.
    pub(crate) more_failed: u64,
    /// With the delay by which they are slow.
    pub(crate) slowest: Vec<(i64, KeptCall)>,
}

impl Kept {
    /// Slow calls kept.
    const MOST_SLOW: usize = 50;
    /// Exchanges kept by name: a Call-ID that registers again and again has many.
    const MOST_NAMED: usize = 100;

    /// Whether any call may be kept.
    pub(crate) fn wants_any(&self) -> bool {
        self.wants_worst || !self.wanted.is_empty()
    }

    /// Keeps an exchange that is over, if it is wanted.
    pub(crate) fn offer(&mut self, exchange: Box<Exchange>, session: Option<Session>) {
        let is_named = exchange
            .call_ids
            .iter()
            .any(|call_id| self.wanted.iter().any(|wanted| **wanted == **call_id));
        if is_named && self.named.len() < Self::MOST_NAMED {
            self.named.push(KeptCall { exchange, session });
            return;
        }
        let Some(session) = session.filter(|_| self.wants_worst) else {
            return;
        };
        if session.outcome.is_failure() {
            match self.failed.len() < self.most_failed {
                true => self.failed.push(KeptCall {
                    exchange,
                    session: Some(session),
                }),
                false => self.more_failed += 1,
            }
        } else if let Some(delay) = session.call_setup_delay() {
            let call = KeptCall {
                exchange,
                session: Some(session),
            };
            if self.slowest.len() < Self::MOST_SLOW {
                self.slowest.push((delay, call));
            } else if let Some(quickest) = self.slowest.iter_mut().min_by_key(|(delay, _)| *delay)
                && quickest.0 < delay
            {
                *quickest = (delay, call);
            }
        }
    }
}
