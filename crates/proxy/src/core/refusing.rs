//! Refusing: what is done for a request for which nothing is to be done, which has to cost next to nothing.
//!
//! While there is too much to do, most of what comes are requests to be refused and the ACKs to their refusals. If each of
//! them took as long as a request that is served, no time would be left for these. So they are seen at a glance, from
//! their octets; what is not refused is read after that, as always.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::transaction::note_source;
use sip::{Flow, Glance, Message, Method, Name, Violation};

use super::Proxy;
use super::overload::{Admission, Challenged, Judged, Proofs, Surroundings};
use super::rejection::Rejection;
use super::route;
use crate::text::decimal;

/// What a request is refused with for which there is no time (RFC 3261 section 21.5.4).
const OVERLOADED: Violation = Violation {
    status: 503,
    reason: "Service Unavailable",
};

impl Proxy {
    /// Whether requests are being refused, so that [`accept_octets`](Proxy::accept_octets) is worth its while.
    pub fn is_refusing(&self, now: Instant) -> bool {
        self.defence.may_be_acknowledged(now)
    }

    /// [`accept_message`](Proxy::accept_message) for a message that nobody has read yet: an INVITE or an ACK that came as
    /// a datagram, and is likely to be refused.
    pub fn accept_octets(&mut self, now: Instant, waited: Duration, flow: Flow, octets: Bytes) {
        // Who is dropped for what else his requests say is found out by reading it.
        let drops = &self.policy.routing.drop;
        let glance = match drops.user_agents.is_empty() {
            true => Glance::of(&octets),
            false => None,
        };
        // Whether the dialog of one that names one is ours is found out by reading it.
        let glance =
            glance.filter(|request| *request.method() == Method::Ack || request.to_tag().is_none());
        let mut admission = None;
        if let Some(request) = glance {
            if drops.has_address(flow.remote.ip()) {
                self.statistics.dropped_addresses += 1;
                return;
            }
            self.defence.note_waited(now, waited);
            let whole = || Message::read(octets.clone()).ok().map(Cow::Owned);
            let judged = self.judge(now, waited, &flow, (&request, &whole));
            let is_served = match judged {
                Admission::Ignore => false,
                Admission::Refuse if !self.transactions.knows_at_a_glance(&request) => {
                    self.refuse_at_a_glance(flow, &request);
                    false
                }
                Admission::Refuse | Admission::Admit => !self.is_for_nobody(now, &request),
            };
            if !is_served {
                return;
            }
            admission = Some(judged);
        }
        match (Message::read_or_return(octets), admission) {
            (Ok(message), Some(admission)) => self.accept_judged(now, flow, message, admission),
            (Ok(message), None) => self.accept_message(now, waited, flow, message),
            (Err((_, octets)), _) => self.handle_malformed(now, flow, octets),
        }
    }

    /// Judges a request by itself and by what is known besides. `whole` reads it where that has to be done.
    pub(super) fn judge<'a>(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: &Flow,
        (request, whole): (&impl Judged, &dyn Fn() -> Option<Cow<'a, Message>>),
    ) -> Admission {
        let authentication = &self.policy.authentication;
        let is_asked = (authentication.register || authentication.calls)
            && !authentication.is_exempt(flow.remote.ip());
        let around = Surroundings {
            from: flow.remote.ip(),
            is_trusted: self.is_trusted(flow),
            challenged: Challenged {
                registers: is_asked && authentication.register,
                calls: is_asked && authentication.calls,
                in_dialogs: is_asked && authentication.in_dialogs,
            },
            waited,
            transactions: (
                self.transactions.server_transactions(),
                self.transaction_config.max_transactions,
            ),
        };
        let dialogs = &self.dialogs;
        let own = route::Own {
            identity: &self.identity,
            tokens: &self.tokens,
            known: &self.known_routes,
            marks: &dialogs.marks,
        };
        let lifetime = self.policy.forwarding.dialog_lifetime;
        let proofs = Proofs {
            is_of_our_dialog: &|| {
                whole()
                    .is_some_and(|request| dialogs.have_as_received(request, flow, own, lifetime))
            },
            has_nonce_of_ours: &|| {
                whole().is_some_and(|request| self.authentication.has_nonce_of_ours(&request))
            },
        };
        self.defence.judge(now, request, &around, &proofs)
    }

    /// Refuses a request for which nothing is to be done, and makes no transaction of it. It may break
    /// any rule: nobody has looked.
    pub(super) fn refuse_statelessly(&mut self, now: Instant, flow: Flow, mut request: Message) {
        self.statistics.refused += 1;
        note_source(&mut request, &flow);
        let Some(mut response) = Message::rejection(&request, &OVERLOADED) else {
            return;
        };
        response.push_back(Name::RetryAfter, self.retry_after());
        let response = self.tagged(response);
        self.transactions.respond_stateless(now, flow, response);
    }

    /// Whether a message is an ACK to a response that was sent without a transaction, to refuse a call:
    /// it is for nobody.
    pub(super) fn acknowledges_refusal(&mut self, now: Instant, message: &Message) -> bool {
        if message.method() != Some(&Method::Ack) || !self.defence.may_be_acknowledged(now) {
            return false;
        }
        self.has_our_tag(message) && !self.transactions.knows(message)
    }

    /// Answers a request for which there was no room among the transactions.
    pub(super) fn answer_overloaded(&mut self, now: Instant, flow: Flow, request: &Message) {
        self.statistics.refused += 1;
        self.defence.note_refused(now);
        let response = self.tagged(self.overloaded().response(request));
        self.transactions.respond_stateless(now, flow, response);
    }

    /// [`refuse_statelessly`](Proxy::refuse_statelessly) for a request that was seen at a glance. It is no ACK: what
    /// belongs to a dialog is never judged so.
    fn refuse_at_a_glance(&mut self, flow: Flow, request: &Glance<'_>) {
        self.statistics.refused += 1;
        let tag = self.tag_of(Some(request.call_id()), Some(request.cseq_number()));
        let mut fields = String::with_capacity(32);
        fields.push_str("Retry-After: ");
        fields.push_str(&self.retry_after());
        fields.push_str("\r\n");
        self.transactions.refuse(
            flow,
            request,
            "503 Service Unavailable",
            tag.as_str(),
            &fields,
        );
    }

    /// [`acknowledges_refusal`](Proxy::acknowledges_refusal) for a request that was seen at a glance.
    fn is_for_nobody(&mut self, now: Instant, request: &Glance<'_>) -> bool {
        if *request.method() != Method::Ack || !self.defence.may_be_acknowledged(now) {
            return false;
        }
        let tag = request.to_tag().filter(|tag| tag.len() == OUR_TAG);
        tag.is_some_and(|tag| {
            let ours = self.tag_of(Some(request.call_id()), Some(request.cseq_number()));
            tag == ours.as_str()
        }) && !self.transactions.knows_at_a_glance(request)
    }

    /// Why a request is refused for which there is no room now.
    pub(super) fn overloaded(&self) -> Rejection {
        Rejection::overloaded(self.retry_after())
    }

    /// After how many seconds a client that is refused may come back (RFC 3261 section 20.33).
    fn retry_after(&self) -> String {
        let seconds = self.defence.retry_after().as_secs().max(1);
        decimal(u32::try_from(seconds).unwrap_or(u32::MAX))
    }
}

/// How long our tags are.
pub(super) const OUR_TAG: usize = 16;
