//! What is refused so that the rest can be served: rates by source and in all, room for transactions,
//! and messages that wait too long for the core.
//!
//! What costs most and can best be done without goes first: requests that would begin a call. Then come
//! others outside of a dialog. Requests within a dialog, their ACKs and CANCELs are never refused for
//! want of time: without them what was begun could not be ended. A tag in To does not make a dialog, or
//! everybody would write one: what shows that it began through us is the mark in its Route (see
//! `dialog_mark`), which every dialog has that did, since all requests that begin one are record-routed.
//!
//! A refusal makes no transaction. Those that a client should come back for are answered 503 with
//! Retry-After (RFC 3261 section 21.5.4); a source above its rate gets no answer, which would only
//! double what it sends.

mod bucket;
mod policy;
mod queue;
mod sources;

use std::cell::LazyCell;
use std::net::IpAddr;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Name, Peek};

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

/// What overload control has refused, and what it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::AddAssign)]
pub struct OverloadStatistics {
    /// Requests refused because all sources together sent more than the rate.
    pub over_rate: u64,
    /// Requests dropped because their source sent more than its rate.
    pub over_source_rate: u64,
    /// OPTIONS and REGISTERs without credentials, attempts at passwords, and what was to be refused, dropped: their source
    /// sent more than its rate.
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
    pub queue_delay: Largest<Duration>,
    /// Now: whether new calls are refused because messages wait too long.
    pub is_overloaded: Largest<bool>,
}

/// A gauge of several workers that is their largest, not their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Largest<T>(pub T);

impl<T: Ord> AddAssign for Largest<T> {
    fn add_assign(&mut self, other: Largest<T>) {
        if other > *self {
            *self = other;
        }
    }
}

/// What is known of a request's surroundings when it is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Where it came from.
    pub(crate) from: IpAddr,
    /// Its source is trusted: no rate of its own.
    pub(crate) is_trusted: bool,
    pub(crate) challenged: Challenged,
    /// How long it waited for the core.
    pub(crate) waited: Duration,
    /// Server transactions that are in progress, and may be.
    pub(crate) transactions: (usize, usize),
}

/// What has to bring credentials from where a request came from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Challenged {
    pub(crate) registers: bool,
    /// Other requests, too.
    pub(crate) calls: bool,
    /// And those within dialogs.
    pub(crate) in_dialogs: bool,
}

/// What can be found out about a request, but takes longer than a glance: it is only where something depends on it.
pub(crate) struct LazyChecks<'a> {
    /// Whether the dialog that it names began through us.
    pub(crate) is_of_our_dialog: &'a dyn Fn() -> bool,
    /// Whether its credentials are for a nonce that we have given out, be it too old by now.
    pub(crate) has_nonce_of_ours: &'a dyn Fn() -> bool,
}

/// A request, as far as it is judged by what it says.
pub(crate) trait AdmissionRequest {
    /// Its method; `None` for what is no request.
    fn method(&self) -> Option<&Method>;
    /// Whether it says that it belongs to a dialog: To has a tag.
    fn is_in_dialog(&self) -> bool;
    /// Whether it has credentials.
    fn has_credentials(&self) -> bool;
}

impl AdmissionRequest for Message {
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

impl AdmissionRequest for Peek<'_> {
    fn method(&self) -> Option<&Method> {
        Some(Peek::method(self))
    }

    fn is_in_dialog(&self) -> bool {
        self.to_tag().is_some()
    }

    fn has_credentials(&self) -> bool {
        Peek::has_credentials(self)
    }
}

/// Overload control of one core.
#[derive(Debug)]
pub(crate) struct OverloadControl {
    policy: OverloadPolicy,
    all: Option<(Rate, Option<Bucket>)>,
    by_source: Option<Rate>,
    sources: Sources,
    unauthenticated: Option<Rate>,
    scanners: Sources,
    /// Sources that are not proved, and whose requests were refused. A scanner beside them does not shut them out.
    refused_sources: Sources,
    queue: QueueDelay,
    is_draining: bool,
    /// When a request was refused last.
    refused: Option<Instant>,
    statistics: OverloadStatistics,
}

