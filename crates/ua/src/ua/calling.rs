//! Calls of ours until they are answered (RFC 3261 sections 9, 13.2 and 8.1.3.4; RFC 3262 section 4).

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use sip::dialog::Dialog;
use sip::transaction::ClientId;
use sip::user_agent::cancel_of;
use sip::{Contact, Message, Method, Name, Transport, Uri};

use super::sending::{Parked, Purpose};
use super::{SDP, Ua, description};
use crate::call::{Call, Early, Outgoing, Stage};
use crate::description::Description;
use crate::event::{AccountId, CallNumber, EndReason, UaEvent, UnknownCall};
use crate::route::Route;
use crate::session_timer::{LEAST, SessionTimer};

/// Where a request goes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstHop {
    /// Where this URI leads.
    Uri(String),
    /// Along a flow of the account (RFC 5626).
    Flow {
        /// Its transport.
        transport: Transport,
        /// Where it leads.
        remote: SocketAddr,
    },
}

/// Forks of a call that are kept apart.
const MAX_FORKS: usize = 16;
/// Addresses that are called one after the other because the first has sent us there.
const MAX_REDIRECTIONS: u8 = 5;
/// The longest session interval that somebody may ask for, in seconds: a day.
const MAX_INTERVAL: u64 = 86_400;

impl Ua {
    /// Calls a URI with an offer. What becomes of it comes as events.
    pub fn dial(
        &mut self,
        now: Instant,
        account: AccountId,
        to: &str,
        offer: impl Into<Description>,
    ) -> CallNumber {
        self.dial_in_place_of(now, account, to, offer.into(), None, None)
    }

    /// Where the INVITE of a call to a URI would go first; to one after the other, as they fail.
    pub fn first_hops(&self, account: AccountId, to: &str) -> Vec<FirstHop> {
        let Some(known) = self.accounts.get(&account) else {
            return vec![FirstHop::Uri(to.to_owned())];
        };
        let count = known.config.outbound_proxies.len().max(1);
        (0..count)
            .map(|skipped| match known.flow_route(skipped) {
                Some(route) => FirstHop::Flow {
                    transport: route.target.transport(),
                    remote: route.target.remote(),
                },
                None => FirstHop::Uri(known.first_hop(to, skipped).0),
            })
            .collect()
    }

    /// [`dial`](Ua::dial), asked for by another call's transfer: in place of a dialog of the callee, if one is named
    /// (RFC 3891); the call that asked hears how this one gets on.
    pub(super) fn dial_in_place_of(
        &mut self,
        now: Instant,
        account: AccountId,
        to: &str,
        offer: Description,
        replaces: Option<String>,
        reports_to: Option<CallNumber>,
    ) -> CallNumber {
        let number = CallNumber(self.number());
        let outgoing = Outgoing {
            invite: None,
            transaction: None,
            is_proceeding: false,
            is_cancelled: false,
            is_replaced: false,
            given_up_at: None,
            early: Vec::new(),
            redirections: Vec::new(),
            attempts: 1,
            target: to.to_owned(),
            replaces,
            least_interval: None,
            skipped: 0,
            has_moved: false,
            before: None,
        };
        let mut call = Call::new(number, account, Stage::Calling(Box::new(outgoing)));
        call.description = offer.octets;
        call.is_secret = offer.is_secret;
        call.reports_to = reports_to;
        self.calls.insert(number, call);
        self.park_first_hop(now, account, to, 0, Parked::Invite { call: number });
        number
    }

    pub(super) fn send_invite(&mut self, now: Instant, number: CallNumber, route: Route) {
        let interval = self.config.session_interval.max(LEAST).as_secs();
        let Some(call) = self.calls.get(&number) else {
            return;
        };
        let (account, body) = (call.account, call.description.clone());
        let Stage::Calling(outgoing) = &call.stage else {
            return;
        };
        let (target, replaces) = (outgoing.target.clone(), outgoing.replaces.clone());
        let least_interval = outgoing.least_interval;
        let (skipped, before) = (outgoing.skipped, outgoing.before.clone());
        let mut writer = self.writer(account, &route);
        let mut invite = writer.invite(&target);
        self.finish_request(account, &mut invite);
        self.address_request(account, &mut invite, writer.contact(), skipped);
        if let Some(before) = before {
            for name in [Name::From, Name::To, Name::CallId] {
                invite.remove_all(name);
                invite.copy_fields(&before, name);
            }
            let number = before.cseq_number().unwrap_or(0).saturating_add(1);
            invite.replace(Name::CSeq, format!("{number} INVITE"));
        }
        let interval = interval.max(least_interval.unwrap_or(0));
        invite.push_back(Name::SessionExpires, interval.to_string());
        if let Some(least) = least_interval {
            invite.push_back(Name::MinSe, least.to_string());
        }
        if let Some(replaces) = replaces {
            invite.push_back(Name::Replaces, replaces);
        }
        if !body.is_empty() {
            invite = invite.with_body(SDP, body);
        }
        self.send(now, Purpose::Invite(number), account, invite, route, 0);
    }

