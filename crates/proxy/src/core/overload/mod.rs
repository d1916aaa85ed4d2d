//! What is refused so that the rest can be served: rates by source and in all, room for transactions,
//! and messages that wait too long for the core.
//!
//! What costs most and can best be done without goes first: requests that would begin a call. Then come
//! others outside of a dialog. Requests within a dialog, their ACKs and CANCELs are never refused for
//! want of time: without them what was begun could not be ended.
//!
//! A refusal makes no transaction. Those that a client should come back for are answered 503 with
//! Retry-After (RFC 3261 section 21.5.4); a source above its rate gets no answer, which would only
//! double what it sends.

mod bucket;
mod policy;
mod queue;
mod sources;

use std::net::IpAddr;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::{Glance, Message, Method, Name};

use bucket::{Bucket, Rate};
use queue::QueueDelay;
use sources::Sources;

pub use policy::OverloadPolicy;

/// What becomes of a request before anything is done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken.
    Admit,
    /// It is answered 503, unless it belongs to a transaction that there is.
    Refuse,
    /// It is dropped.
    Ignore,
}

/// What the defence has refused, and what it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverloadStatistics {
    /// Requests refused because all sources together sent more than the rate.
    pub over_rate: u64,
    /// Requests dropped because their source sent more than its rate.
    pub over_source_rate: u64,
    /// OPTIONS and REGISTERs without credentials dropped: their source sent more than its rate.
    pub scans_ignored: u64,
    /// Requests refused because messages waited too long for the core.
    pub over_queue_delay: u64,
    /// Requests refused because nearly as many transactions were under way as there may be.
    pub over_transactions: u64,
    /// Requests refused because the server drains.
    pub draining: u64,
    /// Now: sources with a rate of their own.
    pub sources: u64,
    /// Now: how long the last message waited between the socket and the core.
    pub queue_delay: Duration,
    /// Now: whether new calls are refused because messages wait too long.
    pub is_overloaded: bool,
}

/// The counters and gauges of several workers together; of the gauges that do not add up, the worst.
impl AddAssign for OverloadStatistics {
    fn add_assign(&mut self, other: OverloadStatistics) {
        // Taken apart, so that no counter can be forgotten.
        let OverloadStatistics {
            over_rate,
            over_source_rate,
            scans_ignored,
            over_queue_delay,
            over_transactions,
            draining,
            sources,
            queue_delay,
            is_overloaded,
        } = other;
        self.over_rate += over_rate;
        self.over_source_rate += over_source_rate;
        self.scans_ignored += scans_ignored;
        self.over_queue_delay += over_queue_delay;
        self.over_transactions += over_transactions;
        self.draining += draining;
        self.sources += sources;
        self.queue_delay = self.queue_delay.max(queue_delay);
        self.is_overloaded |= is_overloaded;
    }
}

/// What is known of a request's surroundings when it is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Where it came from.
    pub(crate) from: IpAddr,
    /// Its source is trusted: no rate of its own.
    pub(crate) is_trusted: bool,
    /// REGISTERs have to bring credentials.
    pub(crate) registers_are_challenged: bool,
    /// How long it waited for the core.
    pub(crate) waited: Duration,
    /// Server transactions that there are, and may be.
    pub(crate) transactions: (usize, usize),
}

/// A request, as far as it is judged by what it says.
pub(crate) trait Judged {
    /// Its method; `None` for what is no request.
    fn method(&self) -> Option<&Method>;
    /// Whether it says that it belongs to a dialog: To has a tag.
    fn is_in_dialog(&self) -> bool;
    /// Whether it has credentials.
    fn has_credentials(&self) -> bool;
}

impl Judged for Message {
    fn method(&self) -> Option<&Method> {
        Message::method(self)
    }

    fn is_in_dialog(&self) -> bool {
        self.to_tag().is_some()
    }

    fn has_credentials(&self) -> bool {
        self.contains(Name::Authorization) || self.contains(Name::ProxyAuthorization)
    }
}