impl OverloadControl {
    pub(crate) fn new(policy: &OverloadPolicy, rng: &mut ChaCha12Rng) -> OverloadControl {
        let mut table = || {
            let state = RandomState::with_seeds(
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
                rng.next_u64(),
            );
            Sources::new(state, policy.maximum_sources)
        };
        let mut control = OverloadControl {
            sources: table(),
            scanners: table(),
            refused_sources: table(),
            policy: policy.clone(),
            all: None,
            by_source: None,
            unauthenticated: None,
            queue: QueueDelay::default(),
            is_draining: false,
            refused: None,
            statistics: OverloadStatistics::default(),
        };
        control.set_policy(policy);
        control
    }

    /// Exchanges the settings. What sources have saved up stays, within the new bounds.
    pub(crate) fn set_policy(&mut self, policy: &OverloadPolicy) {
        let rate = |per_second: Option<u32>| per_second.map(|rate| Rate::new(rate, policy.burst));
        self.all = rate(policy.requests_per_second).map(|rate| (rate, None));
        self.by_source = rate(policy.requests_per_second_per_source);
        self.unauthenticated = rate(policy.unauthenticated_per_second_per_source);
        self.sources.set_maximum(policy.maximum_sources);
        self.scanners.set_maximum(policy.maximum_sources);
        self.refused_sources.set_maximum(policy.maximum_sources);
        self.policy = policy.clone();
    }