    /// An INVITE has left; it may be one that came again with credentials.
    pub(super) fn note_invite(
        &mut self,
        purpose: Purpose,
        transaction: ClientId,
        request: &Message,
    ) {
        let Purpose::Invite(number) = purpose else {
            return;
        };
        if let Ok(call) = self.call(number)
            && let Stage::Calling(outgoing) = &mut call.stage
        {
            outgoing.invite = Some(request.clone());
            outgoing.transaction = Some(transaction);
            outgoing.is_proceeding = false;
            outgoing.has_moved = false;
            outgoing.early.clear();
        }
    }

    /// Gives up a call of ours that is not answered.
    pub(super) fn cancel(&mut self, now: Instant, number: CallNumber) -> Result<(), UnknownCall> {
        let call = self.call(number)?;
        let Stage::Calling(outgoing) = &mut call.stage else {
            return Err(UnknownCall);
        };
        if std::mem::replace(&mut outgoing.is_cancelled, true) {
            return Ok(());
        }
        outgoing.redirections.clear();
        match outgoing.transaction {
            // It has not left.
            None => {
                for (_, waiting) in self.parked.values_mut() {
                    waiting.retain(
                        |parked| !matches!(parked, Parked::Invite { call } if *call == number),
                    );
                }
                self.end(now, number, EndReason::Local);
            }
            // Before a provisional response there may be no CANCEL (RFC 3261 section 9.1); it follows the response.
            Some(transaction) if outgoing.is_proceeding => {
                self.send_cancel(now, number, transaction);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// A provisional response to a call of ours.
    pub(super) fn handle_progress(&mut self, now: Instant, number: CallNumber, response: &Message) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        let first = !std::mem::replace(&mut outgoing.is_proceeding, true);
        if outgoing.is_cancelled {
            if let (true, Some(transaction)) = (first, outgoing.transaction) {
                self.send_cancel(now, number, transaction);
            }
            return;
        }
        let (status, reason) = (
            response.status().unwrap_or(100),
            response.reason().unwrap_or_default(),
        );
        let mut body = Bytes::new();
        let mut prack = None;
        if let Some(invite) = &outgoing.invite
            && let Some(dialog) = Dialog::uac(invite, response)
        {
            let known = outgoing
                .early
                .iter_mut()
                .position(|early| early.dialog.remote_tag() == dialog.remote_tag());
            let place = match known {
                Some(place) => place,
                None if outgoing.early.len() < MAX_FORKS => {
                    outgoing.early.push(Early {
                        dialog,
                        rseq: None,
                        has_answer: false,
                    });
                    outgoing.early.len() - 1
                }
                None => return,
            };
            if let Some(early) = outgoing.early.get_mut(place) {
                if let Some(rseq) = rseq(response) {
                    // One that comes again, or comes before its predecessor, is none of news (RFC 3262 section 4).
                    if early.rseq.is_some_and(|last| rseq != last.wrapping_add(1)) {
                        return;
                    }
                    early.rseq = Some(rseq);
                    let mut request = early.dialog.request(Method::Prack);
                    if let Some((cseq, method)) = invite.cseq() {
                        request.push_back(Name::RAck, format!("{rseq} {cseq} {method}"));
                    }
                    prack = Some((early.dialog.next_hop().to_owned(), request));
                }
                body = description(response);
                // Only a reliable one is an answer (RFC 3261 section 13.2.1); of others the last word is the 2xx's.
                early.has_answer |= prack.is_some() && !body.is_empty();
            }
        }
        let account = call.account;
        let reports_to = call.reports_to;
        if let Some((next_hop, request)) = prack {
            let parked = Parked::Written {
                purpose: Purpose::Other,
                account,
                request,
            };
            self.park(now, &next_hop, parked);
        }
        if let Some(reports_to) = reports_to {
            self.report_transfer(now, reports_to, status);
        }
        self.emit(UaEvent::Progress {
            call: number,
            status,
            reason: reason.to_owned(),
            description: body,
        });
    }

    /// The final response to an INVITE of ours that made a call; `request` is that INVITE.
    pub(super) fn handle_invite_final(
        &mut self,
        now: Instant,
        number: CallNumber,
        request: &Message,
        response: &Message,
    ) {
        match response.status().unwrap_or(0) {
            200..300 => self.handle_answer(now, number, request, response),
            300..400 => self.handle_redirection(now, number, response),
            422 => self.handle_interval_too_small(now, number, request, response),
            status => {
                let reason = response.reason().unwrap_or_default();
                self.invite_failed(now, number, status, reason);
            }
        }
    }

    /// Nobody has answered an INVITE, or it could not be sent: it is sent once more if it was lost with an address of ours; else
    /// the next outbound proxy is tried, if there is one (RFC 3665 section 3.4).
    pub(super) fn invite_unanswered(
        &mut self,
        now: Instant,
        number: CallNumber,
        status: u16,
        reason: &str,
    ) {
        let accounts = &self.accounts;
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let proxies = accounts.get(&call.account);
        let proxies = proxies.map_or(0, |account| account.config.outbound_proxies.len());
        if let Stage::Calling(outgoing) = &mut call.stage
            && !outgoing.is_proceeding
        {
            let is_lost = status == 503 && std::mem::take(&mut outgoing.has_moved);
            let has_another = outgoing.skipped + 1 < proxies;
            if !is_lost && has_another {
                outgoing.skipped += 1;
            }
            if is_lost || has_another {
                let target = outgoing.target.clone();
                return self.call_next(now, number, target);
            }
        }
        self.invite_failed(now, number, status, reason);
    }

    /// A call of ours was refused, or failed; the next address it was sent to is called, if there is one.
    pub(super) fn invite_failed(
        &mut self,
        now: Instant,
        number: CallNumber,
        status: u16,
        reason: &str,
    ) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        if outgoing.is_cancelled {
            let reason = outgoing.cancel_reason();
            return self.end(now, number, reason);
        }
        // A 6xx is for everybody (RFC 3261 section 21.6).
        let next = outgoing.redirections.pop().filter(|_| status < 600);
        match next {
            Some(next) => self.call_next(now, number, next),
            None => self.end(
                now,
                number,
                EndReason::Refused {
                    status,
                    reason: reason.to_owned(),
                },
            ),
        }
    }

    /// A 2xx to an INVITE of ours.
    fn handle_answer(
        &mut self,
        now: Instant,
        number: CallNumber,
        request: &Message,
        response: &Message,
    ) {
        let Some(mut dialog) = Dialog::uac(request, response) else {
            return self.invite_failed(now, number, 502, "Bad Gateway");
        };
        dialog.handle_response(response);
        let ack = dialog.ack(request);
        let next_hop = dialog.next_hop().to_owned();
        let Ok(call) = self.call(number) else {
            return;
        };
        let Stage::Calling(outgoing) = &call.stage else {
            return;
        };
        // PRACKs have used numbers of the early dialog.
        let used = outgoing
            .early
            .iter()
            .find(|early| early.dialog.remote_tag() == dialog.remote_tag());
        let has_answer = used.is_some_and(|early| early.has_answer);
        if let Some(early) = used {
            let mut early = early.dialog.clone();
            early.handle_response(response);
            dialog = early;
        }
        let is_cancelled = outgoing.is_cancelled;
        let reason = outgoing.cancel_reason();
        let body = if has_answer {
            Bytes::new()
        } else {
            description(response)
        };
        call.stage = Stage::Up;
        call.invite = Some(request.clone());
        call.dialog = Some(dialog);
        call.timer = SessionTimer::of_response(now, response);
        call.takes_update = takes_update(response);
        let reports_to = call.reports_to;
        if call.description.is_empty() && !body.is_empty() && !is_cancelled {
            // The answer goes into the ACK (RFC 3261 section 13.2.2.4).
            call.unanswered = Some(ack);
        } else {
            let ack = Parked::Ack {
                call: Some(number),
                ack,
            };
            self.park(now, &next_hop, ack);
        }
        if is_cancelled {
            // The CANCEL came too late.
            self.send_bye(now, number);
            return self.end(now, number, reason);
        }
        if let Some(reports_to) = reports_to {
            self.report_transfer(now, reports_to, 200);
        }
        self.emit(UaEvent::Answered {
            call: number,
            description: body,
        });
    }

    /// Answers the offer in the 2xx to a call of ours that was made without one.
    ///
    /// # Errors
    ///
    /// There is no such offer.
    pub fn acknowledge(
        &mut self,
        now: Instant,
        number: CallNumber,
        answer: Bytes,
    ) -> Result<(), UnknownCall> {
        let call = self.call(number)?;
        let ack = call.unanswered.take().ok_or(UnknownCall)?;
        let dialog = call.dialog.as_ref().ok_or(UnknownCall)?;
        let next_hop = dialog.next_hop().to_owned();
        call.description = answer.clone();
        let ack = Parked::Ack {
            call: Some(number),
            ack: ack.with_body(SDP, answer),
        };
        self.park(now, &next_hop, ack);
        Ok(())
    }

    /// A 2xx that came again, or that of a fork that was too slow: the one is acknowledged again, the other is hung up
    /// (RFC 3261 section 13.2.2.4).
    pub(super) fn handle_stray_response(&mut self, now: Instant, response: &Message) {
        let is_answer = response
            .status()
            .is_some_and(|status| (200..300).contains(&status))
            && response
                .cseq()
                .is_some_and(|(_, method)| method == Method::Invite);
        if !is_answer {
            return;
        }
        let of_call = |call: &&Call| {
            call.dialog.as_ref().is_some_and(|dialog| {
                response.call_id() == Some(dialog.call_id())
                    && response.from_tag() == Some(dialog.local_tag())
            })
        };
        let Some(call) = self.calls.values().find(of_call) else {
            return;
        };
        let is_ours = call
            .dialog
            .as_ref()
            .is_some_and(|dialog| dialog.matches(response));
        if is_ours {
            if let Some((ack, route)) = call.ack.clone() {
                let number = call.number;
                self.send_ack(now, Some(number), ack, route);
            }
            return;
        }
        let account = call.account;
        let Some(invite) = call.invite.clone() else {
            return;
        };
        let Some(mut dialog) = Dialog::uac(&invite, response) else {
            return;
        };
        dialog.handle_response(response);
        let (ack, next_hop) = (dialog.ack(&invite), dialog.next_hop().to_owned());
        self.park(now, &next_hop, Parked::Ack { call: None, ack });
        let bye = Parked::Written {
            purpose: Purpose::Other,
            account,
            request: dialog.request(Method::Bye),
        };
        self.park(now, &next_hop, bye);
    }

    /// Sends an ACK to a 2xx; the call remembers it.
    pub(super) fn send_ack(
        &mut self,
        now: Instant,
        number: Option<CallNumber>,
        ack: Message,
        route: Route,
    ) {
        let account = number
            .and_then(|number| self.calls.get(&number))
            .map_or(AccountId(0), |call| call.account);
        let mut with_via = ack.clone();
        let branch = self.transactions.new_branch();
        self.writer(account, &route)
            .push_via(&mut with_via, &branch);
        let (target, peer) = (route.target, route.peer.clone());
        self.transactions
            .send_stateless_to(now, with_via, target, peer);
        if let Some(call) = number.and_then(|number| self.calls.get_mut(&number)) {
            call.ack = Some((ack, route));
        }
    }

    fn send_cancel(&mut self, now: Instant, number: CallNumber, transaction: ClientId) {
        let limit = now + self.config.transactions.t1 * 64;
        if let Ok(call) = self.call(number)
            && let Stage::Calling(outgoing) = &mut call.stage
        {
            outgoing.given_up_at = Some(limit);
        }
        let Some(invite) = self.transactions.sent_request(transaction) else {
            return;
        };
        let Some(route) = self.sent.get(&transaction).map(|sent| sent.route.clone()) else {
            return;
        };
        let cancel = cancel_of(&invite);
        // Its outcome is that of the INVITE (RFC 3261 section 9.1).
        let _ = self
            .transactions
            .send_request_to(now, cancel, route.target, route.peer);
    }

    /// A cancelled call is over after a while, whether the callee has said so or not (RFC 3261 section 9.1).
    pub(super) fn give_up_cancelled(&mut self, now: Instant, number: CallNumber) {
        let Ok(Stage::Calling(outgoing)) = self.call(number).map(|call| &call.stage) else {
            return;
        };
        if outgoing.given_up_at.is_none_or(|limit| limit > now) {
            return;
        }
        let reason = outgoing.cancel_reason();
        if let Some(transaction) = outgoing.transaction {
            self.sent.remove(&transaction);
        }
        self.end(now, number, reason);
    }

    /// A 3xx: its contacts are called, the best ones first (RFC 3261 section 8.1.3.4).
    fn handle_redirection(&mut self, now: Instant, number: CallNumber, response: &Message) {
        let was_secure = self.call(number).is_ok_and(|call| match &call.stage {
            Stage::Calling(outgoing) => is_secure(&outgoing.target),
            Stage::Ringing(_) | Stage::Up => false,
        });
        let mut contacts: Vec<(u16, String)> = response
            .contacts()
            .flatten()
            .filter_map(|contact| match contact {
                Contact::Address(address) => {
                    let uri = Uri::parse(address.uri()).ok()?;
                    let uri = uri.as_sip()?.without_headers().to_owned();
                    // What was called by TLS alone, perhaps with keys in its description, is not called without.
                    (is_secure(&uri) || !was_secure).then(|| (address.q(), uri))
                }
                Contact::All => None,
            })
            .take(usize::from(MAX_REDIRECTIONS))
            .collect();
        // The best one is taken from the end.
        contacts.sort_by_key(|(q, _)| *q);
        if let Ok(call) = self.call(number)
            && let Stage::Calling(outgoing) = &mut call.stage
        {
            outgoing
                .redirections
                .extend(contacts.into_iter().map(|(_, uri)| uri));
        }
        let (status, reason) = (
            response.status().unwrap_or(300),
            response.reason().unwrap_or_default(),
        );
        self.invite_failed(now, number, status, reason);
    }

    /// The session interval was too short for somebody (RFC 4028 section 7.3).
    fn handle_interval_too_small(
        &mut self,
        now: Instant,
        number: CallNumber,
        request: &Message,
        response: &Message,
    ) {
        let least = response
            .header(Name::MinSe)
            .and_then(|value| value.trim().parse::<u64>().ok());
        let asked = request
            .header(Name::SessionExpires)
            .and_then(|value| value.trim().parse::<u64>().ok());
        match (least, asked) {
            (Some(least), Some(asked)) if (asked + 1..=MAX_INTERVAL).contains(&least) => {
                let target = match self.call(number).map(|call| &mut call.stage) {
                    Ok(Stage::Calling(outgoing)) => {
                        outgoing.least_interval = Some(least);
                        outgoing.target.clone()
                    }
                    _ => return,
                };
                self.call_next(now, number, target);
            }
            _ => self.invite_failed(now, number, 422, "Session Interval Too Small"),
        }
    }

    /// Calls another address in place of the one before.
    fn call_next(&mut self, now: Instant, number: CallNumber, target: String) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let account = call.account;
        let Stage::Calling(outgoing) = &mut call.stage else {
            return;
        };
        if outgoing.is_cancelled {
            let reason = outgoing.cancel_reason();
            return self.end(now, number, reason);
        }
        outgoing.attempts += 1;
        if outgoing.attempts > MAX_REDIRECTIONS {
            return self.end(
                now,
                number,
                EndReason::Refused {
                    status: 483,
                    reason: "Too Many Hops".to_owned(),
                },
            );
        }
        outgoing.target.clone_from(&target);
        outgoing.before = outgoing.invite.take().or(outgoing.before.take());
        outgoing.transaction = None;
        let skipped = outgoing.skipped;
        self.park_first_hop(
            now,
            account,
            &target,
            skipped,
            Parked::Invite { call: number },
        );
    }
}

/// Whether a URI is reached by TLS alone (RFC 3261 section 26.2.2).
fn is_secure(uri: &str) -> bool {
    let uri = Uri::parse(uri);
    uri.is_ok_and(|uri| uri.as_sip().is_some_and(|uri| uri.is_secure()))
}

/// The RSeq of a provisional response that is to be acknowledged.
fn rseq(response: &Message) -> Option<u32> {
    let is_reliable = response
        .text_values(Name::Require)
        .any(|option| option.eq_ignore_ascii_case("100rel"));
    is_reliable
        .then(|| response.header(Name::RSeq)?.trim().parse().ok())
        .flatten()
}

/// Whether the sender of a message understands UPDATE (RFC 3311 section 4).
pub(super) fn takes_update(message: &Message) -> bool {
    message
        .text_values(Name::Allow)
        .any(|method| method == Method::Update.as_str())
}