impl Judged for Glance<'_> {
    fn method(&self) -> Option<&Method> {
        Some(Glance::method(self))
    }

    fn is_in_dialog(&self) -> bool {
        self.to_tag().is_some()
    }

    fn has_credentials(&self) -> bool {
        Glance::has_credentials(self)
    }
}

/// The defence of one core.
#[derive(Debug)]
pub(crate) struct Defence {
    policy: OverloadPolicy,
    all: Option<(Rate, Option<Bucket>)>,
    by_source: Option<Rate>,
    sources: Sources,
    unauthenticated: Option<Rate>,
    scanners: Sources,
    queue: QueueDelay,
    is_draining: bool,
    /// When a request was refused last.
    refused: Option<Instant>,
    statistics: OverloadStatistics,
}

impl Defence {
    pub(crate) fn new(policy: &OverloadPolicy, rng: &mut ChaCha12Rng) -> Defence {
        let mut table = || {
            let state = RandomState::with_seeds(
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            );
            Sources::new(state, policy.maximum_sources)
        };
        let mut defence = Defence {
            sources: table(),
            scanners: table(),
            policy: policy.clone(),
            all: None,
            by_source: None,
            unauthenticated: None,
            queue: QueueDelay::default(),
            is_draining: false,
            refused: None,
            statistics: OverloadStatistics::default(),
        };
        defence.set_policy(policy);
        defence
    }

    /// Exchanges the settings. What sources have saved up stays, within the new bounds.
    pub(crate) fn set_policy(&mut self, policy: &OverloadPolicy) {
        let rate = |per_second: Option<u32>| per_second.map(|rate| Rate::new(rate, policy.burst));
        self.all = rate(policy.requests_per_second).map(|rate| (rate, None));
        self.by_source = rate(policy.requests_per_second_per_source);
        self.unauthenticated = rate(policy.unauthenticated_per_second_per_source);
        self.sources.set_maximum(policy.maximum_sources);
        self.scanners.set_maximum(policy.maximum_sources);
        self.policy = policy.clone();
    }