    /// From now on nothing begins any more.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(crate) fn statistics(&self) -> OverloadStatistics {
        OverloadStatistics {
            sources: [&self.sources, &self.scanners, &self.refused_sources]
                .map(Sources::len)
                .into_iter()
                .max()
                .unwrap_or(0) as u64,
            queue_delay: Largest(self.queue.waited()),
            is_overloaded: Largest(self.queue.is_standing()),
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

    /// Takes notice of whether the credentials of a request from a source that is not trusted are right.
    ///
    /// An OPTIONS or REGISTER outside of our dialogs has been counted when it was [judged](OverloadControl::judge), any other
    /// request when it was challenged; it counts once more now, if its credentials are wrong.
    pub(crate) fn note_credentials(
        &mut self,
        now: Instant,
        from: IpAddr,
        method: &Method,
        is_in_dialog: bool,
        are_right: bool,
    ) {
        let Some(rate) = &self.unauthenticated else {
            return;
        };
        let is_counted = matches!(method, Method::Options | Method::Register) && !is_in_dialog;
        match (is_counted, are_right) {
            (true, true) => self.scanners.give_back(now, from, rate),
            // Its challenge has counted.
            (false, true) => self.refused_sources.give_back(now, from, rate),
            (false, false) => {
                // Deeper than what is let in: others may be under way.
                let deepest = 2.0 * attempts(rate);
                self.scanners.owe(now, from, rate, deepest);
            }
            (true, false) => {}
        }
    }

    /// Whether a request from a source that is not proved may be refused, which counts. Beyond the rate it is not
    /// answered: what answers draw on somebody else whose address was forged is bounded.
    pub(crate) fn take_refusal(&mut self, now: Instant, from: IpAddr) -> bool {
        let Some(rate) = &self.unauthenticated else {
            return true;
        };
        let may = self.refused_sources.take(now, from, rate, 0.0);
        self.statistics.scans_ignored += u64::from(!may);
        may
    }

    /// Judges a request, the cheapest tests first.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        request: &impl AdmissionRequest,
        around: &Conditions,
        proofs: &LazyChecks<'_>,
    ) -> Admission {
        let Some(method) = request.method() else {
            return Admission::Admit;
        };
        if !self.is_on_guard(method, around) {
            return Admission::Admit;
        }
        let is_begun = LazyCell::new(|| match method {
            Method::Ack | Method::Cancel => true,
            _ => request.is_in_dialog() && (proofs.is_of_our_dialog)(),
        });
        if !around.is_trusted
            && (self.is_above_source_rate(now, around, method, || *is_begun)
                || self.is_scan_above_rate(now, around, request, || *is_begun, proofs))
        {
            return Admission::Ignore;
        }
        if !self.may_refuse(around) || *is_begun {
            return Admission::Admit;
        }
        let kind = Kind::of(method);
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
    fn is_on_guard(&self, method: &Method, around: &Conditions) -> bool {
        let may_scan = matches!(method, Method::Options | Method::Register);
        self.by_source.is_some()
            || (may_scan || around.challenged.calls) && self.unauthenticated.is_some()
            || self.may_refuse(around)
    }

    /// Whether there is a reason to refuse what can best be done without.
    fn may_refuse(&self, around: &Conditions) -> bool {
        self.is_draining
            || self.all.is_some()
            || self.queue.is_standing()
            || self.is_without_room(Kind::Begins, around.transactions)
    }

    fn is_above_source_rate(
        &mut self,
        now: Instant,
        around: &Conditions,
        method: &Method,
        is_begun: impl Fn() -> bool,
    ) -> bool {
        let Some(rate) = self.by_source.as_ref().filter(|_| *method != Method::Ack) else {
            return false;
        };
        let mut take = |credit| self.sources.take(now, around.from, rate, credit);
        // What belongs to a dialog may use up as much again: it is not shut out by its own source's
        // new calls.
        let is_taken = take(0.0) || is_begun() && take(rate.whole_burst());
        self.statistics.over_source_rate += u64::from(!is_taken);
        !is_taken
    }

    /// Whether a request is a scanner's, or one more attempt at a password, and its source has sent too many of them.
    ///
    /// All OPTIONS and REGISTERs count; those whose credentials turn out to be right are
    /// [given back](OverloadControl::note_credentials). When the rate is used up, those go on that may turn out to be right, since
    /// they answer a challenge of ours: a phone that knows its password is not shut out by a scanner at the same address.
    /// But so many of them as are wrong count on, and then such as these are not taken either.
    fn is_scan_above_rate(
        &mut self,
        now: Instant,
        around: &Conditions,
        request: &impl AdmissionRequest,
        is_begun: impl Fn() -> bool,
        proofs: &LazyChecks<'_>,
    ) -> bool {
        let (Some(rate), Some(method)) = (&self.unauthenticated, request.method()) else {
            return false;
        };
        let (scanners, from) = (&mut self.scanners, around.from);
        let Challenged {
            registers,
            calls,
            in_dialogs,
        } = around.challenged;
        let is_counted = match method {
            Method::Options => true,
            Method::Register => registers,
            _ => false,
        };
        let is_above = if is_counted && !is_begun() {
            let may_be_right = || request.has_credentials() && (proofs.has_nonce_of_ours)();
            let is_taken = scanners.take(now, from, rate, 0.0)
                || may_be_right() && scanners.take(now, from, rate, attempts(rate));
            !is_taken
        } else {
            // Neither ACK nor CANCEL is challenged (RFC 3261 section 22.1).
            calls
                && !matches!(method, Method::Ack | Method::Cancel)
                && request.has_credentials()
                && !scanners.has_one(now, from, rate, attempts(rate))
                && (in_dialogs || !is_begun())
                && (proofs.has_nonce_of_ours)()
        };
        self.statistics.scans_ignored += u64::from(is_above);
        is_above
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
            }
    }
}

/// For how long after a refusal its ACK may come: as long as the client's transaction is there to send one
/// again, 64·T1 and more (Timer D, RFC 3261 section 17.1.1.2).
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(33);

/// How many wrong answers to our challenges are taken at once, when the rate is used up by others. So many
/// requests that will turn out to be right may be under way, too.
fn attempts(rate: &Rate) -> f64 {
    5.0 * rate.whole_burst()
}

/// How many times as long as new calls other requests outside of a dialog may wait.
const OTHERS_WAIT: u32 = 4;

/// What a request that belongs to no dialog of ours has to do with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It would begin one, or a subscription.
    Begins,
    /// It is outside of any.
    Alone,
}

impl Kind {
    fn of(method: &Method) -> Kind {
        match method {
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