    /// From now on nothing begins any more.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(crate) fn statistics(&self) -> OverloadStatistics {
        OverloadStatistics {
            sources: self.sources.len().max(self.scanners.len()) as u64,
            queue_delay: self.queue.waited(),
            is_overloaded: self.queue.is_standing(),
            ..self.statistics
        }
    }

    /// Takes notice that a request is refused now.
    pub(crate) fn note_refused(&mut self, now: Instant) {
        self.refused = Some(now);
    }

    /// Whether an ACK that comes now may be for a refusal.
    pub(crate) fn may_be_acknowledged(&self, now: Instant) -> bool {
        self.refused
            .is_some_and(|refused| now.saturating_duration_since(refused) < ACKNOWLEDGED_WITHIN)
    }

    /// After what time a client that is refused may come back.
    pub(crate) fn retry_after(&self) -> Duration {
        self.policy.retry_after
    }

    /// Takes in how long a message has waited for the core, whatever it is.
    pub(crate) fn note_waited(&mut self, now: Instant, waited: Duration) {
        let OverloadPolicy {
            queue_delay_target,
            queue_delay_interval,
            ..
        } = self.policy;
        self.queue
            .note(now, waited, queue_delay_target, queue_delay_interval);
    }

    /// Judges a request, the cheapest tests first.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        request: &impl Judged,
        around: &Surroundings,
    ) -> Admission {
        let Some(method) = request.method() else {
            return Admission::Admit;
        };
        if !self.is_on_guard(method, around) {
            return Admission::Admit;
        }
        let kind = Kind::of(method, request);
        if !around.is_trusted && self.is_above_source_rate(now, around, kind, method, request) {
            return Admission::Ignore;
        }
        if kind == Kind::Begun {
            return Admission::Admit;
        }
        let refused = if self.is_draining && kind.is_refused_while_draining(method) {
            &mut self.statistics.draining
        } else if self.is_above_rate(now) {
            &mut self.statistics.over_rate
        } else if self.is_without_room(kind, around.transactions) {
            &mut self.statistics.over_transactions
        } else if self.is_too_late(kind, around.waited) {
            &mut self.statistics.over_queue_delay
        } else {
            return Admission::Admit;
        };
        *refused += 1;
        self.note_refused(now);
        Admission::Refuse
    }

    /// Whether there is a reason to look at a request more closely: mostly there is none.
    fn is_on_guard(&self, method: &Method, around: &Surroundings) -> bool {
        let may_scan = matches!(method, Method::Options | Method::Register);
        self.is_draining
            || self.by_source.is_some()
            || self.all.is_some()
            || self.queue.is_standing()
            || may_scan && self.unauthenticated.is_some()
            || self.is_without_room(Kind::Begins, around.transactions)
    }

    fn is_above_source_rate(
        &mut self,
        now: Instant,
        around: &Surroundings,
        kind: Kind,
        method: &Method,
        request: &impl Judged,
    ) -> bool {
        if let Some(rate) = &self.by_source
            && *method != Method::Ack
        {
            // What belongs to a dialog may use up as much again: it is not shut out by its own
            // source's new calls.
            let credit = match kind {
                Kind::Begun => rate.whole_burst(),
                _ => 0.0,
            };
            if !self.sources.take(now, around.from, rate, credit) {
                self.statistics.over_source_rate += 1;
                return true;
            }
        }
        let is_a_scan = match method {
            Method::Options => true,
            Method::Register => around.registers_are_challenged,
            _ => false,
        };
        if let Some(rate) = &self.unauthenticated
            && is_a_scan
            && kind != Kind::Begun
            && !request.has_credentials()
            && !self.scanners.take(now, around.from, rate, 0.0)
        {
            self.statistics.scans_ignored += 1;
            return true;
        }
        false
    }

    fn is_above_rate(&mut self, now: Instant) -> bool {
        match &mut self.all {
            Some((rate, bucket)) => {
                let bucket = bucket.get_or_insert_with(|| Bucket::full(now, rate));
                !bucket.take(now, rate, 0.0)
            }
            None => false,
        }
    }

    fn is_without_room(&self, kind: Kind, (transactions, maximum): (usize, usize)) -> bool {
        let reserved =
            maximum / 100 * usize::from(self.policy.reserved_transactions_percent.min(100));
        // Of what is kept from new calls, others outside of a dialog may have half.
        let kept = match kind {
            Kind::Begins => reserved,
            Kind::Alone => reserved / 2,
            Kind::Begun => 0,
        };
        transactions.saturating_add(kept) >= maximum && kept > 0
    }

    /// While a queue stands every new call is refused, and others outside of a dialog where the queue
    /// is so long that refusing calls has not been enough.
    fn is_too_late(&self, kind: Kind, waited: Duration) -> bool {
        self.queue.is_standing()
            && match kind {
                Kind::Begins => true,
                Kind::Alone => waited >= self.policy.queue_delay_target.saturating_mul(OTHERS_WAIT),
                Kind::Begun => false,
            }
    }
}

/// For how long after a refusal its ACK may come: as long as the client's transaction is there to send one
/// again, 64·T1 and more (Timer D, RFC 3261 section 17.1.1.2).
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(33);

/// How many times as long as new calls other requests outside of a dialog may wait.
const OTHERS_WAIT: u32 = 4;

/// What a request has to do with a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It would begin one, or a subscription.
    Begins,
    /// It is outside of any.
    Alone,
    /// It belongs to one, or to a request that was taken.
    Begun,
}

impl Kind {
    fn of(method: &Method, request: &impl Judged) -> Kind {
        match method {
            Method::Ack | Method::Cancel => Kind::Begun,
            _ if request.is_in_dialog() => Kind::Begun,
            Method::Invite | Method::Subscribe | Method::Refer => Kind::Begins,
            _ => Kind::Alone,
        }
    }

    /// A server that drains begins no dialogs, and tells those who probe it with OPTIONS; the rest is
    /// served while it can be.
    fn is_refused_while_draining(self, method: &Method) -> bool {
        self == Kind::Begins || *method == Method::Options
    }
}

#[cfg(test)]
mod tests;
